"""Python programs: control flow, closures, classes, containers, exceptions, graph breaks, side effects.

    def f(x, n, items, table, thing, flag, s):
        for i in range(n):
            items.append(x * i)
            if x.sum() > 3: break
        ...
        return x, n, items, ...

A program is drawn from ``tables/python.txt`` and is called with several sets of arguments; each time its result, the
arguments afterwards, the globals and the objects are observed. Graphs run as they were captured, so no C++ compiler
is waited for.

In torch: nothing. Read next: nbcompile/tools/fuzz/guards.py
"""

from __future__ import annotations

import random
import warnings

from nbcompile.tools.fuzz import grammar
from nbcompile.tools.fuzz.program import Program

PRELUDE = (grammar.TABLES / "python_prelude.txt").read_text(encoding="utf-8")
"""Classes and functions that the programs use."""
GRAMMAR = grammar.Grammar(grammar.read("python.txt"))
START = """\
    y, z, i, j = x, x * 2, 1, n
    other, named, mate = [n], {"n": n}, Thing(2)
    step, amount, child = counter(n), Amount(n), Child(n, 1)
    queue, groups = collections.deque([n], maxlen=3), collections.defaultdict(list)
    tags, numbers, slotted, described, meta = {n}, iter([4, 5]), Slotted(n), Described(), Meta()
    out = []
"""
RETURNED = """\
    return (x, y, z, n, i, j, items, other, table, named, thing, mate, out, step(0), amount, child.__dict__, queue,
            groups, sorted(tags, key=str), s, slotted, described, meta, list(numbers))
"""
PLAY = """
def play(compiled):
    g = compiled(f)
    thing, items, table = Thing(1), [1], {"a": 1}

    def call(*arguments):
        return [tried(g, *arguments), arguments, G, G2, SEEN, REGISTRY, Thing.step, Child.made, Meta.kinds, vars(net)]

"""
CALLS = grammar.Grammar(grammar.read("calls.txt"))


def generate(seed: str, size: int = 14) -> Program:
    """The program that a seed stands for."""
    chance = random.Random(seed)
    calls = [f"    yield call({CALLS.draw(chance, '<CALL>')})" for _ in range(chance.randint(2, 4))]
    return Program("python", seed, source(body(chance, size), calls))


def body(chance: random.Random, size: int) -> list[str]:
    """Statements that Python can read: quotes within quotes of an f-string it cannot, up to 3.11."""
    while True:
        lines = GRAMMAR.block(chance, chance.randint(3, size))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compile("def f():\n    i, y = 1, 2\n" + "\n".join(lines), "<fuzz>", "exec")
        except SyntaxError:
            continue
        return lines


def source(lines: list[str], calls: list[str], prelude: str = PRELUDE) -> str:
    """A module: the function, and what is done with it."""
    text = "\n".join(lines)
    done = "\n".join(calls)
    head = "\n\ndef f(x, n, items, table, thing, flag, s):\n"
    return f"{prelude}{head}{START}{text}\n{RETURNED}\n{PLAY}{done}\n"
