"""Torch's bisector for a function or a program: its result, and the state after it."""

from __future__ import annotations

import types

import pytest
import torch
import torch._inductor.config
from torch._inductor.compiler_bisector import CompilerBisector

from nbcompile.peer import bisect

pytestmark = pytest.mark.peer


@pytest.fixture(autouse=True)
def bisector(monkeypatch):
    """The bisector without the state of another bisection, before and after the test."""
    CompilerBisector.reset_counters()
    monkeypatch.setattr(CompilerBisector, "bisection_enabled", CompilerBisector.bisection_enabled)
    monkeypatch.setattr(CompilerBisector, "in_process_cache", CompilerBisector.in_process_cache)
    yield
    CompilerBisector.reset_counters()


def test_a_function_that_is_right_with_every_backend():
    """No error is found; the function is compiled again for each trial, with the given options."""
    seen = []

    def is_right(compiled):
        seen.append(compiled)
        return True

    assert bisect.bisect(torch.sin, is_right, dynamic=False) is None
    assert len(seen) == len({id(compiled) for compiled in seen}) > 0


def test_a_function_that_is_wrong_with_the_first_backend():
    """The error is in the capture; caches are disabled in each trial, and the setting is restored."""
    before = torch._inductor.config.force_disable_caches
    settings = []

    def is_right(compiled):
        settings.append(torch._inductor.config.force_disable_caches)
        return False

    found = bisect.bisect(torch.sin, is_right)
    assert found.backend == "eager" and found.subsystem is None
    assert all(settings) and torch._inductor.config.force_disable_caches == before


def test_what_the_bisector_prints_is_not_shown(capsys):
    """The bisector prints nothing: the caller gets the result."""
    bisect.bisect(torch.sin, lambda compiled: False)
    assert capsys.readouterr().out == ""


def test_a_program_gets_the_backend_and_the_folder():
    """The test of a program receives the backend and one folder for all trials; the first wrong backend is found."""
    told = []

    def is_right(backend, folder):
        told.append((backend, folder))
        return backend == "eager"

    found = bisect.bisect_program(is_right)
    assert found.backend == "aot_eager"
    assert [backend for backend, _ in told][:2] == ["eager", "aot_eager"]
    assert len({folder for _, folder in told}) == 1 and told[0][1]


def test_taking_part_reads_the_folders_state(monkeypatch, tmp_path):
    """The process uses the folder's state, and loads no code that another trial compiled."""
    monkeypatch.setattr(torch._inductor, "config", types.SimpleNamespace(force_disable_caches=False))
    bisect.take_part(str(tmp_path))
    assert CompilerBisector.in_process_cache == str(tmp_path) and CompilerBisector.bisection_enabled
    assert torch._inductor.config.force_disable_caches is True
