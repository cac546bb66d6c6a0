"""The trackers of existing context managers, by class."""

from __future__ import annotations

import contextlib

import pytest
import torch

from nbcompile import annotations
from nbcompile.tracing.variables import context_table, mode_contexts
from nbcompile.tracing.variables.contexts import NullContextVariable
from nbcompile.tracing.variables.setting_contexts import Settings, SettingVariable

KNOWN = [
    (torch.no_grad(), mode_contexts.StateVariable),
    (torch.enable_grad(), mode_contexts.StateVariable),
    (torch.inference_mode(), mode_contexts.InferenceModeVariable),
    (torch.autocast("cpu"), mode_contexts.AutocastVariable),
    (contextlib.nullcontext(3), NullContextVariable),
    (annotations.error_on_graph_break(True), SettingVariable),
    (Settings(annotations.patch_dynamo_config(capture_scalar_outputs=True)), SettingVariable),
]


@pytest.mark.parametrize(("manager", "kind"), KNOWN, ids=lambda value: getattr(value, "__name__", ""))
def test_an_existing_manager_has_a_tracker_of_its_class(manager, kind):
    """Each known class of context managers has a tracker with that Python type."""
    tracker = context_table.from_object(manager, None)
    assert type(tracker) is kind
    if kind is not SettingVariable:
        assert tracker.python_type() is type(manager)


def test_a_mode_that_was_set_when_its_manager_was_made():
    """The tracker of ``set_grad_enabled`` has the mode that the manager sets and the previous mode."""
    before = torch._C.is_grad_enabled()
    manager = object.__new__(torch.set_grad_enabled)
    manager.mode, manager.prev = not before, before
    tracker = context_table.from_object(manager, None)
    assert isinstance(tracker, mode_contexts.EagerGradModeVariable)
    assert (tracker.mode, tracker.before) == (not before, before)


def test_other_objects_have_no_tracker_of_a_manager():
    """An object that is not a context manager, or one of another class, has no tracker here."""
    assert context_table.from_object(3, None) is None
    assert context_table.from_object(contextlib.suppress(ValueError), None) is None


def test_the_message_of_a_setter_is_its_own():
    """``_set_grad_enabled(3)`` raises an error with torch's text, which names the type."""
    assert "int" in context_table._error_text(torch._C._set_grad_enabled, 3)


def test_a_class_that_is_made_in_traced_code():
    """A profiler has a tracker whatever its arguments are; an unknown class is left to other handlers."""
    assert context_table.from_call(contextlib.suppress, None, [], {}) is None
    profiler = context_table.from_call(torch.profiler.record_function, None, [], {})
    assert profiler.python_type() is torch.profiler.record_function
