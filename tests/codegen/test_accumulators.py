"""Accumulators of reductions."""

from __future__ import annotations

import re

import pytest
import torch

from nbcompile.codegen import cpp
from nbcompile.codegen.accumulators import REDUCTIONS, SCANS
from tests.support import schedules, targets

X = torch.randn(5, 64)


@pytest.mark.parametrize("kind", ["sum", "max", "min", "prod", "argmax", "argmin"])
def test_each_reduction_has_its_class_and_begins_with_its_identity(kind):
    """Each reduction has a class and an identity, with which all its accumulators begin."""
    source = cpp.emit(schedules.reduction(X, kind)).source
    count = int(re.search(r"_acc\[(\d+)\] = ", source)[1])
    assert source.count(f"{REDUCTIONS[kind]}::identity<") >= count > 1


def test_accumulators_are_combined_as_a_tree():
    """Accumulators are combined as a tree: its depth is log2(count), not count - 1."""
    source = cpp.emit(schedules.reduction(X, "sum")).source
    joined = next(line for line in source.split("\n") if "reduce_lanes<Sum" in line)
    assert "Sum::join(Sum::join(" in joined


def test_accumulators_give_what_eager_gives():
    """A reduction with fewer elements than lanes gives eager's result, too."""
    for length in (1, 3, 17, 64):
        x = torch.randn(5, length)
        (total,) = targets.run_cpp(schedules.reduction(x, "max"), [x])
        assert torch.equal(total, x.amax(1))


def test_scans_have_classes_of_their_own_where_ties_differ():
    """Among equal values argmax takes the first, and its scan the last: they have different classes."""
    assert {kind for kind in REDUCTIONS if SCANS[kind] != REDUCTIONS[kind]} == {"argmax", "argmin"}
    assert "logsumexp" in SCANS.keys() - REDUCTIONS.keys()
