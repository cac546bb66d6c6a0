"""``types.SimpleNamespace`` created in a traced function, and its methods in C."""

from __future__ import annotations

import copy
import sys
import types

import pytest
import torch

import nbcompile


class Doubled(types.SimpleNamespace):
    """A subclass, whose ``__setattr__`` the constructor does not call."""

    a: int

    def __setattr__(self, name, value):
        super().__setattr__(name, 2 * value)


class Counted(types.SimpleNamespace):
    def __init__(self, count, **rest):
        super().__init__(count=count, **rest)

    def step(self):
        self.count += 1
        return self.count


def attributes(x):
    made = types.SimpleNamespace(a=1, t=x)
    made.b = made.t * 2
    made.a += 3
    return made.b + made.a, hasattr(made, "c"), getattr(made, "c", 7)


def deletes(x):
    made = types.SimpleNamespace(a=1, b=2, c=3)
    del made.a
    made.a = 4
    del made.b
    try:
        made.b
    except AttributeError as error:
        return x + made.a, list(vars(made)), str(error)


def keywords(x, **given):
    made = types.SimpleNamespace(a=1, **given, **{"z": 2})
    return x + made.z, vars(made) == {"a": 1, "z": 2}, sorted(made.__dict__)


def windows(x):
    made = types.SimpleNamespace(a=1)
    vars(made)["b"] = 2
    made.__dict__.update(c=3)
    made.__dict__.pop("a")
    return x * made.b, list(vars(made).items()), len(vars(made)), {**vars(made)}


def texts(x):
    made = types.SimpleNamespace(a=1, b="two", c=[types.SimpleNamespace()])
    vars(made)[""] = 4
    return x + 1, repr(made), str(made), f"{made}", repr(Doubled(a=1)), format(types.SimpleNamespace())


def comparisons(x):
    one, same, other = (types.SimpleNamespace(a=k) for k in (1, 1, 2))
    asked = (one == same, one != same, one == other, one != other, one == one, one == {"a": 1}, one != 3)
    return x + 1, asked, one == Doubled(a=1), one in [other, same], [one].index(same)


def subclasses(x):
    made, counted = Doubled(a=1), Counted(3, b=x)
    made.b = 4
    return x + made.a + made.b + counted.step(), vars(counted), isinstance(counted, types.SimpleNamespace)


def positional(x):
    try:
        types.SimpleNamespace(1, 2)
    except TypeError as error:
        return x + 1, str(error)


def unhashable(x):
    try:
        {types.SimpleNamespace(): 1}
    except TypeError as error:
        return x + 1, str(error)


def unordered(x):
    try:
        types.SimpleNamespace(a=1) < types.SimpleNamespace(a=2)
    except TypeError as error:
        return x + 1, str(error)


def by_new(x):
    made = types.SimpleNamespace.__new__(types.SimpleNamespace)
    made.__init__(a=1)
    made.__init__(b=2)
    return x + made.a + made.b


def matched(x):
    match types.SimpleNamespace(kind="scale", by=3):
        case types.SimpleNamespace(kind="scale", by=k):
            return x * k
    return x


def reduced(x):
    made, sub = types.SimpleNamespace(a=x, b=2), Doubled(a=1)
    cls, arguments, state = made.__reduce__()
    state["c"] = 3
    kinds = cls is types.SimpleNamespace, arguments, state is vars(made), sub.__reduce__() == (Doubled, (), {"a": 1})
    return state["a"] + made.c, kinds, made.__reduce_ex__(4)[2]["b"], len(sub.__reduce_ex__(2))


def copies(x):
    made = types.SimpleNamespace(a=x, b=[1], own=types.SimpleNamespace(c=2))
    twin, whole = copy.copy(made), copy.deepcopy(types.SimpleNamespace(b=made.b, own=made.own))
    twin.b.append(2)
    twin.d = 4
    whole.b.append(3)
    whole.own.c += 5
    same = twin is made, twin == made, twin.b is made.b, twin.own is made.own, whole.own == made.own
    return twin.a + twin.d, made, twin, whole, same, hasattr(made, "d")


def copies_of_subclasses(x):
    doubled, counted = copy.copy(Doubled(a=1)), copy.deepcopy(Doubled(a=[2]))
    doubled.b = 3
    return x + doubled.a + doubled.b, doubled, counted


WHOLE = [
    attributes, deletes, keywords, windows, texts, comparisons, subclasses, positional, by_new, matched, reduced, copies,
    copies_of_subclasses,
]  # fmt: skip


def of(value):
    """A value with lists for its tensors, and the class and the entries for its namespaces."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, types.SimpleNamespace):
        return type(value), [(name, of(each)) for name, each in vars(value).items()]
    if isinstance(value, dict):
        return [(name, of(each)) for name, each in value.items()]
    return type(value)(map(of, value)) if isinstance(value, (list, tuple)) else value


@pytest.mark.parametrize("function", WHOLE)
def test_a_namespace_is_created_in_one_graph(function):
    """What the object and its methods in C give is eager mode's."""
    x = torch.arange(3.0)
    compiled = nbcompile.compile(function, backend="eager", fullgraph=True)
    for _ in range(2):
        assert of(compiled(x)) == of(function(x))


