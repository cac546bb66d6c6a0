"""Source text with provenance: each line has the fx nodes that it computes.

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
    """Roles as in :class:`KernelLine`; :meth:`line_map` derives what a line without an origin surrounds."""
    depth: int = 0

    def line(self, text: str, origin: Iterable[str] = (), role: str = "computes") -> list[str]:
        """Add one line at the current depth.

        Returns the list of its origins, which may grow: a value is computed once, and used by several nodes.
        """
        nodes = list(origin)
        self.lines.append("  " * self.depth + text if text else "")
        self.origins.append(nodes)
        self.roles.append(role)
        return nodes

    def comment(self, mark: str, text: str) -> None:
        """Add a one-line comment, whatever characters the text has."""
        self.line(f"{mark} {one_line(text)}")

    @contextmanager
    def block(self, header: str, footer: str = "}") -> Iterator[None]:
        """Write a header and a footer, and indent the lines between them."""
        self.line(header)
        self.depth += 1
        yield
        self.depth -= 1
        self.line(footer)

    def here(self) -> int:
        """Current position, for :meth:`insert`."""
        return len(self.lines)

    def insert(self, position: int, other: SourceWriter) -> None:
        """Insert the lines of another writer at a position."""
        self.lines[position:position] = other.lines
        self.origins[position:position] = other.origins
        self.roles[position:position] = other.roles

    def text(self) -> str:
        """Whole text, ending with a newline."""
        return "\n".join(self.lines) + "\n"

    def line_map(self) -> tuple[KernelLine, ...]:
        """Map from each non-empty line (from 1) to its fx nodes, and its role for them."""
        indents = [len(line) - len(line.lstrip()) if line else None for line in self.lines]
        return tuple(self._line(at, indents) for at, indent in enumerate(indents) if indent is not None)

    def _line(self, at: int, indents: list[int | None]) -> KernelLine:
        if self.origins[at] or self.roles[at] == "glue":
            return KernelLine(at + 1, tuple(dict.fromkeys(self.origins[at])), self.roles[at])
        around = _surrounded(at, self.lines, indents)
        inside = tuple(dict.fromkeys(node for neighbour in around for node in self.origins[neighbour]))
        return KernelLine(at + 1, inside, "surrounds" if inside else "glue")


def one_line(text: str) -> str:
    """Text on one line, in printable characters.

    C++ joins a line that ends with a backslash to the next one; Python takes no NUL.
    """
    printable = "".join(character if character.isprintable() else "?" for character in " ".join(text.split()))
    return printable.rstrip("\\ ")


def _surrounded(at: int, lines: list[str], indents: list[int | None]) -> range:
    """Origins of a line without its own come from these lines: those of its block, or else its neighbours."""
    own = indents[at]
    assert own is not None

    def end(step: int, depth: int) -> int:
        line = at + step
        while 0 <= line < len(lines) and ((indent := indents[line]) is None or indent >= depth):
            line += step
        return line

    # The end of a block has the origins of the block, the line that opens one those of what follows in it, and any
    # other line those of its neighbours in the same block.
    #     for (...) {          lines 2 and 3: those of its block
    #       v0 = load(x);      its own
    #       store(y, v0);      its own
    #     }                    lines 2 and 3: those of the block that it ends
    if lines[at].lstrip().startswith("}"):
        return range(end(-1, own + 1) + 1, at)
    after = end(1, own + 1)
    inside = range(at + 1, after)
    return inside if any(indents[line] is not None for line in inside) else range(end(-1, own) + 1, end(1, own))
