"""Fake tensors, which have sizes, a dtype and a device, and no data.

In torch: torch/_subclasses/fake_tensor.py, torch/_subclasses/meta_utils.py.
Read next: nbcompile/torch_internals/symbols.py
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import importlib
import itertools
import logging
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from nbcompile.support.context_variables import bound
from nbcompile.support.real_class import is_instance
from nbcompile.torch_internals import interrupts
from nbcompile.torch_internals.hooks import without_function_modes
from nbcompile.torch_internals.modules import dispatch_modes, fake_tensor, guards_context, symbolic_shapes
from nbcompile.torch_internals.symbols import NamedSource, symbolic_float, symbolic_int

EXAMPLE = "example_value"
"""torch's key in ``node.meta`` for the fake value of a captured node."""


def _lower_version_count_by_1(tensor: torch.Tensor) -> torch.Tensor:
    # Autograd keeps the counter's value with each tensor that it
    # saves, and rejects the backward where it has changed since.
    version = max(tensor._version - 1, 0)
    torch._C._autograd._unsafe_set_version_counter((tensor,), (version,))
    return tensor


undo_last_version_bump = _lower_version_count_by_1
"""Undo the last version bump of a tensor for autograd, as ``x.data = y`` does. In graphs it has torch's name."""


class _TracingFilter(logging.Filter):
    """Filter that drops torch's log of an operator that fails on fake tensors: the record and the exception have it."""

    def filter(self, entry: logging.LogRecord) -> bool:
        return not (_tracing.get() and str(entry.msg).startswith("failed while attempting to run meta"))


_tracing: contextvars.ContextVar[bool] = contextvars.ContextVar("nbcompile_tracing", default=False)
logging.getLogger("torch._subclasses.fake_tensor").addFilter(_TracingFilter())


@contextmanager
def errors_not_logged() -> Iterator[None]:
    """Keep torch from logging an operator of the block that fails on fake tensors: it only raises."""
    with bound(_tracing, True):
        yield


def new_fake_mode(shape_env: Any) -> Any:
    """The mode of one frame's fake tensors."""
    return fake_tensor().FakeTensorMode(shape_env=shape_env, allow_non_fake_inputs=False)


@contextlib.contextmanager
def tracing_context(graph_module: torch.fx.GraphModule) -> Iterator[None]:
    """The context that a backend of the user may read (``TracingContext.get()``): it has the graph's fake mode."""
    internals = guards_context()
    examples = [node.meta.get("example_value") for node in graph_module.graph.find_nodes(op="placeholder")]
    context = internals.TracingContext(internals.detect_fake_mode(examples))
    context.is_ours = True
    with internals.tracing(context):
        yield


@contextlib.contextmanager
def without_own_context() -> Iterator[None]:
    """Suspend the context of :func:`tracing_context`: AOTAutograd chooses a fake mode that fits its inputs."""
    internals = guards_context()
    if not hasattr(internals.TracingContext.try_get(), "is_ours"):
        yield
        return
    with internals.tracing(None):
        yield


def is_traced_by_torch() -> bool:
    """True inside of the real torch.compile, whose context knows the graph's symbols."""
    context = guards_context().TracingContext.try_get()
    return context is not None and not hasattr(context, "is_ours")


def with_unknown_sizes(values: Sequence[Any]) -> list[Any]:
    """Example inputs as fake tensors of a mode with unbacked symbols for sizes and numbers of the run."""
    fake_mode = guards_context().detect_fake_mode(values)
    if fake_mode is None:
        fake_mode = new_fake_mode(symbolic_shapes().ShapeEnv())
        values = [static_fake(fake_mode, each) if isinstance(each, torch.Tensor) else each for each in values]
    known = fake_mode.shape_env.settings
    fake_mode.shape_env.settings = dataclasses.replace(
        known, allow_scalar_outputs=True, allow_dynamic_output_shape_ops=True
    )
    return list(values)


def is_plain(value: torch.Tensor) -> bool:
    """True for a tensor of PyTorch's own class, or the fake of one; False for one of any other subclass."""
    return type(value) in (torch.Tensor, torch.nn.Parameter, fake_tensor().FakeTensor)


def is_wrapper(value: object) -> bool:
    """True if a tensor (or a class of tensors) wraps others into which it can be flattened."""
    if isinstance(value, type):
        return bool(dispatch_modes().is_traceable_wrapper_subclass_type(value))
    return bool(dispatch_modes().is_traceable_wrapper_subclass(value))


def is_jagged(value: object) -> bool:
    """True for a nested tensor of layout ``torch.jagged``: it wraps values and offsets; its ragged size is a symbol.

    Its own ``__torch_function__`` runs with its operators: on fake tensors while tracing, and in the graph.
    """
    return isinstance(value, torch.Tensor) and value.layout is torch.jagged


