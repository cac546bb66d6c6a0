"""Checks that torch.Tensor and Python's builtins are as torch and Python define them.

    torch.Tensor.sin = f     replaced_member() == "torch.Tensor.sin"     until it is restored
    torch.Tensor.shout = f   replaced_member() is None                   a new name, which is looked up when it is used
    builtins.len = f         replaced_member() == "len"

Tracing, fake tensors and AOTAutograd are Python that calls methods of tensors and builtin functions, so that nothing
can be compiled while one of these is replaced. A change of a class is seen by its version: CPython gives a class
another number with every change of it or of a base class (``tp_version_tag``, the same field in 3.11 to 3.13). So has
a dict (``ma_version_tag``); where it has none, each builtin is compared each time.

In torch: nothing; a replaced method of torch.Tensor is not noticed. Read next: nbcompile/guarding/encodings/ambient.py
"""

from __future__ import annotations

import builtins
import ctypes
import os
from pathlib import Path
from types import BuiltinFunctionType, CodeType, MappingProxyType
from typing import Any

import torch

from nbcompile.support.process_state import STATE, Lifetime

CLASSES: tuple[type, ...] = (torch.nn.Parameter, torch.Tensor)
"""A subclass first: its version changes whenever that of a base class does."""
HARMLESS = frozenset(
    "__repr__ __str__ __format__ __dir__ __doc__ __annotations__ __dlpack__ __dlpack_device__ __array_priority__ "
    "__module__ __qualname__ __cuda_array_interface__".split()
)
"""Members of torch.Tensor that no compile needs; a program that reads one breaks its graph."""
HARMLESS_BUILTINS = frozenset(
    "print input open breakpoint exit quit help copyright credits license display __import__ __build_class__ _".split()
)
"""Members that tools replace; code that uses one of these guards it."""

_VERSION_OFFSET = 48 * 8  # PyTypeObject: 48 fields of a word each before tp_version_tag
_DICT_VERSION_OFFSET = 3 * 8  # PyDictObject: a count of references, a type and a length before ma_version_tag
_TORCH = str(Path(torch.__file__).parent) + os.sep


def version_of(cls: type) -> int:
    """The version of a class; 0 if it has none now: the next look-up gives it one."""
    return int(version_field(cls).value)


def version_field(cls: type) -> ctypes.c_uint32:
    """The address of a class's version; to be read only while the class exists."""
    return ctypes.c_uint32.from_address(id(cls) + _VERSION_OFFSET) if _is_seen else ctypes.c_uint32(0)


def are_torchs_own(_: object = None) -> bool:
    """True if torch.Tensor and torch.nn.Parameter are as torch defines them; some 100 ns."""
    # The version changes with each change of the class or of a base: one comparison instead of hundreds of members.
    return _parameter_version.value == _accepted[0] or _look() is None


def replaced_member() -> str | None:
    """The name of a replaced member of torch.Tensor, or of a replaced builtin; None: all are torch's and Python's."""
    # The version is read before the members: a change during the loop is then seen the next time.
    version = _builtins_version.value
    if _accepted_builtins[0] != version or not _is_dict_seen:
        # No builtin is called by its name here: it may be a replaced one.
        for name, value in _BUILTINS.items():
            if _builtins.get(name) is not value and name not in HARMLESS_BUILTINS:
                return name
        _accepted_builtins[0] = version
    return None if are_torchs_own() else _look()


def is_new_member(name: str) -> bool:
    """True if a member of torch.Tensor or torch.nn.Parameter was not set by torch."""
    return name not in _TORCHS


def _look() -> str | None:
    """Compare every member. If all are torch's own, the version is accepted."""
    torch.nn.Parameter.__hash__  # noqa: B018 - a look-up: from now on there is a version
    version = _parameter_version.value
    for cls, own in _own.items():
        for name, value in cls.__dict__.items():
            if name not in own:
                #     torch.Tensor.sin = f       hides a method of TensorBase: rejected
                #     torch.Tensor.__bool__ = f  Python looks it up by itself: rejected
                #     torch.Tensor.shout = f     only the program uses it: allowed
                if name in _inherited or name in _SPECIAL:
                    return f"{_text[cls]}.{name}"
            elif own[name] is not value and name not in HARMLESS:
                return f"{_text[cls]}.{name}"
        for name in own:
            if name not in cls.__dict__ and name not in HARMLESS:
                return f"{_text[cls]}.{name}"
    # CPython sets the version to 0 with a change, until something
    # is looked up: an accepted 0 would accept the change.
    _accepted[0] = version or None
    return None


