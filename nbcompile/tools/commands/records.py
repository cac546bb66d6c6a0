"""``open`` (also ``draw``): show a record, or a trace of torch.compile, that was written before, anywhere.

    python -m nbcompile open seen.json               a record, as text
    python -m nbcompile open /tmp/trace -o it.html   a TORCH_TRACE of torch.compile, all ranks, as one HTML file
    python -m nbcompile open trace.log.gz --json     the record of a trace as JSON

In torch: tlparse. Read next: nbcompile/observe/trace_reader.py
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from nbcompile.observe import trace_reader
from nbcompile.record import codec
from nbcompile.record.model import CompiledFrame, Record
from nbcompile.tools.commands import terminal
from nbcompile.views import report, sections, text

FIRST_BYTES = 64
"""Number of bytes that distinguish a record, which is one JSON object, from a trace."""
MOST_OF_RECORD = 256 << 20
"""Maximum bytes of a record, which is read whole; a trace is read line by line, and may be larger."""


def add(commands: argparse._SubParsersAction) -> None:
    """Declare the command under both names."""
    for name in ("open", "draw"):
        parser = commands.add_parser(name, help="show a record (JSON) or a trace (TORCH_TRACE)", allow_abbrev=False)
        parser.add_argument("record", type=Path, help="the file of `run --json`; a trace, or a folder of them")
        parser.add_argument("-o", "--output", type=Path, help="write one HTML file; without it, text is printed")
        parser.add_argument("-s", "--show", help=f"with commas (text only): {','.join(sections.SECTIONS)}")
        parser.add_argument("--json", action="store_true", help="print the record as JSON; of several ranks, a list")
        parser.set_defaults(run=_open)


def _open(options: argparse.Namespace) -> int:
    with terminal.waiting("open"):
        opened = read(options.record)
    for note in opened.notes:
        terminal.print_error(note)
    records = list(opened.records.values())
    if options.output:
        with terminal.waiting("drawing"):
            options.output.write_text(page(options.record.name, opened), encoding="utf-8")
        print(options.output)
    elif options.json:
        texts = [codec.to_json(record) for record in records]
        print(texts[0] if len(texts) == 1 else f"[{','.join(texts)}]")
    else:
        for line in compare_ranks(opened.records):
            print(line)
        show = options.show.split(",") if options.show else None
        # The ranks of a trace share the limit of output of one record.
        limit = None if show else text.MOST_PRINTED // max(len(records), 1)
        print("\n".join(text.render(record, show, limit, text.IN_COMMANDS) for record in records), end="")
    return 0


def read(path: Path) -> trace_reader.OpenedTrace:
    """The record in a file, or the records of a trace.

    Raises:
        OSError: there is no such file, or it is a pipe or a device, which may never end.
        codec.RecordFormatError, trace_reader.TraceFormatError: it is neither.
    """
    if path.is_dir():
        return trace_reader.read(path)
    size = path.stat().st_size
    # Tested before the file is opened: opening a pipe blocks until a process writes to it.
    if not path.is_file():
        raise OSError(f"{path} is neither a file nor a folder")
    with path.open("rb") as file:
        first = file.read(FIRST_BYTES)
    # The first bytes of a gzip file.
    is_trace = first.startswith(b"\x1f\x8b") or trace_reader.begins_trace(first)
    if is_trace or path.name.endswith((".log", ".log.gz")):
        return trace_reader.read(path)
    if not first.lstrip().startswith(b"{"):
        raise codec.RecordFormatError(f"{path} is neither a record (JSON) nor a structured trace (*.log, *.log.gz)")
    if size > MOST_OF_RECORD:
        raise codec.RecordFormatError(f"{path} is larger than {MOST_OF_RECORD >> 20} MiB, the most for a record")
    try:
        content = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise codec.RecordFormatError(f"{path} is no record: {error}") from error
    return trace_reader.OpenedTrace({0: codec.from_json(content)}, ())


def page(title: str, opened: trace_reader.OpenedTrace) -> str:
    """One HTML document: a record, a trace with its notes, or several ranks with their differences."""
    if len(opened.records) == 1 and not opened.notes:
        return report.of_record(next(iter(opened.records.values())))
    differences = compare_ranks(opened.records)
    prose = "\n\n".join([*opened.notes, *differences])
    named = {f"rank {rank}" if len(opened.records) > 1 else title: record for rank, record in opened.records.items()}
    shown = [report.Section(name, record) for name, record in named.items()]
    return report.page(title, [report.Section("About this trace", prose=prose), *shown] if prose else shown)


def compare_ranks(records: Mapping[int, Record]) -> list[str]:
    """The differences between the ranks of a trace, frame by frame; [] for one rank."""
    if len(records) < 2:
        return []
    kinds: dict[str, dict[int, str]] = {}
    for rank, record in records.items():
        for frame in record.frames:
            kinds.setdefault(frame.id, {})[rank] = _kind(frame)
    lines = [f"{len(records)} ranks: {', '.join(map(str, records))}"]
    for identity, by_rank in kinds.items():
        # Ranks that compile different frames may wait for each other in a collective for ever.
        absent = [rank for rank in records if rank not in by_rank]
        if absent:
            lines.append(f"{identity}: not compiled on rank {', '.join(map(str, absent))}")
        if len(set(by_rank.values())) > 1:
            lines += [f"{identity}: rank {rank}: {kind}" for rank, kind in by_rank.items()]
    return lines if len(lines) > 1 else [*lines, "all ranks compiled the same frames"]


def _kind(frame: CompiledFrame) -> str:
    nodes = len(frame.graph.nodes) if frame.graph else 0
    return f"{frame.function}, {frame.status}, {nodes} nodes, {len(frame.guards)} guards, {len(frame.breaks)} breaks"
