"""Writes to memory that the graph did not allocate, and the order of reads before them.

    x.copy_(y)           a kernel whose result is stored in x
    x.copy_(x.flip(0))   x.flip(0) is realized first: the loop would read elements that it has overwritten
    y = x + 1            lazy: its body loads x
    mutate(x)            an extern call that mutates x: y is realized before it

In torch: torch/_inductor/ir.py (MutationLayoutSHOULDREMOVE, mark_buffer_mutated). Read next:
nbcompile/scheduling/mutation_cycles.py
"""

from __future__ import annotations

from typing import Any

from torch import fx

from nbcompile.ir import buffer as ir
from nbcompile.ir.index import loop_variables
from nbcompile.ir.traversal import loads
from nbcompile.lowering.builder import Builder
from nbcompile.lowering.dtype_cast import convert, is_castable
from nbcompile.lowering.value import Value, broadcast_to, is_free


def lower_copy(build: Builder, node: fx.Node, target: Value, source: Value, fallback_reason: str) -> Value:
    """Lower ``x.copy_(y)`` at the end of a graph: the result is stored in the argument's memory.

    ``fallback_reason`` is the reason why ATen copies although a kernel could; "" if there is none.
    """
    view = build.view_of(target)
    whole = view is not None and build.realize(target) is target
    same_device = source.device == target.device
    is_cast = same_device and all(is_castable(end.dtype, end.device) for end in (source, target))
    if fallback_reason or view is None or not whole or not is_cast:
        reason = fallback_reason or "a copy into a part of a tensor, or from another device"
        result: Value = build.extern(node.target, (target, source), {}, node.meta["val"], reason)
        return result
    # As in eager mode, copy_ broadcasts and converts the source.
    source = convert(build, broadcast_to(source, target.size), target.dtype)
    # x.copy_(x.flip(0)): the loop would read elements that it has overwritten, so the value is first stored in its
    # own memory.
    own = [each for each in loads(source.body) if each.buffer == view.buffer]
    if any(each.index != loop_variables(target.ndim) or each.gathers for each in own):
        source = build.realize(source)
    layout = build.tensors[view.buffer].layout
    return build.realize(source, layout, writes_to=view.buffer)


def realize_before_mutation(build: Builder, values: dict[fx.Node, Any]) -> None:
    """Realize, before an extern call that mutates buffers, the lazy values that load their old content."""
    call = next((each for each in reversed(build.buffers) if isinstance(each, ir.Extern)), None)
    if call is None or not call.mutates:
        return
    # The call is in the list already, but the values must be computed before it: its buffers are removed, and
    # appended again after them.
    at = build.buffers.index(call)
    extern_buffers = build.buffers[at:]
    del build.buffers[at:]
    for node, value in values.items():
        # If all users of a value have been lowered, it is unused or part of their bodies.
        if any(user not in values for user in node.users):
            values[node] = _realize_if_mutated(build, call, value)
    build.buffers.extend(extern_buffers)


def _realize_if_mutated(build: Builder, call: ir.Extern, value: Any) -> Any:
    """Realize a value if it loads a buffer that the call mutates."""
    if isinstance(value, tuple):
        return tuple(_realize_if_mutated(build, call, each) for each in value)
    if not isinstance(value, Value) or is_free(value):
        return value
    return build.realize(value) if any(each.buffer in call.mutates for each in loads(value.body)) else value
