"""Functions of ints that became dynamic: computed after the graph, or behind a break, and eager's in type and text."""

from __future__ import annotations

import math
import subprocess
import sys
import textwrap
from collections.abc import Callable

import pytest
import torch

import nbcompile
from tests.support.graphs import Graphs

VALUES = (5, 7, 12, 9, 16, 4, 30)


def _box(x, n):
    held = [math.gcd(n, 6), (hex(n),)]
    named = {"a": chr(n + 60), "b": bin(n)}
    return x + 1, held, named


def _again(x, n):
    first = (second := math.gcd(n, 6))
    return x + 1, first, second, (lambda: second)()


def _rejected(x, n):
    try:
        found = math.isqrt(n - 8), chr(n - 8)
    except ValueError as error:
        found = str(error)
    return x + 1, found


class _Log:
    """An object whose attributes a compiled function writes."""

    text = ""


LOG = _Log()
WRITTEN = None


def _in_a_list(x, n):
    lines = [0, 0]
    lines.append(f"step {n}")
    lines.insert(0, hex(n))
    lines[1] = lines[0]
    return x + 1, lines, lines[-1], lines.pop(), lines[0:2]


def _in_a_dict(x, n):
    held = {}
    held["text"] = f"{n}"
    held.setdefault("more", bin(n))
    return x + 1, held, held["text"], held.get("more"), {i: f"{n}-{i}" for i in range(2)}, list(held.values())


def _in_an_object(x, n):
    new = _Log()
    new.text = LOG.text = f"step {n}"
    new.held = [LOG.text]
    return x + 1, new.text, LOG.text, new.held, vars(new)


def _in_a_global(x, n):
    global WRITTEN
    WRITTEN = f"step {n}"
    return x + 1, WRITTEN


def _from_a_generator(x, n):
    def lines():
        yield f"step {n}"
        yield bin(n)

    return x + 1, list(lines()), tuple(f"{n}" for _ in range(2)), ",".join(f"{n}-{i}" for i in range(3))


def _unpacked(x, n):
    lines = [f"{n}", math.gcd(n, 6)]
    (first, second), rest = lines, (lambda *given: given)(*lines)
    return x + 1, first, second, rest, [*lines, 1], [(i, line) for i, line in enumerate(lines)]


STORED = {
    "list": _in_a_list, "dict": _in_a_dict, "attribute": _in_an_object, "global": _in_a_global,
    "generator": _from_a_generator, "unpacked": _unpacked,
}  # fmt: skip
DEFERRED = {
    "gcd": lambda x, n: (x + n, math.gcd(n, 6), math.gcd(n, 2 * n, 8), math.lcm(n, 4)),
    "roots": lambda x, n: (x + n, math.isqrt(n), math.comb(n, 2), math.perm(n, 2), math.factorial(n)),
    "bases": lambda x, n: (x + n, bin(n), hex(n), oct(n), chr(n), ascii(n)),
    "methods": lambda x, n: (x + n, n.bit_count(), n.as_integer_ratio(), n.bit_length(), hasattr(n, "no_such_name")),
    "checks": lambda x, n: (x + n, math.isclose(n, 9), math.isfinite(n), math.isnan(n), round(n, -1)),
    "operators": lambda x, n: (x + n, math.gcd(n, 6) * 2 + n, math.gcd(n, 6) == 1, math.isqrt(n) - 1 < 3),
    "texts": lambda x, n: (x + n, f"{math.gcd(n, 6):>4}|{bin(n):>12}|{chr(n)!r}", "%s %03d" % (hex(n), math.gcd(n, 4))),
    "specifications": lambda x, n: (x + n, f"{n:>5d}|{n:#x}|{n / 7:+.2f}|{n!r:^7}|{math.gcd(n, 6):+d}|{f'{n}':_<4}"),
    "text operators": lambda x, n: (x + n, f"{f'{n}':>5}", "a" + f"{n}" + str(n), f"{n}" * 2, ",".join([f"{n}", "q"])),
    "joined": lambda x, n: (x + n, "x".join((str(n), str(n + 1))), "{:>4}|{}".format(f"{n}", n)),
    "text methods": lambda x, n: (x + n, str(n).zfill(5), f"a{n}".upper().rjust(8, "."), bin(n).removeprefix("0b")),
    "containers": _box,
    "one object": _again,
    "isinstance": lambda x, n: (x + n, isinstance(math.gcd(n, 6), int), isinstance(bin(n), (bytes, int))),
}
CONDITIONS = {
    "float": lambda x, n: (x + n, float(n > 8), int(n > 8)),
    "compared": lambda x, n: (x + n, (n > 8) == (x.dim() > 0), (n > 8) != (n > 10)),
    "power": lambda x, n: (x + 1, (n - 9) ** 2, (n - 9) ** 3),
}
NEEDED = {
    "operand": lambda x, n: x * math.gcd(n, 6),
    "branch": lambda x, n: x + 1 if math.gcd(n, 6) == 1 else x - 1,
    "size": lambda x, n: torch.ones(math.isqrt(n)),
    "deferred operand": lambda x, n: (lambda k, text: (x * k, text, k))(math.gcd(n, 6), f"{n}"),
}


