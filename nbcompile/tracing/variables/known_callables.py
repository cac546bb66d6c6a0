"""Callables that never change: builtins, operators of torch, methods in C, descriptors.

    torch.add(x, 1)        OperatorVariable: a node of the graph
    len(xs)                BuiltinVariable: a handler in the tables of calls/
    zip(xs, ys)            PolyfillVariable: Python that is traced instead
    str.upper(s)           UnboundMethodVariable: a method of its first argument

A callable is its own key in a dict, and its attributes are read from it.

In torch: torch/_dynamo/variables/builtin.py, misc.py, torch.py. Read next: nbcompile/tracing/calls/registry.py
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from types import BuiltinMethodType, FunctionType
from typing import Any

import torch

from nbcompile import torch_internals
from nbcompile.capture.recipe import Constant, FromSource, Recipe
from nbcompile.capture.source import Source
from nbcompile.support.signatures import signature_of
from nbcompile.tracing import breaks
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import (
    Arguments,
    Keywords,
    UnknownVariable,
    VariableTracker,
    realise,
)
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.functions import FunctionVariable


class KnownCallable(VariableTracker):
    """A callable that never changes: it is its own key, and its attributes are constants."""

    value: Any

    def python_type(self) -> type:
        return type(self.value)

    def hash_key(self, tracer: Tracer) -> Hashable:
        return self.value

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        return tracer.constant_or_wrap(tracer.evaluate(getattr, (self.value, name)))


class CallOfVariable(KnownCallable):
    """``f.__call__`` of a function or a class: a call of it calls its owner."""

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
    """A callable with a handler in a table: ``len``, ``isinstance``, ``torch.is_tensor``."""

    def __init__(self, value: Callable[..., object], handler: Handler, source: Source | None = None) -> None:
        self.value = value
        self.handler = handler
        self.source = source

    def describe(self) -> str:
        return f"BuiltinVariable({getattr(self.value, '__name__', self.value)})"

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        # A function of torch calls the ``__torch_function__`` of its arguments first, even if it has a handler.
        if str(getattr(self.value, "__qualname__", "")).startswith("_VariableFunctionsClass."):
            answer = tracer.call_override(self.value, arguments, keywords)
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
    """The arguments, with keywords moved to the positions that the function needs.

    The function itself raises for invalid arguments.
    """
    signature = _signature(function)
    if signature is None:
        return arguments, keywords
    try:
        signature.bind(*arguments, **keywords)
    # The call is wrong for any values, so a call with as many Nones raises Python's own error.
    except TypeError:
        if (
            isinstance(function, types.ClassMethodDescriptorType) and arguments
        ):  # bound to the class that is the argument
            owner: Any = realise(tracer, arguments[0]).identity()
            function, arguments = function.__get__(None, owner), arguments[1:]
        tracer.evaluate(function, [[] if function is sorted else None] * len(arguments), dict.fromkeys(keywords))
    given, rest = list(arguments), dict(keywords)
    # The first omitted parameter ends it: after it, keywords must remain keywords.
    for parameter in list(signature.parameters.values())[len(given) :]:
        if (
            parameter.kind is not parameter.POSITIONAL_OR_KEYWORD
            or parameter.default is not parameter.empty
            or parameter.name not in rest
        ):
            break
        given.append(rest.pop(parameter.name))
    return given, rest


_BUILTIN_SIGNATURES: dict[object, Callable[..., object]] = {
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
"""Signatures of built-in functions without one in Python (``initial`` is a keyword since 3.14)."""


_FIRST_PARAMETERS: dict[object, str | None] = {
    torch.tensor: "data",
    torch.as_tensor: "data",
    torch.asarray: "obj",
    torch.scalar_tensor: "s",
    torch.full: "size",
    torch.linspace: "start",
    torch.logspace: "start",
    torch.can_cast: "from_",
    torch.promote_types: "type1",
    torch.result_type: None,  # its overloads have three names for it: ``tensor``, ``scalar`` and ``scalar1``
}
"""Names of the first parameters of torch's functions in C, where it is not ``input``."""


@functools.cache
def _signature(function: Callable[..., object]) -> inspect.Signature | None:
    """Signature of a function, or None."""
    if function in _BUILTIN_SIGNATURES:
        return signature_of(_BUILTIN_SIGNATURES[function])
    if str(getattr(function, "__qualname__", "")).startswith("_VariableFunctionsClass."):
        return _signature_from_first(_FIRST_PARAMETERS.get(function, "input"))
    try:
        return None if isinstance(function, type) else signature_of(function)
    except (TypeError, ValueError):
        return None


