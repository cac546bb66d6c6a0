"""Variable trackers: one for each value of the program while it is traced.

Every value on the symbolic stack is a variable tracker. It represents
the value by a constant, a node of the graph or other trackers, implements Python's
operations on it, and reconstructs the value after the graph.

    x + 1        TensorVariable, ConstantVariable  ->  TensorVariable of a new node

Trackers are compared by identity, as the values that they represent.

In torch: torch/_dynamo/variables/base.py. Read next: constant.py, tensor.py
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import NoReturn, Self

from nbcompile.capture.recipe import FromSource, Recipe
from nbcompile.capture.source import AttrSource, Source
from nbcompile.support.class_flags import HEAP_TYPE
from nbcompile.support.real_class import class_is_computed
from nbcompile.tracing import breaks
from nbcompile.tracing.exceptions import Unhashable
from nbcompile.tracing.graph.body import creation_order
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.class_facts import (
    NO_CONSTANT,
    constant_in_c,
    has_class_members_only,
    is_class_member,
    is_fixed,
    is_method_in_c,
    name_in_errors,
    type_of_method,
)

Arguments = Sequence["VariableTracker"]
Keywords = Mapping[str, "VariableTracker"]

TYPE_ERRORS = {
    "__getitem__": "'{}' object is not subscriptable",
    "__setitem__": "'{}' object does not support item assignment",
    "__delitem__": "'{}' object does not support item deletion",
    "__contains__": "argument of type '{}' is not iterable",
    "__iter__": "'{}' object is not iterable",
    "__len__": "object of type '{}' has no len()",
    "__call__": "'{}' object is not callable",
    "__next__": "'{}' object is not an iterator",
    "__enter__": "'{}' object does not support the context manager protocol",
}
"""Python's message for a class that lacks a special method."""


