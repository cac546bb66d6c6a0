"""Reduction of a program with a difference."""

from __future__ import annotations

import nbcompile
from nbcompile.tools.fuzz import oracle, reduction
from tests.tools.fuzz.test_oracle import SMALL, made


def test_reduction(monkeypatch):
    """Statements that the difference does not need are removed."""
    monkeypatch.setattr(nbcompile, "compile", lambda f, **_: lambda x, items: -f(x, items))
    found = oracle.examine(made(SMALL)).difference
    small, difference = reduction.reduced(made(SMALL), found, seconds=10)
    assert difference.aspect == found.aspect
    assert "if " not in small.source
    assert len(small.source) < len(SMALL) - 60
    assert reduction.cause(small, difference).startswith("python bits:")
