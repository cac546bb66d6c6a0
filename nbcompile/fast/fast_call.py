"""Calls without the frame hook: torch's memory layout, as fast_call.c needs it, measured and tested.

    tools = fast_call.tools()                      None where there is no compiler, or torch is built in another way
    check = tools.check(("x",), instructions)      guards of one entry, some 10 ns for each tensor
    tools.fast_call(function, None, ("x",), slow)   calls check after check, then what was compiled, or slow

A first call never waits for the file to be built: fast/prebuild.py does that while it is traced.

In torch: torch/csrc/dynamo/guards.cpp. Read next: nbcompile/fast/guard_bytecode.py, which writes the checks
"""

from __future__ import annotations

import functools
import json
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import torch

from nbcompile.dispatch import hook
from nbcompile.fast import guard_cache
from nbcompile.runtime import extension, launcher, toolchain
from nbcompile.runtime.compiler_processes import BuildError
from nbcompile.torch_internals import guards, thread_keys

SOURCE = Path(__file__).with_name("fast_call.c")
OPERATIONS = (
    "LOOK_UP", "ITEM", "INDEX", "ATTRIBUTE", "VARS", "CLASS", "MEMBER", "CONTENTS", "LIST_KEYS", "LIST_VALUES",
    "IS", "OF_CLASS", "WITH_CODE", "EQUALS", "LENGTH", "DICT_LENGTH", "KEYS", "HAS", "LACKS", "LACKS_MEMBER", "ABSENT",
    "TENSOR", "UNMARKED", "SAME", "DISTINCT",
    "STATE", "KEYS_OF_THREAD", "NO_MODES", "NO_HOOKS", "EMPTY", "UNCHANGED", "PREDICATE", "PREDICATE_OF_ALL",
)  # fmt: skip
"""Opcodes, in the order of fast_call.c."""
NUMBER = {name: number for number, name in enumerate(OPERATIONS)}
Instruction = tuple[str, int, int, int, object]
"""Operation, slot that is looked at (-1: none), number, address, object."""


@dataclass(frozen=True, slots=True)
class Tools:
    """The C extension: it makes checks and fast calls."""

    module: ModuleType
    default_keys: tuple[int, int]
    """The dispatch keys of a thread are kept as their difference from these."""

    def check(self, names: Sequence[str], instructions: Sequence[Instruction]) -> Any:
        """A check: ``check.holds(locals)``. Raises ValueError where it is too long."""
        return self.module.Check(tuple(names), tuple((NUMBER[each[0]], *each[1:]) for each in instructions))

    def fast_call(
        self, function: FunctionType, bound: object, names: Sequence[str], slow: Callable[[Any, Any], Any]
    ) -> Any:
        """A fast call without entries; ``bound``: the function's first argument, None if it is not bound."""
        return self.module.FastCall(function, bound, tuple(names), slow)

    def key_difference(self, keys: tuple[int, int]) -> tuple[int, int]:
        """A thread's dispatch keys as KEYS_OF_THREAD takes them: the difference from the default ones."""
        return keys[0] ^ self.default_keys[0], keys[1] ^ self.default_keys[1]

    def numbers(self, dtype: torch.dtype, device: torch.device) -> tuple[int, int, int]:
        """A dtype and a device as TENSOR takes them."""
        return _numbers(self.module, dtype, device)


@functools.lru_cache(maxsize=256)
def _numbers(module: ModuleType, dtype: torch.dtype, device: torch.device) -> tuple[int, int, int]:
    numbers: tuple[int, int, int] = module.numbers(torch.empty(0, dtype=dtype, device=device))
    return numbers


def is_built() -> bool:
    """True if :func:`tools` need not wait for a compiler."""
    compiler = toolchain.find()
    return isinstance(compiler, toolchain.Compiler) and extension.is_built(SOURCE, compiler)


@functools.cache
@extension.first_call_in_its_own_thread
def tools() -> Tools | None:
    """The C extension; None where there is no C compiler or torch is built in another way."""
    compiler = toolchain.find()
    # Without the GIL, slots and dicts could change while C reads them.
    if sysconfig.get_config_var("Py_GIL_DISABLED") or not isinstance(compiler, toolchain.Compiler):
        return None
    try:
        module = extension.built("nbcompile_fast_call", SOURCE, compiler)
    except (BuildError, OSError, ImportError):
        return None
    offset, end = launcher.tensor_offset(), guard_cache.end_of_metadata()
    if offset is None or end is None:
        return None
    # The dispatch keys are the last word of a TensorImpl's metadata (guard_cache.py).
    module.setup(offset, end - guard_cache.WORD)
    module.set_traced(_traced)
    module.set_hook(hook.current, hook.FrameCallback)
    extension_tools = Tools(module, _default_keys(module))
    if not self_test(extension_tools):
        return None
    state: Any = guards.GlobalStateGuard()
    if _names_of(json.loads(state.__getstate__())) == _STATE:
        module.read_state()
    return extension_tools


