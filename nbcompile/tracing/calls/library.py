"""Built-in classes as constructors, and the standard library.

A constructor creates the tracker of its kind (``list(x)``, ``range(3)``); functions
that can be written in Python (``zip``, ``map``, ``functools.reduce``) are traced
through a polyfill from polyfills/.

In torch: torch/_dynamo/polyfills and variables/builtin.py. Read next:
nbcompile/tracing/polyfills/builtins.py
"""

from __future__ import annotations

import bisect
import collections
import functools
import gc
import heapq
import inspect
import itertools
import math
import operator
import os
import random
import re
import struct
import sys
import types
import typing
import weakref

import torch

from nbcompile.tracing import breaks
from nbcompile.tracing.calls.folding import fold, folds, folds_or_traces, folds_with_guard
from nbcompile.tracing.calls.registry import add_polyfill, handles, handles_named
from nbcompile.tracing.calls.sequence_errors import check_size
from nbcompile.tracing.polyfills import (
    builtins as polyfills,
    copying,
    heaps,
    itertools as iteration,
    operators,
    substitution,
    sums,
)
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables import regular_expressions
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.classes import ClassVariable
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.deques import DequeVariable, limit_of
from nbcompile.tracing.variables.functions import FunctionVariable, MethodVariable
from nbcompile.tracing.variables.mapping_proxy import MappingProxyVariable
from nbcompile.tracing.variables.mappings import DictVariable, Entry
from nbcompile.tracing.variables.nn_module import NNModuleVariable
from nbcompile.tracing.variables.objects import ObjectVariable, with_class_source
from nbcompile.tracing.variables.partial import PartialVariable
from nbcompile.tracing.variables.random_numbers import make_generator
from nbcompile.tracing.variables.ranges import RangeVariable
from nbcompile.tracing.variables.sequences import ListVariable, TupleVariable
from nbcompile.tracing.variables.sets import SetVariable, set_from
from nbcompile.tracing.variables.slices import index_of
from nbcompile.tracing.variables.supers import SuperVariable
from nbcompile.tracing.variables.weak_reference import WeakReferenceVariable

handles(random.Random)(make_generator)


