"""Symbolic ints in a graph are Python's ints: they do not overflow, and errors of Python are raised."""

from __future__ import annotations

import enum
import heapq
import itertools
import linecache
import math
import operator
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings, strategies as st

import nbcompile
from nbcompile.record import recorder

pytestmark = pytest.mark.usefixtures("nothing_compiled")

LARGE = (2**31, 2**33 + 1, 2**40, 2**53 + 1, 2**61 + 3, 2**62 - 1, 2**62, 2**63 - 1, 2**64 + 5, -(2**40), -(2**62))
ints = st.integers(-9, 9) | st.sampled_from(LARGE)
constants = st.integers(-7, 70).map(str)
sources = st.recursive(
    st.sampled_from(["k", "j", "n"]) | constants,
    lambda inner: (
        st.tuples(inner, st.sampled_from(["+", "-", "*", "//", "%", "&", "|", "^"]), inner).map(
            lambda each: f"({' '.join(each)})"
        )
        | inner.map(lambda each: f"(-{each})")
        | inner.map(lambda each: f"abs({each})")
        | st.tuples(inner, inner).map(lambda each: f"max({each[0]}, {each[1]})")
        | st.tuples(inner, st.sampled_from(["<<", ">>"]), st.sampled_from(["k", "3", "40"])).map(
            lambda each: f"({each[0]} {each[1]} min({each[2]}, 70))"
        )
        | st.tuples(inner, st.sampled_from(["2", "3"])).map(lambda each: f"({each[0]} ** {each[1]})")
        | st.tuples(st.sampled_from(["-2", "3", "j"]), inner).map(lambda each: f"(({each[0]}) ** (abs({each[1]}) % 5))")
        | st.tuples(inner, st.sampled_from([0, 1, -1])).map(lambda each: f"round({each[0]}, {each[1]})")
    ),
    max_leaves=5,
)
floats = st.sampled_from((0.0, -0.0, 1.0, 1.5, -0.5, -3.25, 0.1, 4.0, 1e10, -1e300, 1e-300))
of_floats = st.recursive(
    st.sampled_from(["k", "j", "n", "2", "0.5", "-3.0"]),
    lambda inner: (
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "%", "**"]), inner).map(
            lambda each: f"({' '.join(each)})"
        )
        | st.tuples(st.sampled_from(["-", "abs", "int", "round", "float", "math.floor"]), inner).map(
            lambda each: f"{each[0]}({each[1]})"
        )
        | st.tuples(inner, inner).map(lambda each: f"max({each[0]}, {each[1]})")
    ),
    max_leaves=4,
)
USES = ("x + {} % 1009", "x + ({}) / 7", "x * (1 if {} > 1000 else 2)", "(x + 1, {})", "x * 0.5 + ({} & 255)")


def made(source: str) -> Callable[..., Any]:
    """A function of a tensor and two ints, whose source is stored where tracebacks look for it."""
    text = f"def f(x, k, j):\n    n = x.shape[0]\n    return {source}\n"
    linecache.cache["<numbers>"] = (len(text), None, text.splitlines(keepends=True), "<numbers>")
    names: dict[str, Any] = {"math": math}
    exec(compile(text, "<numbers>", "exec"), names)
    function: Callable[..., Any] = names["f"]
    return function


def outcome(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """The outcome of a call: its values, with tensors as lists, or its exception."""
    try:
        result = function(*arguments)
    except (ArithmeticError, ValueError, MemoryError, TypeError) as error:
        return type(error), str(error)
    if isinstance(result, tuple):
        return (result[0].tolist(), *result[1:])
    return result.tolist()


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    source=st.tuples(st.sampled_from(USES), sources).map(lambda each: each[0].format(each[1])),
    calls=st.lists(st.tuples(ints, ints, st.integers(2, 5)), min_size=2, max_size=4),
)
def test_expressions_of_ints(backend: str, source: str, calls: list[tuple[int, int, int]]) -> None:
    """Expressions of ints and sizes give Python's results, call after call."""
    nbcompile.reset()
    function = made(source)
    compiled = nbcompile.compile(function, backend=backend)
    for k, j, size in calls:
        arguments = (torch.ones(size, dtype=torch.float64), k, j)
        assert outcome(compiled, arguments) == outcome(function, arguments), (source, k, j, size)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    source=st.tuples(st.sampled_from(("x + {}", "(x + 1, {})", "x * (1 if {} > 1 else 2)")), of_floats).map(
        lambda each: each[0].format(each[1])
    ),
    calls=st.lists(st.tuples(floats, floats | ints, st.integers(2, 5)), min_size=2, max_size=5),
)
def test_expressions_of_floats(source: str, calls: list[tuple[float, float, int]]) -> None:
    """Expressions of floats give Python's results, also for numbers that a graph cannot contain."""
    nbcompile.reset()
    function = made(source)
    compiled = nbcompile.compile(function, backend="eager")
    for k, j, size in calls:
        arguments = (torch.ones(size, dtype=torch.float64), k, j)
        found, expected = (repr(outcome(each, arguments)) for each in (compiled, function))
        assert found == expected, (source, k, j, size)


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_a_power_of_a_negative_number(backend: str) -> None:
    """A graph is Python text, in which ``-2 ** x`` differs from ``(-2) ** x``."""

    def powers(x, k):
        return (-2) ** x, (-1.0) ** x, x * (-3) ** k

    compiled = nbcompile.compile(powers, backend=backend)
    for k in (2, 3, 4):
        found, expected = (each(torch.arange(4.0), k) for each in (compiled, powers))
        assert [each.tolist() for each in found] == [each.tolist() for each in expected]


