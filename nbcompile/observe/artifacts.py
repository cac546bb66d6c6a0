"""The artifacts of ``TORCH_LOGS``, as text, from the record of one frame.

    list(ARTIFACTS["graph_code"](frame))      a list of messages: "TRACED GRAPH", " ===== __compiled_fn_0_0 ====="

The names are torch's (nbcompile/support/log_names.py lists them); a message begins as torch's does, because tools
search for these first lines.

In torch: torch/_logging/_registrations.py. Read next: nbcompile/observe/artifact_logs.py
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator

from nbcompile.record.model import Autotuning, CompiledFrame, Graph, Guard, Instruction, Node, Step

Messages = Callable[[CompiledFrame], Iterable[str]]

STEP_ARTIFACTS = frozenset(("trace_source", "trace_bytecode", "trace_call"))
"""Artifacts that need each instruction of the trace recorded."""


def fn_name(frame: CompiledFrame) -> str:
    """The name of a frame's graph in headlines."""
    return f"__compiled_fn_{frame.id.replace('/', '_')}"


def _headline(title: str, name: str, body: str) -> str:
    return f"{title}\n ===== {name} =====\n {body.rstrip()}\n"


# --- the captured graph ----------------------------------------------------------------------------------------------


def _graph_code(frame: CompiledFrame) -> Iterator[str]:
    for graph in filter(None, (frame.graph, frame.unfinished)):
        yield _headline("TRACED GRAPH", fn_name(frame), graph.code)


def _graph(frame: CompiledFrame) -> Iterator[str]:
    for graph in filter(None, (frame.graph, frame.unfinished)):
        yield _headline("TRACED GRAPH", fn_name(frame), tabulate(graph))


def tabulate(graph: Graph) -> str:
    """A graph as a table: opcode, name, target, arguments."""
    rows = [("opcode", "name", "target", "args"), *((n.op, n.name, n.target, n.arguments) for n in graph.nodes)]
    # As torch prints it with `tabulate`, a package that is no dependency.
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    rows.insert(1, ("-" * widths[0], "-" * widths[1], "-" * widths[2], "-" * widths[3]))
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _graph_sizes(frame: CompiledFrame) -> Iterator[str]:
    if frame.graph is not None:
        sizes = "\n".join(f"{node.name}: {_size(node)}" for node in frame.graph.nodes if node.shape is not None)
        yield f"TRACED GRAPH TENSOR SIZES\n===== {fn_name(frame)} =====\n{sizes}\n"


def _size(node: Node) -> str:
    shape = node.shape or ()
    return f"({', '.join(shape)}{',' if len(shape) == 1 else ''})"


# --- tracing ---------------------------------------------------------------------------------------------------------


def _bytecode(frame: CompiledFrame) -> Iterator[str]:
    location = f"{frame.function} {frame.file} line {frame.first_line}"
    if frame.instructions:
        yield f"ORIGINAL BYTECODE {location} \n{disassembly(frame.instructions)}\n"
    if frame.residual_instructions:
        yield f"MODIFIED BYTECODE {location} \n{disassembly(frame.residual_instructions)}\n"


def disassembly(instructions: Iterable[Instruction]) -> str:
    """Instructions in the form of the module ``dis``."""
    lines, line = [], 0
    for instruction in instructions:
        # A line's number at its first instruction only, as ``dis`` prints it.
        shown = str(instruction.line) if instruction.line not in (0, line) else ""
        line = instruction.line or line
        lines.append(f"{shown:>4} {instruction.offset:>11} {instruction.opcode:<24} {instruction.argument}".rstrip())
    return "\n".join(lines)


def _trace_source(frame: CompiledFrame) -> Iterator[str]:
    # A line is printed once for consecutive instructions, and again if a loop returns to it.
    for (function, line), steps in itertools.groupby(frame.steps, key=lambda step: (step.function, step.line)):
        if line:
            depth = f" (inline depth: {first.depth})" if (first := next(steps)).depth else ""
            yield f"TRACE starts_line {frame.file}:{line} in {function} ({frame.function}){depth}\n    {first.text}"


def _trace_bytecode(frame: CompiledFrame) -> Iterator[str]:
    for step in frame.steps:
        yield f"TRACE {step.opcode} {step.argument} [{', '.join(step.stack)}]"


def _trace_call(frame: CompiledFrame) -> Iterator[str]:
    for step in frame.steps:
        yield from (_call(frame, step, node) for node in step.nodes if " = " in node)  # else it is an input


def _call(frame: CompiledFrame, step: Step, node: str) -> str:
    name = node.partition(" = ")[0]
    stack = next((each.stack for each in (frame.graph.nodes if frame.graph else ()) if each.name == name), ())
    text = f"TRACE FX call {name} from {frame.file}:{step.line} in {step.function} ({frame.function})\n    {step.text}"
    if stack and stack[-1].line == step.line and stack[-1].column >= 0:
        column, end = stack[-1].column, stack[-1].end_column
        text += f"\n    {' ' * column}{'^' * max(end - column, 1)}"
    return text


