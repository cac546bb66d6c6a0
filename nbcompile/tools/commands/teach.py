"""``teach``: exercises for a class: list them, hand them out, check answers, report; lectures for Colab.

    python -m nbcompile teach list                           all exercises
    python -m nbcompile teach show one-graph-1               one of them
    python -m nbcompile teach check one-graph-1 answer.py    a file that defines the answer
    python -m nbcompile teach export -o course --lecture 3   notebooks, with and without solutions
    python -m nbcompile teach report handed_in/ --html r.html
    python -m nbcompile teach colab https://github.com/you/nbcompile

In torch: nothing. Read next: nbcompile/teach/classroom.py
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from nbcompile.support import lazy_import
from nbcompile.tools.commands import terminal

if TYPE_CHECKING:
    from nbcompile.teach import classroom, colab, exercise_table, kinds, session
else:
    # Exercises import many modules, and every command builds this parser.
    classroom = lazy_import.module("nbcompile.teach.classroom")
    colab = lazy_import.module("nbcompile.teach.colab")
    exercise_table = lazy_import.module("nbcompile.teach.exercise_table")
    kinds = lazy_import.module("nbcompile.teach.kinds")
    session = lazy_import.module("nbcompile.teach.session")

KEYS = ("id", "title", "kind", "lecture", "points")
"""Fields of an exercise that are printed as JSON."""


def add(commands: argparse._SubParsersAction) -> None:
    """Declare the command, its actions and their options."""
    parser = commands.add_parser("teach", help="exercises: list, show, check, export, report", allow_abbrev=False)
    actions = parser.add_subparsers(required=True, metavar="ACTION", dest="action")
    listing = actions.add_parser("list", help="all exercises")
    listing.add_argument("--lecture", type=int, default=0, help="those of a lecture")
    listing.add_argument("--json", action="store_true", help="print JSON")
    listing.set_defaults(run=_list)
    showing = actions.add_parser("show", help="one exercise")
    showing.add_argument("name")
    showing.add_argument("--json", action="store_true", help="print JSON")
    showing.set_defaults(run=_show)
    checking = actions.add_parser("check", help="check an answer; exit code 1 if it is not accepted")
    checking.add_argument("name")
    checking.add_argument("file", type=Path, help="a Python file that defines the answer")
    checking.add_argument("--json", action="store_true", help="print JSON")
    checking.set_defaults(run=_check)
    exporting = actions.add_parser("export", help="notebooks for nbgrader: source/ with solutions, release/ without")
    exporting.add_argument("names", nargs="*", help="exercises; without them, those of a lecture, or of each")
    exporting.add_argument("--lecture", type=int, default=0)
    exporting.add_argument("-o", "--output", type=Path, default=Path("course"), help="a folder; default: %(default)s")
    exporting.add_argument("--json", action="store_true", help="print JSON")
    exporting.set_defaults(run=_export)
    reporting = actions.add_parser("report", help="points of a class from progress files")
    reporting.add_argument("files", nargs="+", type=Path, help="progress files, or folders of them")
    reporting.add_argument("--html", type=Path, help="write one HTML file")
    reporting.add_argument("--json", action="store_true", help="print JSON")
    reporting.set_defaults(run=_report)
    hosting = actions.add_parser("colab", help="lectures with Colab's badge, which install the right torch there")
    hosting.add_argument("repository", help="its address: https://github.com/OWNER/NAME")
    hosting.add_argument("--branch", default="main", help="default: %(default)s")
    hosting.add_argument(
        "-o", "--output", type=PurePosixPath, default=PurePosixPath("notebooks/colab"),
        help="a folder in the repository; default: %(default)s",
    )  # fmt: skip
    hosting.add_argument("--json", action="store_true", help="print JSON")
    hosting.set_defaults(run=_colab)


def _list(options: argparse.Namespace) -> int:
    found = classroom.chosen(options.lecture)
    if options.json:
        terminal.print_json([{key: getattr(entry, key) for key in KEYS} for entry in found])
        return 0
    for entry in found:
        print(f"{entry.lecture}  {entry.id:18}  {entry.kind:16}  {entry.title}")
    return 0


def _show(options: argparse.Namespace) -> int:
    exercise = kinds.with_facts(exercise_table.find(options.name))
    if options.json:
        terminal.print_json({key: getattr(exercise, key) for key in (*KEYS, "task", "answer")})
    else:
        print(exercise)
    return 0


def _check(options: argparse.Namespace) -> int:
    chosen = exercise_table.find(options.name)
    try:
        answer = exercise_table.define(options.file.read_text(encoding="utf-8"), chosen.answer)
    except KeyError:
        raise ValueError(f"{options.file} does not define `{chosen.answer}`") from None
    except Exception as error:
        raise ValueError(f"{options.file} raises {type(error).__name__}: {error}") from error
    verdict = session.judge(chosen, answer)
    if options.json:
        terminal.print_json({"exercise": chosen.id, "accepted": verdict.accepted, "says": verdict.says})
    else:
        print(verdict)
    return 0 if verdict else 1


def _export(options: argparse.Namespace) -> int:
    # All names are resolved before any file is written.
    for name in options.names:
        exercise_table.find(name)
    return _print_paths(classroom.export(options.output, options.lecture, options.names), options)


def _colab(options: argparse.Namespace) -> int:
    written = colab.write(colab.Repository(options.repository, options.branch, options.output))
    return _print_paths(written, options)


def _print_paths(paths: Iterable[object], options: argparse.Namespace) -> int:
    if options.json:
        terminal.print_json([str(path) for path in paths])
    for path in [] if options.json else paths:
        print(path)
    return 0


def _report(options: argparse.Namespace) -> int:
    found = classroom.report(options.files)
    for sentence in found.rejected:
        terminal.print_error(sentence)
    if options.html:
        options.html.write_text(found.as_html(), encoding="utf-8")
        print(options.html)
    elif options.json:
        terminal.print_json([dict(zip(found.head(), row, strict=True)) for row in found.rows()])
    else:
        print(found)
    return 1 if found.rejected else 0
