"""``ablate`` and ``bisect``: which part of the compiler makes a program wrong.

    python -m nbcompile ablate train.py                 with less and less of the compiler: exit code, output, seconds
    python -m nbcompile bisect train.py                 the first decision with which the program fails

A program is wrong if it ends otherwise than in eager mode: exit code, crash, no end in time; with ``--output``, also if
it prints something else.

In torch: torch/_inductor/compiler_bisector.py. Read next: nbcompile/tools/diagnose/script.py
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable
from pathlib import Path

from nbcompile import fuel
from nbcompile.tools.commands import terminal
from nbcompile.tools.diagnose import ablate, bisect, script
from nbcompile.tools.diagnose.script import EAGER, Run, Script, Way


def add(commands: argparse._SubParsersAction) -> None:
    """Describe the commands."""
    for name, summary, function in (
        ("ablate", "run a program with less and less of the compiler", _ablate),
        ("bisect", "find the decision of the compiler with which a program fails", _bisect),
    ):
        parser = commands.add_parser(name, help=summary, allow_abbrev=False)
        parser.add_argument("script", type=Path, help="the program; its own arguments follow `--`")
        parser.add_argument("--seconds", type=float, default=600.0, help="limit of one run (default: %(default)s)")
        parser.add_argument("--output", action="store_true", help="other output than in eager mode is wrong, too")
        parser.add_argument("--replace", action="store_true", help="nbcompile.compile in the place of torch.compile")
        parser.add_argument("--json", action="store_true", help="print the result as JSON")
        parser.set_defaults(run=function)
        if name == "bisect":
            names = tuple(fuel.SUBSYSTEMS)
            parser.add_argument("--subsystem", choices=names, action="append", help="search only this; may be repeated")


def _script(options: argparse.Namespace) -> Script:
    if not options.script.is_file():
        raise FileNotFoundError(f"there is no file {options.script}")
    return Script(options.script, tuple(options.rest), options.seconds, options.replace)


def _judge(options: argparse.Namespace, eager: Run) -> Callable[[Run], str]:
    def wrong(found: Run) -> str:
        if found.ending != eager.ending:
            return found.ending or f"no failure, and in eager mode {eager.ending}"
        return "other output than in eager mode" if options.output and found.output != eager.output else ""

    return wrong


def _ablate(options: argparse.Namespace) -> int:
    program = _script(options)
    eager = script.run(program, Way(backend=EAGER))
    wrong = _judge(options, eager)
    rows = [ablate.Row("eager", "", eager.seconds)]
    for rung in terminal.progress(ablate.OURS, "ablate"):
        limit = f"{rung.denied}:0:" if rung.denied else ""
        backend = "" if rung.backend == "inductor" else rung.backend
        found = script.run(program, Way(backend, limit, rung.settings))
        rows.append(ablate.Row(rung.name, wrong(found), found.seconds))
    result = ablate.Ablation(tuple(rows))
    terminal.print_json([dataclasses.asdict(row) for row in rows]) if options.json else print(result)
    return 1 if result.first_change else 0


def _bisect(options: argparse.Namespace) -> int:
    program = _script(options)
    eager = script.run(program, Way(backend=EAGER))
    trial = script.trial(program, _judge(options, eager))
    found = bisect.search(trial, options.subsystem or tuple(fuel.SUBSYSTEMS))
    terminal.print_json(dataclasses.asdict(found)) if options.json else print(found)
    return 1 if found.difference else 0
