"""Sources as expressions that read the value again.

    AttrSource(LocalSource("self"), "weight")      self.weight
    KeySource(LocalSource("d"), 0)                 __keys_of(d)[0]

A common prefix of several inputs' sources is assigned to a local first, so
that it is read once.

In torch: torch/_dynamo/source.py (Source.reconstruct). Read next:
nbcompile/rewriting/values.py
"""

from __future__ import annotations

import ast
import builtins
import cmath
import inspect
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch

from nbcompile import torch_internals
from nbcompile.capture.arrays import from_array
from nbcompile.capture.complex_literals import exact
from nbcompile.capture.resolution import (
    class_attribute,
    has_own_items,
    iterator_item,
    keys_of,
    mapping_behind,
    read_attribute,
    read_item,
    read_property,
    resolve,
    values_of,
)
from nbcompile.capture.source import (
    ArraySource,
    AttrSource,
    BuiltinSource,
    CellSource,
    ClassMemberSource,
    ConstantSource,
    DrawSource,
    FunctionModeSource,
    GenericAttrSource,
    GlobalSource,
    ItemSource,
    IteratorItemSource,
    KeySource,
    LocalSource,
    MappingSource,
    MethodFunctionSource,
    ModuleSource,
    NoArgsCallSource,
    ParameterSource,
    SizeSource,
    Source,
    TypeSource,
    ValueSource,
    expression,
)
from nbcompile.rewriting.body import Body
from nbcompile.rewriting.syntax import assign, identifier
from nbcompile.support.real_class import is_instance

LITERALS = (int, float, str, bytes, bool, type(None), complex)


@dataclass(frozen=True, slots=True)
class MappingItems:
    """All keys, or all values, of a mapping: read once for all positions that are fetched."""

    base: Source
    read: Callable[[Any], list[object]]


def prefix_of(step: Source | MappingItems) -> Source | MappingItems | None:
    """Prefix of a source that is assigned to a local if several sources share it; None: there is none."""
    match step:
        case AttrSource(base) | ItemSource(base) | MappingItems(base):
            return base
        case KeySource(base):
            return MappingItems(base, keys_of)
        case ValueSource(base):
            return MappingItems(base, values_of)
    return None


def text_of(owner: Source | MappingItems) -> str:
    """The text of a prefix; a longer prefix has a longer text."""
    return f"list({expression(owner.base)}.values())" if isinstance(owner, MappingItems) else expression(owner)


def name_for(owner: Source | MappingItems) -> str:
    """A readable name for the local that holds a prefix."""
    match owner:
        case MappingItems(_, read):
            return read.__name__.removesuffix("_of")
        case AttrSource(_, attribute):
            return attribute
        case ItemSource(_, key):
            return f"item_{key}"
        case KeySource(_, index) | ValueSource(_, index):
            return f"item_{index}"
    return "owner"


