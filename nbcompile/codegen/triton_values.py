"""Triton text of statements and values, one block at a time.

    tanh(x[8*i0 + i1] + 1.0), under a mask
    ->  x1 = tl.load(p0 + (8*i0 + i1), (element < 64), 0.0)
        t1 = tanh(x1 + tl.full([1], 1.0, tl.float32))

In torch: torch/_inductor/codegen/triton.py (TritonOverrides, TritonKernel.load). Read next:
nbcompile/codegen/triton_reductions.py
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import sympy
import torch

from nbcompile.codegen import triton_eviction, triton_float8
from nbcompile.codegen.printers import TRITON, print_index
from nbcompile.codegen.writer import SourceWriter
from nbcompile.ir.emitted import ZERO_DIVISION
from nbcompile.ir.expr import FLOAT8, NARROW_FLOATS, Apply, Constant, Expr, Gather, IndexOf, Load, Local, Masked
from nbcompile.ir.index import Index, Symbol
from nbcompile.ir.kernel import Kernel, Let, Loop, Schedule, Store, Update
from nbcompile.ir.traversal import walk

TYPES = {
    torch.float32: "tl.float32", torch.float64: "tl.float64",
    torch.bfloat16: "tl.bfloat16", torch.float16: "tl.float16", torch.bool: "tl.int1",
    torch.int8: "tl.int8", torch.int16: "tl.int16", torch.int32: "tl.int32", torch.int64: "tl.int64",
    torch.uint8: "tl.uint8", torch.uint16: "tl.uint16", torch.uint32: "tl.uint32", torch.uint64: "tl.uint64",
    **dict.fromkeys(FLOAT8, "tl.uint8"),
}  # fmt: skip
LIBDEVICE = ["tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "erfc", "erfinv", "lgamma"]

OPERATIONS = {
    "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "divide({0}, {1})", "neg": "negative({0})",
    "fma": "{0} * {1} + {2}",
    "eq": "{0} == {1}", "ne": "{0} != {1}",
    "lt": "{0} < {1}", "le": "{0} <= {1}", "gt": "{0} > {1}", "ge": "{0} >= {1}",
    "logical_and": "{0} & {1}", "logical_or": "{0} | {1}", "logical_not": "{0} == 0",
    "bitwise_and": "{0} & {1}", "bitwise_or": "{0} | {1}", "bitwise_xor": "{0} ^ {1}", "bitwise_not": "~{0}",
    "shift_left": "{0} << {1}", "shift_right": "{0} >> {1}", "where": "tl.where({0}, {1}, {2})",
    "maximum": "nan_maximum({0}, {1})", "minimum": "nan_minimum({0}, {1})",
    "fmax": "number_maximum({0}, {1})", "fmin": "number_minimum({0}, {1})",
    "exp": "tl.exp({0})", "log": "tl.log({0})", "sqrt": "square_root({0})", "sin": "tl.sin({0})", "cos": "tl.cos({0})",
    "erf": "tl.erf({0})", "ndtr": "normal_cdf({0})", "gelu": "{0} * normal_cdf({0})",
    "abs": "tl.abs({0})", "floor": "tl.floor({0})",
    "ceil": "tl.ceil({0})", "exp2": "tl.exp2({0})",
    "log2": "tl.log2({0})", "rsqrt": "reciprocal(square_root({0}))", "reciprocal": "reciprocal({0})",
    "isnan": "{0} != {0}",
    "sigmoid": "sigmoid({0})", "tanh": "tanh({0})", "expm1": "expm1({0})", "log1p": "log1p({0})", "log10": "log10({0})",
    "isinf": "is_infinite({0})", "sign": "sign({0})", "round": "round_half_even({0})", "trunc": "truncate({0})",
    "signbit": "sign_bit({0})", "floor_div": "floor_divide({0}, {1})", "trunc_div": "truncate_divide({0}, {1})",
    "remainder": "remainder({0}, {1})", "fmod": "c_remainder({0}, {1})",
    **{name: f"libdevice.{name}({{0}})" for name in LIBDEVICE},
    "atan2": "libdevice.atan2({0}, {1})", "hypot": "libdevice.hypot({0}, {1})",
    "copysign": "libdevice.copysign({0}, {1})",
    "nextafter": "libdevice.nextafter({0}, {1})", "pow": "power({0}, {1})",
    "philox": "random_bits({0}, {1})",
}  # fmt: skip
"""Triton text of each operation. ``libdevice`` is NVIDIA's mathematical library."""
DIVISIONS = ("floor_div", "trunc_div", "remainder", "fmod")


class NoTriton(NotImplementedError):
    """A kernel that has no Triton form yet; the message names what is missing."""

    unsupported: Mapping[str, tuple[str, tuple[str, ...]]] = {}
    """Reason and, where known, the fx nodes that need the missing operation, by name of the kernel."""


