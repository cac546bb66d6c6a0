"""Judgements in forks: what they say, how they end, and that the first process goes on."""

from __future__ import annotations

import os
import time

import torch

from nbcompile.tools.diagnose import isolated


def test_what_a_judgement_says():
    """Its text, whatever its length; nothing where it raises."""
    assert isolated.judged(lambda: "differs", 60.0) == "differs"
    assert isolated.judged(lambda: "", 60.0) == ""
    assert len(isolated.judged(lambda: "x" * 100_000, 60.0)) == isolated.MOST_SAID
    assert isolated.judged(lambda: {}["none"], 60.0) == ""
    assert not isolated.is_an_ending("differs")


def test_how_a_judgement_ends():
    """Killed, or not in time."""
    killed = isolated.judged(lambda: str(os.kill(os.getpid(), 9)), 60.0)
    assert killed == "killed by signal 9"
    assert isolated.is_an_ending(killed)
    began = time.monotonic()
    hung = isolated.judged(lambda: str(time.sleep(99)), 0.5)
    assert (hung, isolated.is_an_ending(hung)) == ("did not end in time", True)
    assert time.monotonic() - began < 30


def test_threads_of_the_first_process():
    """A fork computes with one thread: it does not wait for those that only the first process has."""
    large = torch.ones(1 << 20)
    assert large.sin().sum() > 0
    assert isolated.judged(lambda: str(int(large.sum())), 60.0) == str(1 << 20)
