"""An incomplete shared object is not loaded: it would crash the process."""

import dataclasses
import shlex
import sys

import pytest

from nbcompile.runtime import compiler_processes, shared_object, toolchain
from tests.support.targets import compiler

SOURCE = 'extern "C" int answer() { return 42; } static int table[4096] = {1}; int* use() { return table; }'


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    target = tmp_path_factory.mktemp("built") / "whole.so"
    toolchain.build(compiler(), SOURCE, target)
    return target.read_bytes()


def test_what_the_compiler_builds_is_complete(built, tmp_path):
    """A complete shared object has no defect, also with trailing bytes."""
    for content in (built, built + b"more"):
        path = tmp_path / "x.so"
        path.write_bytes(content)
        assert shared_object.defect(path) == ""


@pytest.mark.skipif(sys.platform != "linux", reason="headers of ELF files")
def test_any_cut_is_seen(built, tmp_path):
    """A file that ends too early has a defect, wherever it ends."""
    path = tmp_path / "x.so"
    for size in {0, 1, 4, 15, 16, 40, 63, 64, 100, 700, len(built) - 1, *range(0, len(built), 997)}:
        path.write_bytes(built[:size])
        assert shared_object.defect(path), size


@pytest.mark.skipif(sys.platform != "linux", reason="headers of ELF files")
def test_what_is_no_shared_object_is_seen(tmp_path):
    """Text, headers that point beyond the file, unknown classes, and a missing file are defects."""
    path = tmp_path / "x.so"
    assert shared_object.defect(path)
    for content in (b"nonsense" * 100, b"\x7fELF" + b"\xff" * 200, b"\x7fELF\x02\x01" + b"\x7f" * 200, b"\x7fELF"):
        path.write_bytes(content)
        assert shared_object.defect(path), content[:8]


@pytest.mark.skipif(sys.platform != "linux", reason="headers of ELF files")
@pytest.mark.parametrize("size", [0, 700])
def test_a_compiler_that_reports_success_and_leaves_half_a_file(size, tmp_path):
    """If the compiler succeeds with an incomplete file, the build fails with the defect."""
    real, script = compiler(), tmp_path / "compiler"
    script.write_text(
        f'#!/bin/sh\n{shlex.join(real.command)} "$@" || exit 1\n'
        f'while [ "$1" != -o ]; do shift; done\ntruncate -s {size} "$2"\n'
    )
    script.chmod(0o700)
    half = dataclasses.replace(real, command=(str(script),))
    with pytest.raises(compiler_processes.BuildError, match="reported success"):
        toolchain.build(half, SOURCE, tmp_path / "x.so")
