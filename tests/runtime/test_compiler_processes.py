"""Processes of the C++ compiler."""

import pathlib
import time

import pytest

from nbcompile.runtime import compiler_processes


def test_the_process_group_dies_with_us(tmp_path):
    """A compiler that is stopped leaves no child process."""
    written = tmp_path / "pid"
    with pytest.raises(Exception, match="was stopped after 2 s"):
        compiler_processes.run(["sh", "-c", f"sleep 600 & echo $! > {written}; sleep 600"], "", timeout=2)
    child = int(written.read_text())
    for _ in range(600):  # a busy machine may need time to end a process that was killed
        if not _is_running(child):
            return
        time.sleep(0.1)
    pytest.fail("the child still runs")


def _is_running(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"  # a zombie has ended


def test_a_task_is_done_while_a_compiler_works_or_at_the_end():
    """A task runs once, while a compiler runs or at the end of the block; it may start a compiler, too."""
    told = []

    def compile_something(name):
        compiler_processes.run(["sh", "-c", f"echo {name}"], "")
        told.append(name)

    compiler_processes.builds.concurrent_task = lambda: told.append("import")
    with compiler_processes.builds.doing(lambda: compile_something("second")):
        compile_something("first")
    assert told == ["import", "second", "first"]
    with compiler_processes.builds.doing(lambda: told.append("third")):
        told.append("nothing is compiled")
    assert told[3:] == ["nothing is compiled", "third"]
    assert compiler_processes.builds.concurrent_task is None


def test_a_task_is_left_where_the_block_fails():
    """If the block raises, the task is dropped."""
    with pytest.raises(ValueError, match="first"), compiler_processes.builds.doing(lambda: pytest.fail("it was done")):
        raise ValueError("first")
    assert compiler_processes.builds.concurrent_task is None


def test_what_a_task_raises_is_no_fault_of_the_block():
    """An error of the task does not interrupt the build of the block."""
    told = []

    def fails():
        raise ValueError("the task")

    with pytest.raises(ValueError, match="the task"), compiler_processes.builds.doing(fails):
        compiler_processes.run(["sh", "-c", "echo first"], "")
        told.append("the block went on")
    assert told == ["the block went on"]
