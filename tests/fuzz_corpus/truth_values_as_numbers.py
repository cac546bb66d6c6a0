# fuzz: kind=python seed=1023/python/0/55 backend=eager dynamic=None stored=False size=1 approximate=False
import random

import torch

from nbcompile.tools.fuzz.program import tried


def f(x, n):
    drawn = bool(int(random.random() * 4))
    return x + n, int(float(drawn)), drawn == 1


def g(x, n):
    large = n > 3
    return x + n, large == 1, large != False, float(large) == 1, round(large), large in (0, 5)  # noqa: E712


def play(compiled):
    for function in (f, g):
        called = compiled(function)
        for n in (1, 4, 3, 7, 2):
            random.seed(n)
            yield tried(called, torch.arange(1.0), n)


if __name__ == "__main__":
    from nbcompile.tools.fuzz import oracle, program

    oracle.replay(program.Program.read(__file__))
