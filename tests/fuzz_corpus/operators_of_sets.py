# fuzz: kind=python seed=301/python/sets backend=eager dynamic=None stored=False size=1 approximate=False
import torch

from nbcompile.tools.fuzz.program import tried


def shown(value):
    return type(value).__name__, sorted(value, key=repr)


def operators(x, a, b):
    return x + 1, shown(a & b), shown(a | b), shown(a ^ b), shown(a - b)


def methods(x, a, b):
    return x + 1, shown(a.intersection(b)), shown(a.symmetric_difference(b)), shown(a.union(b)), shown(a.difference(b))


def in_place(x, a, b):
    a ^= b
    c = a.copy()
    c &= b
    return x + 1, shown(a), shown(c)


def rejected(x, a, b):
    try:
        return x + 1, a & b
    except TypeError as error:
        return x - 1, str(error)


def play(compiled):
    g, m, h, r = map(compiled, (operators, methods, in_place, rejected))
    x, large = torch.ones(2), {9: 1, 1: 2, 17: 3}
    sides = [{1, 9}, {True}, {1.0}, frozenset({1.0, 2}), {9.0, 17}, large.keys(), {1.0: 2}.keys(), {1: 2, 9: 4}.items()]
    for a in sides:
        for b in sides:
            yield tried(g, x, a, b)
            if isinstance(a, (set, frozenset)):
                yield tried(m, x, a, b)
                yield tried(m, x, a, list(b))
                yield tried(h, x, a.copy(), b)
    for b in ([1], (1,), 1, {1: 2}, "1"):
        yield tried(r, x, {1}, b)


if __name__ == "__main__":
    from nbcompile.tools.fuzz import oracle, program

    oracle.replay(program.Program.read(__file__))
