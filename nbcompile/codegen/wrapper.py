"""The wrapper: a launch plan as Python, for readers, and for plans that the launcher in C cannot run.

    def call(args):
        arg0_1, = args
        args.clear()
        expect(arg0_1, (64, 1000), (1000, 1), torch.float32)
        buf3 = empty_strided((64, 1000), (1000, 1), dtype=torch.float32)
        kernel0(arg0_1, buf3)
        return (buf3,)

It is printed of the plan that runs, with the names of its buffers, and independent of the schedule. It needs no SymPy,
as a process that compiles nothing prints parts of a stored plan.

In torch: torch/_inductor/codegen/wrapper.py. Read next: nbcompile/codegen/named_plan.py
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from nbcompile.capture.complex_literals import exact
from nbcompile.codegen.named_plan import LibraryCall, Line, NamedPlan, TakeOver
from nbcompile.codegen.writer import SourceWriter
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
    Number,
    PlanOutput,
    PythonExpression,
    RuntimeSize,
    TensorShape,
    ViewNumbers,
    ViewSlot,
)


def write_wrapper(named: NamedPlan) -> str:
    """Write the text: ``call(args)``, which clears the list ``args`` (boxed calling convention)."""
    printer = _Printer(named)
    printer.writer.line("def call(args):")
    printer.writer.depth += 2
    printer.inputs()
    for line in named.lines:
        printer.line(line)
    printer.results()
    return printer.writer.text()


class _Printer:
    """Printer of one plan, line by line."""

    def __init__(self, named: NamedPlan) -> None:
        self.named, self.plan, self.writer = named, named.plan, SourceWriter()
        self.names: dict[int, str] = {}
        """Current text of each slot: a buffer's name, or the text of a view at its use."""
        self.waiting = {slot: iter(names) for slot, names in named.names.items()}
        """Names of each slot that are still unused."""

    def inputs(self) -> None:
        plan, writer = self.plan, self.writer
        names = [self._named(position) for position in range(len(plan.inputs))]
        writer.line(f"{''.join(name + ', ' for name in names).rstrip(' ')} = args" if names else "assert not args")
        # Then the caller's list keeps no input alive, and each is freed after its last use.
        writer.line("args.clear()")
        for at, value in enumerate(plan.values):
            # Sizes are read before an input is checked or copied, since the check uses them. Sizes that are computed
            # from others are written at their uses.
            if value.operation in ("size", "stride"):
                tensor = names[value.first]  # type: ignore[index]  # a position
                writer.line(f"{self.named.sizes[at]} = {tensor}.{value.operation}({value.second})")
        for at, shape in enumerate(plan.inputs):
            if shape is not None:
                # An input with other strides is copied, which is not allowed if the graph writes to it.
                mutable = ", written=True" if at in self.named.written else ""
                how = f"{self._layout(shape)}, {shape.dtype}{mutable}{_device(shape)}"
                writer.line(f"{names[at]} = expect({names[at]}, {how})")
        for slot, (path, _) in enumerate(plan.attributes, len(plan.inputs)):
            writer.line(f"{self._named(slot)} = attribute({path!r})")

    def line(self, line: Line) -> None:
        match line:
            case AllocateSlot(slot, shape):
                how = f"{self._layout(shape)}, dtype={shape.dtype}{_device(shape)}"
                self.writer.line(f"{self._named(slot)} = empty_strided({how})")
            case FreeSlot(slot):
                self.writer.line(f"del {self.names[slot]}")
            case Launch(kernel, slots, sizes):
                arguments = (*(self.names[slot] for slot in slots), *map(self._number, sizes))
                self.writer.line(f"{kernel}({', '.join(arguments)})")
            case ViewSlot(slot, source, view):
                self.writer.line(f"{self._named(slot)} = {self._view(source, view)}")
            case TakeOver():
                self._take_over(line)
            case LibraryCall(steps):
                self._library_call(steps)
            case Multiply(_, _, slots):
                # Not for its allocation, which may be in another part of the graph: the result exists already.
                self.writer.line(f"{self.names[slots[0]]}.copy_({self._product(line)})")
            case Call() | Convolve():
                self._library_call((line,))

    def results(self) -> None:
        results = [self._result(output) for output in self.plan.outputs]
        many = f"({''.join(result + ', ' for result in results).rstrip(' ')})"
        self.writer.line(f"return {results[0] if self.plan.single else many}")

    def _named(self, slot: int) -> str:
        """The next name of a slot."""
        self.names[slot] = next(self.waiting[slot])
        return self.names[slot]

    def _take_over(self, line: TakeOver) -> None:
        old, new = self.names[line.source], self._named(line.slot)
        # The same object under another name, if only the content differs.
        if not line.steps:
            self.writer.line(f"{new} = {old}; del {old}  # its memory is not needed any more")
        else:
            self.writer.line(f"{new} = take_over({old}, {self._layout(line.shape)}, {line.shape.dtype}); del {old}")

    def _result(self, output: PlanOutput) -> str:
        if output.slot is None:
            return self._argument(output.value)
        return self.names[output.slot] if output.view is None else self._view(output.slot, output.view)

    # --- calls of ATen -----------------------------------------------------------------------------------------------

    def _library_call(self, steps: Sequence[Line]) -> None:
        shapes: dict[int, TensorShape] = {}
        for step in steps:
            match step:
                # A view for one call is written among its arguments, and needs no ``del``.
                case ViewSlot(slot, source, view):
                    self.names[slot] = self._view(source, view)
                case AllocateSlot(slot, shape):
                    shapes[slot] = shape
                case Launch(kernel, slots, sizes):
                    self.writer.comment("#", self.named.reasons[kernel])
                    given = [*(self.names[slot] for slot in slots), *map(self._number, sizes)]
                    self.writer.line(f"{kernel}({', '.join(given)})")
                case Call(extern, arguments, keywords, results):
                    given = [*map(self._argument, arguments)]
                    given += [f"{name}={self._argument(value)}" for name, value in keywords]
                    self._called(extern, _call(extern, given), results)
                case Multiply(extern, _, slots):
                    self._called(extern, self._product(step), (ExternResult((), slots[0], shapes[slots[0]]),))
                case Convolve(extern, slots, (stride, padding, dilation, output_padding, transposed, groups), result):
                    # Input, weight, and the bias or None.
                    tensors = [*(self.names[slot] for slot in slots), "None"][:3]
                    numbers = (list(stride), list(padding), list(dilation), transposed, list(output_padding), groups)
                    self._called(extern, _call(extern, [*tensors, *map(repr, numbers)]), (result,))

    def _product(self, step: Multiply) -> str:
        given = [self.names[slot] for slot in step.slots[1:]]
        scales = (("beta", step.beta), ("alpha", step.alpha))
        return _call(step.extern, given + [f"{name}={literal(scale)}" for name, scale in scales if scale != 1])

    def _called(self, extern: str, call: str, results: Sequence[ExternResult]) -> None:
        operator = self.named.operators[extern]
        if extern in self.named.reasons:
            self.writer.comment("#", f"{extern}: {operator}; {self.named.reasons[extern]}")
        if not results:
            self.writer.line(call)
            return
        self.writer.line(f"{extern} = {call}")
        for result in results:
            item = extern + "".join(f"[{at}]" for at in result.path)
            if result.is_view:
                self.writer.line(f"{self._named(result.slot)} = {item}")
                continue
            how = f"{self._layout(result.shape)}, {result.shape.dtype}, {operator!r}"
            self.writer.line(f"{self._named(result.slot)} = adopt({item}, {how})")
        # The tuple would keep all results alive, even those that are freed earlier.
        self.writer.line(f"del {extern}")

    def _argument(self, value: object) -> str:
        match value:
            case AtSlot(slot):
                return self.names[slot]
            case RuntimeSize() | PythonExpression():
                return self._number(value)
            case list():
                return f"[{', '.join(map(self._argument, value))}]"
            case tuple():
                return f"({''.join(self._argument(item) + ', ' for item in value)})"
            case dict():
                return f"{{{', '.join(f'{key!r}: {self._argument(item)}' for key, item in value.items())}}}"
            case slice():
                return f"slice({', '.join(map(self._argument, (value.start, value.stop, value.step)))})"
        return literal(value)

    # --- numbers -----------------------------------------------------------------------------------------------------

    def _view(self, source: int, view: ViewNumbers) -> str:
        size, stride, offset = view
        return f"view_of({self.names[source]}, {self._tuple(size)}, {self._tuple(stride)}, {self._number(offset)})"

    def _layout(self, shape: TensorShape) -> str:
        return f"{self._tuple(shape.size)}, {self._tuple(shape.stride)}"

    def _tuple(self, values: Sequence[Number]) -> str:
        return f"({', '.join(map(self._number, values))}{',' if len(values) == 1 else ''})"

    def _number(self, value: Any) -> str:
        if isinstance(value, PythonExpression):
            return value.text
        return self.named.sizes[value.at] if isinstance(value, RuntimeSize) else str(value)


