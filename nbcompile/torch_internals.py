"""Every name of torch that is not public, in one place, each with its reason.

This is the only file that knows torch versions (2.11 to 2.13). What costs a
second to import is fetched on first use by a function; everything else is a
plain import.

In torch: nothing; each name's own file says what it is.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import logging
import math
import os
import re
import traceback
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import CodeType, ModuleType
from typing import Any, Literal

import torch
import torch._guards
import torch._logging._internal
import torch.fx
import torch.nn.attention
import torch.overrides
import torch.utils._device

# The frame hook (PEP 523) and the guard tree live in torch's C extension.
from torch._C._dynamo import eval_frame, guards

__all__ = [
    "aot_autograd",
    "eval_frame",
    "fake_tensor",
    "guards",
    "statically_true",
    "symbolic_shapes",
    "sympy_functions",
]


def fake_tensor() -> ModuleType:
    """FakeTensorMode: tensors without data. Its first use imports 0.9 s of torch."""
    return importlib.import_module("torch._subclasses.fake_tensor")


def has_effect(operator: torch._ops.OpOverload) -> bool:
    """Whether an operator does something beside its results (it prints, it raises what it found): never left out."""
    return bool(_effects().has_effects(operator))


@functools.cache
def _effects() -> ModuleType:
    """The operators that AOTAutograd keeps in their order; before torch 2.13 one that only raises is not known."""
    effects = importlib.import_module("torch._higher_order_ops.effects")
    raising = torch.ops.aten._linalg_check_errors.default
    if not effects.has_effects(raising):
        effects._register_effectful_op(raising, effects._EffectType.ORDERED)
    return effects


def symbolic_shapes() -> ModuleType:
    """ShapeEnv: symbolic sizes, their ranges and the guards on them."""
    return importlib.import_module("torch.fx.experimental.symbolic_shapes")


def aot_autograd() -> ModuleType:
    """AOTAutograd: functionalisation, joint graph, partitioning. 1 s to import."""
    _effects()
    return importlib.import_module("torch._functorch.aot_autograd")


def sympy_functions() -> ModuleType:
    """FloorDiv, Mod, ...: the vocabulary in which ShapeEnv writes symbolic sizes. Imports SymPy (0.2 s)."""
    return importlib.import_module("torch.utils._sympy.functions")


def guards_context() -> ModuleType:
    """TracingContext: what AOTAutograd learns about the graph is left there (its ``fw_metadata``)."""
    return importlib.import_module("torch._guards")


def partitioners() -> ModuleType:
    """How a joint graph is cut into forward and backward (min-cut, or as eager would save)."""
    return importlib.import_module("torch._functorch.partitioners")


def functorch_config() -> ModuleType:
    """AOTAutograd's settings: when the backward graph is compiled."""
    return importlib.import_module("torch._functorch.config")


def proxy_tensor() -> ModuleType:
    """make_fx: record the ATen operators that a function runs."""
    return importlib.import_module("torch.fx.experimental.proxy_tensor")


def register_hook() -> Any:
    """The operator that hangs a hook, a graph, on the gradient of a value (torch 2.13)."""
    return importlib.import_module("torch._higher_order_ops.register_hook").register_hook_op


def _lower_version_count_by_1(tensor: torch.Tensor) -> torch.Tensor:
    version = max(tensor._version - 1, 0)
    torch._C._autograd._unsafe_set_version_counter((tensor,), (version,))
    return tensor


unsee_last_write = _lower_version_count_by_1
"""What wrote to it last does not count for autograd, as ``x.data = y`` does not. In graphs it has torch's name."""


def numpy_twins(namespace: str) -> ModuleType:
    """NumPy's functions on tensors: ``torch._numpy``, or a part of it (``.linalg``). Imports NumPy."""
    return importlib.import_module(f"torch._numpy{namespace}")


def decompositions() -> ModuleType:
    """Operators written in terms of simpler operators, as torch registers them."""
    return importlib.import_module("torch._decomp")


def lazy_graph_module() -> ModuleType:
    """GraphModules whose Python code is compiled when it is first run: ours mostly never is."""
    return importlib.import_module("torch.fx._lazy_graph_module")


