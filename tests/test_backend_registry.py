"""Backends by name, and what a user's backend is given."""

from __future__ import annotations

import pytest
import torch
from torch._guards import TracingContext

import nbcompile
from nbcompile import backend_registry, backends, errors


def test_an_unknown_name_is_refused():
    """With the exception that ``torch.compile`` raises for it."""
    with pytest.raises(errors.InvalidBackend, match="no_such_backend"):
        backend_registry.lookup("no_such_backend")


def test_a_user_backend_may_ask_for_the_context():
    """``TracingContext.get()`` has the fake mode of the graph's inputs, and is gone afterwards."""
    modes = []

    def backend(graph_module, example_inputs):
        modes.append(TracingContext.get().fake_mode)
        return graph_module.forward

    nbcompile.compile(lambda x: x + 1, backend=backend)(torch.ones(3))
    assert modes[0] is not None
    assert TracingContext.try_get() is None


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_user_backend_may_hand_its_graph_to_the_compiler(dynamic):
    """AOTAutograd chooses a fake mode that fits the inputs: not that of the user's context."""

    def backend(graph_module, example_inputs):
        return backends.inductor(graph_module, example_inputs)

    compiled = nbcompile.compile(lambda x, y: torch.cat([x, y]) * 2, backend=backend, dynamic=dynamic)
    for size in (3, 5):
        x, y = torch.randn(size), torch.randn(size + 1)
        assert torch.equal(compiled(x, y), torch.cat([x, y]) * 2)


def test_a_result_that_cannot_be_called_is_an_error():
    """The sentence names what was returned."""
    with pytest.raises(errors.BackendCompilerFailed, match="returned 7"):
        nbcompile.compile(lambda x: x + 1, backend=lambda *_: 7)(torch.ones(3))
