"""Tensors of a user's class: which classes are traced, and what ``__torch_function__`` makes of results."""

from __future__ import annotations

import torch

from nbcompile.tracing.variables import subclasses


class Named(torch.Tensor):
    """A class without an override of its own."""

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
    """Methods with plain names and ``__torch_function__`` are; an ``__eq__`` of the class is none of the graph's."""
    assert [subclasses.is_traceable(cls) for cls in (Named, Logged, Silent, Compared)] == [True, True, True, False]


def test_the_own_classes_are_those_before_torch():
    """The method order up to ``Tensor``, without torch's plain subclasses."""
    assert subclasses.own_classes(Logged) == [Logged, Named]
    assert subclasses.own_classes(torch.nn.Parameter) == []


def test_overrides_are_those_that_functions_of_torch_ask():
    """A subclass is asked unless it disables that; its own override is more than the one that it inherits."""
    classes = (torch.Tensor, torch.nn.Parameter, Silent, Named, Logged)
    assert [subclasses.overrides(cls) for cls in classes] == [False, False, False, True, True]
    assert [subclasses.has_own_override(cls) for cls in classes] == [False, False, False, False, True]


def test_a_tensor_of_the_class_stays_the_same_object():
    """``as_class`` makes a new tensor for another class only."""
    x = torch.ones(2).as_subclass(Named)
    assert subclasses.as_class(x, Named) is x
    assert type(subclasses.as_class(x, Logged)) is Logged


def test_records_are_the_named_tuples_of_torch():
    """The class of what ``sort`` returns is one; tuples and the user's named tuples are not."""
    assert subclasses.is_record(type(torch.ones(2).sort()))
    assert not subclasses.is_record(tuple)
    assert not subclasses.is_record(type("sort", (tuple,), {}))
