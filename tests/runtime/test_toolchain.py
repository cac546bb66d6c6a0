"""The compiler is found, or its absence is a value."""

import time

import pytest

from nbcompile.runtime import toolchain
from tests.codegen.programs import compiler


def test_a_compiler_is_found_and_told():
    """Its version and flags are known, for the record and the store's key."""
    found = compiler()
    assert "-O3" in found.flags
    assert found.version in found.identity


def test_no_compiler_is_a_value(monkeypatch, tmp_path):
    """Without a compiler on the PATH there is a reason to show, and no exception."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", "no-such-compiler")
    found = toolchain.find()
    assert isinstance(found, toolchain.NoCompiler)
    assert "no-such-compiler" in found.reason


def test_a_compiler_that_does_not_work_is_not_used(monkeypatch, tmp_path):
    """$CXX that exists but builds nothing is passed over, with the next candidate in its place."""
    monkeypatch.setenv("CXX", "false")
    assert isinstance(toolchain.find(), toolchain.Compiler)


def test_what_the_compiler_says_is_the_message(tmp_path):
    """Source that is refused raises BuildError with the compiler's own words."""
    with pytest.raises(toolchain.BuildError, match="nonsense"):
        toolchain.build(compiler(), "nonsense;", tmp_path / "x.so")


def test_the_process_group_dies_with_us(tmp_path):
    """A compiler that is interrupted leaves no process behind."""
    mark = tmp_path / "mark"
    began = time.monotonic()
    with pytest.raises(Exception, match="was stopped after 0.3 s"):
        toolchain.run(["sh", "-c", f"(sleep 2; touch {mark}) & sleep 30"], "", timeout=0.3)
    assert time.monotonic() - began < 5
    time.sleep(2.2)
    assert not mark.exists()


def test_a_task_is_done_while_a_compiler_works_or_at_the_end():
    """Once; what was to be done anyway is done as well, while the task waits for a compiler of its own."""
    told = []

    def compile_something(name):
        toolchain.run(["sh", "-c", f"echo {name}"], "")
        told.append(name)

    toolchain.builds.concurrent_task = lambda: told.append("import")
    with toolchain.builds.doing(lambda: compile_something("second")):
        compile_something("first")
    assert told == ["import", "second", "first"]
    with toolchain.builds.doing(lambda: told.append("third")):
        told.append("nothing is compiled")
    assert told[3:] == ["nothing is compiled", "third"]
    assert toolchain.builds.concurrent_task is None


def test_a_task_is_left_where_the_block_fails():
    """Nothing of it stays behind."""
    with pytest.raises(ValueError, match="first"), toolchain.builds.doing(lambda: pytest.fail("it was done")):
        raise ValueError("first")
    assert toolchain.builds.concurrent_task is None


def test_what_a_task_raises_is_no_fault_of_the_block():
    """The block's own build is not told of it."""
    told = []

    def fails():
        raise ValueError("the task")

    with pytest.raises(ValueError, match="the task"), toolchain.builds.doing(fails):
        toolchain.run(["sh", "-c", "echo first"], "")
        told.append("the block went on")
    assert told == ["the block went on"]
