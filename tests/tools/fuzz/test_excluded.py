"""Statements that are not generated for values with a known difference."""

from __future__ import annotations

import torch

from nbcompile.tools.fuzz.excluded import TABLE, excluded


def test_what_is_known_is_not_generated():
    """A statement is excluded exactly for the values with a known difference."""
    known = {"a": torch.ones(3, 2).t(), "b": torch.ones(2, 3), "c": torch.tensor([1.0, -0.0])}
    assert "fake tensors have" in excluded("v0 = a.roll(1)", known)
    assert not excluded("v0 = b.roll(1)", known)
    assert "zeros" in excluded("v0 = torch.maximum(c, b)", known)
    assert not excluded("v0 = c.clamp(-1, 1)", known)
    grids = {"d": torch.tensor([0.5, torch.nan]), "e": torch.tensor([0.5, -7.0])}
    assert "grid" in TABLE[-2].pattern and excluded("v0 = F.grid_sample(b, d)", known | grids) == TABLE[-2].reason
    assert not excluded("v0 = F.grid_sample(b, e)", known | grids)
    divided = {
        "g": torch.full((33,), 3.4e38),
        "h": torch.tensor(0.25),
        "i": torch.tensor(3.0),
        "j": torch.tensor(1e-40),
    }
    assert excluded("v0 = torch.fmod(g, h)", divided) and excluded("v0 = b % j", known | divided)
    assert not excluded("v0 = torch.fmod(i, h)", divided) and not excluded("v0 = b % h", known | divided)
    assert all(row.reason for row in TABLE)
    large = {"k": torch.tensor([3.4e38, 1.0]), "l": torch.tensor([3.0, 1.0]), "m": torch.ones(2, dtype=torch.bfloat16)}
    assert "additions" in excluded("v0 = k.std()", large) and "additions" in excluded("v0 = torch.nansum(k)", large)
    assert not excluded("v0 = l.std()", large) and not excluded("v0 = k + l", large)
    assert "reciprocal" in excluded("v0 = 3 / m", large) and not excluded("v0 = 3 / l", large)
    assert not excluded("v0 = m / 3", large)
