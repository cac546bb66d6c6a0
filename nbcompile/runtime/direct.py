"""An operator's own function of C++, and where its arguments go: no boxes, no look-up by name, texts too.

    aten.linalg_qr(slot 2, "reduced")     function   _ZN2at4_ops9linalg_qr4callERKNS_6TensorESt17basic_string_view...
                                          registers  0: the result   1: slot 2   2: 7   3: the text's address

torch exports a function for each operator, which calls the dispatcher as eager's call does. Its symbol holds the types
of its arguments, so that a function with other ones is not found, and the operator is called by its name instead
(dispatched.py). A call is a list of words for a processor of the x86-64 kind: six registers of integers, eight of
doubles, and the stack, in the order of the System V ABI; launcher.cpp puts them there. Results come back behind the
first register: one pointer for each tensor, the last one first, as libstdc++ keeps a tuple.

In torch: torchgen/api/cpp.py, which writes the functions. Read next: nbcompile/runtime/operators.h
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

from nbcompile import config
from nbcompile.ir.emitted import AtSlot, RuntimeSize

NUMBER, TENSOR, MAYBE_TENSOR, CELL, TEXT, ARRAY = range(6)
"""Forms of a word, in the order of their numbers in operators.h: itself; the address of a tensor, of an optional one,
of a number, of a text, of several numbers."""
INTEGERS, DOUBLES, STACK = 6, 8, 10
"""Positions of each kind that C has words for."""
MOST_CELLS = 48
"""Numbers of a call that are passed by address."""

Word = tuple[int, Any]
Encoded = tuple[int, tuple[Any, ...], tuple[str, ...]]
"""Address of the function; position, form and value of each word, an array's numbers behind its length; the texts."""


class Kind(NamedTuple):
    """A C++ type by its parts, as the mangled name has them: a name in a namespace, perhaps with an argument."""

    space: str
    name: str
    argument: Kind | str | None = None


TENSOR_KIND = Kind("at", "Tensor")
_TRAITS = Kind("std", "char_traits", "c")
_TEXT_KIND = Kind("std", "basic_string_view", "text")
_PLAIN = {"IntType": "l", "BoolType": "b", "FloatType": "d"}


class NotDirect(Exception):
    """Reason why an operator has to be called another way: a type that has no form here."""


def encoded(target: Any, arguments: dict[str, Any]) -> Encoded | None:
    """A call for C; None where the operator's function, or a form for one of its arguments, is missing.

    Args:
        target: an operator that returns only new tensors.
        arguments: all of them, by their names in the schema.
    """
    if config.reference or not _is_supported_here():
        return None
    schema, words, kinds = target._schema, _Positions(), []
    # A tensor or a tuple of them is no plain data for C++, so that the caller passes the address of the result.
    try:
        words.take([(NUMBER, 0)])  # the address of the result: launcher.c knows it
        for argument in schema.arguments:
            kinds.append(_kind(argument.real_type))
            words.add(argument.real_type, arguments[argument.name])
    except NotDirect:
        return None
    name = schema.name.removeprefix("aten::") + (f"_{schema.overload_name}" if schema.overload_name else "")
    address = _address(mangled(name, kinds))
    return None if address is None or words.cells > MOST_CELLS else (address, tuple(words.code), tuple(words.texts))


@functools.cache
def _is_supported_here() -> bool:
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    # Symbols name no type of a result. The names of libstdc++'s types say that a tuple begins with its last item.
    return _address(mangled("linalg_qr", [TENSOR_KIND, _TEXT_KIND])) is not None


@functools.cache
def _library() -> ctypes.CDLL | None:
    try:
        # The one that torch has loaded: a second copy would have no operators, or other ones.
        return ctypes.CDLL(
            str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"), mode=os.RTLD_NOLOAD | os.RTLD_NOW
        )
    except OSError:
        return None


@functools.lru_cache(maxsize=512)
def _address(symbol: str) -> int | None:
    # None, where the library could not be opened, has no such attribute either. ctypes looks up only exported symbols.
    function = getattr(_library(), symbol, None)
    return None if function is None else ctypes.cast(function, ctypes.c_void_p).value


