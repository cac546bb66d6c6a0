"""The way around the frame hook: what fast_call.c knows about torch, measured and tested.

    tools = fast_call.tools()                      None where there is no compiler, or torch is built in another way
    check = tools.check(("x",), instructions)      guards of one entry, some 10 ns for each tensor
    tools.shortcut(function, None, ("x",), slow)   calls check after check, then what was compiled, or slow

A first call never waits for the file to be built: fast/prebuild.py does that while it is traced.

In torch: torch/csrc/dynamo/guards.cpp. Read next: nbcompile/fast/guard_bytecode.py, which writes the checks
"""

from __future__ import annotations

import functools
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import torch

from nbcompile.fast import guard_cache
from nbcompile.runtime import extension, launcher, toolchain
from nbcompile.runtime.toolchain import BuildError
from nbcompile.torch_internals import thread_keys

SOURCE = Path(__file__).with_name("fast_call.c")
OPERATIONS = (
    "LOOK_UP", "ITEM", "INDEX", "ATTRIBUTE", "VARS", "CLASS", "MEMBER", "CONTENTS", "LIST_KEYS", "LIST_VALUES",
    "IS", "OF_CLASS", "WITH_CODE", "EQUALS", "LENGTH", "DICT_LENGTH", "KEYS", "HAS", "LACKS", "LACKS_MEMBER", "ABSENT",
    "TENSOR", "UNMARKED", "SAME", "DISTINCT",
    "STATE", "KEYS_OF_THREAD", "NO_MODES", "NO_HOOKS", "EMPTY", "UNCHANGED", "ASK", "ASK_ALL",
)  # fmt: skip
"""In the order of fast_call.c."""
NUMBER = {name: number for number, name in enumerate(OPERATIONS)}
Instruction = tuple[str, int, int, int, object]
"""Operation, slot that is looked at (-1: none), number, address, object."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What makes checks and shortcuts."""

    module: ModuleType
    default_keys: tuple[int, int]
    """The dispatch keys of a thread are kept as their difference from these."""

    def check(self, names: Sequence[str], instructions: Sequence[Instruction]) -> Any:
        """A check: ``check.holds(locals)``. Raises ValueError where it is too long."""
        return self.module.Check(tuple(names), tuple((NUMBER[each[0]], *each[1:]) for each in instructions))

    def shortcut(
        self, function: FunctionType, bound: object, names: Sequence[str], slow: Callable[[Any, Any], Any]
    ) -> Any:
        """A shortcut without entries; ``bound``: the function's first argument, None if it is not bound."""
        return self.module.Shortcut(function, bound, tuple(names), slow)

    def kept_keys(self, keys: tuple[int, int]) -> tuple[int, int]:
        """The dispatch keys of a thread as KEYS_OF_THREAD takes them."""
        return keys[0] ^ self.default_keys[0], keys[1] ^ self.default_keys[1]

    def numbers(self, dtype: torch.dtype, device: torch.device) -> tuple[int, int, int]:
        """A dtype and a device as TENSOR takes them."""
        return _numbers(self.module, dtype, device)


@functools.lru_cache(maxsize=256)
def _numbers(module: ModuleType, dtype: torch.dtype, device: torch.device) -> tuple[int, int, int]:
    numbers: tuple[int, int, int] = module.numbers(torch.empty(0, dtype=dtype, device=device))
    return numbers


def is_built() -> bool:
    """Whether :func:`tools` need not wait for a compiler."""
    compiler = toolchain.find()
    return isinstance(compiler, toolchain.Compiler) and extension.is_built(SOURCE, compiler)


@functools.cache
@extension.tried_in_its_own_thread
def tools() -> Tools | None:
    """What makes checks and shortcuts; None where they cannot be had."""
    compiler = toolchain.find()
    if sysconfig.get_config_var("Py_GIL_DISABLED") or not isinstance(compiler, toolchain.Compiler):
        return None
    try:
        module = extension.built("nbcompile_fast_call", SOURCE, compiler)
    except (BuildError, OSError, ImportError):
        return None
    offset, end = launcher.tensor_offset(), guard_cache.end_of_facts()
    if offset is None or end is None:
        return None
    module.setup(offset, end - guard_cache.WORD)
    made = Tools(module, _default_keys(module))
    return made if self_test(made) else None


def _default_keys(module: ModuleType) -> tuple[int, int]:
    kept, keys = module.keys_of_thread(), thread_keys()
    return kept[0] ^ keys[0], kept[1] ^ keys[1]


# -- the self-test -----------------------------------------------------------------------------------------------------


def self_test(made: Tools) -> bool:
    """Whether tensors, hooks, modes and keys of the thread are seen as they are."""
    return _sees_tensors(made) and _sees_states(made)


def _sees_tensors(made: Tools) -> bool:
    base = torch.arange(24, dtype=torch.float32).view(4, 6)
    samples = (
        base, base.t(), base[1:], torch.nn.Parameter(base.clone()), base.to(torch.float64),
        base.clone().requires_grad_(), torch.tensor(1), torch.ones(24), base.to_sparse(),
        base.to(torch.complex64).conj(),
    )  # fmt: skip
    for expected in samples:
        if expected.layout is not torch.strided:
            continue
        check = made.check(("x",), [tensor_instruction(made, 0, expected)])
        for sample in samples:
            if check.holds((sample,)) is not (_facts(sample) == _facts(expected)):
                return False
    return True


def _facts(tensor: torch.Tensor) -> tuple[object, ...]:
    if tensor.layout is not torch.strided:
        return (tensor.layout,)
    keys = torch._C._dispatch_keys(tensor).raw_repr()
    return type(tensor), tensor.dtype, tensor.requires_grad, keys, tensor.shape, tensor.stride()


def tensor_instruction(made: Tools, slot: int, tensor: torch.Tensor) -> Instruction:
    """What accepts tensors like this one."""
    keys = torch._C._dispatch_keys(tensor).raw_repr()
    numbers = made.numbers(tensor.dtype, tensor.device)
    facts = (keys, *numbers, tensor.requires_grad, tuple(tensor.shape), tensor.stride())
    return "TENSOR", slot, 0, id(type(tensor)), facts


def _sees_states(made: Tools) -> bool:
    hooks = made.check((), [("NO_HOOKS", -1, 0, 0, None)])
    modes = made.check((), [("NO_MODES", -1, 0, 0, None)])
    keys = made.check((), [("KEYS_OF_THREAD", -1, 0, 0, made.kept_keys(thread_keys()))])
    before = (hooks.holds(()), modes.holds(()), keys.holds(()))
    with torch.autograd.graph.saved_tensors_hooks(lambda value: value, lambda value: value):
        hooked = hooks.holds(())
    with torch.overrides.BaseTorchFunctionMode():
        moded = modes.holds(())
    with torch.inference_mode(not torch.is_inference_mode_enabled()):
        keyed = keys.holds(())
    after = (hooks.holds(()), modes.holds(()), keys.holds(()))
    return before == after == (True, True, True) and (hooked, moded, keyed) == (False, False, False)
