"""Child processes that hang, fork, print without end or crash are ended, with bounded memory."""

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
    """Output, errors, exit code and input are those of the process."""
    ended = run("import sys; print(input()); print('why', file=sys.stderr); sys.exit(3)", given=b"hello\n")
    assert ended == child_process.ProcessResult(3, "hello\n", "why\n")
    assert run("import os; os.kill(os.getpid(), 11)").code == -11
    assert run("input()").errors.endswith("EOFError: EOF when reading a line\n")


def test_both_outputs_in_order():
    """Both streams share one pipe, in order."""
    ended = run("import os; os.write(2, b'a'); os.write(1, b'b'); os.write(2, b'c')", together=True)
    assert (ended.output, ended.errors) == ("abc", "abc")


def test_a_process_that_hangs_in_a_child(tmp_path):
    """The children of a hung process are ended, too."""
    program = (
        f"import os, time\nif not os.fork():\n time.sleep(2)\n open({str(tmp_path / 'alive')!r}, 'w')\ntime.sleep(99)"
    )
    assert run(program, seconds=1.0).code == HUNG
    time.sleep(2.0)
    assert list(tmp_path.iterdir()) == []


def test_a_child_that_stays():
    """A process has ended when it exits, although a child keeps its output open."""
    began = time.monotonic()
    ended = run("import os, time\nif not os.fork(): time.sleep(60)\nelse: print('done', flush=True); os._exit(0)")
    assert (ended.code, ended.output) == (0, "done\n")
    assert time.monotonic() - began < 30


def test_output_without_end():
    """Long output is its beginning, its size and a digest, so that a late difference is found."""
    program = "import sys; sys.stdout.write('x' * (4 << 20) + {!r})"
    first, second, again = (run(program.format(end)).output for end in ("a", "b", "a"))
    assert len(first) < MOST_OUTPUT + 200
    assert first != second
    assert first == again
    assert f"{(3 << 20) + 1} more bytes" in first


def test_memory_is_bounded():
    """Endless output until the time limit does not fill the memory."""
    ended = run("import os\nwhile True: os.write(1, b'y' * 65536); os.write(2, b'z' * 65536)", seconds=2.0)
    assert ended.code == HUNG
    assert len(ended.output) + len(ended.errors) < 2 * MOST_OUTPUT


@pytest.mark.parametrize("code", [0, 5])
def test_a_fork_of_the_first_process_leaves(code):
    """A fork ends with the given code, and the first process continues."""
    child_process.leave_if_forked(os.getpid(), code)
    forked = os.fork()
    if not forked:
        child_process.leave_if_forked(os.getppid(), code)
    assert os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]) == code
