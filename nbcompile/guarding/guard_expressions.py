"""What guards ask of a call, as trees over values that can be read from it: for pages without a kernel.

    L['x']  TENSOR_MATCH      type(L['x']) same 'Tensor' and L['x'].dtype same 'torch.float32' and ...
    L['f']  FUNCTION_MATCH    id(L['f'].__code__) same 'f (cell_1.py:3)'
    L['s']  SET_CONTAINS      whether "set.__contains__(L['s'], 3)" holds, a value of its own

    Readings.test(guard)  ->  the tree          Readings.take(call)  ->  {"L['x'].dtype": "torch.float32", ...}

A tree holds of the values of a call exactly if the guard holds of the call: that is tested. An object
that a guard recognises by identity is given a name, which stands for its address.

In torch: nothing. Read next: nbcompile/what_if.py
"""

from __future__ import annotations

import ast
import contextlib
import enum
import itertools
import json
from collections.abc import Callable, Mapping
from types import CodeType, FunctionType, MappingProxyType
from typing import Any, cast

import torch
import torch.overrides

from nbcompile.capture.guard import GuardKind, ShapeGuards, TensorFacts, TensorMarks
from nbcompile.capture.source import Scope, Source, expression
from nbcompile.guarding.ambient import Ambient, readable_conditions, shape_names
from nbcompile.guarding.check import fetch
from nbcompile.guarding.guard_kinds import Kept, Leaf, has_member, meaning, short
from nbcompile.record import model, trees
from nbcompile.record.trees import Tree
from nbcompile.torch_internals import guards as torch_guards

Atom = int | float | bool | str | None
Reader = Callable[[Scope], Atom]
_ATOMS = (int, float, bool, str, type(None))
_PLAIN = (*_ATOMS, bytes, complex, type(...), torch.dtype, torch.device, torch.Size, range)
_LONGEST = 200
"""Characters of a text that a page compares."""


class Unreadable(Exception):
    """The value is none that a page can hold; whatever wants it does not hold."""


class Names:
    """A name for each object that guards recognise by identity: ``Net``, ``Net #2``."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Kept, str]] = {}
        self._given: dict[str, int] = {}

    def give(self, value: object) -> str:
        """The name of an expected object."""
        known = self._find(value)
        if known is not None:
            return known
        base = _base_name(value)
        number = self._given[base] = self._given.get(base, 0) + 1
        name = base if number == 1 else f"{base} #{number}"
        self._known[id(value)] = (Kept(value), name)
        return name

    def of(self, value: object) -> str:
        """The name of an object that a call brought: an expected one, or another."""
        return self._find(value) or f"another {_base_name(value)}"

    def _find(self, value: object) -> str | None:
        kept, name = self._known.get(id(value), (None, ""))
        return name if kept is not None and kept.get() is value else None


def _base_name(value: object) -> str:
    if isinstance(value, type | FunctionType | CodeType):
        return short(value)
    return f"{type(value).__qualname__} object"


class Readings:
    """All that the guards of one code object ask; it grows with each entry."""

    def __init__(self) -> None:
        self.names = Names()
        self._readers: dict[str, Reader] = {}
        self._wholes: dict[str, tuple[object, ...]] = {}
        """The guards that are values themselves, by name."""
        self.sources: dict[str, Source] = {}
        """Of each number that is read as it is, and of each tensor by its expression."""

    def test(self, each: Leaf | Ambient, scope: Scope) -> Tree:
        """The tree of one guard; ``scope`` is the call that it was made for."""
        try:
            if isinstance(each, Ambient):
                return _AMBIENT[each.guard.kind](self, each, scope)
            assert each.guard.source is not None
            with torch._C.DisableTorchFunction():  # looking at a tensor is not for its class, nor for a mode
                return _LEAVES[each.guard.kind](self, each, scope)
        except Exception:  # noqa: BLE001 - no tree says it, or a tensor has no such facts (sparse, nested)
            return self._as_it_is(each)

    def take(self, scope: Scope) -> dict[str, Atom]:
        """What a call has to say; what cannot be read is left out, as the guards on it do not hold."""
        values: dict[str, Atom] = {}
        for name, reader in self._readers.items():
            with contextlib.suppress(Exception):  # an address that leads nowhere; code of the user's runs, too
                values[name] = reader(scope)
        return values

    def read(self, name: str, reader: Reader) -> str:
        """Note how a value is read; its name again."""
        self._readers.setdefault(name, reader)
        return name

    def of(self, source: Source, name: str, function: Callable[[Any], Atom]) -> str:
        """Note what is read of the value at an address; ``name`` has ``{}`` for the address."""
        return self.read(name.format(expression(source)), lambda scope: _asking_nobody(function, source, scope))

    def of_type(self, source: Source, cls: type) -> Tree:
        """Whether the value's class is this very one."""
        return trees.same(self.of(source, "type({})", lambda value: self.names.of(type(value))), self.names.give(cls))

    def _as_it_is(self, each: Leaf | Ambient) -> Tree:
        """A guard that no tree tells apart: whether it holds is itself the value."""
        name = next(
            name
            for number in itertools.count(1)
            if self._wholes.setdefault(name := each.text if number == 1 else f"{each.text} #{number}", each.guard.key())
            == each.guard.key()
        )
        return trees.same(self.read(name, each.holds if isinstance(each, Ambient) else _holds_of(each)), True)


