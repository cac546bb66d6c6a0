"""Guards as expression trees over the values of a call, which a page evaluates without a kernel.

    TENSOR_MATCH  L['x']     type(L['x']) same 'Tensor' and L['x'].dtype same 'torch.float32' and ...

A builder registers the values that its tree reads. What no tree expresses raises :class:`NotExpressible`: the
page then gets one value, whether the predicate holds.

In torch: nothing. Read next: nbcompile/guarding/encodings/instructions.py
"""

from __future__ import annotations

import ast
import enum
import functools
import itertools
import json
from collections.abc import Callable, Mapping
from types import CodeType, FunctionType, MappingProxyType
from typing import Any, cast

import torch
import torch.overrides

from nbcompile.capture.guard import GuardKind, ShapeGuards, TensorFacts, TensorMarks, tensor_property
from nbcompile.capture.resolution import Scope, keys_of
from nbcompile.capture.source import Source, expression
from nbcompile.guarding.accessors import fetch
from nbcompile.guarding.encodings.ambient import readable_conditions, shape_names
from nbcompile.guarding.page_values import Atom, PageValues, Reader
from nbcompile.guarding.prepared import Ambient, Leaf
from nbcompile.guarding.values import has_member, spelled_property
from nbcompile.record import model, trees
from nbcompile.record.trees import Tree
from nbcompile.torch_internals import guards as torch_guards

_ATOMS = (int, float, bool, str, type(None))
_PLAIN = (*_ATOMS, bytes, complex, type(...), torch.dtype, torch.device, torch.Size, range)
_LONGEST = 200
"""Maximal number of characters of a string that a page compares."""


class Unreadable(Exception):
    """A value that a page cannot represent; guards that depend on it do not hold."""


class NotExpressible(Exception):
    """A guard that no tree expresses."""


def type_match(values: PageValues, prepared: Leaf, scope: Scope) -> Tree:
    expected = prepared.strong_guard().expected
    assert isinstance(expected, type)
    return values.of_type(_source(prepared), expected)


def id_match(values: PageValues, prepared: Leaf, scope: Scope) -> Tree:
    name = values.of(_source(prepared), "id({})", values.names.of)
    return trees.same(name, values.names.assign(fetch(_source(prepared), scope)))


def function_match(values: PageValues, prepared: Leaf, scope: Scope) -> Tree:
    value = fetch(_source(prepared), scope)
    code = getattr(value, "__code__", None)
    if not isinstance(code, CodeType):
        return id_match(values, prepared, scope)
    same_code = trees.same(
        values.of(_source(prepared), "id({}.__code__)", lambda value: values.names.of(value.__code__)),
        values.names.assign(code),
    )
    if not isinstance(value, FunctionType):
        return same_code
    return trees.every([values.of_type(_source(prepared), FunctionType), same_code])


def constant_match(values: PageValues, prepared: Leaf, scope: Scope) -> Tree:
    """None, True, False, numbers, texts; what holds such (a tuple, a dtype) is compared by how it is spelled."""
    value, source = prepared.guard.expected, _source(prepared)
    if isinstance(value, _ATOMS) and type(value) in _ATOMS:
        _atom(value)
        values.sources[expression(source)] = source
        return trees.same(values.of(source, "{}", _atom), value)
    return trees.same(values.of(source, "repr({})", spelled), spelled(value))


def nan_match(values: PageValues, prepared: Leaf, scope: Scope) -> Tree:
    if isinstance(prepared.guard.expected, complex):
        raise NotExpressible
    value = trees.read(values.of(_source(prepared), "{}", _atom))
    return {"op": "isnan", "of": [value]}


def length(values: PageValues, prepared: Leaf, scope: Scope) -> Tree:
    source, value = _source(prepared), fetch(_source(prepared), scope)
    if isinstance(value, dict):
        return dict_length(values, prepared, scope)
    return trees.every([values.of_type(source, type(value)), _has_length(values, prepared)])


def _has_length(values: PageValues, prepared: Leaf) -> Tree:
    return trees.same(values.of(_source(prepared), "len({})", _length_of), cast("int", prepared.guard.expected))


def _length_of(value: Any) -> int:
    return dict.__len__(value) if isinstance(value, dict) else len(value)


def _is_dict(values: PageValues, prepared: Leaf) -> Tree:
    name = values.of(_source(prepared), "isinstance({}, dict)", lambda value: isinstance(value, dict))
    return trees.same(name, True)


def dict_length(values: PageValues, prepared: Leaf, scope: Scope) -> Tree:
    return trees.every([_is_dict(values, prepared), _has_length(values, prepared)])


