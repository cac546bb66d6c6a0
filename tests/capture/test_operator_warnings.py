"""Warnings of operators, each shown once for each compile."""

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
    """What one operator with one warning leaves."""
    found = []
    with operator_warnings.collected(found, caller, STACK):
        warnings.warn(text, category, stacklevel=1)
    return found


def test_a_warning_is_at_the_users_line():
    """A warning that names the file that calls the operator is about the line of the user's program."""
    (warning,) = collect()
    assert (warning.file, warning.line, str(warning.message)) == ("cell.py", 3, "sizes differ")
    (other,) = collect(caller="elsewhere.py")
    assert other.file == __file__


def test_what_the_filters_ignore_is_not_collected():
    """The filters of the program decide, while the operator runs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert collect() == []


def test_what_the_filters_make_an_error_is_raised():
    """``-W error`` stays an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="sizes differ"):
            collect()


def test_an_operator_that_fails_leaves_its_warnings():
    """Tracing may run it in another way: the caller drops them if that fails, too."""
    found = []
    with pytest.raises(KeyError), operator_warnings.collected(found, __file__, STACK):
        warnings.warn("sizes differ", UserWarning, stacklevel=1)
        raise KeyError
    assert [(warning.file, str(warning.message)) for warning in found] == [("cell.py", "sizes differ")]


def test_each_is_shown_once(module):
    """Two operators with the same warning at the same line show it once; the graph keeps it."""
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        operator_warnings.show(collect() + collect(), module)
    assert [str(each.message) for each in shown] == ["sizes differ"]
    (kept,) = operator_warnings.of_graph(module)
    assert (kept.category, str(kept.message), kept.file, kept.line) == (UserWarning, "sizes differ", "cell.py", 3)


def test_what_was_shown_is_ignored_when_the_operators_run_again(module):
    """The text is ignored to its end: a longer one is another warning."""
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        operator_warnings.show(collect("sizes (2) differ"), module)
        with warnings.catch_warnings(record=True) as shown:
            warnings.simplefilter("always")
            with operator_warnings.shown_before(module):
                warnings.warn("sizes (2) differ", UserWarning, stacklevel=1)
                warnings.warn("sizes (2) differ much", UserWarning, stacklevel=1)
    assert [str(each.message) for each in shown] == ["sizes (2) differ much"]
