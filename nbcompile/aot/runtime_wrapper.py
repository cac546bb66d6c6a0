"""How compiled programs become the callable of a graph: inputs in, outputs out, gradients on the way back.

    inference(program, facts)               versions of mutated inputs go up, dynamic outputs are marked,
                                            outputs that are inputs, or views of them, are these
    training(forward, backward, facts)      an autograd.Function over the two

AOTAutograd wraps programs at run time as its metadata says. For the common case (no subclass, no results that are views
of one another and learn, nothing is mutated outside of the graph) what it does fits on this page, and the facts that it
needs are plain data: so a later process can join programs without importing AOTAutograd.

In torch: torch/_functorch/_aot_autograd/runtime_wrappers.py. Read next: nbcompile/warm/graphs.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

import torch

from nbcompile import torch_internals
from nbcompile.torch_internals import is_trained

Facts = dict[str, Any]
Boxed = Callable[[list[Any]], Sequence[Any]]
HIDDEN: set[CodeType] = set()
"""The code of the callables that are made here: the frame hook passes it by."""
PLAIN_OUTPUTS = ("non_alias", "unsafe_view_alias")
"""Kinds of outputs that have memory of their own; the second is the one view of it that anybody sees."""
OF_INPUTS = ("alias_of_input", "is_input")


def facts_of(metadata: Any, without_gradient: Sequence[int] | None, inputs: int) -> Facts | str:
    """What joining needs to know of AOTAutograd's metadata; or why it cannot be done here.

    Args:
        metadata: of the graph (a ``ViewAndMutationMeta``).
        without_gradient: for training, the inputs for which the backward graph returns nothing; else None.
        inputs: how many the graph has.
    """
    trains = without_gradient is not None
    obstacle = _obstacle(metadata, inputs, trains)
    if obstacle:
        return obstacle
    outputs = metadata.output_info
    facts: Facts = {
        "dynamic": [sorted(each.dynamic_dims) if each.dynamic_dims else None for each in outputs],
        "versions": list(metadata.mutated_graph_handled_indices_seen_by_autograd),
        "aliases": [
            (at, output.base_idx, output.output_type.name == "is_input", output.requires_grad)
            for at, output in enumerate(outputs)
            if output.output_type.name in OF_INPUTS
        ],
    }
    if not trains:
        return facts
    info = metadata.input_info
    return {
        **facts,
        "detached": [at for at in without_gradient or () if info[at].requires_grad and not info[at].is_leaf],
        "views": list(metadata.unsafe_view_out_indices),
        "fixed": [at for at, each in enumerate(outputs) if not each.requires_grad],
        "checked": _ends(metadata.tensors_saved_for_backwards_with_vc_check_slice),
        "unchecked": _ends(metadata.tensors_saved_for_backwards_no_vc_check_slice),
        "numbers": _ends(metadata.symints_saved_for_backwards_slice),
        "returns": metadata.num_forward_returns,
        "gradients": [
            at
            for at, output in enumerate(outputs)
            if output.output_type.name in PLAIN_OUTPUTS
            and issubclass(output.raw_type, torch.Tensor)
            and is_trained(output)
        ],
        "layouts": [_layout(each.memory_format) for each in metadata.subclass_tangent_meta],
        "deterministic": metadata.deterministic,
    }


def _obstacle(metadata: Any, inputs: int, trains: bool) -> str:
    if torch._C._is_any_autocast_enabled():
        return "it is compiled under autocast"
    if len(metadata.input_info) != inputs:
        return "some inputs are one tensor, or views of one"
    if any(each.output_type.name not in (*PLAIN_OUTPUTS, *OF_INPUTS) for each in metadata.output_info):
        return "outputs are views of one another"
    if metadata.num_mutated_inp_runtime_indices or metadata.num_intermediate_bases:
        return "an input is changed after the graph has run"
    unusual = (
        metadata.tokens, metadata.num_backward_tokens, metadata.is_rng_op_functionalized,
        metadata.num_graphsafe_rng_states, getattr(metadata, "num_opaque_objects_saved_for_bw", 0),
        getattr(metadata, "act_input_indices", ()), metadata.grad_enabled_mutation is not None,
        trains and metadata.indices_of_inputs_that_requires_grad_with_mutations_in_bw,
    )  # fmt: skip
    return "it needs AOTAutograd at run time" if any(unusual) else ""


def _ends(piece: slice) -> list[int | None]:
    return [piece.start, piece.stop]


def _layout(form: Any) -> tuple[Any, ...]:
    return form.size and tuple(form.size), form.stride and tuple(form.stride), form.memory_format


def dynamic_dims(outputs: Iterable[object]) -> list[list[int] | None]:
    """Per output, the dims whose sizes are symbols; None where it has none."""
    return [
        [dim for dim, size in enumerate(output.shape) if not torch_internals.symbolic_shapes().is_concrete_int(size)]
        or None
        if isinstance(output, torch.Tensor)
        else None
        for output in outputs
    ]


def marking(
    compiled: Callable[..., Sequence[Any]], dynamic: Sequence[Sequence[int] | None]
) -> Callable[..., Sequence[Any]]:
    """A callable whose outputs say which of their sizes vary, and that is otherwise called as it is."""

    def call(*arguments: Any) -> Sequence[Any]:
        return _marked(compiled(*arguments), dynamic)

    return _hidden(call)


def inference(program: Boxed, facts: Facts) -> Callable[..., Sequence[Any]]:
    """A callable without gradients."""
    aliases = facts["aliases"]

    def call(*arguments: Any) -> Sequence[Any]:
        changed = [arguments[at] for at in facts["versions"]]
        with torch.no_grad():
            if changed:
                torch.autograd.graph.increment_version(changed)
            results = program(list(arguments))
        return _marked(_of_inputs(results, arguments, aliases), facts["dynamic"])

    return _hidden(call)


def training(forward: Boxed, backward: Boxed, facts: Facts) -> Callable[..., Sequence[Any]]:
    """A callable with gradients: what no call needs is left out of it here, as most graphs need next to nothing."""
    apply = _function(positional(forward), backward, facts)
    detached, dynamic = facts["detached"], facts["dynamic"]
    written, aliases = facts["versions"], facts["aliases"]
    if not detached and not written and not aliases and not any(dynamic):
        return apply

    def call(*arguments: Any) -> Sequence[Any]:
        given = list(arguments)
        if written:
            torch.autograd.graph.increment_version([given[at] for at in written])
        for at in detached:
            given[at] = given[at].detach()
        return _marked(_of_inputs(apply(*given), arguments, aliases), dynamic)

    return _hidden(call)


def _function(forward: Callable[..., Sequence[Any]], backward: Boxed, facts: Facts) -> Callable[..., Sequence[Any]]:
    checked, unchecked, numbers = (slice(*facts[name]) for name in ("checked", "unchecked", "numbers"))
    count, views, fixed = facts["returns"], facts["views"], facts["fixed"]
    aliases = [at for at, *_ in facts["aliases"]]
    forms = list(zip(facts["gradients"], facts["layouts"], strict=True))
    has_more = unchecked.start != unchecked.stop or numbers.start != numbers.stop

    class CompiledFunction(torch.autograd.Function):
        """The forward graph, and the backward graph for what it saved."""

        @staticmethod
        def forward(ctx: Any, *arguments: Any) -> Any:
            results = forward(*arguments)
            ctx.save_for_backward(*map(without_base, results[checked]))
            if has_more:
                ctx.unchecked = tuple(map(without_base, results[unchecked]))
                ctx.numbers = results[numbers]
            returned = list(results[:count])
            for at in views:
                returned[at] = torch.ops.aten._unsafe_view(returned[at], returned[at].shape)
            for at in aliases:
                returned[at] = _Unseen(returned[at])
            if fixed:
                ctx.mark_non_differentiable(*(returned[at] for at in fixed if isinstance(returned[at], torch.Tensor)))
                ctx._materialize_non_diff_grads = False
            return tuple(returned)

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            _expect_usual(facts)
            more, numbers = (ctx.unchecked, ctx.numbers) if has_more else ((), ())
            wanted = [_laid_out(gradients[at], form) for at, form in forms]
            given = [*numbers, *ctx.saved_tensors, *more, *wanted]
            if torch.is_grad_enabled():
                return _Twice.apply(backward, len(given), *given, *_something_to_derive(given))
            return tuple(backward(given))

    for method in (CompiledFunction.forward, CompiledFunction.backward):
        torch_internals.hide_from_hook(method.__code__)
    # ``Function.apply`` itself first looks for transforms of torch.func, under which no such graph runs.
    apply: Callable[..., Sequence[Any]] = super(torch.autograd.Function, CompiledFunction).apply
    return apply


def positional(program: Boxed) -> Callable[..., Sequence[Any]]:
    """A program that takes its arguments without a list."""
    known: Callable[..., Sequence[Any]] | None = getattr(program, "positional", None)
    if known is not None:
        return known  # generated code does by itself

    def call(*arguments: Any) -> Sequence[Any]:
        return program(list(arguments))

    return _hidden(call)


@dataclass(frozen=True, slots=True)
class _Unseen:
    """A tensor that is no output of an autograd.Function, though it is returned through it."""

    tensor: Any


def _of_inputs(results: Sequence[Any], arguments: Sequence[Any], aliases: Sequence[Sequence[Any]]) -> Sequence[Any]:
    """Outputs that share memory with an input: as autograd knows it, they are views of that very input."""
    if not aliases:
        return results
    whole = list(results)
    for at, place, is_input, learns in aliases:
        found, base = whole[at], arguments[place]
        seen = found.tensor if isinstance(found, _Unseen) else found
        whole[at] = base if is_input else _view(base, seen, learns)
    return tuple(whole)


def _view(base: torch.Tensor, seen: torch.Tensor, learns: bool) -> torch.Tensor:
    view = base.as_strided(seen.shape, seen.stride(), seen.storage_offset())
    if base.requires_grad and not learns:
        return view.detach()
    return view.requires_grad_() if learns and not base.requires_grad else view


def _hidden(call: Any) -> Any:
    """The frame hook has no business in what surrounds a program."""
    HIDDEN.add(call.__code__)
    torch_internals.hide_from_hook(call.__code__)
    return call


class _Twice(torch.autograd.Function):
    """A backward graph that is run where its own derivative may be asked for: there is none."""

    @staticmethod
    def forward(_ctx: Any, backward: Boxed, count: int, *given: Any) -> Any:
        return tuple(backward(list(given[:count])))

    @staticmethod
    def backward(_ctx: Any, *_gradients: Any) -> Any:
        raise RuntimeError("torch.compile with aot_autograd does not currently support double backward")


def _something_to_derive(given: Sequence[Any]) -> tuple[torch.Tensor, ...]:
    if any(isinstance(each, torch.Tensor) and each.requires_grad for each in given):
        return ()
    return (torch.empty(0, requires_grad=True),)


def without_base(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor to be saved: a view would keep its base."""
    return tensor.detach() if tensor._is_view() else tensor


