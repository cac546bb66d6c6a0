"""Cached functions: created by traced code, returned by it, used after a graph break, and from outside."""

from __future__ import annotations

import copy
import functools
import traceback
from typing import Any

import pytest
import torch

import nbcompile
from tests.support.answers import check
from tests.support.graphs import Graphs
from tests.support.oracle import one_graph

NAMES = {"functools": functools, "copy": copy}


# -- in one graph ------------------------------------------------------------------------------------


def test_hits_misses_and_the_order_of_use():
    """The cache drops the least recently used entry, and calls the function once for each miss."""
    check(
        "g = functools.cache(lambda n: n)\ng(1)\ng(1)\nreturn g.cache_info().hits",
        """
        log = []
        @functools.lru_cache(maxsize=2)
        def g(n):
            log.append(n)
            return n * 2
        return [g(n) for n in (1, 2, 1, 3, 2, 1)], log, g.cache_info()
        """,
        """
        g = functools.cache(lambda n: n)
        g(1), g(1), g(2)
        before = g.cache_info()
        return before, g.cache_clear(), g.cache_info(), g(1), g.cache_info()
        """,
        **NAMES,
    )


def test_keys():
    """The order of keywords, the classes of numbers, NaN and signs of zeros distinguish keys."""
    check(
        """
        g = functools.lru_cache(lambda *a, **k: (a, k))
        calls = g(1), g(1.0), g(True), g(1, 2), g(1.0, 2.0), g(a=1, b=2), g(b=2, a=1), g((1,)), g("a"), g(), g(-0.0), g(0.0)
        return calls, g.cache_info()
        """,
        """
        g = functools.lru_cache(typed=True)(lambda n, m=0: n)
        g(1), g(1.0), g(True), g(1, m=1), g(1, m=1.0), g(1)
        return g.cache_info(), g.cache_parameters()
        """,
        "g = functools.cache(lambda n: n)\nnan = float('nan')\ng(nan), g(nan), g(float('nan'))\nreturn g.cache_info()",
        "g = functools.cache(lambda n: n)\ng([])", "g = functools.cache(lambda n: n)\ng(n={})",
        "g = functools.lru_cache(maxsize=0)(len)\nreturn g([]), g([1]), g.cache_info()",
        **NAMES,
    )  # fmt: skip


class Key:
    """A key that records calls of its methods."""

    def __init__(self, number, log):
        self.number = number
        self.log = log

    def __hash__(self):
        self.log.append("hash")
        return 1

    def __eq__(self, other):
        self.log.append(f"{self.number} == {other.number}")
        return self.number == other.number


def test_keys_of_the_program_are_asked_as_often_as_by_python():
    """Each call uses ``__hash__`` once, and ``__eq__`` if hashes collide."""
    text = """
        log = []
        g = functools.KIND(lambda key: key.number)
        a, b, c, d = Key(1, log), Key(2, log), Key(1, log), Key(3, log)
        g(a), g(b), g(c), g(b), g(a), g(d), g(c), g(b)
        return log, g.cache_info()
        """
    check(*(text.replace("KIND", kind) for kind in ("cache", "lru_cache(maxsize=2)")), **NAMES, Key=Key)


def test_what_is_raised_is_not_kept():
    """A call that raises an error is a miss, and is not cached."""
    check(
        """
        log = []
        @functools.cache
        def g(n):
            log.append(n)
            raise ValueError(n)
        for _ in range(2):
            try:
                g(1)
            except ValueError as error:
                log.append(str(error))
        return log, g.cache_info()
        """,
        **NAMES,
    )


def test_calls_within_calls():
    """Recursive calls, a call that adds an entry of its caller, and a cache that is cleared during a call."""
    check(
        """
        @functools.cache
        def fib(n):
            return n if n < 2 else fib(n - 1) + fib(n - 2)
        return fib(20), fib.cache_info()
        """,
        *(
            f"""
            state = []
            @functools.lru_cache(maxsize={maxsize})
            def g(n):
                if not state:
                    state.append(1)
                    g(n)
                return [n]
            first = g(3)
            return first is g(3), g.cache_info()
            """
            for maxsize in (None, 2)
        ),
        """
        @functools.cache
        def g(n):
            if n:
                g.cache_clear()
            return n
        return g(0), g(0), g(1), g.cache_info(), g(0), g.cache_info()
        """,
        "g = functools.cache(lambda n: n)\nreturn g(g) is g, g.cache_info()",
        "g = functools.cache(functools.cache(lambda n: [n]))\ng(1), g(1)\nreturn g.cache_info(), g.__wrapped__.cache_info()",
        **NAMES,
    )


