"""The views of inputs that a graph returns as a program of their own, outside of what autograd does not see.

    InputViews([aten.t(slot 0) -> slot 1])     def call(args):
                                                   arg0, = args
                                                   view0 = view0_target(arg0)
                                                   return (view0,)

The launcher in C runs it: a view operator's own function makes the result, with its history and its base.

In torch: gen_alias_from_base in torch/_functorch/_aot_autograd/functional_utils.py. Read next:
nbcompile/runtime/operators.h
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch.utils import _pytree as pytree

from nbcompile import torch_internals
from nbcompile.aot.compilers import BoxedFunction
from nbcompile.aot.view_replay import SET_GRAD_MODE, InputViews, ViewCall
from nbcompile.codegen.named_plan import NamedPlan
from nbcompile.codegen.sizes import Sizes
from nbcompile.codegen.wrapper import opaque_constants, write_wrapper
from nbcompile.ir.buffer import SymbolSource
from nbcompile.ir.emitted import ANY_SHAPE, Call, CaptureFacts, EmittedKernel, ExternResult, LaunchPlan, PlanOutput
from nbcompile.ir.index import index
from nbcompile.ir.profiler_ranges import ProfilerRange
from nbcompile.runtime import toolchain
from nbcompile.runtime.program import load


@dataclass(frozen=True, slots=True)
class ViewOperator:
    """An operator that the program calls, by its name there."""

    name: str
    target: Any


@dataclass(frozen=True, slots=True)
class ViewProgram:
    """A program without kernels (``ir.compiled_artifact.Runnable``)."""

    wrapper: str
    externs: tuple[ViewOperator, ...]
    plan: LaunchPlan
    no_plan: str = ""
    source: str = ""
    kernels: tuple[EmittedKernel, ...] = ()
    ranges: tuple[tuple[str, ProfilerRange], ...] = ()
    capture: CaptureFacts | None = None


def compile_views(views: InputViews) -> BoxedFunction | None:
    """Load the program of some views; None without a C++ compiler, or where an argument has no text."""
    compiler = toolchain.find()
    program = None if isinstance(compiler, toolchain.NoCompiler) else _emit(views)
    if program is None:
        return None
    assert not isinstance(compiler, toolchain.NoCompiler)
    with torch_internals.dispatch_modes()._disable_current_modes():
        return load(program, compiler)


def _emit(views: InputViews) -> ViewProgram | None:
    sizes = Sizes(list(_sources(views.inputs)))
    operators, steps, enabled = [], [], views.grad_enabled
    for at, (call, expected) in enumerate([*((call, call.grad_enabled) for call in views.calls), (None, enabled)]):
        if expected != enabled:
            enabled = expected
            operators.append(ViewOperator(f"mode{at}", SET_GRAD_MODE))
            steps.append(Call(f"mode{at}", (enabled,), (), ()))
        if call is not None:
            operators.append(ViewOperator(f"view{at}", call.target))
            steps.append(_step(f"view{at}", call, sizes))
    # An expression of sizes that only Python works out, and an object that has no text.
    if sizes.obstacle or opaque_constants([(step.arguments, dict(step.keywords)) for step in steps]):
        return None
    slots = [slot for step in steps for slot in (result.slot for result in step.results)]
    plan = LaunchPlan(
        tuple(None for _ in views.inputs),
        max((*slots, len(views.inputs) - 1)) + 1,
        tuple(steps),
        tuple(map(PlanOutput, views.outputs)),
        values=tuple(sizes.values),
    )
    named = NamedPlan(
        plan,
        plan.steps,
        {slot: (f"s{slot}",) for slot in range(plan.slots)},
        sizes.texts(),
        {each.name: str(each.target) for each in operators},
    )
    return ViewProgram(write_wrapper(named), tuple(operators), plan)


def _step(name: str, call: ViewCall, sizes: Sizes) -> Call:
    def number(value: Any) -> Any:
        return sizes.number(index(value)) if isinstance(value, torch.SymInt) else value

    return Call(
        name,
        tuple(pytree.tree_map(number, each) for each in call.arguments),
        tuple((name, pytree.tree_map(number, each)) for name, each in call.keywords.items()),
        tuple(ExternResult(path, slot, ANY_SHAPE, is_view=True) for path, slot in call.results),
    )


def _sources(inputs: Sequence[Any]) -> Iterator[SymbolSource]:
    """Sources of the symbols: an argument that is one is the best, then the first tensor that has one."""
    for at, value in enumerate(inputs):
        if isinstance(value, torch.SymInt) and isinstance(index(value), sympy.Symbol):
            yield SymbolSource(index(value), at)
    known = {index(value) for value in inputs if isinstance(value, torch.SymInt)}
    for at, value in enumerate(inputs):
        if isinstance(value, torch.Tensor):
            for kind, entries in (("size", value.shape), ("stride", value.stride())):
                for dim, entry in enumerate(map(index, entries)):
                    if isinstance(entry, sympy.Symbol) and entry not in known:
                        known.add(entry)
                        yield SymbolSource(entry, at, dim, kind)
