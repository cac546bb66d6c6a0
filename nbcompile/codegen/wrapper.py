"""The Python that runs a graph: checks inputs, allocates, launches kernels, calls ATen, returns.

    def call(args):
        arg0_1, = args
        args.clear()
        expect(arg0_1, (64, 1000), (1000, 1), torch.float32)
        buf3 = empty_strided((64, 1000), (1000, 1), dtype=torch.float32)
        kernel0(arg0_1, buf3)
        return (buf3,)

The launch plan is the same program as data; the launcher in C runs it instead of this text where it can.

In torch: torch/_inductor/codegen/wrapper.py. Read next: nbcompile/codegen/launch_plan.py
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import sympy

from nbcompile.capture.complex_literals import exact
from nbcompile.codegen.printers import python_index, python_number
from nbcompile.codegen.writer import SourceWriter
from nbcompile.ir.buffer import BufferView, Extern, GraphAttribute, GraphInput, ModuleReference, Program, Tensor
from nbcompile.ir.emitted import EmittedKernel
from nbcompile.ir.index import Index
from nbcompile.ir.kernel import Allocate, Free, Kernel, Reuse, Schedule
from nbcompile.ir.layout import Layout, same_addresses


def write_wrapper(schedule: Schedule, kernels: Sequence[EmittedKernel]) -> str:
    """Write the wrapper's text: ``call(args)``, which clears the list ``args`` (boxed calling convention)."""
    program = schedule.program
    writer = SourceWriter()
    named = {kernel.name: kernel for kernel in kernels}
    with _function(writer, "def call(args):"):
        _inputs(writer, schedule)
        tensors = program.tensors()
        for step in schedule.steps:
            match step:
                case Allocate(buffer):
                    writer.line(f"{buffer} = {_empty(tensors[buffer])}")
                case Reuse(buffer, memory_of):
                    _reuse(writer, tensors, buffer, memory_of)
                case Free(buffer):
                    writer.line(f"del {buffer}")
                case Kernel(name=name):
                    writer.line(f"{name}({', '.join((*named[name].arguments, *named[name].sizes))})")
                case Extern():
                    _extern(writer, schedule, step)
        results = [_result(tensors, output) for output in program.outputs]
        writer.line(
            f"return {results[0]}"
            if program.single_output
            else f"return ({''.join(result + ', ' for result in results).rstrip(' ')})"
        )
    return writer.text()


class _function:
    """A Python block: indented by four."""

    def __init__(self, writer: SourceWriter, header: str) -> None:
        self.writer, self.header = writer, header

    def __enter__(self) -> None:
        self.writer.line(self.header)
        self.writer.depth += 2

    def __exit__(self, *_: object) -> None:
        self.writer.depth -= 2


def _argument_names(program: Program, inputs: Mapping[int, GraphInput]) -> list[str]:
    """A name for each argument: of a buffer, of a number, or of nothing that is used."""
    names = [inputs[at].name if at in inputs else f"unused{at}" for at in range(program.arguments)]
    # A size that is an argument has the symbol's own name: sizes of tensors are written in terms of it.
    numbers = {source.position: source.symbol.name for source in program.symbols if source.dim is None}
    return [numbers.get(at, name) for at, name in enumerate(names)]


def _written(schedule: Schedule) -> set[str]:
    """Buffers that a kernel or an extern call writes to."""
    written: set[str] = set()
    for step in schedule.steps:
        if isinstance(step, (Kernel, Extern)):
            written.update(step.writes if isinstance(step, Kernel) else step.mutates)
    return written


def _inputs(writer: SourceWriter, schedule: Schedule) -> None:
    program = schedule.program
    inputs = {buffer.position: buffer for buffer in program.buffers if isinstance(buffer, GraphInput)}
    names = _argument_names(program, inputs)
    writer.line(f"{''.join(name + ', ' for name in names).rstrip(' ') or '()'} = args" if names else "assert not args")
    # From here on the caller's list keeps no input alive: each is freed after its last use.
    writer.line("args.clear()")
    for source in program.symbols:
        # Sizes are read before an input is checked or copied: the check itself uses them.
        if source.dim is not None:
            writer.line(f"{source.symbol.name} = {names[source.position]}.{source.property}({source.dim})")
    written = _written(schedule)
    for graph_input in inputs.values():
        # An input with other strides is copied, which is not allowed if the graph writes to it.
        mutable = ", written=True" if graph_input.name in written else ""
        if graph_input.device.type != "cpu":
            mutable += f", device={str(graph_input.device)!r}"
        name, layout = graph_input.name, _sizes(graph_input.layout)
        writer.line(f"{name} = expect({name}, {layout}, {graph_input.dtype}{mutable})")
    for attribute in program.buffers:
        if isinstance(attribute, GraphAttribute):
            writer.line(f"{attribute.name} = attribute({attribute.attribute!r})")


