"""Values as JSON, and back: exactly, or not at all.

    (1, 2.5, "a")              ["tuple", [1, ["float", "2.5"], "a"]]
    torch.float32              ["torch", "float32"]
    an object of a user's      NotStorable: another process has no such object

In torch: nothing; torch pickles its guards. Read next: nbcompile/fast/disk_cache/descriptions.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from nbcompile.support.real_class import is_instance


class NotStorable(Exception):
    """A value that has no meaning in another process; the message says which."""


class Unreadable(Exception):
    """Malformed cache entry: damaged, or of another version."""


_SINGLETONS: dict[str, object] = {"Ellipsis": Ellipsis, "NotImplemented": NotImplemented}
_OF_TORCH = (torch.dtype, torch.layout, torch.memory_format)
_BUILT: dict[str, tuple[type, Callable[[Any], list[object]], Callable[[list[Any]], object]]] = {
    "tuple": (tuple, list, tuple),
    "list": (list, list, list),
    "frozenset": (frozenset, lambda value: sorted(value, key=repr), frozenset),  # sorted: equal sets give equal text
    "set": (set, lambda value: sorted(value, key=repr), set),
    "slice": (slice, lambda value: [value.start, value.stop, value.step], lambda parts: slice(*parts)),
    "range": (range, lambda value: [value.start, value.stop, value.step], lambda parts: range(*parts)),
    "size": (torch.Size, list, torch.Size),
    "complex": (complex, lambda value: [value.real, value.imag], lambda parts: complex(*parts)),
}
"""Class, parts and constructor of each kind of container."""


def encode(value: object) -> Any:
    """A value as JSON.

    Raises:
        NotStorable: the value is not a literal.
    """
    # By exact type: a member of an IntEnum, or an instance of a subclass of str, would be decoded as another value.
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return ["float", value.hex()]  # exact; and JSON has no nan and no infinity
    if type(value) is bytes:
        return ["bytes", value.hex()]
    if is_instance(value, torch.device):
        return ["device", str(value)]
    if is_instance(value, _OF_TORCH):
        return ["torch", str(value).removeprefix("torch.")]
    for name, (kind, parts, _) in _BUILT.items():
        if type(value) is kind:
            return [name, [encode(each) for each in parts(value)]]
    for name, single in _SINGLETONS.items():
        if value is single:
            return ["single", name]
    raise NotStorable(f"a value of type {type(value).__qualname__}")


def decode(data: Any) -> Any:
    """Decode a value.

    Raises:
        Unreadable: malformed data.
    """
    if data is None or type(data) in (bool, int, str):
        return data
    match data:
        case ["float", str(text)]:
            return float.fromhex(text)
        case ["bytes", str(text)]:
            return bytes.fromhex(text)
        case ["device", str(text)]:
            return torch.device(text)
        # The class is checked, since a damaged entry may name any other member of ``torch``.
        case ["torch", str(name)] if isinstance(found := getattr(torch, name, None), _OF_TORCH):
            return found
        case ["single", str(name)] if name in _SINGLETONS:
            return _SINGLETONS[name]
        case [str(name), list(parts)] if name in _BUILT:
            return _BUILT[name][2]([decode(each) for each in parts])
    raise Unreadable(f"malformed value: {str(data)[:80]}")
