"""Encode guards as bytecode for an interpreter in C, for calls that need no frame hook.

    L['x'] check_tensor(...)      TENSOR 0 facts            the slots of the interpreter: first the function's arguments
    G['k'] == 3                   LOOK_UP (globals, 'k')    and free variables, then each value that is fetched
                                  EQUALS 1 3
    L['self'] ... in a group      ASK 0 cached check

The bytecode is written at a call that the guards accept, because their values decide how a source is read. A guard
without an instruction of its own is evaluated in Python (ASK); a source that the interpreter cannot read raises
:class:`NotEncodable`, and such calls go through the hook.

In torch: nothing; guards are objects of C++. Read next: nbcompile/fast/fast_call.py
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import BuiltinFunctionType, CodeType, FunctionType, MethodDescriptorType, ModuleType, NoneType
from typing import Any, Protocol, cast

import torch
import torch.utils._device

from nbcompile.capture.guard import GuardKind, TensorFacts, TensorMarks
from nbcompile.capture.source import (
    AttrSource,
    BuiltinSource,
    CellSource,
    ClassMemberSource,
    ConstantSource,
    GenericAttrSource,
    GlobalSource,
    ItemSource,
    KeySource,
    LocalSource,
    MethodFunctionSource,
    ModuleSource,
    NoArgsCallSource,
    Scope,
    Source,
    TypeSource,
    ValueSource,
    class_attribute,
)
from nbcompile.guarding.accessors import MODULE_TABLES, SourceCache, is_own, module_table
from nbcompile.guarding.ambient import Ambient
from nbcompile.guarding.check import FrameCheck
from nbcompile.guarding.guard_kinds import ExpectedKey, Leaf, has_lookalikes
from nbcompile.torch_internals import FORWARD_LEVEL, members

Instruction = tuple[str, int, int, int, object]
"""Operation, slot that is looked at (-1: none), number, address, object."""
Fact = tuple[dict[str, Any], str, object]
"""A dict, a key, and the very object it leads to; None: the key is not there."""
NOTHING = -1
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
PLAIN = (torch.Tensor, torch.nn.Parameter)


class TorchNumbers(Protocol):
    """Torch's numbers for dispatch keys, dtypes and devices."""

    def key_difference(self, keys: tuple[int, int]) -> tuple[int, int]:
        """A thread's dispatch keys as their difference from the default ones."""

    def numbers(self, dtype: torch.dtype, device: torch.device) -> tuple[int, int, int]:
        """A dtype, the type of a device and its index."""


class NotEncodable(Exception):
    """A guard that no instruction of fast_call.c can evaluate."""


@dataclass(frozen=True, slots=True)
class ExtraConditions:
    """Conditions that a fast call needs besides the guards, because it bypasses the frame hook."""

    facts: Sequence[Fact] = ()
    empty: Sequence[Any] = ()
    """A list that must be empty."""
    methods: Sequence[str] = ()
    """For a module that is called: the methods between the call and the frame that was compiled."""


_NO_CONDITIONS = ExtraConditions()


def instructions(
    check: FrameCheck, scope: Scope, tools: TorchNumbers, extra: ExtraConditions = _NO_CONDITIONS
) -> tuple[list[str], list[Instruction]]:
    """The names of the locals and the instructions that check them, for a call that the guards accept.

    Args:
        check: the guards.
        scope: the call.
        tools: torch's numbers for dtypes and devices.
        extra: conditions besides the guards.

    Raises:
        NotEncodable: a guard has no instructions.
    """
    writer = _Writer(scope, tools)
    # First what the hook would have checked (modules' hooks and methods, the thread's modes), then the values.
    if isinstance(extra.empty, list):
        writer.emit("EMPTY", key=extra.empty)
    for fact in extra.facts:
        writer.fact(*fact)
    if extra.methods:
        writer.module_call(extra.methods)
    # The keys of the thread first: tensors are compared under them, as torch's tree does.
    writer.emit("KEYS_OF_THREAD", key=tools.key_difference(check.thread_keys))
    own = [each for position, each in enumerate(check.prepared) if position not in check.remembered]
    for prepared in own:
        if isinstance(prepared, Leaf):
            writer.leaf(prepared)
        elif prepared.guard.kind is not GuardKind.SHAPE_ENV:
            writer.ambient(prepared)
    # A group is one instruction: its cache answers for all its guards.
    for group in check.groups:
        writer.emit("ASK", writer.slot(group.source), key=group.cached)
    for prepared in own:  # sizes last: they are of tensors that are known to be such
        if isinstance(prepared, Ambient) and prepared.guard.kind is GuardKind.SHAPE_ENV:
            writer.ambient(prepared)
    return writer.names, writer.written


