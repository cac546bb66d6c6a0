"""``python -m nbcompile``: what one needs outside a notebook.

    python -m nbcompile doctor                     what this machine has, and what is missing
    python -m nbcompile draw seen.json             a record that was kept, as text
    python -m nbcompile draw seen.json -o it.html  the same as one HTML file

In torch: tlparse, a program of its own, draws logs. Read next:
nbcompile/tools/doctor.py, nbcompile/views/report.py
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from nbcompile.record import codec
from nbcompile.tools.doctor import examine
from nbcompile.views import report, sections, text


def main(arguments: list[str] | None = None) -> int:
    """The command; 0 if it did what was asked."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except (OSError, codec.RecordFormatError, ValueError) as error:
        print(f"nbcompile: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m nbcompile", description="A compiler for PyTorch that shows its work."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    doctor = commands.add_parser("doctor", help="say what this machine has, and what is missing")
    doctor.set_defaults(run=_doctor)
    draw = commands.add_parser("draw", help="draw a record that was kept as JSON")
    draw.add_argument("record", type=Path)
    draw.add_argument("-o", "--output", type=Path, help="write one HTML file; without it, text is printed")
    draw.add_argument("-s", "--show", help=f"with commas (text only): {','.join(sections.SECTIONS)}")
    draw.set_defaults(run=_draw)
    return parser


def _doctor(_: argparse.Namespace) -> int:
    findings = examine()
    width = max(len(finding.what) for finding in findings)
    for finding in findings:
        print(f"{'✓' if finding.there else '✗'} {finding.what:{width}}  {finding.words}")
    return 0 if all(finding.there or not finding.needed for finding in findings) else 1


def _draw(options: argparse.Namespace) -> int:
    record = codec.from_json(options.record.read_text(encoding="utf-8"))
    if options.output:
        options.output.write_text(report.of_record(record), encoding="utf-8")
        print(options.output)
    else:
        print(text.render(record, options.show and options.show.split(",")), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
