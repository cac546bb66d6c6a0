"""Section of the backend: loop IR, fusion log, memory plan, kernels, wrapper.

In torch: TORCH_LOGS=output_code,fusion,ir_pre_fusion print these separately.
Read next: nbcompile/views/timings.py
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass

from markupsafe import Markup

from nbcompile.record import links
from nbcompile.record.model import CompiledFrame, CompiledGraph, Kernel
from nbcompile.views import facts, figures, gpu, memory, parts
from nbcompile.views.graph import node_names, words
from nbcompile.views.markup import Limits, chip, code, fold, listing, row, section, table, tag

_LANGUAGES = {"cpp": "C++", "triton": "Triton", "aten": "ATen"}


def render(frame: CompiledFrame, found: links.FrameLinks, limits: Limits) -> Markup | None:
    """Render the backend's results for a frame's graph."""
    compiled = frame.compiled_graph
    if compiled is None:
        return None
    kernels, more = limits.cut(in_order(compiled))
    names = {node.id: node.name for node in frame.graph.nodes} if frame.graph else {}
    context = _KernelContext(found, names, limits, _first_of_their_kind(compiled.kernels), is_open=len(kernels) == 1)
    shown = (
        [tag("p", note, class_="n-callout") for note in compiled.notes],
        parts.render(frame, found, limits),
        gpu.roofline(compiled),
        [_kernel(kernel, index, context) for index, kernel in kernels],
        more,
        _fusions(compiled, found, limits), _buffers(compiled, found, limits), memory.render(compiled, found, limits),
        fold("Wrapper: allocates and launches", listing(compiled.wrapper, limits=limits)) if compiled.wrapper else None,
    )  # fmt: skip
    generated = sum(each.language != "aten" for each in compiled.kernels)
    counts = (facts.count(generated, "generated kernel"), facts.count(len(compiled.kernels) - generated, "ATen call"))
    about = ", ".join(filter(None, (*counts, f"backend {compiled.backend}", gpu.sentence(compiled))))
    return section("kernels", "Kernels", shown, about=about, figures=f"{figures.KERNELS} {figures.CALLS}")


def in_order(compiled: CompiledGraph) -> list[tuple[int, Kernel]]:
    """Kernels and extern calls in the order in which the wrapper runs them, each with its index in the record."""
    # The forward and the backward graph each count their calls from 0: entries of one name are consumed in order.
    waiting: dict[str, deque[tuple[int, Kernel]]] = {}
    for index, kernel in enumerate(compiled.kernels):
        waiting.setdefault(_called(kernel), deque()).append((index, kernel))
    # The longest first: `kernel1` must not be found in `kernel10`.
    names = "|".join(map(re.escape, sorted(waiting, key=len, reverse=True)))
    called = re.findall(rf"(?<![\w.])({names})\(", compiled.wrapper) if names else []
    ran = [waiting[name].popleft() for name in called if waiting[name]]
    # Kernels that no wrapper calls (in a record of another version) are shown at the end.
    return ran + [each for left in waiting.values() for each in left]


def _called(kernel: Kernel) -> str:
    """The name by which the wrapper calls it: an operator of ATen by the number of the call, ``extern0_target``."""
    return f"{kernel.id.rpartition('.')[2]}_target" if kernel.language == "aten" else kernel.name


def _first_of_their_kind(kernels: tuple[Kernel, ...]) -> dict[str, str]:
    """Map from each kernel's id to the name of the first kernel with the same program, comments aside."""
    firsts: dict[str, str] = {}
    return {
        kernel.id: firsts.setdefault(
            re.sub(r"//.*|\b" + re.escape(kernel.name) + r"\b", "", kernel.source), kernel.name
        )
        # Calls of ATen have no source: each is the first of its kind.
        if kernel.source
        else kernel.name
        for kernel in kernels
    }