def local_names(code: CodeType) -> list[str]:
    """The names of a function's arguments, then of its free variables."""
    rest = bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)  # *args, **kwargs
    return [*code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + rest], *code.co_freevars]


class _Writer:
    def __init__(self, scope: Scope, tools: TorchNumbers) -> None:
        self.names = local_names(scope.code)
        self.written: list[Instruction] = []
        self._scope = scope
        self._known = SourceCache(scope)
        self._tools = tools
        # Slots: first the arguments and free variables, then a new one for each instruction that fetches.
        self._slots: dict[object, int] = {LocalSource(name): number for number, name in enumerate(self.names)}
        self._made = len(self.names)

    def emit(self, operation: str, slot: int = NOTHING, number: int = 0, address: int = 0, key: object = None) -> None:
        """Write one instruction that says yes or no."""
        self.written.append((operation, slot, number, address, key))

    def fact(self, table: dict[str, Any], name: str, value: object) -> None:
        """A dict holds an object under a name, or nothing."""
        if value is None:
            self.emit("ABSENT", key=(table, name))
        else:
            self._is(self.into("LOOK_UP", key=(table, name)), value)

    def module_call(self, methods: Sequence[str]) -> None:
        """The first argument is a module whose call only leads to its ``forward``: torch's own call, and no hooks."""
        module = self._scope.locals[self.names[0]]
        cls, table = self.into("CLASS", 0), self.into("VARS", 0)
        for name in methods:
            method = class_attribute(type(module), name)
            if name != "forward" and method is not class_attribute(torch.nn.Module, name):
                raise NotEncodable(name)
            self._is(self.into("MEMBER", cls, key=name), method)
            self.emit("LACKS", table, key=name)
        if "__call__" in methods:
            self._is(self.into("MEMBER", cls, key="_compiled_call_impl"), None)
            self.emit("LACKS", table, key="_compiled_call_impl")
        for name in _HOOKS:
            self.emit("DICT_LENGTH", self.into("ITEM", table, key=name), 0)
            self.emit("EMPTY", key=getattr(torch.nn.modules.module, f"_global{name}"))

    # -- values --------------------------------------------------------------------------------------------------------

    def slot(self, source: Source) -> int:
        """The slot of the value at an address; fetched once."""
        if source not in self._slots:
            self._slots[source] = self._fetch(source)
        return self._slots[source]

    def into(self, operation: str, slot: int = NOTHING, number: int = 0, key: object = None) -> int:
        """Write one instruction that fetches a value; the slot where it is."""
        # The key of a fetched value is what fetches it, so a value that many guards read is fetched once. A dict is
        # compared by identity: its contents may be equal to another's today only.
        key_of_value = (operation, slot, number, (id(key[0]), key[1]) if isinstance(key, tuple) else key)
        if key_of_value not in self._slots:
            self.written.append((operation, slot, number, 0, key))
            self._slots[key_of_value] = self._made
            self._made += 1
        return self._slots[key_of_value]

    def _fetch(self, source: Source) -> int:
        match source:
            case GlobalSource(name):
                return self.into("LOOK_UP", key=(self._scope.globals, name))
            case BuiltinSource(name):
                # The name is the builtin as long as no global has it.
                self.emit("ABSENT", key=(self._scope.globals, name))
                return self.into("LOOK_UP", key=(self._scope.builtins, name))
            case ModuleSource(name):
                return self.into("LOOK_UP", key=(sys.modules, name))
            case GenericAttrSource(base, attribute) if is_own(self._known.value(base), attribute):
                return self.into("ITEM", self.into("VARS", self.slot(base)), key=attribute)
            case GenericAttrSource():
                raise NotEncodable(source)
            case AttrSource(base, attribute):
                return self._attribute(base, attribute)
            # A dict of one entry keeps the object alive, and needs no instruction of its own.
            case ConstantSource(name, value):
                return self.into("LOOK_UP", key=({name: value}, name))
            case ItemSource(base, key):
                return self._item(base, key)
            case KeySource(base, index) if type(self._known.value(base)) in (dict, set, frozenset):
                return self.into("INDEX", self.into("LIST_KEYS", self.slot(base)), index)
            case ValueSource(base, index) if type(self._known.value(base)) is dict:
                return self.into("INDEX", self.into("LIST_VALUES", self.slot(base)), index)
            case TypeSource(base):
                return self.into("CLASS", self.slot(base))
            case CellSource(base, _, index):
                return self.into("CONTENTS", self.slot(base), index)
            case MethodFunctionSource(base, name):
                return self.into("MEMBER", self.into("CLASS", self.slot(base)), key=name)
            case ClassMemberSource(base, name, after):
                return self.into("MEMBER", self.slot(base), after, key=name)
        raise NotEncodable(source)

    def _attribute(self, base: Source, attribute: str) -> int:
        owner, slot = self._known.value(base), self.slot(base)
        if isinstance(owner, torch.nn.Module) and (tables := module_table(owner, attribute)) is not None:
            slot = self.into("VARS", slot)
            for table in tables:
                self.emit("LACKS", slot, key=attribute)
                slot = self.into("ITEM", slot, key=table)
            return self.into("ITEM", slot, key=attribute)
        # Reading an attribute of a tensor subclass may run its ``__torch_function__``.
        if isinstance(owner, torch.Tensor) and type(owner) not in PLAIN:
            raise NotEncodable(base)
        # A module that lacks the name may have a ``__getattr__``; one whose dict has it is read from the dict.
        if type(owner) is ModuleType and attribute in vars(owner):
            return self.into("ITEM", self.into("VARS", slot), key=attribute)
        # In general ``PyObject_GetAttr``, as the user's code does it.
        return self.into("ATTRIBUTE", slot, key=attribute)

    def _item(self, base: Source, key: object) -> int:
        container, slot = self._known.value(base), self.slot(base)
        if isinstance(container, dict) and _is_hashed_in_c(key):
            return self.into("ITEM", slot, key=key)
        if type(key) is int and key >= 0 and (type(container) is list or isinstance(container, tuple)):
            return self.into("INDEX", slot, key)
        raise NotEncodable(base)

    # -- guards --------------------------------------------------------------------------------------------------------

    def leaf(self, leaf: Leaf) -> None:
        """One guard about one value."""
        assert leaf.guard.source is not None
        if self._asked(leaf, leaf.guard.source):
            return
        slot, expected = self.slot(leaf.guard.source), leaf.guard.expected
        if leaf.of_class is not None:
            # The class was looked at while tracing: its members must be of the same kind, whether a guard
            # compares them or not.
            self.unchanged(slot if leaf.guard.kind is GuardKind.ID_MATCH else self.into("CLASS", slot), leaf)
        write = _LEAVES.get(leaf.guard.kind)
        if write is None or not write(self, leaf, slot, expected, self._known.value(leaf.guard.source)):
            if isinstance(self._known.value(leaf.guard.source), torch.Tensor):
                raise NotEncodable(leaf.text)  # a method of its class might run
            # No instruction for this kind: C calls the predicate in Python.
            self.emit("ASK", slot, key=leaf.holds)

    def _asked(self, leaf: Leaf, source: Source) -> bool:
        """Write a guard on what a function of a module returns: one instruction calls it. False for other guards."""
        match source:
            case NoArgsCallSource(AttrSource(ModuleSource()) as function):
                holds = leaf.holds
                self.emit("ASK", self.slot(function), key=lambda get: holds(get()))
                return True
        return False

    def tensor(self, leaf: Leaf, slot: int, expected: object, _: object) -> bool:
        """A tensor's class, keys, dtype, device, sizes and strides."""
        assert isinstance(expected, TensorFacts) and leaf.like is not None
        like, strides = leaf.like, expected.strides
        if like.device.type not in ("cpu", "cuda"):
            return False
        strides = (None,) * len(expected.sizes) if strides is None else strides
        numbers = self._tools.numbers(like.dtype, like.device)
        facts = (like.keys, *numbers, like.requires_grad, expected.sizes, strides)
        self.emit("TENSOR", slot, address=like.cls.address, key=facts)
        return True

    def ambient(self, prepared: Ambient) -> None:
        """One guard about the process, or about several values."""
        if not _AMBIENT[prepared.guard.kind](self, prepared, prepared.guard.expected):
            raise NotEncodable(prepared.guard)

    def unchanged(self, slot: int, leaf: Leaf) -> None:
        """A class and its bases are as they were, or are asked once more: members that matter are of the same kind."""
        assert leaf.guard.source is not None
        value: Any = self._known.value(leaf.guard.source)
        cls = value if leaf.guard.kind is GuardKind.ID_MATCH else type(value)
        self.emit("UNCHANGED", slot, members.version_of(cls), key=(None, leaf.of_class))

    def lookup_is_plain(self, cls: int, lookup: object, fallback: object) -> None:
        """A class finds attributes of its instances by ``__getattribute__`` and ``__getattr__`` as they are known."""
        self._is(self.into("MEMBER", cls, key="__getattribute__"), lookup)
        if fallback is None:
            self.emit("LACKS_MEMBER", cls, key="__getattr__")
        else:
            self._is(self.into("MEMBER", cls, key="__getattr__"), fallback)

    def _is(self, slot: int, value: object) -> None:
        self.emit("IS", slot, address=id(value), key=value)  # kept, as the address is


