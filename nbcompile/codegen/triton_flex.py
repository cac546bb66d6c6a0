"""Triton kernels of attention whose scores functions change: one pass over the keys, the scores never in memory.

    flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + bias[h], block_mask=of i >= j)
    ->  for each listed block of keys:
            raw = tl.dot(q, k) * 0.125;  scores = raw + tl.load(bias + h);  -inf where not i >= j
            the largest score, the sum and the result of a row are rescaled, and the block is added

With few rows and many keys (decoding), several programs share the keys: each processes a part of the listed blocks,
for all heads that share a head of the keys, and a second kernel combines their results.

In torch: torch/_inductor/kernel/flex/flex_attention.py, flex_decoding.py. Read next:
nbcompile/codegen/triton_flex_backward.py
"""

from __future__ import annotations

from collections.abc import Iterator

from nbcompile.codegen.triton_flex_tiles import (
    LN_2,
    Flex,
    TileLoop,
    begin_flex,
    emit_lines,
    emit_steps,
    offset_text,
    power_of_two,
    scores,
    steps_of,
    tile_load,
    tile_of,
)
from nbcompile.codegen.triton_sizes import Size, multiplied, quotient
from nbcompile.codegen.triton_values import NoTriton
from nbcompile.ir.kernel import ProductTile


def tile(flex: Flex, splits: int) -> ProductTile:
    """The tile of a program; of split keys it has the rows of all heads that share one."""
    return tile_of(flex, flex.sizes.hints[1] * (flex.sizes.shared if splits else 1))


def grid(flex: Flex, splits: int) -> Size:
    """Number of programs."""
    sizes, rows = flex.sizes, tile(flex, splits).rows
    if not splits:
        return multiplied(multiplied(quotient(sizes.rows, rows), sizes.batch), sizes.heads)
    tiles = quotient(multiplied(sizes.rows, sizes.shared), rows)
    return multiplied(multiplied(tiles, sizes.batch), splits * sizes.heads_of_keys)


def parameters(flex: Flex, splits: int) -> tuple[str, ...]:
    """Names of the kernel's arguments."""
    results = ("parts", "largests", "totals") if splits else ("out", "sums")
    return ("query", "key", "value", *results, *flex.lists_and_buffers)


def emit(flex: Flex, name: str, splits: int = 0) -> str:
    """The module's text: a function that ``triton.jit`` takes.

    Args:
        flex: The attention.
        name: Name of the function.
        splits: Number of programs that share the keys of a row, each of which stores a partial result; 0: one program
            stores the result.

    Raises:
        NoTriton: a function has an operator without code.
    """
    writer = begin_flex(flex, name, parameters(flex, splits))
    flex = flex.parenthesized
    emit_lines(writer, _rows_of_heads(flex, splits) if splits else _rows(flex))
    emit_lines(writer, _beginning(flex, splits))
    size = tile(flex, splits)
    number = "0" if splits else f"first // {flex.blocks.rows}"
    bounds = ("split * share", "split * share + share") if splits else ("0", "")
    for at, blocks in enumerate(flex.blocks.lists):
        numbers = f"tl.arange(0, {size.columns})[None, :]"
        emit_steps(writer, blocks, TileLoop(number, flex.blocks.keys, flex.sizes.keys, "j", numbers, bounds))
        emit_lines(writer, _step(flex, size, requires_mask=at == 0))
        writer.depth -= 2
    emit_lines(writer, _store_parts(flex) if splits else _store_results(flex))
    return writer.text()


def _rows(flex: Flex) -> Iterator[str]:
    """Rows of one head for each program: ``i``, and ``of_row``, the number of the row in the query."""
    sizes, rows = flex.sizes, tile(flex, 0).rows
    tiles = quotient(sizes.rows, rows)
    yield f"matrix = tl.program_id(0) // ({tiles})"
    yield f"first = tl.program_id(0) % ({tiles}) * {rows}"
    yield f"b = matrix // {sizes.heads}"
    yield f"h = matrix % {sizes.heads}"
    yield f"of_head = (h // {sizes.shared}).to(tl.int64)"
    yield f"i = first + tl.arange(0, {rows})[:, None]"
    yield f"is_row = i < {sizes.rows}"


