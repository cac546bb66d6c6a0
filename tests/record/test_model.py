"""The record is plain data: the types of its fields, and the equality of records."""

from __future__ import annotations

import dataclasses
import pickle
import types
import typing

import pytest

from nbcompile.record import model
from nbcompile.record.model import CompiledFrame, Record, Symbol, Timing

CLASSES = [value for value in vars(model).values() if dataclasses.is_dataclass(value)]
PLAIN = (str, int, float, bool, type(None))


def is_plain(annotation: object) -> bool:
    """True for plain types, tuples of them, unions of them, and classes of the record."""
    if annotation in PLAIN or annotation in CLASSES or annotation is Ellipsis:
        return True
    origin = typing.get_origin(annotation)
    return origin in (tuple, typing.Union, types.UnionType) and all(map(is_plain, typing.get_args(annotation)))


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_a_class_is_frozen_plain_data(cls):
    """No field holds a tensor, a frame or a code object, none can be assigned, and there is no __dict__."""
    wrong = {name: kind for name, kind in typing.get_type_hints(cls).items() if not is_plain(kind)}
    assert wrong == {}
    assert cls.__dataclass_params__.frozen
    assert "__dict__" not in dir(cls), "with slots, nothing else can be hung on an object"


def test_the_rule_can_fail():
    """A list, an object and a dict are not plain data."""
    assert is_plain(tuple[tuple[int, ...], str | None])
    assert not any(map(is_plain, (list[int], object, dict[str, int], tuple[object, ...])))


def test_every_class_is_reachable_from_the_record():
    """Each class of the model is reachable from Record: otherwise it would not be written or shown."""
    reached, waiting = set(), [Record]
    while waiting:
        cls = waiting.pop()
        if cls not in reached:
            reached.add(cls)
            text = " ".join(field.type for field in dataclasses.fields(cls))
            waiting += [other for other in CLASSES if other.__name__ in text.replace("[", " ").replace("]", " ")
                        .replace(",", " ").split()]  # fmt: skip
    assert {cls.__name__ for cls in CLASSES} - {cls.__name__ for cls in reached} == set()


def test_records_that_differ_in_times_are_equal():
    """Records are equal if only their times differ; another frame makes them unequal."""
    frame = CompiledFrame("0/0", "f", "f.py", 1, "", "compiled", "first call")
    one, other = (Record("f", frames=(frame,), timings=(Timing("0/0", "trace", seconds),)) for seconds in (1.0, 2.0))
    assert one == other and hash(one) == hash(other)
    assert one != Record("f", frames=(dataclasses.replace(frame, cause="recompiled"),))
    assert pickle.loads(pickle.dumps(one)).timings == one.timings


def test_a_symbol_without_a_hint_is_unbacked():
    """A symbol without a hint is unbacked."""
    assert Symbol("u0", (), "", "[0, int_oo]", "the run").unbacked
    assert not Symbol("s0", ("L['x'].size()[0]",), "3", "[2, int_oo]", "mark_dynamic").unbacked


def test_the_causes_of_a_loaded_frame_are_distinguished():
    """Each cause of a load is in the set that the views use."""
    assert set(model.FROM_STORE) == {model.LOADED, model.LOADED_FROM_CACHE} and model.LOADED != model.LOADED_FROM_CACHE
    assert len({model.EAGER, model.RAISED, model.INTERRUPTED}) == 3
