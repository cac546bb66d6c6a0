"""Texts of containers, of objects in them, and of recursive containers."""

from __future__ import annotations

import collections
import dataclasses
import functools
import reprlib

import pytest
import torch

import nbcompile
from tests.support.answers import check


class Point:
    def __init__(self, x):
        self.x = x

    def __repr__(self):
        return f"Point({self.x!r})"


class Named(list):
    def __repr__(self):
        return "Named" + super().__repr__()


class Items(list): ...


class Members(set): ...


class Table(dict): ...


class Ends(collections.deque): ...


class Ordered(collections.OrderedDict): ...


class Counted(collections.Counter): ...


Pair = collections.namedtuple("Pair", "a b")  # noqa: PYI024  (programs use what users use)


@dataclasses.dataclass
class Config:
    size: int
    layers: list = dataclasses.field(default_factory=list)
    hidden: int = dataclasses.field(default=3, repr=False)


class Tree:
    def __init__(self):
        self.children = []

    @reprlib.recursive_repr(fillvalue="<again>")
    def __repr__(self):
        return f"Tree({self.children})"


class Fails:
    fails = True

    def __repr__(self):
        if self.fails:
            raise ValueError("no")
        return "now"


NAMES = {
    "collections": collections, "functools": functools, "Point": Point, "Named": Named, "Items": Items,
    "Members": Members, "Table": Table, "Ends": Ends, "Ordered": Ordered, "Counted": Counted, "Pair": Pair,
    "Config": Config, "Tree": Tree,
}  # fmt: skip

SHOWN = (
    "[Point(1), (Point('a'),), (1, Point(2))]",
    "{'a': Point(1), Point: {1: Point(2)}}",
    "{Point(1)}",
    "frozenset({Point(1)})",
    "collections.deque([Point(1)], maxlen=2)",
    "collections.OrderedDict(a=Point(1))",
    "collections.OrderedDict()",
    "collections.defaultdict(list, {'a': [Point(1)]})",
    "collections.defaultdict(None)",
    "collections.Counter('aab')",
    "collections.ChainMap({'a': 1}, {'b': Point(2)})",
    "Pair(Point(1), 'b')",
    "Config(1, [Point(2)])",
    "[Items([1]), Items(), Named([Point(1)])]",
    "[Members({1}), Members(), Table(a=1), Ends([1], 3), Ends([1])]",
    "[Ordered(a=1), Counted('aab'), Counted()]",
    "{'a': Point(1)}.items(), {'a': Point(1)}.values(), {'a': 1}.keys()",
    "functools.partial(int, base=2)",
    "[ValueError('x', 1), KeyError('k'), RuntimeError()]",
    "[len, int, Point, torch.float32]",
)


@pytest.mark.parametrize("text", SHOWN)
def test_text_of_a_container(text):
    """Each item's own ``__repr__`` is called while tracing."""
    check(f"v = {text}\nreturn repr(v), str(v), f'{{v!r:>90}}', '%r' % [v], '{{}}'.format(v)", **NAMES)


RECURSIVE = (
    "a = [1]\na.append(a)\nreturn repr(a)",
    "a = {}\na['a'] = a\nreturn repr(a)",
    "a = []\nt = (a, 1)\na.append(t)\nreturn repr(t), repr(a)",
    "a = []\np = Pair(a, 1)\na.append(p)\nreturn repr(p), repr(a)",
    "a = collections.deque([1])\na.append(a)\nreturn repr(a)",
    "a = collections.OrderedDict()\na['a'] = a\nreturn repr(a)",
    "a = collections.defaultdict(list)\na['a'] = a\nreturn repr(a)",
    "a = Items()\na.append(a)\nreturn repr(a)",
    "a = Named()\na.append(a)\nreturn repr(a)",
    "a = Ends()\na.append(a)\nreturn repr(a)",
    "a = Ordered()\na['a'] = a\nreturn repr(a)",
    "p = Point(1)\np.x = {p}\nreturn repr(p.x), repr(p)",
    "c = Config(1)\nc.layers.append(c)\nreturn repr(c), repr(c.layers)",
    "t = Tree()\nt.children.append(t)\nt.children.append(Tree())\nreturn repr(t), repr(t)",
    "d = {}\nd['a'] = d.items()\nreturn repr(d), repr(d.items())",
)


@pytest.mark.parametrize("text", RECURSIVE)
def test_a_container_inside_of_itself(text):
    """The inner text is ``[...]``, or the one that the class defines."""
    check(text, **NAMES)


def test_an_error_of_an_item_leaves_nothing_behind():
    """A ``__repr__`` that raises an error has no effect on a later ``repr`` of the same container."""
    check(
        """
        item = Fails()
        items = [item]
        try:
            repr(items)
        except ValueError as error:
            item.fails = False
            return str(error), repr(items)
        """,
        Fails=Fails,
    )


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize(
    "show",
    [
        lambda y: [y, {"a": (y, 1)}],
        lambda y: collections.deque([y]),
        lambda y: collections.OrderedDict(a=y),
        lambda y: collections.defaultdict(list, {"a": [y]}),
        lambda y: Pair(y, 1),
        lambda y: Config(1, [y]),
        lambda y: Items([y]),
        Point,
        lambda y: {Point(y)},
        lambda y: [y.sum().item()],
    ],
)
def test_a_tensor_in_a_container(show):
    """The text is created after the graph, which does not break."""

    def f(x):
        y = x + 1
        return y * 2, f"{show(y)}", repr(show(y)) + "."

    compiled = nbcompile.compile(f, fullgraph=True)
    for x in (torch.ones(3), torch.zeros(3)):
        assert compiled(x)[1:] == f(x)[1:]
