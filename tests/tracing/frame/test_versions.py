"""Programs with different bytecode on CPython 3.11, 3.12 and 3.13 give the same results on each version.

In torch: nothing. Read next: nbcompile/bytecode/dialects.py
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
import torch
from torch import ones

from tests.support.oracle import Compiler, Scenario, disagreement, tried

SCENARIOS: dict[str, Scenario] = {}
graph_break = torch._dynamo.graph_break
x = ones(3)


def scenario(function: Scenario) -> Scenario:
    assert function.__name__ not in SCENARIOS
    SCENARIOS[function.__name__] = function
    return function


@pytest.mark.parametrize("name", SCENARIOS)
def test_programs(name: str) -> None:
    """Each compiled program gives eager mode's results."""
    found = disagreement(SCENARIOS[name])
    assert not found, found


# -- comprehensions: separate frames on 3.11, inlined from 3.12 on ----------------------------------------


@scenario
def comprehension_leaves_the_name_alone(compiled: Compiler) -> Iterator[object]:
    def f(x, i):
        j = [i * 2 for i in range(3)]
        k = {i: [i for i in range(i)] for i in range(3)}
        s = {i for i in "aab"}
        return x + i, j, k, sorted(s)

    yield compiled(f)(x, 7)


@scenario
def comprehension_leaves_an_unbound_name_unbound(compiled: Compiler) -> Iterator[object]:
    def f(x, bind):
        if bind:
            i = 1
        j = [i for i in range(3)]
        try:
            return x + i, j
        except UnboundLocalError as error:
            return x, j, str(error)

    g = compiled(f)
    yield g(x, True)
    yield g(x, False)


@scenario
def comprehension_leaves_a_shared_name_alone(compiled: Compiler) -> Iterator[object]:
    def f(x):
        i = 3
        shared = lambda: i  # noqa: E731
        plain = [i for i in range(2)]
        inner = [lambda: i for i in range(2)]
        i = i + 1
        return x * shared(), plain, [each() for each in inner], i

    yield compiled(f)(x)


@scenario
def comprehension_shares_what_its_functions_share(compiled: Compiler) -> Iterator[object]:
    def f(x, k):
        made = [lambda: (i, k, x) for i in range(2)]
        k = k + 1
        return [each() for each in made], [[(lambda: (i, j))() for j in range(2)] for i in range(2)]

    yield compiled(f)(x, 1)


@scenario
def comprehension_shares_a_name_that_is_free_outside(compiled: Compiler) -> Iterator[object]:
    i = 100

    def f(x, items):
        before = i
        made = [lambda: i for i in items]
        plain = [i for i in items]
        return x + i, before, [each() for each in made], plain, (lambda: i)()

    def g(x, items):
        nonlocal i
        x = x + 1
        made = [(graph_break(), lambda: i)[1] for i in items]
        i = i + 1
        return x + i, [each() for each in made], (lambda: i)()

    yield compiled(f)(x, [1, 2])
    i = 100
    yield compiled(g)(x, [1, 2])
    yield i
    i = 100


@scenario
def comprehension_in_a_resume_function(compiled: Compiler) -> Iterator[object]:
    def f(x, i):
        x = x + 1
        graph_break()
        made = [i * k for k in range(2)]
        y = [i for i in range(3)]
        graph_break()
        more = [lambda: (i, k) for k in range(2)]
        shared = [(graph_break(), x * k)[1] for k in range(2)]
        graph_break()
        return x + i, made, y, [each() for each in more], shared

    yield compiled(f)(x, 5)