CALLS: dict[str, tuple[str, list[tuple[int, int]]]] = {
    "a product": ("x + (k * k) % 7", [(3, 0), (4, 0), (2**40, 0), (2**40 + 3, 0)]),
    "a coefficient": ("x + (k * 3) % 7", [(3, 0), (4, 0), (2**61 + 1, 0), (2**62 - 1, 0)]),
    "a constant": ("x + (k - 2**63) % 7", [(3, 0), (4, 0), (-(2**62) + 1, 0)]),
    "a power of a size": ("x + n**20 % 7", [(3, 0), (4, 0)]),
    "a remainder by zero": ("x + 5 % k", [(3, 0), (4, 0), (0, 0), (7, 0)]),
    "a division by zero": ("x + 5 // k", [(3, 0), (4, 0), (0, 0), (-7, 0)]),
    "a quotient by zero": ("x + 5 / k", [(3, 0), (4, 0), (0, 0), (-7, 0)]),
    "a quotient of large ints": ("x + k / 3", [(3, 0), (4, 0), (2**60 + 1, 0), (2**61 + 3, 0)]),
    "a shift by less than nothing": ("x + (1 << k)", [(3, 0), (4, 0), (-1, 0), (70, 0), (5, 0)]),
    "a shift by all bits": ("x + (j >> k)", [(3, 99), (4, 98), (70, 97), (5, -96)]),
    "a filled tensor": ("torch.full((2,), k * k, dtype=torch.float64)", [(3, 0), (4, 0), (2**61 + 1, 0)]),
}


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("name", CALLS)
def test_ints_that_outgrow_the_graph(name: str, backend: str) -> None:
    """A value that does not fit into an int64, or that does not exist, gives eager mode's result or error."""
    source, calls = CALLS[name]
    function = made(source)
    function.__globals__["torch"] = torch
    compiled = nbcompile.compile(function, backend=backend)
    for k, j in calls:
        for size in (3, 77):
            arguments = (torch.ones(size, dtype=torch.float64), k, j)
            assert outcome(compiled, arguments) == outcome(function, arguments), (k, j, size)


def test_ints_that_fit_are_one_entry() -> None:
    """A product stays symbolic while it fits into an int64: four values need only two graphs."""
    frame_recorder = recorder.Recorder("numbers")
    compiled = nbcompile.compile(made("x + k * k"), backend="eager")
    with frame_recorder.listening():
        for k in (3, 4, 2**20, -(2**30)):
            compiled(torch.ones(2), k, 0)
    assert len(frame_recorder.frames) == 2


def test_sums_add_no_guard() -> None:
    """A sum of an int and a size cannot overflow, so only the int has a guard on its range."""
    compiled = nbcompile.explain(made("x + (k + n)"), backend="eager", dynamic=True)
    guards = [
        each.condition for each in compiled(torch.ones(4), 5, 0).guards if "4611686018427387903" in each.condition
    ]
    assert len(guards) == 1, guards


class Permission(enum.IntFlag):
    READ = 1
    WRITE = 2
    RUN = 4


def test_combined_flags_are_numbers_of_the_graph() -> None:
    """A combination of flags has no name that the text of the graph could use: the graph contains its number."""

    def marked(x, flags):
        return x * flags, x + (flags | Permission.RUN), Permission.READ in flags, flags & Permission.WRITE

    compiled = nbcompile.compile(marked, backend="eager", fullgraph=True)
    x = torch.ones(2)
    for flags in (Permission.READ, Permission.READ | Permission.WRITE, Permission(0)):
        found, expected = compiled(x, flags), marked(x, flags)
        assert [each.tolist() for each in found[:2]] == [each.tolist() for each in expected[:2]]
        assert found[2:] == expected[2:]


