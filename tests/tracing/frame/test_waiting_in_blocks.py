"""Generators suspended inside a ``with`` or ``try``, whose blocks end as in eager mode."""

from __future__ import annotations

import contextlib
import gc

import pytest
import torch

import nbcompile
from tests.support.graphs import Graphs

LOG = []


class Scope:
    def __init__(self, name):
        self.name = name

    def __enter__(self):
        LOG.append(f"in {self.name}")
        return self

    def __exit__(self, *error):
        LOG.append((f"out {self.name}", error[0]))


class Suppresses(Scope):
    def __exit__(self, *error):
        super().__exit__(*error)
        return True


@contextlib.contextmanager
def scope(name):
    LOG.append(f"in {name}")
    try:
        yield name
    finally:
        LOG.append(f"out {name}")


def in_finally(x, name="finally"):
    try:
        yield x + 1
        yield x + 2
    finally:
        LOG.append(name)


def without_gradients(x):
    with torch.no_grad():
        yield x * 2
        yield x * 3
    yield x * 4


def in_a_manager(x):
    with Scope("a") as entered:
        yield x * 2
        LOG.append(entered.name)
        yield x * 3
    yield x * 4


def in_a_generator_manager(x):
    with scope("a") as name, contextlib.nullcontext(3) as three:
        yield x * 2
        LOG.append((name, three))
        yield x * three


def that_suppresses(x):
    with Suppresses("s"):
        yield x * 2
        yield x * 3
    yield x * 4


def that_catches(x):
    try:
        yield x
    except ValueError as error:
        yield x * 2, str(error)
    else:
        yield x * 3
    yield x * 5


def delegates(x):
    try:
        result = yield from in_finally(x, "inner")
        yield result
    finally:
        LOG.append("outer")


class Holder:
    def __init__(self):
        self.kept = None


# -- programs that use the generator after a break ------------------------------------------------------


def rest_of(make):
    def program(x):
        y = x + 1
        generator = make(y)
        first = next(generator)
        torch._dynamo.graph_break()
        LOG.append("after")
        return first, torch.is_grad_enabled(), list(generator), torch.is_grad_enabled()

    return program


def closed_after(make):
    def program(x):
        generator = make(x + 1)
        first = next(generator)
        torch._dynamo.graph_break()
        generator.close()
        LOG.append("closed")
        return first * 2, torch.is_grad_enabled()

    return program


def left_alone(make):
    def program(x):
        generator = make(x + 1)
        first = next(generator)
        torch._dynamo.graph_break()
        LOG.append("end")
        return first * 2, len(LOG)

    return program


def deleted_after(make):
    def program(x):
        generator = make(x + 1)
        first = next(generator)
        torch._dynamo.graph_break()
        LOG.append("end")
        del generator
        LOG.append("deleted")
        return first * 2, len(LOG)

    return program


def bound_again_after(make):
    def program(x):
        generator = make(x + 1)
        first = next(generator)
        torch._dynamo.graph_break()
        generator = make(first)
        LOG.append("again")
        return next(generator) + first

    return program


def in_a_list(make):
    def program(x):
        held = [make(x + 1), 3]
        first = next(held[0])
        torch._dynamo.graph_break()
        second = next(held[0])
        LOG.append("end")
        held = None
        LOG.append("dropped")
        return first + second

    return program


def in_a_helper(make):
    def helper(x):
        generator = make(x)
        first = next(generator)
        torch._dynamo.graph_break()
        LOG.append("helper ends")
        return first + next(generator)

    def program(x):
        y = helper(x + 1)
        LOG.append("helper ended")
        return y * 2

    return program


def thrown_into(make):
    def program(x):
        generator = make(x + 1)
        first = next(generator)
        torch._dynamo.graph_break()
        try:
            second = generator.throw(ValueError("thrown"))
        except ValueError as error:
            second = str(error)
        LOG.append("thrown")
        return first, second, list(generator)

    return program


