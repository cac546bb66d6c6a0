"""Values that depend on nothing but constants: one number, computed at compile time, as eager mode computes it.

    y = torch.ones(3, dtype=torch.float16) * 1e30      float16(1.0 * 1e30)  ->  Constant(inf)
    z = torch.zeros(3) / torch.zeros(3)                0.0 / 0.0            ->  Constant(-nan), on x86
    w = torch.arange(3, dtype=torch.float16) / 3       float32(float16(float32(i0) / 3.0))

A value that is read from memory is rounded to float16 or bfloat16 only where it is stored, which is faster, as in
``torch.compile``. To round a value that is computed from constants costs little or nothing. A C++ compiler folds
constants to other numbers
than the processor computes: 0.0 / 0.0 is NaN with another sign, and NaN as an int64 is 0.

In torch: torch/_inductor/fx_passes/joint_graph.py (constant_fold_uniform_value). Read next:
nbcompile/lowering/creation.py
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from nbcompile.ir import evaluate
from nbcompile.ir.expr import NARROW_FLOATS, OPERATIONS, Apply, Constant, Expr, Load, Local, cast
from nbcompile.ir.traversal import walk
from nbcompile.lowering.value import Value

_FAIL_AT_ZERO = frozenset({"floor_div", "trunc_div", "remainder", "fmod"})


def folded(value: Value) -> Value:
    """The value rounded as eager mode stores it, if it reads no memory; otherwise the value itself."""
    body = value.body
    # In most bodies one of the first nodes is a load, and the search ends there.
    if any(isinstance(node, (Load, Local)) for node in walk(body)):
        return value
    # Eager mode on another device computes with its own functions, whose last digits differ.
    if value.device.type == "cpu" and not isinstance(body, Constant) and _is_foldable(walk(body)):
        return replace(value, body=Constant(evaluate.number(cast(body, value.dtype)), body.dtype))
    if value.dtype in NARROW_FLOATS:
        return replace(value, body=cast(cast(body, value.dtype), body.dtype))
    return value


def _is_foldable(nodes: Iterable[Expr]) -> bool:
    """Return whether a body has no leaves but constants, and cannot fail: the error belongs to the call."""
    return all(
        isinstance(node, Constant)
        or (
            isinstance(node, Apply)
            and OPERATIONS[node.op].kind != "random"
            and not (node.op in _FAIL_AT_ZERO and not node.dtype.is_floating_point)
        )
        for node in nodes
    )