@dataclass(slots=True)
class TritonEmitter:
    """State of the Triton generator within one kernel."""

    kernel: Kernel
    schedule: Schedule
    writer: SourceWriter
    pointers: dict[str, str]
    mask: str = ""
    """Mask of the elements that exist; "" if all do, and outside of blocks."""
    block_mask: str = ""
    """Mask of the block itself, without the conditions of masked values."""
    axes: tuple[tuple[frozenset[Symbol], str], ...] = ()
    """Loop variables and mask of each dimension of a block that has two."""
    block: str = ""
    """Variable that has the shape of the block; "" outside of blocks."""
    block_variables: frozenset[Symbol] = frozenset()
    """Loop variables whose values are blocks."""
    is_tile: bool = False
    """True if the block has two dimensions, one per loop variable; otherwise each variable has the block's shape."""
    loops: tuple[Loop, ...] = ()
    """Loops that the block covers."""
    loaded: dict[tuple[object, tuple[Loop, ...]], str] = field(default_factory=dict)
    """Loads that are still in registers, by their text, and masks by condition; those of a loop's body are its own."""
    read_later: frozenset[str] = frozenset()
    """Buffers that a later loop of this kernel loads once more."""
    early_registers: int = 0
    """Registers of a thread that are left for early loads."""
    program: str = "tl.program_id(0)"
    """Number of the program that runs."""
    capability: int = 0
    """Capability of the GPU (90 for sm_90), for newer instructions; 0 if the text is for all GPUs."""
    int64_cast: str = ""
    """Cast of the program id to int64, for kernels whose indices may need it."""
    warps: int = 4
    stages: int = 3
    """Iterations of a loop whose loads are prefetched (software pipelining); Triton's default."""
    locals: dict[str, str] = field(default_factory=dict)
    rows: dict[str, str] = field(default_factory=dict)
    """Scratch rows, which are variables in registers."""
    counter: int = 0
    origins: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """fx nodes of each name: :func:`kernel_analysis.buffer_origins`."""
    origin: tuple[str, ...] = ()
    """fx nodes whose value is being computed."""
    inline_origins: list[str] = field(default_factory=list)
    """Origins of expressions that are not yet written to a line."""
    trip_counts: list[str] = field(default_factory=list)
    """Trip counts of the loops, as Python."""

    def line(self, text: str) -> None:
        """Write a line; its origins are the requesting nodes and those of the expressions inlined in it."""
        self.writer.line(text, (*self.origin, *self.inline_origins))
        self.inline_origins = []

    def fresh(self, stem: str) -> str:
        """Return an unused name."""
        self.counter += 1
        return f"{stem}{self.counter}"


def index_text(index: Index) -> str:
    """An index expression as Triton."""
    return print_index(index, TRITON)


def emit_statement(emitter: TritonEmitter, statement: Let | Store | Update) -> None:
    """Emit one statement, for all elements of a block."""
    emitter.origin = emitter.origins.get(statement.name if isinstance(statement, Let) else statement.buffer, ())
    value = value_text(emitter, statement.value)
    if isinstance(statement, Update):
        _update(emitter, statement, value)
    elif isinstance(statement, Let):
        emitter.line(f"{statement.name} = {value}")
        emitter.locals[statement.name] = statement.name
    elif any(scratch.name == statement.buffer for scratch in emitter.kernel.scratch):
        emitter.line(f"{statement.buffer} = {value}")
        emitter.rows[statement.buffer] = statement.buffer
    else:
        # Outside of blocks, store a block of one element: the value may have that shape.
        mask, block = (f", {emitter.mask}" if emitter.mask else ""), ("" if emitter.block else " + tl.arange(0, 1)")
        emitter.line(
            f"tl.store({emitter.pointers[statement.buffer]} + ({index_text(statement.offset)}){block}, {value}{mask})"
        )


ATOMIC = {"sum": "add", "max": "max", "min": "min"}
ATOMIC_TYPES = frozenset({torch.float32, torch.float64, torch.int32, torch.int64})


