"""Values that are known while tracing: strings, numbers and members of enumerations."""

from __future__ import annotations

import enum

import torch

from tests.support.answers import check
from tests.tracing.variables.test_sequences import Index


class Color(enum.Enum):
    RED = 1
    BLUE = 2

    @property
    def low(self):
        return self.name.lower()

    @classmethod
    def first(cls):
        return cls.RED


class Number(enum.IntEnum):
    ONE = 1
    TWO = 2


class Flags(enum.Flag):
    A = 1
    B = 2


def test_texts():
    """Subscripts, methods and formatting of strings, and their errors."""
    check(
        "'abc'[5]", "'abc'['a']", "'abc'[Index(1)]", "'abc'[::-1]", "'abc'[::0]", "'abc'.index('z')", "'abc'.nothing",
        "'abc'.split(1)", "'abc'.join([1])", "'-'.join('ab')", "'-'.join(1)", "'-'.join()", "b'-'.join([b'a'])", "b'-'.join(['a'])",
        "'{} {a}'.format(1, a=2)", "'{} {a}'.format(1)", "'{!r:>5}'.format('a')", "'{:d}'.format('a')",
        "'{a}'.format_map({'a': 1})", "'{a}'.format_map({})", "'abc'.translate({97: 'z', 98: None})", "1 in 'a'", "'a' in 5",
        "'%d %s' % (1, 'a')", "'%d' % 'a'", "'%s %s' % (1,)", "list('abc')", "list(b'ab')", "'a' + 1", "'a' * 1.5", "-'a'",
        Index=Index,
    )  # fmt: skip


def test_numbers():
    """Rounding, signs of zero and division by zero."""
    check(
        "(5).bit_length()", "(5).to_bytes(2, 'big')", "(1.5).is_integer()", "(1).nothing", "(1)()", "None()", "None.a", "None[0]",
        "(1)[0]", "len(5)", "iter(5)", "int('a')", "int('12', 3)", "float('x')", "~1.5", "1 << -1", "1 // 0", "1 % 0", "1.0 / 0",
        "0 ** -1", "(-8) ** (1 / 3)", "divmod(7, -2)", "round(-0.5)", "round(2.675, 2)", "abs(-0.0)", "-0.0", "True.real",
        "(1 + 2j).conjugate()", "... is ...", "NotImplemented",
    )  # fmt: skip


def test_members_of_enumerations():
    """Members by name and by value, and flags; attributes that the class defines are traced."""
    check(
        "Color.RED.name, Color.RED.value", "Color.RED.low", "Color.first()", "Color(1)", "Color(5)", "Color['RED']", "Color['X']",
        "Color.X", "list(Color)", "len(Color)", "Color.RED in Color", "Color.RED == 1", "Number.ONE + 1", "Number.ONE < Number.TWO",
        "Color.RED < Color.BLUE", "Flags.A | Flags.B", "Flags.A in (Flags.A | Flags.B)", "~Flags.A", "bool(Flags(0))",
        "Color.RED is Color(1)", "f'{Number.ONE} {Color.RED}'", "repr(Color.RED)", "Color.__members__['RED']",
        "{Color.RED: 1}[Color(1)]", Color=Color, Number=Number, Flags=Flags,
    )  # fmt: skip


def test_classes_of_constants():
    """``value.__class__`` is the class itself: it has a name and a hash, and can be called."""
    check(
        "(3).__class__", "(3).__class__.__name__", "{int: 1}[(3).__class__]", "(3).__class__('7')", "(3).__class__ is int",
        "'a'.__class__(5)", "(1.5).__class__.__mro__", "(1,).__class__([2])", "Color.RED.__class__.BLUE", "Color.RED.__class__(2)",
        "hash(True.__class__) == hash(bool)", "issubclass(True.__class__, int)", "(3).__class__.from_bytes(b'a', 'big')",
        "(3).__class__.nothing", "torch.float32.__class__", "torch.finfo(torch.half).__class__.__name__", "None.__class__",
        Color=Color, torch=torch,
    )  # fmt: skip
