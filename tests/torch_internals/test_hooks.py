"""State of a thread that torch keeps in C: the frame hook, function modes, transforms."""

from __future__ import annotations

import pytest
import torch
from torch.overrides import TorchFunctionMode

from nbcompile.torch_internals import hooks


class Mode(TorchFunctionMode):
    pass


def test_function_modes_are_listed_from_the_outermost():
    """Inside of ``without_function_modes`` there is none; afterwards they are there again, in their order."""
    outer, inner = Mode(), Mode()
    with outer, inner:
        assert hooks.function_modes()[-2:] == [outer, inner]
        before = hooks.function_modes()
        with hooks.without_function_modes():
            assert hooks.function_modes() == []
        assert hooks.function_modes() == before
    assert hooks.function_mode_at(len(hooks.function_modes())) is None


def test_transforms_are_listed_with_their_levels():
    """Inside of ``vmap`` a tensor is a batch, whose whole is found; outside there is no level."""
    seen = []

    def function(x):
        seen.append(
            (hooks.in_transform(), hooks.transform_levels(), hooks.is_batched(x), hooks.without_levels(x).shape)
        )
        return x

    torch.vmap(function)(torch.ones(3, 2))
    assert seen == [(True, (("Vmap", 1),), True, torch.Size([3, 2]))]
    assert not hooks.in_transform()


def test_only_functionalize_is_inside_of_functionalize():
    """With ``vmap`` around it, there are two."""
    seen = []

    def function(x):
        seen.append(hooks.only_functionalized())
        return x + 1

    torch.func.functionalize(function)(torch.ones(2))
    torch.vmap(torch.func.functionalize(function))(torch.ones(2, 2))
    assert seen == [True, False]


def test_levels_that_were_entered_are_left():
    """The state of transforms is restored: its depth, and whether a leaf may require gradients inside."""
    before = hooks.transform_state()
    torch._C._functorch._vmap_increment_nesting(2, "error")
    torch._C._functorch.set_inplace_requires_grad_allowed(not before[1])
    assert hooks.in_transform()
    hooks.restore_transforms(before)
    assert hooks.transform_state() == before


def test_hooks_on_saved_tensors_are_seen():
    """Inside of ``saved_tensors_hooks`` alone; an error is known where they are disabled."""
    assert not hooks.saved_tensors_are_hooked()
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
        assert hooks.saved_tensors_are_hooked()
    disabled_hooks_error = hooks.TRANSFORM_QUESTIONS[0]
    assert disabled_hooks_error() is None
    with torch.autograd.graph.disable_saved_tensors_hooks("not here"):
        assert disabled_hooks_error() == "not here"


@pytest.mark.parametrize(
    ("tensor", "overlaps", "form"),
    [
        (torch.ones(1, 2, 3, 4), False, torch.contiguous_format),
        (torch.ones(1, 2, 3, 4).to(memory_format=torch.channels_last), False, torch.channels_last),
        (torch.ones(1).expand(3), True, torch.contiguous_format),
    ],
    ids=["contiguous", "channels last", "expanded"],
)
def test_the_memory_of_a_tensor(tensor, overlaps, form):
    """An expanded tensor overlaps itself; the format is that of its strides."""
    assert hooks.overlaps_itself(tensor) is overlaps
    assert hooks.memory_format(tensor) is form


def test_levels_of_forward_mode_in_a_graph_are_counted():
    """Entered and not left counts up, left and not entered down."""
    graph = torch.fx.Graph()
    graph.call_function(torch._C._enter_dual_level)
    assert hooks.entered_forward_levels(graph) == 1
    for _ in range(2):
        graph.call_function(torch._C._exit_dual_level)
    assert hooks.entered_forward_levels(graph) == -1


def test_the_allowed_attention_is_restored():
    """Only the implementations that were allowed are again."""
    before = hooks.attention_backends()
    with torch.nn.attention.sdpa_kernel([torch.nn.attention.SDPBackend.MATH]):
        changed = hooks.attention_backends()
    hooks.set_attention_backends(changed)
    assert hooks.attention_backends() == changed
    hooks.set_attention_backends(before)
    assert hooks.attention_backends() == before


def test_the_keys_of_a_thread_follow_its_modes():
    """Inference mode takes keys away from every tensor."""
    before = hooks.thread_keys()
    with torch.inference_mode():
        assert hooks.thread_keys() != before
    assert hooks.thread_keys() == before


def test_hooks_on_saved_tensors_are_not_called_inside():
    """Inside of ``without_hooks_on_saved_tensors`` they are there, but nothing that autograd saves is for them."""
    x = torch.ones(2, requires_grad=True)
    seen = []
    with torch.autograd.graph.saved_tensors_hooks(lambda y: seen.append(y) or y, lambda y: y):
        with hooks.without_hooks_on_saved_tensors():
            x.sin()
            assert hooks.saved_tensors_are_hooked()
        assert not seen
        x.sin()
    assert len(seen) == 1