def test_attributes():
    """A cached function has its own attributes and those of the function; its methods take no arguments."""
    check(
        """
        def f(n):
            'Text.'
            return n
        f.tag = 5
        g = functools.cache(f)
        g.more = 3
        h = functools.wraps(g)(lambda n: g(n))
        names = g.__name__, g.__doc__, g.__qualname__, g.__module__, sorted(vars(g)), list(vars(g))
        return names, g.tag, g.more, g.__wrapped__ is f, hasattr(g, "other"), h(2), h.__wrapped__ is g, callable(g)
        """,
        "functools.cache(len).other", "functools._lru_cache_wrapper(len, None, False, None).__name__",
        "functools._lru_cache_wrapper(len, None, False, None).__doc__", "functools.cache(len).cache_info(1)",
        "functools.cache(len).cache_clear(a=1)", "type(functools.cache(len)) is functools._lru_cache_wrapper",
        "g = functools.cache(len)\nreturn copy.copy(g) is g, copy.deepcopy(g) is g",
        "g = functools.cache(lambda n: n)\ni, c = g.cache_info, g.cache_clear\ng(1)\nreturn i(), c(), i()",
        "g = functools.cache(lambda s, n: [s, n])\nm = g.__get__(5)\nreturn m(1) is m(1), g.cache_info()",
        **NAMES,
    )  # fmt: skip


class Owner:
    def method(self, number):
        return [number]


def test_a_cache_on_a_class_is_a_method():
    """A cached function on a class is bound to the object, which is part of the key."""

    def program(x):
        Owner.kept = functools.cache(Owner.method)
        a, b = Owner(), Owner()
        found = a.kept(1), a.kept(1), b.kept(1)
        return x + 1, found[0] is found[1], found[0] is found[2], Owner.kept.cache_info()

    assert one_graph(program, torch.ones(1))[1:] == program(torch.ones(1))[1:]


def test_tensors_are_keys_by_identity():
    """Tensors are keys by identity, and a hit returns the tensor of the first call."""

    def program(x):
        g = functools.cache(lambda tensor: tensor * 2)
        y = x + 1
        first, second, third = g(x), g(y), g(x)
        return first is third, first is second, first + second, g.cache_info()

    graphs = Graphs()
    same, other, total, info = nbcompile.compile(program, backend=graphs, fullgraph=True)(torch.ones(2))
    assert (same, other, tuple(info)) == (True, False, (1, 2, None, 2))
    assert total.tolist() == [6, 6]
    assert sum("mul" in str(node.target) for node in graphs[0].graph.nodes) == 2


# -- after the graph ---------------------------------------------------------------------------------


def explored(value: object, depth: int = 0) -> object:
    """A description of a value; that of a cached function contains the results of calls."""
    if isinstance(value, functools._lru_cache_wrapper) and depth < 3:
        found: list[Any] = [tuple(value.cache_info()), list(vars(value)), value.cache_parameters()]
        for number in (1, 2, 3, 4, 0):
            found += [explored(value(number), depth + 1), tuple(value.cache_info())]
        return found
    if isinstance(value, torch.Tensor):
        return value.tolist(), value.requires_grad
    if isinstance(value, (list, tuple)):
        return [explored(item, depth + 1) for item in value]
    return repr(value) if "0x" not in repr(value) else type(value)


@nbcompile.disable
def outside() -> None:
    """A function that causes a graph break."""


def bounded(x):
    g = functools.lru_cache(maxsize=3)(lambda n: x + n)
    g(1), g(2), g(3), g(1), g(4)
    return x + 1, g


def recursive(x):
    @functools.lru_cache(maxsize=4)
    def g(n):
        return x if n < 2 else g(n - 1) + g(n - 2)

    return g(6), g


def cleared_while_called(x):
    @functools.cache
    def g(n):
        if n == 1:
            g.cache_clear()
        return g(n - 1) if n > 1 else [n]

    return x + 1, g(3), g


def of_itself(x):
    g = functools.cache(lambda n: [n, g])
    return x + 1, g(1)[1] is g, g


def counting(x):
    count = 0

    @functools.cache
    def g(n):
        nonlocal count
        count += 1
        return count

    g(1), g(1), g(2)
    return x + count, count, g


def of_a_partial(x):
    g = functools.cache(functools.partial(lambda a, b: a + b, 1))
    return x + 1, g(2), g(2), g


def written_to(x):
    g = functools.cache(lambda n: torch.zeros(2))
    g(1).add_(x)
    g(1).add_(1)
    return g(1), g


def two_results_are_one(x):
    g = functools.cache(lambda n: x + n)
    first = g(1)
    outside()
    return first is g(1), g(2), g.cache_info(), first


def lists_that_change(x):
    g = functools.lru_cache(maxsize=2)(lambda n: [n])
    first = g(1)
    g(2), g(1)
    outside()
    first.append(3)
    g(3)
    return first is g(1), first, g.cache_info(), g(2), g, x + 1


