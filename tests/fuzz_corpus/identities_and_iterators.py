# fuzz: kind=guards seed=1004/guards/41/10 backend=eager dynamic=True stored=False size=1 approximate=False
import math

import torch

from nbcompile.tools.fuzz.program import tried


class Thing:
    pass


def nothing_dropped(x, n):
    y = torch.nn.functional.dropout(x, 0.5, training=False)
    z = torch.dropout(x, 0.0, True)
    return x + 1, y is x, id(z) == id(x), x, y


def dicts_of_objects(x, n):
    mate, other = Thing(), Thing()
    return x + 1, vars(mate) is vars(mate), mate.__dict__ is vars(mate), vars(mate) is vars(other)


def used_up(x, n):
    ended, begun, turned, of_a_tuple = iter([]), iter([1, n]), reversed([1, 2, n]), iter((1, n))
    next(begun)
    next(turned)
    next(of_a_tuple)
    next(ended, None)
    return x + 1, ended, begun, turned, of_a_tuple, lambda: (ended, begun)


def rounded(x, n):
    return x + 1, math.floor(n), math.ceil(n), math.trunc(n), round(n)


def indices(x, n):
    return x + 1, [1, 2][n]


def play(compiled):
    for function in (nothing_dropped, dicts_of_objects, used_up, rounded, indices):
        g = compiled(function)
        yield tried(g, torch.ones(3, requires_grad=True), 2.5)
        yield tried(g, torch.ones(8)[::2], 3.5)
        yield tried(g, torch.ones(4), 1)
        yield tried(g, torch.ones(5), 0)


if __name__ == "__main__":
    from nbcompile.tools.fuzz import oracle, program

    oracle.replay(program.Program.read(__file__))
