"""Random small Python functions, called again and again with changed state: always as in eager mode.

    def f(x, n, items, table, thing, flag):
        for i in range(n):
            items.append(x * i)
            if x.sum() > 3: break
            torch._dynamo.graph_break()
        ...
        return x, n, items, ...

A program is a text that is drawn choice by choice, so that a failing one shrinks.
The tests compare the results with their identities, the arguments afterwards, globals,
objects, and exceptions by class and text. The long sweep: ``-m slow``.

In torch: nothing. Read next: tests/support/oracle.py
"""

from __future__ import annotations

import itertools
import linecache
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, note, settings, strategies as st

import nbcompile
import nbcompile.config
from tests.support.oracle import Compiler, disagreement, tried

PRELUDE = """
import collections
import contextlib
import dataclasses
import enum
import functools
import itertools
import math
import operator

import torch
from torch._dynamo import graph_break

G = 2
SEEN = []


class Thing:
    step = 1

    def __init__(self, k):
        self.k = k
        self.t = None
        self.items = [k]

    def __repr__(self):
        return f"Thing({self.k})"

    def scaled(self, x):
        self.k += self.step
        return x * self.k

    def broken(self, x):
        y = x + self.k
        graph_break()
        self.items.append(y)
        return y * 2

    @property
    def double(self):
        return self.k * 2

    @staticmethod
    def plus(x, k=1, *, m=2):
        return x * m + k


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.tensor(2.0))
        self.register_buffer("seen", torch.zeros(()))
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        self.seen.add_(1)
        return x * self.w.detach() + self.calls


net = Net()


def helper(x, k=3, *rest, extra=1, **named):
    SEEN.append(k)
    return x + k * extra + len(rest) + len(named)


def breaking(x, k=1):
    y = x * k
    graph_break()
    return y + G


def branching(x):
    if x.sum() > 4:
        return x - 1
    return x * 2


def counter(start):
    n = start

    def step(by=1):
        nonlocal n
        n += by
        return n

    return step


def pieces(x, n):
    for i in range(n):
        yield x + i


class Amount:
    __match_args__ = ("v",)

    def __init__(self, v):
        self.v = v

    def __eq__(self, other):
        return isinstance(other, Amount) and self.v == other.v

    def __add__(self, other):
        return Amount(self.v + getattr(other, "v", other))

    def __radd__(self, other):
        SEEN.append("radd")
        return Amount(other + self.v)

    def __iadd__(self, other):
        self.v = self.v + getattr(other, "v", other)
        return self

    def __lt__(self, other):
        return self.v < getattr(other, "v", other)

    def __bool__(self):
        return bool(self.v)

    def __len__(self):
        return 2

    def __getitem__(self, key):
        if key > 1:
            raise IndexError(key)
        return self.v

    def __contains__(self, item):
        return item == self.v

    def __call__(self, x, *more):
        return x * self.v + len(more)

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return name


class Block:
    def __init__(self, swallows):
        self.swallows = swallows

    def __enter__(self):
        SEEN.append("enter")
        return self

    def __exit__(self, kind, error, trace):
        SEEN.append(kind)
        return self.swallows and kind is ValueError


@contextlib.contextmanager
def held(k):
    SEEN.append(k)
    try:
        yield k + 1
    finally:
        SEEN.append("released")


def talk(n):
    total = 0
    try:
        while total < 3:
            got = yield total
            total += got or 1
    finally:
        SEEN.append("closed")
    return total + n


def told(n):
    talker = talk(n)
    first = next(talker)
    try:
        second = talker.send(2)
        talker.close()
    except StopIteration as stop:
        second = stop.value
    return first + second


def delegated(n):
    result = yield from talk(n)
    yield result


def shouted(function):
    def wrapper(*arguments, **keywords):
        SEEN.append(function.__name__)
        return function(*arguments, **keywords)

    return wrapper


@shouted
def decorated(x, /, k=1, *, m=2):
    return x * k + m


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


Point = collections.namedtuple("Point", "a b")


@dataclasses.dataclass
class Row:
    k: object
    tags: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        SEEN.append("post")


@dataclasses.dataclass(frozen=True, order=True)
class Key:
    k: int = 1


class Noted:
    def note(self, text):
        SEEN.append((type(self).__name__, text))
        return self


class Base:
    made = 0

    def __init__(self, k):
        self.k = k
        self._size = 1
        type(self).made += 0

    @classmethod
    def make(cls, k):
        return cls(k)

    @property
    def size(self):
        return self._size

    @size.setter
    def size(self, value):
        SEEN.append("size")
        self._size = value

    @functools.cached_property
    def slow(self):
        SEEN.append("slow")
        return self.k

    def scaled(self, x):
        return x * 2

    def __eq__(self, other):
        return isinstance(other, Base) and self.k == other.k

    __hash__ = None


class Child(Noted, Base):
    __slots__ = ()

    def __init__(self, k, more=0):
        super().__init__(k)
        self.more = more

    def scaled(self, x):
        return super().scaled(x) + self.more


class Failure(Exception):
    def __init__(self, code, *more):
        super().__init__(code, *more)
        self.code = code


def failing(x, code):
    y = x + code
    if code:
        raise Failure(code, "told")
    return y


@functools.lru_cache
def squared(k):
    return k * k


def matched(subject):
    match subject:
        case []:
            return 0
        case [1, *rest]:
            return len(rest)
        case (a, b):
            return 7
        case {"a": value, **rest}:
            return len(rest)
        case Amount(v=int(v)):
            return v
        case int() | float() if subject > 1:
            return 2
        case str() as text:
            return len(text)
        case _:
            return 9


"""
TENSORS, NUMBERS, LISTS, TABLES, THINGS = (
    ("x", "y", "z"),
    ("n", "i", "j"),
    ("items", "other"),
    ("table", "named"),
    ("thing", "mate"),
)
START = """    y = x
    z = x * 2
    i = 1
    j = n
    other = [n]
    named = {"n": n}
    mate = Thing(2)
    step = counter(n)
    amount = Amount(n)
    child = Child(n, 1)
    queue = collections.deque([n], maxlen=3)
    groups = collections.defaultdict(list)
    out = []
"""
RETURN = "return x, y, z, n, i, j, items, other, table, named, thing, mate, out, step(0), amount, child.__dict__, queue, groups"


