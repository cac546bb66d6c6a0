"""Comparable facts of values: type, dtype, shape, strides, bits, aliasing.

    observe((x, [x]))    {"": Fact("tuple of 2"), "[0]": Fact("Tensor float32 (3,) strides (1,)", elements=...),
                          "[1]": Fact("list of 1"), "[1][0]": Fact("is [0]")}

An object that is visited twice is named by its first path, and a tensor by the path of the tensor whose memory it
uses. Keys of dicts and names of attributes are observed in their order, members of sets without one.

In torch: torch/testing/_comparison.py compares pairs; identity and memory are no part of that. Read next:
nbcompile/tools/fuzz/compare.py
"""

from __future__ import annotations

import array
import collections
import copy
import datetime as dt
import decimal
import enum
import fractions
import functools
import itertools
import re
import sys
import types
import zlib
from collections.abc import ItemsView, Iterable, Iterator, KeysView, ValuesView
from dataclasses import dataclass

import torch

from nbcompile.support import wrappers
from nbcompile.tools.fuzz.program import CaughtException

SCALARS = (
    bool, int, str, bytes, range, slice, types.NoneType, types.EllipsisType,
    torch.dtype, torch.device, torch.Size, torch.layout, torch.memory_format,
)  # fmt: skip
OPAQUE = (types.ModuleType, types.BuiltinFunctionType, types.CodeType, torch.Generator, type)
SHOWN = (
    types.GenericAlias, types.UnionType, fractions.Fraction, decimal.Decimal,
    dt.date, dt.time, dt.timedelta, bytearray, array.array,
)  # fmt: skip
"""Types whose ``repr`` has all their state."""
BASES = (int, float, complex, str, bytes)
"""Types whose subclasses also have a value of that type."""
VIEWS = (KeysView, ValuesView, ItemsView)
CONTAINERS: tuple[Iterable[object], ...] = ([], (), "", {}, {}.values(), {}.items(), range(0), reversed([]))
ITERATORS = tuple(type(iter(container)) for container in CONTAINERS)
"""Iterators that a copy does not advance."""
FIELDS = {
    functools.partial: ("func", "args", "keywords"),
    collections.defaultdict: ("default_factory",),
    collections.deque: ("maxlen",),
    types.MethodType: ("__self__", "__func__"),
    types.BuiltinFunctionType: ("__self__",),
    BaseException: ("args",),
}
"""Attributes that are in no `__dict__`."""
PROGRAM = "fuzzed_program"
"""Module of the classes that the program defines, whose private attributes are observed."""
MOST_ITEMS = 20
DEPTH = 12


@dataclass(frozen=True, slots=True)
class Fact:
    """Observable facts of one value."""

    text: str
    elements: torch.Tensor | None = None
    """A tensor's values, or a float's: compared by bits, or by distance."""


Observation = dict[str, Fact]


def observe(value: object) -> Observation:
    """Observe a value and all values in it, by path."""
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
        if wrappers.is_compiled(value):
            value = wrappers.innermost(value)  # the attributes of a compiled function are not observed
        if type(value) in SCALARS or isinstance(value, enum.Enum):
            self.facts[path] = Fact(_without_addresses(f"{type(value).__name__} {value!r}"))
            return
        # The identity of a tuple has no meaning: CPython merges equal constants of a function.
        if id(value) in self.seen and not isinstance(value, tuple):
            self.facts[path] = Fact(f"is {self.seen[id(value)] or 'the whole'}")
            return
        self.seen[id(value)] = path
        # A new object may have the id of a freed one: all visited objects stay alive until the end.
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
            dense = value.detach().to_dense()
            self.facts[path] = Fact(f"{type(value).__name__} {value.layout} {dense.dtype} {tuple(value.shape)}", dense)
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
            _listed(_attribute_names(value)),
        ]
        # A conjugate view has other bits in memory than its elements.
        values = value.detach().resolve_conj().resolve_neg()
        self.facts[path] = Fact(" ".join(filter(None, facts)), torch.empty_like(values).copy_(values).contiguous())
        if value.is_leaf and value.grad is not None:
            self.add(f"{path}.grad", value.grad, depth + 1)
        for name in _attribute_names(value):
            self.add(f"{path}.{name}", vars(value)[name], depth + 1)

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
    """Strides of the dimensions that have several elements."""
    if not tensor.numel():
        return ()
    return tuple(step if size > 1 else "-" for step, size in zip(tensor.stride(), tensor.shape, strict=True))


