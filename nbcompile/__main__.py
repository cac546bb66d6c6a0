"""``python -m nbcompile``: what one needs outside a notebook.

    python -m nbcompile script.py --html out.html  run a program; what was compiled, as one HTML file
    python -m nbcompile doctor                     what this machine has, and what is missing
    python -m nbcompile tour                       execute the tour, and write it as tour.html
    python -m nbcompile explain NB0007             a kind of graph break: an example, and what to do
    python -m nbcompile draw seen.json             a record that was kept, as text
    python -m nbcompile draw seen.json -o it.html  the same as one HTML file

In torch: tlparse, a program of its own, draws logs. Read next:
nbcompile/tools/doctor.py, nbcompile/views/report.py
"""

from __future__ import annotations

import argparse
import importlib
import runpy
import sys
import traceback
from pathlib import Path
from types import TracebackType

from nbcompile import api, config
from nbcompile.record import codec
from nbcompile.tools import explain
from nbcompile.tools.doctor import examine
from nbcompile.views import report, sections, text

COMMANDS = ("run", "doctor", "tour", "explain", "draw")


def main(arguments: list[str] | None = None) -> int:
    """The command; 0 if it did what was asked."""
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["tour"]:
        return _tour(given[1:])
    if given and given[0] not in (*COMMANDS, "-h", "--help"):
        given = ["run", *given]
    parser = _parser()
    options, rest = parser.parse_known_args(given)
    if rest and options.run is not _run:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    options.rest = rest
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
    program = commands.add_parser("run", help="run a program, and tell what was compiled (`run` may be left out)")
    program.add_argument("script", type=Path, help="what stands behind it, and is not listed here, is the program's")
    program.add_argument("--html", type=Path, metavar="FILE", help="write one HTML file; without it, text is printed")
    program.add_argument("--json", type=Path, metavar="FILE", help="keep the data, for `draw`")
    program.add_argument("--steps", action="store_true", help="record each instruction that is traced")
    program.set_defaults(run=_run)
    doctor = commands.add_parser("doctor", help="say what this machine has, and what is missing")
    doctor.set_defaults(run=_doctor)
    commands.add_parser("tour", help="execute the tour and write it as one HTML file (`tour --help`)")
    kind = commands.add_parser("explain", help="show what a kind of graph break is, and what to do about it")
    kind.add_argument("kind", help="its id, which messages and pictures name: NB0007")
    kind.set_defaults(run=_explain)
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


def _tour(arguments: list[str]) -> int:
    try:
        tour = importlib.import_module("nbcompile.tools.tour")
    except ModuleNotFoundError as error:
        print(f'nbcompile: the tour needs {error.name}: pip install "nbcompile[notebook]"', file=sys.stderr)
        return 2
    return int(tour.main(arguments))


def _explain(options: argparse.Namespace) -> int:
    print(explain.as_text(explain.page(options.kind)), end="")
    return 0


def _run(options: argparse.Namespace) -> int:
    """Run a script as its own interpreter would; its exit status is ours."""
    if not options.script.is_file():
        raise FileNotFoundError(f"there is no file {options.script}")
    pen, status = api.new_recorder(options.script.name), 0
    sys.argv, sys.path[0] = [str(options.script), *options.rest], str(options.script.parent)
    try:
        with api.listening(pen), config.patch(record_steps=options.steps):
            runpy.run_path(str(options.script), run_name="__main__")
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        print(end.code, file=sys.stderr) if isinstance(end.code, str) else None
    except BaseException as error:  # noqa: BLE001 - what was compiled until then is told all the same
        traceback.print_exception(error.with_traceback(_own(error.__traceback__)))
        status = 130 if isinstance(error, KeyboardInterrupt) else 1
    record = pen.record()
    if options.json:
        options.json.write_text(codec.to_json(record), encoding="utf-8")
    if options.html:
        options.html.write_text(report.of_record(record), encoding="utf-8")
    for path in filter(None, (options.json, options.html)):
        print(f"nbcompile: {path}", file=sys.stderr)
    if not options.json and not options.html:
        print(text.render(record), end="")
    return status


def _own(frames: TracebackType | None) -> TracebackType | None:
    """A traceback from the script on."""
    while frames is not None and frames.tb_frame.f_code.co_filename in (__file__, runpy.__file__, "<frozen runpy>"):
        frames = frames.tb_next
    return frames


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