class Author:
    """A generator of functions that calls ``draw`` for every choice."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.budget = 14
        self.fresh = itertools.count()

    def pick(self, *choices: Any) -> Any:
        return choices[self.draw(st.integers(0, len(choices) - 1))]

    # -- expressions ----------------------------------------------------------------

    def tensor(self, depth: int = 2) -> str:
        if depth == 0:
            return self.pick(*TENSORS)
        t, n = self.tensor(depth - 1), self.number(depth - 1)
        return self.pick(
            *TENSORS, f"({t} + {n})", f"({t} * {n})", f"({t} - {self.tensor(depth - 1)})", f"torch.relu({t})", f"{t}.sin()", f"({t} + {t}.sum())",
            f"helper({t}, {n})", f"helper({t}, {n}, {n}, extra={n})", f"helper({t}, *[{n}, 1], **{{'k2': {n}}})", f"breaking({t})", f"breaking({t}, k={n})",
            f"branching({t})", f"{self.pick(*THINGS)}.scaled({t})", f"{self.pick(*THINGS)}.broken({t})", f"Thing.plus({t}, {n}, m={n})", f"net({t})",
            f"decorated({t}, {n}, m={n})", f"amount({t})", f"amount({t}, *items)",
            f"sum(pieces({t}, 2))", f"torch.stack([{t}, {t}]).sum(0)", f"(lambda q, k={n}: q + k + i)({t})", f"{t}.clone()", f"{t}[:]", f"{t}.view(-1)",
            f"child.scaled({t})", f"Child.make({n}).note('t').scaled({t})", f"functools.partial(helper, k={n})({t})", f"failing({t}, {n})",
            f"functools.reduce(operator.add, [{t}, {t}, {n}])", f"{t}[..., None].squeeze(-1)", f"{t}[[0, -1]].sum() + {t}", f"{t}[slice(0, {n})].sum() + {t}",
            f"torch.where({t} > {n}, {t}, -{t})", f"({t} if {self.condition(depth - 1)} else {t} + 1)", f"{t}.detach()",
        )  # fmt: skip

    def number(self, depth: int = 1) -> str:
        simple = (
            *NUMBERS,
            "0",
            "1",
            "2",
            "G",
            "2.5",
            "True",
            "len(items)",
            "x.shape[0]",
            "thing.k",
            "mate.double",
            "step()",
            "step(2)",
            "table.get(1, 4)",
            "matched(items)",
            "told(1)",
            "amount.v",
        )
        if depth == 0:
            return self.pick(*simple)
        a, b = self.number(0), self.number(0)
        return self.pick(
            *simple, f"({a} + {b})", f"({a} * {b} % 5)", f"max({a}, {b})", f"len({self.pick(*LISTS)})", f"min([{a}, {b}, 3])", f"({a} if {self.condition(0)} else {b})",
            f"sum(k for k in range(int({a}) % 4))", f"squared({a})", "child.size", "child.slow", f"Point({a}, {b}).b", f"max([{a}, {b}], key=lambda q: -q)",
            f"next((k for k in (1, 2, 3) if k > {a}), 0)", f"math.floor({a})", f"divmod(int({a}), 3)[1]", f"round({a})", f"list(itertools.accumulate([{a}, {b}, 1]))[-1]",
            "queue[0]", "len(queue)", "len(groups)", f"sum(q * 2 for q in queue if q != {a})", "Colour(2).value", "getattr(thing, 'late', 3) is 3 and 1", f"Key({a}).k", "[w for q in (1, 2) if (w := q + i)][0]",
            f"dict(zip('ab', ({a}, {b})))['b']", "sum(f() for f in [lambda: j for k in range(2)])", "len(list(itertools.chain(items, other)))",
            f"int({a})", f"abs({a} - {b})", "len(out)", f"matched(({a}, {b}))", "matched(table)", f"matched({a})", f"(w := {a}) + w", "sum(delegated(1))", "len({*items[:1], 1} | {2})",
            f"len('%s-%s' % ({a}, {b}))", f"(amount + {a}).v", f"({a} + amount).v", "len(list(amount))", "x.dim()", "Thing.step", "len({**table, **named})",
        )  # fmt: skip

    def condition(self, depth: int = 1) -> str:
        a, b = self.number(0), self.number(0)
        simple = (
            "flag", f"{a} > {b}", f"{a} == {b}", "items", "not table", f"{self.pick(*LISTS)} is {self.pick(*LISTS)}", f"{self.pick(*TENSORS)} is {self.pick(*TENSORS)}",
            "'a' in table", f"x.shape[0] > {a}", f"isinstance({a}, int)", "thing is mate", "hasattr(thing, 'late')", f"x.sum() > {a}", f"(x > {a}).any()", "torch.is_grad_enabled()",
            "thing.t is None", f"{a} in (1, 2)", "graph_break() is None", "amount", f"{a} in amount", f"amount < {a}", f"amount == Amount({a})", f"{self.pick(*TABLES)} is {self.pick(*TABLES)}",
        )  # fmt: skip
        if depth == 0:
            return self.pick(*simple)
        return self.pick(
            *simple,
            f"{self.condition(0)} and {self.condition(0)}",
            f"{self.condition(0)} or {self.condition(0)}",
            f"not ({self.condition(0)})",
            f"0 < {a} < {b}",
        )

    def value(self) -> str:
        return self.pick(
            self.tensor(1),
            self.number(1),
            self.number(0),
            self.pick(*THINGS),
            f"({self.tensor(1)}, {self.number(0)})",
            f"[{self.tensor(0)}]",
            "None",
            "'text'",
        )

    # -- statements -----------------------------------------------------------------

    def block(self, indent: int, loop: bool) -> list[str]:
        lines: list[str] = []
        for _ in range(self.draw(st.integers(1, 3))):
            lines += self.statement(indent, loop)
        return lines

    def statement(self, indent: int, loop: bool) -> list[str]:
        self.budget -= 1
        pad = "    " * indent
        compound = indent < 4 and self.budget > 0 and self.draw(st.integers(0, 3)) == 0
        if compound:
            return self.compound(indent, loop)
        return [pad + line for line in self.simple(loop)]

    def simple(self, loop: bool) -> list[str]:
        t, n, a_list, table, thing = (self.pick(*names) for names in (TENSORS, NUMBERS, LISTS, TABLES, THINGS))
        key = self.pick("'a'", "'b'", "1", "'x'")
        choices: list[Any] = [
            lambda: [f"{t} = {self.tensor()}"], lambda: [f"{t} = {self.tensor()}"], lambda: [f"{n} = {self.number()}"], lambda: [f"{t} += {self.number()}"],
            lambda: [f"{t}.add_({self.number(0)})"], lambda: [f"{t}.mul_({self.tensor(0)})"], lambda: [f"{t}[0] = {self.number(0)}"], lambda: [f"{n} += 1"],
            lambda: [f"{a_list}.append({self.value()})"], lambda: [f"{a_list} = {self.pick(*LISTS)}"], lambda: [f"{a_list} += [{self.value()}]"],
            lambda: [f"{a_list} = [*{self.pick(*LISTS)}, {self.value()}]"], lambda: [f"{a_list}[-1:] = [{self.value()}]"], lambda: [f"{a_list}.insert(0, {self.value()})"],
            lambda: [f"if {a_list}: {a_list}.pop()"], lambda: [f"{a_list}.reverse()"], lambda: [f"{a_list} = [{self.tensor(1)} for k in range(2)]"],
            lambda: [f"{table}[{key}] = {self.value()}"], lambda: [f"{table}.pop({key}, None)"], lambda: [f"{table}.update(u={self.number(0)})"],
            lambda: [f"{table} = {self.pick(*TABLES)}"], lambda: [f"{table} = {{**{self.pick(*TABLES)}, {key}: {self.value()}}}"],
            lambda: [f"{table}.setdefault({key}, []) "], lambda: [f"{table} = {{k: v for k, v in {self.pick(*TABLES)}.items() if k != {key}}}"],
            lambda: [f"{thing}.k = {self.number()}"], lambda: [f"{thing}.t = {self.tensor(1)}"], lambda: [f"{thing}.items.append({self.value()})"],
            lambda: [f"{thing}.late = {self.value()}"], lambda: [f"{thing} = {self.pick(*THINGS)}"], lambda: [f"mate = Thing({self.number(0)})"], lambda: [f"{thing}.items = {a_list}"],
            lambda: [f"amount += {self.number(0)}"], lambda: [f"amount = Amount({self.number(0)}) + amount"], lambda: ["out.append(amount.anything)"],
            lambda: [f"out.append(matched({self.value()}))"], lambda: [f"assert {self.condition()}, 'held'"], lambda: [f"out.append({{k: {self.number(0)} for k in range(2)}})"],
            lambda: [f"out.append('{{:>4}}|{{}}'.format({self.number(0)}, {self.number(0)}))"], lambda: [f"gone = {self.value()}", "del gone"], lambda: [f"{table} |= {{{key}: {self.value()}}}"],
            lambda: [f"out.append(list(delegated({self.number(0)}))[:5])"], lambda: [f"first, *_, last = [{self.number(0)}, *items, 2]", "out.append((first, last))"],
            lambda: [f"del {table}[{key}]"], lambda: [f"{t}.data.add_({self.number(0)})"],
            lambda: ["global_step()"], lambda: [f"SEEN.append({self.number(0)})"], lambda: ["graph_break()"], lambda: ["graph_break()"], lambda: [f"out.append(f'{{{self.number(0)}}} {{x.shape}}')"],
            lambda: [f"out.append({self.value()})"], lambda: [f"out.append({self.pick(*TENSORS)} is {self.pick(*TENSORS)})"], lambda: [f"out.append(({a_list}, {table}))"],
            lambda: [f"i, *rest = {self.number(0)}, {self.number(0)}, 3", "out.append(rest)"], lambda: [f"i, j = j, {self.number(0)}"], lambda: [f"out.append(sorted({{1, {self.number(0)}, 3}}))"],
            lambda: [f"step = counter({self.number(0)})"], lambda: [f"out.append({t}.sum().item())"], lambda: [f"net.calls = {self.number(0)}"], lambda: [f"def step(by=1, old=step): return old(by) + {n}"],
            lambda: [f"out.append(list(map(lambda q: q + {n}, [1, 2])))"], lambda: [f"out.append([k for k, v in zip('ab', {a_list})])"], lambda: [f"out.append(list(enumerate({a_list})))"],
            lambda: [f"{t}, {n} = {self.tensor(1)}, {self.number(0)}"], lambda: [f"Thing.step = {self.number(0)}"], lambda: [f"out.append(repr({thing}))"],
        ]  # fmt: skip
        choices += self.of_the_library(t, a_list, table, thing)
        if loop:
            choices += [lambda: [f"if {self.condition()}: break"], lambda: [f"if {self.condition()}: continue"]]
        choices += [
            lambda: [f"if {self.condition()}: {RETURN}"],
            lambda: [f"if {self.condition()}: raise ValueError({self.number(0)}, 'bad')"],
        ]
        return self.pick(*choices)()  # type: ignore[no-any-return]

    def of_the_library(self, t: str, a_list: str, table: str, thing: str) -> list[Any]:
        """Classes, containers, functions of the library, the program's exceptions, and iterators."""
        return [
            lambda: [f"row = Row({self.number(0)})", f"row.tags.append({self.value()})", f"out.append(row == Row({self.number(0)}))", "out.append(row.tags)"],
            lambda: [f"out.append(Key(1) in {{Key({self.number(0)}): 2}})"], lambda: [f"out.append(Key({self.number(0)}) < Key({self.number(0)}))"],
            lambda: [f"out.append(Point({self.value()}, {self.number(0)})._replace(b={self.number(0)}))"], lambda: ["out.append((Colour(i).name, Colour.RED is Colour['RED']))"],
            lambda: [f"queue.append({self.number(0)})"], lambda: [f"queue.appendleft({self.number(0)})"], lambda: ["queue.rotate(1)"], lambda: [f"queue.extend([{self.number(0)}, {self.number(0)}])"],
            lambda: ["out.append(queue.popleft() if queue else 'empty')"], lambda: [f"groups[{self.number(0)}].append({self.value()})"], lambda: [f"groups['a'].extend({a_list})"],
            lambda: [f"out.append(collections.Counter([{self.number(0)}, {self.number(0)}, 1]).most_common(1))"], lambda: [f"child.size = {self.number(0)}"], lambda: [f"child.slow = {self.number(0)}"],
            lambda: [f"child = child.note({self.number(0)})"], lambda: [f"child = Child.make({self.number(0)})"], lambda: ["Child.made += 1"], lambda: [f"out.append(child == Base({self.number(0)}))"],
            lambda: [f"try: out.append(failing({t}, {self.number(0)}))", "except Failure as bad: out.append((bad.code, bad.args))"], lambda: [f"if {self.condition()}: raise Failure({self.number(0)}, 'raised')"],
            lambda: [f"rows = pieces({t}, 3)", "out.append(next(rows))", "graph_break()", "out.append(list(rows))"], lambda: [f"it = iter({a_list})", "out.append(next(it, None))", "graph_break()", "out.append(list(it))"],
            lambda: [f"rows = zip({a_list}, 'abc')", "graph_break()", "out.append(list(rows))"], lambda: [f"marks = {{1, {self.number(0)}}}", f"marks |= {{{self.number(0)}}}", "marks.discard(1)", "out.append(marks)"],
            lambda: [f"{t}.tag = {self.number(0)}", f"out.append({t}.tag)"], lambda: [f"out.append(f'{{{self.number(0)}!r:>5}}|{{flag:^5}}')"], lambda: ["out.append('-'.join(map(str, [i, j])).split('-'))"],
            lambda: [f"setattr({thing}, 'late', {self.value()})"], lambda: [f"del {thing}.late"], lambda: [f"out.append(list({table}.items()))"], lambda: [f"out.append(sorted(map(str, {table}.keys() & {{'a', 'b', 1}})))"],
            lambda: [f"out.append({{}}[{self.number(0)}])"], lambda: [f"out.append({a_list}[{self.number(0)}])"], lambda: ["out.append(i.nothing)"], lambda: [f"out.append({self.number(0)} // (i - 1))"], lambda: ["out.append(None + i)"],
            lambda: ["del i", "i = 4"], lambda: [f"other = {a_list} = [{self.value()}]"], lambda: [f"out.append([*itertools.islice(itertools.count({self.number(0)}), 2)])"],
            lambda: [f"out.append(list(itertools.zip_longest({a_list}, [1, 2])))"], lambda: [f"out.append([(k, list(g)) for k, g in itertools.groupby([1, 1, {self.number(0)}])])"], lambda: [f"out.append(any(q == {self.number(0)} for q in (1, i)))"],
            lambda: ["def late(): return gone_later", "gone_later = i", "out.append(late())", "del gone_later", "try: out.append(late())", "except NameError as lost: out.append(str(lost))"],
            lambda: [f"class Local: k = {self.number(0)}", "out.append(Local.k)"], lambda: [f"{table}.update({{{self.number(0)}: {self.value()}}}, v=1)"], lambda: [f"out.append({table}.popitem()) if {table} else None"],
            lambda: [f"{a_list}.extend({a_list}[:2])"], lambda: [f"{a_list}.sort(key=id) if len({a_list}) < 2 else None"], lambda: [f"out.append({a_list}.count({self.number(0)}))"], lambda: [f"{a_list}[::2] = {a_list}[::2][::-1]"],
            lambda: [f"{a_list} *= 2", f"del {a_list}[3:]"], lambda: [f"out.append(torch.Size([i, 2])[0] if isinstance(i, int) else {self.number(0)})"], lambda: [f"{t}[{t} > {self.number(0)}] = 0"], lambda: [f"out.append(len({t}.unbind()))"],
            lambda: [f"torch.add({t}, 1, out={t})"], lambda: [f"out.append({t}.tolist())"], lambda: [f"out.append(float({t}.sum()))"], lambda: [f"out.append(torch.equal({t}, {self.tensor(0)}))"], lambda: [f"{t} = {t}.double().float()"],
        ]  # fmt: skip

    def compound(self, indent: int, loop: bool) -> list[str]:
        pad = "    " * indent
        kind = self.pick(
            "if",
            "if",
            "for",
            "while",
            "try",
            "finally",
            "with",
            "with",
            "def",
            "each",
            "match",
            "chained",
            "else",
            "generator",
        )
        body = (
            self.block(indent + 1, loop or kind in ("for", "while", "each", "generator"))
            if kind != "def"
            else self.block(indent + 1, False)
        )
        number = next(self.fresh)
        match kind:
            case "if":
                lines = [f"{pad}if {self.condition()}:", *body]
                return [*lines, f"{pad}else:", *self.block(indent + 1, loop)] if self.pick(True, False) else lines
            case "for":
                lines = [f"{pad}for i in range({self.pick('2', '3', 'int(n) % 4', 'len(items[:3])')}):", *body]
                return [*lines, f"{pad}else:", *self.block(indent + 1, loop)] if self.pick(True, False) else lines
            case "each":
                over = self.pick(
                    "list(table.items())[:3]",
                    "list(items)[:3]",
                    "pieces(x, 2)",
                    "zip([1, 2], [x, y])",
                    "enumerate((x, 3))",
                )
                return [f"{pad}for item in {over}:", f"{pad}    out.append(item)", *body]
            case "while":
                return [
                    f"{pad}w{number} = 0",
                    f"{pad}while w{number} < {self.pick('2', '3', 'n')} and w{number} < 3:",
                    f"{pad}    w{number} += 1",
                    *body,
                ]
            case "try":
                caught = self.pick("ValueError", "(KeyError, ValueError)", "Exception")
                return [
                    f"{pad}try:",
                    *body,
                    f"{pad}except {caught} as error:",
                    f"{pad}    out.append(repr(error))",
                    *self.block(indent + 1, loop),
                ]
            case "finally":
                return [
                    f"{pad}try:",
                    *body,
                    f"{pad}finally:",
                    f"{pad}    out.append('finally')",
                    *self.block(indent + 1, False),
                ]
            case "with":
                manager = self.pick(
                    "torch.no_grad()",
                    "torch.enable_grad()",
                    "torch.set_grad_enabled(flag)",
                    "Block(flag)",
                    "held(n) as i",
                    "Block(True), held(1) as j",
                    "contextlib.suppress(ValueError)",
                )
                return [f"{pad}with {manager}:", *body]
            case "match":
                subject = self.pick("items", "table", "n", "(i, j)", "amount", "thing")
                case = self.pick(
                    "[]", "[first, *_]", "{'a': found}", "int()", "(1, _)", "Amount(v=1)", "Thing(k=1 | 2)", "0 | 1"
                )
                other = self.block(indent + 2, loop)
                inner = ["    " + line for line in body]
                return [f"{pad}match {subject}:", f"{pad}    case {case}:", *inner, f"{pad}    case _:", *other]
            case "chained":
                return [
                    f"{pad}try:",
                    f"{pad}    try:",
                    f"{pad}        raise ValueError({self.number(0)})",
                    f"{pad}    except ValueError as inner:",
                    f"{pad}        raise KeyError('outer') from inner",
                    f"{pad}except KeyError as outer:",
                    f"{pad}    out.append((repr(outer), repr(outer.__cause__)))",
                    *body,
                    f"{pad}else:",
                    f"{pad}    out.append('else')",
                ]
            case "else":
                return [
                    f"{pad}try:", *body,
                    f"{pad}except (Failure, LookupError) as error:", f"{pad}    out.append(error.args)",
                    f"{pad}except ValueError:", *self.block(indent + 1, loop),
                    f"{pad}else:", *self.block(indent + 1, loop),
                    f"{pad}finally:", f"{pad}    out.append(i)",
                ]  # fmt: skip
            case "generator":
                return [
                    f"{pad}def rows{number}(k, *more, last=2):",
                    f"{pad}    try:", f"{pad}        yield {self.tensor(1)} + k", f"{pad}        yield from more",
                    f"{pad}        yield last", f"{pad}    finally:", f"{pad}        out.append('rows end')",
                    f"{pad}for row in rows{number}({self.number(0)}, {self.value()}):", f"{pad}    out.append(row)", *body,
                ]  # fmt: skip
        shared = self.pick("i", "y", "other", "j")
        return [
            f"{pad}def inner{number}():", f"{pad}    nonlocal_marker = 1", *self.local_body(body, pad, shared), f"{pad}if {self.condition()}: out.append(inner{number}())",
        ]  # fmt: skip

    def local_body(self, body: list[str], pad: str, shared: str) -> list[str]:
        # A nested function: one variable is nonlocal, the others are bound at its definition.
        kept = [f"{pad}    nonlocal {shared}"]
        change = {"i": "i += 1", "y": f"y = {self.tensor(1)}", "other": "other = [*other, 1]", "j": "j = i + 1"}[shared]
        return [*kept, f"{pad}    {change}", f"{pad}    return {shared}"]

    def program(self) -> str:
        lines: list[str] = []
        while self.budget > 0:
            lines += self.statement(1, False)
            if self.draw(st.integers(0, 6)) == 0:
                break
        body = "\n".join(lines)
        return f"{PRELUDE}\ndef global_step():\n    global G\n    G += 1\n\n\ndef f(x, n, items, table, thing, flag):\n{START}{body}\n    {RETURN}\n"


