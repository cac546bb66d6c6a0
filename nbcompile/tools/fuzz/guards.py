"""Programs whose surroundings change between calls: what a guard promised is broken, one promise after another.

    g(x); G = 5; g(x); thing.late = 1; g(x.double()); net.train(False); g(x) ...

The function reads globals, closures, attributes, modes, the type, layout and identity of tensors; changes are drawn
from ``tables/guards.txt``. Some programs run with the default backend and are played a second time, from the entries
that the first time left in the store: the same changes then meet code that was loaded.

In torch: nothing. Read next: nbcompile/tools/fuzz/networks.py
"""

from __future__ import annotations

import random

from nbcompile.tools.fuzz import grammar, python
from nbcompile.tools.fuzz.program import Program

PRELUDE = (
    python.PRELUDE
    + """

class Other(Thing):
    step = 4


class Settings:
    def __init__(self):
        self.n, self.names, self.fn = 2, ["a"], torch.sin
        self.x, self.y = torch.ones(2, 3), torch.ones(2, 3) * 2


class Settings2(Settings):
    pass


def made_cell():
    k = 3

    def cell(new=None):
        nonlocal k
        k = k if new is None else new
        return k

    return cell


settings, cell, numbers_of = Settings(), made_cell(), [1, 2]
"""
)
GRAMMAR = grammar.Grammar(grammar.read("calls.txt") | grammar.read("guards.txt"))
INPUTS = GRAMMAR.tables["INPUT"]
NUMBERS = ("1", "1", "2", "0", "2.0", "True", "-1", "7", "float('nan')", "-0.0", "2**40")
STORED = 0.03


def generate(seed: str) -> Program:
    """Generate the program of a seed."""
    chance = random.Random(seed)
    stored = chance.random() < STORED
    lines = [f"    out.append({GRAMMAR.draw(chance, '<READ>')})" for _ in range(chance.randint(1, 5))]
    if chance.random() < 0.3:
        lines.insert(chance.randint(0, len(lines)), "    graph_break()")
    if chance.random() < 0.25 and not stored:
        lines += python.body(chance, 4)
    text = python.source(lines, calls(chance), PRELUDE)
    return Program("guards", seed, text, "inductor" if stored else "eager", stored=stored, approximate=stored)


def calls(chance: random.Random) -> list[str]:
    """Calls with changes between them; ``global`` so that a change of a global is one."""
    lines = ["    global G"]
    x, n = chance.choice(INPUTS), chance.choice(NUMBERS)
    for _ in range(chance.randint(2, 4)):
        if chance.random() < 0.4:
            x = chance.choice(INPUTS)
        if chance.random() < 0.2:
            n = chance.choice(NUMBERS)
        lines.append(f"    yield [call({x}, {n}, items, table, thing, True, 'ab'), vars(settings)]")
        lines += [f"    {GRAMMAR.draw(chance, '<CHANGE>')}" for _ in range(chance.randint(0, 2))]
    lines.append(f"    yield call({x}, {n}, items, table, thing, True, 'ab')")
    return lines
