"""The outcome of an answer is a value or a sentence."""

from __future__ import annotations

import signal
import threading
import time
import warnings

import pytest
import torch

import nbcompile
from nbcompile.teach import attempt
from nbcompile.teach.attempt import Rejection, TimeLimitExceeded, expect_function, is_compiled, limited, renewed
from nbcompile.teach.exercise_table import define


def test_a_call_is_its_value_and_what_it_printed(capsys):
    """The call's output does not reach the notebook; a warning is no effect."""

    def f(items):
        print("half way")
        warnings.warn("careful", stacklevel=1)
        items.append(1)
        return len(items)

    outcome = attempt.attempt(f, ([],))
    assert (outcome.result, outcome.printed, outcome.arguments) == (1, "half way\n", ([1],))
    assert capsys.readouterr() == ("", "")


def test_an_exception_names_the_line_of_the_answer():
    """The sentence has the answer's line, not the library's, and the message's first line, or says there is none."""
    answer = define("import json\n\ndef f(x):\n    return json.loads(x)\n", "f")
    with pytest.raises(Rejection, match=r"^it raises JSONDecodeError: .*\(line 4\)$"):
        attempt.attempt(answer, ("{",))

    def silent():
        raise ValueError

    with pytest.raises(Rejection, match=r"^it raises ValueError: without a message$"):
        attempt.attempt(silent, ())


def test_the_time_limit_is_over_with_its_block():
    """If an answer catches the exception, it is raised again; afterwards handler and timer are restored."""
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(TimeLimitExceeded), limited(0.05):
        while True:
            try:
                time.sleep(0.01)
            except TimeLimitExceeded:
                continue_until = time.monotonic() + 5
                while time.monotonic() < continue_until:
                    pass
    with limited(0.05):
        pass
    time.sleep(0.1)
    assert signal.getsignal(signal.SIGALRM) is before and signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_block_that_ends_in_time_is_not_interrupted_in_a_thread():
    """A block that ends in time, in another thread, cancels its timer."""
    seen = []

    def run():
        with limited(0.05):
            seen.append("inside")
        time.sleep(0.15)
        seen.append("afterwards")

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(20)
    assert seen == ["inside", "afterwards"]


COMPILERS = [
    "def f(x): return torch.compile(g)(x)",
    "def f(x): return nbcompile.compile(g)(x)",
    "@torch.compile\ndef h(x): return x\n\ndef f(x): return h(x)",
    "def f(x):\n    def inner(y): return [torch.compile(g)(z) for z in y]\n    return inner(x)",
    "def h(x): return f(x)\n\ndef f(x): return h(x) if x is None else torch.compile(g)(x)",
]
NONE = [
    "import re\n\ndef f(x): return re.compile('a').match(x)",
    "def compile(x): return x\n\ndef f(x): return compile(x)",
    "def f(x): return f(x - 1) if x else 'compile'",
    "@torch.compiler.disable\ndef h(x): return x\n\ndef f(x): return h(x)",
]


@pytest.mark.parametrize("code", COMPILERS)
def test_an_answer_that_compiles_is_rejected(code):
    """An answer that calls the compiler is rejected, directly, in a nested function, or in a called one."""
    with pytest.raises(Rejection, match="uses a compiler itself"):
        expect_function(define("def g(x): return x\n\n" + code, "f"), "f")


@pytest.mark.parametrize("code", NONE)
def test_the_word_alone_is_no_compiler(code):
    """The name alone, or a function that is disabled, is no call of the compiler."""
    answer = define(code, "f")
    assert expect_function(answer, "f") is answer


def test_what_is_compiled_is_known():
    """Compiled functions and modules of torch and nbcompile are recognised; their originals are not."""
    module = torch.nn.Linear(1, 1)
    for value in (
        torch.compile(len),
        nbcompile.compile(expect_function),
        torch.compile(module),
        nbcompile.compile(module),
    ):
        assert is_compiled(value)
    for value in (module, expect_function, None, 3, torch.nn.Linear):
        assert not is_compiled(value)


def test_a_renewed_function_is_the_same_program():
    """A copy has the original's defaults, cells and lines, and a new file name."""
    answer = define("def outer(k):\n    def f(x, y=2, *, z=3): return x + y + z + k\n    return f\nf = outer(4)", "f")
    first, second = renewed(answer), renewed(answer)
    assert first(1) == second(1, z=3) == answer(1) == 10
    assert first.__code__.co_firstlineno == answer.__code__.co_firstlineno
    assert len({one.__code__.co_filename for one in (first, second, answer)}) == 3
