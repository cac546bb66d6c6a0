"""Figures for the record of a kernel on an absent GPU.

    figures.built(ready, chip)                registers, spills, shared memory, occupancy
    figures.launched(gpu, launch, ready)      the same, with what a simulated launch moved and how long it would take

In torch: nothing. Read next: nbcompile/gpu/predict.py
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import astuple, replace

from nbcompile.gpu import predict, sass
from nbcompile.gpu.chip import Chip
from nbcompile.gpu.costs import SECTOR
from nbcompile.gpu.simulated import Launch, ReadyKernel
from nbcompile.record import model

DISASSEMBLED = 8
"""Maximum number of kernels per graph whose machine code is disassembled, which takes 0.25 s of a processor each."""


def built(ready: ReadyKernel, chip: Chip) -> model.Gpu:
    """Figures that ptxas reports."""
    machine_code = ready.built
    return model.Gpu(
        chip.name,
        machine_code.registers,
        machine_code.spilled_bytes,
        machine_code.shared_bytes,
        machine_code.threads,
        machine_code.occupancy(chip),
        # Both per microsecond, the unit of a kernel's predicted time, so that a page draws a
        # roofline without conversions.
        peak_bytes=predict.REACHED * chip.bytes_per_second / 1e6,
        peak_instructions=chip.multiprocessors * predict.SCHEDULERS * chip.cycles_per_second / 1e6,
        lines=tuple(model.GpuLine(line, ptx=texts) for line, texts in _texts(ready).items()),
    )


def disassembling(ready: Mapping[str, ReadyKernel], printer: sass.Printer | None = None) -> sass.Printer:
    """Begin to print the machine's instructions of the first kernels."""
    printer = printer or sass.Printer()
    for name in list(ready)[:DISASSEMBLED]:
        printer.begin(name, ready[name].built)
    return printer


def disassembled(
    gpus: Mapping[str, model.Gpu], ready: Mapping[str, ReadyKernel], printer: sass.Printer
) -> dict[str, model.Gpu]:
    """The figures with the machine's instructions in each line."""
    return {name: _with_sass(gpu, printer.lines(name), ready[name].first_line) for name, gpu in gpus.items()}


def _with_sass(gpu: model.Gpu, found: Mapping[int, tuple[str, ...]], first_line: int) -> model.Gpu:
    # Debug information counts the lines of the module, which begins with helper functions; the page
    # those of the kernel.
    names = {line - first_line + 1: tuple(_counted(list(each))) for line, each in found.items()}
    return replace(gpu, lines=tuple(replace(line, sass=names.get(line.line, ())) for line in gpu.lines))


def launched(gpu: model.Gpu, launch: Launch, first_line: int) -> model.Gpu:
    """Figures with the costs of a launch."""
    costs = launch.costs
    by_line = {each.line - first_line + 1: each for each in launch.lines.values()}
    return replace(
        gpu,
        blocks=launch.grid,
        coalescing=costs.coalescing,
        moved=costs.sectors * SECTOR,
        least=launch.touched,
        predicted_us=launch.times.predicted * 1e6,
        roofline_us=launch.times.roofline * 1e6,
        limit=launch.times.limit,
        instructions=costs.instructions,
        tiles=tuple(model.GpuTile(*astuple(each)) for each in launch.tiles),
        lines=tuple(
            replace(
                line,
                instructions=by_line[line.line].instructions,
                moved=by_line[line.line].sectors * SECTOR,
                least=by_line[line.line].least_sectors * SECTOR,
            )
            if line.line in by_line
            else line
            for line in gpu.lines
        ),
    )


def _texts(ready: ReadyKernel) -> dict[int, tuple[str, ...]]:
    """The instructions of each line of the kernel's own text, those of a name together."""
    found: dict[int, list[str]] = {}
    for instruction in ready.function.instructions:
        # Lines of the kernel's own text; those of helper functions before it are left out.
        line = instruction.line - ready.first_line + 1
        if instruction.line and 1 <= line <= ready.kernel.source.count("\n"):
            found.setdefault(line, []).append(instruction.name)
    return {line: tuple(_counted(names)) for line, names in sorted(found.items())}


def _counted(names: list[str]) -> Iterator[str]:
    # Accesses to memory first, then the most frequent instructions.
    for name, count in sorted(Counter(names).items(), key=lambda item: (not is_access(item[0]), -item[1])):
        yield name if count == 1 else f"{count} {name}"


def is_access(name: str) -> bool:
    """Return whether an instruction accesses global memory, the most expensive kind."""
    return name.startswith(("ld.global", "st.global", "atom.global", "red.global", "LDG", "STG", "ATOMG", "RED."))