def _was_set_before_import(value: Any) -> bool:
    """True if a member was set before this module was imported."""
    function = getattr(value, "fget", getattr(value, "__func__", value))
    code = getattr(function, "__code__", None)
    return isinstance(code, CodeType) and not code.co_filename.startswith(_TORCH)


_inherited: MappingProxyType[str, object] = torch._C.TensorBase.__dict__
_text: dict[type, str] = {torch.nn.Parameter: "torch.nn.Parameter", torch.Tensor: "torch.Tensor"}
# Replaced before this module was imported: compared with a new object, to which it is never identical. A new
# name that other code set before is omitted, and so is as allowed as one that comes later.
_own: dict[type, dict[str, object]] = {
    cls: {
        name: object() if name in _inherited and _was_set_before_import(value) else value
        for name, value in cls.__dict__.items()
        if name in _inherited or not _was_set_before_import(value)
    }
    for cls in CLASSES
}
_TORCHS = frozenset(dir(torch._C.TensorBase)).union(*_own.values())
_LOOKED_UP_BY_PYTHON = (object, int, float, complex, str, list, dict, set, memoryview, property, type(are_torchs_own))
_SPECIAL = (
    (
        frozenset(name for cls in _LOOKED_UP_BY_PYTHON for name in dir(cls) if name[:2] == "__")
        | frozenset(
            "__getattr__ __matmul__ __rmatmul__ __imatmul__ __await__ __next__ __aiter__ __anext__ __aenter__ "
            "__aexit__ __missing__ __fspath__ __copy__ __deepcopy__ __torch_function__ __torch_dispatch__".split()
        )
    )
    - HARMLESS
    - {"__dict__", "__slots__", "__code__", "__name__", "__defaults__", "__kwdefaults__", "__closure__"}
)
"""Names that Python or torch looks up by itself. Others are data: pickle puts ``__slotnames__`` into each class."""
_builtins = builtins.__dict__
_BUILTINS = {
    name: value for name, value in _builtins.items() if isinstance(value, BuiltinFunctionType | type) and name[0] != "_"
}
_is_seen = True
_accepted: list[int | None] = STATE.add("torch_internals.members._accepted", [None], Lifetime.PROCESS)


def _versions_are_seen() -> bool:
    """True if the field has the assumed offset: it changes with a change of a base class."""
    base = type("base", (), {"member": 1})
    cls = type("cls", (base,), {})
    cls.member  # type: ignore[attr-defined]  # noqa: B018
    before = version_of(cls)
    base.member = 2  # type: ignore[attr-defined]
    changed = version_of(cls)
    cls.member  # type: ignore[attr-defined]  # noqa: B018
    return before != changed and version_of(cls) not in (0, before) and before != 0


def _version_of_dict(value: dict[str, object]) -> ctypes.c_uint64:
    return ctypes.c_uint64.from_address(id(value) + _DICT_VERSION_OFFSET)


def _dict_versions_are_seen() -> bool:
    """True if a dict gets another version with every change, and with none without one."""
    value: dict[str, object] = {"kept": 1}
    seen = [_version_of_dict(value).value]
    for change in ({}, {"kept": 2}, {"new": 1}):
        value |= change
        value.get("kept")
        seen.append(_version_of_dict(value).value)
    del value["new"]
    seen.append(_version_of_dict(value).value)
    return seen[0] == seen[1] and len(set(seen)) == len(seen) - 1


_is_seen = _versions_are_seen()  # else, with another Python, every call compares every member
_parameter_version = version_field(torch.nn.Parameter)
_is_dict_seen = _dict_versions_are_seen()
_builtins_version = _version_of_dict(_builtins)
_accepted_builtins: list[int | None] = STATE.add("torch_internals.members._accepted_builtins", [None], Lifetime.PROCESS)
