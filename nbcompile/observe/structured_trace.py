"""``TORCH_TRACE=folder``: the records that tlparse reads, from the record of each frame.

    TORCH_TRACE=/tmp/trace python f.py
    tlparse /tmp/trace/dedicated_log_torch_trace_*.log            pages: graphs, guards, code, metrics, breaks
    python -m nbcompile open /tmp/trace                           the same as pictures of nbcompile, complete

A trace is a log: each line has a JSON object (metadata), and below it, indented, what it is about (the payload). Names
and fields are torch's. One more record, ``nbcompile_record``, holds the whole frame as data.

In torch: trace_structured in torch/_logging/_internal.py; CompilationMetrics in torch/_dynamo/utils.py. Read next:
nbcompile/observe/trace_reader.py
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from nbcompile import torch_internals
from nbcompile.errors import report_text
from nbcompile.observe.artifacts import disassembly, fn_name, guard_tree, output_code
from nbcompile.record import codec, reproducer
from nbcompile.record.model import EACH_CALL, FROM_STORE, CompiledFrame, Record, Timing

RECORD = "nbcompile_record"
"""The artifact that contains a frame as JSON of nbcompile."""
GRAPH_RECORDS = {
    "joint": "aot_joint_graph",
    "forward": "aot_forward_graph",
    "backward": "aot_backward_graph",
    "inference": "aot_inference_graph",
}
PACKAGE = str(Path(__file__).parents[1])
MICROSECONDS = 1e6

TraceEntry = tuple[str, dict[str, Any], str | None]
"""Name, metadata and payload of one record of a trace."""


class StructuredTrace:
    """The subscriber that writes the trace."""

    def wants_frames(self) -> bool:
        """True if TORCH_TRACE names a folder."""
        return torch_internals.has_trace_folder()

    def wants_steps(self) -> bool:
        """False: a trace has no record of steps."""
        return False

    def during(self, compile_id: str) -> contextlib.AbstractContextManager[None]:
        """Let records that torch itself writes in the block (symbols, tensors) have this frame's compile id."""
        if self.wants_frames() and compile_id.replace("/", "").isdigit():
            return torch_internals.compiling(compile_id)
        return contextlib.nullcontext()

    def receive(self, frame: CompiledFrame, timings: Sequence[Timing]) -> None:
        """Write the records of one frame."""
        number, _, attempt = frame.id.partition("/")
        if not (number.isdigit() and attempt.isdigit()):
            return  # rejected by a limit: it was not compiled, and has no compile id
        with torch_internals.compiling(frame.id):
            torch_internals.trace("dynamo_start", {"stack": _stack(frame)}, None)
            for name, metadata, payload in entries(frame, timings):
                torch_internals.trace(name, metadata, payload)


def _stack(frame: CompiledFrame) -> list[dict[str, Any]]:
    """The program's lines that led to the compile, and the function itself, with interned file names."""
    callers = [each for each in traceback.extract_stack(sys._getframe()) if not each.filename.startswith(PACKAGE)]
    lines = [(each.lineno or 0, each.name, each.filename) for each in callers]
    lines.append((frame.first_line, frame.function, frame.file))
    return [{"line": line, "name": name, "filename": torch_internals.intern_string(file)} for line, name, file in lines]


def entries(frame: CompiledFrame, timings: Sequence[Timing]) -> Iterator[TraceEntry]:
    """The records of a frame, in the order of compilation."""
    if frame.failed_guards:
        reasons = [f"{failed.compile_id}: {failed.reason}" for failed in frame.failed_guards]
        yield from _artifact("recompile_reasons", "\n".join(reasons), "json")
    for graph_break in frame.breaks:
        last = graph_break.stack[-1] if graph_break.stack else None
        where = "an unknown line" if last is None else f"{last.file}:{last.line}"
        reason = f"Graph Break Reason: {graph_break.reason}"
        text = f"Graph break in user code at {where}\n{reason}\n\n{report_text(graph_break)}"
        yield from _artifact("dynamo_graph_break_reason", text)
    yield from _artifact(f"{frame.function}_ORIGINAL_BYTECODE", disassembly(frame.instructions))
    graph = frame.graph or frame.unfinished
    if graph is not None:
        sizes = {node.name: [_number(size) for size in node.shape] for node in graph.nodes if node.shape is not None}
        yield "dynamo_output_graph", {"sizes": sizes}, f"class {fn_name(frame)}:\n{graph.code}"
    yield from _backend(frame)
    yield from _artifact("residual_program", frame.residual)
    yield from _artifact(f"{frame.function}_MODIFIED_BYTECODE", disassembly(frame.residual_instructions))
    if frame.guards:
        yield "dynamo_cpp_guards_str", {}, guard_tree(frame.guards).removeprefix("GUARDS:\n\n")
    yield "compilation_metrics", metrics(frame, timings), None
    yield from _artifact(RECORD, codec.to_json(Record(frame.function, frames=(frame,), timings=tuple(timings))), "json")
    yield from (("chromium_event", {}, event) for event in events(timings))


