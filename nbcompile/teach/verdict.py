"""Verdict: the outcome of a check as one sentence, for text and for notebooks.

    check(f)      ✗ it is right, but it breaks at line 3, `print(x)`, because ...   (hint() helps)

In torch: nothing. Read next: nbcompile/teach/session.py
"""

from __future__ import annotations

from dataclasses import dataclass

from nbcompile.record.model import Record
from nbcompile.teach.exercise_table import as_html
from nbcompile.views import explanation


@dataclass(frozen=True, slots=True)
class Verdict:
    """Acceptance or rejection of an answer, with the reason; true if accepted."""

    exercise: str
    accepted: bool
    says: str
    record: Record | None = None
    """Record of the answer's compilation, if it was compiled."""

    def __bool__(self) -> bool:
        return self.accepted

    def __str__(self) -> str:
        return f"{'✓' if self.accepted else '✗'} {self.exercise}: {self.says}"

    __repr__ = __str__

    @property
    def explanation(self) -> explanation.Explanation | None:
        """The explanation of the answer's compilation."""
        return None if self.record is None else explanation.Explanation(self.record)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """A line in a frame; the sign and the words have the information of the colour."""
        del include, exclude  # part of IPython's protocol
        color = "#2e7d32" if self.accepted else "#c62828"
        words = "Accepted" if self.accepted else "Not yet"
        framed = (
            f"<div role='status' style='border-left:.35em solid {color};padding:.5em .8em;margin:.3em 0'>"
            f"<strong>{'✓' if self.accepted else '✗'} {words}</strong> <code>{self.exercise}</code><br>"
            f"{as_html(self.says[:1].upper() + self.says[1:])}</div>"
        )
        return {"text/plain": str(self), "text/html": framed}
