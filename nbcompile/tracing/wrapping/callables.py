"""Functions of every kind: known ones, operators of torch, and those that are traced through.

    math.sqrt         a handler or a polyfill of a table
    torch.sin         becomes a node
    a user's own      FUNCTION_MATCH; its body is traced
    of the library    ID_MATCH (docs/design/front_end.md, "What is trusted")

In torch: torch/_dynamo/variables/builder.py and torch/_dynamo/trace_rules.py. Read next:
nbcompile/tracing/calls/registry.py
"""

from __future__ import annotations

import builtins
import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

import torch

from nbcompile import torch_internals
from nbcompile.capture.guard import GuardKind
from nbcompile.capture.source import AttrSource, LocalSource, Source
from nbcompile.support import wrappers
from nbcompile.support.created_caches import is_created_cache
from nbcompile.torch_internals import operators
from nbcompile.tracing import breaks, rules
from nbcompile.tracing.calls import annotations as known_annotations, registry
from nbcompile.tracing.calls.folding import fold
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables import contexts, setting_contexts
from nbcompile.tracing.variables.base import UnknownVariable, VariableTracker
from nbcompile.tracing.variables.caches import CachedFunctionVariable, CreatedCacheVariable
from nbcompile.tracing.variables.containers import BuiltinMethodVariable
from nbcompile.tracing.variables.functions import FunctionVariable, MethodVariable
from nbcompile.tracing.variables.known_callables import (
    AccessorVariable,
    BuiltinVariable,
    CallOfVariable,
    DescriptorVariable,
    LoggingVariable,
    OperatorVariable,
    PolyfillVariable,
    SkippedVariable,
    TensorsOwnMethodVariable,
    UnboundMethodVariable,
)
from nbcompile.tracing.variables.lookup import class_lookup, is_class_method_in_c
from nbcompile.tracing.variables.partial import PartialVariable
from nbcompile.tracing.variables.random_numbers import DRAWS, METHODS, OF_MODULE, RandomVariable, generator_of_module

GENERATION_TAG = "install_generation_tagging_init.<locals>.patched_init"
"""Function by which a real torch.compile in the process replaces ``nn.Module.__init__``: the original, and a number
for itself.
"""


# Each step guards first that it is this function, then says what a call of it means.
def wrap_callable(tracer: Tracer, value: Callable[..., object], source: Source | None) -> VariableTracker:
    """Functions of every kind that a table knows, or that become nodes."""
    logs = known_annotations.logging_handler(value)
    if logs is not None:
        guard_function(tracer, value, source)
        return LoggingVariable(value, logs, source)
    special = registry.handler(value)
    # A handler: the call's meaning is written in calls/.
    if special is not None:
        guard_function(tracer, value, source)
        return BuiltinVariable(value, special, source)
    if isinstance(value, types.BuiltinFunctionType) and isinstance(value.__self__, type):
        below = class_lookup(value.__self__, value.__name__)
        if is_class_method_in_c(below):
            guard_function(tracer, value, source)
            owner = tracer.wrap(value.__self__, None if source is None else AttrSource(source, "__self__"))
            return MethodVariable(tracer.wrap(below, None), owner, source)
    annotation = known_annotations.annotated(value)
    if annotation is not None:
        guard_function(tracer, value, source)
        tracer.depend_on_process(f"{getattr(value, '__qualname__', value)} is annotated")
        annotation.source = source
        return annotation
    # A polyfill: Python that is traced instead of the C function.
    polyfill = registry.polyfill(value) or known_annotations.substitute(value)
    if polyfill is not None:
        guard_function(tracer, value, source)
        return PolyfillVariable(value, polyfill, source)
    return _other_callable(tracer, value, source)


def _other_callable(tracer: Tracer, value: Callable[..., object], source: Source | None) -> VariableTracker:
    """A callable that no table has: by its type."""
    if operators.is_operator(value):
        guard_function(tracer, value, source)
        operators.register_fake_forms(value)
        return OperatorVariable(value, source)
    # A function in Python is traced through, unless a rule skips its file.
    if isinstance(value, types.FunctionType):
        return _function(tracer, value, source)
    if isinstance(value, functools._lru_cache_wrapper):
        return _cache(tracer, value, source)
    if isinstance(value, types.BuiltinFunctionType) and any(value.__self__ is cls for cls in (int, float, str, bytes)):
        return BuiltinVariable(value, lambda tracer, *given: fold(tracer, value, *given), source)  # int.from_bytes
    if isinstance(value, types.MethodWrapperType) and isinstance(value.__self__, types.GetSetDescriptorType):
        guard_function(tracer, value, source)
        return AccessorVariable(value, source)
    if isinstance(value, types.MethodWrapperType) and value.__name__ == "__call__" and callable(value.__self__):
        guard_function(tracer, value, source)
        owner = tracer.wrap(value.__self__, None if source is None else AttrSource(source, "__self__"))
        return CallOfVariable(value, owner, source)
    if isinstance(value, (types.MethodDescriptorType, types.WrapperDescriptorType)):
        guard_function(tracer, value, source)
        return UnboundMethodVariable(value, source)
    guard_function(tracer, value, source)
    return _skipped(value, source)


