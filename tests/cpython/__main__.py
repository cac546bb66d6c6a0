"""The command: ``python -m tests.cpython test_list test_dict``."""

from __future__ import annotations

import argparse
import collections
import sys

from nbcompile.tools import child_process
from tests.cpython.runner import Outcome, run

MODULES = """
abc array augassign baseexception binop bisect bool call cmath collections compare complex contains contextlib copy
dataclasses datetime decorators defaultdict deque descr dict dynamicclassattribute enum enumerate except_star
exception_group exception_variations exceptions float fractions fstring functools generators genericclass grammar
graphlib hash heapq index int isinstance iter itertools keywordonlyarg list long math named_expressions opcodes operator
ordered_dict patma positional_only_arg print property queue raise random range reprlib richcmp scope set slice sort
statistics string subclassinit super textwrap tuple types typing unpack_ex userdict userlist userstring weakref with
yield_from
""".split()
"""Modules of CPython's tests that are about the language and its types."""
QUIET = (Outcome.WHOLE, Outcome.FAILS)
SECONDS_A_MODULE = 1200


def main(arguments: list[str]) -> int:
    """Run modules, each in a process of its own; 1 if a test is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.cpython", description=__doc__)
    parser.add_argument(
        "names", nargs="*", help="modules, or one module and names Class.method; all of the list if none"
    )
    parser.add_argument("--breaks", action="store_true", help="print tests that break, too")
    parser.add_argument("--here", action="store_true", help="run one module in this process")
    options = parser.parse_args(arguments)
    if options.here:
        return _run_here(options.names[0], options.names[1:], breaks=options.breaks)
    if len(options.names) > 1 and "." in options.names[1]:
        groups = [options.names]
    else:
        groups = [[name] for name in options.names or [f"test_{name}" for name in MODULES]]
    flags = ["--here", *(["--breaks"] if options.breaks else [])]
    failed = 0
    for group in groups:
        ended = child_process.run([sys.executable, "-m", "tests.cpython", *flags, *group], SECONDS_A_MODULE)
        print(ended.output, end="", flush=True)
        if ended.code not in (0, 1):
            print(f"{group[0]}: ended with {ended.code}\n{ended.errors[-2000:]}")
        failed += ended.code != 0
    return 1 if failed else 0


def _run_here(module: str, only: list[str], *, breaks: bool) -> int:
    counts: collections.Counter[Outcome] = collections.Counter()
    full = module if "." in module else f"test.{module}"
    for test in run(full, only):
        counts[test.outcome] += 1
        if only or (test.outcome not in QUIET and (breaks or test.outcome is not Outcome.BREAKS)):
            print(f"{module} {test.name}: {test.outcome.value}\n  {test.reason[:2000]}", flush=True)
    print(f"{module}: " + ", ".join(f"{count} {outcome.name.lower()}" for outcome, count in counts.items()), flush=True)
    return 1 if counts[Outcome.WRONG] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