def _type(writer: _Writer, leaf: Leaf, slot: int, expected: Any, _: object) -> bool:
    writer.emit("OF_CLASS", slot, address=expected.address, key=leaf)
    return True


def _id(writer: _Writer, leaf: Leaf, slot: int, expected: Any, _: object) -> bool:
    writer.emit("IS", slot, address=expected.address, key=leaf)
    return True


def _code(writer: _Writer, leaf: Leaf, slot: int, expected: Any, value: object) -> bool:
    if not isinstance(value, FunctionType):
        return False
    writer.emit("WITH_CODE", slot, address=expected.address, key=leaf)
    return True


def _constant(writer: _Writer, leaf: Leaf, slot: int, expected: Any, _: object) -> bool:
    writer.emit("IS", slot, address=id(expected), key=expected)
    return True


def _equal(writer: _Writer, leaf: Leaf, slot: int, expected: Any, _: object) -> bool:
    if not _is_compared_in_c(expected):
        return False
    writer.emit("EQUALS", slot, key=expected)
    return True


_VALUES = (
    bool, int, float, str, bytes, NoneType, BuiltinFunctionType, MethodDescriptorType, torch.dtype, torch.device
)  # fmt: skip
"""Types that compare and hash in C. Who has neither from anyone but ``object`` is only like itself."""


