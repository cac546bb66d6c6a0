"""Recipes and mutations as data."""

import dataclasses
import typing

import pytest

from nbcompile.capture import recipe
from nbcompile.capture.source import LocalSource

KINDS = typing.get_args(recipe.Recipe) + typing.get_args(recipe.Mutation)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_recipes_are_frozen(kind):
    """A recipe is immutable after tracing, so the residual program can share its parts."""
    assert dataclasses.is_dataclass(kind)
    assert kind.__dataclass_params__.frozen
    assert "__dict__" not in dir(kind)


def test_constants_are_distinguished_by_identity():
    """1 and True are equal in Python, but are different constants of the residual program."""
    assert recipe.Constant(1) != recipe.Constant(True)
    assert len({recipe.Constant(1), recipe.Constant(1)}) == 2


def test_equal_recipes_are_one_key():
    """Other recipes are compared by their parts."""
    first = recipe.Build("list", (recipe.FromSource(LocalSource("x")), recipe.GraphOutput(0)))
    assert first == recipe.Build("list", (recipe.FromSource(LocalSource("x")), recipe.GraphOutput(0)))
    assert first != recipe.Build("tuple", first.items)
