"""Symbolic sizes and numbers: how they are created, their values and ranges, and the guards on them.

In torch: torch/fx/experimental/symbolic_shapes.py.
Read next: nbcompile/torch_internals/hooks.py
"""

from __future__ import annotations

import functools
import importlib
import re
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch._guards
import torch._logging._internal
import torch.fx

from nbcompile.torch_internals.modules import fake_tensor, symbolic_shapes


class NamedSource(torch._guards.Source):
    """A source as ShapeEnv expects it: the expression that an input is named after.

    Sources of nbcompile stay outside of torch; this one only contains their text.
    """

    def __init__(self, expression: str) -> None:
        self.__dict__["name"] = expression

    def of_attribute(self, name: str) -> NamedSource:
        """The address of an attribute of the input."""
        return NamedSource(f"{self.__dict__['name']}.{name}")

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
    """The size and stride that one dim of a tensor input gets."""

    size: Literal["static", "dynamic", "duck", "unbacked"] = "static"
    """``dynamic``: a symbol of its own; ``duck``: equal sizes share one; ``unbacked``: one without a known value."""
    stride_varies: bool = False
    """False: the stride follows from the sizes, or is a constant."""
    marked: bool = False
    """True if the user marked the dim as dynamic: specialising it is an error."""
    least: int | None = None
    most: int | None = None
    """The bounds that the user set; None: no bound."""
    shape_id: str | None = None
    """Name that equal unbacked dims share."""


def symbolic_context(
    dims: Sequence[SymbolicDim], expression: str, base: Any, inside: dict[str, Any] | None = None
) -> Any:
    """The sizes and strides that a whole tensor gets, for ShapeEnv; the context stores its symbols.

    Args:
        dims: of the tensor itself.
        expression: where it comes from.
        base: the context of the tensor that it is a view of.
        inside: of a tensor that wraps others, their contexts.
    """
    shapes = symbolic_shapes()
    kinds = shapes.DimDynamic
    sizes = {"static": kinds.STATIC, "dynamic": kinds.DYNAMIC, "duck": kinds.DUCK, "unbacked": kinds.UNBACKED}
    context_class = shapes.StatefulSymbolicContext
    if inside is not None:
        context_class = functools.partial(shapes.SubclassSymbolicContext, inner_contexts=inside)
    # INFER_STRIDE: a stride that follows from the sizes is an expression of their symbols. A symbol of
    # its own would leave open whether the tensor is dense: each check of that would be a guard.
    return context_class(
        dynamic_sizes=[sizes[each.size] for each in dims],
        dynamic_strides=[kinds.DYNAMIC if each.stride_varies else kinds.INFER_STRIDE for each in dims],
        constraint_sizes=[_constraint(each) for each in dims],
        constraint_strides=[None for _ in dims],
        view_base_context=base,
        tensor_source=NamedSource(expression),
        **_of_unbacked(dims),
    )


def _of_unbacked(dims: Sequence[SymbolicDim]) -> dict[str, Any]:
    """The arguments of a context about unbacked dimensions: shared names and bounds, by dimension."""
    if "unbacked_bounds" not in symbolic_shapes().StatefulSymbolicContext.__dataclass_fields__:  # before torch 2.12
        return {}
    unbacked = {at: dim for at, dim in enumerate(dims) if dim.size == "unbacked"}
    bounds = {at: (dim.least, dim.most) for at, dim in unbacked.items()}
    return {
        "shape_ids": {at: dim.shape_id for at, dim in unbacked.items() if dim.shape_id} or None,
        "unbacked_bounds": {at: pair for at, pair in bounds.items() if pair != (None, None)} or None,
    }


def _constraint(dim: SymbolicDim) -> Any:
    shapes = symbolic_shapes()
    if not dim.marked:
        return None
    if dim.least is None and dim.most is None:
        return shapes.RelaxedUnspecConstraint(warn_only=False)
    ranges = importlib.import_module("torch.utils._sympy.value_ranges")  # the type that ShapeEnv keeps bounds in
    infinity = importlib.import_module("torch.utils._sympy.numbers").int_oo
    least, most = dim.least or 0, infinity if dim.most is None else dim.most
    return shapes.StrictMinMaxConstraint(vr=ranges.ValueRanges(lower=least, upper=most), warn_only=False)


def symbolic_int(shape_env: Any, value: int, expression: str) -> torch.SymInt:
    """An int input as a symbol of its own (not specialised for 0 and 1)."""
    kind = symbolic_shapes().DimDynamic.DYNAMIC
    return shape_env.create_unspecified_symint_and_symbol(value, NamedSource(expression), kind)


def symbolic_float(shape_env: Any, value: float, expression: str) -> torch.SymFloat:
    """A float input as a symbol of its own."""
    source = NamedSource(expression)
    symbol = shape_env.create_unspecified_symbol(value, source, symbolic_shapes().DimDynamic.DYNAMIC)
    return shape_env.create_symfloatnode(symbol, hint=value, source=source)


def example_of(size: int | torch.SymInt, unknown: int = 1) -> int:
    """The value of a size when the graph was captured, without a guard that it stays so; ``unknown`` if it has none."""
    if isinstance(size, torch.SymInt):
        hint = size.node.hint
        return unknown if hint is None else int(hint or 1)
    return size


def example_symbols(size: int | torch.SymInt) -> dict[str, int]:
    """The symbols of a size, and their values when the graph was captured; without unbacked ones."""
    if not isinstance(size, torch.SymInt):
        return {}
    values = size.node.shape_env.backed_var_to_val
    return {symbol.name: int(values[symbol]) for symbol in size.node.expr.free_symbols if symbol in values}