def _holds_of(leaf: Leaf) -> Reader:
    return lambda scope: meaning(leaf, lambda source: fetch(source, scope))


class _Untold(Exception):
    """No tree says this."""


# --- guards on one value -----------------------------------------------------------------------


def _type_match(readings: Readings, each: Leaf, scope: Scope) -> Tree:
    expected = each.strong_guard().expected
    assert isinstance(expected, type)
    return readings.of_type(_source(each), expected)


def _id_match(readings: Readings, each: Leaf, scope: Scope) -> Tree:
    name = readings.of(_source(each), "id({})", readings.names.of)
    return trees.same(name, readings.names.give(fetch(_source(each), scope)))


def _function_match(readings: Readings, each: Leaf, scope: Scope) -> Tree:
    value = fetch(_source(each), scope)
    code = getattr(value, "__code__", None)
    if not isinstance(code, CodeType):
        return _id_match(readings, each, scope)
    same_code = trees.same(
        readings.of(_source(each), "id({}.__code__)", lambda value: readings.names.of(value.__code__)),
        readings.names.give(code),
    )
    if not isinstance(value, FunctionType):
        return same_code
    return trees.every([readings.of_type(_source(each), FunctionType), same_code])


def _constant_match(readings: Readings, each: Leaf, scope: Scope) -> Tree:
    """None, True, False, numbers, texts; what holds such (a tuple, a dtype) is compared by how it is spelled."""
    value, source = each.guard.expected, _source(each)
    if isinstance(value, _ATOMS) and type(value) in _ATOMS:
        _atom(value)
        readings.sources[expression(source)] = source
        return trees.same(readings.of(source, "{}", _atom), value)
    return trees.same(readings.of(source, "repr({})", spelled), spelled(value))


def _nan_match(readings: Readings, each: Leaf, scope: Scope) -> Tree:
    if isinstance(each.guard.expected, complex):
        raise _Untold
    value = trees.read(readings.of(_source(each), "{}", _atom))
    return {"op": "isnan", "of": [value]}


def _length(readings: Readings, each: Leaf, scope: Scope) -> Tree:
    source, value = _source(each), fetch(_source(each), scope)
    if isinstance(value, dict):
        return _dict_length(readings, each, scope)
    return trees.every([readings.of_type(source, type(value)), _has_length(readings, each)])


def _has_length(readings: Readings, each: Leaf) -> Tree:
    return trees.same(readings.of(_source(each), "len({})", _length_of), cast("int", each.guard.expected))


def _length_of(value: Any) -> int:
    return dict.__len__(value) if isinstance(value, dict) else len(value)


def _is_dict(readings: Readings, each: Leaf) -> Tree:
    return trees.same(readings.of(_source(each), "isinstance({}, dict)", lambda value: isinstance(value, dict)), True)


def _dict_length(readings: Readings, each: Leaf, scope: Scope) -> Tree:
    return trees.every([_is_dict(readings, each), _has_length(readings, each)])


def _dict_keys(readings: Readings, each: Leaf, scope: Scope) -> Tree:
    wanted = spelled(each.guard.expected)
    keys = readings.of(_source(each), "list({})", lambda value: spelled(tuple(dict.keys(value))))
    return trees.every([_is_dict(readings, each), trees.same(keys, wanted)])


