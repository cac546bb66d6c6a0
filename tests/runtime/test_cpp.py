"""From source text to functions: one compiler process for a small unit, one per core for a large one."""

from __future__ import annotations

import ctypes
import threading

import pytest

from nbcompile.codegen.cpp import unit
from nbcompile.runtime import compiler_processes, cpp, toolchain


def functions(count, length):
    """A number of functions, each of which returns its index, with about ``length`` characters each."""
    filler = "".join(f"  // {'x' * 70}\n" for _ in range(length // 76))
    return "".join(
        f"// kernel{at}: add, mul\nEXPORT i64 kernel{at}(void *const *pointers, const i64 *sizes, Context *context) {{\n"
        f"{filler}  return {at};\n}}\n\n"
        for at in range(count)
    )


def called(library, name):
    """The result of a function without arguments."""
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    return function(library.address(name))(None, None, None)


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    """The installed compiler, and an empty store."""
    monkeypatch.setenv("NBCOMPILE_CACHE_DIR", str(tmp_path))
    found = toolchain.find()
    assert isinstance(found, toolchain.Compiler)
    return found


def test_a_small_unit_stays_whole():
    """A unit smaller than two pieces is not split, and on one core no unit is."""
    small, large = unit(functions(4, cpp.PIECE // 4)), unit(functions(12, cpp.PIECE))
    assert cpp.split(small, 8) == [small]
    assert cpp.split(large, 1) == [large]
    assert cpp.split("", 4) == [""]


@pytest.mark.parametrize("cores", [2, 3, 8])
def test_pieces_hold_every_function_once(cores):
    """Each piece has the header and some functions, in order; the pieces have about equal size."""
    source = unit(functions(16, cpp.PIECE // 3))
    pieces = cpp.split(source, cores)
    header = source.partition("// kernel0")[0]
    assert 1 < len(pieces) <= cores
    assert all(each.startswith(header) for each in pieces)
    assert header + "".join(each.removeprefix(header) for each in pieces) == source
    lengths = [len(each) - len(header) for each in pieces]
    assert max(lengths) < 3 * min(lengths)


def test_a_large_unit_is_built_by_several_compilers(compiler, monkeypatch):
    """The library has all functions, and the store has the library for the next build."""
    commands = []
    together, own = compiler_processes.run_together, threading.get_ident()

    def noted(given, *more):
        if threading.get_ident() == own:  # another thread may prebuild
            commands.append(given)
        return together(given, *more)

    monkeypatch.setattr(compiler_processes, "run_together", noted)  # of the link
    monkeypatch.setattr(toolchain, "run_together", noted)  # of the pieces
    monkeypatch.setattr(cpp.os, "sched_getaffinity", lambda _: {0, 1, 2}, raising=False)
    source = unit(functions(9, cpp.PIECE // 2))
    library = cpp.load(source, compiler)
    assert [called(library, f"kernel{at}") for at in range(9)] == list(range(9))
    assert [len(each) for each in commands] == [3, 1]
    cpp._load.cache_clear()
    assert cpp.load(source, compiler).path == library.path
    assert len(commands) == 2


def test_an_error_in_one_piece_is_reported(compiler, monkeypatch):
    """A compiler error in one piece is the error of the whole build."""
    monkeypatch.setattr(cpp.os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    source = unit(functions(4, cpp.PIECE)).replace("return 3;", "return nonsense;")
    with pytest.raises(compiler_processes.BuildError, match="nonsense"):
        cpp.load(source, compiler)


def left_of(*programs: str) -> list[object]:
    """The compiler processes that still run; another thread may build something, too."""
    return [each.args for each in compiler_processes._running if each.args[0] in programs]


def test_a_compiler_that_cannot_be_started_leaves_none_behind():
    """If one compiler does not start, those that were started before it are stopped."""
    with pytest.raises(FileNotFoundError):
        compiler_processes.run_together([["sleep", "60"], ["no-such-compiler-here"]])
    assert not left_of("sleep")


def test_compilers_that_run_side_by_side_die_together():
    """At a timeout, all concurrent compilers are stopped."""
    commands = [["sh", "-c", "sleep 30"], ["sh", "-c", "exit 0"], ["sh", "-c", "sleep 31"]]
    with pytest.raises(compiler_processes.BuildError, match="was stopped after"):
        compiler_processes.run_together(commands, timeout=0.3)
    assert not left_of("sh")
