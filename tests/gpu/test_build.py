"""Kernels that Triton compiles in this process."""

from __future__ import annotations

import types

import pytest

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")

import triton

from nbcompile.gpu import build
from nbcompile.gpu.chip import CHIPS


def compiled(**metadata: int) -> types.SimpleNamespace:
    """The attributes of ``triton.compile``'s result that the code reads."""
    return types.SimpleNamespace(metadata=types.SimpleNamespace(**{"num_ctas": 1, "global_scratch_size": 0} | metadata))


def test_a_rejection_is_one_line(monkeypatch):
    """The reason has the first line of Triton's error, its class, and the chip."""

    def reject(*arguments, **keywords):
        raise ValueError("no such thing\nand a long text")

    monkeypatch.setattr(triton, "compile", reject)
    with pytest.raises(build.CannotBuild) as error:
        build.build(object(), CHIPS["sm_90"], {})
    assert str(error.value) == "Triton cannot compile it for sm_90: ValueError: no such thing"


@pytest.mark.parametrize("metadata", [{"num_ctas": 2}, {"global_scratch_size": 16}])
def test_what_a_launch_does_not_give_is_rejected(monkeypatch, metadata):
    """Clusters of blocks and scratch memory are rejected, because our launches do not support them."""
    monkeypatch.setattr(triton, "compile", lambda *arguments, **keywords: compiled(**metadata))
    with pytest.raises(build.CannotBuild, match="clusters of blocks, or scratch memory"):
        build.build(object(), CHIPS["sm_90"], {})


def test_files_of_triton_are_not_taken(monkeypatch):
    """A kernel is compiled without Triton's cache, and the setting is restored."""
    seen = []

    def compile_kernel(*arguments, **keywords):
        seen.append(triton.knobs.compilation.always_compile)
        return compiled(num_ctas=2)

    monkeypatch.setattr(triton, "compile", compile_kernel)
    before = triton.knobs.compilation.always_compile
    with pytest.raises(build.CannotBuild):
        build.build(object(), CHIPS["sm_90"], {})
    assert seen == [True]
    assert triton.knobs.compilation.always_compile == before
