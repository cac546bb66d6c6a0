"""A record as JSON, and back, driven by the type hints of the dataclasses.

    Guard(id="0/0.g0", kind="BOOL_MATCH", source="L['flag']", condition="L['flag'] is True")
    {"id": "0/0.g0", "kind": "BOOL_MATCH", "source": "L['flag']", "condition": "L['flag'] is True"}

Fields at their defaults are omitted: files stay small, and a new field with a default does not make older files
unreadable. A change of the meaning of an existing field increases ``model.SCHEMA``; older files are then rejected
with a message, and not misread.

In torch: nothing; TORCH_TRACE writes text for tlparse. Read next:
nbcompile/record/links.py
"""

from __future__ import annotations

import dataclasses
import functools
import json
import types
from typing import Any, get_args, get_origin, get_type_hints

from nbcompile.record import model

LARGEST = 64 << 20
"""Characters: the longest text that is read. The record takes some twenty times as many bytes of memory."""


class RecordFormatError(ValueError):
    """The text is not a record that this version can read; the message names the path in the JSON."""


def to_json(record: model.Record, indent: int | None = None) -> str:
    """The record as text: ASCII, the same for equal records (times apart)."""
    return json.dumps({"schema": record.schema, **_to_plain(record)}, indent=indent)


def frame_to_plain(frame: model.CompiledFrame) -> dict[str, Any]:
    """One frame as values that JSON has."""
    plain: dict[str, Any] = _to_plain(frame)
    return {"schema": model.SCHEMA, **plain}


def frame_from_plain(plain: dict[str, Any]) -> model.CompiledFrame:
    """The frame that :func:`frame_to_plain` wrote.

    Raises:
        RecordFormatError: another schema, or a field that is missing, unknown or of the wrong type.
    """
    entries = dict(plain)
    if entries.pop("schema", None) != model.SCHEMA:
        raise RecordFormatError("the frame was written by another version")
    frame = _from_plain(model.CompiledFrame, entries, "frame")
    assert isinstance(frame, model.CompiledFrame)
    return frame


def from_json(text: str) -> model.Record:
    """The record that :func:`to_json` wrote.

    Raises:
        RecordFormatError: no JSON, too long, another schema, or a field that is missing, unknown or of the wrong type.
    """
    if len(text) > LARGEST:
        raise RecordFormatError(f"the text has {len(text):,} characters, and a record at most {LARGEST:,}")
    try:
        plain = json.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: also a number with too many digits
        raise RecordFormatError(f"a record is JSON, and this text is not: {error}") from error
    if not isinstance(plain, dict) or "schema" not in plain:
        raise RecordFormatError("this JSON is no nbcompile record: it has no 'schema'")
    if plain["schema"] != model.SCHEMA:
        raise RecordFormatError(
            f"the record has schema {plain['schema']!r} and this nbcompile reads schema {model.SCHEMA}: "
            "read it with the version that wrote it, or compile again"
        )
    record = _from_plain(model.Record, plain, "record")
    assert isinstance(record, model.Record)
    return record


def _to_plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_to_plain(each) for each in value]
    if dataclasses.is_dataclass(value):
        entries = ((each, getattr(value, each.name)) for each in dataclasses.fields(value))
        # Defaults are omitted: most fields of most entries are empty, and a record has tens of thousands of entries.
        return {each.name: _to_plain(entry) for each, entry in entries if not _is_default(each, entry)}
    assert value is None or isinstance(value, (str, int, float, bool)), f"a record cannot hold {type(value)}"
    return value


def _is_default(field: dataclasses.Field[Any], value: Any) -> bool:
    if field.default is not dataclasses.MISSING:
        return bool(value == field.default)
    return field.default_factory is not dataclasses.MISSING and bool(value == field.default_factory())


def _from_plain(expected: Any, value: Any, path: str) -> Any:
    """Build a value of the expected type; ``path`` is its path in the JSON."""
    # The type hints of the dataclasses are the schema; there is no second description of it.
    if isinstance(expected, types.UnionType):  # the model has only unions ``X | None``
        return None if value is None else _from_plain(get_args(expected)[0], value, path)
    if get_origin(expected) is tuple:
        _require(isinstance(value, list), path, "a list", value)
        item = get_args(expected)[0]
        return tuple(_from_plain(item, each, f"{path}[{index}]") for index, each in enumerate(value))
    if dataclasses.is_dataclass(expected):
        _require(isinstance(value, dict), path, "an object", value)
        return _from_object(expected, value, path)
    # JSON has one kind of numbers: 1.0 may come back as 1. (True is an int in Python, and no number here.)
    if expected is float:
        _require(isinstance(value, (int, float)) and not isinstance(value, bool), path, "a number", value)
        try:
            return float(value)
        except OverflowError:
            raise RecordFormatError(f"{path}: the number is too large") from None
    _require(type(value) is expected, path, f"a value of type {expected.__name__}", value)
    return value


def _from_object(expected: Any, value: dict[str, Any], path: str) -> Any:
    hints = _hints(expected)
    if unknown := sorted(value.keys() - hints.keys()):
        raise RecordFormatError(f"{path}: {expected.__name__} has no field {unknown[0]!r}")
    entries = {name: _from_plain(hints[name], entry, f"{path}.{name}") for name, entry in value.items()}
    try:
        return expected(**entries)
    except TypeError as error:  # a field without a default is missing; dataclasses name it
        raise RecordFormatError(f"{path}: {error}") from error


@functools.cache
def _hints(expected: type) -> dict[str, Any]:
    return get_type_hints(expected)


def _require(holds: bool, path: str, expected: str, value: object) -> None:
    if not holds:
        raise RecordFormatError(f"{path}: expected {expected}, found {type(value).__name__}")