def dict_keys(values: PageValues, prepared: Leaf, scope: Scope) -> Tree:
    keys = trees.same(values.of(_source(prepared), "list({})", _spelled_keys), spelled(prepared.guard.expected))
    if isinstance(fetch(_source(prepared), scope), MappingProxyType):
        return keys
    return trees.every([_is_dict(values, prepared), keys])


def _spelled_keys(value: Any) -> str:
    return spelled(tuple(keys_of(value)))


def contains(values: PageValues, prepared: Leaf, scope: Scope) -> Tree:
    item, expected = cast("tuple[Any, bool]", prepared.strong_guard().expected)
    # The name becomes a format string with one field, for the source: braces of the item are doubled.
    name = spelled(item).replace("{", "{{").replace("}", "}}") + " in {}"
    in_set = prepared.guard.kind is GuardKind.SET_CONTAINS

    def held(value: Any) -> bool:
        return has_member(value, item) if in_set else item in value

    found = trees.same(values.of(_source(prepared), name, held), expected)
    return trees.every([values.of_type(_source(prepared), type(fetch(_source(prepared), scope))), found])


def has_attribute(values: PageValues, prepared: Leaf, scope: Scope) -> Tree:
    name, expected = cast("tuple[str, bool]", prepared.guard.expected)
    found = values.of(_source(prepared), f"hasattr({{}}, {name!r})", lambda value: hasattr(value, name))
    return trees.same(found, expected)


def tensor_match(values: PageValues, prepared: Leaf, scope: Scope) -> Tree:
    source, facts = _source(prepared), prepared.guard.expected
    tensor = fetch(source, scope)
    assert isinstance(facts, TensorFacts) and isinstance(tensor, torch.Tensor)
    values.sources[expression(source)] = source
    conditions = [
        values.of_type(source, type(tensor)),
        *(trees.same(values.of(source, name, function), function(tensor)) for name, function in _OF_TENSORS),
    ]
    for name, expected, read in (("size", facts.sizes, _size), ("stride", facts.strides, _stride)):
        # Dynamic sizes of this entry are read too, and so are the sizes of all dims of a call with more dims.
        names = [
            values.of(source, f"{{}}.{name}()[{dim}]", _at(read, dim))
            for dim in range(max(model.PREDICTED_DIMS, tensor.dim()))
        ]
        conditions += [
            trees.same(size, number) for size, number in zip(names, expected or (), strict=False) if number is not None
        ]
    return trees.every(conditions)


_OF_TENSORS: tuple[tuple[str, Callable[[torch.Tensor], Atom]], ...] = (
    ("keys({})", lambda tensor: str(torch._C._dispatch_keys(tensor))),
    ("{}.dtype", lambda tensor: str(tensor.dtype)),
    ("{}.device", lambda tensor: str(tensor.device)),
    ("{}.requires_grad", lambda tensor: tensor.requires_grad),
    ("{}.dim()", lambda tensor: tensor.dim()),
)


def _size(tensor: torch.Tensor, dim: int) -> int:
    return tensor.shape[dim]


def _stride(tensor: torch.Tensor, dim: int) -> int:
    return tensor.stride()[dim]


def _at(read: Callable[[torch.Tensor, int], int], dim: int) -> Callable[[torch.Tensor], int]:
    return lambda tensor: read(tensor, dim)


def tensor_property_match(values: PageValues, prepared: Leaf, scope: Scope) -> Tree:
    name, expected = cast("tuple[str, bool]", prepared.guard.expected)
    read = functools.partial(tensor_property, name=name)
    return trees.same(values.of(_source(prepared), f"{{}}.{spelled_property(name)}", read), expected)


def dimension_marking(values: PageValues, prepared: Leaf, scope: Scope) -> Tree:
    marks = prepared.guard.expected
    assert isinstance(marks, TensorMarks)
    if marks.present:
        raise NotExpressible
    absent = marks.absent
    is_marked = values.of(_source(prepared), "marked({})", lambda value: any(hasattr(value, mark) for mark in absent))
    return trees.same(is_marked, False)


def _source(prepared: Leaf) -> Source:
    assert prepared.guard.source is not None
    return prepared.guard.source


def _atom(value: object) -> Atom:
    if type(value) not in _ATOMS or (isinstance(value, str) and len(value) > _LONGEST):
        raise Unreadable
    return value  # type: ignore[return-value]


def spelled(value: object) -> str:
    """A constant as text; two constants have one text exactly if guards take them for the same.

    Raises:
        NotExpressible: the value is no constant, or its text is too long.
    """
    text = _spelled(value)
    if len(text) > _LONGEST:
        raise NotExpressible
    return text


