"""Values observed at the calls of one function: those that differ become symbols (automatic dynamic shapes).

After each trace the sizes and numbers that its guards check are joined with those of earlier calls.

    f(ones(3))     note: L['x'] has sizes (3,)
    f(ones(4))     observed: dim 0 of L['x'] differs, so it is traced as a symbol

In torch: torch/_dynamo/pgo.py. Read next: nbcompile/dispatch/profile.py
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from types import CodeType, FunctionType, MethodType
from typing import Any

import torch

from nbcompile import config
from nbcompile.capture.frame import Frame
from nbcompile.capture.guard import Guard, GuardKind
from nbcompile.capture.resolution import Scope, resolve
from nbcompile.capture.source import ConstantSource, Source, expression, root
from nbcompile.dispatch import profile
from nbcompile.support.process_state import STATE, Lifetime


@dataclass(frozen=True, slots=True)
class ObservedValues:
    """Values to trace as symbols, by the expression of the source."""

    dims: dict[str, frozenset[int]] = field(default_factory=dict)
    """Dims of a tensor whose size differed between calls."""
    strides: dict[str, frozenset[int]] = field(default_factory=dict)
    """Dims whose stride differed while no size did."""
    scalars: frozenset[str] = frozenset()
    """Ints and floats that differed."""


class _Varies:
    def __repr__(self) -> str:
        return "varies"


_VARIES = _Varies()
_Atom = int | float | _Varies | None
_Atoms = tuple[_Atom, ...] | _Varies


@dataclass(frozen=True, slots=True)
class _Values:
    """All values that one source had, joined: a number where they agree, ``varies`` where not."""

    scalar: _Atom
    sizes: _Atoms
    strides: _Atoms

    @staticmethod
    def of(value: object) -> _Values | None:
        if isinstance(value, torch.Tensor):
            if value.layout is torch.jagged:  # its ragged size is a symbol of its own in each tensor
                sizes = tuple(size if type(size) is int else _VARIES for size in value.shape)
                return _Values(_VARIES, sizes, _VARIES)
            if value.layout is not torch.strided or value.is_nested:
                return None
            return _Values(_VARIES, tuple(value.shape), tuple(value.stride()))
        if type(value) in (int, float):
            return _Values(value, _VARIES, _VARIES)  # type: ignore[arg-type]
        return None

    def plain(self) -> list[Any]:
        """JSON form, with ``"?"`` for values that vary."""

        def encoded(atoms: _Atoms) -> Any:
            return "?" if isinstance(atoms, _Varies) else ["?" if isinstance(atom, _Varies) else atom for atom in atoms]

        return ["?" if isinstance(self.scalar, _Varies) else self.scalar, encoded(self.sizes), encoded(self.strides)]

    @staticmethod
    def from_plain(plain: list[Any]) -> _Values:
        """Inverse of :meth:`plain`."""

        def atoms(encoded: Any) -> _Atoms:
            return _VARIES if encoded == "?" else tuple(_VARIES if atom == "?" else atom for atom in encoded)

        scalar, sizes, strides = plain
        return _Values(_VARIES if scalar == "?" else scalar, atoms(sizes), atoms(strides))

    def join(self, other: _Values) -> _Values:
        return _Values(
            _join(self.scalar, other.scalar),
            _join_all(self.sizes, other.sizes),
            _join_all(self.strides, other.strides),
        )


def _join(first: _Atom, second: _Atom) -> _Atom:
    are_nan = first != first and second != second  # noqa: PLR0124
    return first if first == second or are_nan else _VARIES  # 1 and 1.0 agree, as in torch


def _join_all(first: _Atoms, second: _Atoms) -> _Atoms:
    if isinstance(first, _Varies) or isinstance(second, _Varies) or len(first) != len(second):
        return _VARIES  # a tensor whose rank differs: every size of it does
    return tuple(_join(a, b) for a, b in zip(first, second, strict=True))


_CodeName = tuple[object, ...]
_memory: dict[_CodeName, dict[Source, _Values]] = STATE.add("dispatch.observed_values._memory", {}, Lifetime.RESET)


def observed(frame: Frame, dynamic: bool | None = None) -> ObservedValues:
    """Values that differ between this call and those compiled before (automatic dynamic shapes)."""
    if dynamic is False or not config.automatic_dynamic_shapes:
        return ObservedValues()
    with torch._C.DisableTorchFunction():
        return _observed(frame, _joined(frame, _known(frame)))


def _observed(frame: Frame, joined: Iterable[tuple[Source, _Values]]) -> ObservedValues:
    dims, strides, scalars = {}, {}, set()
    for source, values in joined:
        name = expression(source)
        rank = _rank_of(source, frame)
        if rank is None:
            if values.scalar is _VARIES:
                scalars.add(name)
        # Sizes before strides: the strides of a contiguous tensor follow from its sizes, and would vary as well.
        elif varying := _varying(values.sizes, rank):
            dims[name] = varying
        elif varying := _varying(values.strides, rank):
            strides[name] = varying
    return ObservedValues(dims, strides, frozenset(scalars))


def note(frame: Frame, guards: Iterable[Guard], inputs: Iterable[Source] = ()) -> None:
    """Remember the sizes and numbers that the guards of this call's trace check (after it was traced)."""
    looked_at: dict[Source, _Values] = {}
    scope = frame.scope()
    with torch._C.DisableTorchFunction():  # no ``__torch_function__`` may see these reads
        for source in (*_sized_sources(guards), *inputs):
            values = _values(source, scope)
            if values is not None and not isinstance(root(source), ConstantSource):
                looked_at[source] = values
    known = _known(frame)
    for source, values in looked_at.items():
        # Joined over all calls: a number that ever differed stays a symbol.
        known[source] = known[source].join(values) if source in known else values
    profile.keep(frame.code, ((source, values.plain()) for source, values in known.items()))


