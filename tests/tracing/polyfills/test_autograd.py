"""Python functions that replace the C++ of torch.autograd.Function."""

from __future__ import annotations

import torch

from nbcompile.tracing.polyfills.autograd import Context, accumulate_gradients, traced_forward


def test_gradients_are_added_in_memory_laid_out_as_the_leaf():
    """The first gradient creates the tensor with the leaf's strides; the second is added in place; None is ignored."""
    leaf = torch.ones(3, 2).t().requires_grad_()
    accumulate_gradients([leaf], (torch.ones(2, 3),))
    first = leaf.grad
    assert first.stride() == leaf.stride() == (1, 2)
    accumulate_gradients([leaf, leaf], (torch.ones(2, 3), None))
    assert leaf.grad is first and first.tolist() == [[2.0] * 3] * 2


def test_a_returned_input_becomes_a_view_unless_it_was_written_to():
    """The result is another tensor that is an alias of the input; a dirty input is the result itself."""
    x = torch.ones(2)
    viewed = traced_forward(lambda context, x: x, None, Context((False,)), x)
    assert viewed is not x and viewed.data_ptr() == x.data_ptr()

    def writes(context, x):
        context.mark_dirty(x)
        return x.add_(1)

    assert traced_forward(writes, None, Context((False,)), x) is x


def test_forward_runs_without_gradients_in_both_forms():
    """``forward`` takes a context as its first argument, or ``setup_context`` runs after it."""
    x, context = torch.ones(2, requires_grad=True), Context((True,))
    result = traced_forward(lambda x: (x * 2, 5), lambda c, given, out: c.save_for_backward(*given), context, x)
    assert result[1] == 5 and not result[0].requires_grad
    assert context.saved_tensors == (x,)