def _spelled(value: object) -> str:
    if type(value) in (tuple, slice):
        parts = (value.start, value.stop, value.step) if isinstance(value, slice) else cast("tuple[object, ...]", value)
        return f"{type(value).__name__}({', '.join(map(_spelled, parts))})"
    # The order of a set depends on hashes, and hashes of strings on the process: the sorted items
    # of equal sets have one text.
    if type(value) is frozenset:
        return f"frozenset({', '.join(sorted(map(_spelled, value)))})"
    if type(value) in _PLAIN or isinstance(value, enum.Enum):
        return repr(value)
    raise NotExpressible


def global_state(values: PageValues, prepared: Ambient, scope: Scope) -> Tree:
    conditions = []
    for name, value in _state().items():
        process_value = values.read(f"process.{name}", lambda _, name=name: _state()[name])  # type: ignore[misc]
        conditions.append(trees.same(process_value, value))
    return trees.every(conditions)


def _state() -> dict[str, Atom]:
    guard: Any = torch_guards.GlobalStateGuard()
    if not hasattr(guard, "__getstate__"):  # an older torch says only whether it changed
        raise NotExpressible
    state = json.loads(guard.__getstate__())
    state["default_dtype"] = str(torch.get_default_dtype())
    return {name: value if type(value) in _ATOMS else json.dumps(value) for name, value in state.items()}


def mode_stack(values: PageValues, prepared: Ambient, scope: Scope) -> Tree:
    def class_names(name: Callable[[object], str]) -> str:
        return ", ".join(name(type(mode)) for mode in torch.overrides._get_current_function_mode_stack())

    return trees.same(
        values.read("process.modes", lambda _: class_names(values.names.of)), class_names(values.names.assign)
    )


def no_aliasing(values: PageValues, prepared: Ambient, scope: Scope) -> Tree:
    sources = cast("tuple[Source, ...]", prepared.guard.expected)
    # n values are n * (n - 1) / 2 pairs, each of which is a value of the page: from 21 pairs on,
    # all are one value.
    if len(sources) > 6:
        raise NotExpressible
    pairs = [_are_one(values, first, second) for first, second in itertools.combinations(sources, 2)]
    return trees.every([trees.same(pair, False) for pair in pairs])


def aliasing(values: PageValues, prepared: Ambient, scope: Scope) -> Tree:
    assert prepared.guard.source is not None
    return trees.same(_are_one(values, prepared.guard.source, cast("Source", prepared.guard.expected)), True)


def _are_one(values: PageValues, first: Source, second: Source) -> str:
    # Sorted: ``a is b`` and ``b is a`` are one value.
    name = " is ".join(sorted((expression(first), expression(second))))
    return values.read(name, lambda scope: fetch(first, scope) is fetch(second, scope))


def shapes(values: PageValues, prepared: Ambient, scope: Scope) -> Tree:
    assert isinstance(prepared.guard.expected, ShapeGuards)
    parts = prepared.guard.expected.expressions
    readable, fetchers = readable_conditions(prepared.guard.expected, scope)
    with torch._C.DisableTorchFunction():  # function modes have guards of their own
        texts = [
            _shape(values, part, scope)
            if part == text
            else trees.same(values.read(part, _evaluated(text, fetchers, bool)), True)
            for part, text in zip(parts, readable, strict=True)
        ]
    return trees.every(texts or [trees.constant(True)])


def _shape(values: PageValues, part: str, scope: Scope) -> Tree:
    tree = trees.parse(part)
    # The ragged size of a nested tensor is no number, and a page cannot compute with it.
    if tree is None or not all(type(_evaluated(name)(scope)) in _ATOMS for name in trees.reads(tree)):
        return trees.same(values.read(part, _evaluated(part, write=bool)), True)
    for name in trees.reads(tree):
        values.read(name, _evaluated(name))
    return tree


def _evaluated(
    text: str, fetchers: Mapping[str, Any] = MappingProxyType({}), write: Callable[[Any], Atom] | None = None
) -> Reader:
    # Once; the reader runs for every call whose values are taken.
    code = compile(ast.parse(text, mode="eval"), "<a guard on shapes>", "eval")
    write = write or _number
    return lambda scope: write(eval(code, {**shape_names(scope), **fetchers, "L": scope.locals, "G": scope.globals}))


def _number(value: object) -> Atom:
    return value if type(value) in _ATOMS else int(cast("Any", value))  # type: ignore[return-value]
