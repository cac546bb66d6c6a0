"""``repr`` of containers and partials: their pieces, joined.

    repr([P(1), {"a": x}])     "[", the result of P.__repr__, ", {'a': ", a slot for the tensor, "}]"
    a = []; a.append(a)        "[[...]]"

A ``__repr__`` of the program is traced for each item, as Python calls it. If an item is a tensor, the text is created
after the graph has run.

In torch: torch/_dynamo/variables/lists.py, dicts.py (``debug_repr``). Read next: nbcompile/tracing/calls/conversions.py
"""

from __future__ import annotations

import collections
import dataclasses
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import VariableTracker, realise, realise_unless_deferred
from nbcompile.tracing.variables.cells import CellVariable
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.deferred import DeferredVariable
from nbcompile.tracing.variables.deques import DequeVariable
from nbcompile.tracing.variables.dict_views import DictViewVariable
from nbcompile.tracing.variables.functions import BaseFunctionVariable
from nbcompile.tracing.variables.known_values import has_methods_in_python
from nbcompile.tracing.variables.mappings import DictVariable
from nbcompile.tracing.variables.partial import PartialVariable
from nbcompile.tracing.variables.sequences import ListVariable, TupleVariable
from nbcompile.tracing.variables.sets import SetVariable
from nbcompile.tracing.variables.strings import TextVariable, join

Pieces = list[VariableTracker] | None
"""The parts of a text, in order; None for a value whose text is unknown while tracing."""
SETS = (set, frozenset)
CURLY_ORDERED = repr(collections.OrderedDict(a=1)).startswith("OrderedDict({")
"""True where an OrderedDict is written as a dict (Python 3.12 and later), not as pairs."""


def representation(
    tracer: Tracer, value: VariableTracker, cls: type | None = None, name: str = ""
) -> VariableTracker | None:
    """``cls.__repr__(value)`` of a container or partial; None for any other value, and where the order is not known.

    ``name`` is that of the object's class, where it derives from a built-in one.
    """
    cls = cls or value.python_type()
    pieces = next((pieces for kind, pieces in _KINDS.items() if isinstance(value, kind)), None)
    if pieces is None:
        return None
    shown = _ReprTarget(tracer, value, cls, name or cls.__name__)
    if any(running is value for running in tracer.represented):
        return join(shown.recursive())
    # The method of a named tuple is written in Python, without a check for recursion.
    if not hasattr(cls, "_fields"):
        tracer.represented.append(value)
    try:
        found = pieces(shown)
    finally:
        tracer.represented[:] = [running for running in tracer.represented if running is not value]
    return None if found is None else join(found)


@dataclasses.dataclass
class _ReprTarget:
    """A container, with the classes that determine its text."""

    tracer: Tracer
    value: Any
    cls: type
    """The class whose ``__repr__`` is called."""
    name: str
    """The name of the object's own class."""

    def recursive(self) -> list[VariableTracker]:
        """Text of a container inside of itself."""
        if self.cls is collections.defaultdict:
            return _with_factory(self, [ConstantVariable("{...}")])
        shapes: dict[type, str] = {list: "[...]", tuple: "(...)", dict: "{...}", collections.deque: "[...]"}
        return [ConstantVariable(shapes.get(self.cls, f"{self.name}(...)" if self.cls in SETS else "..."))]

    def text(self, value: VariableTracker) -> VariableTracker:
        """``repr`` of an item."""
        found = realise_unless_deferred(self.tracer, self.tracer.call(self.tracer.wrap(repr, None), [value]))
        assert isinstance(found, (ConstantVariable, TextVariable, DeferredVariable))
        return found

    def listed(self, values: Iterable[VariableTracker]) -> list[VariableTracker]:
        """The texts of items, with commas between them."""
        pieces: list[VariableTracker] = []
        for value in values:
            pieces += [ConstantVariable(", ")] * bool(pieces) + [self.text(value)]
        return pieces

    def within(self, before: str, pieces: Sequence[VariableTracker], after: str) -> list[VariableTracker]:
        """Pieces between brackets."""
        return [ConstantVariable(before), *pieces, ConstantVariable(after)]


def _sequence(shown: _ReprTarget) -> Pieces:
    items = shown.value.unpack_keeping_deferred(shown.tracer)
    return shown.within("[", shown.listed(items), "]")


def _tuple(shown: _ReprTarget) -> Pieces:
    value: TupleVariable = shown.value
    items = value.unpack_keeping_deferred(shown.tracer)
    fields = getattr(shown.cls, "_fields", None)
    if has_methods_in_python(shown.cls):
        return None  # a ``__repr__`` of the program, which Python calls after the graph
    if fields is not None:
        parts: list[VariableTracker] = []
        for field, item in zip(fields, items, strict=True):
            parts += [ConstantVariable(", " * bool(parts) + f"{field}="), shown.text(item)]
        return shown.within(f"{shown.name}(", parts, ")")
    if shown.cls is torch.Size:
        return shown.within("torch.Size([", shown.listed(items), "])")
    if shown.cls is not tuple:  # a named result tuple of torch
        return None
    return shown.within("(", shown.listed(items), ",)" if len(items) == 1 else ")")


