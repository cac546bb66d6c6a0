"""Failed guards as sentences."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nbcompile.record.model import FailedGuard, Record
from nbcompile.views import guard_failures
from tests.views import sample_records as sample


@pytest.mark.parametrize(
    ("reason", "said", "expected"),
    [
        ("tensor 'x' size mismatch at index 1. expected 3, actual 4", (), ("size of tensor 'x'", "3", "4", "1")),
        ("tensor 'x' stride mismatch at index 0. expected 3, actual 4", (), ("stride of tensor 'x'", "3", "4", "0")),
        (
            "tensor 'x' dtype mismatch. expected Float, actual Double",
            (),
            ("dtype of tensor 'x'", "Float", "Double", ""),
        ),
        (
            "tensor 'x' requires_grad mismatch. expected requires_grad=0",
            ("", "a tensor"),
            ("requires_grad of tensor 'x'", "False", "True", ""),
        ),
        ("L['k'] == 3", ("3", "4"), (..., "3", "4", "")),
        ("something else", (), (..., "", "", "")),
    ],
)
def test_a_reason_has_its_expected_and_actual_value(reason, said, expected):
    """A failed guard has its subject (or the whole reason), expected and actual value, and dimension."""
    no = guard_failures.guard_failure(Record("f"), FailedGuard("0/0", reason, "", (), *said))
    what = reason if expected[0] is ... else expected[0]
    assert (no.what, no.expected, no.actual, no.dimension) == (what, *expected[1:])


def test_a_failure_has_its_guard_and_line():
    """The guard's id gives the condition and the user's line."""
    record = sample.recompiled()
    failed = replace(record.frames[1].failed_guards[0], stack=())
    no = guard_failures.guard_failure(record, failed)
    assert no.condition.startswith("check_tensor(L['x']")
    assert no.stack[-1].line == 2
