"""The registry of the process's state."""

import gc

import torch

import nbcompile
from nbcompile.support.process_state import STATE, Lifetime, ProcessState


def test_a_part_is_the_object_that_was_given():
    """``add`` returns the object itself, so that access has no cost; parts are sorted by name."""
    state, seen = ProcessState(), set()
    assert state.add("b", seen, Lifetime.RESET) is seen
    state.add("a", [0], Lifetime.PROCESS)
    assert [(part.name, part.value, part.lifetime) for part in state.parts()] == [
        ("a", [0], Lifetime.PROCESS),
        ("b", set(), Lifetime.RESET),
    ]


def test_a_name_that_is_added_again_has_the_new_object():
    """A forked child replaces its queues, because the locks of the old ones may be held for ever."""
    state = ProcessState()
    state.add("queue", [1], Lifetime.TASK)
    state.add("queue", [2], Lifetime.TASK)
    assert [part.value for part in state.parts()] == [[2]]


def test_reset_calls_every_function_that_forgets():
    """The functions run in registration order; the decorator returns the function itself."""
    state, called = ProcessState(), []

    @state.on_reset
    def first():
        called.append("first")

    state.on_reset(lambda: called.append("second"))
    state.reset()
    first()
    assert called == ["first", "second", "first"]


def test_nbcompile_reset_empties_what_lives_until_a_reset():
    """``reset`` empties each container with the lifetime RESET, such as the observed sizes."""

    @nbcompile.compile(backend="eager")
    def f(x):
        return x + 1

    f(torch.ones(2))
    parts = {part.name: part.value for part in STATE.parts() if part.lifetime is Lifetime.RESET}
    assert parts["dispatch.observed_values._memory"]
    nbcompile.reset()
    assert [name for name, value in parts.items() if isinstance(value, (dict, set)) and value] == []


def test_parts_of_an_owner_end_with_it():
    """The state of a code object is removed when the code object is freed."""
    states = next(part.value for part in STATE.parts() if part.name == "dispatch.cache._states")
    scope = {"torch": torch}
    exec("def f(x): return x + 1", scope)
    nbcompile.compile(scope["f"], backend="eager")(torch.ones(2))
    address = id(scope["f"].__code__)
    assert address in states
    del scope
    nbcompile.reset()
    gc.collect()
    assert address not in states
