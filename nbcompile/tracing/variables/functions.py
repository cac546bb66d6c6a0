"""Functions, methods and cells.

A Python function is traced through: its body is run symbolically in a frame of
its own (inlining.py). One that tracing must not enter breaks the graph when it
is called, with the reason that rules.py gives.

In torch: torch/_dynamo/variables/functions.py. Read next: objects.py
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import BuiltinMethodType, CodeType, FunctionType
from typing import Any

import torch

from nbcompile import torch_internals
from nbcompile.capture.guard import GuardKind
from nbcompile.capture.recipe import Constant, FromSource, Function, Recipe
from nbcompile.capture.source import AttrSource, CellSource, ItemSource, Source
from nbcompile.tracing import breaks
from nbcompile.tracing.graph.body import creation_order
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import (
    Arguments,
    Keywords,
    LazyVariable,
    UnknownVariable,
    VariableTracker,
    realise,
)
from nbcompile.tracing.variables.cells import CellVariable, cell_tracker
from nbcompile.tracing.variables.class_facts import is_class_member
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.instance_dict import InstanceDictVariable, window_of
from nbcompile.tracing.variables.mappings import DictVariable
from nbcompile.tracing.variables.sequences import TupleVariable


class BaseFunctionVariable(VariableTracker):
    """A function that tracing can go through."""

    def python_type(self) -> type:
        return FunctionType

    # What binding arguments and running the body need; answered by each kind of function.
    code: CodeType
    name: str
    qualname: str

    def default_values(self, tracer: Tracer) -> Sequence[VariableTracker]:
        """Defaults of the last positional parameters."""
        raise NotImplementedError

    def keyword_defaults(self, tracer: Tracer) -> Mapping[str, VariableTracker]:
        """Defaults of keyword-only parameters."""
        raise NotImplementedError

    def closure_cells(self, tracer: Tracer) -> Sequence[CellVariable]:
        """Its cells, in the order of ``co_freevars``."""
        raise NotImplementedError

    def global_scope(self) -> dict[str, object]:
        """The real globals that its body reads."""
        raise NotImplementedError

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        return tracer.inline(self, arguments, keywords)


class FunctionVariable(BaseFunctionVariable):
    """A function that exists outside of the traced code."""

    def __init__(self, function: FunctionType, source: Source | None = None) -> None:
        self.function = function
        self.source = source
        self.code = function.__code__
        self.name = function.__name__
        self.qualname = function.__qualname__

    def describe(self) -> str:
        return f"UserFunctionVariable({self.name})"

    def hash_key(self, tracer: Tracer) -> Hashable:
        return self.function

    def default_values(self, tracer: Tracer) -> Sequence[VariableTracker]:
        # Defaults are part of the function object and may be replaced: each has a source below the function, and a
        # guard if it is used.
        return [
            self._part(tracer, "__defaults__", index, value)
            for index, value in enumerate(self.function.__defaults__ or ())
        ]

    def keyword_defaults(self, tracer: Tracer) -> Mapping[str, VariableTracker]:
        return {
            name: self._part(tracer, "__kwdefaults__", name, value)
            for name, value in (self.function.__kwdefaults__ or {}).items()
        }

    def _part(self, tracer: Tracer, attribute: str, key: object, value: object) -> VariableTracker:
        if self.source is None:
            return tracer.constant_or_wrap(value)
        return LazyVariable(value, ItemSource(AttrSource(self.source, attribute), key))

    def closure_cells(self, tracer: Tracer) -> Sequence[CellVariable]:
        cells = zip(self.code.co_freevars, self.function.__closure__ or (), strict=True)
        return [self._cell(tracer, name, index, cell) for index, (name, cell) in enumerate(cells)]

    def _cell(self, tracer: Tracer, name: str, index: int, cell: types.CellType) -> CellVariable:
        content = None if self.source is None else CellSource(self.source, name, index)
        found = cell_tracker(tracer, cell, name, content)
        # Both functions were traced with one cell. If the next call has two, an assignment through one function would
        # not show in the other: that it is one cell is guarded.
        met = found.address()
        if content is not None and met is not None and found.content_source != content:  # two functions share it
            tracer.guard(ItemSource(AttrSource(content.base, "__closure__"), index), GuardKind.OBJECT_ALIASING, met)
        return found

    def global_scope(self) -> dict[str, object]:
        return self.function.__globals__

    def identity(self) -> object:
        return self.function

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        overlay = tracer.side_effects.attribute(self, name)
        if overlay is not None:
            return overlay
        if name == "__dict__":
            return window_of(tracer, self, self.function.__dict__, self._lazy)
        # ``hasattr(f, name)`` was false: the trace went the way of the AttributeError, which must stay the same.
        if self.source is not None and not hasattr(self.function, name):
            tracer.guard(self.source, GuardKind.HASATTR, (name, False))
        value = tracer.evaluate(getattr, (self.function, name))
        # The function itself is guarded by identity or by its code, so these need no guard of their own.
        if name in ("__name__", "__qualname__", "__module__", "__doc__", "__code__"):
            return ConstantVariable(value)
        if name == "__get__":
            return BuiltinGetVariable(self)
        return self._lazy(tracer, name, value)

    def _lazy(self, tracer: Tracer, name: str, value: object) -> VariableTracker:
        if self.source is None:
            return tracer.wrap(value, None)
        tracker = LazyVariable(value, AttrSource(self.source, name))
        tracer.output.left_unread.append(tracker)
        return tracker

    def set_attribute(self, tracer: Tracer, name: str, value: VariableTracker) -> None:
        tracer.side_effects.store_attribute(tracer, self, name, value)

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        return FromSource(self.source) if self.source is not None else Constant(self.function, self.name)


class NestedFunctionVariable(BaseFunctionVariable):
    """A function (or lambda) that the traced code itself defines."""

    def __init__(
        self,
        code: CodeType,
        name: str,
        scope: dict[str, object],
        defaults: Sequence[VariableTracker],
        keyword_defaults: Mapping[str, VariableTracker],
        cells: Sequence[CellVariable],
        annotations: VariableTracker | None = None,
    ) -> None:
        self.code = code
        self.name = name
        self.qualname = code.co_qualname
        self.scope = scope
        self.defaults = defaults
        self.named_defaults = keyword_defaults
        self.cells = cells
        self.annotations = annotations
        self.wrapped: BaseFunctionVariable | None = None

    def describe(self) -> str:
        return f"NestedUserFunctionVariable({self.name})"

    def hash_key(self, tracer: Tracer) -> Hashable:
        return ("function", id(self))  # by identity: each ``def`` that runs makes another function

    def default_values(self, tracer: Tracer) -> Sequence[VariableTracker]:
        return self.defaults

    def keyword_defaults(self, tracer: Tracer) -> Mapping[str, VariableTracker]:
        return self.named_defaults

    def closure_cells(self, tracer: Tracer) -> Sequence[CellVariable]:
        return self.cells

    def global_scope(self) -> dict[str, object]:
        return self.scope

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        overlay = tracer.side_effects.attribute(self, name)
        # ``f.__doc__ = ...`` in the traced code hides what the function was created with.
        if overlay is not None:
            return overlay
        known: dict[str, object] = {
            "__name__": self.name,
            "__qualname__": self.code.co_qualname,
            "__doc__": documentation(self.code),
            "__module__": self.scope.get("__name__"),
            "__code__": self.code,
            "__text_signature__": None,
        }
        if name in known:
            return ConstantVariable(known[name])
        # No function object exists yet: each part that reading shows is built from what MAKE_FUNCTION was given.
        if name == "__defaults__":
            return TupleVariable(self.defaults) if self.defaults else ConstantVariable(None)
        if name == "__kwdefaults__":
            named = [(ConstantVariable(key), value) for key, value in self.named_defaults.items()]
            return DictVariable(tracer, named) if named else ConstantVariable(None)
        if name == "__closure__":
            return TupleVariable(self.cells) if self.cells else ConstantVariable(None)
        if name == "__get__":
            return BuiltinGetVariable(self)
        if name == "__annotations__":
            return self._annotations(tracer)
        if name == "__dict__":
            return InstanceDictVariable(tracer, self, {})
        if name == "__type_params__":
            return TupleVariable([])
        if hasattr(FunctionType, name):
            return super().get_attribute(tracer, name)
        tracer.raise_exception(AttributeError, f"'function' object has no attribute '{name}'")

    def _annotations(self, tracer: Tracer) -> VariableTracker:
        """Annotations as a dict; MAKE_FUNCTION gets them as a tuple of names and values in turn."""
        if isinstance(self.annotations, DictVariable):
            return self.annotations
        # ``(name, value, name, value, ...)``: the compiler builds the tuple, and CPython makes a dict when
        # it is asked for.
        parts = self.annotations.items if isinstance(self.annotations, TupleVariable) else []
        self.annotations = DictVariable(tracer, zip(parts[::2], parts[1::2], strict=True))
        return self.annotations

    def set_attribute(self, tracer: Tracer, name: str, value: VariableTracker) -> None:
        tracer.side_effects.store_attribute(tracer, self, name, value)

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        return reconstruction.shared(
            self, lambda: self._make(reconstruction), fill=lambda: reconstruction.attributes(self)
        )

    def _make(self, reconstruction: Reconstructor) -> Recipe:
        return Function(
            self.code,
            self.name,
            reconstruction.globals_of(self.scope),
            tuple(map(reconstruction.recipe, self.defaults)) or None,
            tuple((name, reconstruction.recipe(value)) for name, value in self.named_defaults.items()),
            tuple(map(reconstruction.recipe, self.cells)),
        )


def documentation(code: CodeType) -> str | None:
    """The docstring of a function: its first constant, where that is a text."""
    first = code.co_consts[0] if code.co_consts else None
    return first if isinstance(first, str) else None


class MethodVariable(VariableTracker):
    """A function bound to an object: calling it puts the object first."""

    def __init__(self, function: VariableTracker, owner: VariableTracker, source: Source | None = None) -> None:
        self.function = function
        self.owner = owner
        self.source = source

    def python_type(self) -> type:
        return types.MethodType

    def describe(self) -> str:
        return f"UserMethodVariable({self.function.describe()}, {self.owner.describe()})"

    def hash_key(self, tracer: Tracer) -> Hashable:
        return ("method", self.function.hash_key(tracer), self.owner.hash_key(tracer))

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        if name == "__func__":
            return self.function
        if name == "__self__":
            return self.owner
        return self.function.get_attribute(tracer, name)

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        tracer.hand_over(self, self.function)
        return tracer.call(self.function, [self.owner, *arguments], keywords)

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        if self.source is not None:
            return super().recipe(reconstruction)
        if self.owner.is_created_here():  # as in torch, whatever could be done
            raise breaks.unsupported(breaks.UNSUPPORTED_VALUE, self.describe(), name="method")
        return reconstruction.bound_method(self.function, self.owner)


class CachedFunctionVariable(VariableTracker):
    """A function under ``functools.lru_cache``: traced without its cache, as long as it changes nothing."""

    def __init__(self, function: VariableTracker, value: Callable[..., object], source: Source | None) -> None:
        self.function = function
        self.value = value
        self.source = source

    def python_type(self) -> type:
        return type(self.value)

    def describe(self) -> str:
        return f"WrapperUserFunctionVariable({self.function.describe()})"

    def hash_key(self, tracer: Tracer) -> Hashable:
        return self.value

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        if name == "__wrapped__":
            return self.function
        if name in vars(self.value) or not hasattr(self.value, name):  # the wrapper has attributes of its own
            if self.source is not None:
                tracer.guard(self.source, GuardKind.HASATTR, (name, hasattr(self.value, name)))
            found = tracer.evaluate(getattr, (self.value, name))
            return tracer.wrap(found, None if self.source is None else AttrSource(self.source, name))
        if is_class_member(type(self.value), name):
            return super().get_attribute(tracer, name)
        return self.function.get_attribute(tracer, name)

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        # The cache is bypassed: while tracing it must get no entry with trackers or fakes in it, and a hit in eager
        # mode only skips work. That is right for a function without side effects alone.
        effects, began = tracer.side_effects, next(creation_order)
        changes, deferred = effects.count(), len(effects.deferred)
        result = tracer.call(self.function, arguments, keywords)
        # The cache would keep these from happening again. What the function created itself, it may change.
        if effects.changes_outside(changes, began) or len(effects.deferred) != deferred:
            context = f"{self.describe()} changes what it did not make"
            raise breaks.unsupported(breaks.UNSUPPORTED_CALL, context, name="a cached function with side effects")
        return result

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        return FromSource(self.source) if self.source is not None else Constant(self.value, "cached")


class BuiltinGetVariable(VariableTracker):
    """``function.__get__``: binds."""

    def __init__(self, function: VariableTracker) -> None:
        self.function = function

    def python_type(self) -> type:
        return types.MethodWrapperType

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        owner = arguments[0]
        if owner.is_constant() and owner.constant() is None:
            return self.function
        return MethodVariable(self.function, owner)


class KnownCallable(VariableTracker):
    """A callable that is the same in every call: it is its own key, and its attributes are what they are."""

    value: Any

    def python_type(self) -> type:
        return type(self.value)

    def hash_key(self, tracer: Tracer) -> Hashable:
        return self.value

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        return tracer.constant_or_wrap(tracer.evaluate(getattr, (self.value, name)))


class CallOfVariable(KnownCallable):
    """``f.__call__`` of a function or a class: a call of it is one of its owner."""

    def __init__(self, value: types.MethodWrapperType, owner: VariableTracker, source: Source | None) -> None:
        self.value = value
        self.owner = owner
        self.source = source

    def describe(self) -> str:
        return f"MethodWrapperVariable({self.owner.describe()}.__call__)"

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        return tracer.call(self.owner, arguments, keywords)


Handler = Callable[[Tracer, Arguments, Keywords], VariableTracker]


class BuiltinVariable(KnownCallable):
    """A callable whose meaning is written down in a table: ``len``, ``isinstance``, ``torch.is_tensor``."""

    def __init__(self, value: Callable[..., object], handler: Handler, source: Source | None = None) -> None:
        self.value = value
        self.handler = handler
        self.source = source

    def describe(self) -> str:
        return f"BuiltinVariable({getattr(self.value, '__name__', self.value)})"

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        if str(getattr(self.value, "__qualname__", "")).startswith("_VariableFunctionsClass."):
            answer = tracer.ask(self.value, arguments, keywords)
            if answer is not None:
                return answer
        return self.handler(tracer, *in_order(tracer, self.value, arguments, keywords))

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        return Constant(self.value, getattr(self.value, "__name__", "function"))


class LoggingVariable(BuiltinVariable):
    """A user's function that a setting names: it is never called while tracing, so its signature is not checked."""

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        return self.handler(tracer, arguments, keywords)


