"""Triton kernels of a schedule: the same IR, for a GPU.

    kernel0: for i0 < 64:  for r0 < 1000: buf0 = sum(x[1000*i0 + r0])  ...
    ->  @triton.jit
        def kernel0(in0, out0):
            row = tl.program_id(0)
            r0 = tl.arange(0, 1024)
            ...
            v0 = tl.sum(tl.where(r0 < 1000, tl.load(in0 + 1000*i0 + r0, r0 < 1000, 0.0), 0.0), 0)

Five shapes of kernel: matrix products (triton_products.py); pointwise (one program per block of elements); tiles (a
square block, where accesses are contiguous along two loops); rows (one program per outer iteration: a short row is a
persistent reduction in registers, a long one a looped reduction); columns (a block of outer iterations, with a loop
over tiles of the reduction). Elements beyond the end of a block are masked.

In torch: torch/_inductor/codegen/triton.py. Read next:
nbcompile/runtime/triton.py
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from nbcompile.codegen import triton_tiles
from nbcompile.codegen.index_width import fits_in_32_bits
from nbcompile.codegen.kernel_analysis import (
    buffer_origins,
    flatten_statements,
    size_symbols,
    vectorises_outer_loop,
)
from nbcompile.codegen.launch_plan import make_launch_plan, written_inputs
from nbcompile.codegen.machine_model import (
    FULL_GRID,
    MOST_STEPS,
    SMALL_BLOCK,
    TRITON_BLOCK,
    TRITON_TILE,
    UNEVEN_BLOCK,
    UNEVEN_LENGTH,
)
from nbcompile.codegen.printers import python_index
from nbcompile.codegen.triton_blocks import begin_block, length, per_thread, split
from nbcompile.codegen.triton_loads import load_early
from nbcompile.codegen.triton_products import emit_product
from nbcompile.codegen.triton_reductions import (
    declare_accumulators,
    emit_combine,
    reduce_block,
    scan_next_block,
)
from nbcompile.codegen.triton_rows import rows
from nbcompile.codegen.triton_values import NoTriton, TritonEmitter, emit_statement, index_text
from nbcompile.codegen.wrapper import write_wrapper
from nbcompile.codegen.writer import SourceWriter
from nbcompile.codegen.written_kernels import POINTERS, called, emit_all_written
from nbcompile.ir import index as indexing
from nbcompile.ir.emitted import EmittedKernel, EmittedProgram
from nbcompile.ir.index import Index
from nbcompile.ir.kernel import Accumulate, Carry, Kernel, Loop, Nest, Schedule, Update

PRELUDE = Path(__file__).with_name("triton_functions.py").read_text()
"""Source of the helper functions that every generated module contains."""


def emit(schedule: Schedule, capability: int = 0) -> EmittedProgram:
    """A Python module with one Triton kernel for each kernel of the schedule.

    Args:
        schedule: The kernels.
        capability: Of the GPU that they are for (90 for sm_90); 0 for text that every GPU and the interpreter can run.

    Raises:
        NoTriton: an operation has no Triton form.
    """
    generated = _emitted(schedule, capability)
    source = PRELUDE + "".join("\n\n" + kernel.source for kernel in generated)
    kernels = (*generated, *emit_all_written(schedule))
    return EmittedProgram(
        schedule,
        source,
        write_wrapper(make_launch_plan(schedule, kernels)),
        kernels,
        called(schedule),
        None,
        "Triton kernels are launched from Python",
        written_inputs(schedule),
    )


def _emitted(schedule: Schedule, capability: int) -> tuple[EmittedKernel, ...]:
    kernels: list[EmittedKernel] = []
    unsupported: dict[str, tuple[str, tuple[str, ...]]] = {}
    for kernel in schedule.kernels():
        try:
            kernels.append(emit_kernel(kernel, schedule, capability))
        # All unsupported operations of a graph are collected, so that it is lowered only once more for all of them.
        except NoTriton as reason:
            unsupported.update(reason.unsupported)
    if unsupported:
        error = NoTriton("; ".join(dict.fromkeys(reason for reason, _ in unsupported.values())))
        error.unsupported = unsupported
        raise error
    return tuple(kernels)


def signature(kernel: EmittedKernel) -> dict[str, str]:
    """The argument types in the form of ``triton.compile``: ``{"p0": "*fp32", "s0": "i64"}``."""
    pointers = kernel.parameters or tuple(f"p{at}" for at in range(len(kernel.arguments)))
    return dict(zip((*pointers, *kernel.sizes), kernel.types, strict=True))


def emit_kernel(kernel: Kernel, schedule: Schedule, capability: int = 0) -> EmittedKernel:
    """Emit one kernel as a Triton function, and its grid as a Python function.

    Raises:
        NoTriton: an operation has no Triton form; the exception names the fx nodes that need it.
    """
    arguments = _arguments(kernel)
    sizes = tuple(symbol.name for symbol in size_symbols(kernel))
    writer = SourceWriter()
    try:
        emitter, programs = (
            _emit_parts(kernel, schedule, writer, capability)
            if kernel.parts
            else _emit_function(kernel, schedule, writer, sizes, capability)
        )
    except NoTriton as reason:
        unsupported_nodes = tuple(node for _, nodes in reason.unsupported.values() for node in nodes)
        reason.unsupported = {kernel.name: (str(reason), unsupported_nodes)}
        raise
    # The number of programs may depend on the sizes of a call.
    writer.line(f"def {kernel.name}_grid({', '.join(sizes)}):", kernel.from_nodes, "surrounds")
    writer.line(f"    return ({programs},)", kernel.from_nodes, "surrounds")
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
        types=(*(POINTERS[schedule.program.tensors()[name].dtype] for name in arguments), *("i64" for _ in sizes)),
        warps=emitter.warps,
        stages=emitter.stages,
        grid=programs,
        header=PRELUDE,
        rounds=" + ".join(emitter.trip_counts) or "0",
        unaligned_source=_unaligned(kernel, schedule, capability),
        gpu=(kernel.device.index or 0) if kernel.device.type == "cuda" else -1,
        any_order=any(
            isinstance(part, Update) and part.kind in ("store", "any") for part in flatten_statements(kernel.body)
        ),
    )


def _unaligned(kernel: Kernel, schedule: Schedule, capability: int) -> str:
    """The text for pointers of any alignment, if it differs: tensor descriptors need aligned pointers."""
    if kernel.tile is None or not kernel.tile.descriptors:
        return ""
    return emit_kernel(replace(kernel, tile=replace(kernel.tile, descriptors=False)), schedule, capability).source


def _arguments(kernel: Kernel) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*kernel.reads, *kernel.writes)))


def _emit_function(
    kernel: Kernel, schedule: Schedule, writer: SourceWriter, sizes: Sequence[str], capability: int, program: str = ""
) -> tuple[TritonEmitter, str]:
    """Emit a function; return also its number of programs. ``program``: name of the argument with the program id."""
    pointers = {name: f"p{at}" for at, name in enumerate(_arguments(kernel))}
    emitter = TritonEmitter(kernel, schedule, writer, pointers, origins=buffer_origins(kernel, schedule.program))
    emitter.capability = capability
    # Addresses are computed from the program id: if it has 64 bits, so do the sums with it.
    emitter.int64_cast = "" if fits_in_32_bits(kernel) else ".to(tl.int64)"
    emitter.program = program or emitter.program
    writer.line("@triton.jit")
    writer.line(f"def {kernel.name}({', '.join((*filter(None, [program]), *pointers.values(), *sizes))}):")
    writer.depth += 2
    for name, pointer in pointers.items():
        writer.line(f"# {pointer} is {name}", emitter.origins[name])
    try:
        programs = _programs(emitter)
    except NoTriton as reason:
        reason.unsupported = {kernel.name: (str(reason), emitter.origin)}
        raise
    writer.depth -= 2
    writer.line("")
    writer.line("")
    return emitter, programs


def _programs(emitter: TritonEmitter) -> str:
    """Emit the body of a kernel in the shape that suits it; return the number of programs."""
    if emitter.kernel.product is not None:
        return emit_product(emitter)
    return _columns(emitter) if vectorises_outer_loop(emitter.kernel) else rows(emitter)


def _emit_parts(kernel: Kernel, schedule: Schedule, writer: SourceWriter, capability: int) -> tuple[TritonEmitter, str]:
    """Emit horizontally fused kernels: each as a function, and a function that calls the one of the program id."""
    pointers = {name: f"p{at}" for at, name in enumerate(_arguments(kernel))}
    # Emitted once and discarded: the calling function comes first, and needs their numbers of programs.
    functions = [_emit_function(part, schedule, SourceWriter(), (), capability, "program") for part in kernel.parts]
    writer.line("@triton.jit")
    writer.line(f"def {kernel.name}({', '.join(pointers.values())}):", kernel.from_nodes, "surrounds")
    writer.depth += 2
    writer.line("program = tl.program_id(0)")
    #     def kernel0(...):
    #          program = tl.program_id(0)
    #          if program < 40:    the first function, for program - 0
    #          elif program < 52:  the second, for program - 40
    #          else:               the third, for program - 52
    first = 0
    for at, (part, (_, programs)) in enumerate(zip(kernel.parts, functions, strict=True)):
        end = first + int(eval(programs, {"__builtins__": {}}))  # only numbers: the sizes of these kernels are known
        is_last = at == len(functions) - 1
        writer.line("else:" if is_last else f"{'el' if at else ''}if program < {end}:", part.from_nodes)
        given = ", ".join(pointers[name] for name in _arguments(part))
        writer.line(f"    {part.name}(program - {first}, {given})", part.from_nodes)
        first = end
    writer.depth -= 2
    writer.line("")
    writer.line("")
    for part in kernel.parts:
        _emit_function(part, schedule, writer, (), capability, "program")
    return functions[0][0], str(first)


def _columns(emitter: TritonEmitter) -> str:
    """Emit a kernel with one program per block of outer iterations; return the number of programs."""
    kernel, writer = emitter.kernel, emitter.writer
    tile = triton_tiles.find(kernel)
    if tile is not None:
        return _tile(emitter, *tile)
    if kernel.scratch:
        raise NoTriton("a scratch row inside a vectorised outer loop")
    steps = max((_steps(part) for part in kernel.body if isinstance(part, Nest)), default=1)
    total = indexing.product([loop.size for loop in kernel.loops])
    # A program has steps x block numbers, as many as a block of a pointwise kernel has: with more
    # steps of the reduction at once there are fewer columns.
    block = (_block(total) if steps == 1 else TRITON_BLOCK) // steps
    if steps > TRITON_TILE:
        emitter.warps *= 2  # with a single iteration, half as many elements per thread take half the time
    writer.line(f"element = {emitter.program}{emitter.int64_cast} * {block} + tl.arange(0, {block})")
    begin_block(emitter, "element", total, block, kernel.loops)
    load_early(emitter, kernel.body, per_thread(emitter, block))
    for statement in kernel.body:
        if isinstance(statement, Nest):
            _emit_column_nest(emitter, statement, steps, block)
        else:
            emit_statement(emitter, statement)
    return f"({index_text(total)} + {block - 1}) // {block}"


def _block(total: Index) -> int:
    """Elements of one program of a pointwise kernel."""
    known = indexing.constant(total)
    is_uneven = known is not None and known % 4 != 0 and known <= UNEVEN_LENGTH
    # No vector of 4 elements fits the mask: with several elements a thread, each access would skip the others'.
    if is_uneven:
        return UNEVEN_BLOCK
    if known is None:
        return TRITON_BLOCK
    # The elements of one program, if as many programs share the work as fill a GPU: a power of two,
    # as tl.arange requires, not below SMALL_BLOCK.
    share = 1 << max(-(-known // FULL_GRID) - 1, 0).bit_length()
    return min(max(share, SMALL_BLOCK), TRITON_BLOCK)


#     x    [None, :]    32 columns, along which stores are contiguous
#     y    [:, None]    32 rows, along which some loads are
def _tile(emitter: TritonEmitter, across: Loop, down: Loop) -> str:
    """Emit a kernel with one program per tile of two outer loops; return the number of programs."""
    kernel, writer, side = emitter.kernel, emitter.writer, TRITON_TILE
    lengths = [length(loop.size) for loop in (across, down)]
    counts = [-(-n // side) if isinstance(n, int) else f"(({n} + {side - 1}) // {side})" for n in lengths]
    x, y = across.variable.name, down.variable.name
    writer.line(f"program = {emitter.program}{emitter.int64_cast}")
    writer.line(f"{x} = program % {counts[0]} * {side} + tl.arange(0, {side})[None, :]")
    writer.line(f"{y} = program // {counts[0]} % {counts[1]} * {side} + tl.arange(0, {side})[:, None]")
    # Only its shape is used, which is that of the block: its value is no index.
    writer.line(f"element = {x} + {y}")
    others = [loop for loop in kernel.loops if loop not in (across, down)]
    if others:
        writer.line(f"rest = program // {counts[0]} // {counts[1]}")
        split(writer, "rest", others)
    whole = all(isinstance(n, int) and n % side == 0 for n in lengths)
    emitter.mask = "" if whole else f"(({x} < {lengths[0]}) & ({y} < {lengths[1]}))"
    emitter.block_mask = emitter.mask
    limits = [f"({name} < {n})" if emitter.mask else "" for name, n in ((x, lengths[0]), (y, lengths[1]))]
    emitter.axes = tuple(
        (frozenset({loop.variable}), limit) for loop, limit in zip((across, down), limits, strict=True)
    )
    emitter.block, emitter.is_tile = "element", True
    emitter.block_variables = frozenset((across.variable, down.variable))
    load_early(emitter, kernel.body, per_thread(emitter, side * side))
    for statement in kernel.body:
        emit_statement(emitter, statement)  # type: ignore[arg-type]
    return f"({index_text(indexing.product([loop.size for loop in others]))}) * {counts[0]} * {counts[1]}"


def _steps(nest: Nest) -> int:
    """Steps per iteration of a reduction over columns: a power of two; all steps of a short one."""
    known = indexing.constant(indexing.product([loop.size for loop in nest.loops]))
    return TRITON_TILE if known is None or known > MOST_STEPS else 1 << max(known - 1, 0).bit_length()


def _emit_column_nest(emitter: TritonEmitter, nest: Nest, steps: int, columns: int) -> None:
    """Emit a loop over tiles: some steps of the reduction at once, for each of the columns of a program."""
    writer = emitter.writer
    length = indexing.product([loop.size for loop in nest.loops])
    shape = f"{steps}, {columns}"
    for part in nest.body:
        if isinstance(part, (Accumulate, Carry)):
            declare_accumulators(emitter, part, shape)
    emitter.trip_counts.append(f"({python_index(length)} + {steps - 1}) // {steps}")
    writer.line(f"for begin in range(0, {index_text(length)}, {steps}):")
    writer.depth += 2
    #     inner      [steps, 1]        steps of the reduction
    #     element    [1, columns]      columns of the program
    #     tile       [steps, columns]  accumulators, reduced along the steps after the loop
    writer.line(f"inner = begin + tl.arange(0, {steps}){emitter.int64_cast}[:, None]")
    writer.line("tile = inner + element")
    outside = emitter.mask, emitter.block, emitter.loops, emitter.block_variables, emitter.axes
    before, loaded = dict(emitter.locals), emitter.loaded
    emitter.loaded = {}  # each iteration loads other elements
    begin_block(emitter, "inner", length, steps, nest.loops)
    # A value that depends only on one axis is loaded once along the other, under the mask of its own axis.
    emitter.axes = (outside[3], outside[0]), (emitter.block_variables, emitter.mask)
    emitter.mask = f"({outside[0]} & {emitter.mask})" if outside[0] and emitter.mask else outside[0] or emitter.mask
    emitter.block, emitter.is_tile, emitter.block_mask = "tile", True, emitter.mask
    emitter.loops, emitter.block_variables = (*outside[2], *nest.loops), emitter.block_variables | outside[3]
    load_early(emitter, nest.body, per_thread(emitter, steps * columns))
    for part in nest.body:
        if isinstance(part, Accumulate):
            emit_combine(emitter, part, emitter.mask)
        elif isinstance(part, Carry):
            scan_next_block(emitter, part, shape, f"tl.arange(0, {steps})[:, None] == {steps - 1}")
        else:
            emit_statement(emitter, part)
    # Variables of the loop's body have the shape of a tile and values of one iteration: none is valid after the loop.
    emitter.mask, emitter.block, emitter.loops, emitter.block_variables, emitter.axes = outside
    emitter.block_mask = emitter.mask
    emitter.locals, emitter.loaded, emitter.is_tile = before, loaded, False
    writer.depth -= 2
    for part in nest.body:
        if isinstance(part, Accumulate):
            emitter.locals[part.name] = reduce_block(emitter, part)
