"""Builtins give the results of eager mode, and raise errors with the same text."""

from __future__ import annotations

from tests.support.answers import check


class Thing:
    def __init__(self):
        self.a = 1


NAMES = {"Thing": Thing, "thing": lambda: Thing()}


def test_attributes_by_name():
    """The attribute functions need a string as the name; the default of ``getattr`` replaces a missing attribute."""
    check(
        "getattr(thing, 'a'), getattr(thing, 'z', 5), hasattr(thing, 'z')", "getattr(thing, 5)", "getattr(thing, 'z')", "hasattr(thing, 5)",
        "getattr(thing)", "setattr(thing, 'n', 3)\nreturn thing.n", "setattr(thing, 5, 3)", "delattr(thing, 'a')\nreturn hasattr(thing, 'a')",
        "delattr(thing, 'zz')", "delattr(thing, 5)", "vars(thing)", "id(thing) == id(thing)", **NAMES,
    )  # fmt: skip


def test_lengths_sums_and_extremes():
    """``len``, ``sum``, ``min``, ``max`` and ``sorted`` of empty and mixed values, and with too many arguments."""
    check(
        "len(5)", "len()", "len([1], 2)", "abs('a')", "abs()", "sum([1, 2], 3), sum([]), sum([[1], [2]], [])", "sum(['a'], '')", "sum(5)", "sum(['a'])",
        "min([3, 1]), max(3, 1), min([], default=4), max('ab')", "min(5)", "min()", "min(1, 2, default=3)", "max([1, 'a'])", "max([[1], [2]])",
        "sorted([3, 1, 2], key=lambda v: -v), sorted('ba'), sorted({2: 1, 1: 1})", "sorted(5)", "sorted([1, 'a'])", "reversed(5)", "reversed({1})",
        "list(reversed('ab')), list(reversed({1: 2}))",
    )  # fmt: skip


def test_slices_by_call():
    """``slice`` takes one to three positional arguments; ``hash`` rejects values that cannot be hashed."""
    check(
        "slice(1, None, 2)",
        "slice()",
        "slice(1, 2, 3, 4)",
        "slice(stop=1)",
        "hash(()) == hash(())",
        "hash([])",
        "hash({})",
    )


class ByIndex:
    def __len__(self):
        return 3

    def __getitem__(self, index):
        if index > 2:
            raise IndexError
        return index * 2

    def __iter__(self):
        return iter("abc")


class EndsByStopIteration(ByIndex):
    __iter__ = None

    def __getitem__(self, index):
        if index == 1:
            raise StopIteration
        return index


class EndsByKeyError(ByIndex):
    def __getitem__(self, index):
        return {2: "two"}[index]


class NoLength(ByIndex):
    __len__ = None


class NegativeLength(ByIndex):
    def __len__(self):
        return -1  # noqa: PLE0303


class Started:
    def __getitem__(self, index):
        if index == 2:
            raise StopIteration
        return index


class NotReversible(list):
    __reversed__ = None


class OfTuple(tuple):  # noqa: SLOT001
    def __getitem__(self, index):
        return "item"


class NotAContainer(ByIndex):
    __contains__ = None


SEQUENCES = {
    cls.__name__: cls
    for cls in (
        ByIndex, EndsByStopIteration, EndsByKeyError, NoLength, NegativeLength, Started, NotReversible, OfTuple, NotAContainer
    )
}  # fmt: skip


def test_reversed_by_index():
    """``reversed`` calls ``__len__`` once and then ``__getitem__``, whatever ``__iter__`` returns."""
    check(
        "list(reversed(ByIndex())), list(ByIndex())", "list(reversed(EndsByStopIteration()))", "list(reversed(OfTuple([1, 2])))",
        "list(reversed(EndsByKeyError()))", "next(reversed(EndsByKeyError()))", "reversed(NoLength())",
        "reversed(NegativeLength())", "reversed(NotReversible([1]))", "type(reversed(ByIndex())).__name__",
        "[*reversed(ByIndex())], tuple(zip(reversed(ByIndex()), ByIndex()))", "sum(reversed(ByIndex()))", **SEQUENCES,
    )  # fmt: skip


def test_iteration_and_membership_without_a_method():
    """An iteration by index ends at StopIteration, too; ``__contains__ = None`` forbids ``in``."""
    check("list(Started())", "1 in Started()", "5 in Started()", "1 in NotAContainer()", "1 in ByIndex()", **SEQUENCES)
