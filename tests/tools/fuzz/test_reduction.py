"""Reduction: a program that still differs, as small as possible."""

from __future__ import annotations

import nbcompile
from nbcompile.tools.fuzz import oracle, reduction
from tests.tools.fuzz.test_oracle import SMALL, made


def test_reduction(monkeypatch):
    """What does not matter for a difference goes."""
    monkeypatch.setattr(nbcompile, "compile", lambda f, **_: lambda x, items: -f(x, items))
    found = oracle.examine(made(SMALL)).difference
    small, difference = reduction.reduced(made(SMALL), found, seconds=10)
    assert difference.aspect == found.aspect
    assert "if " not in small.source
    assert len(small.source) < len(SMALL) - 60
    assert reduction.cause(small, difference).startswith("python bits:")
