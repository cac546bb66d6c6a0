"""Views as widgets: for hosts that show widgets but run no scripts of outputs; and what-if queries with values of the
kernel.

    View(explained)                  any view, live in marimo as in a notebook

    live = LiveWhatIf(f)             the form, as in the picture, in any host of anywidget
    live.find_entry(x, torch.ones(7))      evaluates the real guards and runs nothing; the form shows the same call

The page is that of the static views, with the same script as a module; a call travels as the readings of its guards.
Needs ``pip install nbcompile[widget]``; everything else works without it.

In torch: nothing. Read next: nbcompile/views/live.py, nbcompile/recording/guard_explorer.py,
nbcompile/views/static/widget.js
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import MethodType

import anywidget
import traitlets

from nbcompile.dispatch import cache
from nbcompile.record import trees
from nbcompile.record.model import Record
from nbcompile.recording import guard_explorer as readings
from nbcompile.recording.call_scope import scope_of
from nbcompile.support import wrappers
from nbcompile.views import assets, html, what_if
from nbcompile.views.live import View

__all__ = ["LiveWhatIf", "View"]


class LiveWhatIf(anywidget.AnyWidget):
    """The form for one compiled function.

    Args:
        record: the record of its compilation (``%%compile -o seen``: ``seen.record``).
        function: the function itself, or what ``nbcompile.compile`` returned.

    Raises:
        ValueError: the record has no guards of this function.
    """

    _esm = assets.module("trees", "what_if")
    _css = assets.style_text("what_if")
    page = traitlets.Unicode().tag(sync=True)
    """The static view."""
    call = traitlets.Dict(allow_none=True, default_value=None).tag(sync=True)
    """Queried call: the index of each guarded value, and its value as a tree."""
    result = traitlets.Unicode().tag(sync=True)
    """Result of the real guards."""

    def __init__(self, record: Record, function: Callable[..., object]) -> None:
        whole = wrappers.innermost(function)
        self._function = whole if isinstance(whole, MethodType) else inspect.unwrap(whole)
        self._code = self._function.__code__
        number = {each.id: each for each in record.frames}
        mine = [each.compile_id for each in cache.entries(self._code) if each.compile_id in number]
        groups = [group for group in what_if.compiled_calls(record) if {*mine} & {each.id for each in group}]
        if not groups:
            raise ValueError(
                f"the record has no guards of {getattr(function, '__name__', function)!r}: compile it first"
            )
        self._query = what_if.Query(groups[0])
        shown = Record(record.function, record.environment, groups[0])
        super().__init__(page=html.render(shown, "what_if", assets=False))

    def find_entry(self, *arguments: object, **keywords: object) -> str | None:
        """Cache entry that this call would hit, by the real guards; None: it would be compiled.

        The form shows the call, too. Nothing is called and nothing compiled.
        """
        scope = scope_of(self._code, self._function, arguments, keywords)
        entries = {each.compile_id: each.check for each in cache.entries(self._code)}
        newest = [each.id for each in reversed(self._query.frames) if each.id in entries]
        hit = next((each for each in newest if entries[each].holds(scope)), None)
        values = readings.readings_of(self._code).take(scope)
        names = self._query.names
        self.result = (
            f"The kernel's own guards: {hit} accepts." if hit else "The kernel's own guards: no entry accepts."
        )
        self.call = {str(names.index(name)): trees.constant(value) for name, value in values.items() if name in names}
        return hit
