"""Source text whose lines remember what they came from.

    writer = SourceWriter()
    with writer.block("for (i64 i0 = 0; i0 < 8; i0++) {"):       surrounds add
        writer.line("store(out0 + i0, lanes, x);", ("add",))     computes add
    writer.line("return 0;", role="glue")
    writer.line_map()              (KernelLine(1, ("add",), "surrounds"), KernelLine(2, ("add",)), ...)

In torch: torch/_inductor/codegen/common.py and torch/_inductor/utils.py (IndentedBuffer). Read next:
nbcompile/codegen/printers.py
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from nbcompile.record.model import KernelLine


@dataclass(slots=True)
class SourceWriter:
    """Lines, their indentation and the fx nodes that each computes."""

    lines: list[str] = field(default_factory=list)
    origins: list[list[str]] = field(default_factory=list)
    roles: list[str] = field(default_factory=list)
    """As in :class:`KernelLine`; where a line has no origin, :meth:`line_map` finds out what it surrounds."""
    depth: int = 0

    def line(self, text: str, origin: Iterable[str] = (), role: str = "computes") -> list[str]:
        """Add one line at the present depth.

        Answers the list of its origins. It may grow: a value is computed once, and used by several nodes.
        """
        nodes = list(origin)
        self.lines.append("  " * self.depth + text if text else "")
        self.origins.append(nodes)
        self.roles.append(role)
        return nodes

    def comment(self, mark: str, text: str) -> None:
        """Add a comment of one line, which nothing in the text can end."""
        self.line(f"{mark} {one_line(text)}")

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
        self.roles[place:place] = other.roles

    def text(self) -> str:
        """Everything, ending with a newline."""
        return "\n".join(self.lines) + "\n"

    def line_map(self) -> tuple[KernelLine, ...]:
        """What each line (from 1) that is not empty has to do with which nodes."""
        indents = [len(line) - len(line.lstrip()) if line else None for line in self.lines]
        return tuple(self._line(at, indents) for at, indent in enumerate(indents) if indent is not None)

    def _line(self, at: int, indents: list[int | None]) -> KernelLine:
        if self.origins[at] or self.roles[at] == "glue":
            return KernelLine(at + 1, tuple(dict.fromkeys(self.origins[at])), self.roles[at])
        around = _surrounded(at, self.lines, indents)
        inside = tuple(dict.fromkeys(node for each in around for node in self.origins[each]))
        return KernelLine(at + 1, inside, "surrounds" if inside else "glue")


def one_line(text: str) -> str:
    """A text without ends of lines, in characters that can be printed.

    C++ joins a line that ends with a backslash to the next one; Python takes no NUL.
    """
    printable = "".join(each if each.isprintable() else "?" for each in " ".join(text.split()))
    return printable.rstrip("\\ ")


def _surrounded(at: int, lines: list[str], indents: list[int | None]) -> range:
    """The lines that one without work of its own is there for: those inside it, else those that it stands among."""
    own = indents[at]
    assert own is not None

    def end(step: int, depth: int) -> int:
        place = at + step
        while 0 <= place < len(lines) and ((indent := indents[place]) is None or indent >= depth):
            place += step
        return place

    if lines[at].lstrip().startswith("}"):
        return range(end(-1, own + 1) + 1, at)
    after = end(1, own + 1)
    inside = range(at + 1, after)
    return inside if any(indents[each] is not None for each in inside) else range(end(-1, own) + 1, end(1, own))