# ------------------------------------------------------------------------------------------------ names


def _kind(real: Any) -> Kind | str:
    """The C++ type of an argument that the schema declares."""
    kind = real.kind()
    if kind in _PLAIN:
        return _PLAIN[kind]
    match kind:
        case "TensorType":
            return TENSOR_KIND
        case "SymIntType":
            return Kind("c10", "SymInt")
        case "StringType":
            return _TEXT_KIND
        case "ListType" if real.getElementType().kind() in {"IntType", "SymIntType"}:
            return Kind("c10", "ArrayRef", _kind(real.getElementType()))
        case "OptionalType" if real.getElementType().kind() in {*_PLAIN, "TensorType", "SymIntType", "StringType"}:
            return Kind("std", "optional", _kind(real.getElementType()))
    raise NotDirect


def mangled(name: str, kinds: list[Kind | str]) -> str:
    """The symbol of ``at::_ops::NAME::call`` for arguments of these types (the Itanium C++ ABI)."""
    #      _ZN2at4_ops9linalg_qr4callE      at::_ops::linalg_qr::call
    #      RKNS_6TensorE                    at::Tensor const&: S_ is the first name so far, at
    #      St17basic_string_viewIc...E      std::basic_string_view<char, ...>
    # Names so far are numbered from S_, S0_, S1_ on.
    known = ["at", "at::_ops", f"at::_ops::{name}"]
    parts = [_passed(kind, known) for kind in kinds]
    return f"_ZN2at4_ops{len(name)}{name}4callE{''.join(parts) or 'v'}"


def _passed(kind: Kind | str, known: list[str]) -> str:
    """Encode how an argument is passed: tensors by reference to a constant, all others by value."""
    if kind not in (TENSOR_KIND, Kind("std", "optional", TENSOR_KIND)):
        return _type(kind, known)
    if f"{kind} const&" in known:
        return _substitution(f"{kind} const&", known)
    text = _type(kind, known)
    # Each part of a type has its own number from its end on: the type, its constant, the reference to that.
    known += (f"{kind} const", f"{kind} const&")
    return f"RK{text}"


def _type(kind: Kind | str, known: list[str]) -> str:
    if isinstance(kind, str):
        return kind
    if str(kind) in known:
        return _substitution(str(kind), known)
    own = f"{len(kind.name)}{kind.name}"
    # "St" is the namespace std and has no number; a template has one, and one more with its argument.
    if kind.space == "std":
        text = _known_or_new(f"std::{kind.name}", f"St{own}", known)
    elif kind.argument and f"{kind.space}::{kind.name}" in known:
        # The template was named with another argument.
        text = _substitution(f"{kind.space}::{kind.name}", known)
    else:
        text = _known_or_new(kind.space, f"{len(kind.space)}{kind.space}", known) + own
        if kind.argument:
            known.append(f"{kind.space}::{kind.name}")
    if kind == _TEXT_KIND:
        text += f"Ic{_type(_TRAITS, known)}E"
    elif kind.argument:
        text += f"I{_type(kind.argument, known)}E"
    known.append(str(kind))
    return text if kind.space == "std" else f"N{text}E"


def _known_or_new(name: str, text: str, known: list[str]) -> str:
    if name in known:
        return _substitution(name, known)
    known.append(name)
    return text


def _substitution(name: str, known: list[str]) -> str:
    """Encode a repeated name by its number in base 36; the first repetition has no number."""
    at = known.index(name)
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    return "S_" if at == 0 else f"S{digits[at - 1]}_"


# ------------------------------------------------------------------------------------------------ words