def _sizes(layout: Layout) -> str:
    return f"{_tuple(layout.size)}, {_tuple(layout.stride)}"


def _tuple(values: Sequence[Index]) -> str:
    return (
        f"({''.join(python_index(value) + ', ' for value in values).rstrip(' ')})"
        if len(values) < 2
        else f"({', '.join(map(python_index, values))})"
    )


def _empty(tensor: Tensor) -> str:
    device = "" if tensor.device.type == "cpu" else f", device={str(tensor.device)!r}"
    return f"empty_strided({_sizes(tensor.layout)}, dtype={tensor.dtype}{device})"


def _reuse(writer: SourceWriter, tensors: dict[str, Tensor], buffer: str, memory_of: str) -> None:
    new, old = tensors[buffer], tensors[memory_of]
    # The same object under another name, where nothing but the content differs.
    if new.dtype == old.dtype and new.layout == old.layout:
        writer.line(f"{buffer} = {memory_of}; del {memory_of}  # its memory is not needed any more")
    else:
        writer.line(f"{buffer} = take_over({memory_of}, {_sizes(new.layout)}, {new.dtype}); del {memory_of}")


def _result(tensors: dict[str, Tensor], output: BufferView | Index | float | None) -> str:
    match output:
        case None:
            return "None"
        case bool() | float():
            return _argument(tensors, output)
        case BufferView():
            return view_text(tensors, output)
        case _:
            return python_number(output)


def view_text(tensors: dict[str, Tensor], view: BufferView) -> str:
    """A view of a buffer as Python; the buffer's own name where they are the same."""
    own = tensors[view.buffer].layout
    if is_itself(own, view.layout) and not view.distinct:
        return view.buffer
    return f"view_of({view.buffer}, {_sizes(view.layout)}, {python_index(view.layout.offset)})"


def is_itself(own: Layout, view_layout: Layout) -> bool:
    """Return whether a view is the whole buffer unchanged, strides of size-1 dimensions included."""
    return own == view_layout or (same_addresses(own, view_layout) and own.stride == view_layout.stride)


# --- calls of ATen ---------------------------------------------------------------------------------------------------


def _extern(writer: SourceWriter, schedule: Schedule, extern: Extern) -> None:
    tensors = schedule.program.tensors()
    arguments = [_argument(tensors, arg) for arg in extern.args]
    arguments += [f"{key}={_argument(tensors, value)}" for key, value in extern.kwargs.items()]
    outputs = schedule.program.outputs_of.get(extern.name, ())
    call = f"{extern.name}_target({', '.join(arguments)})"
    writer.comment("#", f"{extern.name}: {extern.target}; {extern.reason}")
    if not outputs:
        writer.line(call)
        return
    writer.line(f"{extern.name} = {call}")
    for output in outputs:
        path = "".join(f"[{at}]" for at in output.path)
        layout = f"{_sizes(output.layout)}, {output.dtype}"
        writer.line(f"{output.name} = adopt({extern.name}{path}, {layout}, {str(extern.target)!r})")
    # The tuple would keep all results alive, also those that are freed earlier.
    writer.line(f"del {extern.name}")


def _argument(tensors: dict[str, Tensor], value: object) -> str:
    match value:
        case BufferView():
            return view_text(tensors, value)
        case ModuleReference(attribute):
            return f"attribute({attribute!r})"
        case sympy.Basic():
            return python_number(value)
        case list():
            return f"[{', '.join(_argument(tensors, item) for item in value)}]"
        case tuple():
            return f"({''.join(_argument(tensors, item) + ', ' for item in value)})"
        case dict():
            return f"{{{', '.join(f'{key!r}: {_argument(tensors, item)}' for key, item in value.items())}}}"
        case slice():
            return f"slice({', '.join(_argument(tensors, bound) for bound in (value.start, value.stop, value.step))})"
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
    # No text means this object: the wrapper takes it from a table by its id (``opaque_values``).
    return f"constant({id(value)})"


def opaque_values(schedule: Schedule) -> dict[int, object]:
    """Arguments of extern calls that have no text (a generator, a graph module), by id."""
    tensors = schedule.program.tensors()
    found: dict[int, object] = {}

    def visit(value: object) -> None:
        match value:
            case list() | tuple():
                for item in value:
                    visit(item)
            case dict():
                for item in value.values():
                    visit(item)
            case _:
                if _argument(tensors, value).startswith("constant("):
                    found[id(value)] = value

    for step in schedule.steps:
        if isinstance(step, Extern):
            visit(step.args)
            visit(step.kwargs)
    return found
