"""Recipes as expressions: the values that they build, and values that are built once."""

from __future__ import annotations

import dis
from types import CodeType

import pytest

from nbcompile.capture import recipe as recipes
from nbcompile.capture.recipe import Attribute, Build, Call, Cell, CellOf, Constant, FromSource, Function, SharedValue
from nbcompile.capture.source import GlobalSource, LocalSource
from tests.rewriting.written import Written

X = FromSource(LocalSource("x"))
SCALE = 3


def of(x):
    """The function that is replaced; ``x`` is its argument."""
    return x


@pytest.mark.parametrize(
    ("kind", "items", "expected"),
    [
        ("list", (1, 2), [1, 2]),
        ("tuple", (1, 2), (1, 2)),
        ("tuple", (), ()),
        ("set", (1, 2, 2), {1, 2}),
        ("dict", ("a", 1, "b", 2), {"a": 1, "b": 2}),
        ("dict", (), {}),
    ],
)
def test_containers_are_built_of_their_items_in_order(kind, items, expected):
    """A container has the class of its kind; the items of a dict are alternating keys and values."""
    made = Written(of, 0).make(Build(kind, tuple(map(Constant, items))))
    assert made == expected and type(made) is type(expected)
    assert list(made) == list(expected)


def test_a_call_passes_arguments_and_keywords_on():
    """``dict([("a", 1)], b=x)`` is called when the program runs, with the argument of that call."""
    pairs = Build("list", (Build("tuple", (Constant("a"), Constant(1))),))
    assert Written(of, 7).make(Call(Constant(dict, "dict"), (pairs,), (("b", X),))) == {"a": 1, "b": 7}


def test_an_attribute_is_read_of_what_its_base_reconstructs():
    """The attribute ``imag`` of a complex argument is read."""
    assert Written(of, 3 + 4j).make(Attribute(X, "imag")) == 4.0


def test_a_shared_value_is_built_once():
    """Two uses of a shared value give one object; without sharing there are two."""
    shared = SharedValue(1, Build("list", (X,)))
    first, second = Written(of, 5).make(Build("tuple", (shared, shared)))
    assert first is second and first == [5]
    first, second = Written(of, 5).make(Build("tuple", (Build("list", (X,)), Build("list", (X,)))))
    assert first is not second


def test_a_tuple_with_a_single_use_needs_no_local():
    """A tuple with one use is an expression; otherwise the program assigns it to a local first."""
    shared = SharedValue(1, Build("tuple", (X, Constant(2))))
    alone = Written(of, 5, single_use=frozenset({1}))
    named = Written(of, 5)
    assert alone.make(shared) == named.make(shared) == (5, 2)
    assert alone.text() == "return (x, 2)"
    assert named.text() == "built = (x, 2)\nreturn built"


def test_a_container_can_contain_itself():
    """The container is filled after it is built, through its own name."""
    itself = recipes.SharedReference(4)
    made = Written(of, 0).make(SharedValue(4, Build("list", ()), (recipes.AppendItems(itself, (itself, X)),)))
    assert made[0] is made and made[1] == 0


def test_what_later_statements_can_change_is_settled_in_a_local():
    """A global, an attribute and a variable of a closure need a local; constants, arguments and outputs do not."""
    shared = [1]

    def sees(x):
        return x, shared

    written = Written(sees, 1)
    written.body.graph_out = "graph_out"
    for recipe in (FromSource(GlobalSource("SCALE")), FromSource(LocalSource("shared")), Attribute(X, "real")):
        before = len(written.body.statements)
        built = written.values.settled(recipe)
        assert len(written.body.statements) == before + 1
        assert built.id.startswith("value")
    before = len(written.body.statements)
    for recipe in (X, Constant(1), Constant(object(), "held"), recipes.GraphOutput(2)):
        written.values.settled(recipe)
    assert len(written.body.statements) == before


def test_a_settled_global_is_what_it_was():
    """The local is assigned before the global changes."""
    written = Written(of, 0)
    built = written.values.settled(FromSource(GlobalSource("SCALE")))
    written.effects.mutate(recipes.SetGlobal("SCALE", Constant(10)))
    try:
        assert written.run(built) == 3
        assert SCALE == 10
    finally:
        globals()["SCALE"] = 3


def code_named(name: str, code: CodeType) -> CodeType:
    """The code of an inner function."""
    return next(each for each in code.co_consts if isinstance(each, CodeType) and each.co_name == name)


def defining(x):
    """A function that defines another one with all kinds of defaults."""
    free = x

    def inner(a, b=2, *, c=3, d=4):
        return a, b, c, d, free

    return inner


def test_functions_are_made_with_defaults_and_cells():
    """The function has positional and keyword defaults and its closure; ``def`` itself does not run."""
    recipe = Function(
        code_named("inner", defining.__code__), "inner", Constant(globals(), "globals"),
        (X,), (("c", Constant(30)), ("d", X)), (Cell(Constant("free")),),
    )  # fmt: skip
    made = Written(of, 20).make(recipe)
    assert made(1) == (1, 20, 30, 20, "free")
    assert made.__globals__ is globals() and made.__name__ == "inner"


def test_functions_without_defaults_have_none():
    """``__defaults__``, ``__kwdefaults__`` and ``__closure__`` are None, as for a function without them."""
    made = Written(of, 0).make(Function(of.__code__, "of", Constant(globals(), "globals")))
    assert made.__defaults__ is made.__kwdefaults__ is made.__closure__ is None


def test_cells_are_new_and_empty_ones_stay_empty():
    """A new cell has its content, and the content of an empty one cannot be read."""
    filled, empty = Written(of, 8).make(Build("tuple", (Cell(X), Cell(None))))
    assert filled.cell_contents == 8
    with pytest.raises(ValueError, match="empty"):
        empty.cell_contents  # noqa: B018


def test_the_cell_of_a_free_variable_is_the_frames_own():
    """The cell is not a copy, so the other function sees a new value."""
    count = 1

    def sees(x):
        return x, count

    assert Written(sees, 0).make(CellOf("count")) is sees.__closure__[0]


def counting(x):
    """A generator of two numbers."""
    kept = x
    yield kept
    yield kept + 1


def test_a_waiting_generator_goes_on_behind_its_yield():
    """The generator has the name of the user's function, is at the first yield, and yields the second number next."""
    code = counting.__code__
    offset = next(each.offset for each in dis.get_instructions(code) if each.opname == "YIELD_VALUE")
    recipe = recipes.WaitingGenerator(
        code, offset, (), (("kept", X),), (), (), Constant(globals(), "globals"), code.co_firstlineno + 3
    )
    made = Written(of, 5).make(recipe)
    assert (made.__name__, made.__qualname__) == ("counting", "counting")
    assert list(made) == [6]
