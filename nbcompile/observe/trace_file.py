r"""A structured trace as a stream of entries: metadata and payload of each record, in bounded memory.

    for entry in entries(path, selected, problems):     Entry("dynamo_output_graph", "0/0", 1, None, {...}, "class...")

    V1123 22:45:21.189000 19943 torch/_dynamo/utils.py:2350] {"chromium_event": {}, "frame_id": 0, "has_payload": ...}
    \t{"name": "dynamo", "ts": 1795473921188904.0, ...

A trace may be cut off, compressed, of any version, or hostile. Lines that are no records are counted; a payload that is
too long is cut; a file that unpacks to more than ``MOST_BYTES`` is read up to there. No file that it names is opened.

In torch: TorchLogsFormatter in torch/_logging/_internal.py. Read next: nbcompile/observe/trace_reader.py
"""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

MOST_BYTES = 2 << 30
"""Size limit of an unpacked file."""
MOST_LINE = 4 << 20
"""Bytes of one line."""
MOST_PAYLOAD = 8 << 20
"""Characters of one payload."""
MOST_KEPT = 256 << 20
"""Characters of all payloads of a trace together, which are kept in memory."""
GZIP = b"\x1f\x8b"
# At most 1000 characters before the bracket: so the search is short on a line of megabytes, too.
METADATA = re.compile(r"^(?:\[rank(?P<rank>\d+)\]:)?[VIWEC]\d{4} [\d:.]+ \d+ .{0,1000}?\] (?P<json>\{.*\})\s*$")
BEGIN = re.compile(r"^(?:\[rank\d+\]:)?[VIWEC](\d{4} [\d:.]+) ", re.MULTILINE)
OF_EVERY_RECORD = frozenset((
    "rank", "compiled_autograd_id", "frame_id", "frame_compile_id", "attempt", "severity", "timestamp", "pathname",
    "thread", "subgraph_name", "stack", "has_payload",
))  # fmt: skip
"""Keys of a record that are not its name."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One record of a trace."""

    name: str
    """``dynamo_output_graph``; of an artifact its own name."""
    compile_id: str
    """``"0/0"``; "" where the record is about no compile."""
    attempt: int
    rank: int | None
    metadata: Any
    payload: str


@dataclass(slots=True)
class Problems:
    """The parts that could not be read, for one sentence to the user."""

    unreadable_lines: int = 0
    cut_payloads: int = 0
    kept: int = 0
    """Characters of the payloads so far."""
    left_out_payloads: int = 0
    messages: list[str] = field(default_factory=list)

    def sentences(self) -> list[str]:
        """All problems, as text."""
        counted = [
            (self.unreadable_lines, "{} lines are no records of a trace and are left out"),
            (self.cut_payloads, "{} payloads are longer than 8 MiB and are cut"),
            (self.left_out_payloads, "{} payloads are left out: those before them have 256 MiB"),
        ]
        return [*(text.format(number) for number, text in counted if number), *self.messages]


def entries(path: Path, selected: frozenset[str], problems: Problems) -> Iterator[Entry]:
    """The entries of a file, in order; payloads of other names are skipped.

    Raises:
        OSError: the file cannot be opened.
    """
    #     [rank0]:V1125 10:00:00.000000 1 torch/_logging/_internal.py:1] {"dynamo_output_graph": {...}, "rank": 0}
    #     \tclass GraphModule(torch.nn.Module):          each line of the payload begins with a tab
    #     \t    def forward(self, L_x_):
    with _opened(path) as file:
        current: tuple[Any, bool] | None = None
        payload: list[str] = []
        length = 0
        for line in _lines(file, path, problems):
            if line.startswith("\t"):
                if current is not None and current[1]:
                    # Counted beyond the limit as well, so that the cut is known; the rest is not stored.
                    length += len(line)
                    if length <= MOST_PAYLOAD:
                        payload.append(line[1:])
                continue
            if current is not None:
                yield _entry(current[0], payload, length, problems)
            current, payload, length = _metadata(line, selected, problems), [], 0
        if current is not None:
            yield _entry(current[0], payload, length, problems)


def begins(path: Path) -> str:
    """Month, day and time of the first record; a value after all others if there is none."""
    with contextlib.suppress(EOFError, zlib.error, OSError), _opened(path) as file:
        found = BEGIN.search(file.read(200).decode("utf-8", errors="replace"))
        if found:
            return found[1]
    # Months begin with 0 or 1.
    return "9"


def _opened(path: Path) -> gzip.GzipFile | BinaryIO:
    # By its first bytes: a trace that was sent by mail may have lost its suffix.
    with path.open("rb") as file:
        compressed = file.read(2) == GZIP
    return gzip.open(path, "rb") if compressed else path.open("rb")


def _lines(file: gzip.GzipFile | BinaryIO, path: Path, problems: Problems) -> Iterator[str]:
    size, line = 0, b"\n"
    try:
        # A hostile file may be one endless line: it is read in parts.
        while more := file.readline(MOST_LINE):
            line = more
            size += len(line)
            if size > MOST_BYTES:
                problems.messages.append(f"{path.name} is read up to {MOST_BYTES >> 30} GiB")
                return
            yield line.decode("utf-8", errors="replace")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        problems.messages.append(f"{path.name} ends early: {error}")
        return
    if not line.endswith(b"\n"):
        problems.messages.append(f"{path.name} ends early: in the middle of a line")


def _metadata(line: str, selected: frozenset[str], problems: Problems) -> tuple[Any, bool] | None:
    found = METADATA.match(line)
    try:
        metadata = json.loads(found["json"]) if found else None
    except (ValueError, RecursionError):
        metadata = None
    if not isinstance(metadata, dict):
        problems.unreadable_lines += bool(line.strip())
        return None
    if found and found["rank"]:
        metadata.setdefault("rank", int(found["rank"]))
    return metadata, _name(metadata) in selected


def _name(metadata: dict[str, Any]) -> str:
    name = next((key for key in metadata if key not in OF_EVERY_RECORD), "")
    own = metadata.get(name)
    return str(own.get("name", "")) if name == "artifact" and isinstance(own, dict) else name


def _entry(metadata: dict[str, Any], payload: list[str], length: int, problems: Problems) -> Entry:
    problems.cut_payloads += length > MOST_PAYLOAD
    if problems.kept + min(length, MOST_PAYLOAD) > MOST_KEPT:
        problems.left_out_payloads += bool(payload)
        payload = []
    problems.kept += sum(map(len, payload))
    # The remaining key is the name of the record, and its value the record's own data.
    key = next((key for key in metadata if key not in OF_EVERY_RECORD), "")
    rank, attempt = metadata.get("rank"), metadata.get("attempt")
    return Entry(
        _name(metadata),
        _compile_id(metadata),
        attempt if isinstance(attempt, int) else 0,
        rank if isinstance(rank, int) else None,
        metadata.get(key),
        "".join(payload).rstrip("\n"),
    )


def _compile_id(metadata: dict[str, Any]) -> str:
    frame, number = metadata.get("frame_id"), metadata.get("frame_compile_id")
    if not isinstance(frame, int) or not isinstance(number, int):
        return ""
    # As torch spells the id of a compile inside of compiled autograd.
    outer = metadata.get("compiled_autograd_id")
    return f"!{outer}/{frame}/{number}" if isinstance(outer, int) else f"{frame}/{number}"