def _deque(shown: _ReprTarget) -> Pieces:
    value: DequeVariable = shown.value
    after = "])" if value.maxlen is None else f"], maxlen={value.maxlen})"
    return shown.within(f"{shown.name}([", shown.listed(value.unpack_keeping_deferred(shown.tracer)), after)


def _set(shown: _ReprTarget) -> Pieces:
    value: SetVariable = shown.value
    items = value.unpack_keeping_deferred(shown.tracer)
    if len(items) > 1 and not all(item.is_constant() for item in items):
        return None  # the order of objects is that of their addresses
    if not items:
        return [ConstantVariable(f"{shown.name}()")]
    if shown.cls is set and shown.name == "set":
        return shown.within("{", shown.listed(items), "}")
    return shown.within(f"{shown.name}({{", shown.listed(items), "})")


def _entries(shown: _ReprTarget) -> list[VariableTracker]:
    """A dict in curly brackets."""
    pieces: list[VariableTracker] = []
    for key, item in zip(shown.value.keys(shown.tracer), shown.value.values(shown.tracer), strict=True):
        pieces += [ConstantVariable(", ")] * bool(pieces)
        pieces += [shown.text(key), ConstantVariable(": "), shown.text(item)]
    return shown.within("{", pieces, "}")


def _dict(shown: _ReprTarget) -> Pieces:
    value: DictVariable = shown.value
    if shown.cls is dict:
        return _entries(shown)
    if shown.cls is collections.defaultdict:
        return _with_factory(shown, _entries(shown))
    if shown.cls is not collections.OrderedDict:
        return None
    if not value.keys(shown.tracer):
        return [ConstantVariable(f"{shown.name}()")]
    if CURLY_ORDERED:
        return shown.within(f"{shown.name}(", _entries(shown), ")")
    pairs = zip(value.keys(shown.tracer), value.values(shown.tracer), strict=True)
    return shown.within(f"{shown.name}([", shown.listed(map(TupleVariable, pairs)), "])")


def _with_factory(shown: _ReprTarget, entries: Sequence[VariableTracker]) -> list[VariableTracker]:
    factory = shown.text(shown.value.default or ConstantVariable(None))
    return shown.within(f"{shown.name}(", [factory, ConstantVariable(", "), *entries], ")")


def _view(shown: _ReprTarget) -> Pieces:
    return shown.within(f"{shown.name}([", shown.listed(shown.value.unpack_keeping_deferred(shown.tracer)), "])")


def _partial(shown: _ReprTarget) -> Pieces:
    value: PartialVariable = shown.value
    tracer = shown.tracer
    pieces = shown.listed([value.function, *value.arguments.unpack(tracer)])
    keywords = realise(tracer, value.keywords)
    assert isinstance(keywords, DictVariable)
    for key, item in zip(keywords.keys(tracer), keywords.values(tracer), strict=True):
        pieces += [ConstantVariable(f", {key.constant()}="), shown.text(item)]
    return shown.within("functools.partial(", pieces, ")")


_KINDS: Mapping[type[VariableTracker], Callable[[_ReprTarget], Pieces]] = {
    DequeVariable: _deque,  # before ListVariable, its base class
    ListVariable: _sequence,
    TupleVariable: _tuple,
    SetVariable: _set,
    DictVariable: _dict,
    DictViewVariable: _view,
    PartialVariable: _partial,
}

RECURSIVE_REPR = frozenset(
    decorate(lambda _: "").__code__
    for decorate in (reprlib.recursive_repr(), getattr(dataclasses, "_recursive_repr", reprlib.recursive_repr()))
)
"""The wrappers that detect recursion: of reprlib, and of data classes."""


def represented(tracer: Tracer, function: BaseFunctionVariable, owner: VariableTracker) -> VariableTracker:
    """Result of ``reprlib.recursive_repr``: the method's result, or the filling for an object inside of itself."""
    # The wrapper reads the thread's id, which no guard may compare: other threads call the code, too.
    cells = dict(zip(function.code.co_freevars, function.closure_cells(tracer), strict=True))
    owner = realise(tracer, owner)
    if any(running is owner for running in tracer.represented):
        filling = cells.get("fillvalue")
        return ConstantVariable("...") if filling is None else _content(filling)
    tracer.represented.append(owner)
    try:
        return tracer.call(_content(cells["user_function"]), [owner])
    finally:
        tracer.represented.remove(owner)


def _content(cell: CellVariable) -> VariableTracker:
    assert cell.content is not None
    return cell.content