def in_order(
    tracer: Tracer, function: Callable[..., object], arguments: Arguments, keywords: Keywords
) -> tuple[Arguments, Keywords]:
    """The arguments with those in their positions that the function needs, however they were given.

    What it does not take, it refuses itself.
    """
    signature = _signature(function)
    if signature is None:
        return arguments, keywords
    try:
        signature.bind(*arguments, **keywords)
    # The call is wrong whatever the values are, so that Python's own error is raised with as many Nones.
    except TypeError:
        if (
            isinstance(function, types.ClassMethodDescriptorType) and arguments
        ):  # as a method of the class that is given
            owner: Any = realise(tracer, arguments[0]).identity()
            function, arguments = function.__get__(None, owner), arguments[1:]
        tracer.evaluate(function, [[] if function is sorted else None] * len(arguments), dict.fromkeys(keywords))
    given, rest = list(arguments), dict(keywords)
    # The first parameter that may be left out ends it: behind it, keywords must stay keywords.
    for parameter in list(signature.parameters.values())[len(given) :]:
        if (
            parameter.kind is not parameter.POSITIONAL_OR_KEYWORD
            or parameter.default is not parameter.empty
            or parameter.name not in rest
        ):
            break
        given.append(rest.pop(parameter.name))
    return given, rest


