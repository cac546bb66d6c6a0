"""Launch plan of a schedule: steps that the launcher in C interprets, and of which the wrapper's text is printed.

    text of the wrapper                                      plan
    buf0 = empty_strided((64, 32), (32, 1), ...)             AllocateSlot(3, float32[64, 32])
    kernel0(arg0_1, buf0)                                    Launch("kernel0", (0, 3))
    extern0 = extern0_target(view_of(buf0, ...), arg1_1)     ViewSlot(4, 3, ...), AllocateSlot(5, ...),
                                                             Multiply("mm", (5, 4, 1))
    del buf0                                                 FreeSlot(3)

A plan can call any operator: through the dispatcher, or, for matrix products and convolutions, by torch's C function.
Symbolic sizes are computed at the start of each call, from the sizes of the inputs:

    s0 = arg0_1.size(0); empty_strided((2*s0, 8), ...)       Value("size", 0, 0), Value("mul", 2, RuntimeSize(0))

In torch: torch/_inductor/codegen/cpp_wrapper_cpu.py, which writes C++ instead. Read next:
nbcompile/codegen/wrapper.py, nbcompile/runtime/operators.h
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch

from nbcompile.codegen.named_plan import LibraryCall, Line, NamedPlan, TakeOver, steps_of
from nbcompile.codegen.sizes import Sizes
from nbcompile.codegen.wrapper import opaque_constants
from nbcompile.codegen.written_kernels import is_written, views_of
from nbcompile.ir.buffer import (
    BufferView,
    Extern,
    ExternOutput,
    GraphAttribute,
    GraphInput,
    ModuleReference,
    Tensor,
    views_in,
)
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
    PythonExpression,
    Step,
    TensorShape,
    ViewNumbers,
    ViewSlot,
)
from nbcompile.ir.index import Index
from nbcompile.ir.kernel import Allocate, Free, Kernel, Reuse, Schedule
from nbcompile.ir.layout import Layout, same_addresses


def make_launch_plan(schedule: Schedule, kernels: Sequence[EmittedKernel]) -> NamedPlan:
    """Build the launch plan with its names, and the reason why the graph needs the Python wrapper, if any."""
    devices = {tensor.device for tensor in schedule.program.tensors().values()}
    obstacle = ""
    if any(device.type not in ("cpu", "cuda") for device in devices):
        obstacle = "it is on a device without launcher"
    elif len({device.index for device in devices if device.type == "cuda"}) > 1:
        obstacle = "its tensors are on several GPUs"
    planner = _Planner(schedule, {kernel.name: kernel for kernel in kernels}, obstacle)
    plan, lines = planner.plan()
    externs = [step for step in schedule.steps if isinstance(step, Extern)]
    # A plan is built even if the launcher cannot run it, since
    # the text of the Python wrapper is printed of the same steps.
    return NamedPlan(
        plan,
        lines,
        {slot: tuple(names) for slot, names in planner.names.items()},
        planner.sizes.texts(),
        {extern.name: str(extern.target) for extern in externs},
        {extern.name: extern.reason for extern in externs},
        frozenset(written_inputs(schedule)),
        planner.obstacle or planner.sizes.obstacle,
    )


def opaque_values(schedule: Schedule) -> dict[int, object]:
    """Arguments of extern calls that have no text (a generator, a graph module), by id."""
    externs = [step for step in schedule.steps if isinstance(step, Extern)]
    found = opaque_constants([(extern.args, extern.kwargs) for extern in externs])
    symbolic = (BufferView, ModuleReference, sympy.Basic)
    return {number: value for number, value in found.items() if not isinstance(value, symbolic)}


def written_inputs(schedule: Schedule) -> tuple[int, ...]:
    """Positions of the inputs that a kernel or an extern call writes to."""
    names = {name for step in schedule.steps if isinstance(step, Kernel) for name in step.writes}
    names |= {name for step in schedule.steps if isinstance(step, Extern) for name in step.mutates}
    inputs = (buffer for buffer in schedule.program.buffers if isinstance(buffer, GraphInput))
    return tuple(graph_input.position for graph_input in inputs if graph_input.name in names)


@dataclass(slots=True)
class _Planner:
    """Builder of a plan: assigns slots to buffers, step by step."""

    schedule: Schedule
    kernels: dict[str, EmittedKernel]
    obstacle: str
    tensors: dict[str, Tensor] = field(init=False)
    sizes: Sizes = field(init=False)
    slots: dict[str, int] = field(default_factory=dict)
    names: dict[int, list[str]] = field(default_factory=dict)
    count: int = 0

    def plan(self) -> tuple[LaunchPlan, tuple[Line, ...]]:
        program = self.schedule.program
        self.tensors = program.tensors()
        self.sizes = Sizes(program.symbols)
        inputs = {buffer.position: buffer for buffer in program.buffers if isinstance(buffer, GraphInput)}
        attributes = [buffer for buffer in program.buffers if isinstance(buffer, GraphAttribute)]
        self._name_inputs(inputs, attributes)
        lines = tuple(line for step in self.schedule.steps for line in self._lines(step))
        plan = LaunchPlan(
            tuple(self._shape(inputs[at]) if at in inputs else None for at in range(program.arguments)),
            self.count,
            tuple(step for line in lines for step in steps_of(line)),
            tuple(self._returned(output) for output in program.outputs),
            tuple((attribute.attribute, self._shape(attribute)) for attribute in attributes),
            program.single_output,
            tuple(self.sizes.values),
            max((_gpu(tensor.device) for tensor in self.tensors.values()), default=-1),
        )
        return plan, lines

    def _name_inputs(self, inputs: Mapping[int, GraphInput], attributes: Sequence[GraphAttribute]) -> None:
        # The launcher's order of slots: the arguments, then the graph's constants, then the results of the steps.
        #     slot    0 ... arguments-1    | the next ones      | all others
        #     holds   arguments, in order  | constants          | results of the steps
        # An argument that is no tensor has a slot, too, which no step reads. A size has its symbol's name, in which
        # sizes of tensors are expressed.
        program = self.schedule.program
        numbers = {source.position: source.symbol.name for source in program.symbols if source.dim is None}
        for at in range(program.arguments):
            self._new(inputs[at].name if at in inputs else f"unused{at}", numbers.get(at))
        for attribute in attributes:
            self._new(attribute.name)

    def _new(self, buffer: str | None = None, name: str | None = None) -> int:
        slot, self.count = self.count, self.count + 1
        # A view for one call is no buffer, and has no name.
        if buffer is not None:
            self.slots[buffer] = slot
            self.names[slot] = [name or buffer]
        return slot

    def _lines(self, step: object) -> Iterator[Line]:
        match step:
            case Allocate(buffer):
                yield AllocateSlot(self._new(buffer), self._shape(self.tensors[buffer]))
            case Reuse(buffer, memory_of):
                yield self._reuse(buffer, memory_of)
            case Free(buffer):
                yield FreeSlot(self.slots[buffer])
            case Kernel(name=name):
                kernel = self.kernels[name]
                slots = tuple(self.slots[argument] for argument in kernel.arguments)
                grid = self.sizes.text(kernel.grid) if kernel.language == "triton" else -1
                yield Launch(name, slots, tuple(map(self.sizes.named, kernel.sizes)), grid)
            case Extern() if is_written(step):
                yield LibraryCall(tuple(self._launch_written(step)))
            case Extern():
                yield LibraryCall(tuple(self._extern(step)))

    def _launch_written(self, extern: Extern) -> Iterator[Step]:
        views: list[ViewSlot] = []
        slots = tuple(self._slot(view, views) for view in views_of(extern))
        yield from views
        sizes = tuple(map(self.sizes.named, extern.target.sizes))
        yield Launch(extern.name, slots, sizes, self.sizes.text(str(extern.target.programs)))
        yield from (FreeSlot(view.slot) for view in views)

    def _reuse(self, buffer: str, memory_of: str) -> TakeOver:
        new, old = self.tensors[buffer], self.tensors[memory_of]
        freed = self.slots[memory_of]
        if new.dtype == old.dtype and new.layout == old.layout:
            # No step: the new tensor is the same object as the old one.
            self.slots[buffer] = freed
            self.names[freed].append(buffer)
            return TakeOver(freed, freed, self._shape(new), ())
        slot = self._new(buffer)
        shape = self._shape(new)
        if new.dtype == old.dtype:
            # The view keeps the memory alive, so the old tensor may be freed.
            return TakeOver(slot, freed, shape, (ViewSlot(slot, freed, (shape.size, shape.stride, 0)), FreeSlot(freed)))
        # A view has the type of its base, so memory of another type is freed and allocated.
        return TakeOver(slot, freed, shape, (FreeSlot(freed), AllocateSlot(slot, shape)))

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
            self.sizes.index(buffer_view.layout.offset),
        )

    # --- operators of ATen -------------------------------------------------------------------------------------------

    def _extern(self, extern: Extern) -> Iterator[Step]:
        # Views for one call: they are freed after it.
        views: list[ViewSlot] = []
        results = self.schedule.program.outputs_of.get(extern.name, ())
        on_cpu = all(result.device.type == "cpu" for result in results)
        native = NATIVE.get(extern.target) if on_cpu else None
        call = native(self, extern, results, views) if native is not None else ()
        call = call or (self._call(extern, results, views),)
        yield from views
        yield from call
        yield from (FreeSlot(view.slot) for view in views)

    def _call(self, extern: Extern, results: Sequence[ExternOutput], views: list[ViewSlot]) -> Call:
        arguments = tuple(self._argument(arg, views) for arg in extern.args)
        keywords = tuple((name, self._argument(argument, views)) for name, argument in extern.kwargs.items())
        return Call(extern.name, arguments, keywords, tuple(map(self._extern_result, results)))

    def _extern_result(self, output: ExternOutput) -> ExternResult:
        return ExternResult(output.path, self._new(output.name), self._shape(output))

    def _argument(self, value: object, views: list[ViewSlot]) -> Any:
        match value:
            case BufferView():
                return AtSlot(self._slot(value, views))
            case ModuleReference(attribute):
                self._needs_python("it calls a part of the graph")
                return PythonExpression(f"attribute({attribute!r})")
            case sympy.Basic():
                return self.sizes.number(value)
            case list():
                return [self._argument(item, views) for item in value]
            case tuple():
                return tuple(self._argument(item, views) for item in value)
            case dict() if any(views_in(value)) or any(
                isinstance(item, (ModuleReference, sympy.Basic)) for item in value.values()
            ):
                self._needs_python("an operator takes tensors in a dict")
                return {key: self._argument(item, views) for key, item in value.items()}
            case slice():
                self._needs_python("an operator takes a slice")
                return slice(*(self._argument(bound, views) for bound in (value.start, value.stop, value.step)))
        return value

    def _needs_python(self, reason: str) -> None:
        self.obstacle = self.obstacle or self.sizes.obstacle or reason

    def _slot(self, buffer_view: BufferView, views: list[ViewSlot]) -> int:
        """Slot of a view: the buffer's own, or a temporary one for a single call."""
        numbers = self._view(buffer_view)
        if numbers is None:
            return self.slots[buffer_view.buffer]
        views.append(ViewSlot(self._new(), self.slots[buffer_view.buffer], numbers))
        return views[-1].slot

    def multiply(self, extern: Extern, results: Sequence[ExternOutput], views: list[ViewSlot]) -> tuple[Step, ...]:
        """Plan a matrix product by torch's C function; return no step if it has to go through the dispatcher."""
        scales = {"beta": 1.0, "alpha": 1.0} | extern.kwargs
        # Scales that a call computes, other keywords, and complex numbers need the dispatcher.
        if (
            not all(isinstance(arg, BufferView) for arg in extern.args)
            or scales.keys() != {"beta", "alpha"}
            or not all(isinstance(scale, (int, float)) for scale in scales.values())
            or any(result.dtype.is_complex for result in results)  # the dispatcher resolves conjugates
        ):
            return ()
        (result,) = results
        operands = [self._slot(arg, views) for arg in extern.args]
        allocated = AllocateSlot(self._new(result.name), self._shape(result))
        product = extern.target.overloadpacket.__name__
        slots = (allocated.slot, *operands)
        return allocated, Multiply(extern.name, product, slots, scales["beta"], scales["alpha"])

    def convolve(self, extern: Extern, results: Sequence[ExternOutput], views: list[ViewSlot]) -> tuple[Step, ...]:
        """Plan a convolution by torch's C function; return no step if it has to go through the dispatcher."""
        tensors, numbers = extern.args[:3], extern.args[3:]
        if len(numbers) != 6 or extern.kwargs or any(result.dtype.is_complex for result in results):
            return ()
        stride, padding, dilation, transposed, output_padding, groups = numbers
        lists = (stride, padding, dilation, output_padding)
        whole = all(
            isinstance(parameter, (list, tuple)) and all(type(one) is int for one in parameter) for parameter in lists
        )
        # A symbolic number needs the dispatcher.
        if not whole or len({len(parameter) for parameter in lists}) != 1 or type(groups) is not int:
            return ()
        slots = tuple(self._slot(tensor, views) for tensor in tensors if tensor is not None)
        geometry = (tuple(stride), tuple(padding), tuple(dilation), tuple(output_padding), bool(transposed), groups)
        (result,) = results
        return (Convolve(extern.name, slots, geometry, self._extern_result(result)),)

    # --- numbers -----------------------------------------------------------------------------------------------------

    def _shape(self, tensor: Tensor) -> TensorShape:
        sizes, strides = self._numbers(tensor.layout.size), self._numbers(tensor.layout.stride)
        other = "" if tensor.device.type in ("cpu", "cuda") else str(tensor.device)
        return TensorShape(tensor.dtype, sizes, strides, _gpu(tensor.device), other)

    def _numbers(self, values: Sequence[Index]) -> tuple[Number, ...]:
        return tuple(map(self.sizes.index, values))


def is_itself(own: Layout, view_layout: Layout) -> bool:
    """Return whether a view is the whole buffer unchanged, strides of size-1 dimensions included."""
    return own == view_layout or (same_addresses(own, view_layout) and own.stride == view_layout.stride)


def _gpu(device: torch.device) -> int:
    return (device.index or 0) if device.type == "cuda" else -1


Native = Callable[[_Planner, Extern, Sequence[ExternOutput], list[ViewSlot]], tuple[Step, ...]]
_aten = torch.ops.aten
NATIVE: dict[object, Native] = {
    **dict.fromkeys(
        (_aten.mm.default, _aten.bmm.default, _aten.addmm.default, _aten.baddbmm.default), _Planner.multiply
    ),
    _aten.convolution.default: _Planner.convolve,
}
"""Operators that are called by torch's C functions, without the dispatcher."""
