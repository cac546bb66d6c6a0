"""The frame hook, and the thread state on which the meaning of a call of torch depends.

In torch: torch/_dynamo/eval_frame.py, torch/overrides.py, torch/_functorch/pyfunctorch.py.
Read next: nbcompile/torch_internals/leaves.py
"""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any

import torch
import torch.nn.attention
import torch.overrides
import torch.utils._device
from torch._C._dynamo import eval_frame


def register_hook() -> Any:
    """The operator that registers a hook, a graph, on the gradient of a value (torch 2.13)."""
    return importlib.import_module("torch._higher_order_ops.register_hook").register_hook_op


AUTOGRAD_APPLY: Any = getattr(torch.autograd.Function.apply, "__func__", vars(torch.autograd.Function)["apply"])
"""The function that ``Function.apply`` binds to a class: Python's; from torch 2.15 on a descriptor in C."""


# Cache entries are in regions of a code object's list. A real torch.compile does not see those of our region;
# it would read every entry of its own region as one that it created when it recompiles.
# Before torch 2.13 there are no regions: the entries of one list are distinguished by the key of their backend.
OUR_REGION = 1 << 30


HAS_REGIONS = hasattr(eval_frame, "set_eval_frame_isolate_recompiles_id")
"""True if torch keeps the cache entries of one code object in regions (from 2.13 on)."""


class _ActiveRegion(threading.local):
    """The active region of this thread, for versions of torch without regions."""

    number = -1

    def set(self, number: int) -> int:
        """Make a region active; return the previous one."""
        before, self.number = self.number, number
        return before

    def get(self) -> int:
        return self.number


_active = _ActiveRegion()
set_region = getattr(eval_frame, "set_eval_frame_isolate_recompiles_id", _active.set)
get_region = getattr(eval_frame, "get_eval_frame_isolate_recompiles_id", _active.get)


def cache_entries(code: CodeType) -> list[Any]:
    """The ``_CacheEntry`` objects of one code object, last used first: of the active region, or nbcompile's."""
    in_region = getattr(eval_frame, "_get_cache_entries_for_region", None)
    region = max(get_region(), OUR_REGION)
    if in_region is None:
        entries = eval_frame._debug_get_cache_entry_list(code)
        return [entry for entry in entries if getattr(entry.backend, "region", OUR_REGION) == region]
    return list(in_region(code, region))


def add_nan_guard(manager: Any, text: str, holds: Callable[[Any], bool]) -> None:
    """A leaf of the guard tree: the value is a float that is not a number."""
    add = manager.add_float_is_nan_guard
    if "arg2" in (add.__doc__ or ""):  # from torch 2.15 on it compares bits, so that not every NaN is equal
        manager.add_lambda_guard(holds, [text], None)
    else:
        add([text], None)


@contextmanager
def without_frame_hook() -> Iterator[None]:
    """Disable the frame hook of this thread in the block."""
    before = eval_frame.set_eval_frame(None)
    try:
        yield
    finally:
        eval_frame.set_eval_frame(before)


def hide_from_hook(code: CodeType) -> None:
    """Run frames of this code, and all that they call, without the frame hook: they are compiled already."""
    skip = eval_frame._FrameAction.SKIP
    # The first action is for the frame itself, the second one for the frames that it calls.
    eval_frame.set_code_exec_strategy(code, eval_frame._FrameExecStrategy(skip, skip))


def waits_for_collectives(metadata: Any) -> bool:
    """True if an input of a graph is the result of an unfinished collective (from torch 2.12 on)."""
    return bool(getattr(metadata, "act_input_indices", ()))


def thread_keys() -> tuple[int, int]:
    """The dispatch keys that this thread includes in those of every tensor, and those that it excludes."""
    added, taken = torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()
    return added.raw_repr(), taken.raw_repr()


def is_trained(output: Any) -> bool:
    """True if an output of a graph gets a gradient; from torch 2.13 on a view created under no_grad has none."""
    return bool(getattr(output, "requires_grad_for_backward", output.requires_grad))


def function_modes() -> list[object]:
    """The torch function modes that are active, outermost first (torch has no public function for it)."""
    return list(torch.overrides._get_current_function_mode_stack())


def device_constructors() -> set[object]:
    """The functions that take the default device: ``torch.ones``, ``torch.tensor``, ..."""
    constructors: set[object] = torch.utils._device._device_constructors()
    return constructors


def function_mode_at(index: int) -> object:
    """The active mode at a position of the stack; None if there is none."""
    modes = function_modes()
    return modes[index] if index < len(modes) else None


@contextmanager
def without_function_modes() -> Iterator[None]:
    """Disable function modes in the block: their overrides were called when the program was traced."""
    modes = function_modes()
    for _ in modes:
        torch._C._pop_torch_function_stack()
    try:
        yield
    finally:
        # ``modes`` is outermost first, the order in which they are pushed again.
        for mode in modes:
            torch._C._push_on_torch_function_stack(mode)


# torch.func's transforms are a stack of levels in C++. Levels that an abandoned trace has entered must be left.
def in_transform() -> bool:
    """True if the process is inside of vmap, grad or another transform of torch.func."""
    return bool(torch._C._functorch.get_dynamic_layer_stack_depth())


def forward_level() -> int:
    """The level of forward-mode AD that ``torch.autograd.forward_ad.dual_level`` entered; -1: there is none."""
    return torch.autograd.forward_ad._current_level


FORWARD_LEVEL = (vars(torch.autograd.forward_ad), "_current_level")
"""The dict that holds it, and its name there."""


def entered_forward_levels(graph: torch.fx.Graph) -> int:
    """Return how many levels a graph enters and does not leave; negative if it leaves one that was entered before."""
    names = [getattr(node.target, "__name__", "") for node in graph.nodes if node.op == "call_function"]
    return names.count("_enter_dual_level") - names.count("_exit_dual_level")


