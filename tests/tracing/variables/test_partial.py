"""``functools.partial``, ``update_wrapper`` and ``wraps``: parts and attributes are Python's, in one graph."""

import functools

import pytest
import torch

import nbcompile
from tests.support.graphs import Graphs


def scale(x, k=2):
    """Multiply."""
    return x * k


scale.unit = "m"
PLAIN = functools.partial(scale, k=3)
NAMED = functools.partial(scale, k=3)
NAMED.label = "three"


def wrapper_of_a_partial(x):
    made = functools.partial(scale, k=3)
    functools.update_wrapper(made, scale)
    return made(x), made


def wrapper_read_inside(x):
    made = functools.update_wrapper(functools.partial(scale, k=3), scale)
    return made(x), made.__name__, made.unit, made.__wrapped__ is scale, sorted(vars(made))


def only_some_assigned(x):
    def inner(y):
        return y + 1

    return inner(x), functools.wraps(scale, assigned=("__doc__",))(inner)


def nothing_updated(x):
    def inner(y):
        return y + 1

    return inner(x), functools.update_wrapper(wrapper=inner, wrapped=scale, assigned=["__name__"], updated=[])


def dict_of_a_new_function(x):
    def first(y):
        return y + 1

    def second(y: int) -> int:
        return y + 2

    first.a, second.b = 1, 2
    functools.update_wrapper(second, first)
    return second(x), second, sorted(vars(second)), second.a


def partial_of_a_named_one(x):
    made = functools.partial(NAMED, x)
    return made(), made, made.func is NAMED, made.args


def partial_of_one_named_here(x):
    base = functools.partial(scale, k=3)
    base.label = "here"
    made = functools.partial(base, x)
    return made(), made, made.func is base


def partial_of_a_plain_one(x):
    made = functools.partial(PLAIN, x)
    return made(), made


def partial_of_a_plain_one_here(x):
    made = functools.partial(functools.partial(scale, k=3), x)
    return made(), made, made.func is scale, made.keywords


def attributes_stored_and_deleted(x):
    made = functools.partial(scale, k=3)
    made.a, made.b = x + 1, 2
    del made.b
    vars(made)["c"] = 4
    return made(x), made, hasattr(made, "b"), hasattr(made, "__name__"), made.__doc__


def nothing_of_that_name(x):
    try:
        return PLAIN.label
    except AttributeError as error:
        return x + 1, str(error)


def attribute_from_outside(x):
    return NAMED(x), NAMED.label, vars(NAMED)


PROGRAMS = [
    wrapper_of_a_partial, wrapper_read_inside, only_some_assigned, nothing_updated, dict_of_a_new_function,
    partial_of_a_named_one, partial_of_one_named_here, partial_of_a_plain_one, partial_of_a_plain_one_here,
    attributes_stored_and_deleted, nothing_of_that_name, attribute_from_outside,
]  # fmt: skip


def shown(value):
    """All visible properties of a value."""
    match value:
        case torch.Tensor():
            return value.tolist()
        case functools.partial():
            return ("partial", *map(shown, (value.func, value.args, value.keywords, vars(value))))
        case dict():
            return {name: shown(item) for name, item in value.items()}
        case tuple() | list():
            return [shown(item) for item in value]
    if callable(value):
        return (value.__name__, value.__qualname__, value.__doc__, shown(vars(value)), shown(value.__annotations__))
    return value


def compiled(function):
    """The compiled function, and the list of its graphs."""
    graphs = Graphs()

    return nbcompile.compile(function, backend=graphs), graphs


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
def test_parts_and_attributes_are_those_of_python(function):
    """The result has eager mode's parts, names, docstrings and attributes, and there is one graph."""
    call, graphs = compiled(function)
    x = torch.ones(2)
    wanted = shown(function(x))
    assert shown(call(x)) == wanted
    assert shown(call(x)) == wanted
    assert len(graphs) == 1


def test_whether_a_partial_was_merged_is_left_to_python():
    """A partial of one from outside is merged if that has no dict, which no guard can check: it runs in eager mode."""
    held = functools.partial(scale, k=3)
    call, graphs = compiled(lambda x: (x + 1, functools.partial(held, 1).func is scale))
    x = torch.ones(2)
    assert call(x)[1]
    assert vars(held) == {}  # the partial has a dict from now on
    assert not call(x)[1]
    assert not graphs


def test_attributes_of_a_partial_are_guarded():
    """An attribute that appears, changes or disappears between calls is guarded; a stored one persists."""
    held = functools.partial(scale, k=3)

    def read(x):
        return held(x) * getattr(held, "by", 1), hasattr(held, "note"), held.__doc__

    def store(x):
        held.note = x + 1
        return held(x) + held.note

    call, graphs = compiled(read)
    storing, _ = compiled(store)
    x = torch.ones(2)

    def agree():
        assert shown(call(x)) == shown(read(x))

    agree()
    for value in (2, 3, 3.5):
        held.by = value
        agree()
    del held.by
    agree()
    assert storing(x).tolist() == [5.0, 5.0]
    assert held.note.tolist() == [2.0, 2.0]
    agree()
    held.__doc__ = "own"
    agree()
    assert graphs


def test_the_wrapped_of_an_outside_partial():
    """``update_wrapper`` of a partial from outside stores its attributes, its annotations and its dict."""
    held = functools.partial(scale, k=3)

    def wrap(x):
        functools.update_wrapper(held, scale)
        return held(x)

    call, graphs = compiled(wrap)
    assert call(torch.ones(1)).tolist() == [3.0]
    found = shown(held)
    vars(held).clear()
    wrap(torch.ones(1))
    assert found == shown(held)
    assert len(graphs) == 1
