"""A launch plan as the tuples that the launcher in C reads (launcher.c, operators.h, sizes.h).

    AllocateSlot(3, float32[64, 32])                    (0, 3, 6, (64, 32), (32, 1))
    Launch("kernel0", (0, 3))                           (1, address, (0, 3), (), False, "kernel0")
    Call("extern0", (AtSlot(0),), (), results)          (4, function, ((1, 0),), None, results, encoded, None)

The first number of a step is its kind.

In torch: torch/_inductor/codegen/cpp_wrapper_cpu.py, which writes C++ instead. Read next:
nbcompile/runtime/dispatched.py
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from nbcompile.ir.emitted import (
    AllocateSlot,
    AtSlot,
    Call,
    Convolve,
    ExternResult,
    FreeSlot,
    Launch,
    Multiply,
    Number,
    PlanOutput,
    RuntimeSize,
    Step,
    TensorShape,
    Value,
    ViewNumbers,
    ViewSlot,
)
from nbcompile.runtime import dispatched, effects, launcher
from nbcompile.runtime.launcher import Entry

PRODUCTS = ("mm", "bmm", "addmm", "baddbmm")
"""Operators with a C function, in the order of their numbers in operators.h."""
VALUES = ("argument", "size", "stride", "add", "mul", "floor_div", "mod", "min", "max")
"""Operations of run-time sizes, in the order of their numbers in sizes.h."""
_VALUE, _TENSOR, _LIST, _TUPLE, _NUMBER = range(5)
Adopt = Callable[[object, tuple[int, ...], tuple[int, ...], Any, str], Any]


@dataclass(frozen=True, slots=True)
class PlanEncoder:
    """Writes steps as tuples for the launcher."""

    extension: ModuleType
    entries: Mapping[str, Entry]
    targets: Mapping[str, Any]
    by_onednn: bool
    on_gpu: Mapping[str, object]
    adopt: Adopt
    """Makes what kernels rely on of a result with another layout."""
    dispatches: bool
    """Operators are called by torch's dispatcher from C, where their arguments allow it."""

    def shape(self, shape: TensorShape) -> tuple[Any, ...]:
        # Type and device in one number, as read_type in launcher.c takes them apart: 0 above the lowest
        # byte is the CPU.
        number = launcher.dtype_code(self.extension, shape.dtype) | (shape.gpu + 1) << 8
        return number, _numbers(shape.size), _numbers(shape.stride)

    def input(self, shape: TensorShape | None) -> object:
        return None if shape is None else self.shape(shape)

    def step(self, step: Step) -> tuple[Any, ...]:
        match step:
            # The first number of a step is its kind in launcher.c.
            case AllocateSlot(slot, shape):
                return (0, slot, *self.shape(shape))
            # Before the case of the CPU, whose pattern fits this launch, too.
            case Launch(name, slots, sizes, grid) if name in self.on_gpu:
                return (7, self.on_gpu[name], slots, _numbers(sizes), (number(grid),), name)
            case Launch(name, slots, sizes):
                return (1, self.entries[name].address, slots, _numbers(sizes), self.entries[name].lengthy, name)
            case FreeSlot(slot):
                return (2, slot)
            case ViewSlot(slot, source, view):
                return (3, slot, source, *_view(view))
            case Call():
                return self.call(step)
            case Multiply(_, product, slots, beta, alpha):
                return (5, PRODUCTS.index(product), slots, float(beta), float(alpha), self.by_onednn)
            case Convolve(extern, slots, (stride, padding, dilation, output_padding, transposed, groups), result):
                numbers = (len(stride), *stride, *padding, *dilation, *output_padding, int(transposed), groups)
                return (6, slots, numbers, (self.result(extern, result),))

    def call(self, step: Call) -> tuple[Any, ...]:
        target = self.targets[step.extern]
        forms = (*map(_form, step.arguments), *(_form(value) for _, value in step.keywords))
        names = tuple(name for name, _ in step.keywords) or None
        results = tuple(self.result(step.extern, each) for each in step.results)
        by_dispatcher = dispatched.encoded(target, step) if self.dispatches else None
        zeros = effects.does_nothing_for_zeros(target, step)
        return (4, effects.called_from_c(target), forms, names, results, by_dispatcher, zeros)

    def result(self, extern: str, extern_result: ExternResult) -> tuple[Any, ...]:
        shape, name, adopt = extern_result.shape, str(self.targets[extern]), self.adopt
        if extern_result.is_view:
            return (extern_result.slot, extern_result.path, None, (), (), None)

        # Called by C where an operator returned another layout than its fake implementation promised.
        def other(value: object, size: tuple[int, ...], stride: tuple[int, ...]) -> Any:
            return adopt(value, size, stride, shape.dtype, name)

        return (extern_result.slot, extern_result.path, *self.shape(shape), other)


def output(output: PlanOutput) -> tuple[Any, Any]:
    """One output."""
    if output.slot is None:
        return None, number(output.value)
    return output.slot, output.view and _view(output.view)


def value(value: Value) -> tuple[int, Any, Any]:
    """One number that each call computes."""
    return VALUES.index(value.operation), number(value.first), number(value.second)


def number(value: Any) -> Any:
    """Encode a number for C: a run-time size is a tuple with its position among the values."""
    return (value.at,) if isinstance(value, RuntimeSize) else value


def _numbers(values: Sequence[Number]) -> tuple[Any, ...]:
    return tuple(map(number, values))


def _view(view: ViewNumbers) -> tuple[Any, ...]:
    size, stride, offset = view
    return _numbers(size), _numbers(stride), (number(offset),)


def _form(value: object) -> tuple[int, Any]:
    match value:
        case RuntimeSize(at):
            return _NUMBER, at
        case AtSlot(slot):
            return _TENSOR, slot
        case list():
            return _LIST, tuple(map(_form, value))
        case tuple() if type(value) is tuple:
            return _TUPLE, tuple(map(_form, value))
    return _VALUE, value