@pytest.mark.parametrize("function", [unhashable, unordered])
def test_what_a_namespace_lacks_raises_as_in_eager_mode(function):
    """A namespace has no hash and no order."""
    x = torch.arange(3.0)
    assert of(nbcompile.compile(function, backend="eager")(x)) == of(function(x))


def returned(x):
    made = types.SimpleNamespace(b=x + 1, a=[x])
    made.own, made.sub = made, Counted(1, c=made)
    return made


def test_a_namespace_is_returned():
    """The program creates it again: attributes in their order, identities, subclasses."""
    x = torch.arange(3.0)
    for backend in ("eager", "nbcompile"):
        made = nbcompile.compile(returned, backend=backend, fullgraph=True)(x)
        assert type(made) is types.SimpleNamespace
        assert list(vars(made)) == ["b", "a", "own", "sub"]
        assert torch.equal(made.b, x + 1)
        assert made.a[0] is x
        assert made.own is made.sub.c is made
        assert type(made.sub) is Counted
        assert list(vars(made.sub)) == ["count", "c"]


@pytest.mark.parametrize("ask", [repr, str], ids=["repr", "str"])
def test_a_namespace_that_contains_itself_has_eager_modes_text(ask):
    """The text has "..." in place of the inner one."""

    def f(x):
        made = types.SimpleNamespace(a=1)
        made.own = made
        return x + 1, ask(made)

    x = torch.arange(3.0)
    assert of(nbcompile.compile(f, backend="eager")(x)) == of(f(x))


def across_a_break(x):
    made = types.SimpleNamespace(a=x + 1, k=2)
    print(end="")
    made.k += 1
    return made.a * made.k, made


def test_a_namespace_lives_across_a_graph_break():
    """The resume function changes the object that the first graph created."""
    x = torch.arange(3.0)
    assert of(nbcompile.compile(across_a_break, backend="eager")(x)) == of(across_a_break(x))


def asked(x, one, other):
    return x + (1 if one == other else 2), repr(one), one != other


def test_the_methods_of_an_input_are_guarded():
    """An attribute that changes the text or the comparison compiles again."""
    compiled = nbcompile.compile(asked, backend="eager")
    x, one, other = torch.ones(1), types.SimpleNamespace(a=1), types.SimpleNamespace(a=1)
    for change in ({}, {"a": 2}, {"b": 3}, {"a": 1}):
        vars(one).update(change)
        assert of(compiled(x, one, other)) == of(asked(x, one, other))
    vars(other)["b"] = 3
    assert of(compiled(x, one, other)) == of(asked(x, one, other))


def from_mapping(x):
    one, two = types.SimpleNamespace({"a": 1}, b=2), types.SimpleNamespace([("a", x)], a=3)
    try:
        types.SimpleNamespace({1: 2})
    except TypeError as error:
        return x + one.a + one.b + two.a, vars(one), vars(two), str(error)


@pytest.mark.skipif(sys.version_info < (3, 13), reason="the positional argument is of Python 3.13")
def test_a_mapping_fills_a_namespace():
    """Its keys come before the keywords, and must be strings."""
    x = torch.arange(3.0)
    assert of(nbcompile.compile(from_mapping, backend="eager", fullgraph=True)(x)) == of(from_mapping(x))


def test_python_errors_name_the_module_of_the_class():
    """Errors about a namespace have "types.SimpleNamespace", those about a subclass only its name."""

    def f(x, cls, ask):
        try:
            ask(cls(a=1))
        except (TypeError, AttributeError) as error:
            return x + 1, str(error)

    x = torch.ones(1)
    asks = [
        lambda n: n.b,
        lambda n: n(),
        lambda n: n[0],
        lambda n: len(n),
        lambda n: iter(n),
        lambda n: [*n],
        lambda n: f"{n:x}",
    ]
    for ask in asks:
        for cls in (types.SimpleNamespace, Doubled):
            nbcompile.reset()
            assert of(nbcompile.compile(f, backend="eager")(x, cls, ask)) == of(f(x, cls, ask))


def copies_of(x, given):
    twin, whole = copy.copy(given), copy.deepcopy(given)
    twin.a = 7
    whole.b.append(8)
    return x + len(given.b), twin, whole, vars(twin) == vars(given)


def test_an_input_is_copied():
    """The copies are the caller's own objects; the input stays as it is, and a change of it compiles again."""
    x, compiled = torch.ones(1), nbcompile.compile(copies_of, backend="eager", fullgraph=True)
    given = types.SimpleNamespace(a=1, b=[2])
    for change in ({}, {"c": 3}, {"b": [4, 5]}):
        vars(given).update(change)
        before = of(given)
        found = compiled(x, given)
        assert of(found) == of(copies_of(x, given))
        assert of(given) == before
        assert found[1].b is given.b
        assert found[2].b is not given.b


def test_a_class_whose_constructor_needs_arguments_cannot_be_copied():
    """A copy calls the class without arguments: the error is eager mode's."""

    def f(x):
        try:
            copy.copy(Counted(1))
        except TypeError as error:
            return x + 1, str(error)

    x = torch.ones(1)
    assert of(nbcompile.compile(f, backend="eager")(x)) == of(f(x))
