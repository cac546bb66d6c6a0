"""Encode guards as bytecode for an interpreter in C, for calls that need no frame hook.

    L['x'] check_tensor(...)      TENSOR 0 facts            the slots of the interpreter: first the function's arguments
    G['k'] == 3                   LOOK_UP (globals, 'k')    and free variables, then each value that is fetched
                                  EQUALS 1 3
    L['self'] ... in a group      PREDICATE 0 cached check

The bytecode is written at a call that the guards accept, because their values decide how a source is read. A guard
without an instruction of its own is evaluated in Python (PREDICATE); a source that the interpreter cannot read raises
:class:`NotEncodable`, and such calls go through the hook.

In torch: nothing; guards are objects of C++. Read next: nbcompile/fast/fast_call.py
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType, ModuleType
from typing import Any

import torch

from nbcompile.capture.guard import GuardKind
from nbcompile.capture.resolution import Scope, class_attribute
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
    Source,
    TypeSource,
    ValueSource,
)
from nbcompile.guarding.accessors import SourceCache, is_own, module_table
from nbcompile.guarding.check import FrameCheck
from nbcompile.guarding.encodings.instructions import NOTHING, PLAIN, TorchNumbers, is_hashed_in_c
from nbcompile.guarding.encodings.table import AMBIENT, LEAVES
from nbcompile.guarding.prepared import Ambient, Leaf
from nbcompile.support.real_class import is_instance
from nbcompile.torch_internals import members

Instruction = tuple[str, int, int, int, object]
"""Operation, slot that is looked at (-1: none), number, address, object."""
Fact = tuple[dict[str, Any], str, object]
"""A dict, a key, and the very object it leads to; None: the key is not there."""
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class NotEncodable(Exception):
    """A guard that no instruction of fast_call.c can evaluate."""


@dataclass(frozen=True, slots=True)
class ExtraConditions:
    """Conditions that a fast call needs in addition to the guards, because it bypasses the frame hook."""

    facts: Sequence[Fact] = ()
    empty: Sequence[Any] = ()
    """A list that must be empty."""
    methods: Sequence[str] = ()
    """Methods between the call of a module and the frame that was compiled."""


_NO_CONDITIONS = ExtraConditions()


def instructions(
    check: FrameCheck, scope: Scope, tools: TorchNumbers, extra: ExtraConditions = _NO_CONDITIONS
) -> tuple[list[str], list[Instruction]]:
    """The names of the locals and the instructions that check them, for a call that the guards accept.

    Args:
        check: the guards.
        scope: the call.
        tools: torch's numbers for dtypes and devices.
        extra: conditions in addition to the guards.

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
    # Tensors are compared under the keys of the thread, as torch's tree does it.
    writer.emit("KEYS_OF_THREAD", key=tools.key_difference(check.thread_keys))
    own = [each for position, each in enumerate(check.prepared) if position not in check.remembered]
    for prepared in own:
        if isinstance(prepared, Leaf):
            writer.leaf(prepared)
        elif prepared.guard.kind is not GuardKind.SHAPE_ENV:
            writer.ambient(prepared)
    # A group is one instruction: its cache answers for all its guards.
    for group in check.groups:
        writer.emit("PREDICATE", writer.slot(group.source), key=group.cached)
    for prepared in own:  # sizes last: they are of tensors that are known to be such
        if isinstance(prepared, Ambient) and prepared.guard.kind is GuardKind.SHAPE_ENV:
            writer.ambient(prepared)
    return writer.names, _ordered(writer.written, len(writer.names))


_OF_LOCALS = frozenset(("TENSOR", "OF_CLASS", "IS", "EQUALS", "LENGTH", "DICT_LENGTH"))
"""Instructions on an argument that may run before all others."""


