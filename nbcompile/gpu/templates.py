"""The choice of each matrix product on a GPU: the library, or a kernel of ours with one tile or another.

    choose(planned, chip, ("ATEN", "TRITON"), predicted(chip))
    ->  buf0: aten 21.3 us and 9.8 us for relu; 128x128x64, 8 warps, 3 stages: 24.1 us (chosen); 64x128x32 ...: 29.0 us

A graph is lowered with all products as kernels; what follows them is fused already, so candidates are compared as a
whole: a kernel with its epilogue against the library with a kernel after it. Products for which the library is chosen
are lowered once more, as extern calls.

In torch: torch/_inductor/select_algorithm.py. Read next: nbcompile/gpu/product_times.py
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch

from nbcompile.codegen import triton_descriptors
from nbcompile.codegen.triton_products import Product, product_of
from nbcompile.codegen.triton_values import NoTriton
from nbcompile.gpu.chip import Chip
from nbcompile.gpu.predict import LAUNCH_SECONDS, REACHED
from nbcompile.gpu.product_factors import Factor, factors_of
from nbcompile.gpu.product_parts import counts, product_seconds, sum_seconds
from nbcompile.gpu.product_times import Shape, fits, predict, resident
from nbcompile.gpu.size_hints import SizeHints
from nbcompile.ir.expr import Apply, Expr, Load
from nbcompile.ir.index import constant
from nbcompile.ir.kernel import Kernel, ProductTile, Schedule, Step
from nbcompile.ir.strides import stride_along
from nbcompile.ir.traversal import walk

TEMPLATE_REACHED = 0.9
"""Rate of a kernel of ours over that of the library with the same tile: without TMA and warps of different kinds it is
not as fast. An assumption, after published figures."""
DESCRIBED_REACHED = 0.95
"""The same where factors are loaded by tensor descriptors. An assumption."""
DESCRIPTOR_SECONDS = 1e-6
"""Time in which a program creates its descriptors. An assumption."""
DESCRIBED_ELEMENTS = 64 * 64
"""Elements of a tile from which factors are loaded by descriptors."""
WINDOW_REACHED = 0.6
"""Rate of a convolution of ours with windows, over that of a product. An assumption."""
PERSISTENT_ELEMENTS = 128 * 128
"""Elements of a tile from which a persistent kernel is a candidate: with smaller ones, several programs overlap."""
CONVOLUTION = "convolution"
LIBRARY_TILES = (
    ProductTile(128, 256, 64, 8, 4), ProductTile(128, 128, 64, 8, 4), ProductTile(64, 256, 64, 4, 4),
    ProductTile(128, 128, 32, 8, 4), ProductTile(64, 128, 64, 4, 4), ProductTile(64, 64, 64, 4, 5),
    ProductTile(64, 64, 32, 4, 4), ProductTile(32, 64, 64, 4, 5), ProductTile(32, 32, 64, 4, 5),
)  # fmt: skip
"""Tiles that the library is assumed to have."""
#     128 x 256, 8 warps      128 registers of each thread hold the result's tile
#     a step of depth 64      (128 + 256) * 64 * 2 bytes = 48 KiB of shared memory
#     16 x 16, 2 warps        the smallest that the matrix units take, for products with few tiles
# Large tiles read each factor less often; small ones are more programs.
TILES = (
    ProductTile(128, 256, 64, 8, 3), ProductTile(256, 128, 64, 8, 3), ProductTile(128, 128, 64, 8, 3),
    ProductTile(128, 128, 64, 4, 4), ProductTile(128, 128, 32, 8, 4), ProductTile(128, 64, 64, 4, 4),
    ProductTile(64, 128, 64, 4, 4), ProductTile(64, 256, 32, 8, 4), ProductTile(128, 64, 32, 4, 4),
    ProductTile(64, 128, 32, 4, 4), ProductTile(64, 64, 64, 4, 4), ProductTile(64, 64, 32, 4, 4),
    ProductTile(64, 32, 64, 4, 5), ProductTile(32, 64, 64, 4, 5), ProductTile(64, 32, 32, 4, 5),
    ProductTile(32, 64, 32, 4, 5), ProductTile(32, 32, 64, 4, 5), ProductTile(32, 32, 32, 4, 4),
    ProductTile(16, 64, 64, 4, 5), ProductTile(64, 16, 64, 4, 5), ProductTile(16, 32, 64, 2, 5),
    ProductTile(16, 16, 64, 2, 5),
)  # fmt: skip
"""Candidates of ours."""
FLOAT_TILES = (
    ProductTile(128, 64, 16, 8, 3), ProductTile(64, 128, 16, 8, 3), ProductTile(64, 64, 16, 4, 3),
    ProductTile(64, 32, 16, 4, 3), ProductTile(32, 64, 16, 4, 3), ProductTile(32, 32, 16, 4, 3),
    ProductTile(16, 32, 32, 2, 3), ProductTile(32, 16, 32, 2, 3), ProductTile(16, 16, 32, 2, 3),
)  # fmt: skip
"""The same without matrix units, in full float32: the code of a step has all of its multiplications."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to compute a product and its epilogue."""

    tile: ProductTile | None
    """None: the library, and a kernel after it where something follows."""
    seconds: float
    """Predicted; or measured, where ``is_measured``."""
    is_measured: bool = False
    rest: float = 0.0
    """Predicted time of other kernels in addition to the product: the library's for operands and for what follows, ours
    where the sum is in parts."""
    parts: int = 1
    """Number of parts of the sum."""

    @property
    def label(self) -> str:
        """The tile, or ``library``."""
        if self.tile is None:
            return "library"
        return self.tile.label if self.parts == 1 else f"{self.tile.label}, sum in {self.parts} parts"