@st.composite
def programs(draw: Any) -> str:
    return Author(draw).program()


_numbers = itertools.count()


def load(source: str) -> dict[str, Any]:
    """The module of a program, whose source tracebacks can show."""
    name = f"<random program {next(_numbers)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    module = sys.modules["random_program"] = types.ModuleType("random_program")  # data classes look up their module
    exec(compile(source, name, "exec"), module.__dict__)
    return module.__dict__


class OperatorFails(Exception):
    """The error after which results cannot be compared."""


def calls(source: str, compiled: Compiler) -> Iterator[object]:
    """Call a program, change some state, and call it again."""
    try:
        yield from _calls(source, compiled)
    except OperatorFails:
        yield "an operator fails"


def _calls(source: str, compiled: Compiler) -> Iterator[object]:
    scope = load(source)
    f, thing_class = compiled(scope["f"]), scope["Thing"]
    x = torch.arange(1.0, 4.0)
    items, table, thing = [1], {"a": 1}, thing_class(1)

    def call(*arguments: Any) -> object:
        result = tried(f, *arguments)
        if isinstance(result, tuple) and isinstance(result[0], type) and issubclass(result[0], RuntimeError):
            # An operator fails: tracing raises torch's own class of error, before any side effect.
            raise OperatorFails
        world = {name: scope[name] for name in ("G", "SEEN")}
        return [result, list(arguments), world, scope["net"].calls, scope["net"].seen, thing_class.step]

    yield call(x, 1, items, table, thing, True)
    yield call(x.clone(), 1, [1], {"a": 1}, thing_class(1), True)
    yield call(x, 2, items, table, thing, False)
    scope["G"] = 5
    yield call(torch.ones(4), 3, [x, 2, 3], {"b": x, "a": 2}, thing, True)
    thing.k = 7
    yield call(torch.ones(5, dtype=torch.float64), 0, thing.items, table, thing, False)
    thing_class.scaled = lambda self, x: x - 1
    scope["helper"].__defaults__ = (4,)
    yield call(torch.full((2,), -1.0), 2, [], {}, thing_class(3), True)
    with torch.no_grad():
        yield call(torch.ones(3), 1, [1], {"a": 1}, thing_class(1), True)


COMMON: dict[str, Any] = {
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "database": None,
    "phases": (Phase.explicit, Phase.generate, Phase.shrink),
}


def check(source: str, **options: Any) -> None:
    note(source)
    # An assertion on a tensor is an operator of the graph, as in torch, with another class of exception.
    with nbcompile.config.patch(rewrite_assert_with_torch_assert=False):
        found = disagreement(lambda compiled: calls(source, compiled), **options)
    assert not found, found + "\n\n" + source[source.index("def f(") :]


@settings(max_examples=60, derandomize=True, **COMMON)
@given(programs())
def test_random_programs(source: str) -> None:
    """Random programs that run their captured graphs give eager mode's results."""
    check(source)


@pytest.mark.slow
@settings(max_examples=400, **COMMON)
@given(programs())
def test_many_random_programs(source: str) -> None:
    """The long sweep of about two minutes, with new programs every time."""
    check(source)


@settings(max_examples=40, derandomize=True, **COMMON)
@given(programs())
def test_random_programs_through_the_default_backend(source: str) -> None:
    """Random programs that run generated kernels give eager mode's results."""
    check(source, backend="inductor", digits=4)