# --- guards ----------------------------------------------------------------------------------------------------------


def _guards(frame: CompiledFrame) -> Iterator[str]:
    if frame.guards:
        yield guard_tree(frame.guards)


def guard_tree(guards: Iterable[Guard]) -> str:
    """All guards, grouped by the values that they check, in torch's form of the guard manager."""
    # One level deep: a record has the guards by source, and not the accessors between them.
    lines = ["GUARDS:", "", "TREE_GUARD_MANAGER:", "+- RootGuardManager"]
    by_source: dict[str, list[Guard]] = {}
    for guard in guards:
        by_source.setdefault(guard.source, []).append(guard)
    for source, own in by_source.items():
        indent = "| " if source else ""
        if source:
            lines.append(f"| +- GuardManager: source={source}")
        for guard in own:
            where = f"  # {guard.stack[-1].code}  # {_location(guard)}" if guard.stack else ""
            lines.append(f"{indent}| +- {guard.kind}: {guard.condition}{where}")
    return "\n".join(lines)


def _location(guard: Guard) -> str:
    last = guard.stack[-1]
    return f"{last.file}:{last.line} in {last.function}"


def _verbose_guards(frame: CompiledFrame) -> Iterator[str]:
    for guard in frame.guards:
        yield f"GUARD: {guard.condition}\n    {guard.words}"


def _recompiles_verbose(frame: CompiledFrame) -> Iterator[str]:
    if not frame.failed_guards:
        return
    lines = [
        f"Recompiling function {frame.function} in {frame.file}:{frame.first_line}",
        "    triggered by the following guard failure(s):",
    ]
    for number, failed in enumerate(frame.failed_guards):
        lines.append(f"    guard {number} failures:")
        lines += [f"    - {failed.compile_id}: {reason}" for reason in (failed.reason, *failed.others)]
    yield "\n".join(lines)


# --- the backend -----------------------------------------------------------------------------------------------------


def graphs_of(frame: CompiledFrame, *stages: str) -> Iterator[Graph]:
    """The ATen graphs of a frame at the given stages."""
    compiled = frame.compiled_graph
    return (graph for graph in (compiled.graphs if compiled else ()) if graph.stage in stages)


def _aot_graphs(frame: CompiledFrame) -> Iterator[str]:
    titles = {"forward": "Forward graph", "backward": "Backward graph", "inference": "Forward graph"}
    for graph in graphs_of(frame, *titles):
        yield _headline("TRACED GRAPH", f"{titles[graph.stage]} {frame.id}", graph.code)


def _aot_joint_graph(frame: CompiledFrame) -> Iterator[str]:
    for graph in graphs_of(frame, "joint"):
        yield _headline("TRACED GRAPH", f"Joint graph {frame.id}", graph.code)


def _pre_grad_graphs(frame: CompiledFrame) -> Iterator[str]:
    if frame.graph is not None and frame.compiled_graph is not None:
        yield _headline("TRACED GRAPH", "BEFORE PRE GRAD", frame.graph.code)


def _post_grad_graphs(frame: CompiledFrame) -> Iterator[str]:
    for graph in graphs_of(frame, "forward", "backward", "inference"):
        yield _headline("TRACED GRAPH", f"AFTER POST GRAD {graph.stage}", graph.code)


def _ir_pre_fusion(frame: CompiledFrame) -> Iterator[str]:
    compiled = frame.compiled_graph
    if compiled is not None and compiled.buffers:
        yield "BEFORE FUSION\n" + "\n".join(
            f"{buffer.name}: {buffer.kind} {buffer.dtype}[{', '.join(buffer.shape)}] = {buffer.body}"
            for buffer in compiled.buffers
        )


def _ir_post_fusion(frame: CompiledFrame) -> Iterator[str]:
    compiled = frame.compiled_graph
    if compiled is None or not compiled.kernels:
        return
    # A kernel names its buffers; their computations are stored with the buffers, which exist before fusion.
    bodies = {each.id: each for each in compiled.buffers}
    lines = ["AFTER FUSION"]
    for kernel in compiled.kernels:
        lines.append(f"{kernel.name}: {kernel.language}")
        lines += [f"    {bodies[name].name} = {bodies[name].body}" for name in kernel.buffers if name in bodies]
    yield "\n".join(lines)


def _fusion(frame: CompiledFrame) -> Iterator[str]:
    compiled = frame.compiled_graph
    if compiled is None or not compiled.fusions:
        return
    yield f"===== attempting fusion: {len(compiled.buffers)} nodes ====="
    for decision in compiled.fusions:
        verb = "fusing {} with {}" if decision.fused else "cannot fuse {} with {}"
        yield f"{verb.format(decision.first, decision.second)}: {decision.reason}"


