"""The compiler is found, or its absence is a value."""

import pytest

from nbcompile.runtime import compiler_processes, toolchain
from tests.support.targets import compiler


def test_a_compiler_is_found_and_told():
    """Its version and flags are known, for the record and the store's key."""
    found = compiler()
    assert "-O3" in found.flags
    assert found.version in found.identity


def test_no_compiler_is_a_value(monkeypatch, tmp_path):
    """Without a compiler on the PATH there is a reason to show, and no exception."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", "no-such-compiler")
    found = toolchain.find()
    assert isinstance(found, toolchain.NoCompiler)
    assert "no-such-compiler" in found.reason


def test_a_compiler_that_does_not_work_is_not_used(monkeypatch, tmp_path):
    """$CXX that exists but builds nothing is passed over, with the next candidate in its place."""
    monkeypatch.setenv("CXX", "false")
    assert isinstance(toolchain.find(), toolchain.Compiler)


def test_what_the_compiler_says_is_the_message(tmp_path):
    """Source that is refused raises BuildError with the compiler's own words."""
    with pytest.raises(compiler_processes.BuildError, match="nonsense"):
        toolchain.build(compiler(), "nonsense;", tmp_path / "x.so")
