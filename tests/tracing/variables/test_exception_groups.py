"""Groups of exceptions that traced code creates."""

import sys

import pytest
import torch

import nbcompile
from tests.support.answers import check


@pytest.mark.skipif(sys.version_info < (3, 11), reason="groups of exceptions are new in Python 3.11")
def test_groups_of_exceptions_reject_arguments():
    """``BaseExceptionGroup.__new__`` checks the arguments and chooses the class."""

    class Group(ExceptionGroup):
        pass

    class BaseGroup(BaseExceptionGroup):
        pass

    class BothGroup(BaseExceptionGroup, ValueError):
        pass

    arguments = (
        "'a', []", "'a', [1]", "1, [ValueError()]", "'a', [KeyboardInterrupt()]", "'a'", "'a', 3", "'a', {ValueError()}",
        "", "'a', 'bc'", "'a', [ValueError()], 3", "'a', {1: 2}", "'a', [ValueError]", "'a', [[ValueError()]]",
        "'a', [ValueError(), TypeError()]",
    )  # fmt: skip
    check(
        *(
            f"{cls}({given}).__class__.__name__"
            for cls in ("ExceptionGroup", "BaseExceptionGroup", "Group", "BaseGroup", "BothGroup")
            for given in arguments
        ),
        Group=Group, BaseGroup=BaseGroup, BothGroup=BothGroup,
    )  # fmt: skip


@pytest.mark.skipif(sys.version_info < (3, 11), reason="groups of exceptions are new in Python 3.11")
def test_a_group_keeps_its_exceptions_when_the_list_changes():
    """``exceptions`` is fixed at the creation of the group, whereas ``args`` has the program's own list."""

    def function(x):
        errors = [ValueError(1), TypeError(2)]
        group = ExceptionGroup("m", errors)
        errors.append(3)
        return x + 1, group, errors

    _, group, errors = nbcompile.compile(function, backend="eager", fullgraph=True)(torch.ones(2))
    assert str(group.exceptions) == "(ValueError(1), TypeError(2))"
    assert group.args[1] is errors
    assert len(errors) == 3