def new_shape_env(scalar_outputs: bool, output_shapes: bool, on_guard: Callable[[Any], None]) -> Any:
    """Where symbolic sizes of one frame are made and their guards are collected.

    Args:
        scalar_outputs: numbers that only the run knows (``item()``) are symbols, too.
        output_shapes: so are sizes that only the run knows (``nonzero()``).
        on_guard: a method that is told each condition that is assumed, at the moment it is.
    """
    _begin_structured_trace()
    # A RecursionError on the way out of a "with" of torch's can leave guards suppressed in the whole thread.
    symbolic_shapes().TLS.suppress_guards = False
    made = symbolic_shapes().ShapeEnv(allow_scalar_outputs=scalar_outputs, allow_dynamic_output_shape_ops=output_shapes)
    # ShapeEnv logs each guard here, with the user's line as torch.compile knows it; ours is known to the tracer.
    # A graph keeps its ShapeEnv, which may not keep the tracer, and with it the call that was traced.
    listener = weakref.WeakMethod(on_guard)

    def tell(prefix: str, condition: Any, forcing_spec: bool) -> None:
        alive = listener()
        if alive is not None:
            alive(condition)

    made._log_guard = tell
    # With each symbol torch keeps the frame that asked for it, for its logs; the files that it passes over on the way
    # there include its own tracer's and its code generator's, which would be imported for their names.
    if _is_told_without_a_frame():
        made._get_user_frame = lambda: None
    return made


@functools.cache
def _is_told_without_a_frame() -> bool:
    """Whether torch can print where a guard comes from if it kept no frame (2.11 cannot)."""
    try:
        return bool(str(torch._guards.SLoc(None, None)))
    except AttributeError:
        return False


def _begin_structured_trace() -> None:
    # The first record finds out that nobody asked for a trace (TORCH_TRACE), and no later one is made, until somebody
    # sets torch's logs. Torch's own first one comes with a stack, for whose C++ part torch's own code generator would
    # be imported; or with a fake tensor of a subclass, which cannot be printed.
    torch._logging._internal.trace_structured("artifact", lambda: {"name": "nbcompile"}, suppress_context=True)


def new_fake_mode(shape_env: Any) -> Any:
    """The mode in which one frame's fake tensors live."""
    return fake_tensor().FakeTensorMode(shape_env=shape_env, allow_non_fake_inputs=False)


def with_unknown_sizes(values: Sequence[Any]) -> list[Any]:
    """Example inputs as fake tensors whose mode makes symbols of sizes and numbers that only the run knows."""
    fake_mode = guards_context().detect_fake_mode(values)
    if fake_mode is None:
        fake_mode = new_fake_mode(symbolic_shapes().ShapeEnv())
        values = [static_fake(fake_mode, each) if isinstance(each, torch.Tensor) else each for each in values]
    known = fake_mode.shape_env.settings
    fake_mode.shape_env.settings = dataclasses.replace(
        known, allow_scalar_outputs=True, allow_dynamic_output_shape_ops=True
    )
    return list(values)


class NamedSource(torch._guards.Source):
    """What ShapeEnv wants to know of an input: the expression it is named after.

    Our own sources stay outside of torch; this one only carries their text.
    """

    def __init__(self, expression: str) -> None:
        self.__dict__["name"] = expression

    @property
    def _name_template(self) -> str:
        return str(self.__dict__["name"])

    @property
    def guard_source(self) -> Any:
        return torch._guards.GuardSource.LOCAL

    def __hash__(self) -> int:
        return hash(self.__dict__["name"])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamedSource) and other.__dict__["name"] == self.__dict__["name"]


@dataclass(frozen=True, slots=True)
class SymbolicDim:
    """How one dim of a tensor input becomes a size and a stride."""

    size: Literal["static", "dynamic", "duck", "unbacked"] = "static"
    """``dynamic``: a symbol of its own; ``duck``: equal sizes share one; ``unbacked``: one without a known value."""
    stride_varies: bool = False
    """False: the stride follows from the sizes, or is a constant."""
    promised: bool = False
    """The user said that it is dynamic: specialising it is an error."""
    least: int | None = None
    most: int | None = None
    """The bounds that the user gave."""
    shape_id: str | None = None
    """Unbacked dims with the same one are equal."""


