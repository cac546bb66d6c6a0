"""Runtime wrappers: from compiled programs to the callable of a graph.

    wrap_inference(program, metadata)               bumps the versions of mutated inputs, marks dynamic outputs, and
                                                    returns outputs that alias an input as views of that input
    wrap_training(forward, backward, metadata)      an autograd.Function over two programs

AOTAutograd wraps programs according to its ``ViewAndMutationMeta``. This module covers the common case: no tensor
subclass, no differentiable outputs that are views of one another, no mutation outside of the graph. The runtime
metadata is plain data, so that a later process wraps programs without an import of AOTAutograd.

In torch: torch/_functorch/_aot_autograd/runtime_wrappers.py. Read next: nbcompile/aot/runtime_metadata.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

import torch

from nbcompile import torch_internals
from nbcompile.aot import batched_gradients
from nbcompile.aot.runtime_metadata import AliasedOutput, RuntimeMetadata, TangentLayout, TrainingMetadata
from nbcompile.support.process_state import STATE, Lifetime

DONATED_TEXT = (
    "This backward function was compiled with non-empty donated buffers which requires create_graph=False and "
    "retain_graph=False. Please keep backward(create_graph=False, retain_graph=False) across all backward() function "
    "calls, or set torch._functorch.config.donated_buffer=False to disable donated buffer."
)
BoxedFunction = Callable[[list[Any]], Sequence[Any]]
Join = Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]
HIDDEN_FROM_HOOK: set[CodeType] = STATE.add("aot.runtime_wrapper.HIDDEN_FROM_HOOK", set(), Lifetime.PROCESS)
"""Code of the wrappers, which the frame hook skips."""


def mark_dynamic_outputs(
    compiled: Callable[..., Sequence[Any]], dynamic: Sequence[Sequence[int] | None]
) -> Callable[..., Sequence[Any]]:
    """Wrap a callable so that its outputs have their dynamic dims marked (``_dynamo_propagated_dynamic_indices``)."""

    def call(*arguments: Any) -> Sequence[Any]:
        return _mark_dynamic(compiled(*arguments), dynamic)

    return _hide_from_hook(call)


def wrap_inference(
    program: BoxedFunction, metadata: RuntimeMetadata, views: BoxedFunction | None = None
) -> Callable[..., Sequence[Any]]:
    """Wrap the program of a graph without gradients; ``views`` creates the outputs that alias an input."""
    mutated_inputs, dynamic = metadata.mutated_inputs, metadata.dynamic_dims
    run = _without_autograd(unboxed(program), mutated_inputs)
    if views is not None and not any(dynamic):
        joined = getattr(views, "joined", None)
        if joined is not None:  # generated code joins them without a Python frame
            positions = tuple(alias.output for alias in metadata.aliased_outputs)
            return joined(run, positions, False) if mutated_inputs else joined(unboxed(program), positions, True)
        return _with_views(run, metadata.aliased_outputs, views)
    join = _joiner(metadata.aliased_outputs, views)

    def call(*arguments: Any) -> Sequence[Any]:
        return _mark_dynamic(join(run(*arguments), arguments), dynamic)

    return _hide_from_hook(call)


def _without_autograd(run: Callable[..., Sequence[Any]], mutated_inputs: Sequence[int]) -> Callable[..., Sequence[Any]]:
    """Wrap a program so that autograd records none of its ATen operators, and detects the inputs that it mutates."""

    def call(*arguments: Any) -> Sequence[Any]:
        was_enabled = torch._C.is_grad_enabled()
        try:  # Ctrl-C may come after any call
            torch._C._set_grad_enabled(False)
            if mutated_inputs:
                # A kernel writes through a pointer and increments no version counter. Autograd must detect that a
                # tensor which it saved was overwritten.
                torch.autograd.graph.increment_version([arguments[position] for position in mutated_inputs])
            return run(*arguments)
        finally:
            torch._C._set_grad_enabled(was_enabled)

    return _hide_from_hook(call)


def _with_views(
    run: Callable[..., Sequence[Any]], aliases: Sequence[AliasedOutput], views: BoxedFunction
) -> Callable[..., Sequence[Any]]:
    join = _joiner(aliases, views)

    def call(*arguments: Any) -> Sequence[Any]:
        return join(run(*arguments), arguments)

    return _hide_from_hook(call)


def _joiner(aliases: Sequence[AliasedOutput], views: BoxedFunction | None) -> Join:
    """Return the function that replaces results of a program by outputs that alias an input."""
    if views is None:
        return lambda results, arguments: _regenerate_aliases(results, arguments, aliases)
    make_views = unboxed(views)
    positions = [alias.output for alias in aliases]

    def join(results: Sequence[Any], arguments: Sequence[Any]) -> Sequence[Any]:
        outputs = list(results)
        for position, view in zip(positions, make_views(*arguments), strict=True):
            outputs[position] = view
        return tuple(outputs)

    return _hide_from_hook(join)


def wrap_training(
    forward: BoxedFunction, backward: BoxedFunction, metadata: RuntimeMetadata, views: BoxedFunction | None = None
) -> Callable[..., Sequence[Any]]:
    """Wrap a forward and a backward program in an autograd.Function.

    Steps that no call of this graph needs are left out here: most graphs need none, and each costs time per call.
    """
    assert metadata.training is not None, "the metadata of an inference graph"
    apply = _autograd_function(unboxed(forward), backward, metadata.training, metadata.aliased_outputs)
    # Guards check the grad mode at each call. If it is off in a graph with gradients, the graph itself enables it.
    if not torch._C.is_grad_enabled():
        apply = _in_grad_mode(apply)
    detached, dynamic = metadata.training.detached_inputs, metadata.dynamic_dims
    mutated, aliases = metadata.mutated_inputs, metadata.aliased_outputs
    if not detached and not mutated and not any(dynamic):
        if not aliases:
            return apply
        if (joined := getattr(views, "joined", None)) is not None:
            return joined(apply, tuple(alias.output for alias in aliases), False)
    join = _joiner(aliases, views)

    def call(*arguments: Any) -> Sequence[Any]:
        inputs = list(arguments)
        if mutated:
            torch.autograd.graph.increment_version([inputs[position] for position in mutated])
        for position in detached:
            # The backward returns None for it, but autograd would nevertheless continue through its history.
            inputs[position] = inputs[position].detach()
        return _mark_dynamic(join(apply(*inputs), arguments), dynamic)

    return _hide_from_hook(call)


def _in_grad_mode(function: Callable[..., Sequence[Any]]) -> Callable[..., Sequence[Any]]:
    def call(*arguments: Any) -> Sequence[Any]:
        with torch.enable_grad():
            return function(*arguments)

    return _hide_from_hook(call)


def _autograd_function(
    forward: Callable[..., Sequence[Any]],
    backward: BoxedFunction,
    metadata: TrainingMetadata,
    aliased_outputs: Sequence[AliasedOutput],
) -> Callable[..., Sequence[Any]]:
    # Local variables, since this runs at each call and a closure reads them faster than fields.
    checked, unchecked, numbers = metadata.saved_checked, metadata.saved_unchecked, metadata.saved_numbers
    count, views, fixed = metadata.forward_returns, metadata.view_outputs, metadata.non_differentiable_outputs
    aliases, shared = [alias.output for alias in aliased_outputs], metadata.shared_with_outputs
    tangent_layouts = list(zip(metadata.differentiable_outputs, metadata.tangent_layouts, strict=True))
    has_more = unchecked.start != unchecked.stop or numbers.start != numbers.stop

    class CompiledFunction(torch.autograd.Function):
        """The forward program, and the backward program for the values that it saves."""

        @staticmethod
        def forward(ctx: Any, *arguments: Any) -> Any:
            results = forward(*arguments)
            saved = _detach_views(results[checked], arguments)
            if has_more:
                ctx.unchecked = _detach_views(results[unchecked], arguments)
                ctx.numbers = results[numbers]
            returned = list(results[:count])
            for position in views:
                # No view for autograd, which forbids writes to a view that a custom Function returns with others.
                returned[position] = torch.ops.aten._unsafe_view(returned[position], returned[position].shape)
            ctx.save_for_backward(*(_share_versions(saved, returned, shared) if shared else saved))
            for position in aliases:
                # A tensor here would become an output of the node, with its own gradient. The alias is created from the
                # user's tensor afterwards.
                returned[position] = _OpaqueOutput(returned[position])
            if fixed:
                ctx.mark_non_differentiable(
                    *(returned[position] for position in fixed if isinstance(returned[position], torch.Tensor))
                )
                # Otherwise autograd would create zeros for each of them in every backward.
                ctx._materialize_non_diff_grads = False
            return tuple(returned)

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            _check_backward_call(metadata)
            saved = _saved_values(ctx, has_more)
            if batched_gradients.has_batch(gradients):
                return batched_gradients.run_members(lambda members: differentiate([*saved], members), gradients)
            return differentiate(saved, gradients)

    def differentiate(saved: list[Any], gradients: Sequence[Any]) -> tuple[Any, ...]:
        saved += [_with_layout(gradients[position], layout) for position, layout in tangent_layouts]
        # create_graph=True: the backward itself may be differentiated.
        if torch._C.is_grad_enabled():
            return CompiledFunctionBackward.apply(backward, len(saved), *saved, *_differentiable_input(saved))
        return tuple(backward(saved))

    for method in (CompiledFunction.forward, CompiledFunction.backward, differentiate):
        torch_internals.hide_from_hook(method.__code__)
    # ``Function.apply`` first checks for transforms of torch.func, under which no such graph runs.
    apply: Callable[..., Sequence[Any]] = super(torch.autograd.Function, CompiledFunction).apply
    return apply


def _share_versions(
    saved: list[torch.Tensor], returned: Sequence[torch.Tensor], shared: Sequence[tuple[int, int]]
) -> list[torch.Tensor]:
    """Let saved tensors share the version counter of the output whose memory they have: the user may write to it."""
    for at, position in shared:
        if at < len(saved):  # the others are not checked
            layout = saved[at].size(), saved[at].stride(), saved[at].storage_offset()
            saved[at] = returned[position].detach().as_strided(*layout)
    return saved


def _saved_values(ctx: Any, has_more: bool) -> list[Any]:
    """Values saved for the backward program, in the order of its arguments.

    Unless the graph is retained, only the list owns them from now on, and the program frees each tensor after its last
    use.
    """
    #     sizes | saved, checked | saved, unchecked | gradients of the outputs
    more, numbers = (ctx.unchecked, ctx.numbers) if has_more else ((), ())
    found = [*numbers, *ctx.saved_tensors, *more]
    ctx.maybe_clear_saved_tensors()
    if has_more and not torch._C._autograd._get_current_graph_task_keep_graph():
        ctx.unchecked = ()
    return found


def unboxed(program: BoxedFunction) -> Callable[..., Sequence[Any]]:
    """A program that takes separate arguments instead of a list."""
    known: Callable[..., Sequence[Any]] | None = getattr(program, "positional", None)
    if known is not None:
        return known  # generated code has an entry point with separate arguments

    def call(*arguments: Any) -> Sequence[Any]:
        return program(list(arguments))

    return _hide_from_hook(call)


@dataclass(frozen=True, slots=True)
class _OpaqueOutput:
    """A tensor that an autograd.Function returns without registering it as an output of its node."""

    tensor: Any


def _regenerate_aliases(
    results: Sequence[Any], arguments: Sequence[Any], aliases: Sequence[AliasedOutput]
) -> Sequence[Any]:
    """Replace outputs that alias an input by that input, or by a view of it, for autograd.

    A kernel returns a tensor with the same storage. Autograd's view and version tracking need the user's own base.
    """
    if not aliases:
        return results
    outputs = list(results)
    for position, base_position, is_input, requires_grad in aliases:
        raw_output, base = outputs[position], arguments[base_position]
        output = raw_output.tensor if isinstance(raw_output, _OpaqueOutput) else raw_output
        outputs[position] = base if is_input else _alias_of_base(base, output, requires_grad)
    return tuple(outputs)


def _alias_of_base(base: torch.Tensor, output: torch.Tensor, requires_grad: bool) -> torch.Tensor:
    # A view of the user's tensor, which autograd tracks; for autograd the program's output is an unrelated tensor with
    # the same memory.
    alias = base.as_strided(output.shape, output.stride(), output.storage_offset())
    if base.requires_grad and not requires_grad:
        return alias.detach()
    return alias.requires_grad_() if requires_grad and not base.requires_grad else alias


def _hide_from_hook(call: Any) -> Any:
    """Hide a wrapper from the frame hook."""
    HIDDEN_FROM_HOOK.add(call.__code__)
    torch_internals.hide_from_hook(call.__code__)
    return call


class CompiledFunctionBackward(torch.autograd.Function):
    """A backward program under ``create_graph=True``: it has no derivative, and its backward raises.

    Its name, which is torch's, is visible in the ``grad_fn`` of a gradient.
    """

    @staticmethod
    def forward(_ctx: Any, backward: BoxedFunction, count: int, *given: Any) -> Any:
        return tuple(backward(list(given[:count])))

    @staticmethod
    def backward(_ctx: Any, *_gradients: Any) -> Any:
        raise RuntimeError("torch.compile with aot_autograd does not currently support double backward")


def _differentiable_input(backward_inputs: Sequence[Any]) -> tuple[torch.Tensor, ...]:
    if any(isinstance(each, torch.Tensor) and each.requires_grad for each in backward_inputs):
        return ()
    # Without an input that requires grad, ``apply`` creates no node, and a second backward would not raise.
    return (torch.empty(0, requires_grad=True),)


def _detach_views(saved: Sequence[torch.Tensor], inputs: Sequence[Any]) -> list[torch.Tensor]:
    """Detach the views among the tensors to save, since a view keeps its base alive.

    Inputs are not detached: the node has their history anyway, and rejects a second backward.
    """
    return [
        tensor.detach() if tensor._is_view() and not any(tensor is argument for argument in inputs) else tensor
        for tensor in saved
    ]


def donation_is_requested() -> bool:
    """Return whether the program itself switched ``torch._functorch.config.donated_buffer`` on.

    It is on by default in torch, and Inductor's backward may overwrite saved tensors. Ours does so only if the program
    sets the option: by default a graph can be retained as in eager mode.
    """
    settings = torch_internals.functorch_config()
    return bool(settings.donated_buffer) and not settings._is_default("donated_buffer")


def _with_layout(gradient: Any, layout: TangentLayout) -> Any:
    """Copy a gradient to the strides that the backward program expects, and resolve its conj and neg bits."""
    size, stride, memory_format = layout
    if not isinstance(gradient, torch.Tensor):
        return gradient
    # The program reads the memory directly, without the conj and neg bits.
    if gradient.is_neg() or gradient.is_conj():
        gradient = gradient.resolve_conj().resolve_neg()
    if memory_format is not None:
        return gradient.contiguous(memory_format=memory_format)
    if size is None or stride is None or (gradient.shape == size and gradient.stride() == stride):
        return gradient
    copied = torch.empty_strided(size, stride, dtype=gradient.dtype, device=gradient.device)
    return copied.copy_(gradient)


def _check_backward_call(metadata: TrainingMetadata) -> None:
    if torch._C._functorch.peek_interpreter_stack() is not None:
        raise RuntimeError("a compiled backward function cannot be called within vmap, grad or vjp")
    # The opposite case is allowed: a deterministic program may always run.
    if metadata.deterministic is False and torch.are_deterministic_algorithms_enabled():
        raise RuntimeError(
            "This compiled backward function is being run with torch.use_deterministic_algorithms(True), but it was "
            "previously generated during the forward function while torch.use_deterministic_algorithms(False) was set."
        )
    if (
        metadata.saves_intermediates
        and torch._C._autograd._get_current_graph_task_keep_graph()
        and donation_is_requested()
    ):
        raise RuntimeError(DONATED_TEXT)


def _mark_dynamic(results: Sequence[Any], dynamic: Sequence[Sequence[int] | None]) -> Sequence[Any]:
    """Mark the dynamic dims of the outputs, so that a graph with them as inputs is dynamic without a recompile."""
    for result, dims in zip(results, dynamic, strict=False):
        if dims:
            known: set[int] = getattr(result, "_dynamo_propagated_dynamic_indices", set())
            result._dynamo_propagated_dynamic_indices = known | set(dims)
    return results
