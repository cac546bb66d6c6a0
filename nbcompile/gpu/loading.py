"""An emitted graph for the GPU that is here, as a callable: machine code from the store, or compiled for it.

    load_on_gpu(emitted, gpu, compiler, attribute, constants, LaunchOptions())      a graph that one call of C launches

Nothing is lowered here, so that a graph of the store is loaded without SymPy and without Triton.

In torch: torch/_inductor/output_code.py. Read next: nbcompile/gpu/cubins.py, nbcompile/gpu/cuda_graphs.py
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from nbcompile import torch_internals
from nbcompile.codegen.named_plan import with_slot_names
from nbcompile.codegen.wrapper import opaque_arguments, write_wrapper
from nbcompile.gpu import cubins, random_draws
from nbcompile.gpu.cuda_graphs import ReplayedProgram
from nbcompile.gpu.division import DividedProgram, Part, divide
from nbcompile.gpu.graph_options import LaunchOptions
from nbcompile.gpu.random_draws import Drawn
from nbcompile.ir import compiled_artifact
from nbcompile.ir.compiled_artifact import Runnable, StoredTarget
from nbcompile.ir.emitted import CaptureFacts, EmittedKernel, LaunchPlan
from nbcompile.ir.profiler_ranges import current_origin
from nbcompile.record import recorder
from nbcompile.runtime import gpu_launcher
from nbcompile.runtime.gpu_launcher import GpuLauncher, Image
from nbcompile.runtime.program import Attribute, LoadedGraph, load
from nbcompile.runtime.toolchain import Compiler
from nbcompile.support import lazy_import

if TYPE_CHECKING:
    from nbcompile.gpu import user_kernels
else:
    user_kernels = lazy_import.module("nbcompile.gpu.user_kernels")

CUDAGRAPHS = torch_internals.artifact_logger("cudagraphs")


KernelTable = Callable[[int, int], tuple[Any, dict[str, Any]]]
"""Finds a Triton kernel of the user's, and its constants, by their numbers in a graph."""


@dataclass(frozen=True, slots=True)
class _Extern:
    """An operator that a plan calls."""

    name: str
    target: Any


class OtherTarget(Exception):
    """A stored graph is for another GPU, or for another Triton."""


def load_on_gpu(
    emitted: Runnable, gpu: GpuLauncher, compiler: Compiler, attribute: Attribute | None,
    constants: Mapping[int, object], launch: LaunchOptions, kernels: KernelTable | None = None,
) -> LoadedGraph:  # fmt: skip
    """Build the kernels, and return the graph as a callable.

    ``kernels`` are those of a stored graph; without, torch's table has them.

    Raises:
        cubins.CannotCompile: Triton cannot compile a kernel.
        toolchain.BuildError: the C++ compiler fails.
    """
    prepared = {**prepare(emitted, gpu, launch.debug), **_users_kernels(emitted, kernels)}
    program = load(emitted, compiler, attribute, constants, prepared)
    facts, plan = emitted.capture, emitted.plan
    # Not requested explicitly: the mode is reduce-overhead.
    if facts is None:
        return program
    loader = _GraphLoader(emitted, compiler, attribute, constants, prepared, gpu, _note_writer())
    # Nothing prevents a recording of the whole graph.
    if not facts.obstacle and plan is not None:
        return loader.replayed(program, plan, loader.drawn(plan), facts)
    notes = [facts.obstacle]
    parts = () if plan is None else divide(plan, loader.targets, facts)
    if parts and plan is not None:
        program = DividedProgram(plan, tuple((part, loader.part(part)) for part in parts))
        recorded = sum(part.drawn is not None for part in parts)
        notes.append(f"divided for CUDA graphs: {recorded} of {len(parts)} parts are recorded, the others launched")
    draft = recorder.draft()
    for note in notes if draft is not None else ():
        draft.add_to_graph("notes", note)  # type: ignore[union-attr]
    return program


@dataclass(frozen=True, slots=True)
class _GraphLoader:
    """Loads what is to be recorded of one graph."""

    emitted: Any
    compiler: Compiler
    attribute: Attribute | None
    constants: Mapping[int, object]
    prepared: Mapping[str, Callable[..., None]]
    gpu: GpuLauncher
    write_note: Callable[[str], None]

    @property
    def targets(self) -> dict[str, Any]:
        """Operators, by the name of the call."""
        return {extern.name: extern.target for extern in self.emitted.externs}

    def drawn(self, plan: LaunchPlan) -> Drawn:
        """A plan without random calls."""
        return random_draws.without_draws(plan, self.targets)

    def replayed(self, program: LoadedGraph, plan: LaunchPlan, drawn: Drawn, facts: CaptureFacts) -> ReplayedProgram:
        """A graph, or a part of one, that is recorded when it is called again."""
        # Random tensors are inputs of the recorded program; the plain one draws them itself, as it
        # does where a graph is not recorded.
        recorded = program
        if drawn.draws:
            externs = (*self.emitted.externs, *(_Extern(*row) for row in drawn.more_externs))
            recorded = self._load(replace(self.emitted, plan=drawn.plan, externs=externs), self.constants)
        return ReplayedProgram(program, recorded, drawn.draws, self.gpu, plan.gpu, facts, self.write_note)

    def part(self, part: Part) -> Callable[[list[Any]], Any]:
        """A part of a divided graph."""
        written = frozenset(at for at, _ in part.written)
        # The launcher in C leaves some calls to Python (modes, profilers), so a part needs a text, too.
        operators = {name: str(target) for name, target in self.targets.items()}
        wrapper = write_wrapper(with_slot_names(part.plan, written, operators))
        changed = replace(self.emitted, plan=part.plan, wrapper=wrapper, ranges=())
        program = self._load(changed, opaque_arguments(part.plan))
        if part.drawn is None:
            return program
        return self.replayed(program, part.plan, part.drawn, CaptureFacts("", part.written))

    def _load(self, changed: Any, constants: Mapping[int, object]) -> LoadedGraph:
        # Built from the graph's own plan, so it is no part of the artifact.
        return load(changed, self.compiler, self.attribute, constants, self.prepared, is_stored=False)


