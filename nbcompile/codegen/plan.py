"""A schedule as data, which the launcher in C runs in place of the wrapper's text.

    wrapper                                                  plan
    buf0 = empty_strided((64, 32), (32, 1), ...)             Make(3, float32[64, 32])
    kernel0(arg0_1, buf0)                                    Launch("kernel0", (0, 3))
    extern0 = extern0_target(view_of(buf0, ...), arg1_1)     Look(4, 3, ...), Make(5, ...), Multiply("mm", (5, 4, 1))
    del buf0                                                 Drop(3)

Every operator can be called from a plan: as Python would call it, or, matrix products and convolutions, by torch's C
function. A symbolic size is a value that each call works out first, from the sizes of its inputs:

    s0 = arg0_1.size(0); empty_strided((2*s0, 8), ...)       Value("size", 0, 0), Value("mul", 2, FromCall(0))

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
    Adopted,
    AtSlot,
    Call,
    Convolve,
    Drop,
    EmittedKernel,
    Launch,
    Look,
    Make,
    Multiply,
    Number,
    Plan,
    Returned,
    Step,
    TensorShape,
    ViewNumbers,
)
from nbcompile.ir.index import Index
from nbcompile.ir.kernel import Allocate, Free, Kernel, Reuse, Schedule


def make_plan(schedule: Schedule, kernels: Sequence[EmittedKernel]) -> tuple[Plan | None, str]:
    """The graph for the launcher in C, or None and why it needs Python."""
    if any(each.device.type != "cpu" for each in schedule.program.tensors().values()):
        return None, "it is not on the CPU"
    try:
        return _Planner(schedule, {kernel.name: kernel for kernel in kernels}).plan(), ""
    except NeedsPython as found:
        return None, str(found)


@dataclass(slots=True)
class _Planner:
    """Numbers the slots while it goes through the steps."""

    schedule: Schedule
    kernels: dict[str, EmittedKernel]
    tensors: dict[str, Tensor] = field(init=False)
    sizes: Sizes = field(init=False)
    slots: dict[str, int] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    count: int = 0

    def plan(self) -> Plan:
        program = self.schedule.program
        self.tensors = program.tensors()
        self.sizes = Sizes(program.symbols)
        inputs = {each.position: each for each in program.buffers if isinstance(each, GraphInput)}
        attributes = [each for each in program.buffers if isinstance(each, GraphAttribute)]
        self.count = program.arguments
        self.slots = {each.name: position for position, each in inputs.items()}
        for attribute in attributes:
            self._new(attribute.name)
        for step in self.schedule.steps:
            self._step(step)
        return Plan(
            tuple(self._shape(inputs[at]) if at in inputs else None for at in range(program.arguments)),
            self.count,
            tuple(self.steps),
            tuple(self._returned(each) for each in program.outputs),
            tuple((each.attribute, self._shape(each)) for each in attributes),
            program.single_output,
            tuple(self.sizes.values),
        )

    def _new(self, buffer: str | None = None) -> int:
        slot, self.count = self.count, self.count + 1
        if buffer is not None:
            self.slots[buffer] = slot
        return slot

    def _step(self, step: object) -> None:
        match step:
            case Allocate(buffer):
                self.steps.append(Make(self._new(buffer), self._shape(self.tensors[buffer])))
            case Reuse(buffer, memory_of):
                self._reuse(buffer, memory_of)
            case Free(buffer):
                self.steps.append(Drop(self.slots[buffer]))
            case Kernel(name=name):
                kernel = self.kernels[name]
                slots = tuple(self.slots[each] for each in kernel.arguments)
                self.steps.append(Launch(name, slots, tuple(map(self.sizes.named, kernel.sizes))))
            case Extern():
                self._extern(step)

    def _reuse(self, buffer: str, memory_of: str) -> None:
        new, old = self.tensors[buffer], self.tensors[memory_of]
        freed = self.slots[memory_of]
        if new.dtype == old.dtype and new.layout == old.layout:
            self.slots[buffer] = freed
        elif new.dtype == old.dtype:
            numbers = (self._numbers(new.layout.size), self._numbers(new.layout.stride), 0)
            self.steps += [Look(self._new(buffer), freed, numbers), Drop(freed)]
        else:
            self.steps += [Drop(freed), Make(self._new(buffer), self._shape(new))]

    def _returned(self, output: BufferView | Index | float | None) -> Returned:
        if isinstance(output, BufferView):
            return Returned(self.slots[output.buffer], self._view(output))
        return Returned(None, value=self.sizes.number(output))

    def _view(self, seen: BufferView) -> ViewNumbers | None:
        """How a view differs from its buffer; None where it does not."""
        if is_itself(self.tensors[seen.buffer].layout, seen.layout) and not seen.apart:
            return None
        return self._numbers(seen.layout.size), self._numbers(seen.layout.stride), self.sizes.number(seen.layout.offset)

    # --- operators of ATen -------------------------------------------------------------------------------------------

    def _extern(self, extern: Extern) -> None:
        looks: list[int] = []
        results = [
            each
            for each in self.schedule.program.buffers
            if isinstance(each, ExternOutput) and each.extern == extern.name
        ]
        native = NATIVE.get(extern.target)
        if native is None or not native(self, extern, results, looks):
            self._call(extern, results, looks)
        self.steps += map(Drop, looks)

    def _call(self, extern: Extern, results: Sequence[ExternOutput], looks: list[int]) -> None:
        arguments = tuple(self._argument(each, looks) for each in extern.args)
        keywords = tuple((name, self._argument(each, looks)) for name, each in extern.kwargs.items())
        self.steps.append(Call(extern.name, arguments, keywords, tuple(map(self._adopted, results))))

    def _adopted(self, output: ExternOutput) -> Adopted:
        return Adopted(output.path, self._new(output.name), self._shape(output))

    def _argument(self, value: object, looks: list[int]) -> Any:
        match value:
            case BufferView():
                return AtSlot(self._slot(value, looks))
            case ModuleReference():
                raise NeedsPython("it calls a part of the graph")
            case sympy.Basic():
                return self.sizes.number(value)
            case list():
                return [self._argument(each, looks) for each in value]
            case tuple():
                return tuple(self._argument(each, looks) for each in value)
            case dict() if any(isinstance(each, (BufferView, ModuleReference, sympy.Basic)) for each in value.values()):
                raise NeedsPython("an operator takes tensors in a dict")
            case slice():
                raise NeedsPython("an operator takes a slice")
        return value

    def _slot(self, seen: BufferView, looks: list[int]) -> int:
        """The slot of a view, which is made for one call if it is not the buffer itself."""
        numbers = self._view(seen)
        if numbers is None:
            return self.slots[seen.buffer]
        looks.append(self._new())
        self.steps.append(Look(looks[-1], self.slots[seen.buffer], numbers))
        return looks[-1]

    def multiply(self, extern: Extern, results: Sequence[ExternOutput], looks: list[int]) -> bool:
        """A matrix product by torch's C function; False where Python has to call it."""
        scales = {"beta": 1.0, "alpha": 1.0} | extern.kwargs
        if (
            not all(isinstance(each, BufferView) for each in extern.args)
            or scales.keys() != {"beta", "alpha"}
            or not all(isinstance(each, (int, float)) for each in scales.values())
            or any(each.dtype.is_complex for each in results)  # the dispatcher resolves conjugates
        ):
            return False
        (result,) = results
        operands = [self._slot(each, looks) for each in extern.args]
        self.steps.append(Make(self._new(result.name), self._shape(result)))
        product = extern.target.overloadpacket.__name__
        slots = (self.slots[result.name], *operands)
        self.steps.append(Multiply(extern.name, product, slots, float(scales["beta"]), float(scales["alpha"])))
        return True

    def convolve(self, extern: Extern, results: Sequence[ExternOutput], looks: list[int]) -> bool:
        """A convolution by torch's C function; False where Python has to call it."""
        tensors, numbers = extern.args[:3], extern.args[3:]
        if len(numbers) != 6 or extern.kwargs or any(each.dtype.is_complex for each in results):
            return False
        stride, padding, dilation, transposed, output_padding, groups = numbers
        lists = (stride, padding, dilation, output_padding)
        whole = all(isinstance(each, (list, tuple)) and all(type(one) is int for one in each) for each in lists)
        if not whole or len({len(each) for each in lists}) != 1 or type(groups) is not int:
            return False
        slots = tuple(self._slot(each, looks) for each in tensors if each is not None)
        geometry = (tuple(stride), tuple(padding), tuple(dilation), tuple(output_padding), bool(transposed), groups)
        (result,) = results
        self.steps.append(Convolve(extern.name, slots, geometry, self._adopted(result)))
        return True

    # --- numbers -----------------------------------------------------------------------------------------------------

    def _shape(self, tensor: Tensor) -> TensorShape:
        return TensorShape(tensor.dtype, self._numbers(tensor.layout.size), self._numbers(tensor.layout.stride))

    def _numbers(self, values: Sequence[Index]) -> tuple[Number, ...]:
        return tuple(map(self.sizes.number, values))


Native = Callable[[_Planner, Extern, Sequence[ExternOutput], list[int]], bool]
_aten = torch.ops.aten
NATIVE: dict[object, Native] = {
    **dict.fromkeys(
        (_aten.mm.default, _aten.bmm.default, _aten.addmm.default, _aten.baddbmm.default), _Planner.multiply
    ),
    _aten.convolution.default: _Planner.convolve,
}
"""The operators that are called by C functions of torch's."""
