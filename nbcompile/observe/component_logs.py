"""One line about each finished frame for a part of the compiler: ``TORCH_LOGS=dynamo``, ``aot``, ``inductor``.

    TORCH_LOGS=dynamo python f.py

    I1123 22:10:38 1234 .../component_logs.py:0] [0/0] f (f.py:3): compiled, first call; 2 nodes, 7 guards, no breaks

``+dynamo`` prints this line too, before the artifacts of the component.

In torch: log.info in torch/_dynamo/convert_frame.py, torch/_inductor/compile_fx.py. Read next:
nbcompile/observe/artifact_logs.py
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from nbcompile.observe.artifacts import graphs_of
from nbcompile.record.model import CompiledFrame, Timing

Messages = Callable[[CompiledFrame, Sequence[Timing]], Iterable[str]]


def counted(number: int, noun: str) -> str:
    """A number with its noun: ``no breaks``, ``1 break``, ``2 breaks``."""
    return f"{number or 'no'} {noun}{'s' * (number != 1)}"


def _dynamo(frame: CompiledFrame, timings: Sequence[Timing]) -> Iterator[str]:
    nodes = len(frame.graph.nodes) if frame.graph else 0
    counts = ", ".join(
        (counted(nodes, "node"), counted(len(frame.guards), "guard"), counted(len(frame.breaks), "break"))
    )
    stages = [f"{timing.stage} {timing.seconds:.3f} s" for timing in timings if not timing.inside]
    parts = [f"{frame.status}, {frame.cause}", counts, ", ".join(stages), frame.skip_reason]
    yield f"{frame.function} ({frame.file}:{frame.first_line}): {'; '.join(filter(None, parts))}"


def _aot(frame: CompiledFrame, _: Sequence[Timing]) -> Iterator[str]:
    graphs = graphs_of(frame, "joint", "forward", "backward", "inference")
    sizes = [f"{graph.stage} graph of {counted(len(graph.nodes), 'node')}" for graph in graphs]
    if sizes:
        yield f"AOTAutograd: {', '.join(sizes)}"


def _inductor(frame: CompiledFrame, _: Sequence[Timing]) -> Iterator[str]:
    compiled = frame.compiled_graph
    if compiled is None or not compiled.kernels:
        return
    languages = Counter(kernel.language for kernel in compiled.kernels)
    kinds = ", ".join(f"{number} {language}" for language, number in languages.items())
    buffers, kernels = counted(len(compiled.buffers), "buffer"), counted(len(compiled.kernels), "kernel")
    yield f"backend {compiled.backend}: {buffers} in {kernels} ({kinds})"


SUMMARIES: dict[str, Messages] = {"dynamo": _dynamo, "aot": _aot, "inductor": _inductor}
"""The printer of each component of ``log_names.COMPONENTS``."""
