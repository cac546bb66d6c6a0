"""Predicates in forks: their answers, their exits, and the survival of the first process."""

from __future__ import annotations

import os
import time

import pytest
import torch

from nbcompile.tools.diagnose import isolated


def test_what_a_judgement_says():
    """The answer is a text of bounded length, and empty if the predicate raises."""
    assert isolated.call_in_fork(lambda: "differs", 60.0) == "differs"
    assert isolated.call_in_fork(lambda: "", 60.0) == ""
    assert len(isolated.call_in_fork(lambda: "x" * 100_000, 60.0)) == isolated.MOST_BYTES
    assert isolated.call_in_fork(lambda: {}["none"], 60.0) == ""
    assert not isolated.is_an_ending("differs")


def test_how_a_judgement_ends():
    """A killed, hung or exited fork has an answer that says so."""
    killed = isolated.call_in_fork(lambda: str(os.kill(os.getpid(), 9)), 60.0)
    assert killed == "killed by signal 9"
    assert isolated.is_an_ending(killed)
    began = time.monotonic()
    hung = isolated.call_in_fork(lambda: str(time.sleep(99)), 0.5)
    assert (hung, isolated.is_an_ending(hung)) == ("did not end in time (0.5 seconds)", True)
    assert time.monotonic() - began < 30
    left = isolated.call_in_fork(lambda: os._exit(3), 60.0)
    assert (left, isolated.is_an_ending(left)) == ("left the process with exit code 3", True)


def test_a_judgement_that_forks_closes_or_prints(capfd):
    """A child of the fork gives no answer, and ends with the fork; output of the fork is not shown."""

    def forks():
        if not os.fork():
            time.sleep(99)
        return "forked"

    began = time.monotonic()
    assert isolated.call_in_fork(forks, 60.0) == "forked"
    assert isolated.call_in_fork(lambda: f"child {bool(os.fork())}", 60.0) == "child True"
    assert time.monotonic() - began < 30
    assert isolated.call_in_fork(lambda: os.closerange(3, 100) or "closed", 60.0) == "left the process with exit code 0"
    assert (
        isolated.call_in_fork(lambda: print("seen") or os.system("echo seen") or os.abort(), 60.0)
        == "killed by signal 6"
    )
    assert capfd.readouterr() == ("", "")


def test_a_call_that_ends_the_process():
    """The result says how the process ended; with CUDA initialised nothing is forked."""
    assert isolated.ending(lambda: "said", 60.0) == ""
    assert isolated.ending(os.abort, 60.0) == "killed by signal 6"
    with pytest.raises(ValueError, match="in eager mode, the function is killed by signal 6: there is nothing"):
        isolated.expect_to_return(os.abort, 60.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "is_initialized", lambda: True)
        assert isolated.ending(os.abort, 60.0) == ""


def test_threads_of_the_first_process():
    """A fork computes with one thread, because the threads of the first process do not exist in it."""
    large = torch.ones(1 << 20)
    assert large.sin().sum() > 0
    assert isolated.call_in_fork(lambda: str(int(large.sum())), 60.0) == str(1 << 20)
