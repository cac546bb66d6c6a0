"""Records as JSON: nothing is lost, nothing is misread."""

from __future__ import annotations

import dataclasses
import json
import types
import typing

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from nbcompile.record import codec, model


def _values(wanted: typing.Any) -> st.SearchStrategy[typing.Any]:
    """A strategy for values of any type that a record may hold."""
    if isinstance(wanted, types.UnionType):
        return st.none() | _values(typing.get_args(wanted)[0])
    if typing.get_origin(wanted) is tuple:
        return st.lists(st.deferred(lambda: _values(typing.get_args(wanted)[0])), max_size=2).map(tuple)
    if dataclasses.is_dataclass(wanted):
        hints = typing.get_type_hints(wanted)
        fields = {name: _values(hint) for name, hint in hints.items() if name != "schema"}
        return st.builds(wanted, **fields)
    plain = {str: st.text(max_size=5), int: st.integers(), bool: st.booleans()}
    return plain[wanted] if wanted in plain else st.floats(allow_nan=False)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(_values(model.Record))
def test_what_is_written_is_read_back(record: model.Record) -> None:
    """Any record, with its times, reads back from JSON as an equal record."""
    again = codec.from_json(codec.to_json(record))
    assert again == record
    assert again.timings == record.timings


def test_every_field_has_its_place_in_the_file() -> None:
    """A field with another value than its default is in the JSON under its name."""
    text = codec.to_json(model.Record("f", frames=(model.CompiledFrame("0/0", "f", "", 1, "", "failed", "x"),)))
    plain = json.loads(text)
    assert plain["schema"] == model.SCHEMA
    assert plain["frames"][0]["status"] == "failed"
    assert "guards" not in plain["frames"][0], "defaults are left out"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is JSON, and this text is not"),
        ("[]", "it has no 'schema'"),
        ('{"function": "f"}', "it has no 'schema'"),
        ('{"schema": 99, "function": "f"}', "schema 99 and this nbcompile reads schema 1"),
        ('{"schema": 1}', "record: .*function"),
        ('{"schema": 1, "function": 3}', r"record\.function: expected a value of type str, found int"),
        ('{"schema": 1, "function": "f", "frames": {}}', r"record\.frames: expected a list, found dict"),
        ('{"schema": 1, "function": "f", "frames": [3]}', r"record\.frames\[0\]: expected an object, found int"),
        ('{"schema": 1, "function": "f", "colour": 1}', "record: Record has no field 'colour'"),
        (
            '{"schema": 1, "function": "f", "timings": [{"frame": "", "stage": "", "seconds": true}]}',
            r"record\.timings\[0\]\.seconds: expected a number, found bool",
        ),
    ],
)
def test_what_cannot_be_read_is_rejected_by_place(text: str, message: str) -> None:
    """The error says what is wrong and at which path; nothing is guessed."""
    with pytest.raises(codec.RecordFormatError, match=message):
        codec.from_json(text)
