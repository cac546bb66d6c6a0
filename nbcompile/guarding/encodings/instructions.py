"""Guards as instructions of the interpreter in C, one function for each kind.

    EQUALS_MATCH  G['k'] == 3      EQUALS 1 3      the value in slot 1 is the number 3, or the check fails

A function writes instructions and returns True, or returns False where C cannot evaluate the guard: then C calls the
predicate in Python. The writer assigns the slots, and loads values into them (``fast/guard_bytecode.py``).

In torch: nothing; guards are objects of C++. Read next: nbcompile/guarding/encodings/stored_forms.py
"""

from __future__ import annotations

from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, NoneType
from typing import Any, Protocol, cast

import torch
import torch.utils._device

from nbcompile.capture.guard import GuardKind, TensorFacts, TensorMarks
from nbcompile.capture.resolution import class_attribute
from nbcompile.capture.source import Source
from nbcompile.guarding.accessors import MODULE_TABLES
from nbcompile.guarding.prepared import Ambient, ExpectedKey, Leaf
from nbcompile.guarding.values import has_lookalikes
from nbcompile.torch_internals import FORWARD_LEVEL, members

NOTHING = -1
PLAIN = (torch.Tensor, torch.nn.Parameter)


class TorchNumbers(Protocol):
    """Torch's numbers for dispatch keys, dtypes and devices."""

    def key_difference(self, keys: tuple[int, int]) -> tuple[int, int]:
        """A thread's dispatch keys as their difference from the default ones."""

    def numbers(self, dtype: torch.dtype, device: torch.device) -> tuple[int, int, int]:
        """A dtype, the type of a device and its index."""


class InstructionWriter(Protocol):
    """Writer of instructions, which knows the call for which they are written."""

    @property
    def torch_numbers(self) -> TorchNumbers:
        """Torch's numbers for dtypes and devices."""

    def emit(self, operation: str, slot: int = NOTHING, number: int = 0, address: int = 0, key: object = None) -> None:
        """Write one instruction that tests a value."""

    def slot(self, source: Source) -> int:
        """The slot of the value at an address; fetched once."""

    def into(self, operation: str, slot: int = NOTHING, number: int = 0, key: object = None) -> int:
        """Write one instruction that fetches a value; return the slot of that value."""

    def expect_object(self, slot: int, value: object) -> None:
        """Write that the value in a slot is this very object, which is kept alive."""


def of_class(writer: InstructionWriter, leaf: Leaf, slot: int, expected: Any, _: object) -> bool:
    writer.emit("OF_CLASS", slot, address=expected.address, key=leaf)
    return True


def identity(writer: InstructionWriter, leaf: Leaf, slot: int, expected: Any, _: object) -> bool:
    writer.emit("IS", slot, address=expected.address, key=leaf)
    return True


def code(writer: InstructionWriter, leaf: Leaf, slot: int, expected: Any, value: object) -> bool:
    if not isinstance(value, FunctionType):
        return False
    writer.emit("WITH_CODE", slot, address=expected.address, key=leaf)
    return True


def constant(writer: InstructionWriter, leaf: Leaf, slot: int, expected: Any, _: object) -> bool:
    writer.emit("IS", slot, address=id(expected), key=expected)
    return True


def equal(writer: InstructionWriter, leaf: Leaf, slot: int, expected: Any, _: object) -> bool:
    if not _is_compared_in_c(expected):
        return False
    writer.emit("EQUALS", slot, key=expected)
    return True


_VALUES = (
    bool, int, float, str, bytes, NoneType, BuiltinFunctionType, MethodDescriptorType, torch.dtype, torch.device
)  # fmt: skip
"""Types that compare and hash in C. An object that inherits both from ``object`` equals only itself."""


def is_hashed_in_c(key: object) -> bool:
    if type(key) is tuple:
        return all(map(is_hashed_in_c, key))
    return type(key) in _VALUES or type(key).__hash__ is object.__hash__


def _is_compared_in_c(expected: object) -> bool:
    if type(expected) in (tuple, torch.Size):
        return all(_is_compared_in_c(each) for each in expected)  # type: ignore[attr-defined]
    return type(expected) in _VALUES or type(expected).__eq__ is object.__eq__


def length(writer: InstructionWriter, leaf: Leaf, slot: int, expected: Any, value: object) -> bool:
    if isinstance(value, dict):
        writer.emit("DICT_LENGTH", slot, expected)
        return True
    if type(value) not in (list, tuple, set, frozenset):
        return False
    # The length of another class may be computed in Python, so the class comes first.
    writer.emit("OF_CLASS", slot, address=id(type(value)), key=type(value))
    writer.emit("LENGTH", slot, expected)
    return True


def keys(writer: InstructionWriter, leaf: Leaf, slot: int, expected: Any, value: object) -> bool:
    if type(value) is not dict or not _is_compared_in_c(tuple(expected)):
        return False
    writer.emit("KEYS", slot, key=expected)
    return True


def contains(writer: InstructionWriter, leaf: Leaf, slot: int, expected: Any, value: object) -> bool:
    if isinstance(expected, ExpectedKey):
        return False  # the instruction would keep the key alive
    key, is_present = expected
    # A look-up finds an equal item: 1 in {True}. The predicate in Python compares the types, too.
    if leaf.guard.kind is GuardKind.SET_CONTAINS and has_lookalikes(key):
        return False
    if type(value) not in (dict, set, frozenset) or not is_hashed_in_c(key) or not (is_present or type(value) is dict):
        return False
    writer.emit("OF_CLASS", slot, address=id(type(value)), key=type(value))
    writer.emit("HAS" if is_present else "LACKS", slot, key=key)
    return True