def a_break_in_the_body(x):
    log = []

    @functools.cache
    def g(n):
        log.append(n)
        outside()
        return x + n

    first = g(1)
    return first is g(1), log, g.cache_info()


def a_loop_of_breaks(x):
    g = functools.cache(lambda n: x * n)
    for number in range(4):
        g(number % 2)
        outside()
    return g.cache_info(), g(0)


def called_by(g, x):
    return g(1), x + 1


def a_loop_that_calls(x):
    g = functools.lru_cache(lambda n: x + n)
    found = []
    for _ in range(3):
        outside()
        found.append(called_by(g, x))
    return found[0][0] is found[2][0], g.cache_info()


def create(function):
    g = functools.cache(function)
    outside()
    return g


def created_by_python(x):
    kept = [create(lambda n: x + n)]
    call = lambda n: kept[0](n)  # noqa: E731
    outside()
    return call(1) is call(1), kept[0].cache_info()


def asked_after_a_break(x):
    g = functools.cache(lambda n: x + n)
    first = g(1)
    outside()
    info = g.cache_info
    names = g.__name__, g.cache_parameters(), hasattr(g, "other"), isinstance(g, functools._lru_cache_wrapper)
    g.cache_clear()
    return g(1) is first, info(), names, g is None, callable(g)


OUTLIVING = (
    bounded, recursive, cleared_while_called, of_itself, counting, of_a_partial, written_to, two_results_are_one,
    lists_that_change, a_break_in_the_body, a_loop_of_breaks, a_loop_that_calls, created_by_python, asked_after_a_break,
)  # fmt: skip


@pytest.mark.parametrize("program", OUTLIVING)
@pytest.mark.usefixtures("nothing_compiled")
def test_a_cache_that_outlives_the_graph(program):
    """The cache has eager mode's entries, hits and misses, and works as Python's afterwards."""
    x = torch.ones(2)
    expected = [explored(program(x)) for _ in range(3)]
    compiled = nbcompile.compile(program, backend="eager")
    assert [explored(compiled(x)) for _ in range(3)] == expected


@pytest.mark.usefixtures("nothing_compiled")
def test_a_cache_in_a_global():
    """A cache in a global has its entries after the call; a later compiled function leaves its calls to Python."""
    scope: dict[str, Any] = {"functools": functools}
    exec("def store(x):\n global G\n G = functools.cache(lambda n: x + n)\n return G(1) + G(1)", scope)
    exec("def use(x):\n return G(1) + x, G(1) is G(1)", scope)
    x = torch.ones(2)
    nbcompile.compile(scope["store"], backend="eager", fullgraph=True)(x)
    assert scope["G"].cache_info() == (1, 1, None, 1)
    graphs = Graphs()
    assert nbcompile.compile(scope["use"], backend=graphs)(x)[1]
    assert scope["G"].cache_info() == (4, 1, None, 1)


def test_where_an_exception_was_raised():
    """The traceback of a call through a restored cache contains no line of the compiler."""

    def program(x):
        @functools.cache
        def g(n):
            if n:
                raise ValueError
            return n

        return x + g(0), g

    _, g = nbcompile.compile(program, backend="eager", fullgraph=True)(torch.ones(1))
    with pytest.raises(ValueError) as raised:  # noqa: PT011
        g(1)
    assert [line.name for line in traceback.extract_tb(raised.value.__traceback__)][1:] == ["g"]


def test_gradients_pass_through():
    """Results of misses are nodes of the graph, through which gradients flow."""

    def program(x):
        g = functools.cache(lambda n: x * n)
        return (g(2) + g(2) * g(3)).sum(), g

    x, y = (torch.arange(3.0).requires_grad_() for _ in range(2))
    program(x)[0].backward()
    nbcompile.compile(program, backend="aot_eager", fullgraph=True)(y)[0].backward()
    assert torch.equal(x.grad, y.grad)


# -- from outside ------------------------------------------------------------------------------------


@functools.lru_cache
def doubled(n):
    return n * 2


def test_a_cached_function_is_traced_through():
    """The body of the function is part of the graph, and the cache is neither read nor filled."""
    doubled.cache_clear()
    assert one_graph(lambda x: x + doubled(3), torch.ones(1)).item() == 7
    assert doubled.cache_info().currsize == 0


@functools.lru_cache
def table(n):
    found = {}
    found[n] = [n]
    found[n].append(n + 1)
    return found


def test_a_cached_function_may_change_what_it_created():
    """The function may mutate an object that it created, as those of einops do: it is one graph."""
    assert one_graph(lambda x: x + sum(table(3)[3]), torch.ones(1)).item() == 8