def symbolic_context(
    dims: Sequence[SymbolicDim], expression: str, base: Any, inside: dict[str, Any] | None = None
) -> Any:
    """The same for a whole tensor; it remembers its symbols.

    Args:
        dims: of the tensor itself.
        expression: where it comes from.
        base: the context of the tensor that it is a view of.
        inside: of a tensor that wraps others, their contexts.
    """
    shapes = symbolic_shapes()
    of_unbacked: dict[str, Any] = {}
    if "unbacked_bounds" in shapes.StatefulSymbolicContext.__dataclass_fields__:  # since torch 2.12
        unbacked = [(dim, each) for dim, each in enumerate(dims) if each.size == "unbacked"]
        of_unbacked["shape_ids"] = {dim: each.shape_id for dim, each in unbacked if each.shape_id} or None
        of_unbacked["unbacked_bounds"] = {
            dim: (each.least, each.most) for dim, each in unbacked if (each.least, each.most) != (None, None)
        } or None
    kinds = shapes.DimDynamic
    sizes = {"static": kinds.STATIC, "dynamic": kinds.DYNAMIC, "duck": kinds.DUCK, "unbacked": kinds.UNBACKED}
    made = shapes.StatefulSymbolicContext
    if inside is not None:
        made = functools.partial(shapes.SubclassSymbolicContext, inner_contexts=inside)
    return made(
        dynamic_sizes=[sizes[each.size] for each in dims],
        dynamic_strides=[kinds.DYNAMIC if each.stride_varies else kinds.INFER_STRIDE for each in dims],
        constraint_sizes=[_constraint(each) for each in dims],
        constraint_strides=[None for _ in dims],
        view_base_context=base,
        tensor_source=NamedSource(expression),
        **of_unbacked,
    )


def _constraint(dim: SymbolicDim) -> Any:
    shapes = symbolic_shapes()
    if not dim.promised:
        return None
    if dim.least is None and dim.most is None:
        return shapes.RelaxedUnspecConstraint(warn_only=False)
    ranges = importlib.import_module("torch.utils._sympy.value_ranges")  # the type that ShapeEnv keeps bounds in
    infinity = importlib.import_module("torch.utils._sympy.numbers").int_oo
    least, most = dim.least or 0, infinity if dim.most is None else dim.most
    return shapes.StrictMinMaxConstraint(vr=ranges.ValueRanges(lower=least, upper=most), warn_only=False)


def is_wrapper(value: object) -> bool:
    """Whether a tensor (or a class of tensors) wraps others that it can be taken apart into."""
    if isinstance(value, type):
        return bool(dispatch_modes().is_traceable_wrapper_subclass_type(value))
    return bool(dispatch_modes().is_traceable_wrapper_subclass(value))


def dispatches(cls: type) -> bool:
    """Whether operators on tensors of a class run code of the class."""
    return getattr(cls, "__torch_dispatch__", None) is not torch.Tensor.__torch_dispatch__


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of a user's class as one of torch's own (the same memory); any other one as it is."""
    if type(tensor) in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer) or dispatches(type(tensor)):
        return tensor
    with torch._C.DisableTorchFunctionSubclass():
        return tensor.detach().as_subclass(torch.Tensor).requires_grad_(tensor.requires_grad)


def is_overriding(value: object) -> bool:
    """Whether a tensor's class may answer for functions of torch."""
    own = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
    return isinstance(value, torch.Tensor) and type(value) not in own and not dispatches(type(value))


def without_overrides(compiled: Any) -> Any:
    """A graph that runs on plain tensors and outside of function modes: ``__torch_function__`` was traced through."""

    def run(*arguments: Any) -> Any:
        with torch._C.DisableTorchFunctionSubclass(), without_function_modes():
            given = [each.as_subclass(torch.Tensor) if is_overriding(each) else each for each in arguments]
            results = compiled(*given)
        inputs = {id(plain_one): original for plain_one, original in zip(given, arguments, strict=True)}
        return tuple(inputs.get(id(each), each) for each in results)

    return run


