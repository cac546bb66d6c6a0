"""Tests for nbcompile.bytecode.assemble: disassembled code is assembled to the same code."""

from __future__ import annotations

import random
import sys
import time
import types
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from nbcompile.bytecode.assemble import assemble, assemble_with_offsets
from nbcompile.bytecode.disassemble import disassemble, exception_table
from nbcompile.bytecode.instruction import Instruction, Label, Position, Protection, label_indices
from tests.support.processes import command

LIBRARY = Path(random.__file__).parent
HERE = Path(__file__).parents[2]


def code_objects(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code object and all those inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from code_objects(constant)


def library_files() -> list[Path]:
    """The standard library, in a fixed random order."""
    files = sorted(path for path in LIBRARY.rglob("*.py") if "site-packages" not in path.parts)
    random.Random(0).shuffle(files)
    return files


def compiled(path: Path) -> types.CodeType | None:
    """The code of a file; None for the few files that are invalid on purpose."""
    try:
        return compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return None


def assert_same(original: types.CodeType) -> None:
    """All properties that execution, tracebacks and tracers can read are unchanged."""
    again = assemble(disassemble(original), original)
    where = f"{original.co_filename}:{original.co_firstlineno} {original.co_qualname}"
    if len(again.co_code) == len(original.co_code):
        assert again.co_code == original.co_code, where
        assert exception_table(again) == exception_table(original), where
        assert list(again.co_positions()) == list(original.co_positions()), where
    else:
        # CPython 3.13 emits an EXTENDED_ARG for some backward jumps of 256 units that need it only because of itself.
        assert len(again.co_code) < len(original.co_code), where
        assert meaning(again) == meaning(original), where
    assert again.co_stacksize == original.co_stacksize, where
    for name in ("co_consts", "co_names", "co_varnames", "co_cellvars", "co_freevars", "co_flags", "co_nlocals"):
        assert getattr(again, name) == getattr(original, name), (where, name)


def meaning(code: types.CodeType) -> list[tuple[object, ...]]:
    """The instructions with targets as instruction indices, whatever size the instructions have."""
    read = disassemble(code)
    places = label_indices(read)
    return [
        (
            each.opcode,
            (each.arg, each.argval) if each.target is None else places[each.target],
            each.position,
            each.protection and (places[each.protection.target], each.protection.depth, each.protection.lasti),
        )
        for each in read
    ]


def round_trip(files: list[Path], seconds: float) -> int:
    """The number of code objects that were checked until the time was up."""
    began = time.monotonic()
    count = 0
    for path in files:
        top = compiled(path)
        if top is None:
            continue
        for code in code_objects(top):
            assert_same(code)
            count += 1
        if time.monotonic() - began > seconds:
            break
    return count


def test_round_trip_of_the_standard_library() -> None:
    """Code, exception table, positions and stack size of the standard library are unchanged (a sample)."""
    assert round_trip(library_files(), seconds=6) > 100


@pytest.mark.slow
def test_round_trip_of_the_whole_standard_library() -> None:
    """Every file of the standard library is unchanged, including the tests of CPython."""
    assert round_trip(library_files(), seconds=1e9) > 50_000


# -- running assembled code ----------------------------------------------------------------------------


def nested_try_in_loop() -> int:
    for _ in range(3):
        try:
            try:
                raise KeyError
            except KeyError:
                raise ValueError  # noqa: B904
        except ValueError:
            pass
    return 1


def closures(x: int) -> list[int]:
    cell = x

    def inner(y: int) -> int:
        nonlocal cell
        cell += y
        return cell + x

    return [inner(1), inner(2), cell, *[(lambda: z)() for z in range(3)]]


def keywords_and_defaults(a: int, /, b: int, *rest: int, c: int = 3, **more: int) -> tuple[object, ...]:
    return a, b, rest, c, sorted(more.items())


def with_and_finally(log: list[str]) -> list[str]:
    class Manager:
        def __enter__(self) -> str:
            return "in"

        def __exit__(self, *error: object) -> bool:
            log.append(str(error[0]))
            return True

    for i in range(3):
        try:
            with Manager() as m, Manager():
                log.append(m)
                if i == 1:
                    continue
                raise RuntimeError(i)
        finally:
            log.append(f"finally {i}")
    return log


def matching(value: object) -> object:
    match value:
        case {"a": [1, *rest], **more}:
            return rest, more
        case [x, y] if x == y:
            return x
        case str() | bytes():
            return "text"
        case _:
            return None


def generator() -> Iterator[int]:
    try:
        received = yield 1
        yield from range(received or 3)
    except ValueError:
        yield 99


RUNNABLE: list[tuple[Callable[..., object], tuple[object, ...], dict[str, object]]] = [
    (nested_try_in_loop, (), {}),
    (closures, (5,), {}),
    (keywords_and_defaults, (1, 2, 3, 4), {"c": 7, "z": 1}),
    (matching, ({"a": [1, 2, 3], "b": 4},), {}),
    (matching, ([2, 2],), {}),
    (matching, ("s",), {}),
    (matching, (3,), {}),
]


def reassembled(function: Callable[..., object]) -> Callable[..., object]:
    """A copy of a function whose code, and all nested code, was assembled again."""
    assert isinstance(function, types.FunctionType)
    copy = types.FunctionType(
        deeply(function.__code__), function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def deeply(code: types.CodeType) -> types.CodeType:
    """The code assembled again, with its nested code."""
    code = code.replace(
        co_consts=tuple(deeply(each) if isinstance(each, types.CodeType) else each for each in code.co_consts)
    )
    return assemble(disassemble(code), code)


@pytest.mark.parametrize(("function", "arguments", "keywords"), RUNNABLE)
def test_running_again(
    function: Callable[..., object], arguments: tuple[object, ...], keywords: dict[str, object]
) -> None:
    """A reassembled function gives the original's result."""
    assert reassembled(function)(*arguments, **keywords) == function(*arguments, **keywords)


def test_with_and_finally_run_again() -> None:
    """Handlers of nested ``with`` and ``finally`` run in order in a reassembled function."""
    assert reassembled(with_and_finally)([]) == with_and_finally([])


def test_generators_run_again() -> None:
    """A reassembled generator yields, receives values, and handles thrown exceptions."""
    again = reassembled(generator)()
    assert isinstance(again, types.GeneratorType)
    assert [next(again), again.send(2), next(again), again.throw(ValueError)] == [1, 0, 1, 99]


CPYTHON_TESTS = (
    "test_exceptions", "test_generators", "test_with", "test_contextlib", "test_patma", "test_dis", "test_scope",
    "test_listcomps", "test_exception_group", "test_unpack", "test_coroutines", "test_super",
)  # fmt: skip

RUNNER = """
import importlib.machinery, sys, types, unittest
package = types.ModuleType("nbcompile")  # without its __init__, which imports torch
package.__path__ = [sys.argv[1] + "/nbcompile"]
sys.modules["nbcompile"] = package
from nbcompile.bytecode.assemble import assemble
from nbcompile.bytecode.disassemble import disassemble
def deeply(code):
    code = code.replace(co_consts=tuple(deeply(c) if isinstance(c, types.CodeType) else c for c in code.co_consts))
    if not code.co_flags & 1:  # CodeType.replace loses which locals of a module or class are hidden (PEP 709)
        return code
    return assemble(disassemble(code), code)
compile_ = importlib.machinery.SourceFileLoader.source_to_code
importlib.machinery.SourceFileLoader.source_to_code = lambda self, *a, **k: deeply(compile_(self, *a, **k))
importlib.machinery.SourceFileLoader.get_code = lambda self, name: self.source_to_code(
    self.get_data(self.get_filename(name)), self.get_filename(name))
from test import support
support.verbose = 0
suite = unittest.defaultTestLoader.loadTestsFromName("test." + sys.argv[2])
result = unittest.TextTestRunner(verbosity=0).run(suite)
print("RAN", result.testsRun)
print("BROKEN", sorted(str(test).split()[0] for test, _ in result.failures + result.errors))
"""


def run_cpython_test(name: str, runner: str) -> tuple[int, str]:
    """The number of tests that ran, and those that did not pass."""
    done = command(sys.executable, "-B", "-W", "ignore", "-c", runner, HERE, name)
    ran = next(line for line in done.stdout.splitlines() if line.startswith("RAN"))
    return int(ran.split()[1]), next(line for line in done.stdout.splitlines() if line.startswith("BROKEN"))


@pytest.mark.slow
@pytest.mark.parametrize("name", CPYTHON_TESTS)
def test_cpythons_own_tests(name: str) -> None:
    """CPython's tests, imported from reassembled code, have the same outcome."""
    if not (LIBRARY / "test" / f"{name}.py").exists():
        pytest.skip(f"this Python is installed without test.{name}")
    plain = RUNNER.replace("    return assemble(disassemble(code), code)", "    return code")
    ran, broken = run_cpython_test(name, RUNNER)
    assert ran > 0
    assert (ran, broken) == run_cpython_test(name, plain)


# -- the encodings -------------------------------------------------------------------------------------

NUMBER = st.integers(0, 5000)
COLUMN = st.none() | st.integers(0, 200)
POSITIONS = st.builds(
    lambda line, more, column, end: Position(line, line + more, column, end if column is not None else None)
    if end is not None or column is None
    else Position(line, line + more, None, None),
    NUMBER, st.integers(0, 70), COLUMN, st.none() | st.integers(0, 200),
) | st.just(Position())  # fmt: skip


def nothing() -> None:
    """A function whose instructions the tests replace."""


def nops(positions: list[Position]) -> list[Instruction]:
    body = [Instruction("NOP", position=position) for position in positions]
    return [Instruction("RESUME", 0), *body, Instruction("LOAD_CONST", argval=None), Instruction("RETURN_VALUE")]


@settings(max_examples=120, deadline=None)
@given(st.lists(POSITIONS, max_size=30), NUMBER)
def test_positions_survive(positions: list[Position], first_line: int) -> None:
    """Any source position is written and read back, for any first line."""
    code = assemble(nops(positions), nothing.__code__, co_firstlineno=first_line)
    read = [Position(*each) for each in code.co_positions()][1 : len(positions) + 1]
    assert read == positions


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 400), st.integers(0, 300), st.booleans()), min_size=1, max_size=6))
def test_exception_ranges_survive(ranges: list[tuple[int, int, bool]]) -> None:
    """Ranges of any length, depth and kind are written and read back."""
    handler = Label()
    body = [
        Instruction("NOP", protection=Protection(handler, depth, lasti))
        for size, depth, lasti in ranges
        for _ in range(size)
    ]
    tail = [Instruction("LOAD_CONST", argval=None, label=handler), Instruction("RETURN_VALUE")]
    code = assemble([Instruction("RESUME", 0), *body, *tail], nothing.__code__)
    again = disassemble(code)[1 : len(body) + 1]
    assert [(each.protection.depth, each.protection.lasti) for each in again if each.protection] == [
        (each.protection.depth, each.protection.lasti) for each in body if each.protection
    ]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 70_000), st.integers(0, 40)), min_size=1, max_size=4))