def _update(emitter: TritonEmitter, update: Update, value: str) -> None:
    """Emit an update as an atomic operation, as several elements may update one address.

    The order of several plain stores to one address is undefined, as in eager mode on a GPU.
    """
    dtype = update.value.dtype
    # CUDA's atomic maximum of floating-point numbers drops NaN.
    loses_nan = dtype.is_floating_point and update.kind in ("max", "min")
    is_atomic = update.kind in ATOMIC and dtype in ATOMIC_TYPES and not loses_nan
    if not is_atomic and update.kind not in ("store", "any"):
        raise NoTriton(f"an atomic {update.kind} of {str(dtype).removeprefix('torch.')}")
    before = emitter.mask
    _gathers(emitter, update.offset.gathers, update.offset.index)
    limits = [f"({g.symbol.name} >= 0) & ({g.symbol.name} < {index_text(g.size)})" for g in update.offset.gathers]
    if update.kind == "any":
        limits.append(value)  # any: only True is stored, so order does not matter
    mask = " & ".join([*([before] if before else []), *(f"({limit})" for limit in limits)])
    function = f"tl.atomic_{ATOMIC[update.kind]}" if is_atomic else "tl.store"
    address = f"{emitter.pointers[update.buffer]} + ({index_text(update.offset.index)})"
    if not emitter.block_variables & update.offset.index.free_symbols:
        address += whole_block(emitter)  # the index may be one for all, unlike the value
    emitter.line(f"{function}({address}, {value}{f', {mask}' if mask else ''})")


def value_text(emitter: TritonEmitter, body: Expr) -> str:
    """Expression for a value of a block; lines are written as needed."""
    if isinstance(body, (Constant, Local)) or not body.origin:
        return _text(emitter, body)
    outer_origin, outer_inline = emitter.origin, emitter.inline_origins
    emitter.origin, emitter.inline_origins = body.origin, []
    text = _text(emitter, body)
    # A variable's line has its origins already; an expression's origins go to the line that will contain it.
    inside = () if text.isidentifier() else (*body.origin, *emitter.inline_origins)
    emitter.origin, emitter.inline_origins = outer_origin, [*outer_inline, *inside]
    return text


def _text(emitter: TritonEmitter, body: Expr) -> str:
    match body:
        case Constant(value, dtype):
            return _constant(value, dtype)
        case Local(name):
            return emitter.locals[name]
        case Apply("cast", (inner,), dtype):
            return _cast_text(value_text(emitter, inner), inner.dtype, dtype, emitter.capability)
        case Apply(op, args):
            if op not in OPERATIONS:
                raise NoTriton(f"the operation {op}")
            operands = [_operand(value_text(emitter, arg)) for arg in args]
            if op in DIVISIONS and emitter.schedule.program.checks_divisors:
                operands[1] = _checked_divisor(emitter, args[1], operands[1])
            return assign(emitter, OPERATIONS[op].format(*operands))
        case Load():
            return load_text(emitter, body)
        case IndexOf(index, dtype, gathers):
            _gathers(emitter, gathers, index)
            # An index may be a number or a tensor of int32: added to a block of one, it is a tensor of int64.
            return f"({index_text(index)} + tl.full([1], 0, tl.int64)).to({TYPES[dtype]})"
        case Masked(condition, value, otherwise):
            before = emitter.mask
            name = condition_name(emitter, condition)
            emitter.mask = f"({before} & {name})" if before else name
            inside = assign(emitter, value_text(emitter, value))
            # The other value is masked too: elsewhere its address may be out of bounds.
            emitter.mask = f"({before} & ~{name})" if before else f"~{name}"
            outside = value_text(emitter, otherwise)
            emitter.mask = before
            return assign(emitter, f"tl.where({name}, {inside}, {outside})")


def _cast_text(text: str, source: torch.dtype, dtype: torch.dtype, capability: int) -> str:
    if source in FLOAT8:
        text, source = triton_float8.widened(text, source, capability), torch.float32
    if dtype in NARROW_FLOATS and source != torch.float32:
        text = f"({text}).to(tl.float32)"  # as in eager, and as every GPU can
    if dtype in FLOAT8:
        return triton_float8.rounded(text, dtype, capability)
    if dtype == torch.bool:
        return f"({text} != 0)"
    return text if source == dtype else f"({text}).to({TYPES[dtype]})"


def _checked_divisor(emitter: TritonEmitter, divisor: Expr, text: str) -> str:
    """Check an integer divisor: if eager mode runs on the CPU, 0 is an error."""
    if divisor.dtype.is_floating_point or isinstance(divisor, Constant):
        return text
    name, outside = assign(emitter, text), f" | ~{emitter.mask}" if emitter.mask else ""
    emitter.line(f'tl.device_assert(({name} != 0){outside}, "{ZERO_DIVISION}")')
    return name


def _operand(text: str) -> str:
    return text if text.isidentifier() else f"({text})"


def assign(emitter: TritonEmitter, text: str, stem: str = "t") -> str:
    """Assign a value to a new variable, unless it is a variable."""
    if text.isidentifier():
        return text
    name = emitter.fresh(stem)
    emitter.line(f"{name} = {text}")
    return name