def _cache(tracer: Tracer, value: Any, source: Source | None) -> VariableTracker:
    """A cache: one that the program creates in compiled code is another one at each call, and all are treated alike."""
    if is_created_cache(value) or _is_local_after_break(tracer, source):
        if source is not None:
            tracer.guard(source, GuardKind.TYPE_MATCH, type(value))
        return tracer.side_effects.remember(value, CreatedCacheVariable(value, source))
    guard_function(tracer, value, source)  # what it keeps is not looked at: the function itself is traced
    inner = None if source is None else AttrSource(source, "__wrapped__")
    return CachedFunctionVariable(tracer.wrap(value.__wrapped__, inner), value, source)


def _is_local_after_break(tracer: Tracer, source: Source | None) -> bool:
    """True of a variable or stack entry of a resume function: Python may have created the cache before it resumed."""
    resumes = tracer.output.frame.code.co_name.startswith("torch_dynamo_resume_in_")
    return resumes and isinstance(source, LocalSource)


def _skipped(value: Callable[..., object], source: Source | None) -> SkippedVariable:
    """A callable in C that is neither known nor an operator of the graph: a call of it breaks the graph."""
    name = getattr(value, "__qualname__", getattr(value, "__name__", str(value)))
    module = getattr(value, "__module__", None)
    context = (
        f"module: {module}, qualname: {name}, skip reason: cannot determine source file for {module} "
        "(likely a C extension or builtin)"
    )
    of_python = module == "builtins" or getattr(builtins, name, None) is value
    kind = breaks.BUILTIN_OPERATOR if of_python else breaks.BUILTIN_FUNCTION
    return SkippedVariable(
        value,
        breaks.unsupported(kind, context, name=f"{module}.{name}" if module else name, types="of this call"),
        source,
    )


def _function(tracer: Tracer, value: types.FunctionType, source: Source | None) -> VariableTracker:
    if value.__qualname__ == GENERATION_TAG:
        guard_function(tracer, value, source)
        return tracer.wrap(next(cell.cell_contents for cell in value.__closure__ or ()), None)
    # ``disable``: the call is left to Python.
    disabled = registry.disabled(value)
    if disabled is not None:
        guard_function(tracer, value, source)
        return SkippedVariable(value, disabled, source)
    guard_function(tracer, value, source)
    if "__script_if_tracing_wrapper" in vars(value):  # torch.jit.script_if_tracing: nothing is traced by torch.jit
        return tracer.wrap(value.__original_fn, None)  # type: ignore[attr-defined]
    # A function that is compiled already: inside of a compiled function its body is traced like any other.
    if wrappers.is_compiled(value):
        inner = tracer.wrap(wrappers.innermost(value), None)
        return setting_contexts.strict(inner) if registry.requires_one_graph(value) else inner
    # Files of libraries are not traced through: calls break there, as in torch.
    reason = rules.skip_reason(value.__code__.co_filename)
    if reason is not None:
        file = _file_of(value)
        context = f"module: {value.__module__}, qualname: {value.__qualname__}, skip reason: {reason}"
        return SkippedVariable(
            value, breaks.unsupported(breaks.SKIPPED_FUNCTION, context, name=value.__qualname__, file=file), source
        )
    return FunctionVariable(value, source)


def wrap_scripted(tracer: Tracer, value: torch.jit.ScriptFunction, source: Source | None) -> VariableTracker:
    """Trace a function that ``torch.jit.script`` created as its original, where that is known.

    A function that ``torch.jit.trace`` recorded is constant: it no longer evaluates the conditions of the function.
    """
    guard_function(tracer, value, source)
    original = getattr(value, "_torchdynamo_inline", None)
    if original is not None and torch_internals.is_scripted(original, value):
        return tracer.wrap(original, None)
    return UnknownVariable(value, source)


def _file_of(function: types.FunctionType) -> str:
    """The file in which a person wrote a function, whatever decorates it."""
    try:
        inner = inspect.unwrap(function)
    except ValueError:  # it wraps itself
        inner = function
    return (inner if isinstance(inner, types.FunctionType) else function).__code__.co_filename


def is_trusted(tracer: Tracer, source: Source | None) -> bool:
    """True if it is a member of a module of torch or of the standard library."""
    if not isinstance(source, AttrSource):
        return False
    owner = tracer.real_value(source.base)
    return isinstance(owner, types.ModuleType) and rules.is_trusted_module(owner.__name__)


def keeps_its_identity(tracer: Tracer, source: Source, value: object) -> bool:
    """True if to look again gives the same object: some members are created at each look-up."""
    return tracer.real_value(source) is value


