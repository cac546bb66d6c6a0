"""The functions of torch that are operators: a call of one is a node of the graph.

    torch.sin, F.relu, torch.Tensor.add, torch.ops.aten.add      are
    torch.save, torch.no_grad, torch.nn.Linear                   are not

In torch: the tables of torch/_dynamo/trace_rules.py. Read next: nbcompile/tracing/rules.py
"""

from __future__ import annotations

import functools
import importlib
import operator
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
import torch.fft
import torch.linalg
import torch.masked
import torch.nn.functional
import torch.nn.grad
import torch.signal
import torch.special

from nbcompile.support.process_state import STATE, Lifetime

# Functions of the namespaces below that are no operators on tensors.
_NOT_OPERATORS = frozenset(
    "compile save load manual_seed seed initial_seed get_rng_state set_rng_state is_tensor is_storage "
    "is_grad_enabled is_inference_mode_enabled set_grad_enabled get_default_dtype set_default_dtype "
    "set_flush_denormal init_num_threads set_default_device get_default_device set_default_tensor_type typename "
    "is_floating_point is_complex is_deterministic_algorithms_enabled set_printoptions use_deterministic_algorithms "
    "get_num_threads set_num_threads get_num_interop_threads set_num_interop_threads vmap cond get_autocast_dtype "
    "is_autocast_enabled set_autocast_enabled is_autocast_cache_enabled get_autocast_gpu_dtype "
    "get_autocast_ipu_dtype get_autocast_xla_dtype is_autocast_ipu_enabled is_autocast_xla_enabled "
    "get_autocast_cpu_dtype is_autocast_cpu_enabled set_warn_always is_warn_always_enabled get_file_path "
    "prepare_multiprocessing_environment is_anomaly_enabled set_anomaly_enabled get_float32_matmul_precision "
    "set_float32_matmul_precision fork wait import_ir_module classproperty overload has_torch_function "
    "handle_torch_function has_torch_function_unary has_torch_function_variadic boolean_dispatch assert_int_or_pair "
    "is_same_size result_type can_cast promote_types unravel_index _check _check_is_size _check_index _check_value "
    "_check_type _check_not_implemented _check_tensor_all _assert sym_not sym_max sym_min sym_sum sym_int sym_float "
    "sym_ite sym_sqrt".split()
)


# Steps of torch.func's transforms. They change the state of the process, so that they stay in the
# graph whatever they return.
TRANSFORM_STEPS: dict[str, tuple[str, ...]] = {
    "torch._functorch.predispatch": (
        "_add_batch_dim", "_remove_batch_dim", "_vmap_increment_nesting", "_vmap_decrement_nesting", "_unwrap_for_grad",
        "_make_dual", "_unpack_dual", "_enter_dual_level", "_exit_dual_level", "_jvp_increment_nesting",
        "_jvp_decrement_nesting", "lazy_load_decompositions",
    ),
    "torch._functorch.eager_transforms": ("_autograd_grad", "_set_tensor_requires_grad"),
    "torch.autograd.forward_ad": ("_maybe_load_decompositions",),
    "torch._C._functorch": (
        "_wrap_for_grad", "_grad_increment_nesting", "_grad_decrement_nesting", "set_inplace_requires_grad_allowed",
        "_unwrap_batched",
    ),
    "torch._C._autograd": ("_saved_tensors_hooks_disable", "_saved_tensors_hooks_enable"),
    "torch._C": ("_set_fwd_grad_enabled",),
}  # fmt: skip


@functools.cache
def transform_steps() -> frozenset[object]:
    """The functions of ``TRANSFORM_STEPS``."""
    modules = {name: importlib.import_module(name) for name in TRANSFORM_STEPS if not name.startswith("torch._C.")}
    found = []
    for name, steps in TRANSFORM_STEPS.items():
        owner = modules.get(name) or operator.attrgetter(name.removeprefix("torch."))(torch)
        found += [getattr(owner, step) for step in steps if hasattr(owner, step)]
    return frozenset(found)


def operators() -> Iterator[Callable[..., object]]:
    """Torch's own functions that become nodes."""
    yield from transform_steps()  # type: ignore[misc]
    namespaces: tuple[Any, ...] = (
        torch,
        torch.nn.functional,
        torch.special,
        torch.linalg,
        torch.fft,
        torch._C._nn,
        torch._C._VariableFunctions,
        torch.functional,
        torch._VF,
        torch.masked._ops,
        torch.signal.windows.windows,
        torch.nn.grad,
        torch._linalg_utils,
        *(getattr(torch._C, name) for name in ("_special", "_linalg", "_fft", "_sparse")),
    )
    for namespace in namespaces:
        for name in dir(namespace):
            value = getattr(namespace, name, None)
            if name in _NOT_OPERATORS or not callable(value) or isinstance(value, (type, types.ModuleType)):
                continue
            if name.startswith("_") and isinstance(value, types.FunctionType):  # helpers of the public functions
                continue
            if str(getattr(value, "__module__", "")).startswith("torch._higher_order_ops"):
                continue
            yield value


@functools.cache
def operator_ids() -> frozenset[int]:
    """Identities of all functions that are operators."""
    every = list(operators())
    # Kept alive: the id of an object that is freed may become that of another one.
    _KEPT.extend(every)
    return frozenset(id(each) for each in every)


_KEPT: list[object] = STATE.add("torch_internals.operators._KEPT", [], Lifetime.PROCESS)


_FAKE_FORMS = dict.fromkeys(
    ("_c10d_functional", "_c10d_functional_autograd"), "torch.distributed._functional_collectives"
)
"""Modules of torch, by namespace, that register the fake implementations of operators and are imported on demand."""


def register_fake_forms(operator: object) -> None:
    """Import the fake implementation of an operator: without it, tracing a collective would issue it."""
    if isinstance(operator, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        name = operator._schema.name if isinstance(operator, torch._ops.OpOverload) else operator._qualified_op_name
        # Torch's own compiler imports it, so that it is missing only in a process without it.
        module = _FAKE_FORMS.get(name.partition("::")[0])
        if module is not None:
            importlib.import_module(module)


_DECOMPOSING = (torch._C.DispatchKey.Autograd, torch._C.DispatchKey.CompositeImplicitAutograd)


def has_decomposing_kernel(overload: torch._ops.OpOverload) -> bool:
    """Return whether torch's Python dispatcher decomposes an operator before its derivative and any table is used."""
    return any(key in overload.py_kernels for key in _DECOMPOSING)


@contextmanager
def without_decomposing_kernels(operators: Iterable[torch._ops.OpOverload]) -> Iterator[None]:
    """Dispatch to the C++ kernels of operators in a block, also under torch's Python dispatcher."""
    with ExitStack() as stack:
        for overload in operators:
            kernels = {**overload.py_kernels}
            stack.callback(_set_python_kernels, overload, kernels)
            _set_python_kernels(overload, {key: kernels[key] for key in kernels if key not in _DECOMPOSING})
        yield


def _set_python_kernels(overload: torch._ops.OpOverload, kernels: Mapping[Any, Callable[..., Any]]) -> None:
    overload.py_kernels.clear()
    overload.py_kernels.update(kernels)
    overload._dispatch_cache.clear()


def is_operator(function: object) -> bool:
    """True if a call of the function becomes a node."""
    if isinstance(function, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return True
    if id(function) in operator_ids() and getattr(function, "__name__", "") not in _NOT_OPERATORS:
        return True
    owner = getattr(function, "__objclass__", None)  # torch.Tensor.add, as a function of the class
    return owner is not None and owner.__module__ in ("torch._C", "torch") and issubclass(torch.Tensor, owner)