def fake_from_tensor(mode: Any, tensor: torch.Tensor, expression: str, context: Any) -> torch.Tensor:
    """The fake twin of an input tensor; ``context`` None: all its sizes are static."""
    tensor = plain(tensor)
    if context is None:
        return static_fake(mode, tensor, expression)
    return mode.from_tensor(tensor, source=NamedSource(expression), symbolic_context=context)


def static_fake(mode: Any, tensor: torch.Tensor, expression: str = "a tensor") -> torch.Tensor:
    """The fake twin of a tensor whose sizes are constants.

    It is named, as torch imports a class (0.2 s) for what has no name; but a number with a name would get a symbol.
    """
    return mode.from_tensor(tensor, static_shapes=True, source=NamedSource(expression) if tensor.dim() else None)


def number_in(shape_env: Any, fake: Any, tensor: torch.Tensor, expression: str) -> torch.SymInt | torch.SymFloat | None:
    """The symbol for the number that an input holds, which its fake gives as ``item()``; None for other tensors.

    Only int64 and float64 mean the same in Python and in a tensor; what ``item()`` of others gives is unbacked.
    """
    if type(tensor) is not torch.Tensor or tensor.dim() or tensor.device.type != "cpu":
        return None
    if tensor.dtype not in (torch.int64, torch.float64) or tensor.layout is not torch.strided:
        return None
    if torch._is_functional_tensor(tensor) or torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return None
    value = tensor.item()
    if tensor.dtype is torch.int64:
        fake.item_memo = symbolic_int(shape_env, int(value), expression)
    elif math.isfinite(value):
        fake.item_memo = symbolic_float(shape_env, value, expression)
    return fake.item_memo


def fake_twins(tensors: Sequence[Any]) -> list[Any]:
    """Fake tensors, related as real ones are now (views, leaves, one tensor twice), whatever becomes of those."""
    mode = fake_tensor().FakeTensorMode()
    return [static_fake(mode, each) for each in tensors]


def symbolic_int(shape_env: Any, value: int, expression: str) -> torch.SymInt:
    """An int input as a symbol of its own (not specialised for 0 and 1)."""
    kind = symbolic_shapes().DimDynamic.DYNAMIC
    return shape_env.create_unspecified_symint_and_symbol(value, NamedSource(expression), kind)


def number_as_tensor(number: float) -> torch.Tensor:
    """A number as a tensor of full precision: float64 or int64."""
    return torch._as_tensor_fullprec(number)


def symbolic_float(shape_env: Any, value: float, expression: str) -> torch.SymFloat:
    """A float input as a symbol of its own."""
    source = NamedSource(expression)
    symbol = shape_env.create_unspecified_symbol(value, source, symbolic_shapes().DimDynamic.DYNAMIC)
    return shape_env.create_symfloatnode(symbol, hint=value, source=source)


def fake_scalar(mode: Any, kind: type) -> torch.Tensor:
    """A fake tensor with a number that nothing is known of."""
    with mode:
        return torch.empty((), dtype=torch.float64 if kind is float else torch.int64)


def allow_scalar_outputs(shape_env: Any, allowed: bool = True) -> bool:
    """Let ``item()`` of a fake tensor be a new symbol from here on; what held before."""
    before: bool = shape_env.settings.allow_scalar_outputs
    shape_env.settings = dataclasses.replace(shape_env.settings, allow_scalar_outputs=allowed)
    return before


@contextlib.contextmanager
def scalar_outputs(shape_env: Any) -> Iterator[None]:
    """The same for a while."""
    before = allow_scalar_outputs(shape_env)
    try:
        yield
    finally:
        allow_scalar_outputs(shape_env, before)


def fake_number(mode: Any, number: torch.SymFloat) -> torch.Tensor:
    """A fake tensor whose ``item()`` is a given symbol."""
    with mode:
        fake = torch.empty((), dtype=torch.float64)
    fake.item_memo = number  # type: ignore[attr-defined]
    return fake


