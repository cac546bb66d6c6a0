"""Sets are iterated over in CPython's order, whatever operations came before."""

import random

import pytest
import torch

import nbcompile
from tests.support.graphs import Graphs

HAND = {
    "a symmetric difference in place": lambda: "a = {1, 9}; a ^= {1.0, 2}; r = list(a)",
    "a difference in place": lambda: "a = {8, 0, 16}; a -= {8}; a.add(24); a.add(8); r = list(a)",
    "members that are discarded": lambda: (
        "a = set(range(20))\nfor i in range(17): a.discard(i)\na |= {3, 67}; r = list(a)"
    ),
    "pop goes on where it was": lambda: "a = {0, 1, 2}; r = [a.pop()]; a.add(0); r += [a.pop(), a.pop()]",
    "a copy of a pruned set": lambda: (
        "a = {0, 8, 16, 24}; a.discard(0); b = a.copy(); b.add(0); r = [list(a), list(b)]"
    ),
    "a set of a dict": lambda: "a = set(dict.fromkeys([32, 0, 8, 64])); r = list(a)",
    "a set of keys minus some": lambda: "d = dict.fromkeys([32, 0, 8, 64]); a = d.keys() - {8}; a.add(8); r = list(a)",
    "a frozenset that is a constant": lambda: "a = {40, 8, 0, 16}; a.add(24); r = list(a)",
    "classes": lambda: "a = {int, str, float, torch.Tensor}; a.discard(int); a.add(bytes); r = list(a)",
    "functions": lambda: "a = {torch.sin, torch.cos, len, torch.relu}; r = list(a)",
    "a comprehension": lambda: "a = {i * 8 % 40 for i in range(9)}; a &= {0, 8, 16}; a.add(48); r = list(a)",
    "what is returned": lambda: "a = {0, 8, 16}; a.discard(0); a.add(24); r = a",
}


def _function(text: str, arguments: str = "") -> object:
    lines = "".join(f"    {line}\n" for line in text.splitlines())
    space = {"torch": torch}
    exec(f"def f(x{arguments}):\n{lines}    return x + 1, r\n", space)
    return space["f"]


@pytest.mark.parametrize("text", HAND.values(), ids=list(HAND))
def test_order_of_a_set_with_a_history(text):
    """Removals, additions, growth and copies determine the order of the iteration."""
    f, x = _function(text()), torch.ones(2)
    wanted, found = f(x)[1], nbcompile.compile(f, backend="eager", fullgraph=True)(x)[1]
    assert type(found) is type(wanted)
    assert list(found) == list(wanted)


def _random_program(chance: random.Random) -> str:
    def items() -> str:
        drawn = [
            chance.choice((0, 8, 16, 24, 32, 40, 1, 9, 33, 65, 2.0, True, -1)) for _ in range(chance.randint(1, 7))
        ]
        kind = chance.choice(("{%s}", "[%s]", "(%s,)", "dict.fromkeys([%s])", "frozenset([%s])"))
        return kind % ", ".join(map(repr, drawn))

    lines = [f"a, b, r = set({items()}), set({items()}), []"]
    changes = (
        "a.add({n})", "a.discard({n})", "a.update({i})", "a -= b", "a |= b", "a &= b | {{0, 8}}", "a ^= b", "a = a - b", "a = a | b",
        "b = a ^ b", "b = b & a", "a.difference_update({i})", "a.symmetric_difference_update({i})", "b = a.copy()", "b = set(a)",
        "a = b.union({i}, a)", "a.intersection_update({i})", "r.append(a.pop() if a else None)", "a = set(frozenset(a))", "b.clear()",
        "a = {{k for k in b if k != {n}}}", "r.append(list(a))", "r.append(sorted(map(str, a)))", "a -= {{k for k in a if k}}",
    )  # fmt: skip
    for _ in range(chance.randint(3, 12)):
        lines.append(chance.choice(changes).format(n=chance.choice((0, 8, 16, 1, 9)), i=items()))
    return "\n".join([*lines, "r += [list(a), list(b)]"])


@pytest.mark.parametrize("seed", range(8))
def test_orders_of_random_histories(seed):
    """The results of methods and operators of sets have CPython's order."""
    chance, x = random.Random(seed), torch.ones(2)
    texts = [_random_program(chance) for _ in range(25)]
    for text in texts:
        f = _function(text)
        assert repr(nbcompile.compile(f, backend="eager", fullgraph=True)(x)[1]) == repr(f(x)[1]), text


def test_an_equal_set_with_another_order_is_another_input():
    """{0, 8} and {8, 0} are equal, but a program that iterates over them gives different results."""

    def f(x, s):
        return x + 1, list(s), list(s | {16})

    def g(x, s):
        return x + len(s), 8 in s, s == {0, 8}

    compiled, calls = nbcompile.compile(f, backend="eager", fullgraph=True), Graphs()
    x, sets = torch.ones(2), [{0, 8}, {8, 0}, frozenset([0, 8]), frozenset([8, 0])]
    for one in sets:
        assert compiled(x, one)[1:] == f(x, one)[1:]

    compiled = nbcompile.compile(g, backend=calls, fullgraph=True)
    for one in sets[:2]:
        assert compiled(x, one)[1:] == g(x, one)[1:]
    assert len(calls) == 1


