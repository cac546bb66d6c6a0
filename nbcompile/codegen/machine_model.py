"""Machine model: the constants of the cost models by which code generators choose the form of a kernel.

    SERIAL_WORK = 32768          below it one thread runs a kernel: a parallel region costs more than it saves
    NON_TEMPORAL_BYTES = 2**25   a result of 32 MiB bypasses the cache

Each constant states its unit, and either where it was measured or that it was not. They are the same on every
machine, so that a kernel's text does not depend on the machine that generates it.

In torch: torch/_inductor/config.py (cpp.min_chunk_size, cpp.min_num_threads), torch/_inductor/codegen/cpp.py.
Read next: nbcompile/codegen/kernel_analysis.py
"""

# --- vectors ---------------------------------------------------------------------------------------------------------

ALIGNED_SIZE = 16
"""Lanes: the largest number of lanes of a vector. A multiple of it has no tail on any machine, and each vector begins
at a multiple of W. By definition: 64 bytes of AVX-512, 4 bytes each."""
INLINE_LENGTH = 64
"""Characters: a longer C++ expression gets a name and a line of its own. For readers; not measured."""
MAX_TABLE_ENTRIES = 4096
"""Elements: a longer loop has no constexpr table of the offsets that it loads. Not measured; bounds compile time."""

# --- threads ---------------------------------------------------------------------------------------------------------

SERIAL_WORK = 32768
"""Additions: below it a second thread costs more than it saves, as a parallel region takes about 1 us (docs/design/
kernels.md, "Each kernel has a parallel region of its own"). The bound itself was not measured."""
# At 4 additions a nanosecond, 50 us.
GIL_RELEASE_WORK = 200_000
"""Additions: above it a kernel releases the GIL while it runs. Not measured; about 50 microseconds."""
OUTER_BLOCK = 4096
"""Iterations: the block of a vectorised outer loop that is assigned to a thread at a time. Not measured."""
CHUNKS = 32
"""Chunks: a long reduction to few values is split into this many for any number of threads, so that the result does not
depend on it. Not measured."""
LONG_REDUCTION = 1 << 16
"""Iterations: a shorter reduction is not split into chunks. Not measured."""

# --- reductions ------------------------------------------------------------------------------------------------------

CHEAP_BODY_COST, CHEAP_UNROLL, COSTLY_UNROLL = 8, 4, 2
"""Additions, and accumulators: a loop body below this cost has 4 accumulators, others 2; they hide the latency of an
addition (4 cycles, 2 a cycle). Not measured."""
BLOCKED_SUM_LENGTH = 64
"""Values: block length of a blocked summation, which bounds the rounding error as eager's pairwise summation does.
By accuracy, not by speed."""
COLUMN_UNROLL, COLUMN_UNROLL_SIMPLE, COLUMN_UNROLL_COSTLY = 4, 8, 2
"""Vectors: unroll factor of a column reduction; 8 while all accumulators fit in registers, 2 for bodies that need many.
Not measured one by one."""
SIMPLE_ACCUMULATORS, SIMPLE_BODY_COST, COSTLY_BODY_COST = 2, 6, 16
"""Accumulators, additions, additions: bounds between these cases. Not measured one by one."""

# --- caches ----------------------------------------------------------------------------------------------------------

STACK_BYTES = 1 << 17
"""Bytes: scratch buffers up to this size are on the stack. Not measured; a thread's stack is 2 MiB or more."""
NON_TEMPORAL_BYTES = 1 << 25
"""Bytes: a result of this size is in no cache when it is read (the usual size of a last-level cache, which is shared),
so it is stored non-temporally. Measured: docs/design/kernels.md, "Large results are stored non-temporally"."""
NON_TEMPORAL_TILE_BYTES = 1 << 22
"""Bytes: the same for scattered stores of tiles and panels: above it, write-allocate costs more than re-reading.
Measured: docs/design/kernels.md, "Transposed accesses go through tiles in registers"."""
PREFETCH_ROWS, PREFETCH_ROW_BYTES, PREFETCH_MIN_BYTES = 2, 1 << 16, 1 << 22
"""Rows, bytes, bytes: prefetch distance; longer rows do not fit in L2 with the present one, smaller arrays are in a
cache already. Measured: docs/design/kernels.md, "Large results are stored non-temporally"."""

# --- transposed accesses ---------------------------------------------------------------------------------------------

MIN_TILED_ITERATIONS = 8
"""Iterations: with a shorter loop most of a tile would be empty. Not measured."""
BLOCK_TILES, LONG_BLOCK_TILES = 4, 16
"""Tiles: width and length of a block; a cache line that begins within a tile is shared by two. Measured:
docs/design/kernels.md, "Transposed accesses go through tiles in registers"."""
TRANSPOSE_COST = 6
"""Vector additions: cost of transposing one row of a tile: log2(16) shuffles, a load and a store. Not measured."""
PANEL_BYTES = 1 << 18
"""Bytes: the packed rows of one panel stay in L2. Measured: docs/design/kernels.md, "Strided rows are packed into
panels"."""
MAX_PANEL_ROWS = 4 * ALIGNED_SIZE
"""Rows: more do not help, as each access already reads several whole cache lines. Not measured."""
MIN_PANELS = 8
"""Panels: minimum number, so that the threads have enough work. Not measured."""

# --- Triton ----------------------------------------------------------------------------------------------------------

TRITON_BLOCK = 1024
"""Elements: of one program of a pointwise kernel, and of one iteration of a looped reduction. Not measured."""
LONG_ROW, LONG_ROW_BLOCK = 1 << 13, 1 << 12
"""Elements: an iteration of a looped reduction over a row from the first number on takes the second, with more warps,
as each iteration waits for its loads. Predicted: docs/design/gpu.md."""
SMALL_BLOCK, FULL_GRID = 128, 256
"""Elements: of the smallest pointwise program; and the number of programs (about two a multiprocessor) up to which
more of them are better than larger ones. Predicted: docs/design/gpu.md."""
UNEVEN_BLOCK, UNEVEN_LENGTH = 128, 1 << 16
"""Elements: of a pointwise program with one element a thread, where a mask forbids vectors, and the longest such loop.
Predicted: docs/design/gpu.md."""
THREAD_ELEMENTS = 8
"""Elements: of a persistent row in each thread, while the program may have more warps. Predicted:
docs/design/gpu.md."""
# A multiprocessor has 65536 registers: 65536 / (2 * 48 * 128) = 5.3 blocks.
EARLY_REGISTERS = 48
"""Registers: of each thread, for what is loaded before it is used. With as many again a multiprocessor has 5 blocks of
128 threads. Predicted: docs/design/gpu.md."""
MAX_WARPS = 16
"""Warps: of 32 threads each, in one program. Not measured."""
MOST_WARPS = 32
"""Warps: the maximum, for a kernel whose threads spill registers with fewer. By definition of a CUDA block."""
# The 32 threads of a warp read 32 elements of 4 bytes, a line of 128: in a square tile before it is
# transposed and after.
TRITON_TILE = 32
"""Elements: side of a square tile: a warp reads and writes whole lines. Predicted: docs/design/gpu.md."""
MOST_STEPS = 64
"""Iterations: a reduction over columns up to this length is one tile, without a loop. Predicted: docs/design/gpu.md."""
MIN_TRITON_TILE = 8
"""Iterations: a shorter loop is not tiled. Not measured."""
