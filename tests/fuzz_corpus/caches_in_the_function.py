# fuzz: kind=guards seed=1004/guards/caches backend=eager dynamic=None stored=False size=1 approximate=False
import functools

import torch

from nbcompile.tools.fuzz.program import tried


def counted(x, n):
    g = functools.cache(lambda number: number + 1)
    g(1)
    g(n)
    return x + 1, g.cache_info().hits, tuple(g.cache_info())


def least_recently_used(x, n):
    log = []

    @functools.lru_cache(maxsize=2, typed=True)
    def g(number, step=1):
        log.append(number)
        return x * number + step

    results = [g(1), g(n), g(1), g(number=n), g(3, 2), g(n), g(1)]
    return results, results[0] is results[2], log, tuple(g.cache_info()), g.cache_parameters(), g.__name__


def called_again(x, n):
    g = functools.lru_cache(maxsize=4)(lambda number: [number, x + number])
    first = g(n)
    print("", end="")
    first.append(g(2))
    return first is g(n), first, tuple(g.cache_info()), g(n)[0]


def recursive(x, n):
    @functools.cache
    def fib(number):
        return x if number < 2 else fib(number - 1) + fib(number - 2)

    return fib(7), tuple(fib.cache_info())


def rejected(x, n):
    g = functools.cache(lambda number: number[0])
    errors = [tried(g, [n]), tried(g, n), tried(g, (n,)), tried(g, n)]
    return x + 1, errors, tuple(g.cache_info())


def play(compiled):
    for function in (counted, least_recently_used, called_again, recursive, rejected):
        g = compiled(function)
        for n in (1, 1.0, True, 3, 2):
            yield tried(g, torch.ones(3), n)


if __name__ == "__main__":
    from nbcompile.tools.fuzz import oracle, program

    oracle.replay(program.Program.read(__file__))