def _ordered(written: list[Instruction], count: int) -> list[Instruction]:
    """Move checks of the arguments, the first slots, to the front, and those of the state of the process to the end.

    Of several entries all but one fail, most of them for the arguments of a call; the state costs ten times as much.
    Instructions that call Python stay last. Fetched values keep their slots, since their order does not change.
    """
    predicates = [at for at, each in enumerate(written) if each[0] in ("PREDICATE", "PREDICATE_OF_ALL")]
    until = predicates[0] if predicates else len(written)
    first = [each for each in written[:until] if each[0] in _OF_LOCALS and 0 <= each[1] < count]
    states = [each for each in written[:until] if each[0] == "STATE"]
    moved = {id(each) for each in (*first, *states)}
    return [*first, *(each for each in written[:until] if id(each) not in moved), *states, *written[until:]]


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
        self.torch_numbers = tools
        # Slots: first the arguments and free variables, then a new one for each instruction that fetches.
        self._slots: dict[object, int] = {LocalSource(name): number for number, name in enumerate(self.names)}
        self._slot_count = len(self.names)

    def emit(self, operation: str, slot: int = NOTHING, number: int = 0, address: int = 0, key: object = None) -> None:
        """Write one instruction that says yes or no."""
        self.written.append((operation, slot, number, address, key))

    def fact(self, table: dict[str, Any], name: str, value: object) -> None:
        """A dict holds an object under a name, or nothing."""
        if value is None:
            self.emit("ABSENT", key=(table, name))
        else:
            self.expect_object(self.into("LOOK_UP", key=(table, name)), value)

    def module_call(self, methods: Sequence[str]) -> None:
        """The first argument is a module whose call only leads to its ``forward``: torch's own call, and no hooks."""
        module = self._scope.locals[self.names[0]]
        cls, table = self.into("CLASS", 0), self.into("VARS", 0)
        for name in methods:
            method = class_attribute(type(module), name)
            if name != "forward" and method is not class_attribute(torch.nn.Module, name):
                raise NotEncodable(name)
            self.expect_object(self.into("MEMBER", cls, key=name), method)
            self.emit("LACKS", table, key=name)
        if "__call__" in methods:
            self.expect_object(self.into("MEMBER", cls, key="_compiled_call_impl"), None)
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
            self._slots[key_of_value] = self._slot_count
            self._slot_count += 1
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
        if is_instance(owner, torch.nn.Module) and (tables := module_table(owner, attribute)) is not None:
            slot = self.into("VARS", slot)
            for table in tables:
                self.emit("LACKS", slot, key=attribute)
                slot = self.into("ITEM", slot, key=table)
            return self.into("ITEM", slot, key=attribute)
        # Reading an attribute of a tensor subclass may run its ``__torch_function__``.
        if is_instance(owner, torch.Tensor) and type(owner) not in PLAIN:
            raise NotEncodable(base)
        # A module that lacks the name may have a ``__getattr__``; one whose dict has it is read from the dict.
        if type(owner) is ModuleType and attribute in vars(owner):
            return self.into("ITEM", self.into("VARS", slot), key=attribute)
        # In general ``PyObject_GetAttr``, as the user's code does it.
        return self.into("ATTRIBUTE", slot, key=attribute)

    def _item(self, base: Source, key: object) -> int:
        container, slot = self._known.value(base), self.slot(base)
        if is_instance(container, dict) and is_hashed_in_c(key):
            return self.into("ITEM", slot, key=key)
        if type(key) is int and key >= 0 and (type(container) is list or is_instance(container, tuple)):
            return self.into("INDEX", slot, key)
        raise NotEncodable(base)

    # -- guards --------------------------------------------------------------------------------------------------------

    def leaf(self, leaf: Leaf) -> None:
        """One guard about one value."""
        assert leaf.guard.source is not None
        if self._write_call_guard(leaf, leaf.guard.source):
            return
        slot, expected = self.slot(leaf.guard.source), leaf.guard.expected
        if leaf.of_class is not None:
            # The class was looked at while tracing: its members must be of the same kind, whether a guard
            # compares them or not.
            self.unchanged(slot if leaf.guard.kind is GuardKind.ID_MATCH else self.into("CLASS", slot), leaf)
        write = LEAVES[leaf.guard.kind].instructions
        if isinstance(write, str) or not write(self, leaf, slot, expected, self._known.value(leaf.guard.source)):
            if isinstance(self._known.value(leaf.guard.source), torch.Tensor):
                raise NotEncodable(leaf.text)  # a method of its class might run
            # No instruction for this kind: C calls the predicate in Python.
            self.emit("PREDICATE", slot, key=leaf.holds)

    def _write_call_guard(self, leaf: Leaf, source: Source) -> bool:
        """Write a guard on what a function of a module returns: one instruction calls it. False for other guards."""
        match source:
            case NoArgsCallSource(AttrSource(ModuleSource()) as function):
                holds = leaf.holds
                self.emit("PREDICATE", self.slot(function), key=lambda get: holds(get()))
                return True
        return False

    def ambient(self, prepared: Ambient) -> None:
        """One guard about the process, or about several values."""
        if not AMBIENT[prepared.guard.kind].instructions(self, prepared, prepared.guard.expected):
            raise NotEncodable(prepared.guard)

    def unchanged(self, slot: int, leaf: Leaf) -> None:
        """A class and its bases are unchanged; otherwise a predicate checks the used members again."""
        assert leaf.guard.source is not None
        value: Any = self._known.value(leaf.guard.source)
        cls = value if leaf.guard.kind is GuardKind.ID_MATCH else type(value)
        self.emit("UNCHANGED", slot, members.version_of(cls), key=(None, leaf.of_class))

    def expect_object(self, slot: int, value: object) -> None:
        """Write that the value in a slot is this very object, which is kept alive."""
        self.emit("IS", slot, address=id(value), key=value)  # kept, as the address is
