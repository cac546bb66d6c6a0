# fuzz: kind=guards seed=1002/guards/6/37 backend=eager dynamic=None stored=False size=1 approximate=False
import heapq
import math
import random

import torch

from nbcompile.tools.fuzz.program import tried


def smallest(x, n):
    return x + 1, heapq.nsmallest(1, [n + 1]), max([n, 2], key=None)


def divided(x, n):
    return x + 1, math.sqrt(random.randrange(5) + n) / 0


def play(compiled):
    for function in (smallest, divided):
        g = compiled(function)
        for n in (1, 2**40, 3):
            yield tried(g, torch.ones(2), n)


if __name__ == "__main__":
    from nbcompile.tools.fuzz import oracle, program

    oracle.replay(program.Program.read(__file__))
