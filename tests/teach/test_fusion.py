"""Manual fusion: which kernels are legal, and how many bytes they move."""

from __future__ import annotations

import pytest

from nbcompile.record.model import Node
from nbcompile.teach import fusion
from nbcompile.teach.attempt import Rejection
from nbcompile.teach.fusion import Operators, count_bytes, expect_legal, least_bytes


def node(name: str, target: str, shape: tuple[str, ...], *inputs: str) -> Node:
    return Node(name, name, "call_function", target, "", inputs, shape=shape, dtype="float32")


def softmax() -> Operators:
    """``e = exp(x - amax(x)); e / sum(e)`` of 4 x 8 numbers."""
    x = Node("x", "x", "placeholder", "x", "", shape=("4", "8"), dtype="float32")
    nodes = [
        node("amax", "torch.amax", ("4", "1"), "x"), node("sub", "operator.sub", ("4", "8"), "x", "amax"),
        node("exp", "torch.exp", ("4", "8"), "sub"), node("sum_1", "torch.sum", ("4", "1"), "exp"),
        node("div", "operator.truediv", ("4", "8"), "exp", "sum_1"),
    ]  # fmt: skip
    return Operators(
        {each.id: each for each in (x, *nodes)}, {each.name: each.id for each in nodes}, frozenset({"div"})
    )


BEST = [["amax"], ["sub", "exp", "sum_1"], ["div"]]


def test_bytes_are_read_once_and_written_for_others():
    """A value is stored only for another kernel or as a result, and loaded once per kernel."""
    rows, matrix = 4 * 4, 4 * 8 * 4
    assert count_bytes(softmax(), BEST) == (matrix + rows) + (matrix + rows + matrix + rows) + (matrix + rows + matrix)
    alone = count_bytes(softmax(), [["amax"], ["sub"], ["exp"], ["sum_1"], ["div"]])
    assert alone - count_bytes(softmax(), BEST) == 3 * matrix, "sub is neither stored nor loaded, exp not loaded again"
    assert least_bytes(softmax()) == count_bytes(softmax(), BEST)


@pytest.mark.parametrize(
    ("kernels", "says"),
    [
        ([["amax", "sub"], ["exp"], ["sum_1"], ["div"]], "`sub` needs a reduction of its own kernel"),
        ([["amax"], ["sub", "exp", "div"], ["sum_1"]], "need each other: there is a cycle"),
        ([["sum_1", "div"], ["amax"], ["sub"], ["exp"]], "`div` needs a reduction of its own kernel"),
    ],
)
def test_kernels_that_cannot_be(kernels, says):
    """A kernel may not read its own reduction, and kernels may not have a cycle."""
    with pytest.raises(Rejection, match=says):
        expect_legal(softmax(), kernels)
    expect_legal(softmax(), BEST)


def test_a_library_call_and_another_size_share_no_kernel():
    """Iteration spaces must have equal sizes; that of a reduction is its input's."""
    left = Node("x", "x", "placeholder", "x", "", shape=("4", "8"), dtype="float32")
    nodes = [node("mm", "torch.matmul", ("4", "4"), "x"), node("neg", "torch.neg", ("4", "4"), "mm"),
             node("sum_1", "torch.sum", (), "x"), node("exp", "torch.exp", ("4", "8"), "x")]  # fmt: skip
    given = Operators({each.id: each for each in (left, *nodes)}, {each.name: each.id for each in nodes}, frozenset())
    with pytest.raises(Rejection, match="executed by a library"):
        expect_legal(given, [["mm", "neg"]])
    with pytest.raises(Rejection, match=r"two iteration spaces, \(4, 4\) and \(4, 8\)"):
        expect_legal(given, [["neg", "exp"]])
    expect_legal(given, [["sum_1", "exp"]])


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("amax", "expected a list of kernels"), (["amax"], "expected a list of kernels"), ([[1]], "a list of kernels"),
        (None, "a list of kernels"), ([["amax", "zz"]], "there is no operator `zz`"), ([["amax"], ["amax"]], "in two kernels"),
        ([], "`amax` is in no kernel"), ([["amax", "amax"]], "in two kernels"),
    ],
)  # fmt: skip
def test_an_answer_that_is_no_partition(answer, says):
    """Each operator must be in exactly one kernel; empty kernels are dropped."""
    with pytest.raises(Rejection, match=says):
        fusion._expect_partition(softmax(), answer)
    assert fusion._expect_partition(softmax(), (*map(tuple, BEST), ())) == BEST
