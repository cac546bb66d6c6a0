"""``compare``: a program through nbcompile and through the real torch.compile.

    python -m nbcompile compare train.py -o out.html         what differs first, then both side by side
    python -m nbcompile compare train.py --json -- --epochs 1

``nbcompile.compile`` and ``torch.compile`` both mean nbcompile in one process, and torch.compile in another.

In torch: nothing. Read next: nbcompile/tools/compare/__init__.py
"""

from __future__ import annotations

import argparse
from pathlib import Path

from nbcompile.tools import compare
from nbcompile.tools.commands import terminal
from nbcompile.views import comparison


def add(commands: argparse._SubParsersAction) -> None:
    """Declare the command and its options."""
    parser = commands.add_parser(
        "compare", help="run a program with nbcompile and with torch.compile", allow_abbrev=False
    )
    parser.add_argument("script", type=Path, help="the program; its own arguments follow `--`")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write one HTML file; without it, print text")
    parser.add_argument("--json", action="store_true", help="print the comparison as JSON")
    parser.add_argument("--seconds", type=float, default=compare.SECONDS, help="time limit (default: %(default)s)")
    parser.add_argument("--stdin", type=Path, metavar="FILE", help="what the program reads (default: nothing)")
    parser.set_defaults(run=_compare)


def _compare(options: argparse.Namespace) -> int:
    given = options.stdin.read_bytes() if options.stdin else b""
    with terminal.waiting("compare"):
        found = compare.compare_script(options.script, options.rest, options.seconds, given)
    if options.output:
        options.output.write_text(comparison.document(found), encoding="utf-8")
        terminal.print_error(options.output)
    if options.json:
        print(found.to_json())
    elif not options.output:
        print(comparison.ComparisonView(found))
    # Known differences do not change the exit code.
    return 1 if any(not difference.known for difference in found.differences) else 0