def _is_hashed_in_c(key: object) -> bool:
    if type(key) is tuple:
        return all(map(_is_hashed_in_c, key))
    return type(key) in _VALUES or type(key).__hash__ is object.__hash__


def _is_compared_in_c(expected: object) -> bool:
    if type(expected) in (tuple, torch.Size):
        return all(_is_compared_in_c(each) for each in expected)  # type: ignore[attr-defined]
    return type(expected) in _VALUES or type(expected).__eq__ is object.__eq__


def _length(writer: _Writer, leaf: Leaf, slot: int, expected: Any, value: object) -> bool:
    if isinstance(value, dict):
        writer.emit("DICT_LENGTH", slot, expected)
        return True
    if type(value) not in (list, tuple, set, frozenset):
        return False
    # The length of another class may be computed in Python, so the class comes first.
    writer.emit("OF_CLASS", slot, address=id(type(value)), key=type(value))
    writer.emit("LENGTH", slot, expected)
    return True


def _keys(writer: _Writer, leaf: Leaf, slot: int, expected: Any, value: object) -> bool:
    if type(value) is not dict or not _is_compared_in_c(tuple(expected)):
        return False
    writer.emit("KEYS", slot, key=expected)
    return True


def _contains(writer: _Writer, leaf: Leaf, slot: int, expected: Any, value: object) -> bool:
    if isinstance(expected, ExpectedKey):
        return False  # the instruction would keep the key alive
    key, wanted = expected
    if leaf.guard.kind is GuardKind.SET_CONTAINS and has_lookalikes(key):
        return False
    if type(value) not in (dict, set, frozenset) or not _is_hashed_in_c(key) or not (wanted or type(value) is dict):
        return False
    writer.emit("OF_CLASS", slot, address=id(type(value)), key=type(value))
    writer.emit("HAS" if wanted else "LACKS", slot, key=key)
    return True


