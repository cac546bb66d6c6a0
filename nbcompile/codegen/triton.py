"""A schedule as Triton kernels: the same IR, for a GPU.

    kernel0: for i0 < 64:  for r0 < 1000: buf0 = sum(x[1000*i0 + r0])  ...
    ->  @triton.jit
        def kernel0(in0, out0):
            row = tl.program_id(0)
            r0 = tl.arange(0, 1024)
            ...
            v0 = tl.sum(tl.where(r0 < 1000, tl.load(in0 + 1000*i0 + r0, r0 < 1000, 0.0), 0.0), 0)

Three shapes of kernel: pointwise (one program for a block of elements), rows
(one program for an outer iteration; short rows stay in registers, "persistent",
long ones are looped over), and columns (a block of outer iterations, the
reduction a plain loop). A block has no lanes to spare: what lies beyond the
end is masked.

In torch: torch/_inductor/codegen/triton.py. Read next:
nbcompile/runtime/triton.py
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import sympy
import torch

from nbcompile.codegen.facts import size_symbols, vector_is_outside
from nbcompile.codegen.printers import TRITON, print_index
from nbcompile.codegen.wrapper import write_wrapper
from nbcompile.codegen.writer import SourceWriter
from nbcompile.ir import index as indexing
from nbcompile.ir.buffer import Extern
from nbcompile.ir.emitted import EmittedKernel, EmittedProgram
from nbcompile.ir.expr import Apply, Constant, Expr, Gather, IndexOf, Load, Local, Masked
from nbcompile.ir.index import Index
from nbcompile.ir.kernel import Accumulate, Kernel, Let, Loop, Nest, Schedule, Store, Update

BLOCK = 1024
COLUMN_BLOCK = 128
PERSISTENT_ROW = 16384
"""The longest row that stays in registers."""

TYPES = {
    torch.float32: "tl.float32", torch.float64: "tl.float64",
    torch.bfloat16: "tl.bfloat16", torch.float16: "tl.float16", torch.bool: "tl.int1",
    torch.int8: "tl.int8", torch.int16: "tl.int16", torch.int32: "tl.int32", torch.int64: "tl.int64",
    torch.uint8: "tl.uint8", torch.uint16: "tl.uint16", torch.uint32: "tl.uint32", torch.uint64: "tl.uint64",
}  # fmt: skip
POINTERS = {
    torch.float32: "*fp32", torch.float64: "*fp64", torch.bfloat16: "*bf16", torch.float16: "*fp16", torch.bool: "*i1",
    torch.int8: "*i8", torch.int16: "*i16", torch.int32: "*i32", torch.int64: "*i64",
    torch.uint8: "*u8", torch.uint16: "*u16", torch.uint32: "*u32", torch.uint64: "*u64",
}  # fmt: skip

PRELUDE = Path(__file__).with_name("triton_functions.py").read_text()
"""What Triton's own language lacks, as the source of functions that every generated module carries."""

