"""The names and readers of the values that a page has of a call."""

from __future__ import annotations

import builtins

from nbcompile.capture.resolution import Scope
from nbcompile.capture.source import LocalSource
from nbcompile.guarding.page_values import ObjectNames, PageValues


class Net:
    """A class with several objects."""


def scope(**values: object) -> Scope:
    return Scope(test_a_value_that_cannot_be_read_is_left_out.__code__, values, {}, vars(builtins))


def test_expected_objects_have_names_and_others_are_others():
    """The second object of a class gets a number; an object that no guard expects is "another" one."""
    names, one, two, third = ObjectNames(), Net(), Net(), Net()
    assert [names.assign(one), names.assign(two), names.assign(one)] == ["Net object", "Net object #2", "Net object"]
    assert [names.of(two), names.of(third)] == ["Net object #2", "another Net object"]


def test_a_name_does_not_pass_to_an_object_at_the_same_address():
    """The name belongs to a freed object: a new object at the same address is another one."""
    names, one = ObjectNames(), Net()
    names.assign(one)
    names._known[id(two := Net())] = names._known.pop(id(one))
    assert names.of(two) == "another Net object"


def test_a_value_that_cannot_be_read_is_left_out():
    """A missing value means that the guards on it do not hold."""
    values = PageValues()
    assert values.of(LocalSource("x"), "len({})", len) == "len(L['x'])"
    assert values.take(scope(x=[1, 2])) == {"len(L['x'])": 2}
    assert values.take(scope(x=3)) == values.take(scope()) == {}