def _contains(readings: Readings, each: Leaf, scope: Scope) -> Tree:
    item, wanted = cast("tuple[Any, bool]", each.guard.expected)
    name = spelled(item).replace("{", "{{").replace("}", "}}") + " in {}"
    in_set = each.guard.kind is GuardKind.SET_CONTAINS

    def held(value: Any) -> bool:
        return has_member(value, item) if in_set else item in value

    found = trees.same(readings.of(_source(each), name, held), wanted)
    return trees.every([readings.of_type(_source(each), type(fetch(_source(each), scope))), found])


def _hasattr(readings: Readings, each: Leaf, scope: Scope) -> Tree:
    name, wanted = cast("tuple[str, bool]", each.guard.expected)
    found = readings.of(_source(each), f"hasattr({{}}, {name!r})", lambda value: hasattr(value, name))
    return trees.same(found, wanted)


def _tensor_match(readings: Readings, each: Leaf, scope: Scope) -> Tree:
    source, facts = _source(each), each.guard.expected
    tensor = fetch(source, scope)
    assert isinstance(facts, TensorFacts) and isinstance(tensor, torch.Tensor)
    readings.sources[expression(source)] = source
    wanted = [
        readings.of_type(source, type(tensor)),
        *(trees.same(readings.of(source, name, function), function(tensor)) for name, function in _OF_TENSORS),
    ]
    for name, expected, read in (("size", facts.sizes, _size), ("stride", facts.strides, _stride)):
        # What is dynamic in this entry is read all the same, and so are the dims of a call with more of them.
        names = [
            readings.of(source, f"{{}}.{name}()[{dim}]", _at(read, dim))
            for dim in range(max(model.FORETOLD_DIMS, tensor.dim()))
        ]
        wanted += [
            trees.same(told, number) for told, number in zip(names, expected or (), strict=False) if number is not None
        ]
    return trees.every(wanted)


_OF_TENSORS: tuple[tuple[str, Callable[[torch.Tensor], Atom]], ...] = (
    ("keys({})", lambda tensor: str(torch._C._dispatch_keys(tensor))),
    ("{}.dtype", lambda tensor: str(tensor.dtype)),
    ("{}.device", lambda tensor: str(tensor.device)),
    ("{}.requires_grad", lambda tensor: tensor.requires_grad),
    ("{}.dim()", lambda tensor: tensor.dim()),
)


def _size(tensor: torch.Tensor, dim: int) -> int:
    return tensor.shape[dim]


def _asking_nobody(function: Callable[[Any], Atom], source: Source, scope: Scope) -> Atom:
    """Looking at a tensor is not for its class, nor for a function mode."""
    with torch._C.DisableTorchFunction():
        return function(fetch(source, scope))


def _stride(tensor: torch.Tensor, dim: int) -> int:
    return tensor.stride()[dim]


def _at(read: Callable[[torch.Tensor, int], int], dim: int) -> Callable[[torch.Tensor], int]:
    return lambda tensor: read(tensor, dim)


def _dimension_marking(readings: Readings, each: Leaf, scope: Scope) -> Tree:
    marks = each.guard.expected
    assert isinstance(marks, TensorMarks)
    if marks.present:
        raise _Untold
    absent = marks.absent
    told = readings.of(_source(each), "marked({})", lambda value: any(hasattr(value, mark) for mark in absent))
    return trees.same(told, False)


def _source(each: Leaf) -> Source:
    assert each.guard.source is not None
    return each.guard.source


def _atom(value: object) -> Atom:
    if type(value) not in _ATOMS or (isinstance(value, str) and len(value) > _LONGEST):
        raise Unreadable
    return value  # type: ignore[return-value]


def spelled(value: object) -> str:
    """A constant as text: the same for two constants that guards take for the same, and for no others.

    Raises:
        _Untold: it is none, or too long.
    """
    text = _spelled(value)
    if len(text) > _LONGEST:
        raise _Untold
    return text


def _spelled(value: object) -> str:
    if type(value) in (tuple, slice):
        parts = (value.start, value.stop, value.step) if isinstance(value, slice) else cast("tuple[object, ...]", value)
        return f"{type(value).__name__}({', '.join(map(_spelled, parts))})"
    if type(value) is frozenset:
        return f"frozenset({', '.join(sorted(map(_spelled, value)))})"
    if type(value) in _PLAIN or isinstance(value, enum.Enum):
        return repr(value)
    raise _Untold


