"""Launches of kernels that were written for a node: arguments, layouts and mutated buffers."""

from __future__ import annotations

import torch
from torch import fx

from nbcompile.ir import buffer as ir
from nbcompile.ir.index import indices
from nbcompile.ir.layout import Layout, contiguous
from nbcompile.ir.written_kernel import WrittenKernel
from nbcompile.lowering.builder import Builder
from nbcompile.lowering.kernel_launches import add_launch

KERNEL = WrittenKernel("triton_thing", "text", ("left", "right", "out"), 4, 4, 3)


def launched(*written, strides=(3, 1)):
    """A builder with three inputs, and the launch over them."""
    build = Builder()
    build.node = fx.Graph().placeholder("the_node")
    build.node.meta["val"] = torch.ones(2, 3)
    given = {}
    for at, name in enumerate(("out", "right", "left")):  # in another order than that of the kernel
        build.add(ir.GraphInput(f"in_{name}", torch.float32, torch.device("cpu"), contiguous(indices((2, 3))), at))
        given[name] = (build.whole(f"in_{name}"), Layout(indices((2, 3)), indices(strides)))
    add_launch(build, KERNEL, given, written, "because")
    return build, build.buffers[-1]


def test_arguments_are_in_the_kernels_order():
    """The arguments are in the kernel's order; the launch has a name, and the reason."""
    _, launch = launched("out")
    assert isinstance(launch, ir.Extern) and launch.target is KERNEL
    assert [view.buffer for view in launch.args] == ["in_left", "in_right", "in_out"]
    assert launch.reason == "because" and launch.name.startswith("triton_thing")


def test_what_the_kernel_writes_is_mutated_and_nothing_else():
    """The launch mutates exactly the buffers of the parameters that the kernel writes."""
    assert launched("out")[1].mutates == ("in_out",)
    assert launched("left", "out")[1].mutates == ("in_left", "in_out")


def test_an_argument_in_another_layout_is_copied():
    """An argument with another layout than the kernel's is stored in that layout first."""
    build, launch = launched("out", strides=(1, 2))
    assert [view.buffer for view in launch.args][:2] != ["in_left", "in_right"]
    assert all(tuple(view.layout.stride) == tuple(indices((1, 2))) for view in launch.args)
    assert len(build.buffers) > 4


def test_two_launches_have_two_names():
    """Two launches of one kernel are two buffers with different names."""
    build, first = launched("out")
    again = {name: (build.whole(f"in_{name}"), contiguous(indices((2, 3)))) for name in KERNEL.parameters}
    add_launch(build, KERNEL, again, ["out"], "because")
    assert build.buffers[-1].name != first.name
