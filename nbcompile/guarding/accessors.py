"""Guard accessors: from a source to the manager of its value in torch's C++ guard tree.

Each step of a :class:`Source` is one accessor of the tree, so values below a
common prefix are read once. A step without an accessor in C++ is a Python
function. ``capture.resolution.resolve`` defines the value of a source; the
accessors are its fast implementation.

    L['self']._modules['l']   root -> local 'self' -> __dict__ -> '_modules' -> 'l'
    G['h'].__closure__[0]...  root -> globals -> 'h' -> __closure__ -> 0 -> cell_contents

In torch: GuardBuilder.get_guard_manager_from_source in torch/_dynamo/guards.py.
Read next: nbcompile/guarding/prepared.py
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from dataclasses import replace
from types import FunctionType
from typing import Any, assert_never

import torch

from nbcompile.capture.arrays import from_array
from nbcompile.capture.frame import Frame
from nbcompile.capture.resolution import Scope, class_attribute, keys_of, mapping_behind, resolve, values_of
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
    root,
)
from nbcompile.support.class_flags import HEAP_TYPE
from nbcompile.support.real_class import class_is_computed, is_instance
from nbcompile.torch_internals import eval_frame, guards

RootSource = (
    LocalSource | GlobalSource | BuiltinSource | ModuleSource | FunctionModeSource | ConstantSource | DrawSource
)
"""Sources of one step."""

# The dicts in which torch's nn.Module.__getattr__ looks.
MODULE_TABLES = ("_parameters", "_buffers", "_modules")


class _Opaque:
    """Example value for what the tree must read again at every check.

    Also for a dict: for a dict as the example, the tree would create a manager
    that skips immutable items while the dict's version is unchanged.
    """


_OPAQUE = _Opaque()


class SourceCache:
    """Cache of the text and value of every source of one frame (a model has thousands)."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self._seen: dict[Source, ConstantSource] = {}

    def text(self, source: Source) -> str:
        """The cached result of :func:`expression`."""
        return self._lookup(source).name

    def value(self, source: Source) -> object:
        """The cached result of :func:`resolve`."""
        return self._lookup(source).value

    def _lookup(self, source: Source) -> ConstantSource:
        found = self._seen.get(source)
        if found is None:
            # The prefix is replaced by its value: of a source with n steps only the last is resolved, so a model's
            # sources take time linear in their number.
            step = source if isinstance(source, RootSource) else replace(source, base=self._lookup(source.base))
            found = self._seen[source] = ConstantSource(expression(step), resolve(step, self.scope))
        return found


