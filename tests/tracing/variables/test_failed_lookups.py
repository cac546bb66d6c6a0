"""``name`` and ``obj`` of an AttributeError are those of eager mode."""

from __future__ import annotations

import pytest
import torch

import nbcompile


class Plain:
    pass


class Computed:
    @property
    def value(self):
        return self.missing


class Asked:
    def __getattr__(self, name):
        raise AttributeError("asked")


class Answered:
    def __getattr__(self, name):
        raise AttributeError("asked", name="other", obj=3)


def of_a_tensor(x):
    return x, lambda: x.nothing


def of_an_object(x):
    made = Plain()
    return made, lambda: made.nothing


def by_getattr(x):
    made = Plain()
    return made, lambda: getattr(made, "nothing")  # noqa: B009 - the test is about the builtin


def of_a_class(x):
    return Plain, lambda: Plain.nothing


def in_a_property(x):
    made = Computed()
    return made, lambda: made.value


def from_getattr(x):
    made = Asked()
    return made, lambda: made.nothing


def said_by_getattr(x):
    made = Answered()
    return made, lambda: made.nothing


def of_a_list(x):
    made = [1]
    return made, lambda: made.nothing


def method_of_a_tensor(x):
    return x, lambda: x.nothing()


def caught(prepare, x):
    made, look = prepare(x)
    try:
        look()
    except AttributeError as error:
        return x.sin(), error.name, error.obj is made, str(error)


PROGRAMS = [
    of_a_tensor, of_an_object, by_getattr, of_a_class, in_a_property, from_getattr, said_by_getattr, of_a_list,
    method_of_a_tensor,
]  # fmt: skip


@pytest.mark.parametrize("prepare", PROGRAMS, ids=lambda prepare: prepare.__name__)
def test_a_caught_error_has_them(prepare):
    """A caught error has both attributes, in one graph; torch.compile has None in both."""
    nbcompile.reset()
    x = torch.ones(2)
    run = nbcompile.compile(caught, backend="eager", fullgraph=True)
    result, *said = run(prepare, x)
    expected, *meant = caught(prepare, x)
    assert torch.equal(result, expected)
    assert said == meant


@pytest.mark.parametrize("prepare", PROGRAMS, ids=lambda prepare: prepare.__name__)
def test_an_error_that_leaves_has_them(prepare):
    """An uncaught error has eager mode's class, text, attributes and traceback lines."""

    def leaving(x):
        y = x.sin()
        _, look = prepare(y)
        return look()

    def met(run):
        with pytest.raises(AttributeError) as error:
            run(torch.ones(2))
        lines = [(entry.name, entry.lineno) for entry in error.traceback if "test_failed_lookups" in str(entry.path)]
        return str(error.value), error.value.name, type(error.value.obj), lines

    assert met(nbcompile.compile(leaving, backend="eager")) == met(leaving)


@pytest.mark.parametrize("prepare", PROGRAMS, ids=lambda prepare: prepare.__name__)
def test_an_error_that_is_returned_has_them(prepare):
    """A returned error has both attributes."""

    def kept(x):
        made, look = prepare(x)
        try:
            look()
        except AttributeError as error:
            return x.sin(), made, error

    nbcompile.reset()
    run = nbcompile.compile(kept, backend="eager", fullgraph=True)
    for _ in range(2):
        _, made, error = run(torch.ones(2))
        _, meant, expected = kept(torch.ones(2))
        assert error.name == expected.name
        assert (error.obj is made) == (expected.obj is meant)
        assert type(error.obj) is type(expected.obj)