def _users_kernels(emitted: Runnable, kernels: KernelTable | None) -> dict[str, Callable[..., None]]:
    """Functions that launch the user's own Triton kernels, by the name of the call. The program has imported Triton."""
    names = [extern.name for extern in emitted.externs if torch_internals.is_kernel_launch(extern.target)]
    if not names:
        return {}
    launch = functools.partial(user_kernels.launch, kernels or user_kernels.of_table)
    return {f"{name}_target": launch for name in names}


def prepare(emitted: Runnable, gpu: GpuLauncher, debug: bool = False) -> Mapping[str, Callable[..., None]]:
    """Build the kernels that are for a GPU, and load each into its device."""
    kernels = [kernel for kernel in emitted.kernels if kernel.language == "triton"]
    chips = {device: chip_name(gpu, device) for device in {kernel.gpu for kernel in kernels}}
    # All at once, so that those which are not in the store are compiled side by side.
    built = cubins.obtain([cubins.Request(kernel, chips[kernel.gpu]) for kernel in kernels])
    positions = _positions(emitted)
    compiled_artifact.set_gpu(StoredTarget(tuple(sorted(chips.items())), cubins.triton_version(), debug))

    def ready(kernel: EmittedKernel, image: Image) -> Callable[..., None]:
        unaligned, where = _unaligned(kernel, chips[kernel.gpu]), positions.get(kernel.name, "")
        return gpu.prepare(kernel, image, kernel.gpu, unaligned, where, debug)

    return {kernel.name: ready(kernel, cubin.image) for kernel, cubin in zip(kernels, built, strict=True)}


def load_stored(
    stored: Runnable, target: StoredTarget, compiler: Compiler, attribute: Attribute, constants: Mapping[int, object],
    kernels: KernelTable,
) -> LoadedGraph:  # fmt: skip
    """A graph that an earlier process compiled for this GPU, with the user's Triton kernels that it launches.

    Raises:
        OtherTarget: it was compiled for another one, or with another Triton.
    """
    gpu = gpu_launcher.open_launcher(compiler)
    if isinstance(gpu, gpu_launcher.NoGpu):
        raise OtherTarget(gpu.reason)
    # Machine code is for one kind of chip, and its key in the store has Triton's version.
    for device, chip in target.chips:
        if device >= gpu.devices or chip_name(gpu, device) != chip:
            raise OtherTarget(f"cuda:{device} is not the {chip} that it was compiled for")
    if target.triton != cubins.triton_version():
        raise OtherTarget(f"it was compiled by Triton {target.triton}, and {cubins.triton_version()} is installed")
    return load_on_gpu(stored, gpu, compiler, attribute, constants, LaunchOptions(debug=target.debug), kernels)


def chip_name(gpu: GpuLauncher, device: int) -> str:
    """``sm_90``."""
    return f"sm_{capability(gpu, device)}"


def capability(gpu: GpuLauncher, device: int) -> int:
    """``90``."""
    major, minor, _ = gpu.capability(device)
    return 10 * major + minor


def _unaligned(kernel: EmittedKernel, chip: str) -> Callable[[], Image]:
    """Build, when it is needed first, the code for pointers that are no multiples of 16."""

    def build() -> Image:
        # Nearly all pointers are multiples of 16: only a view with another offset needs this.
        (cubin,) = cubins.obtain([cubins.Request(kernel, chip, aligned=False)])
        return cubin.image

    torch_internals.hide_from_hook(build.__code__)
    return build


def _positions(emitted: Runnable) -> dict[str, str]:
    """Operators and lines of the user's program, for the texts of errors."""
    origin = current_origin()
    found = {}
    for name, known in emitted.ranges:
        lines = ", ".join(f"{file}:{line}" for file, line in known.source_lines(origin))
        found[name] = f"{known.operators}, {lines}" if lines else known.operators
    return found


def _note_writer() -> Callable[[str], None]:
    """Return a function that adds a note to the record and the log of CUDA graphs, also after the frame is finished."""
    # Read now: graphs are recorded in later calls, when no draft of the frame is open any more.
    page = recorder.draft()

    def write_note(text: str) -> None:
        CUDAGRAPHS.debug("%s", text)
        if page is not None:
            page.add_to_graph("notes", text)
            page.rewrite()

    torch_internals.hide_from_hook(write_note.__code__)
    return write_note