def _call(extern: str, arguments: Iterable[str]) -> str:
    return f"{extern}_target({', '.join(arguments)})"


def _device(shape: TensorShape) -> str:
    device = f"cuda:{shape.gpu}" if shape.gpu >= 0 else shape.other_device
    return f", device={device!r}" if device else ""


def literal(value: object) -> str:
    """A constant as Python."""
    match value:
        # ``repr`` gives ``inf`` and ``nan``, which are names in Python.
        case float() if not math.isfinite(value):
            return f"float({str(value)!r})"
        case complex():
            return repr(exact(value))
        case None | bool() | int() | float() | str():
            return repr(value)
    if type(value).__module__ == "torch" and type(value).__name__ == "device":
        return f"torch.{value!r}"
    if type(value).__module__ == "torch" and type(value).__name__ in {"dtype", "layout", "memory_format"}:
        return str(value) if str(value).startswith("torch.") else f"torch.{value}"
    # The object has no text: the wrapper reads it from a table by its id (``opaque_constants``).
    return f"constant({id(value)})"


def opaque_constants(values: Iterable[object]) -> dict[int, object]:
    """Constants among arguments that have no text (a generator, a graph module), by id."""
    found: dict[int, object] = {}
    for value in values:
        match value:
            case list() | tuple():
                found |= opaque_constants(value)
            case dict():
                found |= opaque_constants(value.values())
            case AtSlot() | RuntimeSize() | PythonExpression() | slice():
                pass
            case _ if literal(value).startswith("constant("):
                found[id(value)] = value
    return found


def opaque_arguments(plan: LaunchPlan) -> dict[int, object]:
    """Constants of a plan's calls that have no text, by id."""
    calls = [step for step in plan.steps if isinstance(step, Call)]
    return opaque_constants([(step.arguments, step.keywords) for step in calls])
