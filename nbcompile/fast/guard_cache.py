"""Cache the result of a module's guards until a dict or a tensor that they read changes.

    make_cache = guard_cache.maker()            None where there is no C compiler, or no GIL
    evaluate = make_cache(watched, check)       watched(module) -> objects the guards read, check(module) -> bool
    evaluate(module)                            a cache hit: some 10 ns for each watched object, and no guard is run

guard_cache.c does this in C; what it knows about torch's objects is measured and tested here.

In torch: use_recursive_dict_tags_for_guards in torch/_dynamo/config.py, GuardManager in
torch/csrc/dynamo/guards.cpp. Read next: nbcompile/fast/guard_groups.py, which finds the guards that can be cached.
"""

from __future__ import annotations

import ctypes
import functools
import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from nbcompile.runtime import extension, launcher, toolchain
from nbcompile.runtime.compiler_processes import BuildError

SOURCE = Path(__file__).with_name("guard_cache.c")
WORD = 8
COUNTERS = 2 * WORD
"""Head of a TensorImpl: its virtual functions, and its reference count."""
LONGEST = 32 * WORD

WatchedObjects = Callable[[object], Sequence[object]]
Evaluate = Callable[[object], bool]
MakeCache = Callable[[WatchedObjects, Evaluate], Evaluate]


@functools.cache
@extension.first_call_in_its_own_thread
def maker() -> MakeCache | None:
    """The class of guard caches; None where there is no C compiler or torch is built in another way."""
    compiler = toolchain.find()
    # The cache reads objects without locks, which only the GIL makes right.
    if sysconfig.get_config_var("Py_GIL_DISABLED") or not isinstance(compiler, toolchain.Compiler):
        return None
    try:
        module = extension.built("nbcompile_guard_cache", SOURCE, compiler)
    except (BuildError, OSError, ImportError):
        return None
    offset, end = launcher.tensor_offset(), end_of_metadata()
    if offset is None or end is None:
        return None
    try:
        module.setup(offset, COUNTERS, end)
    except RuntimeError:  # others watch dicts already, as many as Python lets
        return None
    make_cache: MakeCache = module.GuardCache
    return make_cache if self_test(make_cache) else None


def end_of_metadata() -> int | None:
    """The end of a TensorImpl: its last member is the set of its dispatch keys, the word that changes as they do.

    Seen once it would not be known: the memory behind may be what is left of another tensor, with the same keys.
    """
    sample = torch.ones(3, dtype=torch.complex64)
    before, keys = _words(sample), _keys(sample)
    # A conjugated tensor differs in its dispatch keys: the one word that changes from the one set to
    # the other holds them.
    sample.data = sample.conj()
    change = keys, _keys(sample)
    found = [at for at, pair in enumerate(zip(before, _words(sample), strict=True)) if pair == change]
    return (found[0] + 1) * WORD if change[0] != change[1] and len(found) == 1 else None


def _words(tensor: torch.Tensor) -> list[int]:
    return list((ctypes.c_uint64 * (LONGEST // WORD)).from_address(tensor._cdata))


def _keys(tensor: torch.Tensor) -> int:
    keys: int = torch._C._dispatch_keys(tensor).raw_repr()
    return keys


class _Sample:
    """An object like a module."""

    def __init__(self) -> None:
        self.table = {"x": torch.ones(4, 5, dtype=torch.float32)}
        self.known = 2

    def things(self) -> Sequence[object]:
        """The objects that a guard cache watches."""
        return (self, vars(self), self.table, self.table["x"])


def _data(make: Callable[[], torch.Tensor]) -> Callable[[_Sample], object]:
    return lambda sample: setattr(sample.table["x"], "data", make())


CHANGES: Sequence[Callable[[_Sample], object]] = (
    _data(lambda: torch.ones(4, 6)),
    _data(lambda: torch.ones(5, 4).t()),
    _data(lambda: torch.ones(20)),
    _data(lambda: torch.ones(4, 5, dtype=torch.float64)),
    lambda sample: sample.table["x"].requires_grad_(),
    lambda sample: sample.table["x"].resize_(3, 5),
    lambda sample: sample.table["x"].mul_(torch.ones((), dtype=torch.float32, requires_grad=True)),
    lambda sample: setattr(sample.table["x"], "__class__", torch.nn.Parameter),
    lambda sample: sample.table.update(x=torch.ones(4, 5)),
    lambda sample: sample.table.update(y=torch.ones(())),
    lambda sample: setattr(sample, "k", 3),
    lambda sample: setattr(sample, "known", 3),
    lambda sample: delattr(sample, "known"),
    lambda sample: vars(sample).update(known=3),
    lambda sample: setattr(sample, "table", dict(sample.table)),
    lambda sample: setattr(sample, "__dict__", dict(vars(sample))),
    lambda sample: setattr(sample, "__class__", type("Other", (_Sample,), {})),
)
"""Every kind of change that a guard on a module can see, on a small object."""


def self_test(make_cache: MakeCache) -> bool:
    """Check that a cache hit needs no evaluation, and that every relevant change invalidates the cache."""
    return all(_is_invalidated_by(make_cache, change) for change in CHANGES)


def _is_invalidated_by(make_cache: MakeCache, change: Callable[[_Sample], object]) -> bool:
    sample, evaluated = _Sample(), []

    def check(module: object) -> bool:
        evaluated.append(module)
        return True

    evaluate = make_cache(_Sample.things, check)  # type: ignore[arg-type]
    evaluate(sample)
    sample.table["x"].add_(1)  # other numbers in the same tensor
    evaluate(sample)
    hit = len(evaluated) == 1
    change(sample)
    evaluate(sample)
    return hit and len(evaluated) == 2
