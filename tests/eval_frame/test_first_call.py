"""A call that no cache entry accepts."""

from dataclasses import replace

import pytest
import torch

import nbcompile
from nbcompile import config, hooks


@pytest.fixture
def installed(monkeypatch):
    """A function that replaces some of the hooks for one test."""
    return lambda **more: monkeypatch.setattr(hooks, "active", lambda: replace(hooks.REFERENCE, **more))


def test_a_loaded_frame_is_not_compiled(installed):
    """The call runs the result of ``load_frame``; the driver and ``before_compile`` are not called."""
    called = []

    def loaded(frame, options, key):
        called.append(frame.code.co_name)
        return nbcompile.dispatch.hook.SkipFrame("loaded")

    installed(load_frame=loaded, before_compile=lambda _: called.append("before_compile"))
    explained = nbcompile.explain(lambda x: x + 1, backend="eager")(torch.ones(2))
    assert called == ["<lambda>"]
    assert explained.graph_count == 0
    assert torch.equal(explained.result, torch.full((2,), 2.0))


def test_the_reference_path_compiles(installed, monkeypatch):
    """The frame is compiled, because there is no hook that could load code."""
    monkeypatch.setattr(config, "reference", True)
    explained = nbcompile.explain(lambda x: x + 1, backend="eager")(torch.ones(2))
    assert explained.graph_count == 1
