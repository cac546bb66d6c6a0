"""The runtime wrapper around programs that are written by hand: what autograd and the caller see."""

from __future__ import annotations

import types

import pytest
import torch

from nbcompile import torch_internals
from nbcompile.aot import runtime_wrapper
from nbcompile.aot.runtime_metadata import AliasedOutput, RuntimeMetadata, TangentLayout, TrainingMetadata
from nbcompile.aot.runtime_wrapper import mark_dynamic_outputs, unboxed, wrap_inference, wrap_training

NOTHING = slice(1, 1)
ANY_LAYOUT = TangentLayout(None, None, None)


def training(**other):
    """Metadata of a graph with one output, followed by the saved tensors."""
    given = {
        "detached_inputs": (), "view_outputs": (), "non_differentiable_outputs": (), "saved_checked": slice(1, None),
        "saved_unchecked": NOTHING, "saved_numbers": NOTHING, "forward_returns": 1, "differentiable_outputs": (0,),
        "tangent_layouts": (ANY_LAYOUT,), "deterministic": None, **other,
    }  # fmt: skip
    return TrainingMetadata(**given)


def product(**other):
    """``x * y`` as a forward and a backward program with a wrapper, and a list of the backward program's arguments."""
    given = []

    def forward(arguments):
        x, y = arguments
        return [x.detach() * y.detach(), x, y]

    def backward(arguments):
        given.append(list(arguments))
        x, y, gradient = arguments
        return [gradient * y, gradient * x]

    outer = {name: other.pop(name) for name in ("mutated_inputs", "dynamic_dims") if name in other}
    metadata = RuntimeMetadata(**{"dynamic_dims": (None,), **outer}, training=training(**other))
    return wrap_training(forward, backward, metadata), given


def leaves():
    return [torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([3.0, 5.0], requires_grad=True)]


def test_programs_get_their_arguments_one_by_one_or_in_a_list():
    """Generated code has two entry points: one takes separate arguments, the other takes a list."""
    assert unboxed(lambda given: given)(1, 2) == [1, 2]

    def generated(given):
        raise AssertionError("the list is not made")

    generated.positional = lambda *given: given
    assert unboxed(generated)(1, 2) == (1, 2)


def test_the_backward_program_gives_the_gradients():
    """The backward program gets the saved tensors, then the tangents, and returns the gradients."""
    compiled, given = product()
    x, y = leaves()
    (result,) = compiled(x, y)
    result.backward(torch.tensor([1.0, 10.0]))
    assert (x.grad.tolist(), y.grad.tolist()) == ([3.0, 50.0], [1.0, 20.0])
    assert [value.tolist() for value in given[0]] == [[1, 2], [3, 5], [1, 10]]


def test_a_saved_tensor_that_was_overwritten_is_an_error():
    """A saved tensor that was overwritten is an error, as in eager mode: versions are compared."""
    for slices, fails in (({}, True), ({"saved_checked": NOTHING, "saved_unchecked": slice(1, None)}, False)):
        compiled, _ = product(**slices)
        x, y = leaves()
        (result,) = compiled(x, y)
        with torch.no_grad():
            y.mul_(2)
        if fails:
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                result.sum().backward()
        else:
            result.sum().backward()
            assert x.grad.tolist() == [6.0, 10.0]


def test_numbers_come_before_tensors():
    """Symbolic sizes are the first inputs of the backward program."""
    given = []

    def backward(arguments):
        given.append(arguments)
        return [arguments[-1]]

    metadata = RuntimeMetadata((None,), training=training(saved_checked=slice(1, 2), saved_numbers=slice(2, 4)))
    (result,) = wrap_training(lambda inputs: [inputs[0].detach() * 2, inputs[0], 7, 8], backward, metadata)(leaves()[0])
    result.sum().backward()
    assert given[0][:2] == [7, 8] and given[0][2].tolist() == [1.0, 2.0]


