"""Modules of torch that are imported when they are first needed, and questions to them."""

from __future__ import annotations

import linecache

import pytest
import torch

from nbcompile.torch_internals import modules


@pytest.mark.parametrize(
    ("operator", "expected"),
    [(torch.ops.aten._assert_async.default, True), (torch.ops.aten._linalg_check_errors.default, True), (torch.ops.aten.add.Tensor, False)],
    ids=str,
)  # fmt: skip
def test_operators_with_an_effect(operator, expected):
    """Those that raise what they find are never left out; one that computes may be."""
    assert modules.has_effect(operator) is expected


def test_names_of_shape_guards_can_be_called():
    """A function of SymPy's is imported at its call, and answers as torch's."""
    names = modules.shape_guard_names()
    assert {"math", "torch"} < set(names)
    assert names["cast_symbool_to_symint_guardless"](True) == 1


def test_a_stored_launch_is_a_launch():
    """The operator of a stored graph is one, and no other function."""
    assert modules.is_kernel_launch(modules.STORED_LAUNCH)
    assert not modules.is_kernel_launch(torch.add)


def test_a_scripted_function_is_that_of_its_original():
    """``torch.jit.script`` of the same function is the same; of another one it is not."""

    def one(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    def other(x: torch.Tensor) -> torch.Tensor:
        return x + 2

    scripted = torch.jit.script(one)
    assert modules.is_scripted(one, scripted)
    assert not modules.is_scripted(other, scripted)


def test_a_graph_as_a_module_computes_what_the_graph_says():
    """Its Python code is made when it is first called; its text goes with the code."""
    graph = torch.fx.Graph()
    graph.output(graph.call_method("add", (graph.placeholder("x"), 1)))
    module = modules.as_module(graph)
    assert torch.equal(module(torch.ones(2)), torch.full((2,), 2.0))
    modules.free_text_with(module)
    name = module.forward.__code__.co_filename
    assert name in linecache.cache
    modules._free_text(name)
    assert name not in linecache.cache


def test_sizes_that_only_the_run_knows():
    """An unbacked symbol has one; a number and a tensor of known sizes have none."""
    shape_env = modules.symbolic_shapes().ShapeEnv()
    assert modules.has_unbacked_symbols(shape_env.create_unbacked_symint())
    assert not modules.has_unbacked_symbols(3)
    assert not modules.has_unbacked_symbols(torch.ones(2))


def test_the_writes_of_a_kernel_are_asked_for_inside_alone():
    """Inside, ``find`` answers in the place of torch's own analysis, which is there again afterwards."""
    before = modules.triton_kernel_wrap().get_mutated_tensors
    with modules.writes_of_kernels(lambda kernel, constants, arguments: [f"{kernel}{constants}"]):
        assert modules.triton_kernel_wrap().get_mutated_tensors(1, 2, {}, None) == ["12"]
    assert modules.triton_kernel_wrap().get_mutated_tensors is before
