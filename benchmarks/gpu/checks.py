"""Results on a GPU: nbcompile's against eager mode's on the device, and against the simulator's bits.

    checked(gpu, "softmax", function, inputs)   Check("softmax", equal=True, bits=True, launches=1)

Bits are compared where no instruction of a kernel is approximate: the simulator rounds those correctly, a GPU does not.

Read next: benchmarks/gpu/parts.py
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

import nbcompile
from benchmarks.gpu.machine import Gpu, on_device
from nbcompile.record.model import Kernel
from tests.cases import cases

APPROXIMATE = (".approx", ".full")
"""Parts of the names of instructions whose result is not the nearest number."""
TOLERANCES = {torch.bfloat16: (3e-2, 3e-2), torch.float16: (5e-3, 5e-3), torch.float64: (1e-7, 1e-7)}
"""Relative and absolute: generated code does not round intermediate values to 16 bits, as Inductor's does not."""


@dataclass(frozen=True, slots=True)
class Check:
    """One program on the GPU."""

    name: str
    equal: bool
    """Whether results, gradients and changed inputs are eager mode's, within the usual tolerance."""
    kernels: int
    """Number of generated kernels."""
    bits: bool | None = None
    """Whether the simulator gives the same bits; None where it was not asked."""
    reason: str = ""
    """Why it differs, or why eager mode itself cannot run it there."""


def pages() -> Iterator[tuple[str, Callable[..., Any], tuple[Any, ...], bool]]:
    """Name, program, inputs and whether sizes are symbolic, of each case page of the tests."""
    for path in cases.CASES:
        names: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
        torch.manual_seed(0)
        exec(compile(cases.PROGRAM.search(path.read_text()).group(1), str(path), "exec"), names)
        yield path.stem, names["program"], tuple(names["inputs"]), bool(names.get("dynamic", False))


def checked(gpu: Gpu, name: str, function: Callable[..., Any], inputs: Sequence[Any], dynamic: bool = False) -> Check:
    """Run a program in eager mode, compiled, and where that is exact in the simulator."""
    try:
        with torch.device("cuda"):  # what a program creates lies there too
            expected = _outcome(function, on_device(tuple(inputs)))
    except Exception as error:  # a program that makes CPU tensors, say
        return Check(
            name,
            equal=True,
            kernels=0,
            reason=f"eager mode raises {type(error).__name__}: {str(error).splitlines()[0][:120]}",
        )
    try:
        explained = nbcompile.explain(function, dynamic=dynamic)
        with torch.device("cuda"):
            found = _outcome(lambda *given: explained(*given), on_device(tuple(inputs)), explains=True)
        for mine, theirs in zip(found.values, expected.values, strict=True):
            rtol, atol = TOLERANCES.get(getattr(theirs, "dtype", None), (2e-3, 1e-4))
            torch.testing.assert_close(mine, theirs, equal_nan=True, rtol=rtol, atol=atol)
    except Exception as error:
        return Check(name, equal=False, kernels=0, reason=str(error).strip().splitlines()[0][:200])
    kernels = [kernel for kernel in found.kernels if kernel.language == "triton"]
    bits = None
    if kernels and len(kernels) == len(found.kernels):
        bits, reason = _same_bits(gpu, function, inputs, dynamic, found.values)
        return Check(name, equal=True, kernels=len(kernels), bits=bits, reason=reason)
    return Check(name, equal=True, kernels=len(kernels), bits=bits)


@dataclass(frozen=True, slots=True)
class _Outcome:
    values: list[Any]
    kernels: tuple[Kernel, ...] = ()


def _outcome(function: Callable[..., Any], inputs: tuple[Any, ...], explains: bool = False) -> _Outcome:
    """Results, gradients, and inputs as they are afterwards, on the CPU."""
    torch.manual_seed(0)
    result = function(*inputs)
    kernels: tuple[Kernel, ...] = ()
    if explains:
        kernels, result = result.kernels, result.result
    if isinstance(result, torch.Tensor) and result.requires_grad:
        result.sum().backward()
    leaves = [leaf for leaf in inputs if isinstance(leaf, torch.Tensor)]
    grads = [leaf.grad for leaf in leaves if leaf.grad is not None]
    results = list(result) if isinstance(result, (tuple, list)) else [result]
    return _Outcome([_on_cpu(value) for value in (*results, *leaves, *grads)], kernels)


def _on_cpu(value: Any) -> Any:
    return value.detach().cpu() if isinstance(value, torch.Tensor) else value


def _same_bits(
    gpu: Gpu, function: Callable[..., Any], inputs: Sequence[Any], dynamic: bool, found: list[Any]
) -> tuple[bool | None, str]:
    own = tuple(copy.deepcopy(value) for value in inputs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        explained = nbcompile.explain(function, dynamic=dynamic, options={"target": gpu.chip})
        simulated = _outcome(lambda *given: explained(*given), own, explains=True)
    if not all(kernel.gpu for kernel in simulated.kernels):
        return None, "not all of it was simulated"
    texts = [text for kernel in simulated.kernels for line in kernel.gpu.lines for text in line.ptx]
    if any(part in text for text in texts for part in APPROXIMATE):
        return None, ""
    pairs = zip(simulated.values, found, strict=True)
    return all(_equal_bits(mine, theirs) for mine, theirs in pairs), ""


def _equal_bits(one: Any, two: Any) -> bool:
    if not isinstance(one, torch.Tensor):
        return bool(one == two)
    # Copies: a view has the memory of its base, of which a device gives its own elements alone.
    one, two = (value.clone(memory_format=torch.contiguous_format) for value in (one, two))
    return one.shape == two.shape and bytes(one.untyped_storage()) == bytes(two.untyped_storage())