@dataclass(frozen=True, slots=True)
class Choice:
    """The candidates of one kernel, the best first."""

    kernel: str
    buffers: tuple[str, ...]
    nodes: tuple[str, ...]
    """The fx nodes of the product itself."""
    shape: Shape
    candidates: tuple[Candidate, ...]
    factors: tuple[Factor, ...] = ()

    @property
    def chosen(self) -> Candidate:
        """The best candidate."""
        return self.candidates[0]


Timing = Callable[[Kernel, Schedule, str, Sequence[Candidate]], Sequence[Candidate]]
"""Replaces predicted times by others."""


@dataclass(slots=True)
class Autotuner:
    """The choices within one graph, which may be lowered several times."""

    chip: Chip
    backends: tuple[str, ...] = ("ATEN",)
    """Candidates: the library (``ATEN``), kernels of ours (``TRITON``)."""
    timing: Timing | None = None
    hints: SizeHints = field(default_factory=SizeHints)
    """Numbers for symbolic sizes."""
    choices: dict[tuple[str, ...], Choice] = field(default_factory=dict)
    """Choices by the fx node of the product."""
    parts: dict[str, int] | None = field(init=False)
    """Number of parts of a product's sum, by its node; None if no kernels of ours are candidates."""

    def __post_init__(self) -> None:
        self.parts = {} if "TRITON" in self.backends else None

    def apply(self, planned: Schedule, fallbacks: dict[str, str]) -> Schedule | None:
        """Give each product's kernel a tile; None if the graph is to be lowered once more.

        The graph is then lowered with some products as calls of the library, which are added to ``fallbacks``, or with
        long sums in ``parts``.
        """
        if self.parts is None:
            return planned
        steps: list[Step] = list(planned.steps)
        is_changed = False
        for at, step in enumerate(steps):
            if not isinstance(step, Kernel) or step.product is None:
                continue
            nodes = product_nodes(step, planned)
            try:
                choice = self._choice(step, nodes, product_of(step), planned)
            except NoTriton as reason:
                fallbacks.update(dict.fromkeys(nodes, f"no code for a GPU: {reason}"))
                is_changed = True
                continue
            self.choices[nodes] = choice
            if not choice.candidates or choice.chosen.tile is None:
                # Called through ATen: the graph is lowered again without this product's kernel.
                fallbacks.update(dict.fromkeys(nodes, reason_of(choice)))
                is_changed = True
            elif choice.chosen.parts != self.parts.get(nodes[-1], 1):
                self.parts[nodes[-1]] = choice.chosen.parts
                is_changed = True
            else:
                steps[at] = replace(step, tile=choice.chosen.tile)
        return None if is_changed else replace(planned, steps=tuple(steps))

    def _choice(self, kernel: Kernel, nodes: tuple[str, ...], parts: Product, planned: Schedule) -> Choice:
        """The candidates of one product, the best first.

        Where candidates are measured, one with the sum in parts has to be lowered first: it is chosen by its
        prediction, and compared again when it was measured.
        """
        assert self.parts is not None
        number, before = self.parts.get(nodes[-1]), self.choices.get(nodes)
        if before is not None and number is not None and number > 1:
            return self._in_parts(kernel, before, number, planned)
        shape = _shape(
            parts, self.hints, _has_epilogue(kernel, planned), is_convolution=operator_of(nodes) == CONVOLUTION
        )
        found = self._candidates(kernel, parts, shape, planned)
        whole: Sequence[Candidate] = [candidate for candidate in found if candidate.parts == 1]
        if self.timing is not None and whole:
            whole = self.timing(kernel, planned, nodes[-1], whole)
        if number is not None and before is not None:  # measured in parts, and slower
            found = list(before.candidates)
        ordered = _ordered([*whole, *(candidate for candidate in found if candidate.parts > 1)])
        return Choice(kernel.name, kernel.buffers, nodes, shape, ordered, factors_of(parts))

    def _in_parts(self, kernel: Kernel, before: Choice, number: int, planned: Schedule) -> Choice:
        """The candidates of a product that was lowered in parts: those are measured now, where others were."""
        if self.timing is None or before.chosen.is_measured:
            return before
        ours = [candidate for candidate in before.candidates if candidate.parts == number]
        whole = [candidate for candidate in before.candidates if candidate.parts == 1]
        return replace(before, candidates=_ordered([*whole, *self.timing(kernel, planned, before.nodes[-1], ours)]))

    def _candidates(self, kernel: Kernel, parts: Product, shape: Shape, planned: Schedule) -> list[Candidate]:
        tensors = planned.program.tensors()
        bytes_of = {name: self.hints.bytes_of(tensors[name]) for name in (*kernel.reads, *kernel.writes)}
        moved = sum(bytes_of.values())
        found: list[Candidate] = []
        if "TRITON" in self.backends:
            fitting = _fitting(kernel, parts, shape, self.chip)
            reached = _reached(parts, shape)
            found += [Candidate(tile, _predicted(tile, shape, self.chip, moved, reached)) for tile in fitting]
            if constant(parts.depth.size) is not None and not shape.is_convolution:
                of_factors = sum(bytes_of[name] for name in _loaded(parts.left) | _loaded(parts.right))
                whole = [tile for tile in fitting if not tile.programs and not tile.descriptors]
                found += _in_parts(whole, shape, self.chip, of_factors, moved - of_factors)
        if "ATEN" in self.backends:
            product, rest = library_seconds(kernel, parts, shape, bytes_of, planned, self.chip)
            found.append(Candidate(None, product + rest, rest=rest))
        return found


