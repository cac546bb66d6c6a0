"""The reason why a graph cannot be recorded as a CUDA graph, in the words of torch's log.

    obstacle(graph_module, schedule, emitted)      "skipping cudagraphs due to cpu device (add_1). Found from : ..."
    capture_facts(graph_module, schedule, emitted)      that, and which inputs the graph writes to

In torch: torch/_inductor/cudagraph_utils.py. Read next: nbcompile/gpu/cuda_graphs.py
"""

from __future__ import annotations

import operator
from collections.abc import Container, Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
import torch.fx

from nbcompile import torch_internals
from nbcompile.codegen.launch_plan import written_inputs
from nbcompile.codegen.written_kernels import is_written, views_of
from nbcompile.gpu import random_draws
from nbcompile.ir.buffer import COLLECTIVES, BufferView, Extern, Tensor, operator_name
from nbcompile.ir.emitted import CaptureFacts, EmittedProgram
from nbcompile.ir.kernel import Kernel, Schedule
from nbcompile.scheduling.waiting import INDEXED, WAITING, counts_a_mask, looks_for_range

aten = torch.ops.aten
UNSAFE = getattr(torch.Tag, "cudagraph_unsafe", None)
"""Tag of operators that declare that they cannot be recorded."""
RECORDED_BACKENDS = frozenset({"nccl"})
"""Backends of process groups that launch a collective on a stream; with others the CPU takes part in it."""


def capture_facts(graph_module: torch.fx.GraphModule, schedule: Schedule, emitted: EmittedProgram) -> CaptureFacts:
    """Facts that recording the graph needs."""
    placeholders = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
    # If one of these inputs has to be copied, the reason names the line of the user's program that writes to it.
    written = tuple((at, _stack_of_a_write(placeholders[at])) for at in sorted(written_inputs(schedule)))
    reason = obstacle(graph_module, emitted, _folded_literals(graph_module, schedule))
    # All facts are needed only if the graph is divided; without an obstacle it is recorded as a whole.
    if not reason or emitted.plan is None:
        return CaptureFacts(reason, written)
    tensors = schedule.program.tensors()
    unsafe = tuple(extern.name for extern in emitted.externs if _is_unsafe_call(extern, tensors))
    mutating = tuple(extern.name for extern in emitted.externs if extern.mutates)
    targets = {extern.target for extern in emitted.externs if extern.name in unsafe}
    # An operator that cannot be recorded has to be found again among the calls of the plan: a
    # lowering may have replaced it by others.
    is_known = all(node.target in targets for node in graph_module.graph.nodes if _is_obstacle(node))
    facts = CaptureFacts(reason, written, unsafe, is_known, _written_pointers(schedule, emitted), mutating)
    return replace(facts, collectives=_collectives(emitted))


def _collectives(emitted: EmittedProgram) -> tuple[str, ...]:
    return tuple(extern.name for extern in emitted.externs if _is_between_processes(extern.target))


def _folded_literals(graph_module: torch.fx.GraphModule, schedule: Schedule) -> frozenset[torch.fx.Node]:
    """Literals that have become numbers in kernels: ``x[:, 1] = 3`` then reads no tensor with a 3 on the CPU."""
    tensors = schedule.program.tensors()
    returned = {output.buffer for output in schedule.program.outputs if isinstance(output, BufferView)}
    written = {name for kernel in schedule.kernels() for name in kernel.writes}
    if any(tensors[name].device.type == "cpu" for name in schedule.buffers_read | returned | written):
        return frozenset()
    return frozenset(
        node
        for node in graph_module.graph.nodes
        if node.op == "get_attr" or node.target is aten.lift_fresh_copy.default
    )


