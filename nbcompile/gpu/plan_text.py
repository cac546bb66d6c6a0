"""A plan without dynamic sizes as Python, where the launcher in C leaves a call to Python (profilers, modes, strides).

    text, constants = plan_text.write(plan, written)       def call(args): ...

A whole graph's Python is written before its plan (codegen/wrapper.py), and is what a reader sees; a part of a divided
graph has its plan alone.

In torch: nothing. Read next: nbcompile/gpu/division.py
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nbcompile.ir.emitted import (
    AllocateSlot,
    AtSlot,
    Call,
    Convolve,
    ExternResult,
    FreeSlot,
    Launch,
    LaunchPlan,
    Multiply,
    PlanOutput,
    Step,
    TensorShape,
    ViewSlot,
)

FIRST_CONSTANT = 1 << 32
"""Numbers of objects that have no text, above those of the graph's own."""


def write(plan: LaunchPlan, written: frozenset[int] = frozenset()) -> tuple[str, dict[int, object]]:
    """The text, and the objects that it names by number; ``written`` are positions of inputs that it writes to."""
    writer = _Writer()
    #     def call(args):
    #          [s0, s1] = args
    #          args.clear()                                   inputs are freed when they are used up
    #          s0 = expect(s0, (4, 8), (8, 1), torch.float32, False, 'cuda:0')
    #          s2 = empty_strided((4, 8), (8, 1), dtype=torch.float32, device='cuda:0')
    #          kernel0(s0, s1, s2)
    #          return (s2, )
    lines = [f"[{''.join(f's{at}, ' for at in range(len(plan.inputs)))}] = args", "args.clear()"]
    for at, shape in enumerate(plan.inputs):
        if shape is not None:
            layout = f"{shape.size}, {shape.stride}, {shape.dtype}, {at in written}, {_device(shape)!r}"
            lines.append(f"s{at} = expect(s{at}, {layout})")
    for at, (path, _) in enumerate(plan.attributes, len(plan.inputs)):
        lines.append(f"s{at} = attribute({path!r})")
    for step in plan.steps:
        lines += writer.step(step)
    results = [_output(output) for output in plan.outputs]
    lines.append(f"return {results[0]}" if plan.single else f"return ({''.join(f'{one}, ' for one in results)})")
    return "def call(args):\n    " + "\n    ".join(lines) + "\n", writer.constants


def _device(shape: TensorShape) -> str:
    return f"cuda:{shape.gpu}" if shape.gpu >= 0 else "cpu"


def _output(output: PlanOutput) -> str:
    if output.slot is None:
        return repr(output.value)
    if output.view is None:
        return f"s{output.slot}"
    size, stride, offset = output.view
    return f"view_of(s{output.slot}, {size}, {stride}, {offset})"


class _Writer:
    """Writes steps, and keeps the objects that have no text."""

    def __init__(self) -> None:
        self.constants: dict[int, object] = {}

    def step(self, step: Step) -> Iterator[str]:
        match step:
            case AllocateSlot(slot, shape):
                how = f"dtype={shape.dtype}, device={_device(shape)!r}"
                yield f"s{slot} = empty_strided({shape.size}, {shape.stride}, {how})"
            case FreeSlot(slot):
                yield f"s{slot} = None"
            case ViewSlot(slot, source, (size, stride, offset)):
                yield f"s{slot} = view_of(s{source}, {size}, {stride}, {offset})"
            case Launch(kernel, slots, sizes):
                yield f"{kernel}({', '.join([*(f's{slot}' for slot in slots), *map(repr, sizes)])})"
            case Call(extern, arguments, keywords, results):
                given = [*map(self.value, arguments), *(f"{name}={self.value(value)}" for name, value in keywords)]
                yield f"result = {extern}_target({', '.join(given)})"
                yield from map(_adopted, results)
                # The variable would keep the tensors alive that later steps free.
                yield "result = None"
            case Multiply(extern, product, slots, beta, alpha):
                given = [f"s{slot}" for slot in slots[1:]]
                given += [f"beta={beta}", f"alpha={alpha}"] if product in ("addmm", "baddbmm") else []
                yield f"s{slots[0]}.copy_({extern}_target({', '.join(given)}))"
            case Convolve(extern, slots, (stride, padding, dilation, output_padding, transposed, groups), result):
                # Input, weight, and the bias or None.
                tensors = [*(f"s{slot}" for slot in slots), "None"][:3]
                numbers = (list(stride), list(padding), list(dilation), transposed, list(output_padding), groups)
                yield f"result = {extern}_target({', '.join([*tensors, *map(repr, numbers)])})"
                yield _adopted(result)
                yield "result = None"

    def value(self, value: Any) -> str:
        """An argument: tensors and plain values as text, anything else by its number."""
        if isinstance(value, AtSlot):
            return f"s{value.slot}"
        # Exact types: a subclass, such as torch.Size, has another text.
        if type(value) is list:
            return f"[{', '.join(map(self.value, value))}]"
        if type(value) is tuple:
            return f"({''.join(f'{self.value(item)}, ' for item in value)})"
        if value is None or type(value) in (bool, int, str):
            return repr(value)
        number = FIRST_CONSTANT + len(self.constants)
        self.constants[number] = value
        return f"constant({number})"


def _adopted(result: ExternResult) -> str:
    item = "result" + "".join(f"[{at}]" for at in result.path)
    shape = result.shape
    return f"s{result.slot} = adopt({item}, {shape.size}, {shape.stride}, {shape.dtype}, 'aten.part')"
