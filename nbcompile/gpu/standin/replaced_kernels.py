"""Torch's kernels for CUDA, replaced by the stand-in device's, where torch was built with CUDA and there is no GPU.

    replace_cuda_kernels(fallback, own)     every operator that has a kernel for CUDA gets the fallback
    with_cpu_kernel(operator)               the operator, or a function that computes the same by others

A build for the CPU has no kernels for CUDA, so a fallback for the dispatch key is all that it needs.

In torch: aten/src/ATen/native/native_functions.yaml. Read next: nbcompile/gpu/standin/device.py
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Container
from typing import Any

import torch
from torch._decomp import decomposition_table


def replace_cuda_kernels(fallback: Callable[..., Any], own: Container[str]) -> list[torch.library.Library]:
    """Give every operator of torch's that has a kernel for CUDA another one.

    Args:
        fallback: Called with the operator and its arguments.
        own: Names of ``aten`` operators that have a kernel of the stand-in's.

    Returns:
        What keeps the kernels registered.
    """
    libraries: dict[str, torch.library.Library] = {}
    with warnings.catch_warnings(action="ignore"):  # torch warns that a kernel is overridden, which is intended here
        for full_name in torch._C._dispatch_get_registrations_for_dispatch_key("CUDA"):
            namespace, _, name = full_name.partition("::")
            packet, _, overload = name.partition(".")
            operator = getattr(getattr(getattr(torch.ops, namespace), packet, None), overload or "default", None)
            # An operator that only TorchScript has has no form in Python, and no program calls it.
            if operator is None or (namespace == "aten" and name in own):
                continue
            if namespace not in libraries:
                libraries[namespace] = torch.library.Library(namespace, "IMPL", "CUDA")
            libraries[namespace].impl(name, functools.partial(fallback, operator), allow_override=True)
    return list(libraries.values())


@functools.cache
def with_cpu_kernel(operator: Any) -> Callable[..., Any]:
    """The operator itself; or torch's decomposition of it, where only other devices have a kernel."""
    name = getattr(operator, "_name", "")
    if not name or torch._C._dispatch_has_computed_kernel_for_dispatch_key(name, "CPU"):
        return operator
    return decomposition_table.get(operator, operator)
