"""Constants, numbers and tensors from outside."""

from __future__ import annotations

import enum
import math

import numpy as np
import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor

from nbcompile import config, errors
from nbcompile.capture.guard import GuardKind
from nbcompile.tracing import breaks
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.ndarray import NdarrayVariable
from nbcompile.tracing.variables.subclasses import SubclassVariable
from nbcompile.tracing.variables.tensor import TensorVariable
from nbcompile.tracing.variables.wrappers import WrapperVariable
from nbcompile.tracing.wrapping import data
from tests.tracing.frame.wrapped import wrapped


class Colour(enum.Enum):
    RED = 1


class Named(torch.Tensor):
    pass


class Compared(torch.Tensor):
    def __eq__(self, other):
        return True


@pytest.mark.parametrize(
    ("value", "kind"),
    [(None, GuardKind.NONE_MATCH), (True, GuardKind.BOOL_MATCH), (Colour.RED, GuardKind.ID_MATCH), (..., GuardKind.ID_MATCH),
     (math.nan, GuardKind.NAN_MATCH), (complex(0, math.nan), GuardKind.NAN_MATCH), (1.5, GuardKind.EQUALS_MATCH), ("a", GuardKind.EQUALS_MATCH)],
    ids=str,
)  # fmt: skip
def test_the_guard_of_a_constant(value, kind):
    """The guard depends on the kind: identity if ``==`` may be the user's, and a special guard for NaN."""
    assert data.constant_guard_kind(value) is kind
    tracker, guards = wrapped(value)
    assert isinstance(tracker, ConstantVariable)
    assert [found for found, _ in guards] == [kind]


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda: torch.ones(2), TensorVariable),
        (lambda: torch.ones(2).as_subclass(Named), SubclassVariable),
        (lambda: TwoTensor(torch.ones(2), torch.ones(2)), WrapperVariable),
        (lambda: torch.ones(2).as_subclass(Compared), data.UnsupportedTensorVariable),
        (lambda: np.ones(2), NdarrayVariable),
    ],
    ids=["plain", "subclass", "wrapper", "own operators", "array"],
)
def test_the_tracker_of_a_tensor(make, kind):
    """The tracker depends on the class: a class with its own operators cannot be an argument of a node."""
    tracker, guards = wrapped(make())
    assert type(tracker) is kind
    assert (GuardKind.TENSOR_MATCH in [found for found, _ in guards]) is (kind is not data.UnsupportedTensorVariable)
    if kind is data.UnsupportedTensorVariable:
        with pytest.raises(breaks.Unsupported):
            tracker.proxy()


def test_a_sparse_tensor_is_no_input():
    """The graph breaks, because of the layout."""
    with pytest.raises(breaks.Unsupported, match="sparse"):
        wrapped(torch.eye(2).to_sparse())


def test_an_array_is_passed_on_where_numpy_is_not_traced():
    """Only the class is guarded without ``trace_numpy``."""
    with config.patch(trace_numpy=False):
        tracker, guards = wrapped(np.ones(2))
    assert not isinstance(tracker, NdarrayVariable)
    assert guards == [(GuardKind.TYPE_MATCH, np.ndarray)]


def test_a_comparison_of_metadata_takes_two_arguments():
    """A ``__metadata_guard__`` with a wrong signature, or which is not a classmethod, is an error with a reason."""

    class Wrong:
        @classmethod
        def __metadata_guard__(cls, first):
            return True

    class Unbound:
        @staticmethod
        def __metadata_guard__(first, second):
            return True

    with pytest.raises(errors.InvalidMetadataGuard, match="exactly two"):
        data._check_metadata_guard(Wrong())
    with pytest.raises(errors.InvalidMetadataGuard, match="classmethod"):
        data._check_metadata_guard(Unbound())