class _Positions:
    """Words of a call, each with its position: integers from 0, doubles from 6, the stack from 14."""

    #      0 ... 5       rdi rsi rdx rcx r8 r9       integers and addresses
    #      6 ... 13      xmm0 ... xmm7               doubles
    #      14 ...        the stack                   what does not fit, or is passed in memory
    def __init__(self) -> None:
        self.code: list[Any] = []
        self.texts: list[str] = []
        self.cells = 0
        self._used = [0, 0, 0]

    def add(self, real: Any, value: Any) -> None:
        kind = real.kind()
        if kind == "OptionalType":
            self._add_optional(real.getElementType(), value)
        elif kind == "FloatType":
            self.take([(NUMBER, _bits(value))], doubles=1)
        else:
            self.take(list(self._words(kind, value)))

    def _words(self, kind: str, value: Any) -> Iterator[Word]:
        match kind, value:
            case "TensorType", AtSlot(slot):
                yield TENSOR, slot
            case "BoolType", bool():
                yield NUMBER, int(value)
            case "IntType", int() | RuntimeSize():
                yield NUMBER, _number(value)
            case "SymIntType", int() | RuntimeSize():
                yield CELL, _number(value)
            case "StringType", str():
                self.texts.append(value)
                yield NUMBER, len(value.encode())
                yield TEXT, len(self.texts) - 1
            case "ListType", list() | tuple():
                yield ARRAY, tuple(map(_number, value))
                yield NUMBER, len(value)
            case _:
                raise NotDirect

    def _add_optional(self, inner: Any, value: Any) -> None:
        """Assign a position to an optional argument: a register that value and mark share, or memory above 16 bytes."""
        kind, given = inner.kind(), value is not None
        if kind == "TensorType":
            self.take([(MAYBE_TENSOR, _slot(value))])
        elif kind == "SymIntType":
            # Its class has a destructor, so that C++ passes the address of value and mark.
            self.take([(ARRAY, (_number(value) if given else 0, int(given)))])
        elif kind == "BoolType":
            # Value and mark are one byte each, the mark above.
            self.take([(NUMBER, (int(_bool(value)) | 256) if given else 0)])
        elif kind == "FloatType":
            self.take([(NUMBER, _bits(value) if given else 0), (NUMBER, int(given))], doubles=1)
        elif kind == "IntType":
            self.take([(NUMBER, _number(value) if given else 0), (NUMBER, int(given))])
        else:
            words = list(self._words(kind, value)) if given else [(NUMBER, 0)] * 2
            self.take([*words, (NUMBER, int(given))], in_memory=True)

    def take(self, words: list[Word], doubles: int = 0, in_memory: bool = False) -> None:
        """Assign positions to the words of an argument: all in registers, or all on the stack; doubles are first."""
        integers, used, stacked = self._used
        # What did not fit leaves the registers to later arguments.
        fits = not in_memory and integers + len(words) - doubles <= INTEGERS and used + doubles <= DOUBLES
        for at, (form, value) in enumerate(words):
            if not fits:
                where, stacked = INTEGERS + DOUBLES + stacked, stacked + 1
            elif at < doubles:
                where, used = INTEGERS + used, used + 1
            else:
                where, integers = integers, integers + 1
            many = value if form == ARRAY else ()
            self.code += (where, form, len(many) if form == ARRAY else value, *many)
            self.cells += {MAYBE_TENSOR: 2, CELL: 1}.get(form, len(many))
        self._used = [integers, used, stacked]
        if stacked > STACK:
            raise NotDirect


def _number(value: Any) -> Any:
    """Encode an int as C reads it: one that each call computes is a tuple with its position."""
    if isinstance(value, RuntimeSize):
        return (value.at,)
    # Symbolic ints use the smallest numbers for something else; the largest one is the end of a slice.
    if type(value) is not int or not -(2**61) < value < 2**63:
        raise NotDirect
    return value


def _bool(value: Any) -> bool:
    if type(value) is not bool:
        raise NotDirect
    return value


def _slot(value: Any) -> int:
    """Slot of an optional tensor; -1 for none."""
    if value is not None and not isinstance(value, AtSlot):
        raise NotDirect
    return -1 if value is None else value.slot


def _bits(value: Any) -> int:
    if type(value) not in (float, int):
        raise NotDirect
    bits: int = struct.unpack("q", struct.pack("d", value))[0]
    return bits