def _headline(value: object) -> str:
    name = type(value).__qualname__
    if isinstance(value, CaughtException):
        return f"raised {value.kind}: {value.text}"
    if isinstance(value, types.FunctionType):
        return (
            f"function {value.__qualname__} {value.__doc__} {_code(value.__code__)}{_listed(_attribute_names(value))}"
        )
    if isinstance(value, OPAQUE):
        return f"{name} {getattr(value, '__name__', '')}"
    if isinstance(value, (set, frozenset)):
        return f"{name} {sorted(map(repr, value))}"
    if isinstance(value, BaseException):
        return f"{name} {value} cause {value.__cause__!r} context {value.__context__!r}"
    return name + _size(value) + _listed(_attribute_names(value))


def _code(code: types.CodeType) -> int:
    """Number that distinguishes the code of two functions of one name."""
    constants = [one for one in code.co_consts if not isinstance(one, types.CodeType)]
    return zlib.crc32(repr((code.co_code, code.co_names, constants)).encode())


def _size(value: object) -> str:
    """Value of a number or text, and the number of items or the keys of a container."""
    if isinstance(value, SHOWN):
        return f" {value!r}"
    if isinstance(value, memoryview):
        return f" {value.tobytes()!r}"
    if isinstance(value, (dict, types.MappingProxyType)):
        return f" of {len(value)}{_listed(map(_key, value))}"
    if isinstance(value, torch.nn.Module):
        return _listed(_held(value))
    if isinstance(value, (list, tuple, collections.deque, *VIEWS)):
        return f" of {len(value)}"
    return "".join(f" {base.__repr__(value)}" for base in BASES if isinstance(value, base))


def _listed(names: Iterable[str]) -> str:
    """Names in their order, which a caller who iterates over them observes."""
    return "".join(f" {name}" for name in names)


def _key(key: object) -> str:
    return _without_addresses(repr(key))[:40]


def _held(module: torch.nn.Module) -> dict[str, object]:
    state = vars(module)
    return {**state["_parameters"], **state["_buffers"], **state["_modules"]}


def _parts(value: object) -> Iterator[tuple[str, object]]:
    """The path steps and values of the parts of a value."""
    for kind, names in FIELDS.items():
        if isinstance(value, kind):
            yield from ((f".{name}", getattr(value, name)) for name in names)
    if isinstance(value, (*OPAQUE, CaughtException, types.MethodType)):
        return
    if isinstance(value, types.FunctionType):
        cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
        yield from ((f".{name}", _content(cell)) for name, cell in cells)
        yield ".__defaults__", value.__defaults__
        yield ".__kwdefaults__", value.__kwdefaults__
    yield from _contents(value)
    yield from ((f".{name}", getattr(value, name)) for name in _attribute_names(value) if hasattr(value, name))


def _contents(value: object) -> Iterator[tuple[str, object]]:
    """The items of a container, and the parts of a value that are no attributes."""
    if isinstance(value, (dict, types.MappingProxyType)):
        yield from _entries(value)
    elif isinstance(value, (list, tuple, collections.deque, *VIEWS)):
        yield from ((f"[{index}]", item) for index, item in enumerate(value))
    elif isinstance(value, ITERATORS):
        yield ".rest", list(itertools.islice(copy.copy(value), MOST_ITEMS))
    elif _is_array_of_numbers(value):
        yield ".values", torch.from_numpy(value.copy())  # type: ignore[attr-defined]
    elif isinstance(value, torch.nn.Module):
        yield from ((f".{name}", part) for name, part in _held(value).items())


def _is_array_of_numbers(value: object) -> bool:
    # NumPy is optional; a program with an array has imported it.
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray) and value.dtype.kind in "biufc"


def _entries(value: dict[object, object] | types.MappingProxyType[object, object]) -> Iterator[tuple[str, object]]:
    """Items by key; keys with equal texts are numbered."""
    seen: collections.Counter[str] = collections.Counter()
    for key, item in value.items():
        text = _key(key)
        seen[text] += 1
        yield f"[{text}{f' {seen[text]}' if seen[text] > 1 else ''}]", item


def _attribute_names(value: object) -> list[str]:
    """The names of an object's attributes in their order; private ones only of classes that the program defines."""
    names = dict.fromkeys(getattr(value, "__dict__", ()))
    for base in type(value).__mro__:
        slots = base.__dict__.get("__slots__", ())
        names.update(dict.fromkeys([slots] if isinstance(slots, str) else slots))
    is_own = type(value).__module__ == PROGRAM and not isinstance(value, torch.nn.Module)
    hidden = "__" if is_own else "_"
    return [name for name in names if isinstance(name, str) and not name.startswith(hidden)]


def _content(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        return "(empty cell)"