_UNSAID: dict[object, Callable[..., object]] = {
    getattr: lambda value, name, default=None, /: 0,
    next: lambda iterator, default=None, /: 0,
    iter: lambda value, sentinel=None, /: 0,
    max: lambda first, /, *others, key=None, default=None: 0,
    min: lambda first, /, *others, key=None, default=None: 0,
    list: lambda iterable=(), /: 0,
    tuple: lambda iterable=(), /: 0,
    torch.Size: lambda iterable=(), /: 0,
    set: lambda iterable=(), /: 0,
    frozenset: lambda iterable=(), /: 0,
    bool: lambda value=False, /: 0,
    reversed: lambda sequence, /: 0,
    map: lambda function, iterable, /, *others: 0,
    filter: lambda function, iterable, /: 0,
    functools.partial: lambda function, /, *arguments, **keywords: 0,
    functools.reduce: lambda function, iterable, initial=None, /: 0,
}
"""Signatures of built-in functions for which Python has none (``initial`` has a name since 3.14)."""


@functools.cache
def _signature(function: Callable[..., object]) -> inspect.Signature | None:
    """Signature of a function; None if it has none."""
    if function in _UNSAID:
        return inspect.signature(_UNSAID[function])
    if str(getattr(function, "__qualname__", "")).startswith("_VariableFunctionsClass."):
        return inspect.signature(lambda input, *arguments, **keywords: 0)  # noqa: A006 - torch's name
    try:
        return None if isinstance(function, type) else inspect.signature(function)
    except (TypeError, ValueError):
        return None