def jagged_constructors() -> tuple[Any, ...]:
    """The functions by which torch.nested creates nested tensors; their inner operators do not belong in a graph."""
    module: Any = importlib.import_module("torch.nested._internal.nested_tensor")
    return (
        module.nested_view_from_values_offsets_lengths,
        module.nested_view_from_values_offsets,
        module.nested_from_padded,
    )


@contextmanager
def _classes_enabled() -> Iterator[None]:
    with torch._C._EnableTorchFunction(), without_function_modes():
        yield


def overrides_when_run(value: object) -> bool:
    """True for a tensor that wraps others and has a ``__torch_function__`` of its own, which is not traced through."""
    if not isinstance(value, torch.Tensor):
        return False
    own: Any = type(value).__torch_function__
    silent = own is torch._C._disabled_torch_function_impl
    # The disabled implementation overrides nothing, and the inherited one only converts results.
    inherited = getattr(own, "__func__", None) is torch.Tensor.__torch_function__.__func__  # type: ignore[attr-defined]
    return is_jagged(value) or (not silent and not inherited and is_wrapper(value))


def wrapper_overrides_enabled(arguments: Sequence[object]) -> contextlib.AbstractContextManager[None]:
    """Enable overrides of wrapper tensors among the arguments, as in eager, while all others are disabled."""
    flat = itertools.chain.from_iterable(given if isinstance(given, (tuple, list)) else (given,) for given in arguments)
    return _classes_enabled() if any(map(overrides_when_run, flat)) else contextlib.nullcontext()


def dispatches(cls: type) -> bool:
    """True if operators on tensors of a class run code of the class."""
    return getattr(cls, "__torch_dispatch__", None) is not torch.Tensor.__torch_dispatch__


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of a user's class as one of torch's own (the same memory); any other one as it is."""
    if type(tensor) in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer) or dispatches(type(tensor)):
        return tensor
    with torch._C.DisableTorchFunctionSubclass(), torch.enable_grad():
        if not tensor.is_leaf and _is_writable_view(tensor):
            return tensor.as_subclass(torch.Tensor)  # with its history: a detached one may not be written in place
        return tensor.detach().as_subclass(torch.Tensor).requires_grad_(tensor.requires_grad)


def _is_writable_view(tensor: torch.Tensor) -> bool:
    """True if eager mode allows a write to a view, which gives its base a history; not for one of several results."""
    autograd = torch._C._autograd
    return tensor._is_view() and autograd._get_creation_meta(tensor) == autograd.CreationMeta.DEFAULT


def is_overriding(value: object) -> bool:
    """True if a tensor's class may override functions of torch."""
    own = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
    return is_instance(value, torch.Tensor) and type(value) not in own and not dispatches(type(value))


def without_overrides(compiled: Any) -> Any:
    """Let a graph run on plain tensors and outside of function modes: ``__torch_function__`` was traced through."""

    def run(*arguments: Any) -> Any:
        with torch._C.DisableTorchFunctionSubclass(), without_function_modes():
            # The class's ``__torch_function__`` was traced through: its effect is in the graph, and
            # must not happen again.
            given = [each.as_subclass(torch.Tensor) if is_overriding(each) else each for each in arguments]
            results = compiled(*given)
            for plain_one, original in zip(given, arguments, strict=True):
                if plain_one is not original:
                    _change_in_place(original, plain_one)
        # An input that the graph returns is returned as the argument itself, of the user's class.
        inputs = {id(plain_one): original for plain_one, original in zip(given, arguments, strict=True)}
        return tuple(inputs.get(id(each), each) for each in results)

    return run


def _change_in_place(tensor: torch.Tensor, changed: torch.Tensor) -> None:
    """Give a tensor the sizes, strides and memory that a graph gave its alias (``t_``, ``set_``, ``.data =``)."""
    if tensor.layout is not torch.strided:
        return
    if tensor.untyped_storage()._cdata != changed.untyped_storage()._cdata:
        tensor.data = changed.detach()
    elif (
        tensor.shape != changed.shape
        or tensor.stride() != changed.stride()
        or tensor.storage_offset() != changed.storage_offset()
    ):
        # The graph has counted this change, and saved what it needs for the backward after it.
        with torch.autograd.grad_mode._unsafe_preserve_version_counter(tensor):
            tensor.as_strided_(changed.shape, changed.stride(), changed.storage_offset())