@scenario
def comprehension_raises(compiled: Compiler) -> Iterator[object]:
    def f(x, values):
        i = 5
        try:
            made = [1 // i for i in values]
        except ZeroDivisionError:
            made = "caught"
        return x + i, made

    g = compiled(f)
    yield g(x, [1, 2])
    yield g(x, [1, 0])


@scenario
def comprehension_binds_a_walrus(compiled: Compiler) -> Iterator[object]:
    def f(x):
        made = [last := i for i in range(3)]
        return x + last, made

    yield compiled(f)(x)


@scenario
def break_in_a_comprehension(compiled: Compiler) -> Iterator[object]:
    def f(x, i):
        x = x + 1
        made = [(graph_break(), i * 2)[1] for i in range(3)]
        return x + i, made

    yield compiled(f)(x, 7)


@scenario
def break_in_nested_and_filtered_comprehensions(compiled: Compiler) -> Iterator[object]:
    def f(x, n):
        x = x + 1
        made = [[(graph_break(), i + j + n)[1] for j in range(i) if j != 1] for i in range(4) if i]
        table = {i: (graph_break(), x)[1] for i in range(2)}
        return x * 2, made, table, {(graph_break(), i)[1] for i in range(2)}

    yield compiled(f)(x, 7)


@scenario
def break_in_a_comprehension_of_shared_names(compiled: Compiler) -> Iterator[object]:
    def f(x, k):
        i = 10
        shared = lambda: (i, k)  # noqa: E731
        x = x + 1
        made = [(graph_break(), lambda: (i, k))[1] for i in range(2)]
        k = k + 1
        i = i + 1
        return x * k, shared(), [each() for each in made]

    yield compiled(f)(x, 1)


@scenario
def break_in_a_comprehension_with_a_walrus(compiled: Compiler) -> Iterator[object]:
    def f(x):
        x = x + 1
        made = [last := (graph_break(), i)[1] for i in range(3)]
        return x + last, made

    yield compiled(f)(x)


@scenario
def break_in_a_comprehension_in_odd_places(compiled: Compiler) -> Iterator[object]:
    def in_a_call(x):
        x = x + 1
        return x * sum([(graph_break(), i)[1] for i in range(3)], start=2)

    def in_try(x):
        x = x + 1
        try:
            made = [1 // (graph_break(), i)[1] for i in range(2)]
        except ZeroDivisionError:
            made = "caught"
        return x * 2, made

    def under_a_mode(x):
        with torch.no_grad():
            y = x + 1
            made = [(graph_break(), (y * i).requires_grad)[1] for i in range(2)]
            z = y * 2
        return z, made

    def in_a_loop(x):
        made = []
        for k in range(2):
            x = x + 1
            made.append([(graph_break(), i * k)[1] for i in range(2)])
        return x, made

    def raises(x):
        x = x + 1
        made = [1 // (graph_break(), i)[1] for i in range(2)]
        return x * 2, made

    for function in (in_a_call, in_try, under_a_mode, in_a_loop, raises):
        yield tried(compiled(function), ones(2, requires_grad=True))


# -- two instructions in one ------------------------------------------------------------------------------


@scenario
def slices(compiled: Compiler) -> Iterator[object]:
    def f(x, items, a, b):
        items[a:b] = [0, 0, 0]
        y = x.clone()
        y[a:b] = 5
        y[:a] += 1
        items[a : b + 1] += [9]
        return x[a:b] * 2, items[a:b], items[:], items[-2:], "text"[a:b], y

    g = compiled(f)
    yield g(ones(5), [1, 2, 3, 4], 1, 2)
    yield g(ones(5), [1, 2, 3, 4], 0, 3)


@scenario
def break_in_a_slice(compiled: Compiler) -> Iterator[object]:
    class Odd:
        def __getitem__(self, key):
            graph_break()
            return key

        def __setitem__(self, key, value):
            graph_break()
            self.last = key, value

    def f(x, odd, a):
        x = x + 1
        b = odd[a : a + 2]
        x = x * 2
        odd[a:] = b
        return x + a, b, odd.last

    yield compiled(f)(x, Odd(), 1)


@scenario
def break_between_the_halves_of_an_instruction(compiled: Compiler) -> Iterator[object]:
    def f(x, k):
        a = x + 1
        b = graph_break()
        c = k
        d = a  # noqa: E702
        return a * c, b, d

    yield compiled(f)(x, 2)


# -- truth: jumps of 3.13 accept only True and False ---------------------------------------------------------


@scenario
def truth_of_odd_comparisons(compiled: Compiler) -> Iterator[object]:
    class Odd:
        def __init__(self, answer):
            self.answer = answer

        def __lt__(self, other):
            graph_break()
            return self.answer

        def __eq__(self, other):
            return self.answer

        __hash__ = None

    def f(x, odd):
        x = x + 1
        first = 1 if odd < 3 else 2
        second = not odd == 3
        third = (odd < 3) or "no"
        while odd < 3:
            x = x * 2
            odd = Odd(0)
        return x, first, second, third

    g = compiled(f)
    for answer in ([], [1], 0, 2, None, "", ones(1), torch.zeros(1)):
        yield tried(g, x, Odd(answer))


@scenario
def truth_of_tensors(compiled: Compiler) -> Iterator[object]:
    def f(x, y):
        a = 1 if x.sum() > 3 else 2
        b = x.sum() and y
        c = x.sum() or y
        d = not x.sum()
        e = x.max() > 1 and y.max() > 1
        assert x.sum() > -10, "small"
        return x + a, b, c, d, e

    g = compiled(f)
    for value in (0.0, 1.0, 2.0):
        yield tried(g, x * value, ones(3) * 2)


# -- super, keywords, with ------------------------------------------------------------------------------------


class Base:
    def scale(self, x, *, by=2):
        return x * by

    @property
    def size(self):
        return 3


class Derived(Base):
    def scale(self, x, *, by=3):
        graph_break()
        return super().scale(x, by=by) + super().size + super(Derived, self).size

    def late(self, x):
        x = x + 1
        graph_break()
        self, other = Derived(), self
        return super().scale(x), other is self


@scenario
def super_and_keywords(compiled: Compiler) -> Iterator[object]:
    g = compiled(lambda x, d: (d.scale(x), d.scale(x, by=4), d.late(x), d.scale(*(x,), **{"by": 5})))
    yield g(x, Derived())


@scenario
def super_that_is_the_users_own(compiled: Compiler) -> Iterator[object]:
    scope = {"torch": torch}
    exec(
        "def super(*arguments): return Other(len(arguments))\n"
        "class Other:\n"
        "    def __init__(self, n): self.n = n\n"
        "    def double(self, x): return x * self.n\n"
        "class Mine:\n"
        "    def f(self, x): return super().double(x) + 1, super(Mine, self).double(x), super().n\n",
        scope,
    )
    yield compiled(lambda x: scope["Mine"]().f(x))(x)


# -- generators ----------------------------------------------------------------------------------------------


@scenario
def generator_that_raises_stop_iteration(compiled: Compiler) -> Iterator[object]:
    def numbers():
        yield 1
        yield next(iter([]))

    def f(x):
        try:
            for n in numbers():
                x = x + n
        except RuntimeError as error:
            return x, str(error), type(error.__cause__).__name__
        return x, "ended"

    yield compiled(f)(x)


@scenario
def thrown_through_yield_from(compiled: Compiler) -> Iterator[object]:
    log = []

    def inner():
        try:
            yield 1
        except ValueError:
            yield 10
        except KeyError:
            return 20
        finally:
            log.append("inner left")
        yield 30

    def outer():
        try:
            got = yield from inner()
            yield got + 1
        except IndexError:
            yield 40

    def f(x, error):
        log.clear()
        g = outer()
        first = next(g)
        second = g.throw(error)
        return x + first, second, list(g), list(log)

    g = compiled(f)
    for error in (ValueError("a"), KeyError("b"), IndexError("c"), TypeError("d"), StopIteration(5)):
        yield tried(g, x, error)


@scenario
def thrown_into_an_iterator_without_throw(compiled: Compiler) -> Iterator[object]:
    def outer():
        try:
            yield from [1, 2]
        except ValueError:
            yield 3

    def f(x, error):
        g = outer()
        return x + next(g), g.throw(error), list(g)

    g = compiled(f)
    for error in (ValueError("a"), StopIteration(5)):
        yield tried(g, x, error)


@scenario
def generator_in_a_try_outlives_its_graph(compiled: Compiler) -> Iterator[object]:
    def outer():
        try:
            yield 1
            yield 2
        finally:
            pass

    def over_a_break(x):
        g = outer()
        x = x + next(g)
        print(end="")
        return x * next(g), list(g)

    def returned(x):
        g = outer()
        return x + next(g), g

    def ended(x):
        g = outer()
        x = x + sum(g)
        print(end="")
        return x, next(g, 7), tried(g.throw, ValueError("late")), g.close()

    yield compiled(over_a_break)(x)
    y, g = compiled(returned)(x)
    yield y, list(g)
    yield compiled(ended)(x)


@scenario
def generator_is_closed_inside_yield_from(compiled: Compiler) -> Iterator[object]:
    def inner(log):
        try:
            yield 1
        finally:
            log.append("inner")

    def outer(log):
        try:
            yield from inner(log)
        finally:
            log.append("outer")

    def f(x):
        log = []
        g = outer(log)
        first = next(g)
        g.close()
        return x + first, log

    yield compiled(f)(x)


# -- text and functions ----------------------------------------------------------------------------------------


@scenario
def formatted(compiled: Compiler) -> Iterator[object]:
    def f(x, a, b):
        return x + 1, f"{a}", f"{a!r:>5}", f"{b:.{a}f}", f"{a=}", f"{'x'!s}{b!a}", f"{a}{b}"

    g = compiled(f)
    yield g(x, 2, 1.5)
    yield g(x, 3, 2.5)


@scenario
def inner_functions(compiled: Compiler) -> Iterator[object]:
    def f(x, k):
        def g(a, b=k, *, c: int = k + 1) -> int:
            return a * b + c + n

        n = k * 2
        graph_break()
        return g(x), g, (lambda *a, **b: (a, b))(1, *[2], c=3, **{"d": 4})

    yield compiled(f)(x, 2)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the syntax is new in 3.12")
def test_type_parameters() -> None:
    """A generic function is traced; its definition is traced or left to Python."""

    def scenario(compiled: Compiler) -> Iterator[object]:
        scope = {"graph_break": graph_break}
        exec(
            "def f[T](x: T) -> T: return x + 1\n"
            "class Box[T]:\n"
            "    def get[S](self, x: S) -> S: return x * 2\n"
            "def g(x, box):\n"
            "    x = x + 1\n"
            "    def h[T: int, *Ts, **P](y: T) -> T: return y * 3\n"
            "    type Alias = list[int]\n"
            "    return f(x), box.get(x), h(x), [each.__name__ for each in h.__type_params__], Alias.__name__\n",
            scope,
        )
        yield compiled(scope["f"])(x)
        yield compiled(scope["g"])(x, scope["Box"]())

    found = disagreement(scenario)
    assert not found, found