def test_gradients_have_the_layout_that_was_compiled_for():
    """A tangent with other strides is copied to the compiled layout; a negative bit is resolved; no other copies."""
    layout = TangentLayout((2, 3), (3, 1), None)
    known = torch.ones(2, 3)
    assert runtime_wrapper._with_layout(known, layout) is known
    turned = torch.arange(6.0).reshape(3, 2).t()
    found = runtime_wrapper._with_layout(turned, layout)
    assert found.stride() == (3, 1) and torch.equal(found, turned)
    negative = torch.complex(torch.zeros(2, 3), torch.ones(2, 3)).conj().imag
    assert negative.is_neg()
    found = runtime_wrapper._with_layout(negative, layout)
    assert not found.is_neg() and found.tolist() == [[-1.0] * 3] * 2
    images = runtime_wrapper._with_layout(torch.ones(1, 2, 3, 3), TangentLayout(None, None, torch.channels_last))
    assert images.is_contiguous(memory_format=torch.channels_last)
    assert runtime_wrapper._with_layout(None, layout) is None


def test_a_second_derivative_is_rejected():
    """The gradients of ``create_graph=True`` are right; a second derivative is an error, and not zero."""
    compiled, _ = product()
    x, y = leaves()
    (found,) = torch.autograd.grad(compiled(x, y)[0].sum(), x, create_graph=True)
    assert found.tolist() == [3.0, 5.0]
    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        found.sum().backward()


def test_a_history_that_gets_no_gradient_is_left_alone():
    """An input for which the backward program returns None is detached: autograd does not visit its history."""
    visited = []
    x = torch.ones(2, requires_grad=True)
    history = x * 1
    history.register_hook(visited.append)
    for detached, expected in (((), 1), ((0,), 0)):
        metadata = RuntimeMetadata((None,), training=training(detached_inputs=detached, saved_checked=NOTHING))
        compiled = wrap_training(lambda given: [given[1].detach() * 2], lambda given: [given[0], given[0]], metadata)
        visited.clear()
        compiled(history, torch.ones(2, requires_grad=True))[0].sum().backward(retain_graph=True)
        assert len(visited) == expected


def test_outputs_that_do_not_differentiate_say_so():
    """Outputs that are not differentiable do not require grad, and the backward program gets no tangent for them."""

    def forward(given):
        return [given[0].detach() * 2, given[0].detach() > 1]

    metadata = RuntimeMetadata(
        (None, None), training=training(non_differentiable_outputs=(1,), forward_returns=2, saved_checked=slice(2, 2))
    )
    total, flags = wrap_training(forward, lambda given: [given[0] * 2], metadata)(leaves()[0])
    assert total.requires_grad and not flags.requires_grad


def test_a_graph_that_learns_in_no_grad_mode_switches_it_on():
    """A graph that is compiled in no_grad mode and enables gradients inside computes with gradients."""
    with torch.no_grad():
        compiled, _ = product()
        (result,) = compiled(*leaves())
    assert result.requires_grad


def test_a_write_is_seen_by_autograd():
    """A kernel writes through a pointer, so the wrapper bumps the version of each mutated input, with grad or not."""
    x, y = torch.ones(2), torch.ones(2)
    compiled = wrap_inference(lambda given: [given[1].data.add_(1)], RuntimeMetadata((None,), mutated_inputs=(1,)))
    before = (x._version, y._version)
    compiled(x, y)
    assert (x._version, y._version) == (before[0], before[1] + 1)
    compiled, _ = product(mutated_inputs=(1,))
    x, y = leaves()
    compiled(x, y)
    assert (x._version, y._version) == (0, 1)


@pytest.mark.parametrize("mode", [True, False])
def test_inference_is_not_recorded_and_leaves_the_mode(mode):
    """An inference graph runs without gradients; afterwards the grad mode is the caller's, after an exception, too."""
    modes = []

    def program(given):
        modes.append(torch.is_grad_enabled())
        if given[0] is None:
            raise ValueError("from a kernel")
        return [given[0] * 2]

    compiled = wrap_inference(program, RuntimeMetadata((None,)))
    with torch.set_grad_enabled(mode):
        (result,) = compiled(torch.ones(1, requires_grad=True))
        with pytest.raises(ValueError, match="from a kernel"):
            compiled(None)
        assert torch.is_grad_enabled() is mode
    assert modes == [False, False] and not result.requires_grad


