"""Sources of values: their text is torch's, and they are resolved in the scope of a call."""

import pytest

from nbcompile.capture.resolution import resolve
from nbcompile.capture.source import (
    AttrSource,
    BuiltinSource,
    ClassMemberSource,
    ConstantSource,
    DrawSource,
    GenericAttrSource,
    GlobalSource,
    ItemSource,
    IteratorItemSource,
    KeySource,
    LocalSource,
    MethodFunctionSource,
    ModuleSource,
    NoArgsCallSource,
    ParameterSource,
    SizeSource,
    TypeSource,
    ValueSource,
    expression,
    root,
)
from tests.support.addresses import Child, addressed_scope

X = LocalSource("x")
CASES = [
    (X, "L['x']", lambda at: at["x"]),
    (GlobalSource("offset"), "G['offset']", lambda at: 4),
    (BuiltinSource("len"), "__builtins__['len']", lambda at: len),
    (ModuleSource("math"), "math", lambda at: __import__("math")),
    (AttrSource(LocalSource("child"), "rate"), "L['child'].rate", lambda at: 2),
    (GenericAttrSource(LocalSource("hidden"), "size"), "object.__getattribute__(L['hidden'], 'size')", lambda at: 3),
    (ItemSource(LocalSource("table"), "a"), "L['table']['a']", lambda at: 1),
    (KeySource(LocalSource("table"), 1), "list(L['table'].keys())[1]", lambda at: "b"),
    (ValueSource(LocalSource("table"), 1), "list(L['table'].values())[1]", lambda at: 2),
    (IteratorItemSource(LocalSource("items"), 1), "___tuple_iterator_getitem(L['items'], 1)", lambda at: 30),
    (TypeSource(LocalSource("child")), "type(L['child'])", lambda at: Child),
    (NoArgsCallSource(LocalSource("weak")), "L['weak']()", lambda at: at["child"]),
    (MethodFunctionSource(LocalSource("child"), "step"), "type(L['child']).step", lambda at: Child.step),
    (ClassMemberSource(TypeSource(LocalSource("child")), "rate", 1), "type(L['child']).__mro__[1:].rate", lambda at: 1),
    (ConstantSource("kept", 9), "kept", lambda at: 9),
    (SizeSource(X, "size", 1), "L['x'].size()[1]", lambda at: 3),
    (SizeSource(X, "storage_offset", None), "L['x'].storage_offset()", lambda at: 0),
]


@pytest.fixture
def scope():
    return addressed_scope()


@pytest.mark.parametrize(("address", "text", "expected"), CASES, ids=[text for _, text, _ in CASES])
def test_an_address_is_spelled_and_resolved(address, text, expected, scope):
    """The text is torch's, and the value is the object itself."""
    assert expression(address) == text
    found, wanted = resolve(address, scope), expected(scope.locals)
    assert found is wanted or found == wanted


@pytest.mark.parametrize("address", [X, GlobalSource("x"), ModuleSource("x"), BuiltinSource("x"), DrawSource(0)])
def test_the_root_is_the_first_step(address):
    """A source begins at a local, a global, a module, a builtin or a random draw."""
    long = AttrSource(ItemSource(TypeSource(address), 0), "a")
    assert root(long) is address


def test_equal_addresses_are_one_key():
    """Sources are compared by their steps; a constant is compared by its name and its identity."""
    assert {AttrSource(X, "a"): 1}[AttrSource(LocalSource("x"), "a")] == 1
    assert AttrSource(X, "a") != GenericAttrSource(X, "a")
    assert ConstantSource("kept", first := [1]) == ConstantSource("kept", first)
    assert ConstantSource("kept", [1]) != ConstantSource("kept", [1])


def test_draws_are_spelled_by_their_number():
    """A random number is drawn before the graph runs; the text of its source is its number in order."""
    assert expression(DrawSource(2)) == "random_value_2"
    assert expression(ParameterSource(X, True, 0)) == "___parameter(L['x'], True)"
