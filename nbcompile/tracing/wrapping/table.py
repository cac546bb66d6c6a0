"""A real value as a tracker, with the guards that its kind needs.

One table: the first row whose test accepts the value makes the tracker, with
the guards that its kind needs:

    3                 EQUALS_MATCH
    [a, b]            TYPE_MATCH, SEQUENCE_LENGTH; a and b when they are used
    a tensor          TENSOR_MATCH and a graph input
    an object         TYPE_MATCH; its attributes when they are read

In torch: torch/_dynamo/variables/builder.py (VariableBuilder). Read next:
nbcompile/tracing/rules.py
"""

from __future__ import annotations

import collections
import contextvars
import functools
import operator
import re
import types
import weakref
from collections.abc import Callable
from typing import Any

import torch

from nbcompile.capture import arrays
from nbcompile.capture.guard import GuardKind
from nbcompile.capture.source import Source
from nbcompile.capture.triton_kernels import is_triton_kernel
from nbcompile.support.real_class import is_instance
from nbcompile.tracing.calls import attention_params, registry
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables import context_table
from nbcompile.tracing.variables.base import UnknownVariable, VariableTracker
from nbcompile.tracing.variables.constant import is_constant_value
from nbcompile.tracing.variables.plain_values import is_plain_value
from nbcompile.tracing.variables.type_forms import is_type_form
from nbcompile.tracing.wrapping.attribute_dicts import wrap_noting_attributes
from nbcompile.tracing.wrapping.callables import (
    wrap_callable,
    wrap_descriptor,
    wrap_getter,
    wrap_method,
    wrap_method_of_container,
    wrap_method_of_tensor,
    wrap_partial,
    wrap_scripted,
)
from nbcompile.tracing.wrapping.containers import (
    wrap_deque,
    wrap_dict,
    wrap_iterator,
    wrap_mapping_proxy,
    wrap_range,
    wrap_regular_expression,
    wrap_sequence,
    wrap_set,
    wrap_slice,
    wrap_static_method,
)
from nbcompile.tracing.wrapping.data import (
    wrap_array,
    wrap_constant,
    wrap_numpy_function,
    wrap_plain_value,
    wrap_tensor,
)
from nbcompile.tracing.wrapping.kinds import (
    CALLABLES,
    is_a,
    is_exactly,
    is_method_of_container,
    is_method_of_tensor,
    is_namedtuple,
    is_user_object,
)
from nbcompile.tracing.wrapping.objects import (
    wrap_class,
    wrap_context,
    wrap_context_variable,
    wrap_exception,
    wrap_module,
    wrap_nn_module,
    wrap_object,
    wrap_triton_kernel,
    wrap_type_form,
    wrap_weak_reference,
)


def wrap(tracer: Tracer, value: object, source: Source | None) -> VariableTracker:
    """The tracker of a real value; ``source`` None: a constant of the program, unguarded."""
    # One object, one tracker, by whichever address it is reached. A second address must lead to the same object in
    # later calls too: a change through one would show through the other.
    known = tracer.side_effects.known(value)
    if known is not None:
        if source is not None and known.source is not None and known.source != source:
            tracer.guard(source, GuardKind.OBJECT_ALIASING, known.source)
        return known
    # The first row that accepts decides, so a special kind comes before a general one: a constant before a tuple, a
    # named tuple before a user's object, a known callable before a class.
    for accepts, make in ROWS:
        if accepts(value):
            return wrap_noting_attributes(tracer, value, source, make)
    if source is not None:
        # Of an unknown kind only the class is known; the value can be passed on.
        tracer.guard(source, GuardKind.TYPE_MATCH, type(value))
    return UnknownVariable(value, source)


def _is_callable(value: object) -> bool:
    return is_instance(value, CALLABLES) or (registry.handler(value) is not None and not is_instance(value, type))


Row = tuple[Callable[[object], bool], Callable[[Tracer, Any, "Source | None"], VariableTracker]]


ROWS: list[Row] = [
    (lambda value: is_constant_value(value) and not isinstance(value, (tuple, frozenset, slice)), wrap_constant),
    (is_a(torch.Tensor), wrap_tensor),
    (arrays.is_array, wrap_array),
    (lambda value: arrays.torch_function(value) is not None, wrap_numpy_function),
    (is_exactly(list, tuple, torch.Size), wrap_sequence),
    (is_namedtuple, wrap_sequence),
    (is_exactly(dict, collections.OrderedDict, collections.defaultdict), wrap_dict),
    (is_exactly(type(iter(())), type(iter(range(0)))), wrap_iterator),
    (is_exactly(collections.deque), wrap_deque),
    (is_exactly(set, frozenset), wrap_set),
    (is_exactly(types.MappingProxyType), wrap_mapping_proxy),
    (is_exactly(staticmethod, classmethod), wrap_static_method),
    (is_type_form, wrap_type_form),
    (is_exactly(slice), wrap_slice),
    (is_exactly(range), wrap_range),
    (is_exactly(re.Pattern, re.Match), wrap_regular_expression),
    (is_a(torch.nn.Module), wrap_nn_module),
    (lambda value: context_table.from_object(value, None) is not None, wrap_context),
    (is_a(types.MethodType), wrap_method),
    (is_method_of_container, wrap_method_of_container),
    (is_method_of_tensor, wrap_method_of_tensor),
    (is_exactly(functools.partial), wrap_partial),
    (is_exactly(types.GetSetDescriptorType), wrap_descriptor),
    (is_exactly(weakref.ref), wrap_weak_reference),
    (is_exactly(contextvars.ContextVar), wrap_context_variable),
    (is_a(torch.jit.ScriptFunction), wrap_scripted),
    (is_triton_kernel, wrap_triton_kernel),
    (_is_callable, wrap_callable),
    (is_exactly(operator.itemgetter, operator.attrgetter, operator.methodcaller), wrap_getter),
    (is_a(type), wrap_class),
    (lambda value: is_instance(value, types.ModuleType) or value is torch._C._VariableFunctions, wrap_module),
    (is_exactly(attention_params.CLASS), attention_params.wrap_attention_params),
    (is_plain_value, wrap_plain_value),
    (is_a(BaseException), wrap_exception),
    (is_user_object, wrap_object),
]
