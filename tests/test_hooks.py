"""Hooks by which ``fast/`` is plugged in."""

from __future__ import annotations

import dataclasses

from nbcompile import config, hooks
from nbcompile.fast.hook_table import HOOKS


def test_the_reference_path_has_the_defaults():
    """Though the hooks of ``fast/`` stay installed."""
    with config.patch(reference=True):
        assert hooks.active() is hooks.REFERENCE and hooks.installed() is HOOKS
    with config.patch(reference=False):
        assert hooks.active() is HOOKS


def test_fast_answers_every_hook():
    """A hook that only has its default would be dead code."""
    unanswered = [
        each.name for each in dataclasses.fields(hooks.Hooks)
        if getattr(HOOKS, each.name) is getattr(hooks.REFERENCE, each.name)
    ]  # fmt: skip
    assert unanswered == []


def test_the_defaults_call_what_they_are_given():
    """A graph is compiled at once, a tree is built as it is, and everything else does nothing."""
    assert hooks.build_now(lambda: "tree") == "tree"
    assert hooks.nothing(1, two=2) is None