_LEAVES: dict[GuardKind, Callable[[Readings, Leaf, Scope], Tree]] = {
    GuardKind.TYPE_MATCH: _type_match,
    GuardKind.ID_MATCH: _id_match,
    GuardKind.FUNCTION_MATCH: _function_match,
    GuardKind.NONE_MATCH: _constant_match,
    GuardKind.BOOL_MATCH: _constant_match,
    GuardKind.EQUALS_MATCH: _constant_match,
    GuardKind.NAN_MATCH: _nan_match,
    GuardKind.SEQUENCE_LENGTH: _length,
    GuardKind.DICT_LENGTH: _dict_length,
    GuardKind.DICT_KEYS: _dict_keys,
    GuardKind.DICT_CONTAINS: _contains,
    GuardKind.SET_CONTAINS: _contains,
    GuardKind.HASATTR: _hasattr,
    GuardKind.TENSOR_MATCH: _tensor_match,
    GuardKind.DIMENSION_MARKING: _dimension_marking,
}


# --- guards on the process, and on several values ----------------------------------------------


def _global_state(readings: Readings, each: Ambient, scope: Scope) -> Tree:
    wanted = []
    for name, value in _state().items():
        told = readings.read(f"process.{name}", lambda _, name=name: _state()[name])  # type: ignore[misc]
        wanted.append(trees.same(told, value))
    return trees.every(wanted)


def _state() -> dict[str, Atom]:
    guard: Any = torch_guards.GlobalStateGuard()
    if not hasattr(guard, "__getstate__"):  # an older torch tells nothing but whether it changed
        raise _Untold
    told = json.loads(guard.__getstate__())
    told["default_dtype"] = str(torch.get_default_dtype())
    return {name: value if type(value) in _ATOMS else json.dumps(value) for name, value in told.items()}


def _mode_stack(readings: Readings, each: Ambient, scope: Scope) -> Tree:
    def told(name: Callable[[object], str]) -> str:
        return ", ".join(name(type(mode)) for mode in torch.overrides._get_current_function_mode_stack())

    return trees.same(readings.read("process.modes", lambda _: told(readings.names.of)), told(readings.names.give))


def _no_aliasing(readings: Readings, each: Ambient, scope: Scope) -> Tree:
    sources = cast("tuple[Source, ...]", each.guard.expected)
    if len(sources) > 6:
        raise _Untold
    pairs = [_are_one(readings, first, second) for first, second in itertools.combinations(sources, 2)]
    return trees.every([trees.same(pair, False) for pair in pairs])


def _aliasing(readings: Readings, each: Ambient, scope: Scope) -> Tree:
    assert each.guard.source is not None
    return trees.same(_are_one(readings, each.guard.source, cast("Source", each.guard.expected)), True)


def _are_one(readings: Readings, first: Source, second: Source) -> str:
    name = " is ".join(sorted((expression(first), expression(second))))
    return readings.read(name, lambda scope: fetch(first, scope) is fetch(second, scope))


def _shapes(readings: Readings, each: Ambient, scope: Scope) -> Tree:
    assert isinstance(each.guard.expected, ShapeGuards)
    parts = each.guard.expected.expressions
    readable, fetchers = readable_conditions(each.guard.expected, scope)
    told = [
        _shape(readings, part) if part == text else trees.same(readings.read(part, _evaluated(text, fetchers)), True)
        for part, text in zip(parts, readable, strict=True)
    ]
    return trees.every(told or [trees.constant(True)])


def _shape(readings: Readings, part: str) -> Tree:
    tree = trees.parse(part)
    if tree is None:
        return trees.same(readings.read(part, _evaluated(part)), True)
    for name in trees.reads(tree):
        readings.read(name, _evaluated(name))
    return tree


def _evaluated(text: str, fetchers: Mapping[str, Any] = MappingProxyType({})) -> Reader:
    code = compile(ast.parse(text, mode="eval"), "<a guard on shapes>", "eval")
    return lambda scope: _number(eval(code, {**shape_names(scope), **fetchers, "L": scope.locals, "G": scope.globals}))


def _number(value: object) -> Atom:
    return value if type(value) in _ATOMS else int(cast("Any", value))  # type: ignore[return-value]


_AMBIENT: dict[GuardKind, Callable[[Readings, Ambient, Scope], Tree]] = {
    GuardKind.GLOBAL_STATE: _global_state,
    GuardKind.TORCH_FUNCTION_MODE_STACK: _mode_stack,
    GuardKind.NO_TENSOR_ALIASING: _no_aliasing,
    GuardKind.NO_OBJECT_ALIASING: _no_aliasing,
    GuardKind.OBJECT_ALIASING: _aliasing,
    GuardKind.SHAPE_ENV: _shapes,
}
