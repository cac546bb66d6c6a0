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
import re
import warnings

from nbcompile.tools.fuzz import grammar
from nbcompile.tools.fuzz.program import Program

PRELUDE = (grammar.TABLES / "python_prelude.txt").read_text(encoding="utf-8")
"""Classes and functions that the programs use."""
GRAMMAR = grammar.Grammar(grammar.read("python.txt"))
START = """\
    y, z, i, j = x, x * 2, 1, n
    out = []
"""
OBJECTS = {
    "other": ("[n]", "other"),
    "named": ('{"n": n}', "named"),
    "mate": ("Thing(2)", "mate"),
    "step": ("counter(n)", "step(0)"),
    "amount": ("Amount(n)", "amount"),
    "child": ("Child(n, 1)", "child.__dict__"),
    "queue": ("collections.deque([n], maxlen=3)", "queue"),
    "groups": ("collections.defaultdict(list)", "groups"),
    "tags": ("{n}", "sorted(tags, key=str)"),
    "numbers": ("iter([4, 5])", "list(numbers)"),
    "slotted": ("Slotted(n)", "slotted"),
    "described": ("Described()", "described"),
    "meta": ("Meta()", "meta"),
}
"""Initial value of each object that statements use, and the facts returned of it. Unused objects are left out."""
PLAY = """
def play(compiled):
    g = compiled(f)
    thing, items, table = Thing(1), [1], {"a": 1}

    def call(*arguments):
        return [tried(g, *arguments), arguments, G, G2, SEEN, REGISTRY, Thing.step, Child.made, Meta.kinds, vars(net)]

"""
CALLS = grammar.Grammar(grammar.read("calls.txt"))


def generate(seed: str, size: int = 14) -> Program:
    """Generate the program of a seed."""
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
    used = [name for name in OBJECTS if re.search(rf"\b{name}\b", text)]
    start = START + "".join(f"    {name} = {OBJECTS[name][0]}\n" for name in used)
    returned = "x, y, z, n, i, j, items, table, thing, out, s"
    returned = ", ".join([returned, *(OBJECTS[name][1] for name in used)])
    return f"{prelude}{head}{start}{text}\n    return ({returned})\n\n{PLAY}{done}\n"
