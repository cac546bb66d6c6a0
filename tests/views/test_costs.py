"""Bytes that eager mode moves at a line."""

from __future__ import annotations

import pytest

from nbcompile.record.model import CompiledFrame, Graph, Node, Symbol
from nbcompile.views import costs


def node(name, target, shape, dtype="torch.float32", inputs=()):
    return Node(f"0/0.{name}", name, "call_function", target, "", inputs=inputs, shape=shape, dtype=dtype)


def frame(*nodes, symbols=()):
    graph = Graph("0/0.captured", "captured", nodes, "")
    return CompiledFrame("0/0", "f", "f.py", 1, "", "compiled", "first call", graph=graph, symbols=symbols)


X = node("x", "", ("4", "8"))


def test_an_operator_reads_its_inputs_and_writes_its_result():
    """Each operator reads its inputs and writes its result, as in eager mode."""
    one = node("a", "torch.sin", ("4", "8"), inputs=(X.id,))
    two = node("b", "torch.cos", ("4", "8"), inputs=(X.id,))
    assert costs.of_line(frame(X, one), (one.id,)) == 2 * 4 * 8 * 4
    assert costs.of_line(frame(X, one, two), (one.id, two.id)) == 4 * 4 * 8 * 4


def test_views_move_nothing():
    """A view moves no bytes."""
    view = node("v", "torch.Tensor.permute", ("8", "4"), inputs=(X.id,))
    assert costs.of_line(frame(X, view), (view.id,)) == 0


def test_symbols_have_the_values_of_the_call():
    """A line with an unbacked size has no total, because a partial sum would be too small."""
    known = node("k", "torch.sin", ("2*s0", "4"))
    assert (
        costs.of_line(
            frame(known, symbols=(Symbol("s0", ("L['x'].size()[0]",), "3", "[2, int_oo]", "automatic dynamic"),)),
            (known.id,),
        )
        == 6 * 4 * 4
    )
    unknown = node("u", "torch.nonzero", ("u0", "1"))
    assert (
        costs.of_line(
            frame(
                known, unknown, symbols=(Symbol("s0", ("L['x'].size()[0]",), "3", "[2, int_oo]", "automatic dynamic"),)
            ),
            (known.id, unknown.id),
        )
        == 0
    )


@pytest.mark.parametrize(("dtype", "size"), [
    ("torch.float64", 8), ("torch.bfloat16", 2), ("torch.bool", 1), ("torch.float8_e4m3fn", 1), ("torch.complex64", 8),
])  # fmt: skip
def test_the_size_of_a_type_is_in_its_name(dtype, size):
    """The names of torch's dtypes contain their bits; bool has a byte."""
    assert costs._item_size(dtype) == size


@pytest.mark.parametrize(("moved", "text"), [(0, "0 B"), (9_999, "9999 B"), (16_384, "16 kB"), (5 * 10**13, "50 TB")])
def test_bytes_in_words(moved, text):
    """A byte count has at most four digits."""
    assert costs.words(moved) == text
