"""Launch plan: the wrapper as data, which the launcher in C interprets.

    wrapper                                                  plan
    buf0 = empty_strided((64, 32), (32, 1), ...)             AllocateSlot(3, float32[64, 32])
    kernel0(arg0_1, buf0)                                    Launch("kernel0", (0, 3))
    extern0 = extern0_target(view_of(buf0, ...), arg1_1)     ViewSlot(4, 3, ...), AllocateSlot(5, ...),
                                                             Multiply("mm", (5, 4, 1))
    del buf0                                                 FreeSlot(3)

A plan can call any operator: through the dispatcher, or, for matrix products and convolutions, by torch's C function.
Symbolic sizes are computed at the start of each call, from the sizes of the inputs:

    s0 = arg0_1.size(0); empty_strided((2*s0, 8), ...)       Value("size", 0, 0), Value("mul", 2, RuntimeSize(0))

In torch: torch/_inductor/codegen/cpp_wrapper_cpu.py, which writes C++ instead. Read next: nbcompile/runtime/operators.h
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch

from nbcompile.codegen.sizes import NeedsPython, Sizes
from nbcompile.codegen.wrapper import is_itself
from nbcompile.ir.buffer import BufferView, Extern, ExternOutput, GraphAttribute, GraphInput, ModuleReference, Tensor
from nbcompile.ir.emitted import (
    AllocateSlot,
    AtSlot,
    Call,
    Convolve,
    EmittedKernel,
    ExternResult,
    FreeSlot,
    Launch,
    LaunchPlan,
    Multiply,
    Number,
    PlanOutput,
    Step,
    TensorShape,
    ViewNumbers,
    ViewSlot,
)
from nbcompile.ir.index import Index
from nbcompile.ir.kernel import Allocate, Free, Kernel, Reuse, Schedule


def make_launch_plan(schedule: Schedule, kernels: Sequence[EmittedKernel]) -> tuple[LaunchPlan | None, str]:
    """Build the launch plan, or return None and the reason why the graph needs the Python wrapper."""
    devices = {tensor.device for tensor in schedule.program.tensors().values()}
    if any(device.type not in ("cpu", "cuda") for device in devices):
        return None, "it is on a device without launcher"
    if len({device.index for device in devices if device.type == "cuda"}) > 1:
        return None, "its tensors are on several GPUs"
    try:
        return _Planner(schedule, {kernel.name: kernel for kernel in kernels}).plan(), ""
    except NeedsPython as found:
        return None, str(found)


@dataclass(slots=True)
class _Planner:
    """Builder of a plan: assigns slots to buffers, step by step."""

    schedule: Schedule
    kernels: dict[str, EmittedKernel]
    tensors: dict[str, Tensor] = field(init=False)
    sizes: Sizes = field(init=False)
    slots: dict[str, int] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    count: int = 0

    def plan(self) -> LaunchPlan:
        program = self.schedule.program
        self.tensors = program.tensors()
        self.sizes = Sizes(program.symbols)
        inputs = {buffer.position: buffer for buffer in program.buffers if isinstance(buffer, GraphInput)}
        attributes = [buffer for buffer in program.buffers if isinstance(buffer, GraphAttribute)]
        self.count = program.arguments
        # The launcher's order of slots: the arguments, then the tensors that the graph holds, then what the steps make.
        #     slot    0 ... arguments-1    | the next ones      | all others
        #     holds   arguments, in order  | constants          | results of the steps
        # An argument that is no tensor has a slot, too, which nothing looks at.
        self.slots = {graph_input.name: position for position, graph_input in inputs.items()}
        for attribute in attributes:
            self._new(attribute.name)
        for step in self.schedule.steps:
            self._step(step)
        return LaunchPlan(
            tuple(self._shape(inputs[at]) if at in inputs else None for at in range(program.arguments)),
            self.count,
            tuple(self.steps),
            tuple(self._returned(output) for output in program.outputs),
            tuple((attribute.attribute, self._shape(attribute)) for attribute in attributes),
            program.single_output,
            tuple(self.sizes.values),
            max((_gpu(tensor.device) for tensor in self.tensors.values()), default=-1),
        )

    def _new(self, buffer: str | None = None) -> int:
        slot, self.count = self.count, self.count + 1
        if buffer is not None:
            self.slots[buffer] = slot
        return slot

    def _step(self, step: object) -> None:
        match step:
            case Allocate(buffer):
                self.steps.append(AllocateSlot(self._new(buffer), self._shape(self.tensors[buffer])))
            case Reuse(buffer, memory_of):
                self._reuse(buffer, memory_of)
            case Free(buffer):
                self.steps.append(FreeSlot(self.slots[buffer]))
            case Kernel(name=name):
                kernel = self.kernels[name]
                slots = tuple(self.slots[argument] for argument in kernel.arguments)
                grid = self.sizes.text(kernel.grid) if kernel.language == "triton" else -1
                self.steps.append(Launch(name, slots, tuple(map(self.sizes.named, kernel.sizes)), grid))
            case Extern():
                self._extern(step)

    def _reuse(self, buffer: str, memory_of: str) -> None:
        new, old = self.tensors[buffer], self.tensors[memory_of]
        freed = self.slots[memory_of]
        if new.dtype == old.dtype and new.layout == old.layout:
            # No step at all: the new tensor is the old one, object and memory.
            self.slots[buffer] = freed
        elif new.dtype == old.dtype:
            numbers = (self._numbers(new.layout.size), self._numbers(new.layout.stride), 0)
            # The view holds the memory, so that the old tensor may go.
            self.steps += [ViewSlot(self._new(buffer), freed, numbers), FreeSlot(freed)]
        else:
            # A view has the type of its base, so memory of another type is freed and allocated.
            self.steps += [FreeSlot(freed), AllocateSlot(self._new(buffer), self._shape(new))]

    def _returned(self, output: BufferView | Index | float | None) -> PlanOutput:
        if isinstance(output, BufferView):
            return PlanOutput(self.slots[output.buffer], self._view(output))
        return PlanOutput(None, value=self.sizes.number(output))

    def _view(self, buffer_view: BufferView) -> ViewNumbers | None:
        """Size, stride and offset of a view; None if it is the whole buffer."""
        if is_itself(self.tensors[buffer_view.buffer].layout, buffer_view.layout) and not buffer_view.distinct:
            return None
        return (
            self._numbers(buffer_view.layout.size),
            self._numbers(buffer_view.layout.stride),
            self.sizes.number(buffer_view.layout.offset),
        )

    # --- operators of ATen -------------------------------------------------------------------------------------------

    def _extern(self, extern: Extern) -> None:
        # Views for one call: they are freed after it.
        views: list[int] = []
        results = self.schedule.program.outputs_of.get(extern.name, ())
        on_cpu = all(result.device.type == "cpu" for result in results)
        native = NATIVE.get(extern.target) if on_cpu else None
        if native is None or not native(self, extern, results, views):
            self._call(extern, results, views)
        self.steps += map(FreeSlot, views)

    def _call(self, extern: Extern, results: Sequence[ExternOutput], views: list[int]) -> None:
        arguments = tuple(self._argument(arg, views) for arg in extern.args)
        keywords = tuple((name, self._argument(argument, views)) for name, argument in extern.kwargs.items())
        self.steps.append(Call(extern.name, arguments, keywords, tuple(map(self._extern_result, results))))

    def _extern_result(self, output: ExternOutput) -> ExternResult:
        return ExternResult(output.path, self._new(output.name), self._shape(output))

    def _argument(self, value: object, views: list[int]) -> Any:
        match value:
            case BufferView():
                return AtSlot(self._slot(value, views))
            case ModuleReference():
                raise NeedsPython("it calls a part of the graph")
            case sympy.Basic():
                return self.sizes.number(value)
            case list():
                return [self._argument(item, views) for item in value]
            case tuple():
                return tuple(self._argument(item, views) for item in value)
            case dict() if any(isinstance(item, (BufferView, ModuleReference, sympy.Basic)) for item in value.values()):
                raise NeedsPython("an operator takes tensors in a dict")
            case slice():
                raise NeedsPython("an operator takes a slice")
        return value

    def _slot(self, buffer_view: BufferView, views: list[int]) -> int:
        """Slot of a view: the buffer's own, or a temporary one for a single call."""
        numbers = self._view(buffer_view)
        if numbers is None:
            return self.slots[buffer_view.buffer]
        views.append(self._new())
        self.steps.append(ViewSlot(views[-1], self.slots[buffer_view.buffer], numbers))
        return views[-1]

    def multiply(self, extern: Extern, results: Sequence[ExternOutput], views: list[int]) -> bool:
        """Plan a matrix product by torch's C function; return False if it has to go through the dispatcher."""
        scales = {"beta": 1.0, "alpha": 1.0} | extern.kwargs
        # Scales that a call computes, other keywords, and complex numbers are the dispatcher's.
        if (
            not all(isinstance(arg, BufferView) for arg in extern.args)
            or scales.keys() != {"beta", "alpha"}
            or not all(isinstance(scale, (int, float)) for scale in scales.values())
            or any(result.dtype.is_complex for result in results)  # the dispatcher resolves conjugates
        ):
            return False
        (result,) = results
        operands = [self._slot(arg, views) for arg in extern.args]
        self.steps.append(AllocateSlot(self._new(result.name), self._shape(result)))
        product = extern.target.overloadpacket.__name__
        slots = (self.slots[result.name], *operands)
        self.steps.append(Multiply(extern.name, product, slots, float(scales["beta"]), float(scales["alpha"])))
        return True

    def convolve(self, extern: Extern, results: Sequence[ExternOutput], views: list[int]) -> bool:
        """Plan a convolution by torch's C function; return False if it has to go through the dispatcher."""
        tensors, numbers = extern.args[:3], extern.args[3:]
        if len(numbers) != 6 or extern.kwargs or any(result.dtype.is_complex for result in results):
            return False
        stride, padding, dilation, transposed, output_padding, groups = numbers
        lists = (stride, padding, dilation, output_padding)
        whole = all(
            isinstance(parameter, (list, tuple)) and all(type(one) is int for one in parameter) for parameter in lists
        )
        # A number that only a call knows has to go through the dispatcher.
        if not whole or len({len(parameter) for parameter in lists}) != 1 or type(groups) is not int:
            return False
        slots = tuple(self._slot(tensor, views) for tensor in tensors if tensor is not None)
        geometry = (tuple(stride), tuple(padding), tuple(dilation), tuple(output_padding), bool(transposed), groups)
        (result,) = results
        self.steps.append(Convolve(extern.name, slots, geometry, self._extern_result(result)))
        return True

    # --- numbers -----------------------------------------------------------------------------------------------------

    def _shape(self, tensor: Tensor) -> TensorShape:
        sizes, strides = self._numbers(tensor.layout.size), self._numbers(tensor.layout.stride)
        return TensorShape(tensor.dtype, sizes, strides, _gpu(tensor.device))

    def _numbers(self, values: Sequence[Index]) -> tuple[Number, ...]:
        return tuple(map(self.sizes.number, values))


def _gpu(device: torch.device) -> int:
    return (device.index or 0) if device.type == "cuda" else -1


Native = Callable[[_Planner, Extern, Sequence[ExternOutput], list[int]], bool]
_aten = torch.ops.aten
NATIVE: dict[object, Native] = {
    **dict.fromkeys(
        (_aten.mm.default, _aten.bmm.default, _aten.addmm.default, _aten.baddbmm.default), _Planner.multiply
    ),
    _aten.convolution.default: _Planner.convolve,
}
"""Operators that are called by torch's C functions, without the dispatcher."""