def _ordered(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    return tuple(sorted(candidates, key=lambda candidate: candidate.seconds))


def reason_of(choice: Choice) -> str:
    """The text for the record, where the library was chosen."""
    ours = next((candidate for candidate in choice.candidates if candidate.tile is not None), None)
    if ours is None:
        return "matrix product: a tuned library comes near the hardware's limit"
    how = "measured" if ours.is_measured else "predicted"
    best = choice.chosen.seconds
    return f"matrix product: the library takes {best * 1e6:.1f} us, our kernel {ours.seconds * 1e6:.1f} us ({how})"


def product_nodes(kernel: Kernel, planned: Schedule) -> tuple[str, ...]:
    """The fx node of the product: its operator, not those of its operands."""
    tensors = planned.program.tensors()
    part = kernel.product
    assert part is not None
    name = next(name for name in kernel.buffers if part.name in (name, f"{name}_wide"))
    return tensors[name].from_nodes[-1:]


def operator_of(nodes: Sequence[str]) -> str:
    """The operator of a node, by its name: ``addmm`` of ``addmm_3``."""
    return re.sub(r"_\d+$", "", nodes[-1])


def _shape(parts: Product, hints: SizeHints, has_epilogue: bool, *, is_convolution: bool) -> Shape:
    narrow = parts.left.dtype.itemsize == 2
    kind = "narrow" if narrow else "tf32" if parts.part.kind == "dot_tf32" else "float32"
    return Shape(
        hints.total(parts.batch), hints.total(parts.rows), hints.total([parts.columns]), hints.total([parts.depth]),
        parts.left.dtype.itemsize, kind, has_epilogue, is_convolution,
    )  # fmt: skip


def _persistent(tiles: Sequence[ProductTile], shape: Shape, chip: Chip) -> Iterator[ProductTile]:
    """Large tiles in a kernel with as many programs as run at once, where there are more tiles."""
    for tile in tiles:
        at_once = chip.multiprocessors * resident(tile, shape, chip)
        number_of_tiles = shape.batch * -(-shape.rows // tile.rows) * -(-shape.columns // tile.columns)
        if tile.rows * tile.columns >= PERSISTENT_ELEMENTS and number_of_tiles > at_once:
            yield replace(tile, programs=at_once)


def _in_parts(tiles: Sequence[ProductTile], shape: Shape, chip: Chip, factors: int, others: int) -> Iterator[Candidate]:
    """Candidates whose sum is in parts."""
    for tile in tiles:
        for number in counts(tile, shape, chip):
            rest = sum_seconds(shape, chip, others, number)
            product = _slower(product_seconds(tile, shape, chip, factors, number))
            yield Candidate(tile, product + rest, rest=rest, parts=number)


def _fitting(kernel: Kernel, parts: Product, shape: Shape, chip: Chip) -> list[ProductTile]:
    """Tiles of ours that fit into a multiprocessor."""
    # A tile that needs too much shared memory would not be launched at all; one that needs too
    # many registers would spill the result.
    tiles = FLOAT_TILES if shape.kind == "float32" else TILES
    fitting = [tile for tile in tiles if fits(tile, shape, chip) and not is_wasteful(tile, shape)]
    fitting = [*fitting, *_persistent(fitting, shape, chip)]
    if not _is_described(kernel, parts, shape, chip):
        return fitting
    large = (tile for tile in fitting if tile.rows * tile.columns >= DESCRIBED_ELEMENTS)
    return [*fitting, *(replace(tile, descriptors=True) for tile in large)]


def _is_described(kernel: Kernel, parts: Product, shape: Shape, chip: Chip) -> bool:
    """Return whether tensor descriptors can load both factors."""
    if chip.capability < triton_descriptors.ENGINE or shape.kind == "float32" or shape.is_convolution:
        return False
    sides = parts.batch, parts.rows, parts.columns, parts.depth
    return triton_descriptors.describe_factors(kernel, (parts.left, parts.right), *sides) is not None


def _predicted(tile: ProductTile, shape: Shape, chip: Chip, moved: int, reached: float) -> float:
    seconds = predict(tile, shape, chip, moved).seconds
    if not tile.descriptors:
        return _slower(seconds, reached)
    # _slower divides by TEMPLATE_REACHED: the quotient replaces it by DESCRIBED_REACHED.
    return DESCRIPTOR_SECONDS + _slower(seconds, reached * DESCRIBED_REACHED / TEMPLATE_REACHED)


def _slower(seconds: float, reached: float = 1.0) -> float:
    # A launch takes as long for a slow kernel as for a fast one: only the rest is scaled.
    return LAUNCH_SECONDS + (seconds - LAUNCH_SECONDS) / (TEMPLATE_REACHED * reached)


def _reached(parts: Product, shape: Shape) -> float:
    """Rate of a kernel of ours over that of a plain product: windows are read element by element, in part."""
    if not shape.is_convolution or _is_plain(parts.left):
        return 1.0
    inner = next((node for node in walk(parts.left) if isinstance(node, Load)), None)
    steps = stride_along(inner.index[0], parts.depth.variable) if inner is not None else None
    return WINDOW_REACHED if steps is None else 1.0


def is_wasteful(tile: ProductTile, shape: Shape) -> bool:
    """Return whether half of a tile's rows or columns never exist."""
    # A product of the matrix units has 16 rows at least, so tiles of 16 are never too large.
    return tile.rows >= 2 * max(shape.rows, 16) or tile.columns >= 2 * max(shape.columns, 16)


def library_seconds(
    kernel: Kernel, parts: Product, shape: Shape, bytes_of: Mapping[str, int], planned: Schedule, chip: Chip
) -> tuple[float, float]:
    """Predicted time of the library, and of kernels for operands and for what follows, where there is something."""
    tensors = planned.program.tensors()
    result = shape.batch * shape.rows * shape.columns * shape.factor_bytes
    of_factors = _loaded(parts.left) | _loaded(parts.right)
    factors = (shape.rows + shape.columns) * shape.depth * shape.batch * shape.factor_bytes
    if shape.is_convolution:  # windows overlap
        factors = sum(bytes_of[name] for name in of_factors)
    # Unlike ours, the library's sum is also in parts if its length differs from call to call.
    seconds = _library_product(shape, chip, factors, result, is_split=not shape.is_convolution)
    bandwidth, rest = REACHED * chip.bytes_per_second, 0.0
    for operand in (parts.left, parts.right):
        #     ours       relu(x) @ w          relu is computed where a tile is loaded
        #     library    y = relu(x); y @ w   one kernel more, which writes y
        if not _is_plain(operand):  # it is computed, and stored
            size = math.prod((shape.batch, shape.rows if operand is parts.left else shape.columns, shape.depth))
            read = sum(bytes_of[name] for name in _loaded(operand))
            rest += LAUNCH_SECONDS + (read + size * shape.factor_bytes) / bandwidth
    if _has_epilogue(kernel, planned):
        others = sum(size for name, size in bytes_of.items() if name not in of_factors and name in tensors)
        rest += LAUNCH_SECONDS + (result + others) / bandwidth
    return seconds, rest


def _library_product(shape: Shape, chip: Chip, factors: int, result: int, *, is_split: bool) -> float:
    """Predicted time of the library's product, with its best tile, and perhaps the sum in parts."""
    tiles = [tile for tile in LIBRARY_TILES if fits(tile, replace(shape, has_epilogue=False), chip)]
    times = [predict(tile, shape, chip, factors + result).seconds for tile in tiles]
    if is_split:
        times += [
            product_seconds(tile, shape, chip, factors, number) + sum_seconds(shape, chip, result, number)
            for tile in tiles
            for number in counts(tile, shape, chip)
        ]
    return min(times)


def _has_epilogue(kernel: Kernel, planned: Schedule) -> bool:
    """Return whether the kernel computes more than the operator of the product itself."""
    own = set(product_nodes(kernel, planned))
    tensors = planned.program.tensors()
    # A buffer's last node is the operator whose result it is: any other than the product is an epilogue.
    return any(tensors[name].from_nodes[-1:] != tuple(own) for name in kernel.buffers)


def _is_plain(operand: Expr) -> bool:
    while isinstance(operand, Apply) and operand.op == "cast" and operand.dtype == torch.float32:
        operand = operand.args[0]
    return isinstance(operand, Load)


def _loaded(operand: Expr) -> set[str]:
    return {node.buffer for node in walk(operand) if isinstance(node, Load)}