def note_unbacked_symbols(shape_env: Any, node: torch.fx.Node, example: object) -> bool:
    """Write on a node which symbols its result is the first to have: sizes and numbers that only the run knows.

    False: there are new symbols that the result does not show, so that nothing could say what they are.
    """
    if shape_env.pending_fresh_unbacked_symbols:
        try:
            bindings = symbolic_shapes().compute_unbacked_bindings(shape_env, example)
        except symbolic_shapes().PendingUnbackedSymbolNotFound:
            shape_env.pending_fresh_unbacked_symbols.clear()
            return False
        if bindings:
            node.meta["unbacked_bindings"] = bindings
    return True


def insert_runtime_asserts(module: torch.fx.GraphModule, shape_env: Any, name: str) -> None:
    """Say each symbolic number once, in terms of the inputs; assert in the graph what only the run can check."""
    with torch._C._EnableTorchFunction():  # functions such as torch.sym_sum are given nodes of the graph
        importlib.import_module("torch.fx.passes.runtime_assert").insert_deferred_runtime_asserts(
            module, shape_env, name
        )


def is_size_accessor(node: torch.fx.Node) -> bool:
    """Whether a node only reads a size, a stride or an offset."""
    return bool(symbolic_shapes().is_accessor_node(node))


def free_symbols(value: object) -> set[Any]:
    """The symbols that a tensor's sizes, or a symbolic number, mention."""
    return set(symbolic_shapes().free_symbols(value))


def symbols_in_order(value: object) -> list[Any]:
    """The symbols of a tensor's sizes, strides and offset (or of a symbolic number), in the order of mention."""
    if isinstance(value, torch.Tensor):
        strided = (*value.stride(), value.storage_offset()) if value.layout is torch.strided else ()
        numbers: tuple[object, ...] = (*value.shape, *strided)
    else:
        numbers = (value,)
    found: dict[Any, None] = {}
    for number in numbers:
        if isinstance(number, torch.SymInt):
            found.update(dict.fromkeys(sorted(number.node.expr.free_symbols, key=str)))
    return list(found)


def own_symbol(value: object) -> Any:
    """The symbol that a symbolic input was made as, also where it turned out to equal something else."""
    return value.node._expr if isinstance(value, (torch.SymInt, torch.SymFloat)) else None


def is_limit_of_tracing(error: BaseException) -> bool:
    """Whether fake tensors cannot answer what a graph asks of the data, or torch's own code fails on the way.

    What an operator says about its arguments (RuntimeError, TypeError, ...) is no such limit: it is the user's.
    """
    fake = fake_tensor()
    about_data = (
        fake.DataDependentOutputException,
        fake.DynamicOutputShapeException,
        fake.UnsupportedFakeTensorException,
    )
    about_sizes = symbolic_shapes().GuardOnDataDependentSymNode
    own = (AssertionError, AttributeError, KeyError, RecursionError)
    return isinstance(error, (*about_data, about_sizes, *own))


def floats_to_be_constant(error: BaseException) -> set[str] | None:
    """The names of symbolic floats without which AOTAutograd asks to be called again, as they cannot become tensors.

    Its pass does not ask twice for a name (a float out of ``x.item()`` is none that could be constant) until the set,
    which is one for all functions, is cleared.
    """
    if type(error).__name__ != "TensorifyScalarRestartAnalysis":
        return None
    for frame, _ in traceback.walk_tb(error.__traceback__):
        keeper = frame.f_globals.get("TensorifyState")
        if keeper is not None:
            return keeper.force_specializations
    return set()


_BOUNDS = re.compile(r"^(\S+) <= (.+) and \2 <= (\S+)$")


def is_constraint_violation(error: BaseException) -> bool:
    """Whether a dim that the user marked as dynamic had to be a constant."""
    return isinstance(error, symbolic_shapes().ConstraintViolationError)


def symbol_facts(shape_env: Any) -> dict[str, tuple[tuple[str, ...], str, str]]:
    """Of every symbol of a frame: the expressions that it is read from, its value ("" if unbacked), its range."""
    facts = {}
    for symbol, bounds in shape_env.var_to_range.items():
        sources = tuple(each.name for each in shape_env.var_to_sources.get(symbol, ()))
        hint = shape_env.backed_var_to_val.get(symbol)
        upper = str(bounds.upper)
        facts[str(symbol)] = sources, "" if hint is None else str(hint), f"[{bounds.lower}, {upper}]"
    return facts