def _by_predicate(writer: _Writer, leaf: Leaf, slot: int, expected: Any, value: object) -> bool:
    return False


def _not_own(writer: _Writer, leaf: Leaf, slot: int, expected: Any, value: object) -> bool:
    writer.emit("UNMARKED", slot, number=1, key=(expected,))
    return True


def _marking(writer: _Writer, leaf: Leaf, slot: int, expected: Any, value: object) -> bool:
    if not isinstance(expected, TensorMarks) or expected.present or type(value) not in PLAIN:
        return False
    writer.emit("OF_CLASS", slot, address=id(type(value)), key=type(value))
    writer.emit("UNMARKED", slot, key=tuple(expected.absent))
    return True


def _property(writer: _Writer, leaf: Leaf, slot: int, expected: Any, value: object) -> bool:
    if type(value) not in PLAIN:
        return False
    writer.emit("OF_CLASS", slot, address=id(type(value)), key=type(value))
    writer.emit("ASK", slot, key=leaf.holds)
    return True


def _hasattr(writer: _Writer, leaf: Leaf, slot: int, expected: Any, value: object) -> bool:
    """Check that an attribute is absent, if only dicts of the value and of its classes are searched for it."""
    name, wanted = expected
    if wanted:
        return False
    if isinstance(value, type):
        return _class_lacks(writer, slot, value, name)
    tables = MODULE_TABLES if isinstance(value, torch.nn.Module) else ()
    getattr_ = torch.nn.Module.__dict__["__getattr__"] if tables else None
    own = writer.into("CLASS", slot)
    # Only if the class's look-up is Python's own do dicts tell that an attribute is absent.
    if not _is_plain(type(value), object.__dict__["__getattribute__"], getattr_):
        return False
    writer.lookup_is_plain(own, object.__dict__["__getattribute__"], getattr_)
    writer.emit("LACKS_MEMBER", own, key=name)
    # In turn: the class and its bases, the instance's own dict, and the tables that ``nn.Module.__getattr__`` searches.
    writer.emit("UNMARKED", slot, key=(name,))
    for table in tables:
        writer.emit("LACKS", writer.into("ITEM", writer.into("VARS", slot), key=table), key=name)
    return True


def _class_lacks(writer: _Writer, slot: int, cls: type, name: str) -> bool:
    lookup = type.__dict__["__getattribute__"]
    if not _is_plain(type(cls), lookup, None):
        return False
    above = writer.into("CLASS", slot)
    writer.lookup_is_plain(above, lookup, None)
    writer.emit("LACKS_MEMBER", above, key=name)
    writer.emit("LACKS_MEMBER", slot, key=name)
    return True


