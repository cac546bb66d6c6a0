"""Attributes of modules, ``hasattr``, and the source of a module."""

from __future__ import annotations

import math
import sys
import types

import pytest

from nbcompile.capture.guard import GuardKind
from nbcompile.capture.source import LocalSource
from nbcompile.tracing.calls.attributes import has_attribute, is_module_scope, module_source
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.observed import ObservedException
from tests.tracing.frame.single_frame import frame_of


def program(x):
    """Two statements."""
    y = x + 1
    return y * 2


def test_a_module_has_an_address_while_it_is_the_imported_one():
    """Another module object with the same name has no source, and neither do its globals."""
    assert module_source(math) is not None
    assert module_source(types.ModuleType("math")) is None
    assert is_module_scope(__name__, vars(sys.modules[__name__]))
    assert not is_module_scope(__name__, {}) and not is_module_scope("no.such.module", {})


def test_a_missing_attribute_of_a_module_is_guarded():
    """A guard checks that the attribute is still missing at the next call, because the program may handle the error."""
    _, interpreter = frame_of(program, 4)
    source = LocalSource("x")
    assert interpreter.module_attribute(math, "pi", source).value == math.pi
    with pytest.raises(ObservedException):
        interpreter.module_attribute(math, "no_such_name", source)
    (guard,) = (each for each in interpreter.output.guards.values() if each.kind is GuardKind.HASATTR)
    assert guard.expected == ("no_such_name", False)


def test_hasattr_catches_an_attribute_error_alone():
    """Any other exception that a property raises reaches the program."""
    _, interpreter = frame_of(program, 4)
    assert has_attribute(interpreter, ConstantVariable(4), "real")
    assert not has_attribute(interpreter, ConstantVariable(4), "no_such_name")

    class Failing(ConstantVariable):
        def get_attribute(self, tracer, name):
            tracer.raise_exception(KeyError)

    with pytest.raises(ObservedException):
        has_attribute(interpreter, Failing(4), "real")