def guard_function(tracer: Tracer, value: Callable[..., object], source: Source | None) -> None:
    """Guard that it is this function: torch.sin may be replaced between calls, as a test with a mock does."""
    # A member that torch makes anew at each look-up has no identity to guard; the disk cache compares it.
    if source is None or (is_trusted(tracer, source) and not keeps_its_identity(tracer, source, value)):
        tracer.assume(source, value)
        return
    if is_trusted(tracer, source):  # no guard checks whether the code of a library's function was replaced
        tracer.guard(source, GuardKind.ID_MATCH, value)
        return
    if isinstance(value, types.MethodWrapperType):  # ``f.__call__`` is another object at each look-up
        of_base = isinstance(source, AttrSource) and tracer.real_value(source.base) is value.__self__
        tracer.guard(source, *((GuardKind.TYPE_MATCH, type(value)) if of_base else (GuardKind.EQUALS_MATCH, value)))
        return
    # By code: a function that is defined again with the same code passes.
    kind = GuardKind.FUNCTION_MATCH if isinstance(value, types.FunctionType) else GuardKind.ID_MATCH
    if isinstance(value, types.BuiltinFunctionType) and isinstance(value.__self__, type):
        kind = GuardKind.EQUALS_MATCH  # chain.from_iterable is another object at each look-up
    tracer.guard(source, kind, value)


def wrap_descriptor(tracer: Tracer, value: Any, source: Source | None) -> VariableTracker:
    """``torch.Tensor.shape``, which ``__torch_function__`` is given the ``__get__`` of."""
    guard_function(tracer, value, source)
    return DescriptorVariable(value, source)


def wrap_method_of_container(
    tracer: Tracer, value: types.BuiltinMethodType, source: Source | None
) -> BuiltinMethodVariable:
    """``xs.append`` as a value: a resume function is given it where the arguments of the call broke the graph."""
    if source is not None:
        tracer.guard(source, GuardKind.TYPE_MATCH, types.BuiltinMethodType)
        tracer.guard(AttrSource(source, "__name__"), GuardKind.EQUALS_MATCH, value.__name__)
    owner = tracer.wrap(value.__self__, None if source is None else AttrSource(source, "__self__"))
    return BuiltinMethodVariable(owner, value.__name__, source)


def wrap_method_of_tensor(tracer: Tracer, value: types.BuiltinMethodType, source: Source | None) -> VariableTracker:
    """``x.add`` as a value: as above, another object at each look-up."""
    if source is not None:
        tracer.guard(source, GuardKind.TYPE_MATCH, types.BuiltinMethodType)
        tracer.guard(AttrSource(source, "__self__"), GuardKind.TYPE_MATCH, type(value.__self__))
    return TensorsOwnMethodVariable(value, source)


def wrap_method(tracer: Tracer, value: types.MethodType, source: Source | None) -> VariableTracker:
    """A function bound to its first argument."""
    if source is not None:
        tracer.guard(source, GuardKind.TYPE_MATCH, types.MethodType)
    function = tracer.wrap(value.__func__, None if source is None else AttrSource(source, "__func__"))
    # ``random.random`` is a method of one generator of the module: it draws from that.
    if value.__name__ in DRAWS and value.__self__ is OF_MODULE and value.__func__ is METHODS[value.__name__]:
        if source is not None and not is_trusted(tracer, source):
            tracer.guard(AttrSource(source, "__self__"), GuardKind.ID_MATCH, OF_MODULE)
        return BuiltinMethodVariable(generator_of_module(tracer), value.__name__)
    owner = tracer.wrap(value.__self__, None if source is None else AttrSource(source, "__self__"))
    if isinstance(owner, RandomVariable) and value.__name__ in DRAWS and value.__func__ is METHODS[value.__name__]:
        return BuiltinMethodVariable(owner, value.__name__)
    if isinstance(owner, contexts.ContextVariable):  # torch.no_grad().clone, that a decorated function calls
        return owner.get_attribute(tracer, value.__name__)
    return MethodVariable(function, owner, source)


def wrap_partial(tracer: Tracer, value: functools.partial[object], source: Source | None) -> VariableTracker:
    """A ``functools.partial``."""
    if source is not None:
        tracer.guard(source, GuardKind.TYPE_MATCH, type(value))
    function = tracer.wrap(value.func, None if source is None else AttrSource(source, "func"))
    arguments = tracer.wrap(value.args, None if source is None else AttrSource(source, "args"))
    keywords = tracer.wrap(value.keywords, None if source is None else AttrSource(source, "keywords"))
    return PartialVariable(function, arguments, keywords, source, value)


def wrap_getter(tracer: Tracer, value: object, source: Source | None) -> VariableTracker:
    """An ``operator.itemgetter`` and its like from outside: reconstructed from the arguments of its constructor."""
    state: Any = value.__reduce__()
    function, given = state[:2]
    if isinstance(function, functools.partial):  # a methodcaller with keywords
        partial: Any = function
        function, given, named = partial.func, (*partial.args, *given), partial.keywords
    else:
        named = {}
    if source is not None:
        tracer.guard(source, GuardKind.ID_MATCH, value)
    arguments = [tracer.constant_or_wrap(each) for each in given]
    keywords = {name: tracer.constant_or_wrap(each) for name, each in named.items()}
    getter = tracer.call(tracer.wrap(function, None), arguments, keywords)
    getter.source = source
    return getter
