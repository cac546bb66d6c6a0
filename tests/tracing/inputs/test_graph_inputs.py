"""The inputs of a graph: placeholders, their symbols and names, unused inputs, and guards."""

from __future__ import annotations

import pytest
import torch
import torch.fx

from nbcompile.capture.source import AttrSource, DrawSource, LocalSource, SizeSource
from nbcompile.options import Options
from nbcompile.tracing.inputs import graph_inputs
from nbcompile.tracing.inputs.dynamism import Dynamism
from nbcompile.tracing.inputs.graph_inputs import EXAMPLE, GraphInputs

X, Y, K = LocalSource("x"), LocalSource("y"), LocalSource("k")


def inputs(dynamic=None, **options):
    """The inputs of an empty graph."""
    return GraphInputs(torch.fx.Graph(), {}, Options(dynamic=dynamic, **options), Dynamism(dynamic))


def targets(made):
    return [node.target for node in made.graph.find_nodes(op="placeholder")]


def test_symbols_come_before_the_first_tensor_that_has_them():
    """Each symbol is an input once, although two tensors have it; constant sizes are not inputs."""
    made = inputs(dynamic=True)
    made.tensor(torch.ones(5, 5), X)
    made.tensor(torch.ones(5, 7), Y)
    first, x, second, y = targets(made)
    assert (x, y) == ("L_x_", "L_y_") and first != second
    shape = made.placeholders[3][0].meta[EXAMPLE].shape
    assert [str(size) for size in shape] == [first, second]
    constant = inputs(dynamic=False)
    constant.tensor(torch.ones(5, 5), X)
    assert targets(constant) == ["L_x_"] and not constant.is_symbolic()


def test_placeholders_are_first_though_they_come_late():
    """A new input is inserted after the last placeholder, before the operators."""
    made = inputs(dynamic=False)
    x = made.tensor(torch.ones(2), X)
    made.graph.call_function(torch.sin, (x,))
    made.tensor(torch.ones(2), Y)
    assert [node.op for node in made.graph.nodes] == ["placeholder", "placeholder", "call_function"]
    assert targets(made) == ["L_x_", "L_y_"]


def test_two_addresses_with_one_name():
    """``L['a_b'].c`` and ``L['a'].b.c`` give the same name, so the second one gets a number."""
    made = inputs(dynamic=False)
    made.tensor(torch.ones(2), AttrSource(LocalSource("a_b"), "c"))
    made.tensor(torch.ones(2), AttrSource(AttrSource(LocalSource("a"), "b"), "c"))
    assert targets(made) == ["L_a_b_c", "L_a_b_c_1"]


@pytest.mark.parametrize(("source", "expected"), [
    (X, "L_x_"), (AttrSource(LocalSource("self"), "w"), "L_self_w"), (SizeSource(X, "size", 0), "L_x_size_0_"),
])  # fmt: skip
def test_an_address_as_an_identifier(source, expected):
    """Characters other than letters and digits become underscores; the name does not begin with a digit."""
    assert graph_inputs.input_name(source) == expected
    assert graph_inputs.input_name(source).isidentifier()


def test_a_number_is_one_input():
    """A second request returns the same input; a float is a tensor whose item is a symbol."""
    made = inputs(dynamic=True)
    assert made.integer(3, K) is made.integer(3, K)
    number = made.real_number(0.5, Y)
    assert number.meta[EXAMPLE].dtype == torch.float64 and number.meta[EXAMPLE].dim() == 0
    assert [made._is_number(source) for source in (K, Y)] == [False, True]
    assert made.is_symbolic()


def test_what_nothing_uses_is_dropped():
    """Unused tensors are dropped, then symbols that only dropped tensors have."""
    made = inputs(dynamic=True)
    x = made.tensor(torch.ones(5, 3), X)
    made.tensor(torch.ones(7, 3), Y)
    symbols = [str(size) for size in x.meta[EXAMPLE].shape]
    made.graph.output((made.graph.call_function(torch.sin, (x,)),))
    made.drop_unused()
    assert targets(made) == [*symbols, "L_x_"]
    assert [node.target for node, _ in made.placeholders] == [*symbols, "L_x_"]


def test_a_draw_is_a_number_that_says_nothing():
    """A random number is a scalar tensor, drawn before each run."""
    made = inputs()
    assert not made.has_draws()
    node = made.drawn(float, DrawSource(0))
    assert made.has_draws() and node.meta[EXAMPLE].dim() == 0 and node.meta[EXAMPLE].is_floating_point()
    assert made._is_number(DrawSource(0))


def test_the_backend_gets_fakes_as_they_were_before_tracing():
    """In-place changes of the fakes while tracing are not visible there; the symbols are the same."""
    made = inputs(dynamic=True)
    x = made.tensor(torch.ones(5, 3), X)
    fake = x.meta[EXAMPLE]
    before = [str(size) for size in fake.shape]
    with made.fake_mode:
        fake.t_()
    *_, given = made.for_backend(symbolic=True)
    assert [str(size) for size in given.example.shape] == before
    assert given.example is not fake and given.example.fake_mode is not made.fake_mode
    *_, given = made.for_backend(symbolic=False)
    assert given.example is fake


def test_sizes_that_became_constants_are_facts():
    """A size that a branch read is a constant again; the other size stays symbolic."""
    made = inputs(dynamic=True)
    rows, _ = made.tensor(torch.ones(5, 3), X).meta[EXAMPLE].shape
    assert rows == 5  # a branch on the size
    facts = made.facts()[X]
    assert facts.sizes == (5, None)
    assert [str(refinement.condition) for refinement in made.refinements] != []


def test_a_guard_names_the_line_that_asked():
    """A guard has the line of the user's code, and a note why a size is not 0 or 1."""
    made = inputs(dynamic=True)
    made.stack = lambda: ("the line",)
    rows, _ = made.tensor(torch.ones(5, 3), X).meta[EXAMPLE].shape
    assert rows > 4
    guards = made.shape_guards()
    assert guards.sources == (X,)
    assert any(stack == ("the line",) and "size()[0]" in text
               for text, stack in zip(guards.expressions, guards.stacks, strict=True))  # fmt: skip
    assert any("0/1 specialization" in note for note in guards.notes)
    assert inputs(dynamic=False).shape_guards() is None


def test_numbers_stay_within_an_int64():
    """A guard checks that the result of a symbolic int fits; a value that is already too large becomes a constant."""
    made = inputs(dynamic=True)
    number = made.integer(100, K).meta[EXAMPLE]
    assert made.keep_in_range(number * 2) and made.refinements == []  # implied by the bound of the input
    assert made.keep_in_range(number * number * number * number) and made.refinements
    assert any("int64" in note for note in made.shape_guards().notes)
    large = inputs(dynamic=True)
    number = large.integer(2**40, K).meta[EXAMPLE]
    assert not large.keep_in_range(number * number)
    assert number.node.expr.is_number or int(number) == 2**40
    assert large.facts() == {}


def test_cards_say_where_symbols_come_from():
    """A symbol has its source, its value in this call, and its refinements."""
    made = inputs(dynamic=True)
    rows, _ = made.tensor(torch.ones(5, 3), X).meta[EXAMPLE].shape
    assert rows > 4
    cards = {card.hint: card for card in made.symbol_cards()}
    assert cards["5"].sources[0] == "L['x'].size()[0]" and len(cards["5"].refinements) == 1
    assert cards["3"].refinements == ()