def _backend(frame: CompiledFrame) -> Iterator[TraceEntry]:
    """The graphs and the code that the backend generated from the captured graph, and a program that repeats it."""
    compiled = frame.compiled_graph
    if compiled is None or frame.graph is None:
        return
    code = output_code(frame)
    yield from _artifact("before_pre_grad_graph", frame.graph.code if code else "")
    # A stage without a record of torch (passes of nbcompile) is an artifact by its name.
    for graph in compiled.graphs:
        if graph.stage not in GRAPH_RECORDS:
            yield from _artifact(f"{graph.stage}_graph", graph.code)
            continue
        yield GRAPH_RECORDS[graph.stage], {}, graph.code
        if code and graph.stage != "joint":
            yield "inductor_post_grad_graph", {}, graph.code
    if code:
        yield "inductor_output_code", {"filename": f"nbcompile/{fn_name(frame)}.py"}, code
    with contextlib.suppress(ValueError):  # a graph that cannot be written as text
        yield from _artifact("fx_graph_runnable", reproducer.script(frame))
    if frame.store or frame.cause in FROM_STORE:
        found = "hit" if frame.cause in FROM_STORE else "miss"
        yield from _artifact(
            f"fx_graph_cache_{found}", json.dumps({"cause": frame.cause, "store": frame.store}), "json"
        )


def _artifact(name: str, text: str, encoding: str = "string") -> Iterator[TraceEntry]:
    if text:
        yield "artifact", {"name": name, "encoding": encoding}, text


def _number(size: str) -> int | str:
    return int(size) if size.lstrip("-").isdigit() else size


def _failure(frame: CompiledFrame) -> dict[str, Any]:
    """Fields of the metrics about a frame that could not be compiled, and where it was; None for all others."""
    failed = frame.status == "failed"
    last = frame.breaks[-1].stack[-1] if failed and frame.breaks and frame.breaks[-1].stack else None
    return {
        "fail_type": "InternalTorchDynamoError" if failed else None,
        "fail_reason": frame.skip_reason if failed else None,
        "fail_user_frame_filename": last.file if last else None,
        "fail_user_frame_lineno": last.line if last else None,
    }


def metrics(frame: CompiledFrame, timings: Sequence[Timing]) -> dict[str, Any]:
    """Torch's CompilationMetrics, as far as a record contains them."""
    outer = [timing for timing in timings if not timing.inside]
    nodes = frame.graph.nodes if frame.graph else ()
    backend = [timing.seconds for timing in timings if timing.stage == "backend" and timing.inside != EACH_CALL]
    return {
        "compile_id": frame.id,
        "co_name": frame.function,
        "co_filename": frame.file,
        "co_firstlineno": frame.first_line,
        "cache_size": len(frame.failed_guards),
        "accumulated_cache_size": len(frame.failed_guards),
        "guard_count": len(frame.guards),
        "shape_env_guard_count": sum(guard.kind == "SHAPE_ENV" for guard in frame.guards),
        "graph_op_count": sum(node.op.startswith("call") for node in nodes),
        "graph_node_count": len(nodes),
        "graph_input_count": sum(node.op == "placeholder" for node in nodes),
        "start_time": _epoch(min((timing.began for timing in outer), default=0.0)),
        "entire_frame_compile_time_s": sum(timing.seconds for timing in outer),
        "backend_compile_time_s": sum(backend) if backend else None,
        **_failure(frame),
        "non_compliant_ops": [],
        "compliant_custom_ops": [],
        "restart_reasons": [],
        "has_guarded_code": frame.status == "compiled",
        "compiler": "nbcompile",
    }


def events(timings: Sequence[Timing]) -> Iterator[str]:
    """Begin and end of each stage as events of the Chrome trace format."""
    marks = []
    for timing in timings:
        if timing.inside != EACH_CALL and timing.began:
            marks.append((timing.began, 1, "B", timing))
            marks.append((timing.began + timing.seconds, 0, "E", timing))
    # At equal times an end (0) comes before a begin (1): stages that follow each other must not seem to be nested.
    for at, _, phase, timing in sorted(marks, key=lambda mark: mark[:2]):
        event = {
            "name": timing.stage,
            "ts": _epoch(at) * MICROSECONDS,
            "args": {"compile_id": timing.frame},
            "ph": phase,
            "cat": "dynamo_timed",
            "tid": 0,
            "pid": 0,
        }
        yield json.dumps(event, indent=0)


def _epoch(clock: float) -> float:
    """A time of ``perf_counter`` as seconds since 1970."""
    # The two clocks differ only by their origins: the difference is that of their present values.
    return clock + time.time() - time.perf_counter() if clock else time.time()
