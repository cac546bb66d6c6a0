"""Warnings of operators, each shown once for each compilation."""

import warnings

import pytest
import torch

from nbcompile.capture import operator_warnings
from nbcompile.record.model import StackLine

STACK = (StackLine("cell.py", 3, "f", "loss = mse(x, y)"),)


@pytest.fixture
def module():
    return torch.fx.GraphModule(torch.nn.Module(), torch.fx.Graph())


def collect(text="sizes differ", caller=__file__, category=UserWarning):
    """The warnings of one operator that warns once."""
    found = []
    with operator_warnings.collected(found, caller, STACK):
        warnings.warn(text, category, stacklevel=1)
    return found


def test_a_warning_is_at_the_users_line():
    """A warning for the file that calls the operator gets the line of the user's program."""
    (warning,) = collect()
    assert (warning.file, warning.line, str(warning.message)) == ("cell.py", 3, "sizes differ")
    (other,) = collect(caller="elsewhere.py")
    assert other.file == __file__


def test_what_the_filters_ignore_is_not_collected():
    """The program's filters apply while the operator runs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert collect() == []


def test_what_the_filters_make_an_error_is_raised():
    """``-W error`` raises the warning as an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="sizes differ"):
            collect()


def test_an_operator_that_fails_leaves_its_warnings():
    """The caller drops the warnings if a second attempt of the operator fails, too."""
    found = []
    with pytest.raises(KeyError), operator_warnings.collected(found, __file__, STACK):
        warnings.warn("sizes differ", UserWarning, stacklevel=1)
        raise KeyError
    assert [(warning.file, str(warning.message)) for warning in found] == [("cell.py", "sizes differ")]


def test_each_is_shown_once(module):
    """Two operators with the same warning at the same line show it once; it is stored on the graph."""
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        operator_warnings.show(collect() + collect(), module)
    assert [str(each.message) for each in shown] == ["sizes differ"]
    (kept,) = operator_warnings.of_graph(module)
    assert (kept.category, str(kept.message), kept.file, kept.line) == (UserWarning, "sizes differ", "cell.py", 3)


def test_what_was_shown_is_ignored_when_the_operators_run_again(module):
    """The whole text must match: a longer text is another warning."""
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        operator_warnings.show(collect("sizes (2) differ"), module)
        with warnings.catch_warnings(record=True) as shown:
            warnings.simplefilter("always")
            with operator_warnings.shown_before(module):
                warnings.warn("sizes (2) differ", UserWarning, stacklevel=1)
                warnings.warn("sizes (2) differ much", UserWarning, stacklevel=1)
    assert [str(each.message) for each in shown] == ["sizes (2) differ much"]
