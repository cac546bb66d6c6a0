"""New objects of users' classes while tracing: ``cls.__new__`` without the code that initialises them.

    class Point(list): ...
    Point.__new__(Point)     a new object, whose items are those of an empty list

An object of a class in C breaks the graph, unless the class is one of ``PLAIN``, ``CONTAINERS`` and ``SCALARS``. To
support one more, create it here, and say in ``ObjectVariable._make`` (variables/objects.py) how the residual program
does.

In torch: torch/_dynamo/variables/user_defined.py. Read next: nbcompile/tracing/calls/construction.py
"""

from __future__ import annotations

import collections
import types

import torch

from nbcompile.capture.source import (
    AttrSource,
)
from nbcompile.support.class_flags import ABSTRACT, HEAP_TYPE
from nbcompile.tracing import breaks
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.classes import ClassVariable
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.deques import DequeVariable
from nbcompile.tracing.variables.function_modes import FunctionModeVariable, is_plain_mode
from nbcompile.tracing.variables.lookup import class_lookup
from nbcompile.tracing.variables.mappings import DictVariable
from nbcompile.tracing.variables.nn_module import NNModuleVariable
from nbcompile.tracing.variables.objects import ObjectVariable, with_class_source
from nbcompile.tracing.variables.sequences import ListVariable, TupleVariable
from nbcompile.tracing.variables.sets import SetVariable


def make(tracer: Tracer, owner: ClassVariable, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    """``type.__call__``."""
    # ``__new__``, then ``__init__``, but only if ``__new__`` returned an instance of ``cls``.
    cls = owner.value
    tracer.note_member(owner.source, cls, "__new__")
    tracer.note_member(owner.source, cls, "__init__")
    new = class_lookup(cls, "__new__")
    new = new.__func__ if isinstance(new, staticmethod) else new
    if isinstance(new, types.FunctionType):
        source = None if owner.source is None else AttrSource(owner.source, "__new__")
        instance = realise(tracer, tracer.call(tracer.wrap(new, source), [owner, *arguments], keywords))
    else:
        instance = with_class_source(owner, new_object(tracer, cls, arguments))
    init = class_lookup(cls, "__init__")
    # ``object`` raises for arguments if neither method is overridden; a class of that name raises Python's message.
    if (arguments or keywords) and new is object.__new__ and init is object.__init__:
        tracer.evaluate(type(cls.__name__, (), {}), [None] * len(arguments), dict.fromkeys(keywords))  # Python's error
    kind = instance.python_type()
    if cls not in kind.__mro__:  # CPython calls no ``__instancecheck__`` here
        return instance
    if class_lookup(kind, "__init__") is not init:  # a subclass
        tracer.call(tracer.bind(instance, kind, "__init__"), arguments, keywords)
    elif isinstance(init, types.FunctionType):
        source = None if owner.source is None else AttrSource(owner.source, "__init__")
        tracer.call(tracer.wrap(init, source), [instance, *arguments], keywords)
    elif isinstance(instance, ObjectVariable) and _is_filled_in_c(instance, init):
        instance.call_method(tracer, "__init__", arguments, keywords)
    return instance


def _is_filled_in_c(instance: ObjectVariable, init: object) -> bool:
    """True if the class's ``__init__`` in C gives the object items or attributes."""
    # The ``__init__`` of list, dict and set fills the object. A tuple and a number are complete after ``__new__``.
    return init is types.SimpleNamespace.__init__ or (
        instance.base_items is not None and not isinstance(instance.base_items, TupleVariable)
    )


def new_object(tracer: Tracer, cls: type, arguments: Arguments = ()) -> VariableTracker:
    """``object.__new__(cls)``; a subclass of a container gets the container as its built-in part."""
    builtin = builtin_base(cls)
    if builtin is object and cls.__flags__ & ABSTRACT:  # the other built-in classes ignore the flag
        tracer.evaluate(object.__new__, (cls,))
    known = builtin in (*PLAIN, tuple, *CONTAINERS, *SCALARS)
    # A class in C may have data that is no attribute: such an object cannot be reconstructed from attributes.
    # So has a subclass of defaultdict: the factory.
    if not known or builtin is collections.defaultdict or (not cls.__flags__ & HEAP_TYPE and cls not in PLAIN):
        raise breaks.unsupported(
            breaks.UNSUPPORTED_CALL, f"{cls.__module__}.{cls.__qualname__}(...)", name=f"class {cls.__qualname__}"
        )
    instance = _tracker(cls)(cls)
    # Immutable values have their items from the start; a mutable container is empty until its `__init__`, which is
    # traced later, fills it.
    if builtin is tuple:
        instance.base_items = TupleVariable(realise(tracer, arguments[0]).unpack(tracer) if arguments else [])
    elif builtin is list:
        instance.base_items = ListVariable([])
    elif builtin is collections.deque:
        instance.base_items = DequeVariable([])
    elif issubclass(builtin, dict):
        instance.base_items = DictVariable(tracer, [], cls=builtin)
    elif builtin is set:
        instance.base_items = SetVariable(tracer, [])
    elif builtin in SCALARS:
        instance.base_items = realise(tracer, tracer.call(tracer.wrap(builtin, None), arguments))
        if not isinstance(instance.base_items, ConstantVariable):
            raise breaks.unsupported(breaks.UNSUPPORTED_CALL, f"{cls.__qualname__}(...)", name=cls.__qualname__)
    return instance


def _tracker(cls: type) -> type[ObjectVariable]:
    if issubclass(cls, torch.nn.Module):
        return NNModuleVariable
    return FunctionModeVariable if is_plain_mode(cls) else ObjectVariable


PLAIN = (object, types.SimpleNamespace)
"""Classes in C whose objects have no data but their attributes."""

SCALARS = (int, float, complex, str, bytes)


CONTAINERS = (list, dict, collections.OrderedDict, collections.defaultdict, collections.deque, set)


def builtin_base(cls: type) -> type:
    """The built-in class that defines the object's layout: the first in the MRO with a ``__new__`` in C."""
    return next(
        base
        for base in cls.__mro__
        if isinstance(base.__dict__.get("__new__"), types.BuiltinFunctionType) or base in CONTAINERS
        # A class written in Python inherits ``__new__`` from such a base: its memory layout is that base's.
    )
