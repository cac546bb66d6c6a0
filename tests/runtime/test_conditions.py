"""Conditions on sizes in C have the value of the same Python text, or are left to Python."""

import pytest
import torch
from hypothesis import given, settings, strategies

import nbcompile
from nbcompile.runtime import conditions

pytestmark = pytest.mark.skipif(conditions.maker() is None, reason="no compiler")


def made(*texts, names=None, otherwise=lambda values: "left to Python"):
    return conditions.maker()(texts, names or {}, otherwise)


def test_conditions_on_tensors_and_numbers():
    """C reads sizes, strides, offsets and numbers from locals, globals, items and attributes."""
    check = made(
        "2 <= L['x'].size()[0] <= 8",
        "L['more'][1].stride()[0] == L['k'] // 2",
        "G['net'].bias.size()[0] == 3 or L['x'].storage_offset() > 5",
        names={"net": torch.nn.Linear(2, 3)},
    )
    values = {"x": torch.ones(4), "more": (0, torch.ones(5, 3)), "k": 7}
    assert check(values) is True
    assert check({**values, "x": torch.ones(9)}) is False
    assert check({**values, "k": 9}) is False


@pytest.mark.parametrize(
    "text, values",
    [
        ("L['missing'] == 1", {}),
        ("L['x'].size()[3] == 1", {"x": torch.ones(2)}),
        ("L['x'] // L['y'] == 1", {"x": 1, "y": 0}),
        ("L['x'] * L['x'] == 1", {"x": 1 << 40}),
        ("L['x'] == 1", {"x": 1 << 80}),
        ("L['x'] == 1", {"x": "1"}),
        ("L['x'].size()[0] == 2", {"x": torch.ones(2).to_sparse()}),
        ("L['x'] % 1.5 == 0", {"x": 3.0}),
        ("math.floor(L['x']) == 1", {"x": 1}),
    ],
)
def test_what_is_not_known_is_left_to_python(text, values):
    """A missing name or dim, a division by zero, an overflow, or another type is left to Python."""
    if "sparse" in str(values.get("x")):
        assert made(text)(values) in (True, "left to Python")
    else:
        assert made(text)(values) == "left to Python"


NUMBERS = strategies.one_of(
    strategies.integers(-9, 9), strategies.integers(), strategies.floats(), strategies.booleans()
)
BINARY = "+ - * // % / < <= == != > >= and or".split()


def expressions(parts):
    return strategies.one_of(
        strategies.builds("({} {} {})".format, parts, strategies.sampled_from(BINARY), parts),
        strategies.builds("{}({}, {})".format, strategies.sampled_from(("max", "min")), parts, parts),
        strategies.builds("({}{})".format, strategies.sampled_from(("not ", "-")), parts),
    )


TEXTS = strategies.recursive(strategies.sampled_from(("L['a']", "L['b']", "L['c']", "2", "-1", "0.5")), expressions)


@settings(max_examples=60, deadline=None)
@given(TEXTS, NUMBERS, NUMBERS, NUMBERS)
def test_random_conditions(text, a, b, c):
    """For random expressions, C and Python agree, or C leaves the condition to Python."""
    values = {"a": a, "b": b, "c": c}
    answer = made(text)(values)
    if answer != "left to Python":
        assert answer is bool(eval(text, {}, {"L": values}))


def test_a_dynamic_entry_is_checked_in_c():
    """The guard of a compiled function is evaluated in C, and its failure has the condition's text."""
    nbcompile.reset()
    compiled = nbcompile.compile(lambda x, y: x + y.sum(), backend="eager", dynamic=True)
    frame_recorder = nbcompile.api.new_recorder("f")
    with frame_recorder.listening():
        compiled(torch.ones(4), torch.ones(4))
        compiled(torch.ones(5), torch.ones(6))
    (failed,) = frame_recorder.record().frames[-1].failed_guards
    assert failed.reason == "x.size()[0] == y.size()[0]"
