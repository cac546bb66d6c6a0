"""The command: ``python -m nbcompile.tools.fuzz``.

    python -m nbcompile.tools.fuzz --seconds 600 --seed 1
    python -m nbcompile.tools.fuzz --kind python,guards --jobs 2 --out build/fuzz

In torch: nothing. Read next: nbcompile/tools/fuzz/campaign.py
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from pathlib import Path

from nbcompile.tools.fuzz import campaign, oracle, units
from nbcompile.tools.fuzz.program import KINDS, Program

EXAMPLES = """examples:
  python -m nbcompile.tools.fuzz --seconds 600 --seed 1            all kinds, ten minutes; continues a former run
  python -m nbcompile.tools.fuzz --kind python,guards --jobs 2     two kinds, two processes
  python -m nbcompile.tools.fuzz --replay build/fuzz/causes/1_0000.py    run one program, and print what differs
  python -m nbcompile.tools.fuzz --peer build/fuzz/causes/1_0000.py      the same with torch.compile
  python -m nbcompile.tools.fuzz --seed 1 --unit python/17               one unit, in this process

The exit status is 1 if a cause was found that no earlier run into the same folder had found, 2 for a wrong option.
"""


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return 0 if nothing new was found."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.replay or options.peer:
        return _one(parser, options)
    if options.unit:
        return _unit(parser, options)
    kinds = tuple(options.kind.split(","))
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        parser.error(f"no kind of program is called {', '.join(map(repr, unknown))}; the kinds are {','.join(KINDS)}")
    if options.seconds <= 0 or options.jobs < 1:
        parser.error("--seconds has to be more than 0, and --jobs at least 1")
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        plan = campaign.Plan(options.seconds, options.seed, kinds, options.jobs, options.out, not options.no_peer)
        with contextlib.redirect_stdout(sys.stderr if options.json else sys.stdout):
            new = campaign.run(plan)
        if options.json:
            state = json.loads((plan.folder / f"state-{plan.seed}.json").read_text(encoding="utf-8"))
            print(json.dumps({"new_causes": new, **state}))
        return 1 if new else 0
    except OSError as error:
        parser.error(f"--out {options.out}: {error}")


def _one(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    path = options.replay or options.peer
    try:
        program = Program.read(path)
    except (OSError, ValueError, KeyError) as error:
        parser.error(str(error))
    if options.peer:
        print(units.peer_result(path))
        return 0
    outcome = oracle.examine(program)
    print(outcome.eager_error or outcome.difference or "as in eager")
    return 1 if outcome.difference else 0


def _unit(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    kind, _, number = options.unit.partition("/")
    if kind not in KINDS or not number.isdigit():
        parser.error("a unit is written KIND/NUMBER: python/17")
    seen = units.play_unit(kind, options.seed, int(number))
    print("\n\n".join(found["text"] for found in seen.pop("found")))
    print(json.dumps(seen))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m nbcompile.tools.fuzz",
        description="Random programs, run eagerly and compiled: what differs is reduced and kept.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=float, default=600.0, help="seconds to run (default 600)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the generated programs (default 1)")
    parser.add_argument(
        "--kind",
        default=",".join(KINDS),
        help=f"kinds of programs, separated by commas: {','.join(KINDS)} (default all)",
    )
    parser.add_argument("--jobs", type=int, default=1, help="number of processes (default 1)")
    parser.add_argument(
        "--out", type=Path, default=Path("build/fuzz"), help="folder for the causes that are found (default build/fuzz)"
    )
    parser.add_argument("--no-peer", action="store_true", help="do not run the causes with torch.compile")
    parser.add_argument("--json", action="store_true", help="print the counts as JSON; causes go to stderr")
    parser.add_argument("--replay", metavar="FILE", help="run one program")
    parser.add_argument("--peer", metavar="FILE", help="run one program with torch.compile")
    parser.add_argument("--unit", metavar="KIND/NUMBER", help="run one unit in this process")
    return parser


if __name__ == "__main__":
    sys.exit(main())
