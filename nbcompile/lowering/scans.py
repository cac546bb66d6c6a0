"""Operators in which each element is combined with those before it.

    x.cumsum(1)      buf0[i0, i1] = sum of x[i0, 0], ..., x[i0, i1]
    x.cummax(1)      the largest so far, and where it was: two scans, which share one loop

In torch: torch/_inductor/lowering.py (cumsum, associative_scan). Read next:
nbcompile/lowering/split_scan.py
"""

from __future__ import annotations

from typing import Any

import torch

from nbcompile.ir.expr import compute_dtype
from nbcompile.ir.index import is_one
from nbcompile.lowering import split_scan
from nbcompile.lowering.builder import Builder
from nbcompile.lowering.dtype_cast import convert
from nbcompile.lowering.elementwise import SUPPORTED
from nbcompile.lowering.registry import NoLowering, lowering
from nbcompile.lowering.value import Value
from nbcompile.lowering.views import dimension

aten = torch.ops.aten


def _scanned(build: Builder, x: Value, dim: int, kind: str, dtype: torch.dtype) -> Value:
    """Scan along a dimension, in an accumulator type that is wide enough; the result has ``dtype``."""
    if x.dtype not in SUPPORTED or dtype not in SUPPORTED:
        raise NoLowering(f"dtype {x.dtype}")
    if x.ndim == 0 or is_one(x.size[dimension(dim, x.ndim)]):
        only = convert(build, x, dtype)
        # Eager adds the only element of a row to 0, which shows in -0.0; a scalar it copies.
        is_added = x.ndim > 0 and kind in ("sum", "logsumexp") and dtype.is_floating_point
        return build.call(aten.add.Tensor, only, 0.0) if is_added else only
    accumulate = compute_dtype(dtype)
    if kind in ("sum", "prod") and accumulate == torch.float32 == dtype and x.device.type == "cpu":
        accumulate = torch.float64  # as in eager: a partial result may overflow float32 although the final one does not
    return split_scan.scan(build, convert(build, x, dtype), dimension(dim, x.ndim), kind, dtype, accumulate)


def _total(x: Value, dtype: torch.dtype | None) -> torch.dtype:
    return dtype or (x.dtype if x.dtype.is_floating_point else torch.int64)


@lowering(aten.cumsum.default)
def cumsum(build: Builder, x: Value, dim: int, *, dtype: torch.dtype | None = None) -> Value:
    """The sum so far; of integers and bools in int64."""
    return _scanned(build, x, dim, "sum", _total(x, dtype))


@lowering(aten.cumprod.default)
def cumprod(build: Builder, x: Value, dim: int, *, dtype: torch.dtype | None = None) -> Value:
    """The product so far; of integers and bools in int64."""
    return _scanned(build, x, dim, "prod", _total(x, dtype))


@lowering(aten.logcumsumexp.default)
def logcumsumexp(build: Builder, x: Value, dim: int) -> Value:
    """The logarithm of the sum of exponentials so far."""
    if not x.dtype.is_floating_point:
        raise NoLowering(f"dtype {x.dtype}")
    return _scanned(build, x, dim, "logsumexp", x.dtype)


@lowering(aten.cummax.default)
def cummax(build: Builder, x: Value, dim: int) -> tuple[Value, Value]:
    """The largest so far, and where it is."""
    return _best(build, x, dim, "max")


@lowering(aten.cummin.default)
def cummin(build: Builder, x: Value, dim: int) -> tuple[Value, Value]:
    """The smallest so far, and where it is."""
    return _best(build, x, dim, "min")


def _best(build: Builder, x: Value, dim: int, kind: str) -> tuple[Value, Value]:
    if x.ndim == 0 or is_one(x.size[dimension(dim, x.ndim)]):
        # The only element is the best so far, at index 0.
        nothing: Any = build.call(aten.full.default, x.size, 0, dtype=torch.int64, device=x.device)
        return x, nothing
    dim = dimension(dim, x.ndim)
    wide = convert(build, x, torch.uint8 if x.dtype == torch.bool else x.dtype)
    if wide.dtype not in SUPPORTED:
        raise NoLowering(f"dtype {x.dtype}")
    # Two scans read it: the values and their indices.
    wide = build.realize_if_costly(wide)
    compared = compute_dtype(wide.dtype)
    best = split_scan.scan(build, wide, dim, kind, wide.dtype, compared)
    return convert(build, best, x.dtype), split_scan.scan_index(build, wide, best, dim, kind, compared)
