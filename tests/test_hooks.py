"""Hooks through which ``fast/`` is installed."""

from __future__ import annotations

import dataclasses

from nbcompile import config, hooks
from nbcompile.fast.hook_table import HOOKS


def test_the_reference_path_has_the_defaults():
    """On the reference path the defaults are active, though the hooks of ``fast/`` are installed."""
    with config.patch(reference=True):
        assert hooks.active() is hooks.REFERENCE and hooks.installed() is HOOKS
    with config.patch(reference=False):
        assert hooks.active() is HOOKS


def test_fast_answers_every_hook():
    """``fast/`` sets each hook: otherwise the hook would be dead code."""
    unanswered = [
        each.name for each in dataclasses.fields(hooks.Hooks)
        if getattr(HOOKS, each.name) is getattr(hooks.REFERENCE, each.name)
    ]  # fmt: skip
    assert unanswered == []


def test_the_defaults_call_what_they_are_given():
    """By default a graph is compiled at once, a tree is built at once, and other hooks do nothing."""
    assert hooks.build_now(lambda: "tree") == "tree"
    assert hooks.nothing(1, two=2) is None
