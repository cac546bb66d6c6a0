"""The stage around torch's AOTAutograd: the choice of a wrapper, graphs that are rejected, the compilers' programs."""

from __future__ import annotations

import types

import pytest
import torch
import torch.fx
import torch.nn.functional as F
from torch.testing._internal.two_tensor import TwoTensor

import nbcompile
from nbcompile import torch_internals
from nbcompile.aot import aot_autograd, runtime_wrapper
from nbcompile.aot.compilers import Compilers
from nbcompile.aot.decompositions import default_table, of_some_dtypes
from nbcompile.aot.eager_fallback import NeedsEagerFallback
from nbcompile.ir import compiled_artifact
from tests.support.captured import capture, copies, fake_examples


class Programs:
    """Compilers that run graphs unchanged, and record each graph under its role."""

    def __init__(self):
        self.graphs = {}
        self.joint = []

    def compilers(self):
        return Compilers(
            *(self.compiler(role) for role in ("forward", "backward", "inference")), on_joint_graph=self.joint.append
        )

    def compiler(self, role):
        def compile_one(graph, examples):
            self.graphs[role] = graph

            def program(arguments):
                given = list(arguments)
                arguments.clear()
                return graph(*given)

            program._boxed_call = True  # torch's own wrapper reads this attribute
            return program

        return compile_one


def compiled(function, *inputs, recompute=True, mutate_in_graph=True):
    """The compiled function of a captured one, its programs by role, and the collected artifact."""
    captured = capture(function, inputs)
    programs = Programs()
    with compiled_artifact.collecting() as artifact:
        run = aot_autograd.compile_with_aot_autograd(
            captured.module, fake_examples(captured.inputs), programs.compilers(), default_table(), recompute,
            mutate_in_graph,
        )  # fmt: skip
    return run, programs, artifact


def leaf(*size):
    return torch.randn(size, requires_grad=True)


@pytest.mark.parametrize(("function", "inputs", "wrapper"), [
    (lambda x: x.sin() + 1, (torch.randn(3),), "direct"),
    (lambda x: x.add_(1), (torch.randn(3),), "inference"),
    (lambda x: (x.sin() * x).sum(), (leaf(3),), "training"),
], ids=["inference", "writes", "trains"])  # fmt: skip
def test_a_graph_gets_the_cheapest_wrapper_that_does(function, inputs, wrapper):
    """An inference graph without mutation has no wrapper, other graphs have ours; results and gradients are eager's."""
    run, programs, artifact = compiled(function, *inputs)
    assert artifact.wrapper_kind == wrapper and not artifact.obstacle
    assert set(programs.graphs) == ({"forward", "backward"} if wrapper == "training" else {"inference"})
    ours, theirs = copies(inputs), copies(inputs)
    (found,), expected = run(*ours), function(*theirs)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(ours, theirs)
    if wrapper == "training":
        found.backward()
        expected.backward()
        torch.testing.assert_close(ours[0].grad, theirs[0].grad)


def test_the_joint_graph_is_shown_before_it_is_cut():
    """The compilers get the joint graph once, with the operators of both halves."""
    _, programs, _ = compiled(lambda x: x.sin().sum(), leaf(3))
    (joint,) = programs.joint
    names = {node.name for node in joint.graph.nodes}
    assert {"sin", "cos"} <= names


def test_without_recomputation_the_forward_saves_what_eager_mode_saves():
    """With recomputation, the forward graph saves only one value: cheap values are recomputed in the backward graph."""

    def function(x):
        return (x.sin().exp() * 2).cos().sum()

    saved = []
    for recompute in (False, True):
        _, programs, _ = compiled(function, leaf(3), recompute=recompute)
        saved.append(len(programs.graphs["forward"].graph.output_node().args[0]) - 1)
    assert saved[1] <= saved[0] and saved[1] == 1


def test_a_write_that_changes_sizes_is_left_to_eager_mode():
    """A graph that transposes its input in place falls back: AOTAutograd would set the strides of its own result."""
    with pytest.raises(NeedsEagerFallback, match="changes the sizes or strides of an input"):
        compiled(lambda x: x.t_() + 1, torch.randn(2, 3))


