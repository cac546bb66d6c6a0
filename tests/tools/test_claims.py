"""Claims are checked."""

from __future__ import annotations

import pytest
import torch
from IPython.utils.capture import capture_output

from nbcompile.tools.claims import CLAIM, Claim, ClaimFailed, claim


def test_a_claim_that_holds_is_shown():
    """A sentence with its figures, as text and as data."""
    assert str(Claim("it is one graph", (("graphs", "1"),))) == "it is one graph (graphs=1)"
    data, metadata = Claim("so it is", ())._repr_mimebundle_()
    assert data == {"text/plain": "✓ so it is"}
    assert metadata == {CLAIM: {"says": "so it is", "figures": {}}}


def test_a_claim_that_does_not_hold_raises():
    """The error says what was claimed, with the figures."""
    with pytest.raises(ClaimFailed, match=r"apart \(difference=0.5, stages=a, b\)"):
        claim("apart", torch.tensor(False), difference=torch.tensor(0.5), stages=["a", "b"])


def test_nothing_is_shown_of_a_false_claim():
    """A claim is displayed only if it holds."""
    with capture_output() as captured, pytest.raises(ClaimFailed):
        claim("no", 0)
    assert captured.outputs == []
    assert captured.stdout == ""
