"""``ablate``, ``bisect``, ``minify`` and ``report-issue``: which part of a compiler makes a program wrong.

    python -m nbcompile ablate train.py                 with less and less of the compiler: exit code, output, seconds
    python -m nbcompile ablate train.py --engine torch  the same with the real torch.compile
    python -m nbcompile bisect train.py                 the first decision with which the program fails
    python -m nbcompile bisect train.py --engine torch  the backend and subsystem of torch.compile, the same way
    python -m nbcompile minify train.py -o small.py     the smallest graph that is wrong, as a program
    python -m nbcompile minify train.py --source        the smallest part of the program that still fails
    python -m nbcompile report-issue train.py           all of it in one file, to send

A program is wrong if it ends differently from eager mode (exit code, crash, time limit), and with ``--output`` also if
its output differs.

In torch: torch/_inductor/compiler_bisector.py. Read next: nbcompile/tools/diagnose/script.py
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from nbcompile.runtime import store
from nbcompile.support import fuel
from nbcompile.tools import child_process
from nbcompile.tools.commands import terminal
from nbcompile.tools.diagnose import ablate, bisect, graph_reduction, issue, minify, script, script_graphs, source
from nbcompile.tools.diagnose.outcome import FlakyPredicateError
from nbcompile.tools.diagnose.script import EAGER, Run, Script, Way

NUMBERS = re.compile(r"0x[0-9a-f]+|\d+(\.\d+)?")


def add(commands: argparse._SubParsersAction) -> None:
    """Declare the commands and their options."""
    for name, summary, function in (
        ("ablate", "run a program with less and less of the compiler", _ablate),
        ("bisect", "find the decision of the compiler with which a program fails", _bisect),
        ("minify", "find the smallest graph, or program text, that is still wrong", _minify),
        ("report-issue", "write one file with all that is needed to look for a fault", _report_issue),
    ):
        parser = commands.add_parser(name, help=summary, allow_abbrev=False)
        parser.add_argument("script", type=Path, help="the program; its own arguments follow `--`")
        parser.add_argument(
            "--seconds", type=float, default=600.0,
            help="limit of one run (default: %(default)s); a compiled run that takes longer is wrong",
        )  # fmt: skip
        parser.add_argument("--stdin", type=Path, metavar="FILE", help="what the program reads (default: nothing)")
        parser.add_argument("--output", action="store_true", help="other output than in eager mode is wrong, too")
        parser.add_argument("--replace", action="store_true", help="nbcompile.compile instead of torch.compile")
        parser.add_argument("--json", action="store_true", help="print the result as JSON")
        parser.set_defaults(run=function, engine="nbcompile")
        parser.add_argument("--engine", choices=tuple(ablate.ENGINES), help="whose compiler (default: nbcompile)")
        if name == "bisect":
            names = tuple(fuel.SUBSYSTEMS)
            parser.add_argument("--subsystem", choices=names, action="append", help="search only this; may be repeated")
            parser.epilog = "With --engine torch, torch.compile's own subsystems are searched, backend by backend."
        if name in ("minify", "report-issue"):
            parser.add_argument("-o", "--file", type=Path, metavar="FILE", help="write the result there")
        if name == "minify":
            parser.add_argument("--source", action="store_true", help="reduce the text of the program, not a graph")
        if name == "report-issue":
            parser.add_argument("--values", action="store_true", help="include elements of tensors")


def _script(options: argparse.Namespace) -> Script:
    if not options.script.is_file():
        raise FileNotFoundError(f"there is no file {options.script}")
    given = options.stdin.read_bytes() if options.stdin else b""
    return Script(options.script, tuple(options.rest), options.seconds, options.replace, given)


def _run_eagerly(program: Script, *, prints: bool) -> Run:
    """The run with which all others are compared.

    Raises:
        ValueError: it does not end, or its output differs from run to run, so that nothing can be compared with it.
    """
    with terminal.waiting("in eager mode"):
        found = script.run(program, Way(backend=EAGER))
        # Once more, since an output that varies from run to run proves nothing.
        other = prints and not found.ending and script.run(program, Way(backend=EAGER)).output != found.output
    if other:
        raise ValueError(
            f"{program.path} prints something else in each run in eager mode: with --output there is nothing to "
            "compare with"
        )
    if found.code == child_process.HUNG:
        raise ValueError(
            f"{program.path} does not end within {program.seconds:g} seconds in eager mode, either: there is nothing "
            "to compare with (--seconds gives it more time)"
        )
    if found.ending:
        hint = "; --stdin FILE gives it something to read" if found.last_error.startswith("EOFError") else ""
        terminal.print_error(f"in eager mode the program ends with {found.ending}; other endings are wrong{hint}")
    return found


def _difference_from(options: argparse.Namespace, eager: Run) -> Callable[[Run], str]:
    def wrong(found: Run) -> str:
        # Compared with eager mode's ending, not with success: a program that raises by design is
        # right if it raises the same.
        if _without_numbers(found.ending) != _without_numbers(eager.ending):
            return found.ending or f"no failure, and in eager mode {eager.ending}"
        return "other output than in eager mode" if options.output and found.output != eager.output else ""

    return wrong


def _without_numbers(ending: str) -> str:
    """An ending without the parts of its message that vary from run to run: addresses, process ids, times."""
    code, mark, message = ending.partition(": ")
    return code + mark + NUMBERS.sub("#", message)


def _ablate(options: argparse.Namespace) -> int:
    program = _script(options)
    eager = _run_eagerly(program, prints=options.output)
    result = ablation(program, eager, _difference_from(options, eager), options.engine)
    terminal.print_json([dataclasses.asdict(row) for row in result.rows]) if options.json else print(result)
    return 1 if result.first_change else 0


def ablation(program: Script, eager: Run, wrong: Callable[[Run], str], engine: str = "nbcompile") -> ablate.Ablation:
    """Run a program on each rung of the ladder."""
    rows = [ablate.Row("eager", "", eager.seconds)]
    # A store of its own, so that no rung loads kernels that an earlier run has built, except for the
    # rung that tests stored entries.
    with tempfile.TemporaryDirectory() as kernels:
        for rung in terminal.progress(ablate.ENGINES[engine], "ablate"):
            if reason := ablate.without_tools(rung):
                rows.append(ablate.Row(rung.name, "", 0.0, reason, simulated=True))
                continue
            limit = f"{rung.denied}:0:" if rung.denied else ""
            backend = "" if rung.backend == "inductor" else rung.backend
            way = Way(backend, limit, rung.settings, engine, rung.stored, rung.target)
            store_of_its_own = {} if rung.stored else {store.VARIABLE: kernels}

            # The rung's values are defaults: a closure would read those of the last rung.
            def attempt(way: Way = way, variables: dict[str, str] = store_of_its_own) -> tuple[str, float]:
                found = script.run(program, way, **variables)
                return wrong(found) or (ablate.TOO_LONG if found.not_simulated else ""), found.seconds

            rows.append(ablate.confirmed(rung, attempt, rows))
    return ablate.Ablation(tuple(rows), whole_program=True)


def _bisect(options: argparse.Namespace) -> int:
    program = _script(options)
    eager = _run_eagerly(program, prints=options.output)
    found = bisection(program, _difference_from(options, eager), options.engine, options.subsystem or ())
    terminal.print_json(dataclasses.asdict(found)) if options.json else print(found)
    return 1 if found.difference else 0


def bisection(
    program: Script, wrong: Callable[[Run], str], engine: str = "nbcompile", subsystems: Sequence[str] = ()
) -> bisect.Bisection:
    """Run a program repeatedly, each time with other decisions of the compiler.

    Raises:
        ValueError: a subsystem of nbcompile for another engine.
    """
    if subsystems and engine != "nbcompile":
        raise ValueError("--subsystem names a part of nbcompile; --engine torch searches all of torch.compile")
    with terminal.counting("bisect", "runs") as count:

        def counted(found: Run) -> str:
            count()
            return wrong(found)

        if engine == "nbcompile":
            return bisect.search(script.trial(program, counted), subsystems or tuple(fuel.SUBSYSTEMS))
        return bisect.bisect_torch_program(
            lambda backend, folder: counted(script.run(program, Way(backend, engine=engine, bisection=folder)))
        )


def _minify(options: argparse.Namespace) -> int:
    program = _script(options)
    try:
        text, result = (_smallest_source if options.source else _smallest_graph)(program, options)
    except minify.NothingToMinify as error:
        terminal.print_error(error)
        return 0
    if options.file:
        options.file.write_text(text, encoding="utf-8")
        terminal.print_error(options.file)
    if options.json:
        terminal.print_json(result)
    elif not options.file:
        print(text, end="")
    return 1


def _smallest_graph(program: Script, options: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    found = _minified(program, options.engine)
    return found.script, dataclasses.asdict(found)


def _minified(program: Script, engine: str, *, with_values: bool = True) -> script_graphs.MinifiedScript:
    with terminal.waiting("minify"):
        return script_graphs.smallest(program, engine, with_values=with_values)


def _smallest_source(program: Script, options: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """The smallest text that still ends in the same way when compiled, and without an error in eager mode."""
    text = program.path.read_text(encoding="utf-8")
    fails = _failure(program, options)
    trials = 0
    with terminal.waiting("compiled"):
        if not (ending := fails(text)):
            raise minify.NothingToMinify("the program ends as in eager mode: there is nothing to minify")
        _confirm(text, fails, ending, 1)

    def holds(smaller: str) -> bool:
        nonlocal trials
        trials += 1
        count()
        # The same kind of failure: a smaller program easily fails in another way, with a NameError for instance.
        return _kind(fails(smaller)) == _kind(ending)

    with terminal.counting("minify", "programs tried") as count:
        small = source.reduce(text, holds)
    with terminal.waiting("minify: once more"):
        _confirm(small, fails, ending, graph_reduction.CONFIRMATIONS)
    lines = (text.count("\n"), small.count("\n"))
    return small, {"script": small, "lines": lines, "ending": ending, "trials": trials}


def _confirm(text: str, fails: Callable[[str], str], ending: str, times: int) -> None:
    """Raise FlakyPredicateError if a program ends so only sometimes: any cut could pass for a smaller failing one."""
    if any(_kind(fails(text)) != _kind(ending) for _ in range(times)):
        raise FlakyPredicateError(f"the same program ends with {ending} once, and otherwise another time")


def _kind(ending: str) -> str:
    """An ending without its message: exit code and class of the exception."""
    found = re.match(r"exit code \d+(: [\w.]+)?", ending)
    return found[0] if found else ending


def _failure(program: Script, options: argparse.Namespace) -> Callable[[str], str]:
    """Predicate: the ending of a compiled program text, if it differs from eager mode's; "" otherwise."""

    def ending(text: str) -> str:
        # Next to the program, as it may import modules from its own folder.
        path = program.path.with_name(f".{program.path.stem}_smaller.py")
        path.write_text(text, encoding="utf-8")
        try:
            smaller = dataclasses.replace(program, path=path)
            compiled = script.run(smaller, Way(engine=options.engine))
            # A compiled run without an error needs no run in eager mode.
            if not compiled.ending and not options.output:
                return ""
            eager = script.run(smaller, Way(backend=EAGER))
        finally:
            path.unlink(missing_ok=True)
        if eager.ending:
            return ""  # the rest fails in eager mode, too
        return _difference_from(options, eager)(compiled)

    return ending


def _report_issue(options: argparse.Namespace) -> int:
    program = _script(options)
    eager = _run_eagerly(program, prints=options.output)
    wrong = _difference_from(options, eager)
    tried = {
        "ablate": lambda: str(ablation(program, eager, wrong, options.engine)),
        "bisect": lambda: str(bisection(program, wrong, options.engine)),
        "minify": lambda: _minified(program, options.engine, with_values=options.values).script,
    }
    with terminal.waiting("compiled"):
        compiled = script.run(program, Way(engine=options.engine))
    found = issue.write(program, compiled, eager, tried, options.engine, terminal.waiting)
    if options.json:
        terminal.print_json(dataclasses.asdict(found))
        return 0
    path = options.file or Path(f"{program.path.stem}_issue.md")
    path.write_text(issue.text(found), encoding="utf-8")
    print(path)
    return 0