def test_a_set_from_outside_with_a_nan():
    """A NaN in the set is found by identity, as in eager mode, also in the next call."""
    nan = float("nan")

    def f(x, items):
        return x + 1, [item == item for item in items], len(items | {nan}), nan in items

    compiled = nbcompile.compile(f, backend="eager", fullgraph=True)
    for items in ({nan}, {nan, 1.0}, frozenset({nan, 2}), {(nan, 1)}, {nan, float("nan")}):
        for _ in range(2):
            assert compiled(torch.ones(2), items)[1:] == f(torch.ones(2), items)[1:]


def _grown(count: int) -> set[int]:
    grown: set[int] = set()
    for number in range(count):
        grown.add(number)
    return grown


def _pruned(count: int, *kept: int) -> set[int]:
    pruned = _grown(count)
    for number in range(count):
        if number not in kept:
            pruned.discard(number)
    return pruned


class Own(set):
    """A set whose ``__iter__`` is not called where CPython copies the set."""

    def __iter__(self):
        return iter((1, 2))


OUTSIDE = {
    "a large table of few members": ("r = [k for k in s]", lambda: _pruned(1000, 1, 8)),
    "a frozenset made of one": ("r = list(s)", lambda: frozenset(_pruned(1000, 1, 8))),
    "added to a set from outside": ("s.add(33); r = list(s)", lambda: set([17, 2, 3, 4, 0])),
    "added to one that grew": ("s.add(33); r = list(s)", lambda: _grown(18)),
    "changed without a look": ("s.add(65); s.discard(5); r = 1", lambda: _grown(18)),
    "added, removed and added again": (
        "s.discard(3); s.add(40); s.add(33); s.remove(17); s.add(17); r = list(s)",
        lambda: _grown(40),
    ),
    "cleared": ("s.clear(); s.add(17); s.add(1); r = list(s)", lambda: _grown(18)),
    "an equal member of another type": ("s.discard(1); s.add(True); r = list(s)", lambda: _grown(4)),
    "an intersection in place": ("s &= {16, 17, 1, 2, 33}; s.add(18); r = list(s)", lambda: _grown(18)),
    "combined": ("r = [list(s | {33}), list({33, 1} | s), list(s - {2}), list(s ^ {2, 99})]", lambda: _grown(18)),
    "a NaN": ("s.add(3); t = set(s); t.add(5); r = [len(t), s, 3 in t]", lambda: {1, torch.nan}),
    "a tuple with a NaN": ("r = list(s)", lambda: {(1, torch.nan)}),
    "a class with an iterator of its own": ("r = len(s | {40}); t = set(s); r = [r, list(t)]", lambda: Own(_grown(9))),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_set_from_outside_keeps_its_order(name):
    """The set has eager mode's order, in the traced code and after the call."""
    text, made = OUTSIDE[name]
    f, x, wanted, given = _function(text, ", s"), torch.ones(2), made(), made()
    expected, found = f(x, wanted)[1], nbcompile.compile(f, backend="eager", fullgraph=True)(x, given)[1]
    assert repr(found) == repr(expected)
    assert [*map(repr, set.__iter__(given) if isinstance(given, set) else given)] == [
        *map(repr, set.__iter__(wanted) if isinstance(wanted, set) else wanted)
    ]


@pytest.mark.parametrize("kind", [set, Own, type("Plain", (set,), {})])
def test_the_order_and_the_size_of_a_table_are_guarded(kind):
    """Another order or a larger table causes a recompile if the program depends on the order."""
    compiled, x = nbcompile.compile(f := _function("s.add(1); r = list(set(s))", ", s"), backend="eager"), torch.ones(2)
    for made in (lambda: {0, 8}, lambda: {8, 0}, lambda: _pruned(1000, 0, 8), lambda: {0, 8}):
        assert repr(compiled(x, kind(made()) if kind is not set else made())[1]) == repr(
            f(x, kind(made()) if kind is not set else made())[1]
        )


@pytest.mark.usefixtures("nothing_compiled")
def test_returned_sets_of_texts():
    """A set of constants is returned in the order of its additions: a display of constants would have another one."""

    def program(x):
        sets = []
        for number in range(40):
            s = {f"{number}a"}
            for letter in "bcd":
                s.add(f"{number}{letter}")
            sets.append(s)
        return x + 1, sets

    x = torch.ones(2)
    compiled = nbcompile.compile(program, backend="eager", fullgraph=True)
    assert list(map(list, compiled(x)[1])) == list(map(list, program(x)[1]))
