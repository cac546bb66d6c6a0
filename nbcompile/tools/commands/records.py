"""``open`` (also ``draw``): show a record that was written before, in this process or another.

    python -m nbcompile open seen.json               as text
    python -m nbcompile open seen.json -o it.html    as one HTML file
    python -m nbcompile open seen.json --json        as JSON, checked and in today's form

In torch: tlparse. Read next: nbcompile/record/codec.py
"""

from __future__ import annotations

import argparse
from pathlib import Path

from nbcompile.record import codec
from nbcompile.record.model import Record
from nbcompile.views import report, sections, text


def add(commands: argparse._SubParsersAction) -> None:
    """Describe the command under both names."""
    for name in ("open", "draw"):
        parser = commands.add_parser(name, help="show a record that was written as JSON", allow_abbrev=False)
        parser.add_argument("record", type=Path, help="the JSON that `run --json` wrote")
        parser.add_argument("-o", "--output", type=Path, help="write one HTML file; without it, text is printed")
        parser.add_argument("-s", "--show", help=f"with commas (text only): {','.join(sections.SECTIONS)}")
        parser.add_argument("--json", action="store_true", help="print the record as JSON")
        parser.set_defaults(run=_open)


def _open(options: argparse.Namespace) -> int:
    record = read(options.record)
    if options.output:
        options.output.write_text(report.of_record(record), encoding="utf-8")
        print(options.output)
    elif options.json:
        print(codec.to_json(record))
    else:
        print(text.render(record, options.show and options.show.split(",")), end="")
    return 0


def read(path: Path) -> Record:
    """The record in a file.

    Raises:
        OSError: the file cannot be read.
        codec.RecordFormatError: it is no record.
    """
    return codec.from_json(path.read_text(encoding="utf-8"))