def _schedule(frame: CompiledFrame) -> Iterator[str]:
    compiled = frame.compiled_graph
    if compiled is not None and compiled.kernels:
        names = [f"  {number}: {kernel.name} ({kernel.language})" for number, kernel in enumerate(compiled.kernels, 1)]
        lives = [f"  {each.buffer}: launches {each.first} to {each.last or 'the end'}" for each in compiled.lifetimes]
        yield "\n".join(["Schedule:", *names, "Live ranges:", *lives])


def _output_code(frame: CompiledFrame) -> Iterator[str]:
    if output_code(frame):
        yield f"Output code: \n{output_code(frame)}"


def output_code(frame: CompiledFrame) -> str:
    """The kernels and the program that launches them, as one text; "" where no code was generated."""
    compiled = frame.compiled_graph
    if compiled is None or not compiled.wrapper:
        return ""
    # Texts in one program, as in torch: a copy of the log has kernels and wrapper together.
    texts = [f"{kernel.name} = '''\n{kernel.source.rstrip()}\n'''" for kernel in compiled.kernels if kernel.source]
    return "\n\n\n".join([*texts, compiled.wrapper.rstrip()]) + "\n"


def _kernel_code(frame: CompiledFrame) -> Iterator[str]:
    compiled = frame.compiled_graph
    for kernel in compiled.kernels if compiled else ():
        if kernel.source:
            yield f"Kernel {kernel.name} ({kernel.language}):\n{kernel.source}"


def _perf_hints(frame: CompiledFrame) -> Iterator[str]:
    compiled = frame.compiled_graph
    yield from compiled.notes if compiled else ()
    for kernel in compiled.kernels if compiled else ():
        if kernel.language == "aten" and kernel.reason:
            yield f"{kernel.name} runs through ATen: {kernel.reason}"


def _caching(frame: CompiledFrame) -> Iterator[str]:
    if frame.store or frame.cause.startswith("loaded"):
        yield f"{frame.function}: {frame.cause}; {frame.store}".rstrip("; ")


def _cudagraphs(frame: CompiledFrame) -> Iterator[str]:
    compiled = frame.compiled_graph
    if compiled is None:
        return
    yield from (note for note in compiled.notes if "cudagraphs" in note)
    # torch's own words, which users search for.
    if compiled.kernels and not any(kernel.language == "triton" for kernel in compiled.kernels):
        yield "skipping cudagraphs due to cpu device"


def _autotuning(frame: CompiledFrame) -> Iterator[str]:
    compiled = frame.compiled_graph
    for kernel in compiled.kernels if compiled else ():
        if kernel.autotuning is not None:
            yield autotuning_table(kernel.name, kernel.autotuning)


def autotuning_table(name: str, tuned: Autotuning) -> str:
    """The candidates of a matrix product, in torch's form."""
    best = tuned.candidates[0]
    lines = [
        f"AUTOTUNE {tuned.operator}({', '.join(tuned.sizes)})",
        f"strides: {', '.join(tuned.strides)}",
        f"dtypes: {', '.join(tuned.dtypes)}",
    ]
    for candidate in tuned.candidates:
        share = best.microseconds / candidate.microseconds if candidate.microseconds else 1.0
        shown = candidate.name if candidate.name == tuned.operator else f"{name} {candidate.name}"
        lines.append(f"  {shown} {candidate.microseconds / 1000:.4f} ms {share:.1%}")
    how = "measured" if best.measured else "predicted by a model: nothing ran"
    return "\n".join([*lines, f"{len(tuned.candidates)} choices, {how}"])


ARTIFACTS: dict[str, Messages] = {
    "aot_graphs": _aot_graphs,
    "aot_joint_graph": _aot_joint_graph,
    "autotuning": _autotuning,
    "bytecode": _bytecode,
    "caching": _caching,
    "cudagraphs": _cudagraphs,
    "fusion": _fusion,
    "graph": _graph,
    "graph_code": _graph_code,
    "graph_sizes": _graph_sizes,
    "guards": _guards,
    "ir_post_fusion": _ir_post_fusion,
    "ir_pre_fusion": _ir_pre_fusion,
    "kernel_code": _kernel_code,
    "output_code": _output_code,
    "perf_hints": _perf_hints,
    "post_grad_graphs": _post_grad_graphs,
    "pre_grad_graphs": _pre_grad_graphs,
    "recompiles_verbose": _recompiles_verbose,
    "schedule": _schedule,
    "trace_bytecode": _trace_bytecode,
    "trace_call": _trace_call,
    "trace_source": _trace_source,
    "verbose_guards": _verbose_guards,
}
"""The printer of an artifact of a finished frame. Those of ``log_names.LIVE`` are printed when they happen."""
