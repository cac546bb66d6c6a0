"""Calls of operators, from the samples of torch's own database.

    drawn(rng)    Call("torch.nn.functional.conv2d({}, {}, {}, stride=(2, 1))", (((1, 3, 5, 5), torch.float32), ...))

An operator of the database is a callable; only operators that a program can call by name, with arguments that have a
text, are used.

In torch: torch/testing/_internal/common_methods_invocations.py. Read next: nbcompile/tools/fuzz/tensors.py
"""

from __future__ import annotations

import functools
import itertools
import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from nbcompile.support import lazy_import

if TYPE_CHECKING:
    from torch.testing._internal import common_methods_invocations as operators
else:
    operators = lazy_import.module("torch.testing._internal.common_methods_invocations")

DTYPES = (
    torch.float32,
    torch.float32,
    torch.float64,
    torch.int64,
    torch.bfloat16,
    torch.bool,
    torch.int32,
    torch.complex64,
    torch.float16,
    torch.uint8,
)
SAMPLES = 12
WRITTEN = (int, float, bool, str, type(None), torch.dtype)
RANDOM_OR_UNDEFINED = (
    "bernoulli multinomial normal rand uniform cauchy exponential geometric log_normal dropout rrelu "
    "fractional_max_pool svd eig pca_lowrank empty resize_ to_sparse lstsq qr new_empty unique allclose "
    "equal item nonzero masked_select ldl lu_ "
).split()
"""Parts of names: results that are random, undefined, or right in more than one way; or that break the graph."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call with holes for its tensors."""

    text: str
    tensors: tuple[tuple[tuple[int, ...], torch.dtype], ...]


def drawn(rng: random.Random) -> Call | None:
    """A call; None if the operator that was drawn has no sample for the dtype."""
    name = rng.choice(names())
    calls = _calls(name, rng.choice(DTYPES))
    return rng.choice(calls) if calls else None


@functools.cache
def names() -> tuple[str, ...]:
    """Operators that can be called by name."""
    return tuple(
        sorted(
            {
                info.name
                for info in operators.op_db
                if written(info.name) and not any(part in info.name for part in RANDOM_OR_UNDEFINED)
            }
        )
    )


def written(name: str) -> str | None:
    """Name by which a program calls an operator: ``torch.nn.functional.gelu``, ``torch.Tensor.expand``."""
    for owner in ("torch", "torch.Tensor"):
        found: Any = torch if owner == "torch" else torch.Tensor
        for part in name.split("."):
            found = getattr(found, part, None)
        if callable(found):
            return f"{owner}.{name}"
    return None


@functools.cache
def _infos() -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for info in operators.op_db:
        found.setdefault(info.name, []).append(info)
    return found


@functools.cache
def _calls(name: str, dtype: torch.dtype) -> tuple[Call, ...]:
    calls = []
    for info in _infos()[name][:2]:
        if dtype not in info.supported_dtypes("cpu"):
            continue
        try:
            samples = list(itertools.islice(info.sample_inputs("cpu", dtype), SAMPLES))
        except Exception:  # noqa: BLE001, S112 - the database's own affair
            continue
        calls += [_call(written(name) or "", sample) for sample in samples]
    return tuple(call for call in calls if call is not None)


def _call(function: str, sample: Any) -> Call | None:
    tensors: list[tuple[tuple[int, ...], torch.dtype]] = []

    def text(value: Any) -> str:
        if isinstance(value, torch.Tensor):
            if (
                value.layout != torch.strided
                or value.numel() > 500
                or (not (value.is_floating_point() or value.is_complex()) and tensors)
            ):
                raise ValueError  # indices: values of their own
            tensors.append((tuple(value.shape), value.dtype))
            return "{}"
        if type(value) in (tuple, list, torch.Size):
            inside = ", ".join(map(text, value))
            return f"[{inside}]" if type(value) is list else f"({inside}{',' * (len(value) == 1)})"
        if isinstance(value, float) and not math.isfinite(value):
            return f"float('{value}')"
        if type(value) in WRITTEN:
            # ``str.format`` inserts the names of the tensors: braces of a text are doubled.
            return repr(value).replace("{", "{{").replace("}", "}}")
        raise ValueError

    try:
        words = [
            text(sample.input),
            *map(text, sample.args),
            *(f"{name}={text(value)}" for name, value in sample.kwargs.items()),
        ]
    except (ValueError, RuntimeError, TypeError):
        return None
    return Call(f"{function}({', '.join(words)})", tuple(tensors))
