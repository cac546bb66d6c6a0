"""``run`` and ``report``: run a program as Python would, and show what was compiled.

    python -m nbcompile run train.py --epochs 3      then the record, as text
    python -m nbcompile report train.py -o out.html  the record as one HTML file
    python -m nbcompile run --replace train.py       torch.compile means nbcompile.compile

Our options may come before or after the program's name. Before it, an unknown option is an error; after it, an unknown
option is the program's, unless it is similar to one of ours. ``--`` ends our options.

In torch: torch/distributed/run.py. Read next: nbcompile/tools/commands/records.py
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from nbcompile import api, config
from nbcompile.dispatch import tracebacks
from nbcompile.record import codec
from nbcompile.record.model import Record
from nbcompile.tools import child_process, main_program, replacement
from nbcompile.tools.commands import terminal
from nbcompile.tools.commands.parser import closest
from nbcompile.views import report, text

NAMES = ("run", "report")


def add(commands: argparse._SubParsersAction) -> None:
    """Declare both commands and their options."""
    run = commands.add_parser("run", help="run a program and show what was compiled", allow_abbrev=False)
    run.add_argument("--html", type=Path, metavar="FILE", help="write one HTML file; without it, text is printed")
    run.set_defaults(run=run_program)
    page = commands.add_parser("report", help="run a program and write one HTML file", allow_abbrev=False)
    page.add_argument("-o", "--html", type=Path, metavar="FILE", help="default: the program's name with .html")
    page.set_defaults(run=_report)
    for parser in (run, page):
        parser.add_argument("script", type=Path, help="the program; its own options follow, after `--` if need be")
        parser.add_argument("--json", type=Path, metavar="FILE", help="write the record as JSON, for `open`; -: print")
        parser.add_argument("--steps", action="store_true", help="record each instruction that is traced")
        parser.add_argument("--replace", action="store_true", help="nbcompile.compile instead of torch.compile")


def program_arguments(
    parser: argparse.ArgumentParser, options: argparse.Namespace, given: list[str], rest: list[str]
) -> list[str]:
    """The program's arguments; an unknown option before its name, or a misspelt one, is an error."""
    #     run --jsno x.py          before the name: an unknown option of ours, an error
    #     run x.py --jsno          after it: the program's, but close to one of ours: an error, too
    #     run x.py --epochs 3      the program's
    before = given[: given.index(str(options.script))] if str(options.script) in given else given
    wrong = [word for word in rest if word.startswith("-") and word in before]
    if wrong:
        parser.error(f"unrecognized arguments: {' '.join(wrong)} (the program's own options follow its name)")
    for word in rest:
        close = closest(word.partition("=")[0], ("--html", "--json", "--steps", "--replace"))
        if word.startswith("--") and close:
            parser.error(f"unrecognized argument {word}: did you mean {close}? The program's options may follow `--`")
    return rest


def _report(options: argparse.Namespace) -> int:
    options.html = options.html or Path(options.script.with_suffix(".html").name)
    return run_program(options)


def run_program(options: argparse.Namespace) -> int:
    """Run a program and write its record; return its exit code."""
    record, status, calls = recorded(options.script, options.rest, replace=options.replace, steps=options.steps)
    print_json = str(options.json) == "-"
    if print_json:
        print(codec.to_json(record))
    elif options.json:
        options.json.write_text(codec.to_json(record), encoding="utf-8")
    if options.html:
        options.html.write_text(report.of_record(record), encoding="utf-8")
    for path in filter(None, (None if print_json else options.json, options.html)):
        terminal.print_error(path)
    if not options.json and not options.html:
        print(text.render(record, None, text.MOST_PRINTED, text.IN_COMMANDS), end="")
    if calls and not options.replace:
        terminal.print_error(
            f"the program called torch.compile {calls} time{'s' * (calls != 1)}: what torch.compile compiles is not "
            "recorded here. `run --replace` runs the program with nbcompile.compile instead."
        )
    return status


def recorded(
    script: Path, arguments: list[str], *, replace: bool = False, steps: bool = False
) -> tuple[Record, int, int]:
    """Run a program; return its record, its exit code, and the number of its calls of torch.compile.

    Raises:
        FileNotFoundError: there is no such program.
    """
    if not script.is_file():
        raise FileNotFoundError(f"there is no file {script}")
    recorder, status, process = api.new_recorder(script.name), 0, os.getpid()
    with _torch_compile(replace) as calls:
        try:
            with api.listening(recorder, threads="all"), config.patch(record_steps=steps):
                main_program.run(str(script), arguments)
        # sys.exit(None) is 0, sys.exit("text") prints the text and is 1.
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
            print(end.code, file=sys.stderr) if isinstance(end.code, str) else None
        except BaseException as error:  # noqa: BLE001 - what was compiled until then is shown all the same
            tracebacks.hide_ours(error.with_traceback(main_program.without_own_frames(error.__traceback__)))
            traceback.print_exception(error)
            status = 130 if isinstance(error, KeyboardInterrupt) else 1
    child_process.leave_if_forked(process, status)  # the record is the parent's
    return recorder.record(), status, len(calls)


@contextmanager
def _torch_compile(replace: bool) -> Iterator[list[None]]:
    """Count the calls of torch.compile in the block, or replace it by ours."""
    install = replace and not replacement.is_installed()
    if install:
        replacement.install()
    original: Any = torch.compile
    calls: list[None] = []

    @functools.wraps(original)
    def compile(*arguments: Any, **keywords: Any) -> Any:  # noqa: A001 - torch's name
        if arguments or "model" in keywords:  # torch.compile(mode=...) returns a decorator, which calls this again
            calls.append(None)
        return original(*arguments, **keywords)

    torch.compile = compile
    try:
        yield calls
    finally:
        torch.compile = original
        if install:
            replacement.uninstall()
