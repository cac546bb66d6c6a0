"""One call of one code object, as the frame hook received it.

In torch: torch/_dynamo/types.py (DynamoFrameType). Read next:
nbcompile/capture/trace.py
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import CellType, CodeType

from nbcompile.capture.resolution import Scope


@dataclass(frozen=True, slots=True)
class Frame:
    """Code and values at the call; nothing of it has run yet.

    ``locals`` holds arguments, and free variables by their content.
    """

    code: CodeType
    locals: dict[str, object]
    globals: dict[str, object]
    builtins: dict[str, object]
    closure: tuple[CellType, ...] = ()
    cells: dict[str, CellType] = field(default_factory=dict)
    """The cell behind each free variable, by name."""
    handled: BaseException | None = None
    """The exception that a caller is handling: ``sys.exception()`` at the call."""

    def scope(self) -> Scope:
        """The scope in which the sources of this frame are resolved."""
        return Scope(self.code, self.locals, self.globals, self.builtins)
