"""Named tuples with attributes, and the dicts of classes."""

import collections
import types
import typing

import torch

from tests.peer.program import program

ones = torch.ones


class Point(collections.namedtuple("Point", "x y")):  # noqa: SLOT002, PYI024  (without slots, so it has a dict)
    scale = 3

    def total(self):
        return self.x + self.y * self.scale

    @property
    def swapped(self):
        return Point(self.y, self.x)


@program()
def namedtuple_subclass_made_inside():
    def f(x):
        p = Point(x, x + 1)
        return p.total(), p.swapped.x

    return f, [(ones(3),)]


@program()
def namedtuple_subclass_attribute():
    def f(p):
        return p.x * p.tag + p.y

    p = Point(ones(2), ones(2) * 2)
    p.tag = 3
    return f, [(p,)]


@program()
def namedtuple_subclass_attribute_set_inside():
    def f(x):
        p = Point(x, x + 1)
        p.tag = 5
        p.more = x * 2
        return p, p.tag * x

    return f, [(ones(3),)]


T = typing.TypeVar("T")


class Pair(typing.NamedTuple):
    a: torch.Tensor
    b: int = 2


class GPair(typing.NamedTuple, typing.Generic[T]):
    a: T
    b: int = 2


@program()
def generic_namedtuple():
    def f(x):
        p = GPair[torch.Tensor](x, 3)
        q = GPair(x)
        return p.a * p.b + q.a * q.b, p, p._asdict()["b"], p._replace(b=7).b, GPair._fields

    return f, [(ones(3),)]


@program()
def generic_namedtuple_is_given():
    def f(p):
        return p.a * p.b

    return f, [(GPair(ones(2), 3),), (Pair(ones(2), 3),)]


@program()
def namedtuple_attribute_is_set_on_an_input():
    def f(p):
        p.tag = p.x * 2
        p.times = getattr(p, "times", 0) + 1
        return p.tag + p.y, hasattr(p, "nothing"), p

    p = Point(ones(2), ones(2) * 2)
    return f, [(p,), (p,)]


@program()
def namedtuple_attribute_hides_a_method():
    def f(p):
        return p.x + p.scale

    def call(compiled):
        p = Point(ones(2), ones(2))
        first = compiled(p)
        p.scale = 7
        return first, compiled(p)

    return f, [call]


@program()
def namedtuple_field_is_overridden():
    class Doubled(Point):
        @property
        def x(self):
            return self[0] * 2

    def f(x):
        return Doubled(x, x).x

    return f, [(ones(2),)]


@program()
def namedtuple_attribute_is_deleted():
    def f(x):
        p = Point(x, x)
        p.tag = 2
        del p.tag
        try:
            del p.tag
        except AttributeError as error:
            return x + 1, str(error), hasattr(p, "tag"), p
        return x

    return f, [(ones(2),)]


class C0:
    @staticmethod
    def s(x):
        return x + 1

    @classmethod
    def c(cls, x):
        return x + cls.k

    k = 2


@program()
def function_of_a_staticmethod_object():
    def f(x):
        return C0.__dict__["s"].__func__(x)

    return f, [(ones(3),)]


@program()
def function_of_a_classmethod_object():
    def f(x):
        return C0.__dict__["c"].__func__(C0, x)

    return f, [(ones(3),)]


@program()
def mapping_proxy_of_a_class():
    def f(x):
        d = C0.__dict__
        return x + d["k"], "k" in d, isinstance(d, types.MappingProxyType)

    return f, [(ones(3),)]


@program()
def entries_of_a_class_dict():
    def f(x):
        entries = C0.__dict__
        found = entries.get("missing", 3), "c" in entries, "missing" in entries
        try:
            entries["missing"]
        except KeyError as error:
            return entries["s"](x) + entries["k"], found, error.args
        return x

    return f, [(ones(2),)]


@program()
def entry_of_a_class_dict_changes():
    class Local:
        k = 2

    def f(x):
        return x * Local.__dict__["k"], "late" in Local.__dict__

    def call(compiled):
        Local.k = 5
        Local.late = 1
        return compiled(ones(2))

    return f, [(ones(2),), call]