def shape_expressions(shape_env: Any, inputs: Sequence[tuple[object, str, Any]]) -> list[tuple[str, str]]:
    """The guards on symbolic sizes as Python texts over ``L['x'].size()[0]``; [] if nothing is symbolic.

    Beside each stands torch's note why there is such a guard, where it is torch that wants it, else "".

    Args:
        shape_env: where they were collected.
        inputs: value, expression and symbolic context of every input.

    Raises:
        ConstraintViolationError: torch's, for a marked dim.
    """
    helpers = shape_env.produce_guards_verbose(
        [value for value, _, _ in inputs],
        [NamedSource(expression) for _, expression, _ in inputs],
        input_contexts=[context for _, _, context in inputs],
        langs=("python", "verbose_python"),
    )
    texts, told = (each.exprs for each in helpers)
    return [(_BOUNDS.sub(r"\1 <= \2 <= \3", text), _note(more)) for text, more in zip(texts, told, strict=True)]


def _note(told: str) -> str:
    comment = told.rpartition("  # ")[2]
    return comment if comment.startswith("duck sizing") else ""


def is_data_dependent_guard(error: BaseException) -> bool:
    """Whether a size that only the run knows had to be compared."""
    return isinstance(error, symbolic_shapes().GuardOnDataDependentSymNode)


def needs_data(error: BaseException) -> bool:
    """Whether an operator of C++ looked for the elements of a fake tensor, which has none."""
    return isinstance(error, RuntimeError) and "its data is not allocated yet" in str(error)


# Cache entries live in regions of a code object's list. In one of our own they are out of sight of a real
# torch.compile, which otherwise reads every entry of the list as if it were its own when it recompiles.
# Before torch 2.13 there are no regions: all entries stand in one list.
OUR_REGION = 1 << 30
set_region = getattr(eval_frame, "set_eval_frame_isolate_recompiles_id", lambda _region: -1)
get_region = getattr(eval_frame, "get_eval_frame_isolate_recompiles_id", lambda: -1)


def cache_entries(code: CodeType) -> list[Any]:
    """The ``_CacheEntry`` objects of one code object, last used first: those of the region that is active, or ours."""
    in_region = getattr(eval_frame, "_get_cache_entries_for_region", None)
    if in_region is None:
        return list(eval_frame._debug_get_cache_entry_list(code))
    return list(in_region(code, max(get_region(), OUR_REGION)))


def hide_from_hook(code: CodeType) -> None:
    """Run frames of this code, and all that they call, without the frame hook: they are compiled already."""
    skip = eval_frame._FrameAction.SKIP
    eval_frame.set_code_exec_strategy(code, eval_frame._FrameExecStrategy(skip, skip))


def promise(condition: Any) -> bool:
    """Whether a condition on symbols holds: guarded where that is known, and for the run to assert where it is not."""
    asked = condition if isinstance(condition, torch.SymBool) else condition != 0
    return bool(symbolic_shapes().expect_true(asked))


def statically_true(shape_env: Any, condition: Any) -> bool:
    """Whether the guards made so far imply a condition on symbolic sizes (asks ShapeEnv, makes no guard)."""
    return bool(shape_env._maybe_evaluate_static(condition) == True)  # noqa: E712 - a SymPy truth value


def waits_for_collectives(metadata: Any) -> bool:
    """Whether some input of a graph is the result of a collective that is still on its way (from torch 2.12 on)."""
    return bool(getattr(metadata, "act_input_indices", ()))


def is_trained(output: Any) -> bool:
    """Whether gradients come for an output of a graph; from torch 2.13 on a view made under no_grad has none."""
    return bool(getattr(output, "requires_grad_for_backward", output.requires_grad))


def dispatch_modes() -> ModuleType:
    """_disable_current_modes: compilers are called inside a trace, where real tensors must stay real."""
    return importlib.import_module("torch.utils._python_dispatch")


def shape_guard_names() -> dict[str, Any]:
    """What ShapeEnv's guard expressions may name beside ``L`` and ``G``."""
    return dict(symbolic_shapes().SYMPY_INTERP)


def function_modes() -> list[object]:
    """The torch function modes that are active, outermost first (there is no public way to ask)."""
    return list(torch.overrides._get_current_function_mode_stack())


