"""Claims are checked, and shown if they hold."""

from __future__ import annotations

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from nbcompile.tools.claims import CLAIM, Claim, ClaimFailed, claim


def test_a_claim_that_holds_is_shown():
    """A claim that holds is a sentence with its figures, as text and as data."""
    assert str(Claim("it is one graph", (("graphs", "1"),))) == "it is one graph (graphs=1)"
    data, metadata = Claim("so it is", ())._repr_mimebundle_()
    assert data == {"text/plain": "✓ so it is"}
    assert metadata == {CLAIM: {"says": "so it is", "figures": {}}}


def test_a_claim_that_does_not_hold_raises():
    """The error has the claim and its figures."""
    with pytest.raises(ClaimFailed, match=r"apart \(difference=0.5, stages=a, b\)"):
        claim("apart", torch.tensor(False), difference=torch.tensor(0.5), stages=["a", "b"])


def test_nothing_is_shown_of_a_false_claim():
    """A false claim is not shown."""
    with capture_output() as captured, pytest.raises(ClaimFailed):
        claim("no", 0)
    assert captured.outputs == []
    assert captured.stdout == ""


def whole(number):
    return [number]


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("len(found) == 1", "`len(found) == 1` does not hold: left = 2, right = 1"),
        ("(len(found), 3) == (1, 3)", "left = (2, 3), right = (1, 3)"),
        ("found and len(found) > 7", "`len(found) > 7` does not hold: left = 2, right = 7"),
        ("found is None or not found", "left = ['a', 'b'], right = None, found = ['a', 'b']"),
        ("not any('a' in name for name in found)", "found = ['a', 'b']"),
        ("all(name in 'bc' for name in found)", "found = ['a', 'b']"),
        ("1 < len(found) < 2", "1 = 1, len(found) = 2, 2 = 2"),
        ("'c' in found", "left = 'c', right = ['a', 'b']"),
        ("found[0].startswith('b')", "found[0] = 'a', 'b' = 'b'"),
        ("torch.equal(x, x + 1)", "x = tensor([1., 1.]), x + 1 = tensor([2., 2.])"),
        ("None", "`None` does not hold: None = None"),
        ("len(whole(found).pop()) == 3", "left = 2, right = 3"),
    ],
)
def test_both_values_of_a_false_claim_are_said(condition, said):
    """Without figures, too, the condition's values are computed again."""
    shell = InteractiveShell()
    shell.run_cell(
        "import torch\nfrom nbcompile.tools.claims import claim\nfrom tests.tools.test_claims import whole\n"
        "found, x = ['a', 'b'], torch.ones(2)"
    )
    with capture_output():
        result = shell.run_cell(f"value = 1\nclaim(\n    'so it is',\n    {condition},\n)")
    assert isinstance(result.error_in_exec, ClaimFailed)
    assert str(result.error_in_exec).startswith("so it is: `") and said in str(result.error_in_exec)


def test_values_that_cannot_be_computed_again_are_left_out():
    """A value that cannot be computed again is omitted from the error."""
    left = [1]
    with pytest.raises(ClaimFailed, match=r"^the last one: `left\.pop\(\) == 2` does not hold: right = 2$"):
        claim("the last one", left.pop() == 2)
    with pytest.raises(ClaimFailed, match=r"^no source$"):
        exec("claim('no source', 1 == 2)", {"claim": claim})