OF_TRUTH_VALUES: dict[str, Callable[[Any], object]] = {
    "equal to 1": lambda b: (b == 1, 1 == b, b == 0, b != 1, b == 1.0),  # noqa: SIM300
    "equal to True": lambda b: (b == True, b != False, b is True),  # noqa: E712
    "in a tuple": lambda b: (b in (1, 3), [0, 1].index(b), (b, 2) == (1, 2), {0: 2, 1: 3}[b]),
    "smaller": lambda b: (b < 1, 0 < b <= 1, (b,) < (1,), sorted([b, 0.5])),
    "of two": lambda b: (b & True, b | False, b ^ (not b), b == (not b), b & 3, b | 2),
    "arithmetic": lambda b: (b + 1, b * 2.5, b / 2, -b, ~b, b**2, 2**b, b << 2, b // 1, divmod(b, 2)),
    "float": lambda b: (float(b), float(b) == 1, int(float(b)), math.floor(float(b)), float(b) * 2),
    "round": lambda b: (round(b), round(b, 1), math.trunc(b), math.ceil(b), abs(b), int(b)),
}


@pytest.mark.parametrize("source", ["of a symbol", "drawn"])
@pytest.mark.parametrize("name", OF_TRUTH_VALUES)
def test_truth_values_count_as_numbers(name: str, source: str, recwarn: pytest.WarningsRecorder) -> None:
    """`(n > 3) == 1` and `float(n > 3)` are as in eager mode, of a symbol and of a random number, without a warning."""
    ask = OF_TRUTH_VALUES[name]

    def program(x: torch.Tensor, n: int) -> object:
        return x + n, ask(n > 3)

    def drawn(x: torch.Tensor, n: int) -> object:
        truth = bool(int(random.random() * 2))
        return x + n, ask(truth)

    function = drawn if source == "drawn" else program
    compiled = nbcompile.compile(function, backend="eager", dynamic=True)
    for n in (5, 2, 4, 7):
        random.seed(n)
        expected = function(torch.ones(2), n)[1]
        random.seed(n)
        found = compiled(torch.ones(2), n)[1]
        assert (found, [type(each) for each in found]) == (expected, [type(each) for each in expected]), (n, found)
    assert not [each for each in recwarn if "falls back to eager" in str(each.message)]


def test_results_keep_what_was_stored_on_them() -> None:
    """A tensor that the graph returns has its attributes, also if two tensors refer to each other."""

    def paired(x):
        y, z = x * 2, x + 1
        y.peer, z.peer = z, y
        return y

    y = nbcompile.compile(paired, backend="eager", fullgraph=True)(torch.ones(2))
    assert y.peer.peer is y
    assert y.peer.tolist() == [2, 2]


ZEROS = [complex(one, other) for one in (0.0, -0.0, math.inf) for other in (0.0, -0.0, -math.inf, 1.5)]


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("number", ZEROS, ids=repr)
def test_complex_constants_keep_the_signs_of_their_zeros(number, backend):
    """A graph is Python text, in which ``-0+0j`` is another number and ``infj`` has no meaning."""

    def f(x):
        return x * number, torch.full((2,), number), [x + number], number

    x = torch.tensor([1 + 1j, complex(-1.0, -0.0)])
    ours, eager = nbcompile.compile(f, backend=backend)(x), f(x)
    told = [repr(torch.view_as_real(each).tolist()) for each in (ours[0], ours[1], ours[2][0])]
    assert told == [repr(torch.view_as_real(each).tolist()) for each in (eager[0], eager[1], eager[2][0])]
    assert repr(ours[3]) == repr(number)


def _extremes_without_a_key(x):
    numbers = [2, 3, 1]
    least = heapq.nsmallest(1, [4, 2]), heapq.nlargest(1, [4, 2])
    return (
        x,
        min(numbers, key=None),
        max(numbers, key=None),
        min(iter([]), default=7, key=None),
        max(1, 2, key=None),
        least,
    )


def test_no_key_is_none():
    """``key=None`` is the same as no key, because the library passes it on."""
    x = torch.ones(2)
    assert str(nbcompile.compile(_extremes_without_a_key, backend="eager")(x)) == str(_extremes_without_a_key(x))


def _sorted_backwards(x, reverse):
    said = []
    for sort in (lambda: sorted([2, 1, 3], reverse=reverse), lambda: [2, 1].sort(reverse=reverse)):
        try:
            said.append(sort())
        except TypeError as error:
            said.append(str(error))
    return x + 1, said


@pytest.mark.parametrize("reverse", [None, 1, 0, True, 2.5, "yes"])
def test_whether_to_sort_backwards_is_a_number(reverse):
    """A value of ``reverse`` that is not a number raises an error, with the text of this version of Python."""
    x = torch.ones(2)
    compiled = nbcompile.compile(_sorted_backwards, backend="eager")
    assert str(compiled(x, reverse)) == str(_sorted_backwards(x, reverse))


def _divided(x, whole, real):
    said = []
    for divide in (
        lambda: math.sqrt(whole) / 0,
        lambda: math.sqrt(random.randrange(5)) / 0,
        lambda: random.randrange(1, 5) / 0,
        lambda: random.random() // 0,
        lambda: real % 0,
        lambda: whole % 0,
        lambda: whole // 0.0,
        lambda: divmod(whole, 0),
    ):
        try:
            divide()
        except ZeroDivisionError as error:
            said.append(str(error))
    return x + 1, said


def test_the_words_of_a_division_by_zero():
    """The text is Python's for these types of numbers, also if the number is a symbol."""
    compiled = nbcompile.compile(_divided, backend="eager")
    for whole, real in ((3, 2.5), (4, 3.5), (9, 4.5)):
        assert compiled(torch.ones(2), whole, real)[1] == _divided(torch.ones(2), whole, real)[1]


def test_a_symbolic_number_is_the_small_integer_that_it_equals() -> None:
    """`n is 3` of a symbolic number is as in CPython, which has one object for each small integer and each bool."""

    def program(x: torch.Tensor, n: int) -> list[object]:
        size = x.shape[0]
        same = [n is 3, n is not 3, operator.is_(3, n), n + 1 is 4, n is None, n is True, n is n]  # noqa: F632, PLR0124
        return [x + n, *same, (n > 4) is True, size is 3, size is n]  # noqa: F632

    for dynamic in (True, None):
        compiled = nbcompile.compile(program, backend="eager", dynamic=dynamic)
        for n in (2, 3, 5, -1):
            for size in (2, 3, 5):
                assert compiled(torch.ones(size), n)[1:] == program(torch.ones(size), n)[1:], (dynamic, n, size)


def test_a_constant_on_the_stack_of_two_branches_keeps_its_identity() -> None:
    """A chained comparison that breaks leaves a constant on the stack, and the resume function returns it unchanged."""

    class Thing:
        flag: object

    def program(x: torch.Tensor, n: int) -> tuple[object, ...]:
        _y, _z, i, j = x, x * 2, 1, n
        thing = Thing()
        thing.flag = x.sum() > 3 is 3 and 1  # noqa: F632
        return x, n, i, j, thing.flag

    compiled = nbcompile.compile(program, backend="eager")
    for x, n in ((torch.ones(3).expand(3), 7), (torch.arange(1.0, 4.0), 1)):
        assert compiled(x, n)[1:] == program(x, n)[1:]


EXTREMES_OF_ITERATORS = {
    "min(iter(...))": lambda x, k: (x * 2, min(iter([x.size(0), k]))),
    "max(iter(...))": lambda x, k: (x * 2, max(iter([x.size(0) - 100, k]))),
    "min(reversed(...))": lambda x, k: (x * 2, min(reversed([k, x.size(0)]))),
    "min(generator)": lambda x, k: (x * 2, min(item for item in [x.size(0), k])),
    "min(chain)": lambda x, k: (x * 2, min(itertools.chain([x.size(0)], [k]))),
    "nsmallest": lambda x, k: (x * 2, heapq.nsmallest(1, [x.size(0), k])),
    "nlargest": lambda x, k: (x * 2, heapq.nlargest(1, [x.size(0) - 100, k])),
}


@pytest.mark.parametrize("name", EXTREMES_OF_ITERATORS)
@pytest.mark.parametrize("other", [1.0, 1])
def test_the_extreme_of_an_iterator_looks_at_each_item(name, other):
    """Items of an iterator are read when they are used: a float is compared with a symbolic size."""
    function = EXTREMES_OF_ITERATORS[name]
    compiled = nbcompile.compile(function, backend="eager")
    for size in (3, 4, 5):
        expected, result = function(torch.ones(size), other)[1], compiled(torch.ones(size), other)[1]
        assert repr(result) == repr(expected)
