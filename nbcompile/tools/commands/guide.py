"""``explain``, ``tour`` and ``fuzz``: commands that call a tool with a parser of its own.

    python -m nbcompile explain NB0007       a kind of graph break: an example, and what to do
    python -m nbcompile tour                 execute the tour, and write it as tour.html
    python -m nbcompile fuzz --seconds 60    compare random programs with eager mode

In torch: nothing. Read next: nbcompile/tools/explain.py, nbcompile/tools/tour.py, nbcompile/tools/fuzz/__main__.py
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib

from nbcompile.tools import explain
from nbcompile.tools.commands import terminal

MODULES = {
    "tour": ("nbcompile.tools.tour", "notebook"),
    "fuzz": ("nbcompile.tools.fuzz.__main__", "dev"),
}
"""The module that implements a command, and the extra that installs its dependencies."""


def add(commands: argparse._SubParsersAction) -> None:
    """Declare the commands; those with a parser of their own are only listed."""
    kind = commands.add_parser("explain", help="show a kind of graph break, and what to do about it")
    kind.add_argument("kind", help="its id, which messages and pictures show: NB0007")
    kind.add_argument("--json", action="store_true", help="print the parts of the page as JSON")
    kind.set_defaults(run=_explain)
    commands.add_parser("tour", help="execute the tour and write it as one HTML file (`tour --help`)")
    commands.add_parser("fuzz", help="compare random programs with eager mode (`fuzz --help`)")


def _explain(options: argparse.Namespace) -> int:
    page = explain.page(options.kind)
    if options.json:
        terminal.print_json([dataclasses.asdict(part) for part in page])
    else:
        print(explain.as_text(page), end="")
    return 0


def pass_on(command: str, arguments: list[str]) -> int:
    """Pass the arguments to the command's own parser; return its exit code."""
    name, extra = MODULES[command]
    try:
        # Imported on use: these tools need packages that may be missing.
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        terminal.print_error(f'the {command} needs {error.name}: pip install "nbcompile[{extra}]"')
        return 2
    return int(module.main(arguments))
