"""Lists, tuples, named tuples and sizes: their results and the texts of their errors are Python's."""

from __future__ import annotations

import collections
import functools
import typing

import pytest
import torch

import nbcompile
from tests.support.answers import check

Pair = collections.namedtuple("Pair", "a b")  # noqa: PYI024  # programs use it


class Index:
    def __init__(self, number):
        self.number = number

    def __index__(self):
        return self.number


NAMES = {"Pair": Pair, "Index": Index, "nan": float("nan")}


def test_what_is_no_index():
    """An index that is out of range, of another type or too large, and a slice with a step of 0, raise errors."""
    check(
        "[1, 2][5]", "[1, 2][-3]", "(1, 2)[2]", "Pair(1, 2)[5]", "torch.Size([1])[1]", "[1]['a']", "(1,)['a']",
        "torch.Size([1])['a']", "[1][1.0]", "[1][None]", "[1, 2][Index(1)]", "(1, 2)[Index(5)]", "[1][2**70]", "(1, 2)[True]",
        "[1, 2, 3][::0]", "(1, 2, 3)[::0]", "[1, 2, 3][1:'a']", "[1, 2, 3][:2**70]", "[1, 2, 3][-2**70:]",
        "Pair(1, 2)[0:1]", "torch.Size([1, 2])[0:1]", **NAMES,
    )  # fmt: skip


def test_where_an_item_is():
    """Negative bounds count from the end, and are clipped; an identical NaN is found."""
    check(
        "[1, 2, 1].index(1, 1)", "[1, 2, 1].index(1, -1, 10)", "[1, 2, 3].index(3, -100, 100)", "[1, 2].index(3)",
        "(1, 2).index(3)", "torch.Size([2]).index(4)", "[1].index()", "[1].index(1, 'a')", "[1].index(1, 0, 1, 2)",
        "[nan].index(nan)", "[nan].count(nan)", "nan in [nan]", "nan in (1, nan)", "nan in {1: nan}.values()",
        "[nan] == [nan]", "float('nan') in [float('nan')]", "[float('nan')].count(float('nan'))",
        "xs = [nan, 1]\nxs.remove(nan)\nreturn xs", "[1, 2].count()", "[1].remove(3)", **NAMES,
    )  # fmt: skip


def test_a_change_is_seen_or_rejected():
    """An item is added or removed; an invalid change raises an error."""
    check(
        "[].pop()", "[1].pop(5)", "[1].pop('a')", "[1].pop(1.0)", "[1, 2].pop(Index(0))", "[1].insert('a', 1)", "[1].append()",
        "[1].extend(1)", "[1].copy(1)", "[1].append(x=1)", "[3, 1].sort(1)", "[3, 'a'].sort()",
        "xs = [1, 2, 3]\nxs[1:2] = [7, 8, 9]\nreturn xs", "xs = [1, 2, 3]\nxs[::2] = [7]\nreturn xs",
        "xs = [1, 2, 3]\nxs[0:1] = 5\nreturn xs", "xs = [1]\nxs[5] = 5", "xs = [1]\nxs['a'] = 5", "xs = [1]\ndel xs[5]",
        "xs = [1, 2, 3]\ndel xs[::2]\nreturn xs", "xs = [1]\ndel xs[::0]", "xs = [1]\nxs[::0] = [1]", "xs = (1,)\nxs[0] = 1",
        "xs = [1, 2, 3]\nxs[1:2] = xs\nreturn xs", "xs = [1]\nxs.insert(-9, 0)\nxs.insert(9, 2)\nreturn xs",
        "p = Pair(1, 2)\np.a = 3", "xs = [1]\nxs += 'ab'\nreturn xs", "xs = [1]\nxs += 1", "xs = [1, 2]\nxs *= 2\nreturn xs",
        **NAMES,
    )  # fmt: skip


def test_a_sum_of_sequences():
    """A sum needs sequences of one kind; a tuple and a size give a size, in both orders."""
    check(
        "[1] + (1,)", "(1,) + [1]", "(1,) + Pair(1, 2)", "Pair(1, 2) + (3,)", "torch.Size([2]) + (1,)",
        "(1,) + torch.Size([2])", "() + torch.Size([2])", "Pair(1, 2) + torch.Size([2])", "torch.Size([2]) * 2",
        "[1] * -1", "[1] * 2.0", "(1,) * Index(2)", "[1].__add__((1,))", "[1, 2].__iadd__([3])", **NAMES,
    )  # fmt: skip


def test_a_size_holds_numbers():
    """Other values raise an error at the creation, which the program can catch."""
    check("torch.Size(['a'])", "torch.Size(3)", "torch.Size([2, 3]).numel()", "torch.Size([2]) == (2,)", "torch.Size()")


def test_parts_of_named_tuples():
    """Named tuples have their items by name, and the methods of their class."""
    check(
        "Pair(1, 2)._asdict()", "Pair(1, 2)._replace(a=3)", "Pair(1, 2)._replace(c=3)", "Pair._make([1, 2])", "Pair._make([1])",
        "Pair(1)", "Pair(a=1, c=2)", "Pair(1, 2).c", "Pair(1, 2)._fields", "Pair(1, 2) == (1, 2)", **NAMES,
    )  # fmt: skip


