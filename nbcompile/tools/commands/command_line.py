"""The command line: one parser, one table of commands, one meaning of exit codes.

    main(["doctor", "--json"])               the command's exit code
    main(["script.py", "--html", "o.html"])  the same as main(["run", "script.py", ...])

A command is a module with ``add(commands)``, which declares its options, and a function that runs it. The result of
a command goes to standard output, everything else to standard error.

In torch: torchrun (torch/distributed/run.py) runs a program in the same way. Read next:
nbcompile/tools/commands/run.py
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from nbcompile.tools.commands import cache, compare, diagnose, guide, machine, profile, records, run, teach, terminal
from nbcompile.tools.commands.parser import Parser, closest

COMMANDS: tuple[Callable[[argparse._SubParsersAction], None], ...] = (
    run.add,
    records.add,
    compare.add,
    profile.add,
    diagnose.add,
    guide.add,
    machine.add,
    cache.add,
    teach.add,
)
EPILOG = """examples:
  python -m nbcompile run train.py --html out.html     run a program; write what was compiled as one HTML file
  python -m nbcompile run train.py -- --html data      `--` ends our options: the rest is the program's
  python -m nbcompile run --replace train.py           torch.compile means nbcompile.compile in the whole program
  python -m nbcompile open seen.json --show guards     print a part of a record
  python -m nbcompile bisect train.py -- --epochs 1    the decision of the compiler with which a program fails
  python -m nbcompile minify train.py -o small.py      the smallest graph that is wrong, as a program
  python -m nbcompile report-issue train.py            one file with all that is needed to look for a fault
  python -m nbcompile compare train.py -o out.html     nbcompile and torch.compile, side by side
  python -m nbcompile profile train.py --trace t.json  time by source line and kernel, and a trace for Perfetto
  python -m nbcompile teach list                       exercises for a class (check, export, report)
  python -m nbcompile doctor                           what this machine has, and what is missing

exit codes: 0 done; 1 the command found a problem, or the program raised; 2 wrong usage or input; 130 Ctrl-C.
`run` and `report` return the exit code of the program.
"""
WITH_ARGUMENTS = ("ablate", "bisect", "minify", "report-issue", "compare", "profile")
"""Commands that run a program whose arguments follow `--`."""
PASSED_ON = ("tour", "fuzz")
"""Commands with a parser of their own."""


def main(arguments: list[str] | None = None) -> int:
    """Run a command; return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    # Before our parser, which would raise an error for their options.
    if given and given[0] in PASSED_ON:
        return guide.pass_on(given[0], given[1:])
    parser, names = build_parser()
    if given and given[0] not in (*names, "-h", "--help"):
        _expect_program(parser, names, given)
        #     python -m nbcompile train.py    is    python -m nbcompile run train.py
        given = ["run", *given]
    ours, _, programs = _split(given)
    options, rest = parser.parse_known_args(ours)
    #     run train.py --epochs 3         an unknown option after the name is the program's
    #     bisect train.py -- --epochs 3   here `--` is needed
    if options.command in WITH_ARGUMENTS:
        options.rest, programs = programs, []
    if options.command not in run.NAMES and (rest or programs):
        hint = "; the program's own options follow `--`" if options.command in WITH_ARGUMENTS and rest else ""
        parser.error(f"unrecognized arguments: {' '.join(rest + programs)}{hint}")
    if options.command in run.NAMES:
        options.rest = [*run.program_arguments(parser, options, ours, rest), *programs]
    try:
        return int(options.run(options))
    except KeyboardInterrupt:
        # 128 + SIGINT, as a shell reports it.
        return 130
    except (OSError, ValueError, RuntimeError) as error:
        terminal.print_error(error)
        return 2


def _split(given: list[str]) -> tuple[list[str], str, list[str]]:
    # The first one: a second `--` is the program's.
    at = given.index("--") if "--" in given else len(given)
    return given[:at], "--", given[at + 1 :]


def _expect_program(parser: argparse.ArgumentParser, names: tuple[str, ...], given: list[str]) -> None:
    """Report an error for a first word that is neither a command, nor an option, nor a file name."""
    word = given[0]
    if word.startswith("-") or "." in word or "/" in word:
        return
    close = closest(word, (*names, *PASSED_ON))
    parser.error(f"there is no command {word!r}" + (f"; did you mean {close!r}?" if close else ""))


def build_parser() -> tuple[argparse.ArgumentParser, tuple[str, ...]]:
    """The parser of all commands, and their names."""
    parser = Parser(
        prog="python -m nbcompile",
        description="A compiler for PyTorch that shows its work.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    for add in COMMANDS:
        add(commands)
    return parser, tuple(commands.choices)
