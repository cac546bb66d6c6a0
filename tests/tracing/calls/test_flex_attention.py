"""Attention with functions that change its scores: their bodies on scalar tensors, and their closures."""

from __future__ import annotations

import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from tests.support.graphs import captured

pytestmark = pytest.mark.usefixtures("nothing_compiled")
OPERATOR = torch.ops.higher_order.flex_attention


def heads():
    """The query, the key and the value."""
    torch.manual_seed(0)
    return [torch.randn(1, 2, 16, 8) for _ in range(3)]


def attention(q, k, v, scores=lambda s: s, kept=None):
    """The result of the operator, computed with matrix products: torch compiles the operator itself in eager mode."""
    found = scores(q @ k.transpose(-1, -2) / 8**0.5)
    return (found if kept is None else found.masked_fill(~kept, -torch.inf)).softmax(-1) @ v


def node_of(module):
    (node,) = module.graph.find_nodes(op="call_function", target=OPERATOR)
    return node


def inputs(body):
    return [(node.meta["example_value"].dtype, node.meta["example_value"].dim()) for node in placeholders(body)]


def placeholders(body):
    return body.graph.find_nodes(op="placeholder")


def test_functions_are_graphs_of_numbers_in_tensors():
    """The score's body takes the score and four indices, and the mask's body four indices, all as scalar tensors."""

    def f(q, k, v):
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + (i - j))

    i, j = torch.arange(16)[:, None], torch.arange(16)
    module = captured(f, *heads(), expected=attention(*heads(), lambda s: s + (i - j)))
    place = (torch.int32, 0)
    assert inputs(module.score_mod_0) == [(torch.float32, 0), *[place] * 4]
    assert inputs(module.mask_fn_0) == [place] * 4
    (output,) = module.score_mod_0.graph.find_nodes(op="output")
    assert isinstance(output.args[0], torch.fx.Node), "a body returns the number itself"


def test_a_tensor_that_a_function_closes_over_is_an_argument():
    """Captured tensors of the score function, then those of the mask, are the last two arguments of the operator."""

    kept, bias = torch.arange(16) < 9, torch.tensor([0.5, -0.5])
    mask = create_block_mask(lambda b, h, i, j: kept[j], 1, 1, 16, 16, device="cpu")

    def f(q, k, v, bias):
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s * bias[h], block_mask=mask)

    expected = attention(*heads(), lambda s: s * bias[:, None, None], kept)
    of_score, of_mask = node_of(captured(f, *heads(), bias, expected=expected)).args[-2:]
    assert [node.name for node in of_score] == ["l_bias_"]
    assert len(of_mask) == 1 and of_mask[0].meta["example_value"].dtype == torch.bool


def test_a_number_in_a_tensor_is_an_index_and_no_question():
    """``bias[h]`` is an operator in the body: nothing reads the number, and the graph does not break."""

    def f(q, k, v, bias):
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + bias[h, i - j])

    bias, (i, j) = torch.linspace(-1, 1, 62).reshape(2, 31), (torch.arange(16)[:, None], torch.arange(16))
    module = captured(f, *heads(), bias, expected=attention(*heads(), lambda s: s + bias[:, i - j]))
    called = [node for node in module.score_mod_0.graph.nodes if node.op == "call_function"]
    assert len(called) == 3  # the difference, the lookup, the sum


def test_scale_and_options_are_constants_of_the_node():
    """The node has the user's scale as a constant."""

    def f(q, k, v):
        return flex_attention(q, k, v, scale=0.25)

    node = node_of(
        captured(
            f,
            *heads(),
            expected=attention(*(part * factor for part, factor in zip(heads(), (0.25 * 8**0.5, 1, 1), strict=True))),
        )
    )
    assert node.args[5] == 0.25 and isinstance(node.args[6], dict)
