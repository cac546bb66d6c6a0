"""Exceptions of the traced program, before a handler catches them."""

from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.observed import ObservedException
from tests.support.answers import check


def test_it_carries_the_programs_exception():
    """The Python exception contains the tracker, and its text is the tracker's description."""
    value = ConstantVariable(3)
    assert ObservedException(value).value is value
    assert str(ObservedException(value)) == value.describe()


def test_an_exception_of_a_callee_is_caught_by_its_caller():
    """The caller catches the same object with its arguments, in one graph; another handler passes it on."""

    def raising(error):
        raise error

    check(
        """
        error = ValueError(1, "two")
        try:
            raising(error)
        except ValueError as caught:
            return caught is error, caught.args
        """,
        """
        try:
            try:
                raising(KeyError("k"))
            except ValueError:
                return "the wrong one"
        except LookupError as caught:
            return type(caught), caught.args
        """,
        """raising(OSError("nobody catches it"))""",
        raising=raising,
    )
