"""Processes that hang, fork, print without end, crash: each is ended, and memory stays bounded."""

from __future__ import annotations

import os
import sys
import time

import pytest

from nbcompile.tools import child_process
from nbcompile.tools.child_process import HUNG, MOST_OUTPUT


def run(program: str, seconds: float = 60.0, **options):
    return child_process.run([sys.executable, "-c", program], seconds, **options)


def test_output_errors_and_code():
    """Each is the process's own; input is what is given."""
    ended = run("import sys; print(input()); print('why', file=sys.stderr); sys.exit(3)", given=b"hello\n")
    assert ended == child_process.ProcessResult(3, "hello\n", "why\n")
    assert run("import os; os.kill(os.getpid(), 11)").code == -11
    assert run("input()").errors.endswith("EOFError: EOF when reading a line\n")


def test_both_outputs_in_order():
    """Through one pipe."""
    ended = run("import os; os.write(2, b'a'); os.write(1, b'b'); os.write(2, b'c')", together=True)
    assert (ended.output, ended.errors) == ("abc", "abc")


def test_a_process_that_hangs_in_a_child(tmp_path):
    """Children that it forked are ended with it."""
    program = (
        f"import os, time\nif not os.fork():\n time.sleep(2)\n open({str(tmp_path / 'alive')!r}, 'w')\ntime.sleep(99)"
    )
    assert run(program, seconds=1.0).code == HUNG
    time.sleep(2.0)
    assert list(tmp_path.iterdir()) == []


def test_a_child_that_stays():
    """A process that ends well and leaves a child with its output open has ended."""
    began = time.monotonic()
    ended = run("import os, time\nif not os.fork(): time.sleep(60)\nelse: print('done', flush=True); os._exit(0)")
    assert (ended.code, ended.output) == (0, "done\n")
    assert time.monotonic() - began < 30


def test_output_without_end():
    """The beginning is kept, and the rest is a size and a digest: two long outputs that differ late do differ."""
    program = "import sys; sys.stdout.write('x' * (4 << 20) + {!r})"
    first, second, again = (run(program.format(end)).output for end in ("a", "b", "a"))
    assert len(first) < MOST_OUTPUT + 200
    assert first != second
    assert first == again
    assert f"{(3 << 20) + 1} more bytes" in first


def test_memory_is_bounded():
    """Output as fast as a process can write, until the time is over."""
    ended = run("import os\nwhile True: os.write(1, b'y' * 65536); os.write(2, b'z' * 65536)", seconds=2.0)
    assert ended.code == HUNG
    assert len(ended.output) + len(ended.errors) < 2 * MOST_OUTPUT


@pytest.mark.parametrize("code", [0, 5])
def test_a_fork_of_the_first_process_leaves(code):
    """With the code that it is given; the first process goes on."""
    child_process.leave_if_forked(os.getpid(), code)
    forked = os.fork()
    if not forked:
        child_process.leave_if_forked(os.getppid(), code)
    assert os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]) == code
