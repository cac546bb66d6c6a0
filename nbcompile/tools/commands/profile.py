"""``profile``: run a program and show where its compiled code spends time.

    python -m nbcompile profile train.py                         by source line and by kernel, as text
    python -m nbcompile profile train.py -o out.html --trace trace.json -- --epochs 1

In torch: nothing; torch.profiler is called from the program. Read next: nbcompile/tools/profile.py
"""

from __future__ import annotations

import argparse
from pathlib import Path

from nbcompile.tools import profile as profiles
from nbcompile.tools.commands import run, terminal
from nbcompile.views import profile as views


def add(commands: argparse._SubParsersAction) -> None:
    """Declare the command and its options."""
    parser = commands.add_parser(
        "profile", help="run a program and show where its compiled code spends time", allow_abbrev=False
    )
    parser.add_argument("script", type=Path, help="the program; its own arguments follow `--`")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write one HTML file; without it, print text")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="write a trace for Perfetto")
    parser.add_argument("--json", action="store_true", help="print the profile as JSON")
    parser.add_argument("--replace", action="store_true", help="nbcompile.compile instead of torch.compile")
    parser.set_defaults(run=_profile)


def _profile(options: argparse.Namespace) -> int:
    with profiles.profiling(options.script.name) as profiler:
        _, status, _ = run.recorded(options.script, options.rest, replace=options.replace)
    with terminal.waiting(
        "profile: reading what was measured"
    ):  # no progress while the program runs, since it uses the terminal
        found = profiler.result()
        if options.trace:
            profiler.write_trace(options.trace)
    if options.output:
        options.output.write_text(views.document(found), encoding="utf-8")
    for path in filter(None, (options.output, options.trace)):
        terminal.print_error(path)
    if options.json:
        print(found.to_json())
    elif not options.output:
        print(views.ProfileView(found))
    return status
