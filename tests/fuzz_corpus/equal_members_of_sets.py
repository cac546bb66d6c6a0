# fuzz: kind=python seed=11/python/1 backend=eager dynamic=None stored=False size=1 approximate=False
import math

import torch

from nbcompile.tools.fuzz.program import tried


def f(x, members):
    return x + 1, sorted(members)


def after_a_break(x, n):
    members = {n}
    x = x + 1
    torch._dynamo.graph_break()
    return x * 2, sorted(members)


def play(compiled):
    g, h = compiled(f), compiled(after_a_break)
    for n in (1, True, 1.0, math.nan, 0, False, 0.0, -0.0, (1,), (True,), 1 + 0j):
        for made in (set, frozenset):
            yield tried(g, torch.ones(2), made([n]))
        yield tried(h, torch.ones(2), n)


if __name__ == "__main__":
    from nbcompile.tools.fuzz import oracle, program

    oracle.replay(program.Program.read(__file__))