@handles(list)
def _list(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return ListVariable(realise(tracer, arguments[0]).listed(tracer) if arguments else [])


@handles(tuple)
def _tuple(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    value = realise(tracer, arguments[0]) if arguments else TupleVariable([])
    if isinstance(value, TupleVariable) and value.cls is tuple:
        return value
    return TupleVariable(value.listed(tracer))


@handles(torch.Size)
def _size(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    sizes = [realise(tracer, item) for item in realise(tracer, arguments[0]).unpack(tracer)] if arguments else []
    for index, size in enumerate(sizes):
        check_size(tracer, index, size)
    return TupleVariable(sizes, cls=torch.Size)


@handles(set)
def _set(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return set_from(tracer, set, realise(tracer, arguments[0])) if arguments else SetVariable(tracer, [])


@handles(frozenset)
def _frozenset(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    given = realise(tracer, arguments[0]) if arguments else None
    if given is not None and given.python_type() is frozenset:
        return given  # the same object: it is immutable
    return SetVariable(tracer, [], cls=frozenset) if given is None else set_from(tracer, frozenset, given)


@handles(dict)
def _dict(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return _mapping(tracer, dict, arguments, keywords)


@handles(collections.OrderedDict)
def _ordered(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return _mapping(tracer, collections.OrderedDict, arguments, keywords)


@handles(collections.defaultdict)
def _defaultdict(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    mapping = _mapping(tracer, collections.defaultdict, arguments[1:], keywords)
    mapping.default = realise(tracer, arguments[0]) if arguments else None
    factory = mapping.default
    if factory is not None and factory.python_type() is not types.NoneType:
        _check_callable(tracer, factory, "first argument must be callable or None")
    return mapping


def _check_callable(tracer: Tracer, value: VariableTracker, message: str) -> None:
    if not tracer.call(tracer.wrap(callable, None), [value]).truth(tracer):
        tracer.raise_exception(TypeError, message)


def _mapping(tracer: Tracer, cls: type, arguments: Arguments, keywords: Keywords) -> DictVariable:
    if len(arguments) > 1:
        tracer.evaluate(cls, [()] * len(arguments))  # raises Python's error
    mapping = DictVariable(tracer, [], cls=cls)
    if arguments:
        mapping.fill(tracer, realise(tracer, arguments[0]))
    for name, value in keywords.items():
        mapping.entries[name] = (ConstantVariable(name), realise(tracer, value))
    return mapping


@handles(collections.deque)
def _deque(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    if keywords or len(arguments) > 2:
        named = {name: () if name == "iterable" else None for name in keywords}
        tracer.evaluate(collections.deque, [(), None, *arguments][: len(arguments)], named)  # raises Python's error
    limit = arguments[1] if len(arguments) > 1 else keywords.get("maxlen", ConstantVariable(None))
    maxlen = limit_of(tracer, realise(tracer, limit))
    given = arguments[0] if arguments else keywords.get("iterable")
    items = [] if given is None else realise(tracer, given).unpack(tracer)
    return DequeVariable(items, maxlen=maxlen)


@handles(range)
def _range(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    bounds = [index_of(tracer, realise(tracer, each), range) for each in arguments]
    if keywords:
        tracer.evaluate(range, bounds, dict.fromkeys(keywords))  # raises: no keywords
    return RangeVariable(tracer.evaluate(range, bounds))  # type: ignore[arg-type]


@handles(super)
def _super(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    if not arguments and not keywords:
        cls, owner = tracer.class_and_self()
    elif keywords or len(arguments) != 2:
        if keywords or len(arguments) > 2:
            tracer.evaluate(super, arguments, keywords)  # raises Python's error
        raise breaks.unsupported(breaks.BUILTIN_OPERATOR, "super of a class alone", name="super", types="(type)")
    else:
        cls, owner = (realise(tracer, each) for each in arguments)
    real = getattr(cls, "value", None)
    if not isinstance(real, type):
        tracer.raise_exception(TypeError, f"super() argument 1 must be a type, not {cls.type_name()}")
    # For a class, both the class itself and its metaclass are possible.
    kinds = (owner.value, type(owner.value)) if isinstance(owner, ClassVariable) else (owner.python_type(),)
    if not any(real in kind.__mro__ for kind in kinds):  # CPython calls no ``__instancecheck__``
        tracer.raise_exception(TypeError, _super_error(real, owner))
    return SuperVariable(real, owner)


def _super_error(cls: type, owner: VariableTracker) -> str:
    if sys.version_info < (3, 13):
        return "super(type, obj): obj must be an instance or subtype of type"
    is_class = isinstance(owner, ClassVariable)
    name = owner.value.__name__ if isinstance(owner, ClassVariable) else owner.python_type().__name__
    kind = "type" if is_class else "instance of"
    return f"super(type, obj): obj ({kind} {name}) is not an instance or subtype of type ({cls.__name__})."


@handles(functools.partial)
def _partial(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    if not arguments:
        tracer.evaluate(functools.partial, ())
    named: dict[str, Entry] = {
        name: (ConstantVariable(name), realise(tracer, value)) for name, value in keywords.items()
    }
    function, given = realise(tracer, arguments[0]), [realise(tracer, each) for each in arguments[1:]]
    _check_callable(tracer, function, "the first argument must be callable")
    if isinstance(function, PartialVariable):
        return function.with_more(tracer, given, named)
    return PartialVariable(function, TupleVariable(given), DictVariable(tracer, named.values()))


@handles(types.MethodType)
def _method(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    if len(arguments) != 2 or keywords:
        tracer.evaluate(types.MethodType, [len] * len(arguments), dict.fromkeys(keywords))
    function, owner = (realise(tracer, each) for each in arguments)
    _check_callable(tracer, function, "first argument must be callable")
    if owner.python_type() is types.NoneType:
        tracer.evaluate(types.MethodType, (len, None))
    return MethodVariable(function, owner)


@handles(types.MappingProxyType)
def _mapping_proxy(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    mapping = realise(tracer, arguments[0])
    if not isinstance(mapping, DictVariable):
        raise breaks.unsupported(
            breaks.UNSUPPORTED_CALL, f"MappingProxyType({mapping.describe()})", name="a mapping proxy of no dict"
        )
    return MappingProxyVariable(mapping)


folds(sys.intern, str.maketrans, struct.pack, struct.unpack, *regular_expressions.FUNCTIONS)


@handles(weakref.ref)
def _weak_reference(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    referent = realise(tracer, arguments[0])
    if not referent.python_type().__weakrefoffset__:
        tracer.raise_exception(TypeError, f"cannot create weak reference to '{referent.type_name()}' object")
    return WeakReferenceVariable(referent, arguments[1:])


@handles(object)
def _object(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    if arguments or keywords:
        tracer.evaluate(object, [None] * len(arguments), dict.fromkeys(keywords))  # raises Python's error
    return tracer.new_object(object)


@handles(object.__new__, types.SimpleNamespace.__new__)
def _new(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    cls = realise(tracer, arguments[0])
    assert isinstance(cls, ClassVariable)
    return with_class_source(cls, tracer.new_object(cls.value))


@handles(tuple.__new__)
def _new_tuple(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    cls = realise(tracer, arguments[0])
    assert isinstance(cls, ClassVariable)
    if cls.value is not tuple and not hasattr(cls.value, "_fields"):
        return tracer.new_object(cls.value, arguments[1:])
    return TupleVariable(realise(tracer, arguments[1]).unpack(tracer) if len(arguments) > 1 else [], cls=cls.value)


@handles(object.__setattr__)
def _object_setattr(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    owner, name, value = (realise(tracer, each) for each in arguments)
    if isinstance(owner, ObjectVariable):
        owner.plain_set_attribute(tracer, str(name.constant()), value)
    else:
        owner.set_attribute(tracer, str(name.constant()), value)
    return ConstantVariable(None)


@handles(inspect.signature)
def _signature(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    """Signature of a function that exists outside, computed while tracing; others are inspected by the library's own
    code.
    """
    function = realise(tracer, arguments[0])
    bound = isinstance(function, MethodVariable)
    inner = realise(tracer, function.function) if isinstance(function, MethodVariable) else function
    if isinstance(inner, FunctionVariable) and len(arguments) == 1 and not keywords:
        signature = inspect.signature(inner.function)
        if bound:
            signature = signature.replace(parameters=list(signature.parameters.values())[1:])
        return tracer.wrap(signature, None)
    return tracer.call(FunctionVariable(inspect.signature), arguments, keywords)  # type: ignore[arg-type]


@handles(sys.exc_info)
def _exc_info(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    error = tracer.handled_exception()
    if error is None:
        return TupleVariable([ConstantVariable(None)] * 3)
    trace = error.get_attribute(tracer, "__traceback__")
    return TupleVariable([tracer.wrap(error.python_type(), None), error, trace])


# Without ``gc.isenabled``, which breaks the graph: the collector is paused while a frame is traced.
folds_with_guard(sys.getrecursionlimit, sys.getswitchinterval, sys.get_int_max_str_digits, gc.get_threshold)


@handles(sys.exception)
def _exception(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return tracer.handled_exception() or ConstantVariable(None)


@handles(typing.cast)
def _cast(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return realise(tracer, arguments[1])


@handles_named("torch.library", "wrap_triton")
def _wrap_triton(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return realise(tracer, next(iter((*arguments, *keywords.values()))))  # a launch of it is one of the kernel


@handles_named("collections", "namedtuple")
def _namedtuple(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    # The function itself would read its caller's frame, which is the tracer's.
    module = keywords.get("module", ConstantVariable(None))
    if module.is_constant() and module.constant() is None:
        keywords = {**keywords, "module": ConstantVariable(tracer.module_name())}
    return fold(tracer, collections.namedtuple, arguments, keywords)  # noqa: PYI024


for _value, _polyfill in (
    (zip, polyfills.zip_),
    (enumerate, polyfills.enumerate_),
    (map, polyfills.map_),
    (filter, polyfills.filter_),
    (any, polyfills.any_),
    (all, polyfills.all_),
    (functools.reduce, polyfills.reduce),
    (functools.update_wrapper, polyfills.update_wrapper),
    (vars(collections)["_count_elements"], polyfills.count_elements),
    (itertools.chain, iteration.chain),
    (itertools.chain.from_iterable, iteration.chain_from_iterable),
    (itertools.product, iteration.product),
    (itertools.repeat, iteration.repeat),
    (itertools.count, iteration.count),
    (itertools.islice, iteration.islice),
    (itertools.accumulate, iteration.accumulate),
    (itertools.zip_longest, iteration.zip_longest),
    (itertools.starmap, iteration.starmap),
    (itertools.takewhile, iteration.takewhile),
    (itertools.dropwhile, iteration.dropwhile),
    (itertools.pairwise, iteration.pairwise),
    (itertools.combinations, iteration.combinations),
    (itertools.combinations_with_replacement, iteration.combinations_with_replacement),
    (itertools.permutations, iteration.permutations),
    (itertools.cycle, iteration.cycle),
    (itertools.compress, iteration.compress),
    (itertools.filterfalse, iteration.filterfalse),
    (itertools.groupby, iteration.groupby),
    (itertools.tee, iteration.tee),
    (vars(dict)["fromkeys"], polyfills.fromkeys),
    (vars(collections.OrderedDict)["fromkeys"], polyfills.fromkeys),
    (os.fspath, polyfills.fspath),
    (functools.cmp_to_key, polyfills.cmp_to_key),
    (re.finditer, substitution.finditer),
    (object.__reduce_ex__, copying.reduce_ex),
    (object.__getstate__, copying.getstate),
    (operator.delitem, operators.delitem),
    (operator.concat, operators.concat),
    (operator.iconcat, operators.iconcat),
    (operator.countOf, operators.count_of),
    (operator.indexOf, operators.index_of),
    (operator.call, operators.call),
    (operator.itemgetter, polyfills.itemgetter),
    (operator.attrgetter, polyfills.attrgetter),
    (operator.methodcaller, polyfills.methodcaller),
    (heapq.heapify, heaps.heapify),
    (heapq.heappush, heaps.heappush),
    (heapq.heappop, heaps.heappop),
    (heapq.heapreplace, heaps.heapreplace),
    (heapq.heappushpop, heaps.heappushpop),
    (vars(heapq)["_heapify_max"], heaps.heapify_max),
    (vars(heapq)["_heappop_max"], heaps.heappop_max),
    (vars(heapq)["_heapreplace_max"], heaps.heapreplace_max),
    (bisect.bisect_left, heaps.bisect_left),
    (bisect.bisect_right, heaps.bisect_right),
    (bisect.insort_left, heaps.insort_left),
    (bisect.insort_right, heaps.insort_right),
    (torch._C._group_tensors_by_device_and_dtype, polyfills.group_tensors),
):
    add_polyfill(_value, _polyfill)

for _function, _meaning in (
    (math.fsum, sums.fsum),
    (math.dist, sums.dist),
    *([(math.sumprod, sums.sumprod)] if hasattr(math, "sumprod") else ()),  # from Python 3.12 on
    (re.sub, substitution.sub),
    (re.subn, substitution.subn),
):
    folds_or_traces(_function, _meaning)


@handles(torch.nn.Module.__getattr__)
def _member(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    """The member of a module, also if the module's own ``__getattr__`` reads it."""
    owner, name = (realise(tracer, each) for each in arguments)
    assert isinstance(owner, NNModuleVariable)
    found = owner.member(tracer, str(name.constant()))
    if found is None:
        owner.missing(tracer, str(name.constant()))
    return found
