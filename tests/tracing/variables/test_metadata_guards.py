"""Metadata of wrapper tensors: compared by a method of the class or by ``==``, and errors of the comparison."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch.utils import _pytree as pytree

import nbcompile
from nbcompile import errors
from tests.support.graphs import Graphs


def wrapper_class(guard=None, metadata=lambda tensor: (tensor.tag,)):
    """A tensor class that wraps a tensor and has a tag; ``guard`` is its ``__metadata_guard__``."""

    class Tagged(torch.Tensor):
        @staticmethod
        def __new__(cls, inner, tag):
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)

        def __init__(self, inner, tag):
            self.inner, self.tag = inner, tag

        def __tensor_flatten__(self):
            return ["inner"], metadata(self)

        @staticmethod
        def __tensor_unflatten__(inner, context, size, stride):
            return Tagged(inner["inner"], context[0] if isinstance(context, tuple) else context)

        @classmethod
        def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
            tag = next(leaf.tag for leaf in pytree.tree_leaves(args) if isinstance(leaf, Tagged))
            plain = pytree.tree_map(lambda leaf: leaf.inner if isinstance(leaf, Tagged) else leaf, args)
            return Tagged(function(*plain, **(kwargs or {})), tag)

    if guard is not None:
        Tagged.__metadata_guard__ = guard
    return Tagged


def graphs_of(cls, tags):
    """The number of graphs after each call, with a tensor for each of the tags."""
    graphs, counts = Graphs(), []

    run = nbcompile.compile(lambda x: x * 2, backend=graphs)
    for tag in tags:
        result = run(cls(torch.ones(3), tag))
        assert type(result) is cls
        assert result.tag == tag or cls.__name__ != "Tagged"
        assert result.inner.tolist() == [2, 2, 2]
        counts.append(len(graphs))
    return counts


def test_metadata_is_compared_by_equality():
    """Another tag causes a recompile."""
    assert graphs_of(wrapper_class(), [1, 1, 2, 1]) == [1, 1, 2, 2]


def test_a_class_compares_its_metadata_itself():
    """The class treats tags of one parity as equal."""
    alike = classmethod(lambda cls, one, other: one[0] % 2 == other[0] % 2)
    cls = wrapper_class(alike)
    cls.__name__ = "OfOneParity"  # results have the tag of the first call
    assert graphs_of(cls, [1, 3, 2, 4]) == [1, 1, 2, 2]


@pytest.mark.parametrize(
    ("guard", "text"),
    [
        (classmethod(lambda cls, one, two, three: True), "must take exactly two subclass metadata arguments"),
        (lambda self, one: True, "must take exactly two subclass metadata arguments"),
        (lambda self, one, two: True, "must be a classmethod"),
        (staticmethod(lambda one, two: True), "must be a classmethod"),
        (3, "3 is not a callable object"),
    ],
    ids=["three arguments", "one argument", "a method", "a static method", "a number"],
)
def test_a_comparison_that_cannot_be_called_is_an_error(guard, text):
    """The error has torch's text, and its class is a RuntimeError, as torch's."""
    run = nbcompile.compile(lambda x: x * 2, backend="eager")
    with pytest.raises(errors.InvalidMetadataGuard, match=text) as met:
        run(wrapper_class(guard)(torch.ones(3), 1))
    assert isinstance(met.value, RuntimeError)


class NeverEqual:
    """An object that equals only itself, so that it never equals its copy."""


class NotCopied:
    def __deepcopy__(self, memo):
        raise TypeError("not copied")


def raising(cls, one, other):
    raise ValueError("compared")


@pytest.mark.parametrize(
    "cls",
    [
        wrapper_class(classmethod(lambda cls, one, other: False)),
        wrapper_class(classmethod(raising)),
        wrapper_class(metadata=lambda tensor: NeverEqual()),
        wrapper_class(metadata=lambda tensor: NotCopied()),
    ],
    ids=["never alike", "an exception", "unequal to its copy", "not copied"],
)
def test_metadata_that_no_guard_can_hold_for(cls):
    """A tensor with such metadata cannot be an input of a graph: operators run in eager mode; torch raises an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", errors.InternalErrorWarning)
        run = nbcompile.compile(lambda x: x * 2, backend="eager")
        for _ in range(2):
            assert run(cls(torch.ones(3), 1)).inner.tolist() == [2, 2, 2]
