"""Source text whose lines remember what they came from.

    writer = SourceWriter()
    with writer.block("for (i64 i0 = 0; i0 < 8; i0++) {"):
        writer.line("store(out0 + i0, lanes, x);", origin=("add",))
    writer.line_map()                                 (KernelLine(2, ("add",)),)

In torch: torch/_inductor/codegen/common.py and torch/_inductor/utils.py (IndentedBuffer). Read next:
nbcompile/codegen/printers.py
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from nbcompile.record.model import KernelLine


@dataclass(slots=True)
class SourceWriter:
    """Lines, their indentation and the fx nodes that each computes."""

    lines: list[str] = field(default_factory=list)
    origins: list[tuple[str, ...]] = field(default_factory=list)
    depth: int = 0

    def line(self, text: str, origin: tuple[str, ...] = ()) -> None:
        """Add one line at the present depth."""
        self.lines.append("  " * self.depth + text if text else "")
        self.origins.append(origin)

    @contextmanager
    def block(self, header: str, footer: str = "}") -> Iterator[None]:
        """Indent what is written inside."""
        self.line(header)
        self.depth += 1
        yield
        self.depth -= 1
        self.line(footer)

    def here(self) -> int:
        """A place to which :meth:`insert` can come back."""
        return len(self.lines)

    def insert(self, place: int, other: SourceWriter) -> None:
        """Put the lines of another writer at a place."""
        self.lines[place:place] = other.lines
        self.origins[place:place] = other.origins

    def text(self) -> str:
        """Everything, ending with a newline."""
        return "\n".join(self.lines) + "\n"

    def line_map(self) -> tuple[KernelLine, ...]:
        """Which lines (from 1) compute which nodes."""
        return tuple(KernelLine(number, nodes) for number, nodes in enumerate(self.origins, 1) if nodes)