def _constant(value: bool | float, dtype: torch.dtype) -> str:
    if dtype == torch.bool:
        return f"tl.full([1], {int(value)}, tl.int1)"
    if dtype in FLOAT8:
        return f"tl.full([1], {triton_float8.bits_of(value, dtype)}, tl.uint8)"
    text = f"float({str(float(value))!r})" if dtype.is_floating_point and (not math.isfinite(value)) else repr(value)
    if dtype.is_floating_point and value == 0 and math.copysign(1.0, value) < 0:
        return f"(tl.full([1], -1.0, {TYPES[dtype]}) * 0.0)"  # Triton 3.6 makes 0.0 of the constant -0.0
    return f"tl.full([1], {text}, {TYPES[dtype]})"


def condition_name(emitter: TritonEmitter, condition: Expr) -> str:
    """Variable of a condition that masks a value; computed once where it depends only on indices."""
    if not depends_on_indices_alone(condition):
        return assign(emitter, value_text(emitter, condition), "m")
    # The same condition under another mask, or in another loop of the same names, is another variable.
    key = (condition, emitter.mask), emitter.loops
    if key not in emitter.loaded:
        emitter.loaded[key] = assign(emitter, value_text(emitter, condition), "m")
    return emitter.loaded[key]


def depends_on_indices_alone(condition: Expr) -> bool:
    """Return whether a condition needs no value from memory."""
    return not any(isinstance(node, (Local, Load)) for node in walk(condition))


def load_text(emitter: TritonEmitter, load: Load) -> str:
    """Variable with the value of a load."""
    if load.buffer in emitter.rows:
        return emitter.rows[load.buffer]
    _gathers(emitter, load.gathers, load.index[0])
    zero = "0.0" if load.dtype.is_floating_point and load.dtype not in FLOAT8 else "0"
    mask, broadcast = _mask_and_shape(emitter, load)
    mask = f", {mask}, {zero}" if mask else ""
    address = f"{emitter.pointers[load.buffer]} + ({index_text(load.index[0])}){broadcast}"
    eviction = triton_eviction.hint(emitter.kernel, load, emitter.read_later)
    text, known = f"tl.load({address}{mask}{eviction})", emitter.loaded
    if load.gathers or load.buffer in emitter.kernel.writes:
        return assign(emitter, text, "x")
    # Common subexpression: a store in between would hide it from Triton.
    key = (text, emitter.loops)
    if key not in known:
        known[key] = assign(emitter, text, "x")
    return known[key]


def _mask_and_shape(emitter: TritonEmitter, load: Load) -> tuple[str, str]:
    """Mask of a load, and a term that broadcasts its address to the shape of the block where the mask requires it.

    A value that is uniform along a dimension of the block is loaded once, as Triton broadcasts it.
    """
    #     block [steps, columns]     x[r0, i1]    its index has the block's shape: no more is needed
    #                                 b[i1]        [1, columns], mask of only the columns
    #                                 c            one element, no mask
    #                                 under a condition: as large as the block, since the mask is
    own = emitter.block_variables & load.index[0].free_symbols
    if not emitter.block:
        return emitter.mask, " + tl.arange(0, 1)"
    if not load.gathers and emitter.mask == emitter.block_mask:
        if not own:
            return "", ""
        along = [mask for variables, mask in emitter.axes if variables & own]
        if len(along) == 1:
            return along[0], ""
    if not load.gathers and (own == emitter.block_variables if emitter.is_tile else own):
        return emitter.mask, ""
    return emitter.mask, whole_block(emitter)


def whole_block(emitter: TritonEmitter) -> str:
    """Term that broadcasts an address to the shape of the block."""
    if emitter.mask:
        return f" + tl.zeros_like({emitter.mask}).to(tl.int32)"
    return f" + tl.zeros_like({emitter.block})" if emitter.block else " + tl.arange(0, 1)"


def _gathers(emitter: TritonEmitter, gathers: Sequence[Gather], index: sympy.Expr) -> None:
    for gather in gathers:
        # The offset does not depend on it: then it is neither loaded nor checked.
        if gather.symbol not in index.free_symbols:
            continue
        name, size = gather.symbol.name, index_text(gather.size)
        value = value_text(emitter, replace_with_int64(gather.value))
        emitter.line(f"{name} = {value}")
        if gather.wraps:
            emitter.line(f"{name} = tl.where({name} < 0, {name} + {size}, {name})")
        # Masked elements are not checked: their loaded value is no index.
        in_mask = f" | ~{emitter.mask}" if emitter.mask else ""
        emitter.line(f'tl.device_assert((({name} >= 0) & ({name} < {size})){in_mask}, "index out of bounds")')


def replace_with_int64(value: Expr) -> Expr:
    """An index as a 64-bit integer."""
    return value if value.dtype == torch.int64 else Apply("cast", (value,), torch.int64)
