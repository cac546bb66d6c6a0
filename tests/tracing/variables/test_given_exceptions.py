"""Exceptions from outside a frame, raised and caught in it: their links are eager mode's."""

from __future__ import annotations

import pytest
import torch

import nbcompile

pytestmark = pytest.mark.usefixtures("nothing_compiled")


class Problem(Exception):
    pass


def with_cause(x, first, second, _third):
    try:
        raise first from second
    except Problem:
        pass
    return x + 1, first.__cause__ is second, first.__suppress_context__, first.__context__ is None


def with_cause_and_a_break(x, first, second, _third):
    try:
        raise first from second
    except Problem:
        pass
    y = x + 1
    print(end="")
    return y, first.__cause__ is second, first.__suppress_context__


def with_a_new_cause(x, first, _second, _third):
    try:
        raise first from KeyError("new")
    except Problem:
        pass
    return x + 1


def without_cause(x, first, second, _third):
    try:
        try:
            raise second
        except KeyError:
            raise first from None
    except Problem as caught:
        return x + 1, caught is first


def three_in_a_row(x, first, second, third):
    try:
        try:
            try:
                raise first
            except Problem:
                raise second
        except KeyError:
            raise third
    except ValueError:
        return x + 1


def in_a_circle(x, first, second, _third):
    try:
        try:
            try:
                raise first
            except Problem:
                raise second
        except KeyError:
            raise first
    except Problem:
        return x + 1


def in_a_circle_with_a_new_one(x, first, _second, _third):
    try:
        try:
            try:
                raise first
            except Problem:
                raise LookupError("new")
        except LookupError:
            raise first
    except Problem:
        return x + 1, repr(first.__context__), first.__context__.__context__ is None


def in_finally(x, first, second, _third):
    try:
        try:
            raise first
        finally:
            try:
                raise second
            except KeyError:
                x = x + 2
    except Problem:
        return x + 1


def in_a_generator(x, first, second, _third):
    def generator():
        try:
            yield 1
        except Problem:
            raise second

    iterator = generator()
    next(iterator)
    try:
        iterator.throw(first)
    except KeyError:
        return x + 1


def not_caught(x, first, second, _third):
    y = x + 1
    raise first from second
    return y


def text(value, names):
    return next((name for name, known in names.items() if known is value), repr(value))


def observed(function):
    """The results or errors of three calls, and the links of the exceptions after each call."""
    found = []
    for _ in range(3):
        names = {"first": Problem("first"), "second": KeyError("second"), "third": ValueError("third")}
        try:
            results = function(torch.ones(2), *names.values())
        except Problem as error:
            results = text(error, names)
        shown = [each.tolist() if isinstance(each, torch.Tensor) else each for each in results]
        links = [
            (text(each.__cause__, names), text(each.__context__, names), each.__suppress_context__)
            for each in names.values()
        ]
        found.append((shown, links))
    return found


PROGRAMS = [
    with_cause, with_cause_and_a_break, with_a_new_cause, without_cause, three_in_a_row, in_a_circle,
    in_a_circle_with_a_new_one, in_finally, in_a_generator, not_caught,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_links_of_exceptions_from_outside(program):
    """``raise ... from`` and the handled exception set the links of the objects, during and after the call."""
    assert observed(nbcompile.compile(program, backend="eager")) == observed(program)