def _graphs(function: Callable[..., object], values: tuple[int, ...] = VALUES, **options: bool) -> int:
    """Call with each value, compare with eager mode, and return the number of graphs."""
    nbcompile.reset()
    graphs = Graphs()
    compiled = nbcompile.compile(function, backend=graphs, **options)
    x = torch.ones(2)
    for n in values:
        assert repr(compiled(x, n)) == repr(function(x, n))
    return len(graphs)


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("name", DEFERRED)
def test_a_result_that_no_operator_needs_is_computed_after_the_graph(name: str) -> None:
    """Seven values take two graphs: one for the first value, and one for all others."""
    assert _graphs(DEFERRED[name]) == 2
    assert _graphs(DEFERRED[name], fullgraph=True) == 2


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("name", STORED)
def test_a_result_that_is_stored_is_computed_after_the_graph(name: str) -> None:
    """A list, dict, attribute or global holds what Python computes later, as well as what is read from it again."""
    assert _graphs(STORED[name]) == 2


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions_and_powers_are_not_decided(name: str) -> None:
    """A condition as a number, two conditions compared, and a power of an int need no guard on the value."""
    assert _graphs(CONDITIONS[name]) == 2


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("name", NEEDED)
def test_a_result_that_an_operator_needs_breaks_the_graph(name: str) -> None:
    """Behind the break it is an int argument, which becomes dynamic; with fullgraph it is a constant."""
    assert _graphs(NEEDED[name]) <= 4
    _graphs(NEEDED[name], (5, 7, 12), fullgraph=True)


@pytest.mark.usefixtures("nothing_compiled")
def test_values_for_which_a_function_raises_are_guarded() -> None:
    """isqrt and chr of a negative number raise where they are called, before and after other values."""
    assert _graphs(_rejected, (9, 12, 30, 7, 8, 5, 40)) <= 5
    _graphs(_rejected, (7, 5, 3, 12, 30))


@pytest.mark.parametrize("values", [(3, 4, -2, 5), (3, -2, 4, 0), (-3, -2, 4, 0)])
def test_powers_with_an_exponent_that_becomes_negative(values: tuple[int, ...]) -> None:
    """A negative exponent gives a float."""
    _graphs(lambda x, n: (x + 1, 2**n), values)


@pytest.mark.compiles
def test_a_second_process_computes_from_its_own_numbers(tmp_path, monkeypatch) -> None:
    """A frame from the store calls the functions with the numbers of the call."""
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent("""
        import math, sys, torch, nbcompile
        def f(x, n):
            return x + n, math.gcd(n, 6), chr(n), f"{f'{n}':>4}", n.bit_count(), str(n).zfill(3), float(n > 8)
        def g(x, n):
            return x * math.gcd(n, 6)
        for function in (f, g):
            compiled = nbcompile.compile(function)
            for n in map(int, sys.argv[1:]):
                assert repr(compiled(torch.ones(2), n)) == repr(function(torch.ones(2), n)), n
        """)
    )
    monkeypatch.setenv("NBCOMPILE_CACHE_DIR", str(tmp_path / "store"))
    for values in (("5", "7", "12"), ("7", "9", "30", "5")):
        subprocess.run([sys.executable, str(program), *values], check=True)
