"""Variables of a frame, as ``locals()`` and ``super()`` read them."""

from __future__ import annotations

import pytest

from nbcompile.tracing.frame.frame_variables import class_and_self, local_variables
from nbcompile.tracing.variables.observed import ObservedException
from tests.tracing.frame.single_frame import frame_of


def program(x):
    """Two statements."""
    y = x + 1
    return y * 2


def without_parameters():
    """A function without a first parameter that ``super()`` could use."""


def names_of(translator):
    """The names and values in ``locals()`` of a frame."""
    found = local_variables(translator)
    keys = found.unpack(translator.interpreter)
    return {key.value: found.get_item(translator.interpreter, key).value for key in keys}


def test_locals_are_the_variables_that_have_a_value():
    """A deleted variable is removed from the dict of ``locals()``, too."""
    translator, _ = frame_of(program, 4)
    assert names_of(translator) == {"x": 4}
    translator.locals["y"] = translator.locals["x"]
    assert names_of(translator) == {"x": 4, "y": 4}
    del translator.locals["y"]
    assert names_of(translator) == {"x": 4}


def test_super_outside_of_a_method_raises_as_python_does():
    """A missing parameter, a deleted one and a missing class cell raise Python's errors."""
    for function, given, text in (
        (without_parameters, (), "super(): no arguments"),
        (program, (), "super(): arg[0] deleted"),
        (program, (4,), "super(): __class__ cell not found"),
    ):
        translator, _ = frame_of(function, *given)
        with pytest.raises(ObservedException) as raised:
            class_and_self(translator)
        assert [argument.value for argument in raised.value.value.arguments] == [text]