def not_own(writer: InstructionWriter, leaf: Leaf, slot: int, expected: Any, value: object) -> bool:
    writer.emit("UNMARKED", slot, number=1, key=(expected,))
    return True


def tensor(writer: InstructionWriter, leaf: Leaf, slot: int, expected: Any, value: object) -> bool:
    """Write the check of a tensor's class, keys, dtype, device, sizes and strides."""
    assert isinstance(expected, TensorFacts) and leaf.like is not None
    like, strides = leaf.like, expected.strides
    if like.device.type not in ("cpu", "cuda"):
        return False
    strides = (None,) * len(expected.sizes) if strides is None else strides
    numbers = writer.torch_numbers.numbers(like.dtype, like.device)
    facts = (like.keys, *numbers, like.requires_grad, expected.sizes, strides)
    writer.emit("TENSOR", slot, address=like.cls.address, key=facts)
    return True


def marking(writer: InstructionWriter, leaf: Leaf, slot: int, expected: Any, value: object) -> bool:
    if not isinstance(expected, TensorMarks) or expected.present or type(value) not in PLAIN:
        return False
    writer.emit("OF_CLASS", slot, address=id(type(value)), key=type(value))
    writer.emit("UNMARKED", slot, key=tuple(expected.absent))
    return True


def tensor_property(writer: InstructionWriter, leaf: Leaf, slot: int, expected: Any, value: object) -> bool:
    if type(value) not in PLAIN:
        return False
    # The class comes first: reading the property of a subclass may run Python.
    writer.emit("OF_CLASS", slot, address=id(type(value)), key=type(value))
    writer.emit("PREDICATE", slot, key=leaf.holds)
    return True


def absent_attribute(writer: InstructionWriter, leaf: Leaf, slot: int, expected: Any, value: object) -> bool:
    """Check that an attribute is absent, if only dicts of the value and of its classes are searched for it."""
    name, is_present = expected
    if is_present:
        return False
    if isinstance(value, type):
        return _class_lacks(writer, slot, value, name)
    tables = MODULE_TABLES if isinstance(value, torch.nn.Module) else ()
    getattr_ = torch.nn.Module.__dict__["__getattr__"] if tables else None
    own = writer.into("CLASS", slot)
    # An attribute that no dict has is absent only if the class looks attributes up as Python does.
    if not _is_plain(type(value), object.__dict__["__getattribute__"], getattr_):
        return False
    _expect_plain_lookup(writer, own, object.__dict__["__getattribute__"], getattr_)
    writer.emit("LACKS_MEMBER", own, key=name)
    # In turn: the class and its bases, the instance's own dict, and the tables that ``nn.Module.__getattr__`` searches.
    writer.emit("UNMARKED", slot, key=(name,))
    for table in tables:
        writer.emit("LACKS", writer.into("ITEM", writer.into("VARS", slot), key=table), key=name)
    return True


def _expect_plain_lookup(writer: InstructionWriter, cls: int, lookup: object, fallback: object) -> None:
    """Write that a class finds attributes of its instances by these ``__getattribute__`` and ``__getattr__``."""
    writer.expect_object(writer.into("MEMBER", cls, key="__getattribute__"), lookup)
    if fallback is None:
        writer.emit("LACKS_MEMBER", cls, key="__getattr__")
    else:
        writer.expect_object(writer.into("MEMBER", cls, key="__getattr__"), fallback)


def _class_lacks(writer: InstructionWriter, slot: int, cls: type, name: str) -> bool:
    lookup = type.__dict__["__getattribute__"]
    if not _is_plain(type(cls), lookup, None):
        return False
    above = writer.into("CLASS", slot)
    _expect_plain_lookup(writer, above, lookup, None)
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


def global_state(writer: InstructionWriter, prepared: Ambient, expected: Any) -> bool:
    state, level = cast("tuple[object, int]", prepared.expected_state)
    writer.emit("STATE", key=state)
    writer.expect_object(writer.into("LOOK_UP", key=FORWARD_LEVEL), level)  # small ints are one object each
    version = members.version_of(torch.nn.Parameter)
    # Members of torch.Tensor are compared only after a change of the class's version.
    writer.emit("UNCHANGED", number=version, key=(torch.nn.Parameter, members.are_torchs_own))
    return True


def no_modes(writer: InstructionWriter, prepared: Ambient, expected: Any) -> bool:
    if expected:
        return False
    writer.emit("NO_MODES")
    return True


def default_device(writer: InstructionWriter, prepared: Ambient, expected: Any) -> bool:
    writer.expect_object(
        writer.into("LOOK_UP", key=(vars(torch.utils._device), "CURRENT_DEVICE")), prepared.expected_state
    )
    return True


def no_hooks(writer: InstructionWriter, prepared: Ambient, expected: Any) -> bool:
    if prepared.expected_state is not None:
        return False
    writer.emit("NO_HOOKS")
    return True


def no_transforms(writer: InstructionWriter, prepared: Ambient, expected: Any) -> bool:
    return not expected  # KEYS_OF_THREAD tests that there is none


def same(writer: InstructionWriter, prepared: Ambient, expected: Any) -> bool:
    assert prepared.guard.source is not None
    writer.emit("SAME", writer.slot(prepared.guard.source), writer.slot(expected))
    return True


def distinct(writer: InstructionWriter, prepared: Ambient, expected: Any) -> bool:
    writer.emit("DISTINCT", key=tuple(map(writer.slot, expected)))
    return True


def conditions(writer: InstructionWriter, prepared: Ambient, expected: Any) -> bool:
    writer.emit("PREDICATE_OF_ALL", key=prepared.expected_state)
    return True