def two_left_alone(make):
    def program(x):
        one, two = make(x + 1), in_finally(x, "two")
        first = next(two), next(one)
        torch._dynamo.graph_break()
        LOG.append("end")
        return first[0] + first[1]

    return program


def returned(make):
    def program(x):
        y = x + 1
        generator = make(y)
        return next(generator), generator

    return program


def stored(make):
    holder = Holder()

    def program(x):
        holder.kept = make(x + 1)
        first = next(holder.kept)
        torch._dynamo.graph_break()
        LOG.append("before")
        second = next(holder.kept)
        print("a break", end="")
        holder.kept = None
        return first + second

    return program


def cleared_after(make):
    def program(x):
        held = [make(x + 1)]
        first = next(held[0])
        torch._dynamo.graph_break()
        LOG.append("end")
        held.clear()
        LOG.append("cleared")
        return first, x * 2

    return program


def replaced_after(make):
    holder = Holder()

    def program(x):
        holder.kept = make(x + 1)
        first = next(holder.kept)
        torch._dynamo.graph_break()
        LOG.append("end")
        holder.kept = None
        LOG.append("replaced")
        return first, x * 2

    return program


def ends_with_the_frame(make):
    def program(x):
        generator = make(x + 1)
        y = next(generator) * 2
        LOG.append("end")
        return y, len(LOG)

    return program


def entered_by_hand(x):
    manager = scope("hand")
    y = x * 2
    name = manager.__enter__()
    torch._dynamo.graph_break()
    z = y + 1
    manager.__exit__(None, None, None)
    LOG.append(name)
    return z


def in_an_exit_stack(x):
    stack = contextlib.ExitStack()
    stack.enter_context(scope("one"))
    stack.enter_context(scope("two"))
    y = x * 2
    torch._dynamo.graph_break()
    z = y + 1
    stack.close()
    return z


MAKERS = [
    in_finally, without_gradients, in_a_manager, in_a_generator_manager, that_catches, delegates, that_suppresses,
]  # fmt: skip
SHAPES = [
    rest_of, closed_after, left_alone, deleted_after, bound_again_after, in_a_list, in_a_helper, thrown_into,
    two_left_alone, returned, stored, cleared_after, replaced_after,
    ends_with_the_frame,
]  # fmt: skip
IN_PYTHON = {deleted_after, bound_again_after, in_a_list, stored, cleared_after, replaced_after}
"""Shapes that release the generator before the frame ends: no other frame may keep it alive."""


def plain(value):
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if hasattr(value, "send"):
        LOG.append("asked")
        return [plain(next(value)), "left"]
    return (value.tolist(), value.requires_grad) if isinstance(value, torch.Tensor) else value


def outcome(function, x):
    """The result of a call, the log until the result is freed, and the grad mode afterwards."""
    LOG.clear()
    try:
        try:
            result = function(x)
        except RuntimeError as error:
            result = str(error)
        LOG.append("returned")
        given = plain(result)
        del result
        gc.collect()
        return given, list(LOG), torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)


def check(program, x, *, compiles):
    graphs = Graphs()

    compiled = nbcompile.compile(program, backend=graphs)
    for _ in range(2):
        assert outcome(compiled, x) == outcome(program, x)
    assert graphs or not compiles


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_a_generator_that_waits_in_a_block(shape):
    """Results, the actions of the blocks and their order, and the grad mode are eager mode's."""
    makers = MAKERS if shape in (rest_of, ends_with_the_frame) else MAKERS[:2]
    for make in makers:
        # The close of this generator raises an error, which Python reports.
        raises = make is that_suppresses and shape is ends_with_the_frame
        check(shape(make), torch.ones(2, requires_grad=True), compiles=shape not in IN_PYTHON and not raises)


@pytest.mark.parametrize("program", [entered_by_hand, in_an_exit_stack])
def test_a_manager_that_stays_entered(program):
    """A generator context that is entered before a break is exited after it; bound methods end the frame."""
    check(program, torch.ones(2), compiles=program is entered_by_hand)