def test_far_jumps_arrive(steps: list[tuple[int, int]]) -> None:
    """Jumps over any distance reach their label: EXTENDED_ARG is added until all fit."""
    labels = [Label() for _ in steps]
    body: list[Instruction] = []
    for (distance, _), label in zip(steps, labels, strict=True):
        body.append(Instruction("JUMP_FORWARD", target=label))
        body += [Instruction("NOP")] * (distance // 10)
        body.append(Instruction("NOP", label=label))
    tail = [Instruction("LOAD_CONST", argval="arrived"), Instruction("RETURN_VALUE")]
    code, offsets = assemble_with_offsets([Instruction("RESUME", 0), *body, *tail], nothing.__code__)
    assert types.FunctionType(code, {})() == "arrived"
    targets = [each.argval for each in disassemble(code) if each.target is not None]
    assert targets == [offsets[1 + index] for index, each in enumerate(body) if each.label is not None]


def test_a_prefix_that_only_itself_needs_is_left_out() -> None:
    """A backward jump over 255 units needs no EXTENDED_ARG, so equivalent code may be shorter than CPython's."""
    source = "def f(n):\n    while n:\n" + "        n -= 1\n" * 1 + "{body}    return n"
    lengths = set()
    for size in range(60):
        scope: dict[str, object] = {}
        exec(source.format(body="        n\n" * (100 + size)), scope)
        function = scope["f"]
        assert isinstance(function, types.FunctionType)
        assert_same(function.__code__)
        lengths.add(len(function.__code__.co_code))
    assert len(lengths) > 30


def test_more_than_255_constants_and_names() -> None:
    """Indices above 255 are read back, for constants, names and locals."""
    lines = "\n".join(f"    v{i} = g{i} + {i}.5" for i in range(300))
    source = f"def f():\n{lines}\n    return v0 + v299"
    scope: dict[str, object] = {f"g{i}": i for i in range(300)}
    exec(source, scope)
    function = scope["f"]
    assert isinstance(function, types.FunctionType)
    assert_same(function.__code__)
    assert reassembled(function)() == 0.5 + 299 + 299.5


def test_new_constants_are_distinguished_by_type() -> None:
    """``1``, ``1.0`` and ``True`` are three constants."""
    values: list[object] = [1, 1.0, True, "1", (1,), (1.0,)]
    body = [Instruction("RESUME", 0)]
    body += [Instruction("LOAD_CONST", argval=value) for value in values]
    body += [Instruction("BUILD_TUPLE", len(values)), Instruction("RETURN_VALUE")]
    made = types.FunctionType(assemble(body, nothing.__code__), {})()
    assert [(type(each), each) for each in made] == [(type(each), each) for each in values]


def test_a_superinstruction_is_split_where_an_index_is_too_large() -> None:
    """Locals beyond the sixteenth slot can be loaded, although a superinstruction has only four bits for each."""

    def add(a: int, b: int) -> int:
        c = a + b
        d = c - a
        return c * d

    names = tuple(f"unused{i}" for i in range(20))
    moved = assemble(
        disassemble(add.__code__), add.__code__, co_varnames=(*names, *add.__code__.co_varnames), co_argcount=22
    )
    assert types.FunctionType(moved, {})(*range(20), 3, 4) == add(3, 4)


def test_changes_go_to_the_code_object() -> None:
    """``assemble`` accepts the keywords of ``CodeType.replace``."""
    code = assemble(disassemble(nothing.__code__), nothing.__code__, co_name="other", co_firstlineno=7)
    assert (code.co_name, code.co_firstlineno) == ("other", 7)


def test_labels_keep_their_place() -> None:
    """Instructions that are inserted before a loop move the loop, and its jumps still reach it."""

    def count(n: int) -> int:
        total = 0
        for i in range(n):
            total += i
        return total

    body = disassemble(count.__code__)
    head = next(index for index, each in enumerate(body) if each.opcode == "FOR_ITER")
    padded = [*body[:head], *[Instruction("NOP")] * 300, *body[head:]]
    assert types.FunctionType(assemble(padded, count.__code__), {"range": range})(10) == 45
    unlabelled = [replace(each, label=None) for each in body]
    with pytest.raises(KeyError):
        assemble(unlabelled, count.__code__)