def _written_pointers(schedule: Schedule, emitted: EmittedProgram) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Positions of the pointers that each kernel writes to."""
    arguments = {kernel.name: kernel.arguments for kernel in emitted.kernels}
    generated = tuple(
        (step.name, tuple(at for at, name in enumerate(arguments[step.name]) if name in step.writes))
        for step in schedule.steps
        if isinstance(step, Kernel) and step.name in arguments
    )
    written = tuple(
        (step.name, tuple(at for at, view in enumerate(views_of(step)) if view.buffer in step.mutates))
        for step in schedule.steps
        if isinstance(step, Extern) and is_written(step)
    )
    return (*generated, *written)


def _is_unsafe_call(extern: Extern, tensors: Mapping[str, Tensor]) -> bool:
    """Return whether a call cannot be recorded: as :func:`_is_unsafe`, for an extern call of the schedule."""
    target = extern.target
    if isinstance(target, torch._ops.HigherOrderOperator) or target in WAITING:
        return True
    # A collective and the wait for it must lie in one recording; of a graph that is divided they may not.
    if _is_between_processes(target):
        return True
    if UNSAFE in getattr(target, "tags", ()):
        return True
    # The count is the size of the result.
    return counts_a_mask(extern, tensors) or looks_for_range(extern)


def obstacle(graph_module: torch.fx.GraphModule, emitted: EmittedProgram, unread: Container[torch.fx.Node] = ()) -> str:
    """The reason why the graph cannot be recorded; "" if it can. Nothing that runs reads the nodes in ``unread``."""
    reason = _device_reason(graph_module, unread) or _operator_reason(graph_module) or _collective_reason(graph_module)
    if not reason and emitted.plan is None:
        reason = f"a graph that needs Python ({emitted.no_plan})"
    # A kernel in C++ would run once, while the graph is recorded, and never in a replay.
    if not reason and any(kernel.language == "cpp" for kernel in emitted.kernels):
        reason = "cpu device (a kernel in C++)"
    if not reason and emitted.plan is not None:
        try:
            # Only a test: the plan that is recorded is built when the graph is loaded (loading.py).
            random_draws.without_draws(emitted.plan, {extern.name: extern.target for extern in emitted.externs})
        except random_draws.NotDrawable as found:
            reason = f"random numbers that are drawn inside ({found})"
    return f"skipping cudagraphs due to {reason}" if reason else ""


def _values(node: torch.fx.Node) -> Iterator[Any]:
    value = node.meta.get("val")
    yield from value if isinstance(value, (list, tuple)) else (value,)


def _device_reason(graph_module: torch.fx.GraphModule, unread: Container[torch.fx.Node]) -> str:
    devices: dict[torch.device, torch.fx.Node] = {}
    for node in graph_module.graph.nodes:
        for value in _values(node) if node not in unread else ():
            # Meta tensors have no memory, so they take part in no launch.
            if isinstance(value, torch.Tensor) and value.device.type != "meta":
                devices.setdefault(value.device, node)
    on_cpu = devices.get(torch.device("cpu"))
    if on_cpu is not None:
        return f"cpu device ({on_cpu.name}){_found(*on_cpu.users, on_cpu)}"
    return f"multiple devices: {', '.join(map(repr, devices))}" if len(devices) > 1 else ""


def _operator_reason(graph_module: torch.fx.GraphModule) -> str:
    for node in graph_module.graph.nodes:
        if isinstance(node.target, torch._ops.HigherOrderOperator):
            return f"control flow operator: {node.target.name()}{_found(node)}"
        if node.op == "call_function" and _is_unsafe(node):
            return f"incompatible op {node.target}{_found(node)}"
    return ""


def _collective_reason(graph_module: torch.fx.GraphModule) -> str:
    """The reason about a collective: its stream takes part in a recording from its begin until the wait for it."""
    for node in graph_module.graph.nodes:
        if not _is_between_processes(node.target):
            continue
        name = operator_name(node.target).partition("::")[2]
        # A stream that records must not wait for earlier work: the driver returns an error (907).
        if name == "wait_tensor":
            begun = _result_of(node.args[0])
            if not _is_between_processes(begun.target):
                return f"a wait for a collective that was begun outside of the graph{_found(node)}"
            continue
        # The group's stream takes part in the recording from here on, and must be waited for before its end (904).
        if not all(map(_is_waited_for, _results_of(node))):
            return f"a collective that is not waited for within the graph ({name}){_found(node)}"
        backend = torch_internals.backend_of_group(_group_name(node), "cuda")
        if backend not in RECORDED_BACKENDS:
            return f"a collective of a process group whose backend is {backend} ({name}){_found(node)}"
    return ""


def _is_between_processes(target: Any) -> bool:
    return isinstance(target, torch._ops.OpOverload) and operator_name(target).startswith(f"{COLLECTIVES}::")


def _group_name(node: torch.fx.Node) -> str:
    schema: Any = node.target._schema  # type: ignore[union-attr]
    at = next(at for at, argument in enumerate(schema.arguments) if argument.name == "group_name")
    return str(node.args[at] if at < len(node.args) else node.kwargs["group_name"])


def _result_of(value: Any) -> torch.fx.Node:
    """The operator that a tensor is a result of, one of several perhaps."""
    return value.args[0] if value.target is operator.getitem else value


def _results_of(node: torch.fx.Node) -> list[torch.fx.Node]:
    """The tensors that an operator returns, as nodes: itself, or its items."""
    items = [user for user in node.users if user.target is operator.getitem]
    return items or [node]


def _is_waited_for(tensor: torch.fx.Node) -> bool:
    waits = f"{COLLECTIVES}::wait_tensor"
    return any(
        isinstance(user.target, torch._ops.OpOverload) and operator_name(user.target) == waits for user in tensor.users
    )


def _is_obstacle(node: torch.fx.Node) -> bool:
    if node.op != "call_function":
        return False
    between = _is_between_processes(node.target)
    return between or isinstance(node.target, torch._ops.HigherOrderOperator) or _is_unsafe(node)


def _is_unsafe(node: torch.fx.Node) -> bool:
    if node.target in WAITING or UNSAFE in getattr(node.target, "tags", ()):
        return True
    if node.target in INDEXED and any(_is_mask(index) for index in node.args[1]):  # type: ignore[union-attr]
        return True
    return any(
        # The CPU has to read a size that a kernel computes; a CUDA graph has fixed sizes.
        (isinstance(value, torch.Tensor) and value.is_sparse) or torch_internals.has_unbacked_symbols(value)
        for value in _values(node)
    )


def _is_mask(index: Any) -> bool:
    value = index.meta.get("val") if isinstance(index, torch.fx.Node) else None
    return isinstance(value, torch.Tensor) and value.dtype in (torch.bool, torch.uint8)


def _stack_of_a_write(placeholder: torch.fx.Node) -> str:
    # A write to an input is a copy_ at the end of a functional graph.
    writes = [node for node in placeholder.users if node.target is aten.copy_.default] or list(placeholder.users)
    return next((stack for node in writes if (stack := _stack(node))), "")


def _found(*nodes: torch.fx.Node) -> str:
    stack = next((stack for node in nodes if (stack := _stack(node))), "")
    return f". Found from : \n {stack}" if stack else ""


def _stack(node: torch.fx.Node) -> str:
    return str(node.meta.get("stack_trace") or "")
