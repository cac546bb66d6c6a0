"""The search for a compiler; if there is none, the result is a value with a reason."""

import pytest

from nbcompile.runtime import compiler_processes, toolchain
from tests.support.targets import compiler


def test_a_compiler_is_found_and_reported():
    """The version and the flags of the compiler are known, for the record and for the store's key."""
    found = compiler()
    assert "-O3" in found.flags
    assert found.version in found.identity


def test_no_compiler_is_a_value(monkeypatch, tmp_path):
    """Without a compiler on the PATH there is a reason, and no exception."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", "no-such-compiler")
    found = toolchain.find()
    assert isinstance(found, toolchain.NoCompiler)
    assert "no-such-compiler" in found.reason


def test_a_compiler_that_does_not_work_is_not_used(monkeypatch, tmp_path):
    """If $CXX exists but builds nothing, the next candidate is used."""
    monkeypatch.setenv("CXX", "false")
    assert isinstance(toolchain.find(), toolchain.Compiler)


def test_what_the_compiler_says_is_the_message(tmp_path):
    """Invalid source raises BuildError with the compiler's message."""
    with pytest.raises(compiler_processes.BuildError, match="nonsense"):
        toolchain.build(compiler(), "nonsense;", tmp_path / "x.so")