def _is_plain(cls: type, lookup: object, fallback: object) -> bool:
    """True if attributes of instances are found by these two: ``__getattribute__``, and ``__getattr__`` or None."""
    try:
        found = class_attribute(cls, "__getattr__")
    except AttributeError:
        found = None
    return class_attribute(cls, "__getattribute__") is lookup and found is fallback


_LEAVES: dict[GuardKind, Callable[[_Writer, Leaf, int, Any, object], bool]] = {
    GuardKind.TYPE_MATCH: _type,
    GuardKind.ID_MATCH: _id,
    GuardKind.FUNCTION_MATCH: _code,
    GuardKind.NONE_MATCH: _constant,
    GuardKind.BOOL_MATCH: _constant,
    GuardKind.EQUALS_MATCH: _equal,
    GuardKind.SEQUENCE_LENGTH: _length,
    GuardKind.DICT_LENGTH: _length,
    GuardKind.DICT_KEYS: _keys,
    GuardKind.DICT_CONTAINS: _contains,
    GuardKind.SET_CONTAINS: _contains,
    GuardKind.SET_MEMBERS: _by_predicate,
    GuardKind.SET_ORDER: _by_predicate,
    GuardKind.NOT_IN_GENERIC_DICT: _not_own,
    GuardKind.HASATTR: _hasattr,
    GuardKind.TENSOR_MATCH: _Writer.tensor,
    GuardKind.TENSOR_PROPERTY: _property,
    GuardKind.DIMENSION_MARKING: _marking,
}


def _global_state(writer: _Writer, prepared: Ambient, expected: Any) -> bool:
    state, level = cast("tuple[object, int]", prepared.asked)
    writer.emit("STATE", key=state)
    writer._is(writer.into("LOOK_UP", key=FORWARD_LEVEL), level)  # small ints are one object each
    version = members.version_of(torch.nn.Parameter)
    # Members of torch.Tensor are compared only after a change of the class's version.
    writer.emit("UNCHANGED", number=version, key=(torch.nn.Parameter, members.are_torchs_own))
    return True


def _mode_stack(writer: _Writer, prepared: Ambient, expected: Any) -> bool:
    if expected:
        return False
    writer.emit("NO_MODES")
    return True


def _default_device(writer: _Writer, prepared: Ambient, expected: Any) -> bool:
    writer._is(writer.into("LOOK_UP", key=(vars(torch.utils._device), "CURRENT_DEVICE")), prepared.asked)
    return True


def _saved_tensors_hooks(writer: _Writer, prepared: Ambient, expected: Any) -> bool:
    if prepared.asked is not None:
        return False
    writer.emit("NO_HOOKS")
    return True


def _transforms(writer: _Writer, prepared: Ambient, expected: Any) -> bool:
    return not expected  # that there is none, KEYS_OF_THREAD says


def _aliasing(writer: _Writer, prepared: Ambient, expected: Any) -> bool:
    assert prepared.guard.source is not None
    writer.emit("SAME", writer.slot(prepared.guard.source), writer.slot(expected))
    return True


def _no_aliasing(writer: _Writer, prepared: Ambient, expected: Any) -> bool:
    writer.emit("DISTINCT", key=tuple(map(writer.slot, expected)))
    return True


def _shapes(writer: _Writer, prepared: Ambient, expected: Any) -> bool:
    writer.emit("ASK_ALL", key=prepared.asked)
    return True


_AMBIENT: dict[GuardKind, Callable[[_Writer, Ambient, Any], bool]] = {
    GuardKind.GLOBAL_STATE: _global_state,
    GuardKind.TORCH_FUNCTION_MODE_STACK: _mode_stack,
    GuardKind.DEFAULT_DEVICE: _default_device,
    GuardKind.TRANSFORMS: _transforms,
    GuardKind.SAVED_TENSORS_HOOKS: _saved_tensors_hooks,
    GuardKind.OBJECT_ALIASING: _aliasing,
    GuardKind.NO_OBJECT_ALIASING: _no_aliasing,
    GuardKind.NO_TENSOR_ALIASING: _no_aliasing,
    GuardKind.SHAPE_ENV: _shapes,
}