def fake_from_tensor(mode: Any, tensor: torch.Tensor, expression: str, context: Any) -> torch.Tensor:
    """The fake tensor of an input tensor; ``context`` None: all its sizes are static."""
    tensor = plain(tensor)
    if context is None:
        return static_fake(mode, tensor, expression)
    # Creating a fake tensor runs Python in C++ constructors, which no exception of an interrupt may leave.
    with interrupts.deferred(), _mode_of_view(mode, tensor):
        return mode.from_tensor(tensor, source=NamedSource(expression), symbolic_context=context)


def static_fake(mode: Any, tensor: torch.Tensor, expression: str = "a tensor") -> torch.Tensor:
    """The fake tensor of a tensor whose sizes are constants.

    It has a source, since torch imports a class (0.2 s) for a tensor without one; a number gets none, as it would
    become a symbol.
    """
    source = NamedSource(expression) if tensor.dim() else None
    with interrupts.deferred(), _mode_of_view(mode, tensor):
        return mode.from_tensor(tensor, static_shapes=True, source=source)


def _mode_of_view(mode: Any, tensor: torch.Tensor) -> Any:
    """The mode under which the fake tensor of a view is created from its base's.

    Without the mode, torch imports DTensor (0.4 s) to check that the tensor is none.
    """
    return mode if tensor._is_view() else contextlib.nullcontext()


def number_in(shape_env: Any, fake: Any, tensor: torch.Tensor, expression: str) -> torch.SymInt | torch.SymFloat | None:
    """The symbol for the number in an input, which its fake tensor returns as ``item()``; None for other tensors.

    Only int64 and float64 mean the same in Python and in a tensor; ``item()`` of others is an unbacked symbol.
    """
    # On a GPU item() would wait for all work that was submitted so far.
    if type(tensor) is not torch.Tensor or tensor.dim() or tensor.device.type != "cpu":
        return None
    if tensor.dtype not in (torch.int64, torch.float64) or tensor.layout is not torch.strided:
        return None
    # Under a transform of torch.func the number is not readable.
    if torch._is_functional_tensor(tensor) or torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return None
    value = tensor.item()
    # The fake tensor stores the symbol, and ``item()`` returns it without reading data.
    if tensor.dtype is torch.int64:
        fake.item_memo = symbolic_int(shape_env, int(value), expression)
    elif math.isfinite(value):
        fake.item_memo = symbolic_float(shape_env, value, expression)
    return fake.item_memo


def fake_counterparts(tensors: Sequence[Any]) -> list[Any]:
    """Fake tensors with the present relations of real ones (views, leaves, one tensor twice)."""
    mode = fake_tensor().FakeTensorMode()
    return [static_fake(mode, each) for each in tensors]


def number_as_tensor(number: float) -> torch.Tensor:
    """A number as a tensor of full precision: float64 or int64."""
    return torch._as_tensor_fullprec(number)


def fake_scalar(mode: Any, kind: type) -> torch.Tensor:
    """A fake tensor with an unknown number."""
    with mode:
        return torch.empty((), dtype=torch.float64 if kind is float else torch.int64)


def fake_parameter(mode: Any, data: Any, requires_grad: bool) -> torch.nn.Parameter:
    """A parameter in the memory of another fake tensor."""
    with mode:
        return torch.nn.Parameter(data, requires_grad)


def same_sizes(left: Sequence[int | torch.SymInt], right: Sequence[int | torch.SymInt]) -> bool:
    """Return whether two lists of sizes are equal, without a guard that symbols are equal."""

    # As expressions: comparing symbols themselves would add a guard that they are equal.
    def plain(size: int | torch.SymInt) -> object:
        return size if isinstance(size, int) else size.node.expr

    return list(map(plain, left)) == list(map(plain, right))


def fake_number(mode: Any, number: torch.SymFloat) -> torch.Tensor:
    """A fake tensor whose ``item()`` is a given symbol."""
    with mode:
        fake = torch.empty((), dtype=torch.float64)
    fake.item_memo = number  # type: ignore[attr-defined]
    return fake


@contextmanager
def real_dispatch() -> Iterator[None]:
    """Run operators of the block as in eager mode, whatever modes are active, to create real tensors."""
    with (
        torch._C.DisableTorchFunction(),
        dispatch_modes()._disable_current_modes(),
        torch._C._DisablePythonDispatcher(),
    ):
        yield


@contextmanager
def real_tensors_allowed() -> Iterator[None]:
    """Context in which operators may combine fake tensors and real ones, which are constants."""
    mode = guards_context().detect_fake_mode()
    if mode is None:
        yield
        return
    allowed, mode.allow_non_fake_inputs = mode.allow_non_fake_inputs, True
    try:
        yield
    finally:
        mode.allow_non_fake_inputs = allowed