class PolyfillVariable(KnownCallable):
    """A callable with a polyfill, which is inlined instead of it: ``zip``, ``functools.reduce``."""

    def __init__(self, value: Callable[..., object], polyfill: FunctionType, source: Source | None = None) -> None:
        self.value = value
        self.polyfill = FunctionVariable(polyfill)
        self.source = source

    def describe(self) -> str:
        return f"PolyfilledFunctionVariable({getattr(self.value, '__name__', self.value)})"

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        return tracer.call(self.polyfill, *in_order(tracer, self.value, arguments, keywords))

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        return Constant(self.value, getattr(self.value, "__name__", "function"))


def _fit_a_node(tracer: Tracer, values: Sequence[VariableTracker]) -> bool:
    """True if values can be arguments of a node; a module or another object of the user cannot."""
    return all(realise(tracer, each).fits_a_node() for each in values)


class UnboundMethodVariable(KnownCallable):
    """A method in C as a function of its class: ``dict.get``, ``str.upper``, ``object.__getattribute__``."""

    def __init__(self, value: Callable[..., object], source: Source | None = None) -> None:
        self.value = value
        self.source = source

    def describe(self) -> str:
        return f"BuiltinVariable({self.value.__qualname__})"

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        values = [realise(tracer, each) for each in arguments]
        named = {name: realise(tracer, each) for name, each in keywords.items()}
        # `str.upper("a")`: C computes it from constants, and changes none of them.
        if values and all(each.is_constant() for each in (*values, *named.values())):
            plain = [each.constant() for each in values]
            return tracer.constant_or_wrap(
                tracer.evaluate(self.value, plain, {name: each.constant() for name, each in named.items()})
            )
        cls: type = self.value.__objclass__
        if not values or cls not in values[0].python_type().__mro__:
            given = f"'{values[0].type_name()}' object" if values else "no argument"
            name = self.value.__name__
            tracer.raise_exception(
                TypeError, f"descriptor '{name}' for '{cls.__name__}' objects doesn't apply to a {given}"
            )
        return values[0].builtin_method(tracer, cls, self.value.__name__, values[1:], named)

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        return Constant(self.value, self.value.__name__)