def _rows_of_heads(flex: Flex, splits: int) -> Iterator[str]:
    """Rows of all heads that share one of the keys: ``h`` and ``i`` are columns of the tile."""
    sizes, size = flex.sizes, tile(flex, splits)
    assert isinstance(sizes.rows, int)  # others have no splits
    tiles = -(-sizes.rows * sizes.shared // size.rows)
    steps = steps_of(flex.blocks.keys, sizes.keys, size.columns)
    # Each has the same part of a list that has all blocks.
    share = quotient(multiplied(_longest(flex), steps), splits)
    yield f"split = tl.program_id(0) % {splits}"
    yield f"matrix = tl.program_id(0) // {splits * tiles}"
    yield f"first = tl.program_id(0) // {splits} % {tiles} * {size.rows}"
    yield f"share = {share}"
    yield f"b = matrix // {sizes.heads_of_keys}"
    yield f"of_head = (matrix % {sizes.heads_of_keys}).to(tl.int64)"
    yield f"line = first + tl.arange(0, {size.rows})[:, None]"
    # Without shared heads h stays a number: lists of blocks may differ by head then.
    yield f"h = matrix % {sizes.heads}" if sizes.shared == 1 else f"h = of_head * {sizes.shared} + line // {sizes.rows}"
    yield "i = line" if sizes.shared == 1 else f"i = line % {sizes.rows}"
    yield f"is_row = line < {sizes.rows * sizes.shared}"


def _longest(flex: Flex) -> Size:
    """Blocks of the longest list."""
    lengths = {blocks.positions_size[3] for blocks in flex.blocks.lists}
    if len(lengths) == 1:
        return lengths.pop()
    numbers = [length for length in lengths if isinstance(length, int)]
    if len(numbers) < len(lengths):
        raise NoTriton("lists of blocks of several dynamic lengths")
    return max(numbers)


def _beginning(flex: Flex, splits: int) -> Iterator[str]:
    sizes, query, rows = flex.sizes, flex.strides["query"], tile(flex, splits).rows
    width, value_width = sizes.padded
    yield f"of_batch = {'b.to(tl.int64)' if sizes.batch_of_keys != 1 else 'b.to(tl.int64) * 0'}"
    yield f"d = tl.arange(0, {width})"
    yield f"e = tl.arange(0, {value_width})"
    yield (
        f"rows = tl.load(query + (b.to(tl.int64) * {query[0]} + h.to(tl.int64) * {query[1]}) + "
        f"{offset_text('i', 'd[None, :]', query)}, is_row & (d[None, :] < {sizes.width}), 0.0)"
    )
    for name in ("key", "value"):
        stride = flex.strides[name]
        yield f"{name} += of_batch * {stride[0]} + of_head * {stride[1]}"
    yield f"largest = tl.full([{rows}], float('-inf'), tl.float32)"
    yield f"total = tl.zeros([{rows}], tl.float32)"
    yield f"result = tl.zeros([{rows}, {value_width}], tl.float32)"


def _step(flex: Flex, size: ProductTile, *, requires_mask: bool) -> Iterator[str]:
    """One tile of keys: scores, the functions applied to them, and the rows' sums and results so far."""
    sizes = flex.sizes
    keys = tile_load("key", ("j", sizes.keys), ("d[:, None]", sizes.width), flex.strides["key"])
    yield f"keys = {keys}"
    yield f'raw = tl.dot(rows, keys, input_precision="ieee") * {flex.scale!r}'
    shape = f"[{size.rows}, {size.columns}]"
    yield from scores(flex, shape, f"is_row & (j < {sizes.keys})", f"j < {sizes.keys}", requires_mask=requires_mask)
    # The softmax in one pass (online): the sums so far are rescaled for each larger score.
    #     now = max(largest, scores)
    #     total = total * exp(largest - now) + sum of exp(scores - now)       and the result alike
    yield "now = tl.maximum(largest, tl.max(scores, 1))"
    # A row without a key so far has minus infinity, which must not be subtracted from itself.
    yield "base = tl.where(now == float('-inf'), 0.0, now)"
    yield "weights = tl.exp(scores - base[:, None])"
    yield "rescale = tl.exp(largest - base)"
    yield "total = total * rescale + tl.sum(weights, 1)"
    yield f"k = tl.reshape(j, [{size.columns}])"
    values = tile_load("value", ("k[:, None]", sizes.keys), ("e[None, :]", sizes.value_width), flex.strides["value"])
    yield f"values = {values}"
    yield "result = result * rescale[:, None]"
    yield 'result = tl.dot(weights.to(values.dtype), values, result, input_precision="ieee")'
    yield "largest = now"


def _store_results(flex: Flex) -> Iterator[str]:
    sizes, out, rows = flex.sizes, flex.strides["out"], tile(flex, 0).rows
    # A row all of whose keys are masked has the result 0, not 0 / 0.
    yield "safe = tl.where(total == 0.0, 1.0, total)"
    element = f"b.to(tl.int64) * {out[0]} + h.to(tl.int64) * {out[1]} + {offset_text('i', 'e[None, :]', out)}"
    mask = f"is_row & (e[None, :] < {sizes.value_width})"
    yield f"tl.store(out + {element}, (result / safe[:, None]).to(out.dtype.element_ty), {mask})"
    yield f"logarithm = tl.where(total == 0.0, float('-inf'), (largest + tl.log(safe)) * {1 / LN_2!r})"
    yield f"line = first + tl.arange(0, {rows})"
    yield f"tl.store(sums + matrix.to(tl.int64) * {sizes.rows} + line, logarithm, line < {sizes.rows})"


# -- keys that several programs share ---------------------------------------------------------------------------------

COMBINED = ("parts", "largests", "totals", "out", "sums")
"""Arguments of the kernel that combines the partial results."""


def _store_parts(flex: Flex) -> Iterator[str]:
    """Result, largest score and sum of a split: of (split, batch, head, row), and columns, without gaps."""
    sizes = flex.sizes
    of_rows = multiplied(sizes.batch, multiplied(sizes.heads, sizes.rows))
    yield f"at = (split * ({of_rows}) + (b * {sizes.heads} + h) * {sizes.rows} + i).to(tl.int64)"
    element = f"at * {sizes.value_width} + e[None, :]"
    yield f"tl.store(parts + {element}, result, is_row & (e[None, :] < {sizes.value_width}))"
    yield "tl.store(largests + at, largest[:, None], is_row)"
    yield "tl.store(totals + at, total[:, None], is_row)"


def emit_combination(flex: Flex, name: str, splits: int) -> str:
    """The kernel that combines the results of the splits, with one program for each row."""
    writer = begin_flex(flex, name, COMBINED)
    flex = flex.parenthesized
    sizes, out, (_, width) = flex.sizes, flex.strides["out"], flex.sizes.padded
    of_head = multiplied(sizes.heads, sizes.rows)
    of_rows = multiplied(sizes.batch, of_head)
    for line in (
        "row = tl.program_id(0)",
        # tl.arange takes powers of two only: the rest is masked.
        f"split = tl.arange(0, {power_of_two(splits)})",
        f"e = tl.arange(0, {width})",
        f"at = (split * ({of_rows}) + row).to(tl.int64)",
        f"largest = tl.load(largests + at, split < {splits}, float('-inf'))",
        "now = tl.max(largest, 0)",
        "base = tl.where(now == float('-inf'), 0.0, now)",
        "factors = tl.exp(largest - base)",
        f"total = tl.sum(tl.load(totals + at, split < {splits}, 0.0) * factors, 0)",
        "safe = tl.where(total == 0.0, 1.0, total)",
        f"mask = (split[:, None] < {splits}) & (e[None, :] < {sizes.value_width})",
        f"part = tl.load(parts + at[:, None] * {sizes.value_width} + e[None, :], mask, 0.0)",
        "result = tl.sum(part * factors[:, None], 0) / safe",
        f"b = (row // {of_head}).to(tl.int64)",
        f"h = (row // {sizes.rows} % {sizes.heads}).to(tl.int64)",
        f"i = (row % {sizes.rows}).to(tl.int64)",
        f"element = b * {out[0]} + h * {out[1]} + i * {out[2]} + e * {out[3]}",
        f"tl.store(out + element, result.to(out.dtype.element_ty), e < {sizes.value_width})",
        f"tl.store(sums + row, tl.where(total == 0.0, float('-inf'), (now + tl.log(safe)) * {1 / LN_2!r}))",
    ):
        writer.line(line)
    return writer.text()