LIBDEVICE = ["tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "erfc", "erfinv", "lgamma"]

OPERATIONS = {
    "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "{0} / {1}", "neg": "-{0}",
    "eq": "{0} == {1}", "ne": "{0} != {1}",
    "lt": "{0} < {1}", "le": "{0} <= {1}", "gt": "{0} > {1}", "ge": "{0} >= {1}",
    "logical_and": "{0} & {1}", "logical_or": "{0} | {1}", "logical_not": "{0} == 0",
    "bitwise_and": "{0} & {1}", "bitwise_or": "{0} | {1}", "bitwise_xor": "{0} ^ {1}", "bitwise_not": "~{0}",
    "shift_left": "{0} << {1}", "shift_right": "{0} >> {1}", "where": "tl.where({0}, {1}, {2})",
    "maximum": "nan_maximum({0}, {1})", "minimum": "nan_minimum({0}, {1})",
    "fmax": "tl.maximum({0}, {1})", "fmin": "tl.minimum({0}, {1})",
    "exp": "tl.exp({0})", "log": "tl.log({0})", "sqrt": "tl.sqrt_rn({0})", "sin": "tl.sin({0})", "cos": "tl.cos({0})",
    "erf": "tl.erf({0})", "abs": "tl.abs({0})", "floor": "tl.floor({0})",
    "ceil": "tl.ceil({0})", "exp2": "tl.exp2({0})",
    "log2": "tl.log2({0})", "rsqrt": "1.0 / tl.sqrt_rn({0})", "reciprocal": "1.0 / {0}", "isnan": "{0} != {0}",
    "sigmoid": "sigmoid({0})", "tanh": "tanh({0})", "expm1": "expm1({0})", "log1p": "log1p({0})", "log10": "log10({0})",
    "isinf": "is_infinite({0})", "sign": "sign({0})", "round": "round_half_even({0})", "trunc": "truncate({0})",
    "signbit": "sign_bit({0})", "floor_div": "floor_divide({0}, {1})", "trunc_div": "truncate_divide({0}, {1})",
    "remainder": "remainder({0}, {1})", "fmod": "c_remainder({0}, {1})",
    **{name: f"libdevice.{name}({{0}})" for name in LIBDEVICE},
    "atan2": "libdevice.atan2({0}, {1})", "hypot": "libdevice.hypot({0}, {1})",
    "copysign": "libdevice.copysign({0}, {1})",
    "nextafter": "libdevice.nextafter({0}, {1})", "pow": "power({0}, {1})",
}  # fmt: skip
"""The Triton of each operation. ``libdevice`` is NVIDIA's mathematical library."""

START = {"sum": "0", "prod": "1", "any": "0", "all": "1"}


class NoTriton(NotImplementedError):
    """A kernel that has no Triton form yet; the message names what is missing."""


def emit(schedule: Schedule) -> EmittedProgram:
    """A Python module with one Triton kernel for each kernel of the schedule.

    Raises:
        NoTriton: an operation has no Triton form.
    """
    kernels = tuple(emit_kernel(kernel, schedule) for kernel in schedule.kernels())
    source = PRELUDE + "".join("\n\n" + kernel.source for kernel in kernels)
    externs = tuple(step for step in schedule.steps if isinstance(step, Extern))
    return EmittedProgram(
        schedule,
        source,
        write_wrapper(schedule, kernels),
        kernels,
        externs,
        None,
        "Triton kernels are launched from Python",
    )


@dataclass(slots=True)
class TritonEmitter:
    """What is known while one kernel is written."""

    kernel: Kernel
    schedule: Schedule
    writer: SourceWriter
    pointers: dict[str, str]
    mask: str = ""
    """Which elements of the block exist."""
    locals: dict[str, str] = field(default_factory=dict)
    rows: dict[str, str] = field(default_factory=dict)
    """Scratch rows that are kept in registers."""
    counter: int = 0

    def fresh(self, stem: str) -> str:
        """A name that is not taken."""
        self.counter += 1
        return f"{stem}{self.counter}"


def signature(kernel: EmittedKernel, schedule: Schedule) -> dict[str, str]:
    """The argument types as ``triton.compile`` wants them: ``{"in0": "*fp32", "s0": "i64"}``."""
    tensors = schedule.program.tensors()
    return {
        **{f"p{at}": POINTERS[tensors[name].dtype] for at, name in enumerate(kernel.arguments)},
        **dict.fromkeys(kernel.sizes, "i64"),
    }


def emit_kernel(kernel: Kernel, schedule: Schedule) -> EmittedKernel:
    """One kernel as a Triton function, and its grid as a Python one."""
    arguments = tuple(dict.fromkeys((*kernel.reads, *kernel.writes)))
    sizes = tuple(symbol.name for symbol in size_symbols(kernel))
    writer = SourceWriter()
    emitter = TritonEmitter(kernel, schedule, writer, {name: f"p{at}" for at, name in enumerate(arguments)})
    writer.line("@triton.jit")
    writer.line(f"def {kernel.name}({', '.join((*emitter.pointers.values(), *sizes))}):")
    writer.depth += 2
    for name, pointer in emitter.pointers.items():
        writer.line(f"# {pointer} is {name}")
    programs = _columns(emitter) if vector_is_outside(kernel) else _rows(emitter)
    writer.depth -= 2
    writer.line("")
    writer.line("")
    writer.line(f"def {kernel.name}_grid({', '.join(sizes)}):")
    writer.line(f"    return ({programs},)")
    return EmittedKernel(
        kernel.name,
        kernel.name,
        writer.text(),
        arguments,
        sizes,
        kernel.buffers,
        kernel.from_nodes,
        writer.line_map(),
        language="triton",
    )


def _text(index: Index) -> str:
    return print_index(index, TRITON)


def _columns(emitter: TritonEmitter) -> str:
    """A block of outer iterations; nests are plain loops. Answers how many programs there are."""
    kernel, writer = emitter.kernel, emitter.writer
    has_nests = any(isinstance(statement, Nest) for statement in kernel.body)
    if kernel.scratch:
        raise NoTriton("a scratch row inside a vectorised outer loop")
    block = COLUMN_BLOCK if has_nests else BLOCK
    total = indexing.product([loop.size for loop in kernel.loops])
    writer.line(f"element = tl.program_id(0).to(tl.int64) * {block} + tl.arange(0, {block})")
    emitter.mask = f"(element < {_text(total)})"
    _split(writer, "element", kernel.loops)
    for statement in kernel.body:
        if isinstance(statement, Nest):
            _plain_nest(emitter, statement, block)
        else:
            _statement(emitter, statement)
    return f"({_text(total)} + {block - 1}) // {block}"


def _split(writer: SourceWriter, flat: str, loops: Sequence[Loop]) -> None:
    """The loop variables of an element that is counted over all loops."""
    step: Index = indexing.ONE
    for at, loop in reversed(list(enumerate(loops))):
        text = flat if step == indexing.ONE else f"{flat} // ({_text(step)})"
        writer.line(
            f"{loop.variable.name} = {text}" if at == 0 else f"{loop.variable.name} = ({text}) % ({_text(loop.size)})"
        )
        step = step * loop.size


def _plain_nest(emitter: TritonEmitter, nest: Nest, block: int) -> None:
    writer = emitter.writer
    totals = [part for part in nest.body if isinstance(part, Accumulate)]
    for total in totals:
        _start(emitter, total, block)
    for loop in nest.loops:
        writer.line(f"for {loop.variable.name} in range({_text(loop.size)}):")
        writer.depth += 2
    before = dict(emitter.locals)
    for part in nest.body:
        if isinstance(part, Accumulate):
            _combine(emitter, part, emitter.mask)
        else:
            _statement(emitter, part)
    emitter.locals = before
    writer.depth -= 2 * len(nest.loops)
    for part in totals:
        emitter.locals[part.name] = _total(part) if not part.kind.startswith("arg") else f"{part.name}_place"


def _rows(emitter: TritonEmitter) -> str:
    """One program for an outer iteration. Answers how many programs there are."""
    kernel, writer = emitter.kernel, emitter.writer
    writer.line("row = tl.program_id(0).to(tl.int64)")
    _split(writer, "row", kernel.loops)
    lengths = [
        indexing.constant(indexing.product([loop.size for loop in each.loops]))
        for each in kernel.body
        if isinstance(each, Nest)
    ]
    persistent = all(length is not None and length <= PERSISTENT_ROW for length in lengths)
    if kernel.scratch and not persistent:
        raise NoTriton("a scratch row that is too long for registers")
    for statement in kernel.body:
        if not isinstance(statement, Nest):
            _statement(emitter, statement)
        elif persistent:
            _persistent_nest(emitter, statement)
        else:
            _looped_nest(emitter, statement)
    return _text(indexing.product([loop.size for loop in kernel.loops]))


def _persistent_nest(emitter: TritonEmitter, nest: Nest) -> None:
    writer = emitter.writer
    length = indexing.product([loop.size for loop in nest.loops])
    block = 1 << max(int(length) - 1, 0).bit_length()
    writer.line(f"inner = tl.arange(0, {block})")
    emitter.mask = f"(inner < {_text(length)})"
    _split(writer, "inner", nest.loops)
    finished = {}
    for part in nest.body:
        if isinstance(part, Accumulate):
            finished[part.name] = _reduce(emitter, part, _value(emitter, part.value))
        else:
            _statement(emitter, part)
    emitter.locals |= finished
    emitter.mask = ""


def _looped_nest(emitter: TritonEmitter, nest: Nest) -> None:
    writer = emitter.writer
    totals = [part for part in nest.body if isinstance(part, Accumulate)]
    length = indexing.product([loop.size for loop in nest.loops])
    for total in totals:
        _start(emitter, total, BLOCK)
    writer.line(f"for begin in range(0, {_text(length)}, {BLOCK}):")
    writer.depth += 2
    writer.line(f"inner = begin + tl.arange(0, {BLOCK})")
    emitter.mask = f"(inner < {_text(length)})"
    _split(writer, "inner", nest.loops)
    before = dict(emitter.locals)
    for part in nest.body:
        if isinstance(part, Accumulate):
            _combine(emitter, part, emitter.mask)
        else:
            _statement(emitter, part)
    emitter.locals = before
    emitter.mask = ""
    writer.depth -= 2
    for part in totals:
        emitter.locals[part.name] = _across(emitter, part)


# --- reductions ------------------------------------------------------------------------------------------------------


def _total(part: Accumulate) -> str:
    return f"{part.name}_total"


def _limit(part: Accumulate) -> str:
    """What changes nothing when it is combined."""
    if part.kind in START:
        return START[part.kind]
    lowest = part.kind in {"max", "argmax"}
    dtype = part.value.dtype
    if dtype.is_floating_point:
        return 'float("-inf")' if lowest else 'float("inf")'
    if dtype == torch.bool:
        return "0" if lowest else "1"
    limits = torch.iinfo(dtype)
    return str(limits.min if lowest else limits.max)


def _start(emitter: TritonEmitter, part: Accumulate, block: int) -> None:
    kind = TYPES[part.value.dtype]
    emitter.writer.line(f"{_total(part)} = tl.full([{block}], {_limit(part)}, {kind})", _origin(emitter, part.name))
    if part.kind.startswith("arg"):
        emitter.writer.line(f"{part.name}_place = tl.full([{block}], {2**63 - 1}, tl.int64)")


def _combine(emitter: TritonEmitter, part: Accumulate, mask: str) -> None:
    total, value, origin = _total(part), _value(emitter, part.value), _origin(emitter, part.name)
    if part.kind.startswith("arg"):
        best = emitter.fresh("better")
        place = f"({_text(part.place)}) + tl.zeros_like({part.name}_place)"
        test = "beats_larger" if part.kind == "argmax" else "beats_smaller"
        emitter.writer.line(f"{best} = {test}({value}, {place}, {total}, {part.name}_place) & {mask}", origin)
        emitter.writer.line(f"{total} = tl.where({best}, {value}, {total})", origin)
        emitter.writer.line(f"{part.name}_place = tl.where({best}, {place}, {part.name}_place)", origin)
        return
    emitter.writer.line(f"{total} = tl.where({mask}, {JOIN[part.kind].format(total, f'({value})')}, {total})", origin)


JOIN = {
    "sum": "{0} + {1}", "prod": "{0} * {1}", "max": "nan_maximum({0}, {1})", "min": "nan_minimum({0}, {1})",
    "any": "{0} | {1}", "all": "{0} & {1}",
}  # fmt: skip
ACROSS = {
    "sum": "tl.sum({0}, 0)", "prod": "tl.reduce({0}, 0, multiply)",
    "max": "tl.reduce({0}, 0, nan_maximum)", "min": "tl.reduce({0}, 0, nan_minimum)",
    "any": "tl.max({0}.to(tl.int32), 0) != 0", "all": "tl.min({0}.to(tl.int32), 0) != 0",
}  # fmt: skip


def _reduce(emitter: TritonEmitter, part: Accumulate, value: str) -> str:
    """Combine a whole row that is in registers."""
    dtype = TYPES[part.value.dtype]
    emitter.writer.line(
        f"{_total(part)} = tl.where({emitter.mask}, {value}, tl.full([1], {_limit(part)}, {dtype}))",
        _origin(emitter, part.name),
    )
    if part.kind.startswith("arg"):
        place = f"({_text(part.place)}) + tl.zeros_like(inner).to(tl.int64)"
        emitter.writer.line(f"{part.name}_place = tl.where({emitter.mask}, {place}, {2**63 - 1})")
    return _across(emitter, part)


def _across(emitter: TritonEmitter, part: Accumulate) -> str:
    origin = _origin(emitter, part.name)
    if part.kind.startswith("arg"):
        pick = "pick_larger" if part.kind == "argmax" else "pick_smaller"
        emitter.writer.line(f"_, {part.name} = tl.reduce(({_total(part)}, {part.name}_place), 0, {pick})", origin)
    else:
        emitter.writer.line(f"{part.name} = {ACROSS[part.kind].format(_total(part))}", origin)
    return part.name


def _origin(emitter: TritonEmitter, name: str) -> tuple[str, ...]:
    for buffer in emitter.schedule.program.buffers:
        if buffer.name == name:
            return buffer.from_nodes
    return ()


# --- statements and values -------------------------------------------------------------------------------------------


def _statement(emitter: TritonEmitter, statement: Let | Store | Update) -> None:
    value = _value(emitter, statement.value)
    if isinstance(statement, Update):
        _update(emitter, statement, value)
    elif isinstance(statement, Let):
        emitter.writer.line(f"{statement.name} = {value}", _origin(emitter, statement.name))
        emitter.locals[statement.name] = statement.name
    elif any(scratch.name == statement.buffer for scratch in emitter.kernel.scratch):
        emitter.writer.line(f"{statement.buffer} = {value}")
        emitter.rows[statement.buffer] = statement.buffer
    else:
        mask = f", {emitter.mask}" if emitter.mask else ""
        emitter.writer.line(
            f"tl.store({emitter.pointers[statement.buffer]} + ({_text(statement.offset)}), {value}{mask})",
            _origin(emitter, statement.buffer),
        )


ATOMIC = {"sum": "add", "max": "max", "min": "min"}
ATOMIC_TYPES = frozenset({torch.float32, torch.float64, torch.int32, torch.int64})


def _update(emitter: TritonEmitter, update: Update, value: str) -> None:
    """Lanes that meet at one element take turns: an atomic operation.

    Of several stores to one element any may be the last, as in eager on a GPU.
    """
    dtype = update.value.dtype
    # CUDA's maximum of floating-point numbers forgets nan.
    forgets_nan = dtype.is_floating_point and update.kind in ("max", "min")
    takes_turns = update.kind in ATOMIC and dtype in ATOMIC_TYPES and not forgets_nan
    if not takes_turns and update.kind not in ("store", "any"):
        raise NoTriton(f"an element of {dtype} changed by {update.kind}, in turns")
    before = emitter.mask
    _gathers(emitter, update.place.gathers, update.place.index)
    limits = [f"({g.symbol.name} >= 0) & ({g.symbol.name} < {_text(g.size)})" for g in update.place.gathers]
    if update.kind == "any":
        limits.append(value)  # what is true is stored, whoever comes first; what is false changes nothing
    mask = " & ".join([*([before] if before else []), *(f"({each})" for each in limits)])
    function = f"tl.atomic_{ATOMIC[update.kind]}" if takes_turns else "tl.store"
    address = f"{emitter.pointers[update.buffer]} + ({_text(update.place.index)})"
    emitter.writer.line(f"{function}({address}, {value}{f', {mask}' if mask else ''})", _origin(emitter, update.buffer))


def _value(emitter: TritonEmitter, body: Expr) -> str:
    match body:
        case Constant(value, dtype):
            return _constant(value, dtype)
        case Local(name):
            return emitter.locals[name]
        case Apply("cast", (inner,), dtype):
            text = _value(emitter, inner)
            return f"({text} != 0)" if dtype == torch.bool else f"({text}).to({TYPES[dtype]})"
        case Apply(op, args):
            if op not in OPERATIONS:
                raise NoTriton(f"the operation {op}")
            return _named(emitter, OPERATIONS[op].format(*(_operand(_value(emitter, each)) for each in args)))
        case Load():
            return _load(emitter, body)
        case IndexOf(index, dtype, gathers):
            _gathers(emitter, gathers, index)
            return f"({_text(index)} + tl.full([1], 0, tl.int64)).to({TYPES[dtype]})"
        case Masked(condition, value, otherwise):
            before = emitter.mask
            name = _named(emitter, _value(emitter, condition), "m")
            emitter.mask = f"({before} & {name})" if before else name
            inside = _named(emitter, _value(emitter, value))
            emitter.mask = before
            return _named(emitter, f"tl.where({name}, {inside}, {_value(emitter, otherwise)})")


def _operand(text: str) -> str:
    return text if text.isidentifier() else f"({text})"


def _named(emitter: TritonEmitter, text: str, stem: str = "t") -> str:
    if text.isidentifier():
        return text
    name = emitter.fresh(stem)
    emitter.writer.line(f"{name} = {text}")
    return name


def _constant(value: bool | float, dtype: torch.dtype) -> str:
    if dtype == torch.bool:
        return f"tl.full([1], {int(value)}, tl.int1)"
    text = f"float({str(float(value))!r})" if dtype.is_floating_point and (not math.isfinite(value)) else repr(value)
    return f"tl.full([1], {text}, {TYPES[dtype]})"


def _load(emitter: TritonEmitter, load: Load) -> str:
    if load.buffer in emitter.rows:
        return emitter.rows[load.buffer]
    _gathers(emitter, load.gathers, load.index[0])
    zero = "0.0" if load.dtype.is_floating_point else "0"
    mask = f", {emitter.mask}, {zero}" if emitter.mask else ""
    # tl.full gives the address a block's shape, so that a mask may go with it.
    address = f"{emitter.pointers[load.buffer]} + ({_text(load.index[0])})" + (
        f" + tl.zeros_like({emitter.mask}).to(tl.int32)" if emitter.mask else ""
    )
    return _named(emitter, f"tl.load({address}{mask})", "x")


def _gathers(emitter: TritonEmitter, gathers: Sequence[Gather], index: sympy.Expr) -> None:
    for gather in gathers:
        if gather.symbol not in index.free_symbols:
            continue
        name, size = gather.symbol.name, _text(gather.size)
        value = _value(emitter, replace_with_int64(gather.value))
        emitter.writer.line(f"{name} = {value}")
        if gather.wraps:
            emitter.writer.line(f"{name} = tl.where({name} < 0, {name} + {size}, {name})")
        held = f" | ~{emitter.mask}" if emitter.mask else ""
        emitter.writer.line(f'tl.device_assert((({name} >= 0) & ({name} < {size})){held}, "index out of bounds")')


def replace_with_int64(value: Expr) -> Expr:
    """An index as a 64-bit integer."""
    return value if value.dtype == torch.int64 else Apply("cast", (value,), torch.int64)