class SourceReader:
    """Writer of the expressions that read sources, in one body."""

    def __init__(self, body: Body) -> None:
        self.body = body
        self.owners: dict[Source | MappingItems, str] = {}
        """Locals that hold prefixes until the graph is called."""
        self.before_graph: list[str] = []
        """Locals that hold random numbers and new parameters, in the order of the calls that return them."""

    def name_owners(self, sources: Iterable[Source]) -> None:
        """Assign common prefixes of several inputs to locals, the shortest first, so that each is read once.

        self.layers[0].weight, self.layers[0].bias    ->    item_0 = self.layers[0]; item_0.weight, item_0.bias
        """
        # A tree of steps: for each prefix, the steps that begin with it. A prefix with two or more is worth a local; a
        # single name (``prefix_of`` is None) is as cheap to read as a local.
        below: dict[Source | MappingItems, set[Source | MappingItems]] = {}
        for source in sources:
            step: Source | MappingItems = source
            while (owner := prefix_of(step)) is not None:
                below.setdefault(owner, set()).add(step)
                step = owner
        shared = [each for each, steps in below.items() if len(steps) > 1 and prefix_of(each) is not None]
        for owner in sorted(shared, key=lambda owner: len(text_of(owner))):
            fetched = self.fetch_list(owner) if isinstance(owner, MappingItems) else self.fetch(owner)
            name = self.body.fresh(re.sub(r"\W+", "_", name_for(owner)).strip("_") or "owner")
            self.body.statements.append(assign(name, fetched))
            self.owners[owner] = name

    def fetch_list(self, listed: MappingItems) -> ast.expr:
        """The expression of a mapping's keys or values as a list."""
        if listed in self.owners:
            return ast.Name(self.owners[listed], ast.Load())
        return ast.Call(self.body.constant(listed.read, listed.read.__name__), [self.fetch(listed.base)], [])

    def fetch(self, source: Source) -> ast.expr:
        """The expression that reads the value of a source.

        One case per kind of source, from its base outwards. Where reading could run user code that eager did not run
        (a tensor subclass, a function mode), a function that bypasses it is called instead of ``base.name``.
        """
        if source in self.owners:
            return ast.Name(self.owners[source], ast.Load())
        match source:
            case LocalSource(name):
                return ast.Name(identifier(name), ast.Load())
            case GlobalSource(name):
                # A local or free variable of the same name would hide the global; and ``exec`` may make names
                # that no syntax has.
                if name in self.body.taken or not name.isidentifier():
                    scope = self.body.constant(self.body.frame.globals, "globals")
                    return ast.Subscript(scope, ast.Constant(name), ast.Load())
                return ast.Name(name, ast.Load())
            case BuiltinSource(name):
                # The object itself: in this function the name may be a local or a global of the user's.
                return self.body.constant(getattr(builtins, name), name)
            case ModuleSource(name):
                return self.body.constant(sys.modules[name], name)
            case FunctionModeSource(index):
                mode_at = self.body.constant(torch_internals.function_mode_at, "function_mode_at")
                return ast.Call(mode_at, [ast.Constant(index)], [])
            case GenericAttrSource(base, attribute):
                # The class has a ``__getattribute__`` of its own, which was traced: reading must not run it again.
                read = self.body.constant(object.__getattribute__, "getattribute_of_object")
                return ast.Call(read, [self.fetch(base), ast.Constant(attribute)], [])
            case AttrSource(base, attribute):
                # A tensor subclass or a mode would see the attribute access through ``__torch_function__``.
                if self.may_run_override(base):
                    read = self.body.constant(read_attribute, "read_attribute")
                    return ast.Call(read, [self.fetch(base), ast.Constant(attribute)], [])
                return ast.Attribute(self.fetch(base), attribute, ast.Load())
            case ItemSource(base, key):
                # A ``__getitem__`` in Python was traced, or not called at all: reading must not run it.
                if has_own_items(resolve(base, self.body.frame.scope())):
                    read = self.body.constant(read_item, "read_item")
                    return ast.Call(read, [self.fetch(base), self.literal(key, "key")], [])
                return ast.Subscript(self.fetch(base), self.literal(key, "key"), ast.Load())
            case KeySource(base, index):
                # By position: the key may have a ``__hash__`` of the user's, or be a tensor.
                return ast.Subscript(self.fetch_list(MappingItems(base, keys_of)), ast.Constant(index), ast.Load())
            case ValueSource(base, index):
                return ast.Subscript(self.fetch_list(MappingItems(base, values_of)), ast.Constant(index), ast.Load())
            case IteratorItemSource(base, index):
                return ast.Call(
                    self.body.constant(iterator_item, "iterator_item"), [self.fetch(base), ast.Constant(index)], []
                )
            case TypeSource(base):
                return ast.Call(self.body.constant(type, "type"), [self.fetch(base)], [])
            case MappingSource(base):
                return ast.Call(self.body.constant(mapping_behind, "mapping_behind"), [self.fetch(base)], [])
            case NoArgsCallSource(base):
                return ast.Call(self.fetch(base), [], [])
            case CellSource(base, _, index):
                cell = ast.Subscript(
                    ast.Attribute(self.fetch(base), "__closure__", ast.Load()), ast.Constant(index), ast.Load()
                )
                return ast.Attribute(cell, "cell_contents", ast.Load())
            case MethodFunctionSource(base, name):
                # Unbound: the function in the class's dict, and not a method bound to the object.
                return self.class_member(TypeSource(base), name, 0, resolve(source, self.body.frame.scope()))
            case ClassMemberSource(base, name, after):
                return self.class_member(base, name, after, resolve(source, self.body.frame.scope()))
            case ConstantSource(name, value):
                return self.body.constant(value, name)
            case SizeSource(base, property, dim):
                return self.property(base, property, dim)
            case ArraySource(base):
                return ast.Call(self.body.constant(from_array, "from_array"), [self.fetch(base)], [])
            case DrawSource(index) | ParameterSource(index=index):
                return ast.Name(self.before_graph[index], ast.Load())
        raise AssertionError(source)

    def property(self, tensor: Source, name: str, dim: int | None) -> ast.expr:
        """A size, a stride, ... of a tensor, read without its class or a function mode."""
        arguments: list[ast.expr] = [] if dim is None else [ast.Constant(dim)]
        if self.may_run_override(tensor):
            arguments = [self.fetch(tensor), ast.Constant(name), ast.Constant(dim)]
            return ast.Call(self.body.constant(read_property, "read_property"), arguments, [])
        return ast.Call(ast.Attribute(self.fetch(tensor), name, ast.Load()), arguments, [])

    def may_run_override(self, owner: Source) -> bool:
        """Return whether reading an attribute may run a ``__torch_function__`` of a class or of a mode."""
        value = resolve(owner, self.body.frame.scope())
        modes = is_instance(value, torch.Tensor) and bool(torch_internals.function_modes())
        return modes or torch_internals.is_overriding(value)

    def class_member(self, cls: Source, name: str, after: int, found: object) -> ast.expr:
        """A member of a class, unbound: ``cls.name`` where that binds nothing."""
        # ``cls.f`` of a plain function gives the function itself; a descriptor's ``__get__``
        # would return something else, and so would one of the metaclass (``__annotations__``, a property).
        unbound = isinstance(found, (FunctionType, property, classmethod)) or not hasattr(type(found), "__get__")
        of_metaclass = inspect.getattr_static(type(resolve(cls, self.body.frame.scope())), name, None)
        if unbound and not after and not inspect.isdatadescriptor(of_metaclass):
            return ast.Attribute(self.fetch(cls), name, ast.Load())
        arguments: list[ast.expr] = [self.fetch(cls), ast.Constant(name), ast.Constant(after)]
        return ast.Call(self.body.constant(class_attribute, "class_attribute"), arguments, [])

    def literal(self, value: Any, name: str) -> ast.expr:
        """A constant: a literal where Python has one for it."""
        if type(value) in LITERALS and not without_literal(value):
            return ast.Constant(value)
        # A tuple of literals is a literal.
        if type(value) is tuple and all(type(each) in LITERALS for each in value):
            return ast.Tuple([self.literal(each, "item") for each in value], ast.Load())
        return self.body.constant(value, name)


MOST_BITS = 2000
"""Length of an int that has a literal: ``sys.set_int_max_str_digits`` allows 640 digits or more."""


def without_literal(value: Any) -> bool:
    """Return whether a number has no literal: inf, nan, complex numbers with one of these or a negative zero.

    Nor has an int that may be too long for Python to write it as a text.
    """
    if isinstance(value, int):
        return value.bit_length() > MOST_BITS
    return isinstance(value, (float, complex)) and (not cmath.isfinite(value) or exact(value) is not value)