class GuardTree:
    """A root guard manager and the managers below it, one per source."""

    def __init__(
        self, frame: Frame, known: SourceCache, never_cached: frozenset[Source] = frozenset(), top: Source | None = None
    ) -> None:
        self.root: Any = guards.RootGuardManager()
        self._known = known
        self._scope = known.scope
        # The hook hands the locals over as an array, in the order of the code's variables.
        self._positions = {name: index for index, name in enumerate(eval_frame.code_framelocals_names(frame.code))}
        # The argument of a tree for one value (``top``) is that value, not the frame's locals.
        self._managers: dict[Source, Any] = {} if top is None else {top: self.root}
        self._lists: dict[tuple[Source, Callable[[Any], list[object]]], Any] = {}
        self._never_cached = never_cached

    def manager(self, source: Source) -> Any:
        """The manager of a source, created with those of its prefixes on first use."""
        found = self._managers.get(source)
        if found is None:
            found = self._managers[source] = self._make_manager(source)
        return found

    def _list_manager(self, base: Source, read: Callable[[Any], list[object]]) -> Any:
        """The manager of a mapping's keys or values as a list, shared by all positions (an optimizer's state)."""
        found = self._lists.get((base, read))
        if found is None:
            name = f"{read.__name__}({self._known.text(base)})"
            found = self._lists[base, read] = self.manager(base).lambda_manager(read, name, [], None)
        return found

    def _example(self, source: Source) -> object:
        value = self._known.value(source)
        # A value that other guards compare by identity is read at each check, so it must not be skipped either; and
        # torch reads the ``__class__`` of an example.
        opaque = is_instance(value, dict) or class_is_computed(type(value))
        return _OPAQUE if opaque or source in self._never_cached else value

    def _make_manager(self, source: Source) -> Any:
        about = (self._known.text(source), self._example(source), None)
        match source:
            case LocalSource(name):
                return self.root.framelocals_manager((name, self._positions[name]), *about)
            case GlobalSource(name):
                return self._globals().dict_getitem_manager(name, *about)
            case BuiltinSource(name):
                return self._builtin(name, about)
            case ModuleSource(name):
                return self._modules().dict_getitem_manager(name, *about)
            case FunctionModeSource() | ConstantSource() | DrawSource():
                # The tree lives as long as the cache entry: it must not refer to the frame or its values.
                nowhere = Scope(self._scope.code, {}, {}, {})
                return self.root.lambda_manager(lambda _: resolve(source, nowhere), *about)
            case GenericAttrSource(base, attribute):
                return self._generic_attribute(base, attribute, about)
            case AttrSource(base, attribute):
                return self._attribute(base, attribute, about)
            case ItemSource(base, key):
                return self._item(base, key, about)
            case KeySource(base, index):
                return self._list_manager(base, keys_of).list_getitem_manager(index, *about)
            case ValueSource(base, index):
                return self._list_manager(base, values_of).list_getitem_manager(index, *about)
            case IteratorItemSource(base, index):
                return self.manager(base).tuple_iterator_getitem_manager(index, *about)
            case TypeSource(base):
                return self.manager(base).type_manager(*about)
            case MappingSource(base):
                return self.manager(base).lambda_manager(mapping_behind, *about)
            case NoArgsCallSource(base):
                if isinstance(self._known.value(base), weakref.ref):
                    return self.manager(base).weakref_call_manager(*about)
                return self.manager(base).call_function_no_args_manager(*about)
            case CellSource(base, _, index):
                return self._cell(base, index, about)
            case MethodFunctionSource(base, name):
                # ``type(x).method``: the step from x to its class has its own manager, without a source.
                cls = type(self._known.value(base))
                of_type = self.manager(base).type_manager(f"type({self._known.text(base)})", cls, None)
                return self._class_member(of_type, cls, f"type({self._known.text(base)})", name, 0, about)
            case ClassMemberSource(base, name, after):
                owner = self._known.value(base)
                assert is_instance(owner, type)
                return self._class_member(self.manager(base), owner, self._known.text(base), name, after, about)
            case SizeSource(base, property, dim):
                return self.manager(base).lambda_manager(_size_reader(property, dim), *about)
            case ArraySource(base):
                return self.manager(base).lambda_manager(from_array, *about)
            case ParameterSource():
                raise AssertionError("a parameter that the program makes has no guards")
            case _:
                assert_never(source)

    def _globals(self) -> Any:
        return self.root.globals_dict_manager(self._scope.globals, "G", _OPAQUE, None)

    def _modules(self) -> Any:
        return self.root.globals_dict_manager(sys.modules, "sys.modules", _OPAQUE, None)

    def _builtin(self, name: str, about: tuple[str, object, None]) -> Any:
        # ``name`` is the builtin only while no global of that name exists (a later notebook cell may define one).
        self._globals().add_dict_contains_guard(False, name, [f"not ___dict_contains({name!r}, G)"], None)
        names = self.root.globals_dict_manager(self._scope.builtins, "__builtins__", _OPAQUE, None)
        return names.dict_getitem_manager(name, *about)

    def _attribute(self, base: Source, attribute: str, about: tuple[str, object, None]) -> Any:
        owner, manager = self._known.value(base), self.manager(base)
        # ``module.weight`` as nn.Module finds it, but without running ``__getattr__`` in Python at each check:
        #     module -> module.__dict__ -> ["_parameters"] -> ["weight"]
        if is_instance(owner, torch.nn.Module) and (tables := module_table(owner, attribute)) is not None:
            below = manager.get_generic_dict_manager(f"{self._known.text(base)}.__dict__", _OPAQUE, None)
            for table in tables:
                # Module.__getattr__ runs only for attributes that the instance's dict does not have.
                absent = f"not ___dict_contains({attribute!r}, {self._known.text(base)}.__dict__)"
                below.add_dict_contains_guard(False, attribute, [absent], None)
                below = below.dict_getitem_manager(table, f"{self._known.text(base)}.{table}", _OPAQUE, None)
            return below.dict_getitem_manager(attribute, *about)
        if attribute == "grad" and is_instance(owner, torch.Tensor):
            return manager.grad_manager(*about)
        if attribute == "__code__" and is_instance(owner, FunctionType):
            return manager.code_manager(*about)
        # These two accessors fail for a function without any: None is read by the generic accessor.
        if attribute == "__defaults__" and is_instance(owner, FunctionType) and owner.__defaults__ is not None:
            return manager.func_defaults_manager(*about)
        if attribute == "__kwdefaults__" and is_instance(owner, FunctionType) and owner.__kwdefaults__ is not None:
            return manager.func_kwdefaults_manager(*about)
        return manager.getattr_manager(attribute, *about)

    def _generic_attribute(self, base: Source, attribute: str, about: tuple[str, object, None]) -> Any:
        if is_own(self._known.value(base), attribute):
            members = f"{self._known.text(base)}.__dict__"
            own = self.manager(base).get_generic_dict_manager(members, _OPAQUE, None)
            return own.dict_getitem_manager(attribute, *about)
        return self.manager(base).lambda_manager(lambda value: object.__getattribute__(value, attribute), *about)

    def _item(self, base: Source, key: object, about: tuple[str, object, None]) -> Any:
        container, manager = self._known.value(base), self.manager(base)
        if is_instance(container, dict):
            return manager.dict_getitem_manager(key, *about)
        # The C++ accessors index from the front and take exact ints.
        if type(key) is int and key >= 0 and type(container) is list:
            return manager.list_getitem_manager(key, *about)
        if type(key) is int and key >= 0 and is_instance(container, tuple):
            return manager.tuple_getitem_manager(key, *about)
        # A slice, a negative index, or a container of another class: read in Python. The function refers to the key
        # alone, and not to the traced container.
        reader = ItemSource(LocalSource("value"), key)
        code = self._scope.code
        return manager.lambda_manager(lambda value: resolve(reader, Scope(code, {"value": value}, {}, {})), *about)

    def _cell(self, base: Source, index: int, about: tuple[str, object, None]) -> Any:
        function = self._known.value(base)
        assert isinstance(function, FunctionType) and function.__closure__ is not None
        text = self._known.text(base)
        closure = self.manager(base).closure_manager(f"{text}.__closure__", function.__closure__, None)
        # A closure is a tuple of cells, and ``cell_contents`` is the current value of a cell.
        cell = closure.tuple_getitem_manager(index, f"{text}.__closure__[{index}]", function.__closure__[index], None)
        return cell.getattr_manager("cell_contents", *about)

    def _class_member(
        self, of_type: Any, cls: type, text: str, name: str, after: int, about: tuple[str, object, None]
    ) -> Any:
        mro = cls.__mro__
        holder = next(index for index, each in enumerate(mro) if index >= after and name in each.__dict__)
        if not all(each.__flags__ & HEAP_TYPE for each in mro[: holder + 1]):
            return of_type.lambda_manager(lambda value: class_attribute(value, name, after), *about)
        classes = of_type.type_mro_manager(f"{text}.__mro__", mro, None)
        # Python takes the first class of the method resolution order that has the name. So each class before it is
        # checked to lack the name, and the holder's entry is the value.
        #     mro[0].__dict__  lacks name
        #     mro[1].__dict__  lacks name
        #     mro[2].__dict__  [name]
        for index in range(after, holder + 1):
            where = f"{text}.__mro__[{index}]"
            one = classes.tuple_getitem_manager(index, where, mro[index], None)
            table = one.type_dict_manager(f"{where}.__dict__", _OPAQUE, None)
            if index < holder:  # no class earlier in the method resolution order may define it later
                absent = f"not ___dict_contains({name!r}, {where}.__dict__)"
                table.add_dict_contains_guard(False, name, [absent], None)
        return table.dict_getitem_manager(name, *about)