def is_unbacked(size: object) -> bool:
    """True if a size is unbacked: known only at run time."""
    return isinstance(size, torch.SymInt) and size.node.hint is None


def is_size_accessor(node: torch.fx.Node) -> bool:
    """True if a node only reads a size, a stride or an offset."""
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


def guard_on_memory_format(tensor: torch.Tensor) -> None:
    """Compute the memory format of a result with symbolic sizes, as make_fx does for each node that it traces.

    The computation adds guards: without them a trace would be valid for more sizes than AOTAutograd's.
    """
    if any(isinstance(size, torch.SymInt) for size in tensor.shape):
        importlib.import_module("torch.fx.passes.shape_prop")._extract_tensor_metadata(tensor)


def own_symbol(value: object) -> Any:
    """The symbol that a symbolic input was created as, even if it is equal to another one."""
    return value.node._expr if isinstance(value, (torch.SymInt, torch.SymFloat)) else None


def is_limit_of_tracing(error: BaseException) -> bool:
    """True if a graph needs the data of fake tensors, or torch's own code fails on them.

    An operator's error about its arguments (RuntimeError, TypeError, ...) is no such limit: it is the program's.
    """
    fake = fake_tensor()
    about_data = (fake.DataDependentOutputException, fake.DynamicOutputShapeException)
    limits = (*about_data, fake.UnsupportedFakeTensorException, symbolic_shapes().GuardOnDataDependentSymNode)
    own = (AssertionError, AttributeError, KeyError, RecursionError)
    return isinstance(error, (*limits, *own))


def floats_to_be_constant(error: BaseException) -> set[str] | None:
    """The names of symbolic floats without which AOTAutograd must be called again, since they cannot become tensors.

    AOTAutograd's pass requests each name once (a float from ``x.item()`` can never be constant), until the set, which
    all functions share, is cleared.
    """
    if type(error).__name__ != "TensorifyScalarRestartAnalysis":
        return None
    for frame, _ in traceback.walk_tb(error.__traceback__):
        keeper = frame.f_globals.get("TensorifyState")
        if keeper is not None:
            return keeper.force_specializations
    return set()


def has_symbolic_floats(shape_env: Any) -> bool:
    """True if a float of the frame is a symbol, in this graph or in another."""
    symbols = () if shape_env is None else shape_env.backed_var_to_val
    # "zf" is torch's prefix for them (torch/utils/_sympy/symbol.py).
    return any(str(symbol).startswith("zf") for symbol in symbols)


# 2 <= x and x <= 9  ->  2 <= x <= 9
_BOUNDS = re.compile(r"^(\S+) <= (.+) and \2 <= (\S+)$")


def is_constraint_violation(error: BaseException) -> bool:
    """True if a dim that the user marked as dynamic had to be a constant."""
    return isinstance(error, symbolic_shapes().ConstraintViolationError)


def symbol_facts(shape_env: Any) -> dict[str, tuple[tuple[str, ...], str, str]]:
    """The symbols of a frame, by name: the expressions that each is read from, its value ("" if unbacked), range."""
    facts = {}
    for symbol, bounds in shape_env.var_to_range.items():
        sources = tuple(each.name for each in shape_env.var_to_sources.get(symbol, ()))
        hint = shape_env.backed_var_to_val.get(symbol)
        facts[str(symbol)] = sources, "" if hint is None else str(hint), f"[{bounds.lower}, {bounds.upper}]"
    return facts


def shape_expressions(shape_env: Any, inputs: Sequence[tuple[object, str, Any]]) -> list[tuple[str, str]]:
    """The guards on symbolic sizes as Python texts over ``L['x'].size()[0]``; [] if nothing is symbolic.

    The second item is torch's note on the reason of a guard that torch itself adds, else "".

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
    texts, notes = (each.exprs for each in helpers)
    return [(_BOUNDS.sub(r"\1 <= \2 <= \3", text), _note(more)) for text, more in zip(texts, notes, strict=True)]


def guarded_symbols(shape_env: Any) -> set[object]:
    """The symbols in the guards so far."""
    return {symbol for guard in shape_env.guards for symbol in guard.expr.free_symbols}


def _note(text: str) -> str:
    comment = text.rpartition("  # ")[2]
    return comment if comment.startswith("duck sizing") else ""


def is_data_dependent_guard(error: BaseException) -> bool:
    """True if an error is a comparison of an unbacked size."""
    return isinstance(error, symbolic_shapes().GuardOnDataDependentSymNode)


def needs_data(error: BaseException) -> bool:
    """True if an error is the access of an operator in C++ to the data of a fake tensor, which has none."""
    return isinstance(error, RuntimeError) and "its data is not allocated yet" in str(error)


def is_limit_of_symbols(error: BaseException) -> bool:
    """True if an operator raised an error because it has no form for symbolic numbers."""
    return isinstance(error, AssertionError) and "must be Tensor or scalar, got Sym" in str(error)


def expect_true(condition: Any) -> bool:
    """True if a condition on symbols holds: guarded if it is known while tracing, asserted at run time if not."""
    symbolic = condition if isinstance(condition, torch.SymBool) else condition != 0
    return bool(symbolic_shapes().expect_true(symbolic))


def statically_true(shape_env: Any, condition: Any) -> bool:
    """True if the guards so far imply a condition on symbolic sizes (by ShapeEnv, without a new guard)."""
    return bool(shape_env._maybe_evaluate_static(condition) == True)  # noqa: E712 - a SymPy truth value
