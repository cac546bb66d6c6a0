"""Programs whose surroundings change between calls, so that one guard after another has to fail.

    g(x); G = 5; g(x); thing.late = 1; g(x.double()); net.train(False); g(x) ...

The function reads globals, closures, attributes, modes, the type, layout and identity of tensors; changes are drawn
from ``tables/guards.txt``. Some programs run with the default backend and are played a second time, with the stored
entries of the first time, so that the same changes test loaded code. Most are small, and in groups (groups.py): each
reads some of these, is compiled by itself, and is called after each change of the group.

In torch: nothing. Read next: nbcompile/tools/fuzz/networks.py
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

from nbcompile.tools.fuzz import grammar, groups, observe, oracle, preludes, python
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


def new_cell():
    k = 3

    def cell(new=None):
        nonlocal k
        k = k if new is None else new
        return k

    return cell


settings, cell, numbers_of = Settings(), new_cell(), [1, 2]
"""
)
GRAMMAR = grammar.Grammar(grammar.read("calls.txt") | grammar.read("guards.txt"))
INPUTS = GRAMMAR.tables["INPUT"]
NUMBERS = ("1", "1", "2", "0", "2.0", "True", "-1", "7", "float('nan')", "-0.0", "2**40")
STORED = 0.03


GROUPED = 0.7
"""Share of groups."""
GROUP = 24
STATE = "vars(settings), items, table, thing, numbers_of, G, G2, SEEN, REGISTRY, Thing.step, Child.made, vars(net)"


def generate(seed: str) -> Program:
    """Generate the program of a seed, or its group."""
    rng = random.Random(seed)
    return group(seed, rng) if rng.random() < GROUPED else single(seed, rng)


def single(seed: str, rng: random.Random) -> Program:
    """One program, with some of the statements that Python programs have."""
    stored = rng.random() < STORED
    lines = [f"    out.append({GRAMMAR.draw(rng, '<READ>')})" for _ in range(rng.randint(1, 5))]
    if rng.random() < 0.3:
        lines.insert(rng.randint(0, len(lines)), "    graph_break()")
    if rng.random() < 0.25 and not stored:
        lines += python.body(rng, 4)
    text = python.source(lines, calls(rng), PRELUDE)
    return Program("guards", seed, text, "inductor" if stored else "eager", stored=stored, approximate=stored)


def group(seed: str, rng: random.Random, size: int = GROUP) -> Program:
    """Small programs that raise no exception in eager mode: the programs after one that fails are not compared."""
    functions = [_small(rng) for _ in range(size)]
    play = rounds(rng)
    while True:
        used = preludes.used(PRELUDE, " ".join([STATE, play, *functions]))
        program = Program("guards", seed, groups.module(functions, used, play), size=len(functions))
        played = oracle.play(program, lambda function: function)
        failed = set().union(*map(_failed, played.seen))
        if not failed or len(failed) == len(functions):
            return program
        functions = [text for number, text in enumerate(functions) if number not in failed]


def _failed(seen: observe.Observation) -> set[int]:
    """The numbers of the programs that raised an exception."""
    raised = [path for path, fact in seen.items() if fact.text.startswith("raised ")]
    return {int(found[1]) for path in raised if (found := re.fullmatch(r"\[(\d+)\]", path))}


def _small(rng: random.Random) -> str:
    reads = [GRAMMAR.draw(rng, "<READ>") for _ in range(rng.choice((1, 1, 2, 2, 3)))]
    lines = [f"    out.append({read})\n" for read in reads]
    if rng.random() < 0.1:
        lines.insert(rng.randint(0, len(lines)), "    graph_break()\n")
    return f"def p(x, n, items, table, thing, flag, s):\n    z, out = x * 2, []\n{''.join(lines)}    return z, out\n"


def rounds(rng: random.Random) -> str:
    """Calls of all programs, with changes between them."""
    lines = ["    global G", '    thing, items, table = Thing(1), [1], {"a": 1}']
    for x, n, changes in _steps(rng):
        lines.append(f"    yield [tried(g, {x}, {n}, items, table, thing, True, 'ab') for g in programs]")
        lines += [f"    yield {{'state': [{STATE}]}}", *changes]
    return "".join(f"{line}\n" for line in lines)


def calls(rng: random.Random) -> list[str]:
    """Calls with changes between them; ``global`` so that a change of a global is one."""
    lines = ["    global G"]
    for x, n, changes in _steps(rng):
        lines += [f"    yield [call({x}, {n}, items, table, thing, True, 'ab'), vars(settings)]", *changes]
    return lines


def _steps(rng: random.Random) -> Iterator[tuple[str, str, list[str]]]:
    """The first two arguments of a call, and the changes after it."""
    x, n = rng.choice(INPUTS), rng.choice(NUMBERS)
    for left in reversed(range(rng.randint(3, 5))):
        if rng.random() < 0.4:
            x = rng.choice(INPUTS)
        if rng.random() < 0.2:
            n = rng.choice(NUMBERS)
        changes = [f"    {GRAMMAR.draw(rng, '<CHANGE>')}" for _ in range(rng.randint(0, 2) if left else 0)]
        yield x, n, changes
