"""``doctor`` and ``logs``: what this machine has for nbcompile, and which logs there are.

    python -m nbcompile doctor             ✓ and ✗, one line each; exit code 1 if something needed is missing
    python -m nbcompile doctor --json      the same as data
    python -m nbcompile logs               the names of TORCH_LOGS, with what nbcompile prints for each

In torch: torch/utils/collect_env.py. Read next: nbcompile/tools/doctor.py
"""

from __future__ import annotations

import argparse
import dataclasses

from nbcompile.support import log_names
from nbcompile.tools.commands import terminal
from nbcompile.tools.doctor import Check, examine


def add(commands: argparse._SubParsersAction) -> None:
    """Declare both commands and their options."""
    parser = commands.add_parser("doctor", help="check this machine: what it has, what is missing", allow_abbrev=False)
    parser.add_argument("--json", action="store_true", help="print the checks as JSON")
    parser.set_defaults(run=_doctor)
    parser = commands.add_parser("logs", help="the names of TORCH_LOGS: what is printed for each", allow_abbrev=False)
    parser.add_argument("--json", action="store_true", help="print the names as JSON")
    parser.set_defaults(run=_logs)


def _logs(options: argparse.Namespace) -> int:
    if options.json:
        printed = {**log_names.PRINTED, **log_names.LIVE}
        terminal.print_json({"printed": printed, "by_torch": log_names.BY_TORCH, "not_here": log_names.NOT_HERE})
    else:
        print(log_names.help_text(), end="")
    return 0


def _doctor(options: argparse.Namespace) -> int:
    with terminal.waiting("doctor"):
        checks = examine()
    if options.json:
        terminal.print_json([dataclasses.asdict(check) for check in checks])
    else:
        _print(checks)
    return 0 if all(check.there or not check.needed for check in checks) else 1


def _print(checks: tuple[Check, ...]) -> None:
    width = max(len(check.what) for check in checks)
    for check in checks:
        mark = terminal.paint("✓", "green") if check.there else terminal.paint("✗", "red")
        print(f"{mark} {check.what:{width}}  {check.words}")