def device_constructors() -> set[object]:
    """The functions that take the default device: ``torch.ones``, ``torch.tensor``, ..."""
    made: set[object] = torch.utils._device._device_constructors()
    return made


def function_mode_at(index: int) -> object:
    """The active mode at a place of the stack; None where there is none."""
    modes = function_modes()
    return modes[index] if index < len(modes) else None


@contextmanager
def without_function_modes() -> Iterator[None]:
    """No function mode is active meanwhile: what is traced through, compiled or run as a graph has asked them."""
    modes = function_modes()
    for _ in modes:
        torch._C._pop_torch_function_stack()
    try:
        yield
    finally:
        for mode in modes:
            torch._C._push_on_torch_function_stack(mode)


# torch.func's transforms are a stack of levels in C++; what steps of them were traced before a trace was given up
# must not stay.


def in_transform() -> bool:
    """Whether the process is inside of vmap, grad or another transform of torch.func."""
    return bool(torch._C._functorch.get_dynamic_layer_stack_depth())


def transform_state() -> tuple[Any, ...]:
    """How deep the process is inside of torch.func's transforms, and what they switched off."""
    return (
        torch._C._functorch.get_dynamic_layer_stack_depth(),
        torch._C._functorch.get_inplace_requires_grad_allowed(),
        torch._C._autograd._saved_tensors_hooks_get_disabled_error_message(),
        torch._C._is_fwd_grad_enabled(),
        torch.autograd.forward_ad._current_level,
    )


def restore_transforms(state: tuple[Any, ...]) -> None:
    """Leave the transforms that were entered since."""
    depth, in_place, hooks_error, forward_mode, level = state
    if level < 0:
        _leave_dual_level()
    if state == transform_state():
        return
    _leave_layers(depth)
    torch._C._functorch.set_inplace_requires_grad_allowed(in_place)
    if hooks_error is None:
        torch._C._autograd._saved_tensors_hooks_enable()
    torch._C._set_fwd_grad_enabled(forward_mode)


def _leave_layers(depth: int) -> None:
    layers = torch._C._functorch
    if not torch.__version__.startswith("2.11."):
        layers.pop_dynamic_layer_stack_and_undo_to_depth(depth)
        return
    # There it pops each level twice.
    kinds = layers.TransformType
    leave = {
        kinds.Grad: layers._grad_decrement_nesting,
        kinds.Jvp: layers._jvp_decrement_nesting,
        kinds.Functionalize: layers._func_decrement_nesting,
        kinds.Vmap: layers._vmap_decrement_nesting,
    }
    while layers.get_dynamic_layer_stack_depth() > depth:
        leave[layers.peek_interpreter_stack().key()]()


def _leave_dual_level() -> None:
    """There is at most one level of forward-mode AD; whether it is entered, only entering it tells."""
    with contextlib.suppress(RuntimeError):
        torch._C._enter_dual_level()
    torch._C._exit_dual_level(level=0)


def attention_backends() -> tuple[list[Any], list[int]]:
    """Which implementations of attention are allowed, and which is preferred."""
    return torch.nn.attention._cur_sdpa_kernel_backends(), torch._C._get_sdp_priority_order()


def set_attention_backends(state: tuple[list[Any], list[int]]) -> None:
    """Allow just these."""
    if state != attention_backends():
        torch.nn.attention._sdpa_kernel(state[0])
        torch._C._set_sdp_priority_order(state[1])


# -- functions that are called as one node -----------------------------------------------------


@dataclass(frozen=True, slots=True)
class PytreeNode:
    """How objects of a registered class are taken apart."""

    flatten: Any
    unflatten: Any
    constant: bool = False
    fields: tuple[str, ...] | None = None
    """Of a dataclass."""


def pytree_node(cls: type) -> PytreeNode | None:
    """How a class was registered with ``torch.utils._pytree``; None if it was not."""
    pytree = importlib.import_module("torch.utils._pytree")
    if cls in getattr(pytree, "CONSTANT_NODES", ()):
        return PytreeNode(None, None, constant=True)
    found = pytree.SUPPORTED_NODES.get(cls)
    if found is None:
        return None
    fields = tuple(each.name for each in dataclasses.fields(cls)) if dataclasses.is_dataclass(cls) else None
    return PytreeNode(found.flatten_fn, found.unflatten_fn, fields=fields)