@dataclass(frozen=True, slots=True)
class _KernelContext:
    """Links, names and limits for all kernels of one frame."""

    found: links.FrameLinks
    names: dict[str, str]
    """Names of the captured nodes, by id."""
    limits: Limits
    first_equal: dict[str, str]
    """Name of the first kernel with an equal program, by id."""
    is_open: bool


def _kernel(kernel: Kernel, index: int, context: _KernelContext) -> Markup:
    found, limits, first = context.found, context.limits, context.first_equal[kernel.id]
    origins = found.captured(kernel.id)
    computed = facts.shortened((context.names.get(origin, origin) for origin in origins), _NAMED)
    about = "; ".join(filter(None, (f"computes {computed}" if computed else "", kernel.reason)))
    language = chip(_LANGUAGES.get(kernel.language, kernel.language))
    counted = f"compiled_graph.kernels.{index}|origins|beyond.{_NAMED}" if len(origins) > _NAMED else ""
    title = (tag("b", kernel.name), " ", language, " ", tag("small", about, data_r=counted))
    if not kernel.source:
        tried = gpu.candidates(kernel)
        return (
            tag("div", tag("p", title), tried, data_n=words(origins))
            if tried
            else tag("p", title, data_n=words(origins))
        )
    # Layers of a model have equal kernels. One source is shown, since only one function is compiled (codegen/cpp.py).
    if first != kernel.name and limits.repeated:
        return tag("p", title, tag("small", f"; the program of {first}, for other buffers"), data_n=words(origins))
    by_line = links.kernel_line_nodes(found, kernel)
    roles = {each.line: each.role for each in kernel.lines}
    program = listing(
        kernel.source, kernel.language if index < _COLOURED else "", limits,
        lambda index: words(by_line.get(index + 1, ())), lambda index: _ROLES.get(roles.get(index + 1, ""), ""),
    )  # fmt: skip
    return fold(title, gpu.render(kernel, by_line, limits), gpu.candidates(kernel), program, is_open=context.is_open)


_COLOURED = 8
"""Number of kernels with syntax highlighting; further ones are folded."""
_NAMED = 8
"""Number of a kernel's operators that its title names."""
_ROLES = {"surrounds": "r", "glue": "c"}
"""CSS classes of lines that compute nothing themselves."""


def _fusions(compiled: CompiledGraph, found: links.FrameLinks, limits: Limits) -> Markup | None:
    if not compiled.fusions:
        return None
    decisions, more = limits.cut(compiled.fusions)
    rows = [
        row(tag("th", code(decision.first), " + ", code(decision.second)),
            chip("fused", "ok") if decision.fused else chip("not fused"), decision.reason, facts.bytes_saved(decision),
            nodes=node_names(found, decision.first, decision.second))
        for decision in decisions
    ]  # fmt: skip
    fused = sum(each.fused for each in compiled.fusions)
    title = f"Fusion log: {fused} fused, {len(compiled.fusions) - fused} not"
    return fold(
        title,
        table("Which buffers share a loop nest, and why", ("buffers", "verdict", "reason", "saves"), rows),
        more,
        figures="compiled_graph.fusions[fused=True] compiled_graph.fusions[fused=False]",
    )


def _buffers(compiled: CompiledGraph, found: links.FrameLinks, limits: Limits) -> Markup | None:
    if not compiled.buffers:
        return None
    buffers, more = limits.cut(compiled.buffers)
    rows = [
        row(tag("th", code(buffer.name)), chip(buffer.kind), f"{buffer.dtype}[{', '.join(buffer.shape)}]",
            tag("pre", tag("code", buffer.body)), nodes=node_names(found, buffer.id))
        for buffer in buffers
    ]  # fmt: skip
    title = f"Loop-level IR: {facts.count(len(compiled.buffers), 'buffer')}"
    shown = table("Buffers of the loop-level IR", ("buffer", "kind", "type", "body"), rows)
    return fold(title, tag("div", shown, class_="n-ir"), more, figures="compiled_graph.buffers")
