"""Side effects as statements: their effect on objects, their order, and the methods that they call."""

from __future__ import annotations

import collections

import pytest

from nbcompile.capture import recipe as recipes
from nbcompile.capture.recipe import Attribute, Build, Constant, FromSource
from nbcompile.capture.source import LocalSource
from tests.rewriting.written import Written

X = FromSource(LocalSource("x"))


def of(x):
    """The function that is replaced; ``x`` is the mutated object."""
    return x


def constants(*values):
    """A recipe for each value."""
    return tuple(map(Constant, values))


class Plain:
    """An object with attributes."""


class Loud:
    """An object whose own methods must not be called."""

    def __setattr__(self, name, value):
        raise AssertionError(name)

    def __delattr__(self, name):
        raise AssertionError(name)


def rejecting(base, *names):
    """A subclass of a container whose methods with these names raise an error."""

    def reject(*_):
        raise AssertionError("a method of the user's class is called again")

    return type(f"Loud{base.__name__}", (base,), dict.fromkeys(names, reject))


def test_attributes_are_set_and_deleted():
    """The statements are ``x.a = 1; del x.b``."""
    target = Plain()
    target.b = 2
    Written(of, target).replay(recipes.SetAttribute(X, "a", Constant(1)), recipes.DeleteAttribute(X, "b"))
    assert vars(target) == {"a": 1}


def test_attributes_of_a_traced_class_are_set_past_its_own_methods():
    """The built-in class in the recipe defines the ``__setattr__`` and ``__delattr__`` that run."""
    target = Loud()
    vars(target)["b"] = 2
    Written(of, target).replay(
        recipes.SetAttribute(X, "a", Constant(1), object), recipes.DeleteAttribute(X, "b", object)
    )
    assert vars(target) == {"a": 1}


def test_values_are_settled_before_the_first_effect():
    """``x.a, x.b = x.b, x.a`` swaps the values: no side effect reads the result of another one."""
    target = Plain()
    target.a, target.b = [1], [2]
    Written(of, target).replay(
        recipes.SetAttribute(X, "a", Attribute(X, "b")), recipes.SetAttribute(X, "b", Attribute(X, "a"))
    )
    assert (target.a, target.b) == ([2], [1])


CONTAINERS = {
    "list": ([1, 2], recipes.ReplaceItems(X, "list", constants(3, 4, 5)), [3, 4, 5]),
    "deque": (collections.deque([1, 2], 3), recipes.ReplaceItems(X, "deque", constants(3, 4)), [3, 4]),
    "set": ({1, 2}, recipes.ReplaceItems(X, "set", constants(2, 7)), [2, 7]),
    "dict": ({"a": 1, "b": 2}, recipes.ReplaceItems(X, "dict", constants("b", 3, "a", 4)), [("b", 3), ("a", 4)]),
    "appended": ([1], recipes.AppendItems(X, constants(2, 3)), [1, 2, 3]),
    "added": ({1}, recipes.ChangeSet(X, "update", constants(5)), [1, 5]),
    "removed": ({1, 5}, recipes.ChangeSet(X, "difference_update", constants(5)), [1]),
    "stored": (
        {"a": 1, "b": 2},
        recipes.StoreItems(X, (constants("a", 3), constants("c", 4))),
        [("a", 3), ("b", 2), ("c", 4)],
    ),
}


def content(container):
    """The items in their order; those of a set are sorted."""
    if isinstance(container, dict):
        return list(container.items())
    return sorted(container) if isinstance(container, set) else list(container)


@pytest.mark.parametrize("name", CONTAINERS)
def test_containers_change_in_place(name):
    """The object is the same afterwards; a dict has the order of the new items, or of its old keys."""
    target, mutation, expected = CONTAINERS[name]
    target = target.copy()
    Written(of, target).replay(mutation)
    assert content(target) == expected


LOUD = {
    "list": (list, ("extend", "clear", "__setitem__"), [1], recipes.ReplaceItems(X, "list", constants(2), (), list)),
    "append": (list, ("extend", "append"), [1], recipes.AppendItems(X, constants(2), (), list)),
    "set": (set, ("clear", "update"), [1], recipes.ReplaceItems(X, "set", constants(2), (), set)),
    "change": (set, ("update",), [1], recipes.ChangeSet(X, "update", constants(2), (), set)),
    "dict": (dict, ("clear", "update"), {"a": 1}, recipes.ReplaceItems(X, "dict", constants("b", 2), (), dict)),
    "store": (dict, ("__setitem__",), {"a": 1}, recipes.StoreItems(X, (constants("b", 2),), (), dict)),
    "ordered": (
        collections.OrderedDict,
        ("__delitem__", "__setitem__"),
        (),
        recipes.StoreItems(X, (constants("b", 2), constants("a", 1)), (), collections.OrderedDict),
    ),
    "deque": (
        collections.deque,
        ("clear", "extend"),
        [1],
        recipes.ReplaceItems(X, "deque", constants(2), (), collections.deque),
    ),
}
EXPECTED = {
    "list": [2],
    "append": [1, 2],
    "set": [2],
    "change": [1, 2],
    "dict": [("b", 2)],
    "store": [("a", 1), ("b", 2)],
    "ordered": [("b", 2), ("a", 1)],
    "deque": [2],
}


