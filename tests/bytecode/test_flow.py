"""Tests for nbcompile.bytecode.flow."""

from __future__ import annotations

import random
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from nbcompile.bytecode.disassemble import disassemble
from nbcompile.bytecode.flow import blocks, greatest_depth, live_locals, reachable, stack_depth
from nbcompile.bytecode.instruction import Instruction


def at_line(function: Callable[..., object], line: int) -> tuple[list[Instruction], int]:
    """The instructions of a function, and the index of the first one on a line, counted from ``def``."""
    code = function.__code__
    read = disassemble(code)
    return read, next(i for i, each in enumerate(read) if each.line == code.co_firstlineno + line)


def live_at(function: Callable[..., object], line: int, **options: object) -> set[str]:
    read, index = at_line(function, line)
    return set(live_locals(read, index, **options))  # type: ignore[arg-type]


def test_a_local_is_live_until_its_last_use() -> None:
    """A local that is overwritten or never read again is dead."""

    def f(x: int, y: int) -> int:
        z = x + 1
        x = y
        y = 3
        return z + x

    assert live_at(f, 1) == {"x", "y"}
    assert live_at(f, 2) == {"y", "z"}
    assert live_at(f, 3) == {"z", "x"}


def test_loops_keep_alive_what_the_next_round_reads() -> None:
    """A variable that the next iteration reads is live."""

    def f(n: int, step: int, unused: int) -> int:
        while n > 0:
            total = n
            n -= step
        return total

    assert live_at(f, 3) == {"n", "step", "total"}


def test_handlers_keep_alive_what_they_read() -> None:
    """A store in the protected range does not end liveness, because the exception may come before it."""

    def f(x: int, g: Callable[[], int]) -> int:
        try:
            x = g()
        except ValueError:
            return x
        return 0

    assert live_at(f, 2) == {"x", "g"}


def test_nested_handlers() -> None:
    """A variable that an outer ``finally`` reads is live in the innermost range."""

    def f(a: int, b: int, g: Callable[[], int]) -> int:
        try:
            try:
                g()
            except ValueError:
                print(a)
        finally:
            print(b)
        return 1

    assert live_at(f, 3) == {"a", "b", "g"}
    assert live_at(f, 5) == {"a", "b"}
    assert live_at(f, 7) == {"b"}


def test_cells_are_live_where_they_are_named() -> None:
    """A store to a cell needs the cell, because another function may refer to it."""

    def f(x: int) -> Callable[[], int]:
        g = lambda: x  # noqa: E731
        x = 2
        return g

    assert live_at(f, 2) == {"x", "g"}
    assert live_at(f, 3) == {"g"}


def test_unbinding_needs_a_binding() -> None:
    """``del x`` raises an error if x is unbound, so x is live."""

    def f(x: int) -> int:
        y = 1
        del x
        return y

    assert live_at(f, 2) == {"x", "y"}


def test_introspection_keeps_everything_alive() -> None:
    """Every variable is live before ``locals()``, also one that no instruction names."""

    def f(x: int, y: int) -> object:
        z = 1
        return sorted(locals()), z

    assert live_at(f, 2, every=("x", "y", "z")) == {"x", "y", "z"}


def test_super_keeps_the_first_argument_alive() -> None:
    """``super()`` reads ``self`` from the frame that calls it."""

    class Child(dict[str, int]):
        def method(self, x: int) -> object:
            x = 2
            y = super
            return y, x

    assert live_at(Child.method, 2, every=("self", "x", "y")) == {"self", "x"}


def test_unreachable_code_is_left_out() -> None:
    """Code before the resume point is reachable only through a backward jump."""

    def f(n: int) -> int:
        a = n
        for _ in range(n):
            a += 1
        return a

    read, index = at_line(f, 4)
    assert min(reachable(read, index)) == index
    read, index = at_line(f, 3)
    assert min(reachable(read, index)) < index


def test_blocks_cover_the_code() -> None:
    """Blocks are consecutive without gaps, and jumps only target their starts."""
    for code in library_code(20):
        read = disassemble(code)
        cut = blocks(read)
        assert [block.start for block in cut] == [0, *(block.end for block in cut[:-1])]
        assert cut[-1].end == len(read)
        starts = {block.start for block in cut}
        assert all(index in starts for index, each in enumerate(read) if each.label is not None)


def library_code(files: int) -> list[types.CodeType]:
    """The functions of some modules of the standard library."""
    paths = sorted(Path(random.__file__).parent.glob("*.py"))
    random.Random(1).shuffle(paths)
    pending = [compile(path.read_bytes(), str(path), "exec", dont_inherit=True) for path in paths[:files]]
    found = []
    while pending:
        code = pending.pop()
        found.append(code)
        pending += [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return found


def test_the_depth_is_the_same_whichever_way_one_comes() -> None:
    """The depth before an instruction equals the depth after each of its predecessors, and is not negative."""
    for code in library_code(15):
        read = disassemble(code)
        depths = stack_depth(read)
        assert all(depth is None or depth >= 0 for depth in depths), code
        assert greatest_depth(read) <= code.co_stacksize, code


@pytest.mark.parametrize(
    ("source", "depths"),
    [("def f(a):\n    return a", [0, 0, 1]), ("def f(a, b):\n    return (a, (b, a))", None)],
)
def test_depth(source: str, depths: list[int] | None) -> None:
    """The depth is the number of values on the stack before the instruction."""
    scope: dict[str, object] = {}
    exec(source, scope)
    function = scope["f"]
    assert isinstance(function, types.FunctionType)
    read = disassemble(function.__code__)
    found = stack_depth(read)
    if depths is not None:
        assert found == depths
    assert found[0] == 0
    assert found[-1] == 1
