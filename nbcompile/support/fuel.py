"""Limits on what the compiler may do, decision by decision: how ``nbcompile.bisect`` finds the one that is wrong.

    with fuel.limited("fusion", 3) as log:      the first three fusions happen, all later ones are left out
        f(x)
    log                                         ["buf0, buf1", "buf1, buf2", "buf3, buf4", "buf3, buf5"]

A decision is something that may be left out without another result: a frame runs as Python, a graph or an operator
through ATen, a pass does not run, two buffers are not fused. With the first n decisions allowed, they are the same in
every run, so that the smallest n with a wrong result names the wrong decision. Without a limit, asking costs one look
at a variable.

In torch: torch/_inductor/compiler_bisector.py (CompilerBisector). Read next: nbcompile/tools/diagnose/bisect.py
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from nbcompile.support.process_state import STATE, Lifetime

SUBSYSTEMS = {
    "frame": "a frame is compiled, and does not run as Python",
    "graph": "code is generated for a graph, which else runs through ATen",
    "pass": "a pass rewrites a graph or a program",
    "fusion": "two buffers share a loop nest",
    "lowering": "an operator is part of the loops, and not a call of ATen",
}
"""The kinds of decisions that can be limited, from coarse to fine."""


@dataclass(slots=True)
class Limit:
    """A limit on the decisions of a subsystem; all are logged."""

    subsystem: str
    allowed: int
    log: list[str] = field(default_factory=list)
    file: str = ""
    """Each decision is written to it at once: the process may crash at the next one."""

    def note(self, decision: str) -> None:
        """Log a decision."""
        self.log.append(decision)
        if self.file:
            with Path(self.file).open("a", encoding="utf-8") as file:
                file.write(decision.replace("\n", " ") + "\n")


_limits: list[Limit] = STATE.add("support.fuel._limits", [], Lifetime.PROCESS)
"""The active limits. They are the process's: background threads compile, too."""
VARIABLE = "NBCOMPILE_FUEL"
"""``fusion:3:/tmp/log``: a limit for a whole process, whose decisions are written to a file one by one."""


def allows(subsystem: str, decision: str) -> bool:
    """True if a decision may be taken; it is counted."""
    if not _limits:
        return True
    allowed = True
    for limit in _limits:
        if limit.subsystem == subsystem:
            # Every limit logs it, also if another one denies it: the numbers of later decisions must not change.
            limit.note(decision)
            allowed = allowed and len(limit.log) <= limit.allowed
    return allowed


@contextmanager
def limited(subsystem: str, allowed: int, file: str = "") -> Iterator[list[str]]:
    """Allow only the first decisions of a subsystem inside of the block; yield the log of all requests."""
    limit = Limit(subsystem, allowed, file=file)
    try:
        _limits.append(limit)
        yield limit.log
    finally:
        # This one, and none that is equal to it. Ctrl-C may come after any call: it may not be there.
        _limits[:] = [other for other in _limits if other is not limit]


def limit_process(text: str) -> None:
    """Limit this process from here on, as ``NBCOMPILE_FUEL`` says.

    Raises:
        ValueError: it has another form.
    """
    subsystem, _, rest = text.partition(":")
    allowed, _, file = rest.partition(":")
    if subsystem not in SUBSYSTEMS or not allowed.isdigit():
        raise ValueError(f"{VARIABLE}={text!r} has not the form SUBSYSTEM:NUMBER:FILE, with {', '.join(SUBSYSTEMS)}")
    _limits.append(Limit(subsystem, int(allowed), file=file))
