"""Profile for automatic dynamic shapes, stored for the next process, whose first compilation is then dynamic.

    TORCH_COMPILE_JOB_ID=a python train.py      2 graphs, and a file  code_state_a.json
    TORCH_COMPILE_JOB_ID=a python train.py      1 graph

The file is text: for each function the sources whose sizes or numbers differed between calls. It may be copied to
another machine. Without a job id nothing is kept.

In torch: torch/_dynamo/pgo.py. Read next: nbcompile/dispatch/cache.py
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import CodeType
from typing import Any

from nbcompile import config
from nbcompile.capture import source as addresses
from nbcompile.capture.source import Source

_PLAIN = (
    addresses.LocalSource, addresses.GlobalSource, addresses.AttrSource, addresses.GenericAttrSource,
    addresses.ItemSource, addresses.CellSource, addresses.SizeSource,
)  # fmt: skip
_BY_NAME: Mapping[str, type[Any]] = {each.__name__: each for each in _PLAIN}
State = dict[str, dict[str, list[Any]]]
"""Properties that all observed values have in common, by function (file, line, name) and source (a tree in JSON)."""


def file() -> Path | None:
    """File with the profile of this job; None if it has no id."""
    job, folder = os.environ.get("TORCH_COMPILE_JOB_ID"), os.environ.get("NBCOMPILE_CACHE_DIR")
    if not job or not config.automatic_dynamic_local_pgo:
        return None
    home = Path(folder).expanduser() if folder else Path.home() / ".cache" / "nbcompile"
    return home / "dynamo" / f"code_state_{job}.json"


def name_of(code: CodeType) -> str:
    """Name of a function across processes: its source location and a hash of its code."""
    # The bytecode is hashed, too: after an edit the same line may be in another function.
    return f"{code.co_filename}:{code.co_firstlineno}:{code.co_name}:{code.co_code.hex()[:32]}"


def recall(code: CodeType) -> dict[Source, list[Any]]:
    """Load the profile of a function from earlier processes."""
    return {source: seen for text, seen in _read().get(name_of(code), {}).items() if (source := _source(text))}


def keep(code: CodeType, seen: Iterable[tuple[Source, list[Any]]]) -> None:
    """Write the profile of this process, merged with the file."""
    path = file()
    if path is None:
        return
    profile = {text: values for source, values in seen if (text := _text(source))}
    state = _read()
    if state.get(name_of(code)) == profile:
        return
    # Written to a temporary file and renamed: another process reads the old file or the new one, never a part.
    draft = path.with_suffix(f".{os.getpid()}")
    with contextlib.suppress(OSError):  # a full disk, a folder that is read-only: the next process has no profile
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps({**state, name_of(code): profile}, indent=1))
        draft.replace(path)


def _read() -> State:
    path = file()
    if path is None:
        return {}
    try:
        found: State = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found


def _text(source: Source) -> str:
    """A source as JSON; "" if it has no meaning in another process."""
    tree = _tree(source)
    return "" if tree is None else json.dumps([addresses.expression(source), tree])


def _tree(source: Source) -> list[Any] | None:
    if not isinstance(source, _PLAIN):
        return None
    parts: list[Any] = [type(source).__name__]
    for field in dataclasses.fields(source):
        value = getattr(source, field.name)
        part = _tree(value) if field.name == "base" else value
        if part is None or not isinstance(part, list | str | int):
            return None
        parts.append(part)
    return parts


def _source(text: str) -> Source | None:
    try:
        return _source_of(json.loads(text)[1])
    except (ValueError, LookupError, TypeError):
        return None


def _source_of(tree: list[Any]) -> Source:
    name, *parts = tree
    source: Source = _BY_NAME[name](*(_source_of(each) if isinstance(each, list) else each for each in parts))
    return source