def test_a_subclass_is_what_aotautograd_flattens():
    """A wrapper subclass that AOTAutograd flattens counts as a subclass; a parameter does not."""
    x = TwoTensor(torch.randn(3), torch.randn(3))
    assert aot_autograd.is_subclass(x)
    assert not any(map(aot_autograd.is_subclass, (torch.ones(2), 3, torch.nn.Parameter(torch.ones(2)))))


def metadata(**other):
    """AOTAutograd's metadata of a graph that needs no wrapper."""
    plain = {
        "num_mutated_inp_runtime_indices": 0, "num_outputs_aliased": 0, "num_intermediate_bases": 0,
        "grad_enabled_mutation": None, "dynamic_outputs": False, "tokens": {}, "mutated_graph_handled_indices": [],
    }  # fmt: skip
    return types.SimpleNamespace(**{**plain, **other})


@pytest.mark.parametrize("other", [
    {"num_mutated_inp_runtime_indices": 1}, {"num_outputs_aliased": 1}, {"num_intermediate_bases": 1},
    {"grad_enabled_mutation": True}, {"dynamic_outputs": True}, {"tokens": {"print": 1}},
    {"mutated_graph_handled_indices": [0]},
], ids=str)  # fmt: skip
def test_each_part_of_the_metadata_asks_for_a_wrapper(monkeypatch, other):
    """A graph needs a wrapper if any of these fields is set; without one, arguments and results pass unchanged."""
    monkeypatch.setattr(torch_internals, "waits_for_collectives", lambda found: False)
    module = torch.fx.symbolic_trace(lambda x: (x + 1,))
    assert aot_autograd._needs_no_wrapper(metadata(), module, [torch.ones(2)])
    assert not aot_autograd._needs_no_wrapper(metadata(**other), module, [torch.ones(2)])
    assert not aot_autograd._needs_no_wrapper(None, module, [torch.ones(2)])
    with torch.autocast("cpu"):
        assert not aot_autograd._needs_no_wrapper(metadata(), module, [torch.ones(2)])


def test_donated_memory_is_not_donated():
    """Saved tensors are not donated by default: our backward graphs do not write to them. A graph may be retained."""
    info = types.SimpleNamespace(mutates_metadata=False, mutates_data=False)
    found = types.SimpleNamespace(bw_donated_idxs=[1], input_info=[info])
    assert not runtime_wrapper.donation_is_requested()
    assert aot_autograd._mutated_inputs(found, [torch.ones(2)]) == []
    assert found.bw_donated_idxs == []
    assert aot_autograd._mutated_inputs(None, [torch.ones(2)]) == []


def test_an_interrupt_and_the_grad_mode_are_kept():
    """Compiling a graph leaves the grad mode of the caller as it was."""
    before = torch.is_grad_enabled()
    compiled(lambda x: (x.sin() * x).sum(), leaf(3))
    assert torch.is_grad_enabled() is before


DEPENDS_ON_DTYPE = {
    "softshrink": (lambda x: F.softshrink(x, 0.3), torch.bfloat16),
    "bicubic": (lambda x: F.interpolate(x, size=(14, 5), mode="bicubic"), torch.uint8),
    "bicubic_scaled": (lambda x: F.interpolate(x, scale_factor=1.7, mode="bicubic"), torch.uint8),
}


@pytest.mark.compiles
@pytest.mark.parametrize("name", DEPENDS_ON_DTYPE)
def test_a_decomposition_for_some_dtypes_is_not_forestalled(name):
    """An operator that torch's Python dispatcher decomposes has eager's result where the table says so."""
    program, dtype = DEPENDS_ON_DTYPE[name]
    x = (torch.rand(1, 3, 9, 256, generator=torch.Generator().manual_seed(0)) * 255).to(dtype)
    x = x / 425 if dtype.is_floating_point else x
    kernels = {operator: dict(operator.py_kernels) for operator in of_some_dtypes()}
    with nbcompile.config.patch(reference=True):
        assert torch.equal(nbcompile.compile(program, fullgraph=True)(x), program(x))
    assert kernels == {operator: dict(operator.py_kernels) for operator in of_some_dtypes()}
