"""Torch's own bisector over a function or a program: what it finds, and the state that it leaves."""

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
    """No state of another bisection, and none is left."""
    CompilerBisector.reset_counters()
    monkeypatch.setattr(CompilerBisector, "bisection_enabled", CompilerBisector.bisection_enabled)
    monkeypatch.setattr(CompilerBisector, "in_process_cache", CompilerBisector.in_process_cache)
    yield
    CompilerBisector.reset_counters()


def test_a_function_that_is_right_with_every_backend():
    """Nothing is found: it is compiled anew for each trial, with the options that were given."""
    seen = []

    def is_right(compiled):
        seen.append(compiled)
        return True

    assert bisect.bisect(torch.sin, is_right, dynamic=False) is None
    assert len(seen) == len({id(compiled) for compiled in seen}) > 0


def test_a_function_that_is_wrong_with_the_first_backend():
    """Capture alone is at fault, and caches are as they were."""
    before = torch._inductor.config.force_disable_caches
    settings = []

    def is_right(compiled):
        settings.append(torch._inductor.config.force_disable_caches)
        return False

    found = bisect.bisect(torch.sin, is_right)
    assert found.backend == "eager" and found.subsystem is None
    assert all(settings) and torch._inductor.config.force_disable_caches == before


def test_what_the_bisector_prints_is_not_shown(capsys):
    """Whoever asks gets the result."""
    bisect.bisect(torch.sin, lambda compiled: False)
    assert capsys.readouterr().out == ""


def test_a_program_is_told_the_backend_and_the_folder():
    """By these it takes part in a process of its own; the first backend that is wrong is found."""
    told = []

    def is_right(backend, folder):
        told.append((backend, folder))
        return backend == "eager"

    found = bisect.bisect_program(is_right)
    assert found.backend == "aot_eager"
    assert [backend for backend, _ in told][:2] == ["eager", "aot_eager"]
    assert len({folder for _, folder in told}) == 1 and told[0][1]


def test_taking_part_reads_the_folders_state(monkeypatch, tmp_path):
    """What another trial compiled is not loaded."""
    monkeypatch.setattr(torch._inductor, "config", types.SimpleNamespace(force_disable_caches=False))
    bisect.take_part(str(tmp_path))
    assert CompilerBisector.in_process_cache == str(tmp_path) and CompilerBisector.bisection_enabled
    assert torch._inductor.config.force_disable_caches is True
