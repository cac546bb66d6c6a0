"""Modules of torch that cost up to a second to import: fetched at their first use.

In torch: torch/_subclasses, torch/_functorch, torch/fx/experimental.
Read next: nbcompile/torch_internals/fakes.py
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import linecache
import math
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

import torch
import torch._guards
import torch.fx
from torch.fx import graph_module


def fake_tensor() -> ModuleType:
    """FakeTensorMode: tensors without data. Its first use imports 0.9 s of torch."""
    return importlib.import_module("torch._subclasses.fake_tensor")


def is_scripted(original: object, function: torch.jit.ScriptFunction) -> bool:
    """True if ``torch.jit.script`` created the function from the original: both mean the same."""
    known = torch.jit._state._try_get_jit_cached_function(original)
    return known is not None and known.qualified_name == function.qualified_name


def has_effect(operator: torch._ops.OpOverload) -> bool:
    """True if an operator has an effect in addition to its results (it prints, or raises): never left out."""
    return bool(_effects().has_effects(operator))


@functools.cache
def _effects() -> ModuleType:
    """The operators that AOTAutograd keeps in their order; torch does not list all those that only raise."""
    effects = importlib.import_module("torch._higher_order_ops.effects")
    for raising in (torch.ops.aten._assert_async.default, torch.ops.aten._linalg_check_errors.default):
        if not effects.has_effects(raising):
            effects._register_effectful_op(raising, effects._EffectType.ORDERED)
    return effects


def symbolic_shapes() -> ModuleType:
    """ShapeEnv: symbolic sizes, their ranges and the guards on them."""
    return importlib.import_module("torch.fx.experimental.symbolic_shapes")


_IMPORTED_WHEN_CALLED = ("IsNonOverlappingAndDenseIndicator", "cast_symbool_to_symint_guardless")
"""Functions that few guards call: a process that only loads entries need not import SymPy for them."""


def shape_guard_names() -> dict[str, Any]:
    """Names that ShapeEnv's guard expressions may use in addition to ``L`` and ``G``."""
    functions = {name: functools.partial(_call_shape_function, name) for name in _IMPORTED_WHEN_CALLED}
    return {**functions, "math": math, "torch": torch}


def _call_shape_function(name: str, *arguments: Any) -> Any:
    return symbolic_shapes().SYMPY_INTERP[name](*arguments)


def aot_autograd() -> ModuleType:
    """AOTAutograd: functionalisation, joint graph, partitioning. 1 s to import."""
    _effects()
    return importlib.import_module("torch._functorch.aot_autograd")


def triton_kernel_wrap() -> ModuleType:
    """Operators for launches of the user's Triton kernels, and the table of kernels that they refer to."""
    return importlib.import_module("torch._higher_order_ops.triton_kernel_wrap")


def has_cuda_device() -> bool:
    """Return whether torch's accelerator is a GPU of NVIDIA's (or what replaces one)."""
    return bool(torch._C._get_accelerator().type == "cuda")


KERNEL_LAUNCHES = ("triton_kernel_wrapper_mutation", "triton_kernel_wrapper_functional")


class StoredLaunch:
    """Stand-in for the launching operator in a stored graph: the import of the operator itself needs SymPy."""


STORED_LAUNCH = StoredLaunch()


def is_kernel_launch(target: object) -> bool:
    """Return whether an operator launches a Triton kernel of the user's."""
    return target is STORED_LAUNCH or (
        isinstance(target, torch._ops.HigherOrderOperator) and target.name() in KERNEL_LAUNCHES
    )


@contextlib.contextmanager
def writes_of_kernels(find: Callable[[int, int, Mapping[str, Any]], list[str]]) -> Iterator[None]:
    """Let ``find`` determine the arguments that a Triton kernel writes; torch would import its own compiler for that.

    ``find`` gets the numbers of the kernel and of its constants in torch's table, and the arguments.
    """
    module: Any = triton_kernel_wrap()
    before = module.get_mutated_tensors
    module.get_mutated_tensors = lambda kernel, constants, arguments, *_: find(kernel, constants, arguments)
    try:
        yield
    finally:
        module.get_mutated_tensors = before


def sympy_functions() -> ModuleType:
    """FloorDiv, Mod, ...: the vocabulary in which ShapeEnv writes symbolic sizes. Imports SymPy (0.2 s)."""
    return importlib.import_module("torch.utils._sympy.functions")


def guards_context() -> ModuleType:
    """TracingContext, in which AOTAutograd stores its analysis of the graph (``fw_metadata``)."""
    return importlib.import_module("torch._guards")


def schema_check_mode() -> type:
    """SchemaCheckMode: a dispatch mode that checks what operators write and return against their schemas."""
    found: type = importlib.import_module("torch._subclasses.schema_check_mode").SchemaCheckMode
    return found


def partitioners() -> ModuleType:
    """Partitioners of a joint graph into forward and backward (min-cut, or as eager would save)."""
    return importlib.import_module("torch._functorch.partitioners")


RECORDER = "torch._dynamo.compiled_autograd"
"""Compiled autograd, which the engine calls instead of its nodes. It is never imported here."""


set_autograd_compiler: Callable[..., Any] = torch._C._dynamo.compiled_autograd.set_autograd_compiler
"""Set the engine's factory of recorders (None: it runs its nodes), and if sizes are recorded; return the old values."""


def records_backward() -> bool:
    """Return whether torch's recorder replaces the autograd engine now, since the program switched it on."""
    recorder = sys.modules.get(RECORDER)
    return recorder is not None and bool(getattr(recorder, "compiled_autograd_enabled", False))


def functorch_config() -> ModuleType:
    """AOTAutograd's settings: when the backward graph is compiled."""
    return importlib.import_module("torch._functorch.config")


def proxy_tensor() -> ModuleType:
    """make_fx: record the ATen operators that a function runs."""
    return importlib.import_module("torch.fx.experimental.proxy_tensor")


def torch_numpy(namespace: str) -> ModuleType:
    """NumPy's functions on tensors: ``torch._numpy``, or a part of it (``.linalg``). Imports NumPy."""
    return importlib.import_module(f"torch._numpy{namespace}")


def decompositions() -> ModuleType:
    """Operators written in terms of simpler operators, as torch registers them."""
    return importlib.import_module("torch._decomp")


def lazy_graph_module() -> ModuleType:
    """GraphModules whose Python code is compiled at its first run: here it mostly never runs."""
    return importlib.import_module("torch.fx._lazy_graph_module")


def as_module(graph: torch.fx.Graph) -> torch.fx.GraphModule:
    """A graph as a module whose Python code is generated when it is first needed."""
    module: torch.fx.GraphModule = lazy_graph_module()._LazyGraphModule({}, graph)
    return module


def dispatch_modes() -> ModuleType:
    """_disable_current_modes: compilers are called inside a trace, where real tensors must stay real."""
    return importlib.import_module("torch.utils._python_dispatch")


def free_text_with(module: torch.fx.GraphModule) -> None:
    """Free the text of a graph module's code with the code: torch.fx keeps it until the process ends."""
    lazy_graph_module()._LazyGraphModule.force_recompile(module)
    code = module.forward.__code__
    weakref.finalize(code, _free_text, code.co_filename).atexit = False


def _free_text(name: str) -> None:
    linecache.cache.pop(name, None)
    graph_module._loader.eval_cache.pop(name, None)


def has_unbacked_symbols(value: object) -> bool:
    """Return whether a size, or a tensor's, is known at run time only."""
    if not isinstance(value, (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)):
        return False
    return bool(symbolic_shapes().free_unbacked_symbols(value))