def test_outputs_that_are_inputs_are_the_callers_own_objects():
    """An output that aliases an input is a view of the caller's tensor, and detached if it requires no grad."""
    aliases = (AliasedOutput(0, 0, True, True), AliasedOutput(1, 0, False, True), AliasedOutput(2, 0, False, False))

    def program(given):
        plain = given[0].detach()
        return [plain, plain[1:], plain[:1]]

    x, _ = leaves()
    same, view, apart = wrap_inference(program, RuntimeMetadata((None,) * 3, aliased_outputs=aliases))(x)
    assert same is x
    assert view._base is x and view.requires_grad and view.tolist() == [2.0]
    assert apart.data_ptr() == x.data_ptr() and not apart.requires_grad


def test_a_program_of_views_replaces_what_the_other_returned():
    """A program of views computes the outputs that alias an input from the caller's arguments."""
    aliases = (AliasedOutput(1, 0, False, False),)
    metadata = RuntimeMetadata((None, None), aliased_outputs=aliases)
    x = torch.arange(4.0)
    total, view = wrap_inference(lambda given: [given[0].sum(), None], metadata, lambda given: [given[0][2:]])(x)
    assert total.item() == 6 and view._base is x


def test_dynamic_dims_are_marked():
    """The dims of an output are marked as dynamic, so that the next graph does not recompile; older marks remain."""
    x = torch.ones(2, 3)
    x._dynamo_propagated_dynamic_indices = {1}
    marked, plain = mark_dynamic_outputs(lambda *given: given, [[0], None])(x, torch.ones(2))
    assert marked._dynamo_propagated_dynamic_indices == {0, 1}
    assert not hasattr(plain, "_dynamo_propagated_dynamic_indices")


def test_what_was_compiled_without_determinism_rejects_to_run_with_it(monkeypatch):
    """A graph that was compiled without determinism raises if it runs with it; the reverse is allowed."""
    for compiled_with, fails in ((False, True), (True, False), (None, False)):
        compiled, _ = product(deterministic=compiled_with)
        (result,) = compiled(*leaves())
        # torch.use_deterministic_algorithms would import torch's compiler.
        monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: True)
        if fails:
            with pytest.raises(RuntimeError, match="use_deterministic_algorithms"):
                result.sum().backward()
        else:
            result.sum().backward()
        monkeypatch.undo()


@pytest.mark.parametrize("asked_for", [False, True])
def test_a_retained_graph_is_rejected_where_the_program_asked_for_donation(monkeypatch, asked_for):
    """A retained graph is rejected if the program asked for donation; else it may be retained, as in eager mode."""
    monkeypatch.setattr(runtime_wrapper, "donation_is_requested", lambda: asked_for)
    compiled, _ = product(saves_intermediates=True)
    x, y = leaves()
    (result,) = compiled(x, y)
    if asked_for:
        with pytest.raises(RuntimeError, match="non-empty donated buffers"):
            result.sum().backward(retain_graph=True)
    else:
        for _ in range(2):
            result.sum().backward(retain_graph=True)
        assert x.grad.tolist() == [6.0, 10.0]


@pytest.mark.parametrize(
    ("value", "is_default", "expected"), [(True, True, False), (True, False, True), (False, False, False)]
)
def test_torchs_default_asks_for_no_donation(monkeypatch, value, is_default, expected):
    """torch's default does not ask for donation: only a program that sets the option does."""
    settings = types.SimpleNamespace(donated_buffer=value, _is_default=lambda name: is_default)
    monkeypatch.setattr(torch_internals, "functorch_config", lambda: settings)
    assert runtime_wrapper.donation_is_requested() is expected


def test_a_view_that_is_saved_does_not_keep_its_base():
    """A saved view is detached, so that it does not keep its base alive; an input is saved with its history."""
    base = torch.ones(4, requires_grad=True)
    view, own = (base * 2)[1:], torch.ones(2)
    kept = runtime_wrapper._detach_views([view, own, base], [base])
    assert not kept[0].requires_grad and kept[0]._base is None
    assert kept[1] is own and kept[2] is base
    assert runtime_wrapper._detach_views([view], [view])[0] is view
