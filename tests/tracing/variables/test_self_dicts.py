"""Dicts that are their own ``__dict__``: each change is visible under both names, in one graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import nbcompile


class Settings(dict):  # type: ignore[type-arg]
    """A dict whose items are attributes, too."""

    def __init__(self, *, own: bool, **given: Any) -> None:
        super().__init__(given)
        if own:
            self.__dict__ = self
        else:
            vars(self).update(given)


def stores_attribute(s: Any, x: Any) -> Any:
    """A program that stores attributes and reads items."""
    s.a = 5
    s.b = 6
    return x + s["a"], s.get("b"), list(s), len(s)


def stores_item(s: Any, x: Any) -> Any:
    """A program that stores items and reads attributes."""
    s["a"] = 5
    s.update(c=7)
    return x + s.a, getattr(s, "c", None), hasattr(s, "d")


def deletes_attribute(s: Any, x: Any) -> Any:
    """A program that deletes an attribute and reads the dict."""
    del s.a
    return x + ("a" in s), len(s)


def pops_item(s: Any, x: Any) -> Any:
    """A program that removes an item and reads the attribute."""
    return x + s.pop("a"), hasattr(s, "a"), vars(s)


def reads(s: Any, x: Any) -> Any:
    """A program that only reads."""
    return x + s.a + s["a"], vars(s) is s


PROGRAMS = (stores_attribute, stores_item, deletes_attribute, pops_item, reads)


@pytest.mark.parametrize("calls", [(True, True, False), (False, True, False)])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_one_entry_under_two_names(program: Callable[..., Any], calls: tuple[bool, ...]) -> None:
    """Items and attributes are the same exactly if the dict is its own ``__dict__``, in each call."""

    def run(function: Callable[..., Any]) -> list[str]:
        found = []
        for own in calls:
            settings = Settings(own=own, a=1)
            found.append(str((function(settings, torch.ones(2)), dict(settings), dict(vars(settings)))))
        return found

    assert run(nbcompile.compile(program, backend="eager", fullgraph=True)) == run(program)