def module_table(owner: torch.nn.Module, attribute: str) -> tuple[str, ...] | None:
    """Path below its ``__dict__`` to a module's attribute: (), or a table's name; None if it is found another way."""
    if not _plain_lookup(type(owner), attribute):
        return None
    if attribute in vars(owner):
        return ()
    for table in MODULE_TABLES:
        held = vars(owner).get(table)
        if type(held) is dict and attribute in held:
            return (table,) if _plain_getattr(type(owner)) else None
    return None


def is_own(owner: object, attribute: str) -> bool:
    """Return whether an attribute is in the object's own ``__dict__``, and no data descriptor takes precedence."""
    try:
        members = object.__getattribute__(owner, "__dict__")
    except AttributeError:
        return False
    return type(members) is dict and attribute in members and not _is_data_descriptor(type(owner), attribute)


def _plain_lookup(cls: type, attribute: str) -> bool:
    """Return whether reading the attribute looks into the instance first: no data descriptor, no __getattribute__."""
    if class_attribute(cls, "__getattribute__") is not object.__dict__["__getattribute__"]:
        return False
    return not _is_data_descriptor(cls, attribute)


def _is_data_descriptor(cls: type, attribute: str) -> bool:
    try:
        found = class_attribute(cls, attribute)
    except AttributeError:
        return False
    return hasattr(type(found), "__set__") or hasattr(type(found), "__delete__")


def _plain_getattr(cls: type) -> bool:
    return class_attribute(cls, "__getattr__") is torch.nn.Module.__dict__["__getattr__"]


def _size_reader(which: str, dim: int | None) -> Callable[[Any], object]:
    if dim is None:
        return lambda tensor: getattr(tensor, which)()
    return lambda tensor: getattr(tensor, which)(dim)


def fetch(source: Source, scope: Scope) -> object:
    """Resolve a source; a builtin that a global of the same name hides is an error."""
    first = root(source)
    if isinstance(first, BuiltinSource) and first.name in scope.globals:
        raise NameError(f"{first.name!r} is a global now, no builtin")
    return resolve(source, scope)