METHODS_OF_A_CLASS = (types.MethodDescriptorType, types.WrapperDescriptorType)


def _learns(tracer: Tracer, arguments: Iterable[VariableTracker]) -> bool:
    """Return whether a derivative may be asked for, which an operator has a formula for."""
    examples = (getattr(realise(tracer, argument), "example", None) for argument in arguments)
    return torch._C.is_grad_enabled() and any(
        isinstance(example, torch.Tensor) and example.requires_grad for example in examples
    )


class OperatorVariable(KnownCallable):
    """A function of torch that becomes a node of the graph when it is called."""

    def __init__(self, value: Callable[..., object], source: Source | None = None) -> None:
        self.value = value
        self.source = source

    def describe(self) -> str:
        return f"TorchInGraphFunctionVariable({getattr(self.value, '__name__', self.value)})"

    def proxy(self) -> object:
        return self.value

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        if isinstance(self.value, METHODS_OF_A_CLASS) and arguments:  # torch.Tensor.add(x, 1) is x.add(1)
            owner = realise(tracer, arguments[0])
            if issubclass(owner.python_type(), torch.Tensor):
                return owner.call_method(tracer, self.value.__name__, arguments[1:], keywords)
        function = self.value
        of_torch = isinstance(function, FunctionType) and function.__module__.startswith("torch")
        if of_torch and not _fit_a_node(tracer, (*arguments, *keywords.values())):
            assert isinstance(function, FunctionType)
            return FunctionVariable(function).call(tracer, arguments, keywords)  # Python of torch: traced through
        body = torch_internals.body_of_triton_operator(function)
        if (
            body is not None
            and tracer.output.launches_kernels
            and not _learns(tracer, (*arguments, *keywords.values()))
        ):
            return FunctionVariable(body).call(tracer, arguments, keywords)
        self.refuse_leaf(tracer, self.value, keywords)
        return tracer.apply(self.value, arguments, keywords)

    @staticmethod
    def refuse_leaf(tracer: Tracer, function: object, keywords: Keywords) -> None:
        """Break at ``torch.ones(3, requires_grad=True)``."""
        leaf = keywords.get("requires_grad")
        if leaf is not None and realise(tracer, leaf).truth(tracer):
            raise breaks.unsupported(breaks.CREATED_LEAF, f"fn={function}")

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        return Constant(self.value, getattr(self.value, "__name__", "operator"))