def _traced(fast_call: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    return fast_call.slow(arguments, keywords)


_STATE = frozenset((
    "allow_bf16_reduce", "allow_fp16_reduce", "allow_tf32", "autocast_state", "cached_enabled", "dtype", "enabled",
    "default_dtype", "deterministic_algorithms", "deterministic_algorithms_warn_only", "grad_mode", "num_threads",
    "torch_function", "torch_function_all_disabled",
))  # fmt: skip
"""The fields of torch's object for the state of the process that fast_call.c knows; with others, it calls the
object."""


def _names_of(description: dict[str, object]) -> set[str]:
    nested = [value for value in description.values() if isinstance(value, dict)]
    return set(description).union(*nested)


def _default_keys(module: ModuleType) -> tuple[int, int]:
    # Torch keeps the keys of a thread as their difference (exclusive or) from the default ones; the difference of what
    # C reads and what Python shows is that default.
    kept, keys = module.keys_of_thread(), thread_keys()
    return kept[0] ^ keys[0], kept[1] ^ keys[1]


# -- the self-test -----------------------------------------------------------------------------------------------------


def self_test(tools: Tools) -> bool:
    """Check that the extension reads tensors, hooks, modes and dispatch keys as torch does."""
    return _reads_tensors(tools) and _reads_states(tools)


def _reads_tensors(tools: Tools) -> bool:
    base = torch.arange(24, dtype=torch.float32).view(4, 6)
    samples = (
        base, base.t(), base[1:], torch.nn.Parameter(base.clone()), base.to(torch.float64),
        base.clone().requires_grad_(), torch.tensor(1), torch.ones(24), base.to_sparse(),
        base.to(torch.complex64).conj(),
    )  # fmt: skip
    for expected in samples:
        if expected.layout is not torch.strided:
            continue
        check = tools.check(("x",), [tensor_instruction(tools, 0, expected)])
        # Each sample must be accepted by its own instruction and rejected by those of all others.
        for sample in samples:
            if check.holds((sample,)) is not (_metadata(sample) == _metadata(expected)):
                return False
    return True


def _metadata(tensor: torch.Tensor) -> tuple[object, ...]:
    if tensor.layout is not torch.strided:
        return (tensor.layout,)
    keys = torch._C._dispatch_keys(tensor).raw_repr()
    return type(tensor), tensor.dtype, tensor.requires_grad, keys, tensor.shape, tensor.stride()


def tensor_instruction(tools: Tools, slot: int, tensor: torch.Tensor) -> Instruction:
    """An instruction that accepts tensors with the metadata of this one."""
    keys = torch._C._dispatch_keys(tensor).raw_repr()
    numbers = tools.numbers(tensor.dtype, tensor.device)
    facts = (keys, *numbers, tensor.requires_grad, tuple(tensor.shape), tensor.stride())
    return "TENSOR", slot, 0, id(type(tensor)), facts


def _reads_states(tools: Tools) -> bool:
    # A wrong offset would give one answer throughout: each state
    # is read while it is absent, present, and absent again.
    hooks = tools.check((), [("NO_HOOKS", -1, 0, 0, None)])
    modes = tools.check((), [("NO_MODES", -1, 0, 0, None)])
    keys = tools.check((), [("KEYS_OF_THREAD", -1, 0, 0, tools.key_difference(thread_keys()))])
    before = (hooks.holds(()), modes.holds(()), keys.holds(()))
    with torch.autograd.graph.saved_tensors_hooks(lambda value: value, lambda value: value):
        hooked = hooks.holds(())
    with torch.overrides.BaseTorchFunctionMode():
        moded = modes.holds(())
    with torch.inference_mode(not torch.is_inference_mode_enabled()):
        keyed = keys.holds(())
    after = (hooks.holds(()), modes.holds(()), keys.holds(()))
    return before == after == (True, True, True) and (hooked, moded, keyed) == (False, False, False)
