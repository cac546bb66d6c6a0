"""Values that tracing itself created, as trackers.

    [1, (2, 3)]      ListVariable([1, TupleVariable([2, 3])])
    2.5              ConstantVariable(2.5)

In torch: torch/_dynamo/variables/builder.py (SourcelessBuilder). Read next: data.py
"""

from __future__ import annotations

import types

import torch

from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import VariableTracker
from nbcompile.tracing.variables.constant import ConstantVariable, is_constant_value
from nbcompile.tracing.variables.mappings import DictVariable
from nbcompile.tracing.variables.sequences import ListVariable, TupleVariable
from nbcompile.tracing.variables.sets import set_of_value
from nbcompile.tracing.variables.slices import SliceVariable


def constant_or_wrap(tracer: Tracer, value: object) -> VariableTracker:
    """The tracker of a value that tracing itself created: containers of constants become containers."""
    match value:
        case tuple() if not is_constant_value(value) or type(value) in (tuple, torch.Size):
            return TupleVariable([constant_or_wrap(tracer, each) for each in value], cls=type(value))
        case list():
            return ListVariable([constant_or_wrap(tracer, each) for each in value])
        case dict() if type(value) is dict:
            return DictVariable(
                tracer, [(constant_or_wrap(tracer, key), constant_or_wrap(tracer, each)) for key, each in value.items()]
            )
        case frozenset() | set():
            return set_of_value(tracer, [constant_or_wrap(tracer, each) for each in value], value)
        case slice():
            return SliceVariable([constant_or_wrap(tracer, part) for part in (value.start, value.stop, value.step)])
        case types.CodeType():
            return ConstantVariable(value)
    return ConstantVariable(value) if is_constant_value(value) else tracer.wrap(value, None)
