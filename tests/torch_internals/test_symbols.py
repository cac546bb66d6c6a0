"""Symbolic sizes and numbers."""

from __future__ import annotations

import pytest
import torch

from nbcompile import torch_internals
from nbcompile.torch_internals import symbols
from nbcompile.torch_internals.symbols import NamedSource, SymbolicDim


@pytest.fixture
def shape_env():
    return torch_internals.symbolic_shapes().ShapeEnv()


def test_a_source_is_its_expression():
    """Equal texts are equal sources; an attribute has its owner's text in front."""
    source = NamedSource("L['x']")
    assert source == NamedSource("L['x']") != NamedSource("L['y']")
    assert hash(source) == hash(NamedSource("L['x']"))
    assert source.of_attribute("grad") == NamedSource("L['x'].grad")
    assert source.name == "L['x']"


def test_an_int_of_the_frame_has_its_value_as_example(shape_env):
    """The example is read without a guard; the symbol is named in the frame's facts."""
    number = symbols.symbolic_int(shape_env, 7, "L['n']")
    assert symbols.example_of(number) == 7
    assert list(symbols.example_symbols(number).values()) == [7]
    assert not symbols.is_unbacked(number)
    (facts,) = symbols.symbol_facts(shape_env).values()
    assert facts[:2] == (("L['n']",), "7")
    assert shape_env.guards == []


def test_a_number_that_only_the_run_knows_has_no_example(shape_env):
    """What stands in for it is given by the caller."""
    number = shape_env.create_unbacked_symint()
    assert symbols.is_unbacked(number)
    assert symbols.example_of(number, 5) == 5
    assert symbols.example_symbols(number) == {}


def test_a_float_of_the_frame_is_found_by_its_prefix(shape_env):
    """An int is none, nor is a frame without symbols."""
    assert not symbols.has_symbolic_floats(None)
    symbols.symbolic_int(shape_env, 7, "L['n']")
    assert not symbols.has_symbolic_floats(shape_env)
    symbols.symbolic_float(shape_env, 1.5, "L['x']")
    assert symbols.has_symbolic_floats(shape_env)


def test_dims_of_a_tensor_have_the_symbols_that_were_asked_for(shape_env):
    """A dynamic one is a symbol, a static one a number; the strides follow from the sizes."""
    mode = torch_internals.new_fake_mode(shape_env)
    context = symbols.symbolic_context([SymbolicDim("dynamic"), SymbolicDim()], "L['x']", None)
    fake = torch_internals.fake_from_tensor(mode, torch.ones(4, 5), "L['x']", context)
    assert isinstance(fake.shape[0], torch.SymInt)
    assert isinstance(fake.shape[1], int)
    assert fake.stride() == (5, 1)
    assert symbols.symbols_in_order(fake) == [fake.shape[0].node.expr]
    assert symbols.free_symbols(fake) == {fake.shape[0].node.expr}


def test_a_marked_dim_has_the_bounds_of_the_user(shape_env):
    """The range of the symbol is what was promised."""
    mode = torch_internals.new_fake_mode(shape_env)
    dim = SymbolicDim("dynamic", marked=True, least=3, most=9)
    torch_internals.fake_from_tensor(mode, torch.ones(4), "L['x']", symbols.symbolic_context([dim], "L['x']", None))
    (facts,) = symbols.symbol_facts(shape_env).values()
    assert facts[2] == "[3, 9]"


@pytest.mark.parametrize(
    ("error", "expected"), [(AssertionError(), True), (KeyError(), True), (RuntimeError(), False), (TypeError(), False)]
)
def test_what_an_operator_says_of_its_arguments_is_no_limit(error, expected):
    """An error of torch's own code is a limit of tracing; a rejection of arguments is the program's."""
    assert symbols.is_limit_of_tracing(error) is expected


def test_no_float_becomes_constant_for_another_error():
    """Only the restart that AOTAutograd asks for names any."""
    assert symbols.floats_to_be_constant(ValueError()) is None