def _signature_from_first(name: str | None) -> inspect.Signature | None:
    """Signature of a function in C, in which only the name of the first parameter is known."""
    if name is None:
        return None
    kinds = inspect.Parameter
    others = [kinds("arguments", kinds.VAR_POSITIONAL), kinds("keywords", kinds.VAR_KEYWORD)]
    return inspect.Signature([kinds(name, kinds.POSITIONAL_OR_KEYWORD), *others])


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
        # `str.upper("a")`: C computes it from constants, and mutates none of them.
        if values and all(each.is_constant() for each in (*values, *named.values())):
            plain = [each.constant() for each in values]
            return tracer.constant_or_wrap(
                tracer.evaluate(self.value, plain, {name: each.constant() for name, each in named.items()})
            )
        cls: type = self.value.__objclass__
        if not values:
            tracer.evaluate(self.value, (), dict.fromkeys(named))  # Python's own error
        if cls not in values[0].python_type().__mro__:
            tracer.raise_exception(TypeError, self._error_text(values[0].type_name()))
        return values[0].builtin_method(tracer, cls, self.value.__name__, values[1:], named)

    def _error_text(self, given: str) -> str:
        """CPython's message for an object of another class, which differs for slots (``__len__``) and methods."""
        name, own = self.value.__name__, self.value.__objclass__.__name__
        if isinstance(self.value, types.WrapperDescriptorType):
            return f"descriptor '{name}' requires a '{own}' object but received a '{given}'"
        return f"descriptor '{name}' for '{own}' objects doesn't apply to a '{given}' object"

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        return Constant(self.value, self.value.__name__)


METHODS_OF_A_CLASS = (types.MethodDescriptorType, types.WrapperDescriptorType)


def _needs_derivative(tracer: Tracer, arguments: Iterable[VariableTracker]) -> bool:
    """Return whether autograd may differentiate the call, for which an operator has a formula."""
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
            return FunctionVariable(function).call(tracer, arguments, keywords)  # a Python function of torch: inlined
        # If it is inlined, the kernels that the operator launches are nodes of the graph. But only the operator has a
        # formula for its derivative.
        body = torch_internals.body_of_triton_operator(function)
        if (
            body is not None
            and tracer.output.launches_kernels
            and not _needs_derivative(tracer, (*arguments, *keywords.values()))
        ):
            return FunctionVariable(body).call(tracer, arguments, keywords)
        self.check_no_leaf(tracer, self.value, keywords)
        return tracer.apply(self.value, arguments, keywords)

    @staticmethod
    def check_no_leaf(tracer: Tracer, function: object, keywords: Keywords) -> None:
        """Break at ``torch.ones(3, requires_grad=True)``."""
        leaf = keywords.get("requires_grad")
        if leaf is not None and realise(tracer, leaf).truth(tracer):
            raise breaks.unsupported(breaks.CREATED_LEAF, f"fn={function}")

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        return Constant(self.value, getattr(self.value, "__name__", "operator"))


class DescriptorVariable(KnownCallable):
    """An attribute of a class in C, unbound: ``torch.Tensor.shape``, whose ``__get__`` is passed to overrides."""

    def __init__(self, value: types.GetSetDescriptorType, source: Source | None = None) -> None:
        self.value = value
        self.source = source

    def describe(self) -> str:
        return f"GetSetDescriptorVariable({self.value.__name__})"

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        return FromSource(self.source) if self.source is not None else Constant(self.value, self.value.__name__)


class AccessorVariable(KnownCallable):
    """Getter or setter of an attribute of a tensor, as a function: ``torch.Tensor.shape.__get__``."""

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
    """A callable that is not inlined: a call breaks the graph, with a reason."""

    def __init__(self, value: object, reason: breaks.Unsupported, source: Source | None = None) -> None:
        self.value = value
        self.reason = reason
        self.source = source

    def describe(self) -> str:
        return f"SkipFunctionVariable({getattr(self.value, '__qualname__', self.value)})"

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        # The reason was determined when the callable was wrapped; only the call has the arguments.
        types_given = [realise(tracer, each).type_name() for each in (*arguments, *keywords.values())]
        raise replace(self.reason, details={**self.reason.details, "types": types_given})

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        return (
            FromSource(self.source)
            if self.source is not None
            else Constant(self.value, getattr(self.value, "__name__", "function"))
        )


class TensorsOwnMethodVariable(UnknownVariable):
    """``x.add`` as a value from outside: Python calls it, and its tensor has no guard."""

    def __init__(self, value: BuiltinMethodType, source: Source | None) -> None:
        super().__init__(value, source)
        self.value: BuiltinMethodType = value

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        context, name = f"qualname: {self.value.__qualname__}", f"a method `{self.value.__name__}` bound to a tensor"
        raise breaks.unsupported(breaks.BUILTIN_FUNCTION, context, name=name, types="of this call")
