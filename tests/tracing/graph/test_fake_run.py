"""Operators on fake tensors, and the meaning of their errors."""

from __future__ import annotations

import pytest
import torch

from nbcompile import errors
from nbcompile.capture.node_meta import EXAMPLE
from nbcompile.tracing import breaks
from tests.tracing.graph.growing import call, growing

FAILING = {
    "data": (lambda x: bool(x.sum() > 0), breaks.Unsupported),
    "type": (lambda x: torch.add(x, "text"), breaks.Unsupported),
    "not implemented": (lambda x: (_ for _ in ()).throw(NotImplementedError("later")), breaks.Unsupported),
    "value": (lambda x: (_ for _ in ()).throw(ValueError("the program's own")), errors.TorchRuntimeError),
    "other": (lambda x: {}["missing"], KeyError),
    "recursion": (lambda x: (_ for _ in ()).throw(RecursionError()), RecursionError),
}


@pytest.mark.parametrize("name", FAILING)
def test_errors_are_the_programs_or_a_break(name):
    """A TypeError, which a fake tensor may cause, breaks the graph; a ValueError is eager mode's error."""
    function, expected = FAILING[name]
    output, x = growing(torch.ones(3))
    with pytest.raises(expected):
        call(output, function, x)


OUT = {
    "another size": (lambda: torch.empty(5), breaks.OUT_SIZE),
    "strides": (lambda: torch.empty(3, 2).t(), breaks.OUT_STRIDES),
}


@pytest.mark.parametrize("name", OUT)
def test_an_out_that_the_call_would_resize_breaks_the_graph(name):
    """The graph breaks, because it cannot express a resize, or an ``out`` tensor with other strides."""
    out, kind = OUT[name]
    output, x, y = growing(torch.ones(2, 3), out())
    with pytest.raises(breaks.Unsupported) as caught:
        call(output, torch.sin, x, out=y)
    assert caught.value.kind is kind


def test_a_tensor_with_data_is_rejected():
    """The graph breaks, because later operators would read data that fake tensors do not have."""
    output, x = growing(torch.ones(3))
    real = torch.ones(3)
    with pytest.raises(breaks.Unsupported, match="no fake tensor"):
        call(output, lambda x: real, x)


def test_warnings_are_collected():
    """Warnings of operators are collected in one list, and the node is added."""
    output, x = growing(torch.ones(3))
    node = call(output, torch.div, x, 2)
    assert output.fake_run.warnings is output.warnings == []
    assert node.meta[EXAMPLE].shape == (3,)
