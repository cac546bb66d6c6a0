"""Tests for nbcompile.tracing.calls.instances: ``isinstance`` of classes that define their own check."""

from __future__ import annotations

import typing

import pytest
import torch

import nbcompile


@typing.runtime_checkable
class Scaled(typing.Protocol):
    scale: float


@typing.runtime_checkable
class Shaped(typing.Protocol):
    shape: tuple


class WithScale:
    scale = 2.0


@pytest.mark.parametrize(
    "value", [None, 3, 2.5, "text", b"x", True, (), [1], {"a": 1}, {1}, WithScale(), torch.ones(2), torch.nn.ReLU()]
)
def test_a_protocol_with_attributes(value):
    """An object that has the attributes of the protocol is an instance of it."""

    def program(x, value):
        return x + isinstance(value, Scaled), isinstance(value, (int, Shaped))

    nbcompile.reset()
    x = torch.ones(2)
    result, shaped = nbcompile.compile(program, backend="eager", fullgraph=True)(x, value)
    expected, truth = program(x, value)
    assert torch.equal(result, expected)
    assert shaped == truth


def test_a_protocol_with_attributes_and_changing_numbers():
    """A number that became symbolic gives the same answer as any other number of its class."""

    def program(x, value):
        return x * value + isinstance(value, Scaled)

    nbcompile.reset()
    compiled, x = nbcompile.compile(program, backend="eager", fullgraph=True), torch.ones(2)
    for value in (3, 2.5, 4.5, 5.5, 7, 8):
        assert torch.equal(compiled(x, value), program(x, value))


class Plain:
    pass


class NoMethod:
    close = None


@typing.runtime_checkable
class Closing(typing.Protocol):
    def close(self): ...


class ScaledTensor(torch.Tensor):
    scale = 2.0


class Pair(typing.NamedTuple):
    scale: float
    other: torch.Tensor


def a_new_object(x):
    made = Plain()
    answers = [isinstance(made, Scaled)]
    made.scale = 2.0
    made.close = None
    answers += [isinstance(made, Scaled), isinstance(made, Closing), isinstance(NoMethod(), Closing)]
    made.close = made
    return x + 1, answers, isinstance(made, (int, Closing)), isinstance(Pair(1, x), Scaled)


def an_object_that_changes(x, value):
    value.scale = 2.0
    before = isinstance(value, Scaled)
    del value.scale
    return x + 1, before, isinstance(value, Scaled)


def a_function(x):
    def made():
        pass

    before = isinstance(made, Scaled)
    made.scale = 1.0
    return x + 1, before, isinstance(made, Scaled)


def of_a_tensor(x):
    return x + 1, isinstance(x, Scaled), isinstance(x * 2, Scaled), isinstance(x, Shaped)


def scaled(value):
    value.scale = 1.0
    return value


@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        (a_new_object, lambda: [()]),
        (an_object_that_changes, lambda: [(Plain(),), (scaled(Plain()),)]),
        (a_function, lambda: [()]),
        (of_a_tensor, lambda: [()]),
    ],
)
def test_a_protocol_is_asked_about_what_the_program_has_stored(program, arguments):
    """Attributes that are set or deleted while tracing count; a method that is ``None`` does not."""
    compiled = nbcompile.compile(program, backend="eager")
    for more in arguments():
        expected = program(torch.ones(2), *more)[1:]
        assert compiled(torch.ones(2), *more)[1:] == expected


def test_a_protocol_is_asked_about_the_attributes_of_a_tensor():
    """Attributes of the tensor and of its class count; each other tensor is checked separately."""
    compiled = nbcompile.compile(of_a_tensor, backend="eager")
    for make in (
        lambda: torch.ones(2),
        lambda: scaled(torch.ones(2)),
        lambda: torch.ones(2),
        lambda: torch.ones(2).as_subclass(ScaledTensor),
    ):
        assert compiled(make())[1:] == of_a_tensor(make())[1:]


def forms(x):
    answers = [isinstance(x, form) for form in (typing.Sized, typing.Hashable, typing.Iterator, (int, typing.Sized))]
    try:
        isinstance(x, list[int])
    except TypeError as error:
        return x + 1, answers, str(error)


def test_a_tensor_and_the_forms_of_typing():
    """``typing.Sized`` is treated as a class; ``list[int]`` raises an error with Python's text."""
    assert nbcompile.compile(forms, backend="eager")(torch.ones(2))[1:] == forms(torch.ones(2))[1:]


def _made_without(x):
    plain = Plain()
    plain.other = 1
    return isinstance(plain, Scaled), isinstance(plain, (Scaled, Plain)), isinstance(plain, (int, Scaled))


def _made_with(x):
    plain = Plain()
    plain.scale = 1
    return isinstance(plain, Scaled), isinstance([x], Scaled), isinstance(x, (Scaled, torch.Tensor))


def _function(x):
    return isinstance(_made_with, Scaled), isinstance(lambda: 1, (Scaled, Closing)), isinstance(range(3), Scaled)


@pytest.mark.parametrize("program", [_made_without, _made_with, _function])
def test_what_has_not_the_attributes_is_no_instance(program):
    """The check returns False for an object without the attributes of the protocol."""
    nbcompile.reset()
    x = torch.ones(2)
    function = lambda x: (x + 1, program(x))  # noqa: E731
    assert nbcompile.compile(function, backend="eager", fullgraph=True)(x)[1] == program(x)


class NotForRunTime(typing.Protocol):
    scale: float


@pytest.mark.filterwarnings("error::nbcompile.errors.InternalErrorWarning")
@pytest.mark.parametrize("value", [torch.ones(2), [1], WithScale()], ids=["tensor", "list", "object"])
def test_a_protocol_that_may_not_be_asked(value):
    """A protocol without ``runtime_checkable`` raises eager mode's TypeError, which the program catches."""

    def program(x, value):
        try:
            return x + isinstance(value, NotForRunTime), ""
        except TypeError as error:
            return x, str(error)

    nbcompile.reset()
    assert nbcompile.compile(program, backend="eager")(torch.ones(2), value)[1] == program(torch.ones(2), value)[1]