def _known(frame: Frame) -> dict[Source, _Values]:
    """Values of a function seen so far, in this process and, for a job with an id, in earlier ones."""
    name = _code_name(frame)
    if name not in _memory:
        recalled = profile.recall(frame.code)
        _memory[name] = {source: _Values.from_plain(values) for source, values in recalled.items()}
    return _memory[name]


def _sized_sources(guards: Iterable[Guard]) -> Iterator[Source]:
    for guard in guards:
        if guard.source is not None and guard.kind in (GuardKind.TENSOR_MATCH, GuardKind.EQUALS_MATCH):
            yield guard.source


def _joined(frame: Frame, known: dict[Source, _Values]) -> Iterator[tuple[Source, _Values]]:
    scope = frame.scope()
    for source, before in known.items():
        now = _values(source, scope)
        if now is not None:
            yield source, before.join(now)


def _values(source: Source, scope: Scope) -> _Values | None:
    try:
        return _Values.of(resolve(source, scope))
    except Exception:  # noqa: BLE001 - an address of an earlier call that leads nowhere in this one
        return None


def _rank_of(source: Source, frame: Frame) -> int | None:
    value = resolve(source, frame.scope())
    return value.dim() if isinstance(value, torch.Tensor) else None


def _varying(atoms: _Atoms, rank: int) -> frozenset[int]:
    if isinstance(atoms, _Varies):
        return frozenset(range(rank))
    return frozenset(dim for dim, atom in enumerate(atoms) if atom is _VARIES)


def _code_name(frame: Frame) -> _CodeName:
    # By source location and name, as torch does: a function that is defined again (a cell
    # that runs twice, a new closure) keeps its profile.
    code = frame.code
    captured = tuple(hash(code) for code in map(_code_in_cell, frame.closure) if code is not None)
    return (code.co_filename, code.co_firstlineno, code.co_name, captured)


def _code_in_cell(cell: object) -> CodeType | None:
    try:
        content = cell.cell_contents  # type: ignore[attr-defined]
    except ValueError:  # not assigned yet
        return None
    # Other objects are not compared: __eq__ may be the user's code.
    return getattr(content, "__code__", None) if type(content) in (FunctionType, MethodType) else None


def forget_observed() -> None:
    """Forget the values of all calls; the profile of a job on disk is kept."""
    _memory.clear()
