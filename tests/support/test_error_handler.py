"""What is caught, and that a caught error is freed without the collector."""

from __future__ import annotations

import gc
import weakref

import pytest

from nbcompile.support.error_handler import ErrorHandler, ErrorReplacement


def _ignored(error):
    return None


def _replaced(error):
    raise LookupError("another") from error


def _fails(handling):
    class Local:
        pass

    local = Local()
    seen = weakref.ref(local)
    with handling:
        raise ValueError("one")
    return seen


def test_errors_of_the_class_are_handled():
    """Errors of other classes pass, and no error means no call."""
    caught = []
    with ErrorHandler(ArithmeticError, caught.append):
        1 / 0
    with ErrorHandler(ArithmeticError, caught.append):
        pass
    assert list(map(type, caught)) == [ZeroDivisionError]
    with pytest.raises(KeyError), ErrorHandler(ArithmeticError, caught.append):
        {}["no"]


def test_errors_are_replaced():
    """Errors of a class that is excluded are raised unchanged."""
    with pytest.raises(LookupError), ErrorReplacement(Exception, _replaced, excluded=KeyError):
        1 / 0
    with pytest.raises(KeyError), ErrorReplacement(Exception, _replaced, excluded=KeyError):
        {}["no"]


def test_a_caught_error_forms_no_cycle():
    """The variables of the block's frame are freed as soon as the error is, also where another error replaced it."""
    gc.disable()
    try:
        assert _fails(ErrorHandler(ValueError, _ignored))() is None
        found = []
        try:
            _fails(ErrorReplacement(ValueError, _replaced))
        except LookupError as error:
            frame = error.__cause__.__traceback__.tb_frame
            found.append(weakref.ref(frame.f_locals["local"]))
            del frame
        assert found[0]() is None
    finally:
        gc.enable()