class VariableTracker:
    """Tracker of one value. An operation that no subclass implements raises Python's error or breaks the graph."""

    source: Source | None = None
    was_raised = False
    """True for an exception that the traced code raised."""
    created_at: int

    def __new__(cls, /, *_arguments: object, **_keywords: object) -> Self:
        tracker = super().__new__(cls)
        # Numbered in order of creation, to find the trackers that were created after a moment (``SideEffects``).
        tracker.created_at = next(creation_order)
        return tracker

    def python_type(self) -> type:
        """The class of the value."""
        raise NotImplementedError(type(self).__name__)

    def describe(self) -> str:
        """Text of the value on the symbolic stack, for messages."""
        return f"{type(self).__name__}()"

    # -- constants and graph arguments ---------------------------------------------------

    def is_constant(self) -> bool:
        """True if :meth:`constant` returns a value."""
        return False

    def constant(self) -> object:
        """The value itself; only for a tracker of which :meth:`is_constant` is true."""
        raise AssertionError(f"{self.describe()} is no constant")

    def proxy(self) -> object:
        """The value as an argument of a graph node."""
        context = f"call_function args: {self.describe()}"
        # The default of every operation: one that a tracker does not implement is a break, never a guess.
        raise breaks.unsupported(breaks.NOT_A_GRAPH_VALUE, context, name=self.type_name())

    def fits_a_node(self) -> bool:
        """True if :meth:`proxy` may return an argument."""
        return type(self).proxy is not VariableTracker.proxy

    def hash_key(self, tracer: Tracer) -> Hashable:
        """Key that represents the value in a dict or set: values with equal keys are one key of the program's dict.

        Raises:
            Unhashable: the value has no hash.
        """
        if self.is_unhashable():
            raise Unhashable(f"unhashable type: '{self.error_name()}'")
        if self.is_constant():
            return self.constant()
        raise breaks.unsupported(
            breaks.UNSUPPORTED_CALL, f"hash({self.describe()})", name=f"hash of a {self.type_name()}"
        )

    def is_unhashable(self) -> bool:
        """True if the value's class declares that it has no hash."""
        try:
            return self.python_type().__hash__ is None
        except NotImplementedError:
            return False

    # -- Python's operations -------------------------------------------------------------

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        """``value.name``."""
        # `type(value)` is python_type; `value.__class__` is an attribute, which a class may redefine (objects.py).
        cls = self.python_type()
        if name == "__class__" and not class_is_computed(cls):
            return tracer.wrap(cls, None)
        # A method in C may be read and passed on; only its call breaks the graph.
        if is_method_in_c(cls, name):
            return UntracedMethodVariable(self, name)
        if has_class_members_only(cls):
            self.check_attribute(tracer, name)
        raise breaks.unsupported(
            breaks.UNSUPPORTED_ATTRIBUTE, f"{self.describe()}.{name}", attribute=name, name=self.type_name()
        )

    def set_attribute(self, tracer: Tracer, name: str, value: VariableTracker) -> None:
        """``value.name = ...``."""
        raise breaks.unsupported(breaks.UNSUPPORTED_MUTATION, f"{self.describe()}.{name} = ...", name=self.type_name())

    def delete_attribute(self, tracer: Tracer, name: str) -> None:
        """``del value.name``."""
        raise breaks.unsupported(breaks.UNSUPPORTED_MUTATION, f"del {self.describe()}.{name}", name=self.type_name())

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        """``value(...)``."""
        raise breaks.unsupported(breaks.UNSUPPORTED_CALL, f"{self.describe()}(...)", name=f"a {self.type_name()}")

    def call_method(self, tracer: Tracer, name: str, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        """``value.name(...)``."""
        return tracer.call(self.get_attribute(tracer, name), arguments, keywords)

    def builtin_method(
        self, tracer: Tracer, cls: type, name: str, arguments: Arguments, keywords: Keywords
    ) -> VariableTracker:
        """A method in C of the class (or a base of it): ``dict.get(value, ...)``."""
        return self.call_method(tracer, name, arguments, keywords)

    def get_item(self, tracer: Tracer, key: VariableTracker) -> VariableTracker:
        """``value[key]``."""
        self._raise_missing(tracer, "__getitem__")

    def set_item(self, tracer: Tracer, key: VariableTracker, value: VariableTracker) -> None:
        """``value[key] = ...``."""
        self._raise_missing(tracer, "__setitem__")

    def delete_item(self, tracer: Tracer, key: VariableTracker) -> None:
        """``del value[key]``."""
        cls = self.python_type()
        # For an integer, CPython asks the class's slots for sequences, whose error is worded otherwise.
        is_sequence = cls.__flags__ & HEAP_TYPE or hasattr(cls, "__len__")
        if is_sequence and issubclass(key.python_type(), int) and self.lacks("__delitem__"):
            tracer.raise_exception(TypeError, f"'{self.error_name()}' object doesn't support item deletion")
        self._raise_missing(tracer, "__delitem__")

    def cannot_be_iterated(self) -> bool:
        """True if the class is known to have neither ``__iter__`` nor ``__getitem__``."""
        return self.lacks("__iter__", "__getitem__")

    def check_iterable(self, tracer: Tracer) -> None:
        """Raise the error of ``iter(value)``, if the class is not iterable."""
        if self.cannot_be_iterated():
            tracer.raise_exception(TypeError, TYPE_ERRORS["__iter__"].format(self.error_name()))

    def contains(self, tracer: Tracer, item: VariableTracker) -> bool:
        """``item in value``: without a ``__contains__``, an iterator advances up to the first item that is equal."""
        if self.lacks("__contains__") and not self.lacks("__iter__"):
            return self.search(tracer, self.iterate(tracer), item)
        self._raise_missing(tracer, "__contains__", "__iter__", "__getitem__")

    def search(self, tracer: Tracer, items: VariableTracker, item: VariableTracker) -> bool:
        """Advance an iterator up to the first item that is equal; False if there is none."""
        iterator = realise(tracer, items)
        # Only as many items as are needed: the others stay in the iterator, which the program may continue to use.
        while (found := iterator.next_item(tracer)) is not None:
            if tracer.equal_items(realise(tracer, found), item):
                return True
        return False

    def iterate(self, tracer: Tracer) -> VariableTracker:
        """``iter(value)``."""
        raise breaks.unsupported(breaks.NOT_ITERABLE, self.describe(), name=self.type_name())

    def next_item(self, tracer: Tracer) -> VariableTracker | None:
        """``next(value)``; None where StopIteration would be raised."""
        if self.lacks("__next__"):
            tracer.raise_exception(TypeError, TYPE_ERRORS["__next__"].format(self.type_name()))
        raise breaks.unsupported(breaks.ITERATOR_INPUT, f"next({self.type_name()})", name=self.type_name())

    ending: VariableTracker | None = None
    """Value of the StopIteration of an exhausted iterator, or None."""

    def unpack(self, tracer: Tracer) -> list[VariableTracker]:
        """All items, in order."""
        iterator = self.iterate(tracer)
        items: list[VariableTracker] = []
        while (item := iterator.next_item(tracer)) is not None:
            items.append(item)
        return items

    def listed(self, tracer: Tracer) -> list[VariableTracker]:
        """All items, for a new list or tuple; calls a ``__len__`` in Python, too, as CPython does."""
        return self.unpack_keeping_deferred(tracer)

    def unpack_keeping_deferred(self, tracer: Tracer) -> list[VariableTracker]:
        """All items, in order; deferred ones stay deferred."""
        return self.unpack(tracer)

    def length(self, tracer: Tracer) -> VariableTracker:
        """``len(value)``."""
        self._raise_missing(tracer, "__len__")

    def truth(self, tracer: Tracer) -> bool:
        """``bool(value)``."""
        # An object of a class with neither method is always true; for another one the method would have to be called.
        for name in ("__bool__", "__len__"):
            if hasattr(self.python_type(), name):
                self.no_method(name)
        return True

    def is_created_here(self) -> bool:
        """True if the traced code created the value: it does not exist outside."""
        return self.source is None and self.identity() is self

    def identity(self) -> object:
        """Key under which mutations are recorded: trackers of the same object (of a class, say) return the same one."""
        return self

    # -- reconstruction ------------------------------------------------------------------

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        """Recipe by which the residual program reconstructs the value."""
        if self.source is not None:
            return FromSource(self.source)
        raise breaks.unsupported(breaks.UNSUPPORTED_VALUE, self.describe(), name=self.type_name())

    # -- helpers -------------------------------------------------------------------------

    def check_attribute(self, tracer: Tracer, name: str) -> None:
        """Raise AttributeError if the value has only the attributes of its class, and the class lacks the name."""
        cls = self.python_type()
        if not is_class_member(cls, name):
            tracer.raise_exception(AttributeError, f"'{name_in_errors(cls)}' object has no attribute '{name}'")

    def type_name(self) -> str:
        """The name of the value's class, for messages."""
        try:
            return self.python_type().__name__
        except NotImplementedError:
            return type(self).__name__

    def error_name(self) -> str:
        """The name of the value's class in Python's own errors."""
        try:
            return name_in_errors(self.python_type())
        except NotImplementedError:
            return type(self).__name__

    def _raise_missing(self, tracer: Tracer, *methods: str) -> NoReturn:
        """Raise Python's TypeError if the class has none of the methods; break if it has one."""
        if self.lacks(*methods):
            tracer.raise_exception(TypeError, TYPE_ERRORS[methods[0]].format(self.error_name()))
        self.no_method(methods[0])

    def lacks(self, *methods: str) -> bool:
        """True if the value's class has none of the methods."""
        try:
            return not any(hasattr(self.python_type(), name) for name in methods)
        except NotImplementedError:
            return False

    def no_method(self, name: str) -> NoReturn:
        """Break the graph: the method is not traced."""
        raise breaks.unsupported(
            breaks.UNSUPPORTED_METHOD, f"call_method {self.describe()} {name}", name=name, type=self.type_name()
        )


class UntracedMethodVariable(VariableTracker):
    """A method in C without a handler, before it is called: the call breaks the graph, and runs in Python."""

    def __init__(self, owner: VariableTracker, name: str) -> None:
        self.owner = owner
        self.name = name

    def python_type(self) -> type:
        return type_of_method(self.owner.python_type(), self.name)

    def describe(self) -> str:
        return f"GetAttrVariable({self.owner.describe()}, {self.name})"

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        self.owner.no_method(self.name)

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        return reconstruction.attribute(reconstruction.recipe(self.owner), self.name)


class LazyVariable(VariableTracker):
    """An input that was not used yet: no guard, no graph input.

    ``realise`` wraps it when an operation needs it; passing it on, storing it or
    returning it does not.

    In torch: torch/_dynamo/variables/lazy.py
    """

    is_deferred = False
    """True for a value that Python computes after the graph (deferred.py)."""

    def __init__(self, value: object, source: Source | None) -> None:
        self.value = value
        self.source = source
        self.realised: VariableTracker | None = None

    def python_type(self) -> type:
        return type(self.value)

    def describe(self) -> str:
        return self.realised.describe() if self.realised else "LazyVariableTracker(unrealized)"

    def realise(self, tracer: Tracer) -> VariableTracker:
        """The tracker of the value, which is guarded from now on."""
        if self.realised is None:
            # Once: the guards are added at the first use, and each later use has the same tracker.
            self.realised = tracer.wrap(self.value, self.source)
        return self.realised

    def hash_key(self, tracer: Tracer) -> Hashable:
        return self.realise(tracer).hash_key(tracer)

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        # Never used: its source resolves to it, whatever it is, and no guard was needed.
        return self.realised.recipe(reconstruction) if self.realised else super().recipe(reconstruction)


def realise(tracer: Tracer, tracker: VariableTracker) -> VariableTracker:
    """The tracker that a lazy one resolves to; any other tracker itself."""
    return tracker.realise(tracer) if isinstance(tracker, LazyVariable) else tracker


def is_deferred(tracker: VariableTracker) -> bool:
    """True for a value that Python computes after the graph, and that nothing has needed yet."""
    return isinstance(tracker, LazyVariable) and tracker.is_deferred and tracker.realised is None


def realise_unless_deferred(tracer: Tracer, tracker: VariableTracker) -> VariableTracker:
    """The tracker itself if its value is deferred, else the realised one, whose value is guarded from now on."""
    return tracker if is_deferred(tracker) else realise(tracer, tracker)


class NullVariable(VariableTracker):
    """The NULL that CPython pushes with a callable."""

    def describe(self) -> str:
        return "NullVariable"


class UnknownVariable(VariableTracker):
    """A real value of an unsupported kind: it can be passed on, not used.

    Only attributes that never change are read (``is_fixed``), and constants that C computes. Messages
    describe it as torch describes a user-defined object (whose tracker is in objects.py).
    """

    def __init__(self, value: object, source: Source | None) -> None:
        self.value = value
        self.source = source

    def python_type(self) -> type:
        return type(self.value)

    def describe(self) -> str:
        return f"UserDefinedObjectVariable({type(self.value).__name__})"

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        source = None if self.source is None else AttrSource(self.source, name)
        if is_fixed(type(self.value), name):
            return tracer.wrap(getattr(self.value, name), source)
        computed = NO_CONSTANT if source is None else constant_in_c(self.value, name)
        return super().get_attribute(tracer, name) if computed is NO_CONSTANT else tracer.wrap(computed, source)
