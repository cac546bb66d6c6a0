"""Warnings of operators: each is shown once for each compile, at the user's line.

    loss = F.mse_loss(x, y)       cell.py:3: UserWarning: Using a target size (torch.Size([3])) that is different ...

Tracing runs an operator on fake tensors, the next stage runs it again, and a frame whose trace is abandoned runs in
Python, which warns by itself. So tracing collects warnings, shows them when a graph is finished, and stores them with
the graph: the next stage does not repeat them, and a process that loads the compiled graph from disk shows them again.

In torch: nothing; there each stage warns. Read next: nbcompile/tracing/graph/output_graph.py
"""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import torch.fx

from nbcompile.record.model import StackLine

SHOWN = "nbc_warnings_shown"
"""The key in a graph module's ``meta``: a tuple of the warnings that tracing has shown."""


@dataclass(frozen=True, slots=True)
class OperatorWarning:
    """A warning that passed the program's filters."""

    message: Warning
    category: type[Warning]
    file: str
    line: int

    def show(self) -> None:
        """Print it, or pass it to the handler that records warnings."""
        warnings.showwarning(self.message, self.category, self.file, self.line)


@contextlib.contextmanager
def collected(found: list[OperatorWarning], caller: str, stack: tuple[StackLine, ...]) -> Iterator[None]:
    """Collect the warnings of an operator, also of one that fails; a warning that a filter turns into an exception is
    raised.

    Args:
        found: is extended by them.
        caller: the file that calls the operator. A warning that names it is about the user's line.
        stack: the user's lines that led to the operator.
    """
    with warnings.catch_warnings(record=True) as raised:
        try:
            yield
        finally:
            found += [_at_users_line(warning, caller, stack) for warning in raised]


def _at_users_line(warning: warnings.WarningMessage, caller: str, stack: tuple[StackLine, ...]) -> OperatorWarning:
    at = stack[-1] if stack and warning.filename == caller else None
    file, line = (at.file, at.line) if at is not None else (warning.filename, warning.lineno)
    message = warning.message if isinstance(warning.message, Warning) else warning.category(warning.message)
    return OperatorWarning(message, warning.category, file, line)


def show(found: list[OperatorWarning], module: torch.fx.GraphModule) -> None:
    """Show the warnings of a finished graph, each once, and note at the graph that they were shown."""
    distinct = {(str(each.message), each.category, each.file, each.line): each for each in found}
    for warning in distinct.values():
        warning.show()
    if distinct:
        module.meta[SHOWN] = tuple(distinct.values())


def of_graph(module: torch.fx.GraphModule) -> tuple[OperatorWarning, ...]:
    """List the warnings that tracing has shown of a graph."""
    found: tuple[OperatorWarning, ...] = module.meta.get(SHOWN, ())
    return found


@contextlib.contextmanager
def shown_before(module: torch.fx.GraphModule) -> Iterator[None]:
    """Ignore the warnings that tracing has shown, while the operators of the graph are run again."""
    known = of_graph(module)
    if not known:
        yield
        return
    with warnings.catch_warnings():
        for warning in known:
            warnings.filterwarnings("ignore", rf"{re.escape(str(warning.message))}\Z", warning.category)
        yield