def test_a_list_that_changes_while_it_is_walked():
    """The next item is looked up when it is requested."""
    check(
        "xs = [1, 2, 3]\nfor x in xs:\n    if len(xs) < 6:\n        xs.append(x)\nreturn xs",
        "xs = [1, 2, 3, 4]\nfor x in xs:\n    xs.remove(x)\nreturn xs",
        "xs = [1, 2, 3]\nwalk = iter(xs)\nnext(walk)\nxs.clear()\nreturn list(walk)",
    )


def test_what_no_memory_holds():
    """``*`` and ``*=`` raise Python's MemoryError, without repeating an item while tracing."""
    check(
        "(None, 1) * 2**62", "2**61 * [1]", "[0] * 10**20", "len([0] * 1000), len([0] * -1)",
        "a = [1]; a *= 2**62; return a", **NAMES,
    )  # fmt: skip


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("sequence", [[0], (0,), "ab", b"ab"])
def test_what_python_has_to_try(sequence):
    """Python decides at run time whether so many items fit into memory."""

    def program(x, count):
        try:
            return x, len(sequence * count)
        except MemoryError as error:
            return x, error.args

    compiled = nbcompile.compile(program, backend="eager")
    x = torch.ones(2)
    for count in (3, 10**18):
        assert compiled(x, count)[1] == program(x, count)[1]


class Plain(tuple):
    __slots__ = ()


class Named(tuple):
    __slots__ = ()

    def __hash__(self):
        return 5

    def __repr__(self):
        return "Named" + tuple.__repr__(self)


@pytest.mark.parametrize("kind", [Plain, Named])
def test_objects_of_a_subclass_of_tuple(kind):
    """Hashes, texts and slices are those of a plain tuple or of the class, for new objects and for arguments."""
    questions = (
        "hash(t)", "hash(t) == hash((1, 2))", "repr(t)", "str(t)", "f'{t}'", "f'{t!r:>9}'", "{t: 3}[t]", "t[:], t[:] is t, t[1:]",
        "type(t[:])", "t == (1, 2), t != (1, 2), t < (1, 3)", "t + (3,), t * 2", "2 in t, t.index(2), t.count(1), len(t)",
        "[*t], max(t)", "tuple.__repr__(t), tuple.__hash__(t)",
    )  # fmt: skip
    check(*questions, t=kind((1, 2)))
    check(*(f"t = Kind((1, 2))\nreturn {question}" for question in questions), Kind=kind)


class Listed(list):
    pass


class Queued(collections.deque):
    pass


@pytest.mark.parametrize("value", [Listed([1, "a"]), Listed(), Queued([1], 3), Queued([1, 2])])
def test_texts_of_subclasses_of_list_and_deque(value):
    """The text of a list subclass does not contain its class; that of a deque subclass does."""
    check("repr(t)", "str(t)", "f'{t}'", t=value)


@pytest.mark.usefixtures("nothing_compiled")
def test_items_of_a_given_tuple_of_a_subclass_are_guarded():
    """The items and their number are guarded, because the hash and the text depend on them."""

    def f(x, t):
        return x + (hash(t) == hash((1, 2))), repr(t)

    compiled = nbcompile.compile(f, backend="eager")
    for items in ((1, 2), (1, 3), (1, 2, 3), ("a", 2), (1, 2)):
        result, text = compiled(torch.ones(1), Plain(items))
        assert (result.item(), text) == (1 + (items == (1, 2)), repr(items))


class Twice:
    def __get__(self, pair, owner=None):
        return pair.a * 2


class Fuller(Pair):
    """A named tuple whose class has attributes of each kind, and whose objects have a dict."""

    twice = Twice()
    limit = 3

    @functools.cached_property
    def total(self):
        return self.a + self.b


class Typed(typing.NamedTuple):
    a: int


class Untyped(Typed):
    pass


def test_attributes_of_named_tuples_are_bound():
    """Descriptors in C and of the program give what they give in Python, not themselves."""
    check(
        "p.__class__", "p.__class__.__name__", "p.__class__ is type(p)", "p.__class__(5, 6)",
        "p.limit", "p.__doc__", "isinstance(p, p.__class__)", "u.__annotations__", "Pair(3, 4).__class__ is Pair",
        p=Fuller(1, 2), u=Untyped(1), Pair=Pair,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["twice", "total", "__dict__", "__eq__", "__hash__", "__reduce__"])
def test_other_descriptors_of_named_tuples(name):
    """A descriptor of the program, and a method in C that is returned, are those of the object."""

    def f(x, pair):
        found = getattr(pair, name)
        return x + 1, found() if name in ("__hash__", "__reduce__") else found == Fuller(1, 2).__eq__ or found

    found = nbcompile.compile(f, backend="eager")(torch.ones(1), Fuller(1, 2))[1]
    pair = Fuller(1, 2)
    expected = f(torch.ones(1), pair)[1]
    assert found == expected or found.__self__ == expected.__self__
