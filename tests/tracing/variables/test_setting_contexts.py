"""Context managers of settings: their values inside a block and after it."""

from __future__ import annotations

import pytest
import torch

import nbcompile
from nbcompile import annotations, config, errors
from nbcompile.tracing.variables.setting_contexts import Settings, SettingVariable

graph_break = torch._dynamo.graph_break


def test_a_residual_program_changes_settings_of_both():
    """``Settings`` changes nbcompile's settings, enters torch's patch, and restores both in reverse order."""
    seen = []

    class Patch:
        changes = {"capture_scalar_outputs": not config.capture_scalar_outputs, "a_setting_of_torch_alone": 1}

        def __enter__(self):
            seen.append(("entered", config.capture_scalar_outputs))

        def __exit__(self, *error):
            seen.append(("left", config.capture_scalar_outputs))

    before = config.capture_scalar_outputs
    with Settings(Patch()):
        assert config.capture_scalar_outputs is not before
    assert seen == [("entered", before), ("left", before)]
    assert config.capture_scalar_outputs is before


def test_settings_may_be_entered_twice():
    """Each exit restores the value before its entry."""
    patch = Settings(annotations.patch_dynamo_config(capture_scalar_outputs=not config.capture_scalar_outputs))
    before = config.capture_scalar_outputs
    with patch:
        with patch:
            assert config.capture_scalar_outputs is not before
        assert config.capture_scalar_outputs is not before
    assert config.capture_scalar_outputs is before


def test_a_break_is_an_error_inside_of_the_block_alone():
    """``error_on_graph_break`` raises an error for a break in its block; a break after the block is allowed."""

    def function(x, inside):
        with nbcompile.error_on_graph_break():
            y = x * 2
            if inside:
                graph_break()
        graph_break()
        return y + 1

    compiled = nbcompile.compile(function, backend="eager")
    assert torch.equal(compiled(torch.ones(2), False), torch.full((2,), 3.0))
    with pytest.raises(errors.Unsupported):
        compiled(torch.ones(2), True)


def test_a_tracker_of_settings_is_described_by_its_class():
    """The class of the manager is the tracker's Python type, and gives its description."""
    tracker = SettingVariable(annotations.error_on_graph_break(True))
    assert tracker.python_type() is annotations.error_on_graph_break
    assert tracker.describe() == "error_on_graph_break()"
