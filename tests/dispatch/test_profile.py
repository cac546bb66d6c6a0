"""The recorded variation of values, for the next process."""

from __future__ import annotations

import pytest

from nbcompile import config
from nbcompile.capture.source import AttrSource, ConstantSource, LocalSource, SizeSource
from nbcompile.dispatch import profile


def f(x):
    return x


@pytest.fixture
def job(tmp_path, monkeypatch):
    """A job with an id, whose profile is in a folder of the test."""
    monkeypatch.setenv("TORCH_COMPILE_JOB_ID", "a")
    monkeypatch.setenv("NBCOMPILE_CACHE_DIR", str(tmp_path))
    return tmp_path


def test_a_profile_comes_back(job):
    """The profile is found by function and source; another function has none."""
    seen = [(SizeSource(LocalSource("x"), 0, "size"), [3, 4]), (AttrSource(LocalSource("self"), "k"), [1])]
    profile.keep(f.__code__, seen)
    assert profile.recall(f.__code__) == dict(seen)
    assert profile.recall((lambda: 0).__code__) == {}


def test_without_a_job_nothing_is_kept(monkeypatch, job):
    """A profile is not stored without a job id, or if the setting is off."""
    with config.patch(automatic_dynamic_local_pgo=False):
        assert profile.file() is None
    monkeypatch.delenv("TORCH_COMPILE_JOB_ID")
    profile.keep(f.__code__, [(LocalSource("x"), [1])])
    assert not any(job.rglob("*.json"))


def test_addresses_of_this_process_are_left_out(job):
    """Sources of objects that only this process has are not stored."""
    profile.keep(f.__code__, [(ConstantSource("held", object()), [1]), (LocalSource("x"), [2])])
    assert profile.recall(f.__code__) == {LocalSource("x"): [2]}


@pytest.mark.parametrize("text", ["", "{", '{"f": 3}'])
def test_a_damaged_file_is_no_profile(job, text):
    """A file of another version, or an incomplete one, is ignored."""
    path = profile.file()
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert profile.recall(f.__code__) == {}


def test_profiles_of_functions_are_merged(job):
    """Each process adds its own functions to the profile."""
    profile.keep(f.__code__, [(LocalSource("x"), [1])])
    other = (lambda y: y).__code__
    profile.keep(other, [(LocalSource("y"), [2])])
    assert profile.recall(f.__code__) and profile.recall(other)
