"""Comparable facts of values: type, dtype, shape, strides, bits, aliasing.

    observe((x, [x]))    {"": Fact("tuple of 2"), "[0]": Fact("Tensor float32 (3,) strides (1,)", elements=...),
                          "[1]": Fact("list of 1"), "[1][0]": Fact("is [0]")}

An object that is met twice is named by where it was met first, and a tensor says whose memory it uses.

In torch: torch/testing/_comparison.py compares pairs; identity and memory are no part of that. Read next:
nbcompile/tools/fuzz/compare.py
"""

from __future__ import annotations

import collections
import enum
import re
import types
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from nbcompile.eval_frame.wrapper import ORIGINAL
from nbcompile.tools.fuzz.program import CaughtException

SCALARS = (
    bool, int, str, bytes, range, slice, types.NoneType, types.EllipsisType,
    torch.dtype, torch.device, torch.Size, torch.layout, torch.memory_format,
)  # fmt: skip
OPAQUE = (types.ModuleType, types.BuiltinFunctionType, types.CodeType, torch.Generator, type)
DEPTH = 12


@dataclass(frozen=True, slots=True)
class Fact:
    """Observable facts of one value."""

    text: str
    elements: torch.Tensor | None = None
    """A tensor's values, or a float's: compared by bits, or by distance."""


Observation = dict[str, Fact]


def observe(value: object) -> Observation:
    """A value and all that it holds, by path."""
    observer = _Observer({}, {}, {}, [])
    observer.add("", value, 0)
    return observer.facts


@dataclass(slots=True)
class _Observer:
    facts: Observation
    seen: dict[int, str]
    storages: dict[int, tuple[str, int]]
    alive: list[object]

    def add(self, path: str, value: object, depth: int) -> None:
        if isinstance(value, (float, complex)) and type(value) in (float, complex):
            dtype = torch.float64 if isinstance(value, float) else torch.complex128
            self.facts[path] = Fact(type(value).__name__, torch.tensor(value, dtype=dtype))
            return
        if isinstance(value, types.FunctionType) and ORIGINAL in vars(value):
            value = vars(value)[ORIGINAL]  # what a compiled function holds is its own affair
        if type(value) in SCALARS or isinstance(value, enum.Enum):
            self.facts[path] = Fact(_without_addresses(f"{type(value).__name__} {value!r}"))
            return
        # The identity of a tuple says nothing: CPython keeps one of two equal constants of a function.
        if id(value) in self.seen and not isinstance(value, tuple):
            self.facts[path] = Fact(f"is {self.seen[id(value)] or 'the whole'}")
            return
        self.seen[id(value)] = path
        # An object that is freed gives its id to the next one; all that were met stay alive until the end.
        self.alive.append(value)
        if isinstance(value, torch.Tensor):
            self.tensor(path, value, depth)
            return
        self.facts[path] = Fact(_without_addresses(_headline(value)))
        if depth < DEPTH:
            for step, part in list(_parts(value)):
                self.add(path + step, part, depth + 1)

    def tensor(self, path: str, value: torch.Tensor, depth: int) -> None:
        if value.layout != torch.strided:
            self.facts[path] = Fact(f"{type(value).__name__} {value.layout} {tuple(value.shape)}")
            return
        facts = [
            type(value).__name__,
            str(value.dtype).removeprefix("torch."),
            str(tuple(value.shape)),
            f"strides {_strides(value)}",
            "requires_grad" * value.requires_grad,
            "" if value.is_leaf else "has grad_fn",
            "inference" * value.is_inference(),
            "conj" * value.is_conj(),
            "neg" * value.is_neg(),
            self.memory(path, value),
        ]
        # A conjugate view has other bits in memory than its elements.
        values = value.detach().resolve_conj().resolve_neg()
        self.facts[path] = Fact(" ".join(filter(None, facts)), torch.empty_like(values).copy_(values).contiguous())
        if value.is_leaf and value.grad is not None:
            self.add(f"{path}.grad", value.grad, depth + 1)
        for name, part in vars(value).items():
            if not name.startswith("_"):
                self.add(f"{path}.{name}", part, depth + 1)

    def memory(self, path: str, value: torch.Tensor) -> str:
        # All empty tensors have the address 0, and share no memory.
        if not value.numel():
            return ""
        offset = int(value.storage_offset()) * value.element_size()
        owner, start = self.storages.setdefault(value.untyped_storage().data_ptr(), (path, offset))
        return "" if owner == path else f"in the memory of {owner or 'the whole'} at {offset - start:+}"


def _without_addresses(text: str) -> str:
    return re.sub(r"0x[0-9a-f]+|<fuzz \d+>", "..", text)


def _strides(tensor: torch.Tensor) -> tuple[int | str, ...]:
    """Steps that a reader of the elements can notice."""
    if not tensor.numel():
        return ()
    return tuple(step if size > 1 else "-" for step, size in zip(tensor.stride(), tensor.shape, strict=True))


def _headline(value: object) -> str:
    name = type(value).__qualname__
    if isinstance(value, CaughtException):
        return f"raised {value.kind}: {value.text}"
    if isinstance(value, types.FunctionType):
        return f"function {value.__qualname__} {value.__doc__}"
    if isinstance(value, OPAQUE):
        return f"{name} {getattr(value, '__name__', '')}"
    if isinstance(value, (set, frozenset)):
        return f"{name} {sorted(map(repr, value))}"
    if isinstance(value, BaseException):
        return f"{name} {value} cause {value.__cause__!r} context {value.__context__!r}"
    if isinstance(value, (list, tuple, dict, collections.deque)):
        return f"{name} of {len(value)}"
    return name


def _parts(value: object) -> Iterator[tuple[str, object]]:
    """The path steps and values of what a value holds."""
    if isinstance(value, (*OPAQUE, CaughtException)):
        return
    if isinstance(value, types.FunctionType):
        cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
        yield from ((f".{name}", _content(cell)) for name, cell in cells)
        yield ".__defaults__", value.__defaults__
        yield ".__kwdefaults__", value.__kwdefaults__
    if isinstance(value, types.MethodType):
        yield ".__self__", value.__self__
        return
    if isinstance(value, dict):
        yield from ((f"[{key!r:.40}]", item) for key, item in value.items())
    if isinstance(value, (list, tuple, collections.deque)):
        yield from ((f"[{index}]", item) for index, item in enumerate(value))
    if isinstance(value, torch.nn.Module):
        state = vars(value)
        held = {**state["_parameters"], **state["_buffers"], **state["_modules"]}
        yield from ((f".{name}", part) for name, part in held.items())
    yield from ((f".{name}", getattr(value, name)) for name in _attribute_names(value) if hasattr(value, name))


def _attribute_names(value: object) -> list[str]:
    """The names of an object's own attributes, without private ones."""
    names = dict.fromkeys(getattr(value, "__dict__", ()))
    for base in type(value).__mro__:
        slots = base.__dict__.get("__slots__", ())
        names.update(dict.fromkeys([slots] if isinstance(slots, str) else slots))
    return [name for name in names if isinstance(name, str) and not name.startswith("_")]


def _content(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        return "(empty cell)"