@pytest.mark.parametrize("name", LOUD)
def test_containers_of_a_traced_class_change_past_its_own_methods(name):
    """The user's methods ran while they were traced, and are not called again."""
    base, overridden, items, mutation = LOUD[name]
    target = rejecting(base, *overridden)(items)
    Written(of, target).replay(mutation)
    assert content(target) == EXPECTED[name]


def test_items_are_made_before_their_container_is_cleared():
    """New items may be read from the old ones: ``d = {"b": d["a"]}`` in place."""
    target = {"a": [1]}
    old = target["a"]
    item = recipes.Call(Constant(dict.__getitem__, "getitem"), (X, Constant("a")))
    written = Written(of, target)
    written.effects.mutate(recipes.ReplaceItems(X, "dict", (Constant("b"), item)))
    written.run()
    assert list(target) == ["b"] and target["b"] is old


scale = 3


def test_globals_are_set_in_their_own_dict():
    """A global is set and deleted, also if it does not exist, in its own module's dict."""
    other = {"scale": 1}
    try:
        Written(of, None).replay(recipes.SetGlobal("scale", Constant(5)))
        assert scale == 5
        Written(of, other).replay(recipes.SetGlobal("scale", Constant(6), X), recipes.SetGlobal("missing", None))
        assert scale == 5 and other == {"scale": 6}
        Written(of, other).replay(recipes.SetGlobal("scale", None, X), recipes.SetGlobal("scale", None))
        assert "scale" not in globals() and other == {}
    finally:
        globals()["scale"] = 3


def test_free_variables_and_other_cells_are_filled_and_emptied():
    """A variable of the frame is set by its name, any other cell by its contents."""
    count, other = 1, 2

    def sees(x):
        nonlocal count
        count += 1
        return x

    (own,) = sees.__closure__
    (cell,) = (lambda: other).__closure__
    Written(sees, cell).replay(
        recipes.SetCell(recipes.CellOf("count"), Constant(10)), recipes.SetCell(X, Constant("other"))
    )
    assert own.cell_contents == 10 and cell.cell_contents == "other"
    Written(sees, cell).replay(recipes.SetCell(recipes.CellOf("count"), None), recipes.SetCell(X, None))
    for each in (sees.__closure__[0], cell):
        with pytest.raises(ValueError, match="empty"):
            each.cell_contents  # noqa: B018


def test_a_call_for_its_effect_is_evaluated_once():
    """The call runs once, and its result is dropped."""
    called = []
    Written(of, called).replay(recipes.Evaluate(recipes.Call(Attribute(X, "append"), (Constant(1),))))
    assert called == [1]


def test_each_effect_is_recorded_with_its_object_and_its_statements():
    """The record has the text of the target, or the name of a global or cell, and the statements."""
    written = Written(of, None)
    written.effects.replay(
        [
            recipes.SetAttribute(Attribute(X, "child"), "note", Constant(1)),
            recipes.SetGlobal("scale", Constant(2)),
            recipes.ReplaceItems(X, "set", constants(1)),
            recipes.SetCell(X, Constant(4), "count"),
            recipes.Evaluate(X),
        ]
    )
    assert written.effects.replayed == [
        ("value", "value.note = 1"),
        ("scale", "__globals['scale'] = 2"),
        ("x", "items = [1]\nx.clear()\nx.update(items)"),
        ("count", "x.cell_contents = 4"),
        ("", "x"),
    ]


def test_constants_and_names_are_not_settled_twice():
    """A constant needs no local, and a value with a local is not built again."""
    written = Written(of, None)
    constant = Constant(3)
    assert written.effects.settle_values(constant) is constant
    reference = written.effects.settle_values(Build("list", ()))
    assert isinstance(reference, recipes.SharedReference)
    assert written.effects.settle_values(reference) != constant
    written.run(written.values.make(reference))
    assert written.text() == "value = []\nreturn value"