class DescriptorVariable(KnownCallable):
    """An attribute of a class in C, unbound: ``torch.Tensor.shape``, whose ``__get__`` overrides are given."""

    def __init__(self, value: types.GetSetDescriptorType, source: Source | None = None) -> None:
        self.value = value
        self.source = source

    def describe(self) -> str:
        return f"GetSetDescriptorVariable({self.value.__name__})"

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        return FromSource(self.source) if self.source is not None else Constant(self.value, self.value.__name__)


class AccessorVariable(KnownCallable):
    """Reading or writing an attribute of a tensor, as a function: ``torch.Tensor.shape.__get__``."""

    def __init__(self, value: Any, source: Source | None = None) -> None:
        self.value = value
        self.source = source

    def describe(self) -> str:
        return f"MethodWrapperVariable({self.value.__self__.__name__}.{self.value.__name__})"

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        owner, *given = (realise(tracer, each) for each in arguments)
        name = self.value.__self__.__name__
        if self.value.__name__ == "__get__":
            return owner.get_attribute(tracer, name)
        owner.set_attribute(tracer, name, *given)
        return ConstantVariable(None)

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        return Constant(self.value, self.value.__name__)


class SkippedVariable(KnownCallable):
    """A callable that is not traced through: calling it breaks the graph, with a reason."""

    def __init__(self, value: object, reason: breaks.Unsupported, source: Source | None = None) -> None:
        self.value = value
        self.reason = reason
        self.source = source

    def describe(self) -> str:
        return f"SkipFunctionVariable({getattr(self.value, '__qualname__', self.value)})"

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        types_given = [realise(tracer, each).type_name() for each in (*arguments, *keywords.values())]
        raise replace(self.reason, details={**self.reason.details, "types": types_given})

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        return (
            FromSource(self.source)
            if self.source is not None
            else Constant(self.value, getattr(self.value, "__name__", "function"))
        )


class TensorsOwnMethodVariable(UnknownVariable):
    """``x.add`` as a value from outside: Python calls it, and which tensor it is bound to is not promised."""

    def __init__(self, value: BuiltinMethodType, source: Source | None) -> None:
        super().__init__(value, source)
        self.value: BuiltinMethodType = value

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        context, name = f"qualname: {self.value.__qualname__}", f"a method `{self.value.__name__}` bound to a tensor"
        raise breaks.unsupported(breaks.BUILTIN_FUNCTION, context, name=name, types="of this call")