def only_functionalized() -> bool:
    """True if ``torch.func.functionalize`` is the only active transform."""
    return transform_levels() == (("Functionalize", 1),)


def transform_levels() -> tuple[tuple[str, int], ...]:
    """The active transforms with their levels, outermost first."""
    levels = torch._C._functorch.get_interpreter_stack() or ()
    return tuple((level.key().name, level.level()) for level in levels)


def is_batched(tensor: torch.Tensor) -> bool:
    """True if a tensor is batched by ``torch.vmap``."""
    return bool(torch._C._functorch.is_batchedtensor(tensor))


def without_levels(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor that transforms (``vmap``, ``grad``) have wrapped: a batch as a whole."""
    while is_batched(tensor) or torch._C._functorch.is_gradtrackingtensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor


def saved_tensors_are_hooked() -> bool:
    """True if a hook gets the tensors that autograd saves (``torch.autograd.graph.saved_tensors_hooks``)."""
    return torch._C._autograd._top_saved_tensors_default_hooks(True) is not None


@contextmanager
def without_hooks_on_saved_tensors() -> Iterator[None]:
    """Disable hooks on saved tensors in the block: the fake tensors of the compiler are not the program's."""
    set_tracing = torch._C._autograd._saved_tensors_hooks_set_tracing
    was_tracing = False
    try:  # Ctrl-C may come after any call
        was_tracing = set_tracing(True)
        yield
    finally:
        set_tracing(was_tracing)


def next_autograd_number() -> int:
    """The number that the next node of autograd's graph gets, in this thread."""
    return int(torch._C._autograd._get_sequence_nr())


@contextmanager
def rules_in_python(enabled: bool) -> Iterator[None]:
    """Run Python decompositions of composite operators in the block: those in C++ may specialise symbolic sizes."""
    if not enabled:
        yield
        return
    # The constructor of torch's context enters it. To call it here enters it in the order of the ``with`` statement.
    with importlib.import_module("torch._dispatch.python").enable_python_dispatcher():
        yield


def has_symbolic_form(tensor: torch.Tensor) -> bool:
    """True if a size or stride of it is a symbol."""
    return bool(tensor._has_symbolic_sizes_strides)


def memory_format(tensor: torch.Tensor) -> torch.memory_format:
    """``channels_last`` if the strides are in that format, else ``contiguous_format``."""
    found: torch.memory_format = torch._prims_common.suggest_memory_format(tensor)
    return found


def overlaps_itself(tensor: torch.Tensor) -> bool:
    """True if two elements of a tensor certainly share memory, as those of an expanded one do."""
    return torch._debug_has_internal_overlap(tensor) == 1


TRANSFORM_QUESTIONS: tuple[Callable[[], Any], ...] = (
    torch._C._autograd._saved_tensors_hooks_get_disabled_error_message,
    torch._C._functorch.get_inplace_requires_grad_allowed,
    torch._C._is_fwd_grad_enabled,
)
"""Functions about states that torch.func's transforms save, change and restore."""


def transform_state() -> tuple[Any, ...]:
    """The depth of the stack of torch.func's transforms, and the states that they disabled."""
    return (
        torch._C._functorch.get_dynamic_layer_stack_depth(),
        torch._C._functorch.get_inplace_requires_grad_allowed(),
        torch._C._autograd._saved_tensors_hooks_get_disabled_error_message(),
        torch._C._is_fwd_grad_enabled(),
        torch.autograd.forward_ad._current_level,
    )


def restore_transforms(state: tuple[Any, ...]) -> None:
    """Exit the transforms that were entered since :func:`transform_state`."""
    depth, in_place, hooks_error, forward_mode, level = state
    if level < 0:
        _leave_dual_level()
    if state == transform_state():
        return
    _leave_layers(depth)
    torch._C._functorch.set_inplace_requires_grad_allowed(in_place)
    if hooks_error is None:
        torch._C._autograd._saved_tensors_hooks_enable()
    elif hooks_error != torch._C._autograd._saved_tensors_hooks_get_disabled_error_message():
        torch._C._autograd._saved_tensors_hooks_disable(hooks_error)
    torch._C._set_fwd_grad_enabled(forward_mode)


def _leave_layers(depth: int) -> None:
    layers = torch._C._functorch
    if not torch.__version__.startswith("2.11."):
        layers.pop_dynamic_layer_stack_and_undo_to_depth(depth)
        return
    # In torch 2.11 this function pops each level twice.
    kinds = layers.TransformType
    leave = {
        kinds.Grad: layers._grad_decrement_nesting,
        kinds.Jvp: layers._jvp_decrement_nesting,
        kinds.Functionalize: layers._func_decrement_nesting,
        kinds.Vmap: layers._vmap_decrement_nesting,
    }
    while layers.get_dynamic_layer_stack_depth() > depth:
        leave[layers.peek_interpreter_stack().key()]()


def _leave_dual_level() -> None:
    """Leave the level of forward-mode AD. There is at most one; only entering it shows whether it is entered."""
    with contextlib.suppress(RuntimeError):
        torch._C._enter_dual_level()
    torch._C._exit_dual_level(level=0)


def attention_backends() -> tuple[list[Any], list[int]]:
    """The implementations of attention that are allowed, and the preferred one."""
    return torch.nn.attention._cur_sdpa_kernel_backends(), torch._C._get_sdp_priority_order()


def set_attention_backends(state: tuple[list[Any], list[int]]) -> None:
    """Allow these implementations of attention and no others."""
    if state != attention_backends():
        torch.nn.attention._sdpa_kernel(state[0])
        torch._C._set_sdp_priority_order(state[1])