def module_tensors(module: torch.nn.Module) -> list[str]:
    """The names of a module's parameters and buffers, each once."""
    return [name for name, _ in (*module.named_parameters(), *module.named_buffers())]


@contextmanager
def parameters_set(values: Sequence[Any], modules: Sequence[tuple[torch.nn.Module, dict[str, int]]]) -> Iterator[None]:
    """Inside, each module has the given tensors for its parameters and buffers."""
    set_tensors = importlib.import_module("torch.nn.utils.stateless")._reparametrize_module
    with ExitStack() as stack:
        for module, places in modules:
            stack.enter_context(set_tensors(module, {name: values[index] for name, index in places.items()}))
        yield


@contextmanager
def real_tensors_allowed() -> Iterator[None]:
    """Inside, fake tensors may meet real ones, which are constants (tensors that a function closes over)."""
    mode = guards_context().detect_fake_mode()
    if mode is None:
        yield
        return
    allowed, mode.allow_non_fake_inputs = mode.allow_non_fake_inputs, True
    try:
        yield
    finally:
        mode.allow_non_fake_inputs = allowed


def call_leaf(
    real: Any, fake: Any, hook: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], mutated: frozenset[str]
) -> Any:
    """Call a function through torch's higher-order operator for leaf functions (torch 2.13).

    ``hook``, if any, is called with the gradients of all inputs once they are known.
    """
    leaf = importlib.import_module("torch._higher_order_ops.invoke_leaf_function")
    pytree = importlib.import_module("torch.utils._pytree")
    flat = pytree.tree_flatten((arguments, keywords), is_leaf=lambda each: isinstance(each, torch.nn.Module))[0]
    modules = list({id(each): each for each in flat if isinstance(each, torch.nn.Module)}.values())
    indices = leaf.store_makefx_modules(modules)
    states = leaf.convert_modules_to_states(
        (arguments, keywords), {id(each): index for each, index in zip(modules, indices, strict=True)}
    )
    inputs, structure = pytree.tree_flatten(states)
    returned: list[Any] = [None]
    wrapped = list(map(leaf._LeafCallable, leaf.make_leaf_function_wrappers(real, fake, returned)))
    if hook is not None:
        wrapped[0]._leaf_hook_real_fn, wrapped[0]._leaf_hook_fake_fn = hook, lambda *gradients: None
    mutated_places = leaf._resolve_mutated_flat_indices(real, mutated, len(inputs), structure) if mutated else ""
    outputs = leaf.invoke_leaf_function(*wrapped, structure, mutated_places, *inputs)
    return pytree.tree_unflatten(outputs, returned[0])


# -- logs ------------------------------------------------------------------------------------


def artifact_logger(artifact: str) -> logging.Logger:
    """The logger ``nbcompile.__<artifact>``: a log of torch's, which TORCH_LOGS and ``set_logs`` switch on."""
    logs = torch._logging._internal
    if "nbcompile" not in logs.log_registry.log_alias_to_log_qnames:
        ours = logging.getLogger("nbcompile")
        logs.log_registry.register_log("nbcompile", "nbcompile")
        # What torch did for its own logs when it was imported.
        ours.setLevel(logging.WARNING)
        ours.propagate = False
        logs._setup_handlers(logging.StreamHandler, ours)
        if file := os.environ.get(logs.LOG_OUT_ENV_VAR):
            logs._setup_handlers(lambda: logging.FileHandler(file), ours)
    return logs.getArtifactLogger("nbcompile", artifact)


def set_logs(**logs: Any) -> None:
    """``torch._logging.set_logs``."""
    torch._logging._internal.set_logs(**logs)


@contextmanager
def compiling(compile_id: str) -> Iterator[None]:
    """Inside, torch's logs say which frame they are about."""
    frame, _, entry = compile_id.partition("/")
    context = torch._guards.CompileContext(torch._guards.CompileId(frame_id=int(frame), frame_compile_id=int(entry)))
    with torch._guards.compile_context(context):
        yield