def _laid_out(gradient: Any, form: tuple[Any, ...]) -> Any:
    """A gradient with the strides that the backward graph was compiled for."""
    size, stride, memory_format = form
    if not isinstance(gradient, torch.Tensor):
        return gradient
    if memory_format is not None:
        return gradient.contiguous(memory_format=memory_format)
    if gradient.shape == size and gradient.stride() == stride:
        return gradient
    laid = torch.empty_strided(size, stride, dtype=gradient.dtype, device=gradient.device)
    return laid.copy_(gradient)


def _expect_usual(facts: Facts) -> None:
    if torch._C._functorch.peek_interpreter_stack() is not None:
        raise RuntimeError("a compiled backward function cannot be called within vmap, grad or vjp")
    if facts["deterministic"] is False and torch.are_deterministic_algorithms_enabled():
        raise RuntimeError(
            "This compiled backward function is being run with torch.use_deterministic_algorithms(True), but it was "
            "previously generated during the forward function while torch.use_deterministic_algorithms(False) was set."
        )


def _marked(results: Sequence[Any], dynamic: Sequence[Sequence[int] | None]) -> Sequence[Any]:
    """Outputs whose sizes vary say so: a graph that they are given to need not learn it anew."""
    for result, dims in zip(results, dynamic, strict=False):
        if dims:
            known: set[int] = getattr(result, "_dynamo_propagated_dynamic_indices", set())
            result._dynamo_propagated_dynamic_indices = known | set(dims)
    return results
