"""Views of a dict (``keys``, ``values``, ``items``), and iterators over them, which raise if the dict changes size.

    for key in d: d["new"] = 1      RuntimeError: dictionary changed size during iteration

In torch: torch/_dynamo/variables/dicts.py (``DictViewVariable``). Read next:
nbcompile/tracing/variables/mappings.py
"""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nbcompile.capture.recipe import Call, Recipe
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import VariableTracker, realise
from nbcompile.tracing.variables.containers import ContainerVariable
from nbcompile.tracing.variables.iterators import WatchingIteratorVariable
from nbcompile.tracing.variables.sequences import TupleVariable

if TYPE_CHECKING:
    from nbcompile.tracing.variables.mappings import DictVariable


def empty_dict(cls: type) -> dict[object, object]:
    """An empty dict of Python's own class: the program's class may need arguments."""
    return collections.OrderedDict() if issubclass(cls, collections.OrderedDict) else {}


def iterator_over(
    owner: DictVariable, items: Sequence[VariableTracker], which: str, backwards: bool
) -> WatchingIteratorVariable:
    """An iterator over the keys, values or items of a dict, of the class that Python has for it."""
    step = reversed if backwards else iter
    cls = type(step(getattr(empty_dict(owner.cls), which)()))
    ordered = TupleVariable(items[::-1] if backwards else items)
    keys = [key for key, _ in owner.entries.values()]
    keys = keys[::-1] if backwards else keys

    def read(tracer: Tracer, index: int) -> VariableTracker:
        # A value may have been replaced; the keys are unchanged, or the iterator would raise.
        value = owner.get_item(tracer, keys[index])
        return value if which == "values" else TupleVariable([realise(tracer, keys[index]), value])

    if owner.cls is collections.OrderedDict:  # it also detects a moved key
        message = "OrderedDict mutated during iteration"
        iterator = WatchingIteratorVariable(owner, ordered, cls, lambda: tuple(owner.entries), message)
        iterator.exhausts_early = True
    else:
        message = "dictionary changed size during iteration"
        iterator = WatchingIteratorVariable(owner, ordered, cls, lambda: len(owner.entries), message)
        # The key objects are compared: a key that was deleted and inserted again is a new entry of the hash table.
        iterator.watching(lambda: tuple([key for key, _ in owner.entries.values()]))
    iterator.read = None if which == "keys" else read
    return iterator


class DictViewVariable(ContainerVariable):
    """``d.keys()``, ``d.values()`` or ``d.items()``: a view of the dict."""

    def __init__(self, owner: DictVariable, which: str) -> None:
        self.owner = owner
        self.which = which
        self.cls = type(getattr(empty_dict(owner.cls), which)())

    def describe(self) -> str:
        return f"Dict{self.which.capitalize()}Variable()"

    def unpack(self, tracer: Tracer) -> list[VariableTracker]:
        if self.which == "keys":
            return self.owner.keys(tracer)
        if self.which == "values":
            return self.owner.values(tracer)
        return [TupleVariable(pair) for pair in zip(self.owner.keys(tracer), self.owner.values(tracer), strict=True)]

    def iterate(self, tracer: Tracer) -> VariableTracker:
        return iterator_over(self.owner, self.unpack(tracer), self.which, backwards=False)

    def backwards(self, tracer: Tracer) -> VariableTracker:
        """``reversed(d.keys())``."""
        return iterator_over(self.owner, self.unpack(tracer), self.which, backwards=True)

    def length(self, tracer: Tracer) -> VariableTracker:
        return self.owner.length(tracer)

    def truth(self, tracer: Tracer) -> bool:
        return self.owner.truth(tracer)

    def contains(self, tracer: Tracer, item: VariableTracker) -> bool:
        if self.which == "keys":
            return self.owner.contains(tracer, item)
        # As for items of a container: the same object is equal, even a NaN.
        return any(tracer.equal_items(value, item) for value in self.unpack(tracer))

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        return Call(reconstruction.attribute(reconstruction.recipe(self.owner), self.which))
