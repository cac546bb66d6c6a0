"""Tensor subclasses of the user: the traceable classes, and the class of results."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import nbcompile
from nbcompile.tracing.variables import subclasses


class Named(torch.Tensor):
    """A class without its own ``__torch_function__``."""

    unit = "m"


class Logged(Named):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})


class Silent(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl


class Compared(torch.Tensor):
    def __eq__(self, other):
        return True


def test_classes_with_special_methods_of_their_own_are_not_traced():
    """A class with plain methods or ``__torch_function__`` is traceable; one with ``__eq__`` is not."""
    assert [subclasses.is_traceable(cls) for cls in (Named, Logged, Silent, Compared)] == [True, True, True, False]


def test_the_own_classes_are_those_before_torch():
    """These are the classes before ``Tensor`` in the method order, without torch's plain subclasses."""
    assert subclasses.own_classes(Logged) == [Logged, Named]
    assert subclasses.own_classes(torch.nn.Parameter) == []


def test_overrides_are_those_that_functions_of_torch_ask():
    """Torch calls a subclass unless it disables that; only a class that defines the override has its own."""
    classes = (torch.Tensor, torch.nn.Parameter, Silent, Named, Logged)
    assert [subclasses.overrides(cls) for cls in classes] == [False, False, False, True, True]
    assert [subclasses.has_own_override(cls) for cls in classes] == [False, False, False, False, True]


def test_a_tensor_of_the_class_stays_the_same_object():
    """``as_class`` creates a new tensor only for another class."""
    x = torch.ones(2).as_subclass(Named)
    assert subclasses.as_class(x, Named) is x
    assert type(subclasses.as_class(x, Logged)) is Logged


def test_records_are_the_named_tuples_of_torch():
    """The class of a result of ``sort`` is a record; tuples and user-defined classes are not."""
    assert subclasses.is_record(type(torch.ones(2).sort()))
    assert not subclasses.is_record(tuple)
    assert not subclasses.is_record(type("sort", (tuple,), {}))


class NonData:
    """A descriptor with only ``__get__``."""

    def __get__(self, instance: Any, owner: Any = None) -> str:
        return "of the class"


class Shadowed(torch.Tensor):
    """A tensor class whose instances may have attributes of the same names."""

    value = 5
    computed = NonData()

    def method(self) -> str:
        return "of the class"

    @property
    def prop(self) -> str:
        return "of the class"

    @property
    def doubled(self) -> int:
        return self.kept

    @doubled.setter
    def doubled(self, number: int) -> None:
        self.kept = 2 * number


def _read(t: Any) -> Any:
    return t.value, t.computed, t.method(), t.prop, hasattr(t, "value"), t + 1


def test_attributes_of_a_tensor_come_before_those_of_its_class() -> None:
    """An attribute of the object hides all members but a property, and its dict is guarded."""
    compiled = nbcompile.compile(_read, backend="eager", fullgraph=True)
    t: Any = torch.ones(2).as_subclass(Shadowed)
    for own in ({}, {"value": "own", "computed": 3, "method": lambda: "own", "prop": 4}, {"value": 7}, {}):
        t.__dict__.clear()
        t.__dict__.update(own)
        assert str(compiled(t)) == str(_read(t))


def test_attributes_that_are_stored_on_a_tensor_of_a_subclass() -> None:
    """Stored attributes are read again, and the result has them; a setter of the class breaks the graph."""

    def stored(t: Any) -> Any:
        y = t + 1
        y.value = 7
        y.other = t * 2
        return y.value, y.other, y

    def through_setter(t: Any) -> Any:
        t.doubled = 4
        return t.doubled, t + 1

    t = torch.ones(2).as_subclass(Shadowed)
    one, other, y = nbcompile.compile(stored, backend="eager", fullgraph=True)(t)
    assert (one, y.value, type(y)) == (7, 7, Shadowed)
    assert y.other is other
    assert nbcompile.compile(through_setter, backend="eager")(t)[0] == 8
    assert t.__dict__ == {"kept": 8}


def an_input_before_a_break(x):
    y = x.as_subclass(Named)
    print(end="")
    return y


def used_behind_a_break(x):
    y = x.as_subclass(Named)
    print(end="")
    return y + 1


def with_an_attribute_of_its_own(x):
    y = x.as_subclass(Named)
    y.k = 3
    print(end="")
    return y


def in_a_list(x):
    y = [x.as_subclass(Named)]
    print(end="")
    y[0].add_(1)
    return y[0]


@pytest.mark.parametrize(
    "program", [an_input_before_a_break, used_behind_a_break, with_an_attribute_of_its_own, in_a_list]
)
def test_an_input_as_a_subclass_before_a_break(program):
    """No graph runs before the break, because nothing is computed: the result is created from the input itself."""
    given = [torch.ones(3), torch.ones(3)]
    expected, found = program(given[0]), nbcompile.compile(program, backend="eager")(given[1])
    assert type(found) is type(expected) is Named
    assert found.tolist() == expected.tolist()
    assert given[0].tolist() == given[1].tolist()
    assert found.__dict__ == expected.__dict__
    assert (found.data_ptr() == given[1].data_ptr()) == (expected.data_ptr() == given[0].data_ptr())
