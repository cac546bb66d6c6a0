"""The user's Triton kernels in a stored graph, by their numbers in another process."""

from __future__ import annotations

import pytest
import torch.fx

from nbcompile import torch_internals
from nbcompile.capture.literals import NotStorable
from nbcompile.capture.resolution import Scope
from nbcompile.capture.source import GlobalSource
from nbcompile.capture.trace import Assumptions
from nbcompile.fast.disk_cache import captured, kernel_table
from nbcompile.fast.disk_cache.addresses import SourceWriter
from nbcompile.fast.disk_cache.kernel_table import KernelTable
from nbcompile.guarding.accessors import SourceCache


def test_a_launch_of_a_triton_kernel_gets_the_numbers_that_this_process_gives():
    """Numbers in torch's table of kernels differ between processes, so they are translated."""
    launches = torch_internals.triton_kernel_wrap()
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    named = {
        "kernel_idx": 70, "constant_args_idx": 80, "grid": [(1, 1, 1)], "tma_descriptor_metadata": {}, "kwargs": {"x": x},
    }  # fmt: skip
    graph.call_function(launches.triton_kernel_wrapper_mutation, (), named)
    graph.output((x,))
    kernel, constants = object(), {"BLOCK": 128}
    told = captured.write(torch.fx.GraphModule({}, graph))
    module = captured._module(
        told["nodes"], [launches.triton_kernel_wrapper_mutation], KernelTable({70: kernel}, {80: constants})
    )
    (node,) = (node for node in module.graph.nodes if node.op == "call_function")
    table = launches.kernel_side_table
    assert table.get_kernel(node.kwargs["kernel_idx"]) is kernel
    assert table.get_constant_args(node.kwargs["constant_args_idx"]) is constants


def written(constants: dict[str, object], **names: object) -> tuple[list, SourceCache, SourceWriter]:
    """The table of a trace that launched the global ``scale`` with these constants."""
    known = SourceCache(Scope((lambda: 0).__code__, {}, names, {}))
    table = SourceWriter(known)
    assumed = Assumptions(kernels={3: GlobalSource("scale")}, launch_constants={5: constants})
    return kernel_table.write(assumed, table), known, table


def test_a_table_has_what_is_at_the_address_of_a_kernel_now():
    """The kernel is read from its source; Triton's types and literals are restored."""
    tl = pytest.importorskip("triton.language", reason="Triton is an extra (nbcompile[cuda])")
    constants = {"BLOCK": 128, "factor": -0.0, "TYPE": tl.float16, "flag": True}
    data, known, _ = written(constants, scale="a kernel")
    kernel, found = kernel_table.read(data, [GlobalSource("scale")], known)(3, 5)
    assert kernel == "a kernel"
    assert repr(found) == repr(constants)
    assert found["TYPE"] == tl.float16


def test_a_constant_of_this_process_is_not_stored():
    """A value without a literal has no meaning in another process."""
    with pytest.raises(NotStorable, match="a value of type object"):
        written({"BLOCK": object()}, scale="a kernel")
