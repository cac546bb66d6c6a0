"""Addresses of values: spelled as torch spells them, and resolved in the scope of a call."""

import collections
import weakref

import numpy as np
import pytest
import torch

import nbcompile
from nbcompile.capture import source
from nbcompile.capture.source import (
    ArraySource,
    AttrSource,
    BuiltinSource,
    CellSource,
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
    Scope,
    SizeSource,
    TypeSource,
    ValueSource,
    expression,
    resolve,
    root,
)


class Parent:
    """A class whose member a subclass replaces."""

    rate = 1


class Child(Parent):
    """A class with a method."""

    rate = 2

    def step(self):
        """Return the rate."""
        return self.rate


class Hidden:
    """An object that answers for every attribute."""

    def __init__(self):
        self.size = 3

    def __getattribute__(self, name):
        return 5 if name == "size" else super().__getattribute__(name)


def _with_cell():
    content = [7]
    return lambda: content


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
    child = Child()
    items = iter((10, 20, 30))
    next(items)
    values = {
        "x": torch.ones(2, 3),
        "child": child,
        "hidden": Hidden(),
        "table": {"a": 1, "b": 2},
        "items": items,
        "weak": weakref.ref(child),
        "closed": _with_cell(),
        "array": np.arange(3),
    }
    return Scope(_with_cell.__code__, values, {"offset": 4}, vars(__import__("builtins")))


@pytest.mark.parametrize(("address", "text", "expected"), CASES, ids=[text for _, text, _ in CASES])
def test_an_address_is_spelled_and_resolved(address, text, expected, scope):
    """The text is torch's, and the value is the object itself."""
    assert expression(address) == text
    found, wanted = resolve(address, scope), expected(scope.locals)
    assert found is wanted or found == wanted


def test_a_cell_is_found_through_its_function(scope):
    """The content of a closure's cell is the object in it."""
    function = scope.locals["closed"]
    address = CellSource(LocalSource("closed"), "content", 0)
    assert expression(address) == "L['closed'].__closure__[0].cell_contents"
    assert resolve(address, scope) is function.__closure__[0].cell_contents


def test_an_array_is_resolved_as_a_tensor(scope):
    """An input that is an array enters the graph as a tensor with the same memory."""
    found = resolve(ArraySource(LocalSource("array")), scope)
    assert torch.equal(found, torch.arange(3))
    scope.locals["array"][0] = 5
    assert found[0] == 5


@pytest.mark.parametrize("address", [X, GlobalSource("x"), ModuleSource("x"), BuiltinSource("x"), DrawSource(0)])
def test_the_root_is_the_first_step(address):
    """However long the address is, it begins at a local, a global, a module, a builtin or a draw."""
    long = AttrSource(ItemSource(TypeSource(address), 0), "a")
    assert root(long) is address


def test_equal_addresses_are_one_key():
    """Addresses are compared by their steps; a constant by its name and by which object it is."""
    assert {AttrSource(X, "a"): 1}[AttrSource(LocalSource("x"), "a")] == 1
    assert AttrSource(X, "a") != GenericAttrSource(X, "a")
    assert ConstantSource("kept", first := [1]) == ConstantSource("kept", first)
    assert ConstantSource("kept", [1]) != ConstantSource("kept", [1])


def test_the_rest_of_an_iterator_is_read_without_taking_it():
    """A guard that looks at an iterator leaves it where it is."""
    items = iter([1, 2, 3])
    next(items)
    assert list(source.remaining(items)) == [2, 3]
    assert source.iterator_item(items, 1) == 3
    assert list(items) == [2, 3]


def test_a_member_is_looked_up_after_some_of_the_bases():
    """``super().rate`` is the attribute after the class itself in the order of bases."""
    assert source.class_attribute(Child, "rate") == 2
    assert source.class_attribute(Child, "rate", 1) == 1
    with pytest.raises(AttributeError):
        source.class_attribute(Child, "momentum")


def test_draws_are_spelled_by_their_number():
    """A random number is drawn before the graph runs; its address is its number in order."""
    assert expression(DrawSource(2)) == "random_value_2"
    assert expression(ParameterSource(X, True, 0)) == "___parameter(L['x'], True)"


def test_looking_at_an_item_adds_no_default(scope):
    """What an entry for other dicts reads of a defaultdict is not added to it."""
    defaults = collections.defaultdict(list, f=6)
    with pytest.raises(KeyError):
        source.resolve(ItemSource(ConstantSource("d", defaults), "a"), scope)
    assert defaults == {"f": 6}


def test_a_call_adds_no_default():
    """The same for calls: entries for dicts are asked, and none is the one for a defaultdict."""

    def function(x, d):
        return x + len(d), list(d.values())

    compiled = nbcompile.compile(function)
    compiled(torch.ones(1), {"a": 1})
    defaults = collections.defaultdict(list, f=6)
    assert compiled(torch.ones(1), defaults)[1] == [6]
    assert defaults == {"f": 6}
