"""Failures of the compiler and of the disk: the function runs, with one warning, and the next function compiles."""

from __future__ import annotations

import errno
import shutil
import stat
import tempfile
import warnings

import pytest
import torch

import nbcompile
from nbcompile import config, errors
from nbcompile.fast import prebuild
from nbcompile.fast.disk_cache import storage, writer
from nbcompile.runtime import compiler_processes, store
from tests.support.threads import in_threads

COMPILER = """#!/bin/sh
[ "$1" = --version ] && exec g++ --version
text=$(cat)
case "$text" in
  *kernel0*) [ -e {trouble} ] && . {trouble} ;;
esac
printf "%s" "$text" | exec g++ "$@"
"""


@pytest.fixture
def fragile(tmp_path, monkeypatch):
    """A compiler that, for a kernel, fails in the way that the returned file says."""
    if shutil.which("g++") is None:
        pytest.skip("the script below calls g++")
    trouble, script = tmp_path / "trouble", tmp_path / "c++"
    script.write_text(COMPILER.format(trouble=trouble))
    script.chmod(stat.S_IRWXU)
    monkeypatch.setenv("CXX", str(script))
    monkeypatch.setenv("NBCOMPILE_CACHE_DIR", str(tmp_path / "store"))
    return trouble


def call_twice(number: float) -> list[warnings.WarningMessage]:
    """The warnings of two calls of a new compiled function."""

    def f(x):
        return torch.tanh(x * number).sum(-1)

    nbcompile.reset()
    x = torch.randn(7, 5)
    compiled = nbcompile.compile(f)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(2):
            torch.testing.assert_close(compiled(x), f(x))
        writer.flush()
    return [each for each in told if issubclass(each.category, errors.GeneratedCodeWarning | errors.StoreWarning)]


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("echo no space left; exit 1", "no space left"),
        ("kill -9 $$", "BuildError"),
        ("sleep 30", "was stopped after 3 s"),
        ("exit 0", "Error"),
    ],
    ids=["fails", "dies", "hangs", "builds nothing"],
)
def test_trouble_with_the_compiler(fragile, monkeypatch, tmp_path, what, said):
    """The graph runs through ATen, and a later function is compiled."""
    call_twice(1.0)  # looks for the compiler
    fragile.write_text(what)
    if "sleep" in what:
        monkeypatch.setenv(compiler_processes.PATIENCE, "3")
    told = call_twice(2.0)
    assert len(told) == 1
    assert said in str(told[0].message)
    prebuild.start().join()  # writes to the store, too
    assert [path for path in (tmp_path / "store").rglob("*") if path.name.count("-") and path.suffix == ".so"] == []
    fragile.unlink()
    assert call_twice(3.0) == []


def test_a_missing_compiler_is_reported_once(monkeypatch, tmp_path):
    """Without a compiler all graphs run through ATen, with one warning."""
    monkeypatch.setenv("CXX", "no-such-compiler-1")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert len(call_twice(1.0)) == 1
    assert call_twice(2.0) == []


@pytest.mark.fast_path
def test_a_full_disk_costs_two_warnings(monkeypatch, tmp_path):
    """If neither the kernel store nor the entry store can be written, the graph runs through ATen."""
    call_twice(1.0)
    monkeypatch.setenv("NBCOMPILE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(storage, "_warned", set())

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as inside:
        inside.setattr(tempfile, "mkstemp", full)
        with config.patch(warm_start=True):
            told = call_twice(4.5)
    assert sorted(each.category.__name__ for each in told) == ["GeneratedCodeWarning", "StoreWarning"]
    assert all("No space left" in str(each.message) for each in told)
    assert call_twice(5.5) == []


def test_a_folder_that_rejects_is_replaced_by_one_for_this_process(monkeypatch, tmp_path):
    """If the folder cannot be written, kernels are built in a folder of this process."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NBCOMPILE_CACHE_DIR", str(tmp_path / "file" / "below"))
    told = call_twice(6.0) + call_twice(7.0)
    assert len(told) == 1
    assert "every process builds its own" in str(told[0].message)


def test_many_builders_of_one_kernel_do_not_harm_one_another(monkeypatch, tmp_path):
    """Concurrent builds of one kernel: each reader finds a complete entry, or none."""
    monkeypatch.setenv("NBCOMPILE_CACHE_DIR", str(tmp_path))
    key, content, wrong = store.key_of("one"), b"x" * 100_000, []

    def build(number: int) -> None:
        for _ in range(10):
            store.add(key, ".so", lambda draft: draft.write_bytes(content))
            path = store.fetch(key, ".so")
            if path is not None and path.read_bytes() != content:
                wrong.append(path)

    in_threads(build)
    assert not wrong
    assert store.fetch(key, ".so") is not None
    assert len(list(tmp_path.rglob("*.so"))) == 1
