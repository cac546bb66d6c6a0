"""Session magics: settings, the session's report, reset.

    %compile_config                          settings that differ from their defaults
    %compile_config recompile_limit the value of one
    %compile_config recompile_limit=16       set one from now on
    %compile_report out.html                 all compilations of the notebook's cells, as one file
    %compile_explain NB0007                  a kind of graph break: an example, and the remedy
    %compile_open /tmp/trace                 a TORCH_TRACE of torch.compile, or a record, from elsewhere
    %compile_reset                           as if nothing had been compiled

The record of a cell that is run again replaces its earlier record.

In torch: nothing; torch._dynamo.reset, torch._dynamo.config. Read next: nbcompile/views/report.py
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_magic, magics_class
from IPython.display import display

from nbcompile import api, config, torch_internals
from nbcompile.record.model import Record
from nbcompile.support import log_names
from nbcompile.tools import explain, settings
from nbcompile.tools.commands import records
from nbcompile.views import report
from nbcompile.views.explanation import Explanation

MOST_CELLS = 100
"""Number of cells whose records are available to ``%compile_report``: the last ones."""


@magics_class
class SessionMagics(Magics):
    """``%compile_config``, ``%compile_open``, ``%compile_report``, ``%compile_explain`` and ``%compile_reset``."""

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self._cells: dict[str, tuple[str, Record]] = {}

    def keep(self, cell: str, title: str, record: Record) -> None:
        """Keep the record of a cell; for equal texts only the last one."""
        # Removed first: a cell that ran again moves to the end, so that the order is that of the session.
        self._cells.pop(cell, None)
        self._cells[cell] = (title, record)
        while len(self._cells) > MOST_CELLS:
            del self._cells[next(iter(self._cells))]

    @line_magic
    def compile_config(self, line: str) -> object:
        """Show or change a setting of the compiler: ``%compile_config recompile_limit=16``.

        Without a name, the settings that differ from their defaults; ``%compile_config --all`` shows all.
        ``%compile_config log=graph_code,guards`` switches logs on, by the names of TORCH_LOGS; ``log=``: all off.
        ``%compile_config log=help`` lists the names.
        """
        name, assigns, text = (each.strip() for each in line.partition("="))
        if not name or name == "--all":
            return _settings(every=bool(name))
        try:
            if name == "log" and assigns:
                _choose_logs(text.strip("'\""))
                return None
            if assigns:
                setattr(config, name, _value(text))
                return None
            return getattr(config, name)
        except (AttributeError, ValueError) as error:
            raise UsageError(str(error)) from None

    @line_magic
    def compile_open(self, line: str) -> object:
        """Show a record or a TORCH_TRACE of torch.compile that was written elsewhere: ``%compile_open trace.log``."""
        if not line.strip():
            raise UsageError("%compile_open expects a record or a trace, as in: %compile_open trace.log")
        try:
            opened = records.read(Path(line.strip().strip("'\"")))
        except (OSError, ValueError) as error:
            raise UsageError(str(error)) from None
        for sentence in (*opened.notes, *records.compare_ranks(opened.records)):
            print(f"nbcompile: {sentence}")  # noqa: T201
        shown = [Explanation(record) for record in opened.records.values()]
        return shown[0] if len(shown) == 1 else display(*shown)

    @line_magic
    def compile_report(self, line: str) -> None:
        """Write what the cells of this session compiled to one self-contained HTML file."""
        path = Path(line.strip().strip("'\""))
        if not line.strip():
            raise UsageError("%compile_report expects a file, as in: %compile_report out.html")
        if not self._cells:
            raise UsageError("there is nothing to report yet: no %%compile cell was run")
        shown = [report.Section(title, record, code=cell) for cell, (title, record) in self._cells.items()]
        try:
            path.write_text(report.page("nbcompile", shown), encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}") from None
        print(f"nbcompile: {path}")  # noqa: T201

    @line_magic
    def compile_explain(self, line: str) -> None:
        """Show what a kind of graph break is, with an example and what to do: ``%compile_explain NB0007``."""
        if not line.strip():
            raise UsageError("%compile_explain expects a kind of graph break, as in: %compile_explain NB0007")
        try:
            parts = explain.page(line)
        except ValueError as error:
            raise UsageError(str(error)) from None
        display({"text/markdown": explain.as_markdown(parts), "text/plain": explain.as_text(parts)}, raw=True)

    @line_magic
    def compile_reset(self, line: str) -> None:
        """Forget all compiled code, the observed sizes of functions, and the records of earlier cells."""
        if line.strip():
            raise UsageError("%compile_reset takes no arguments")
        api.reset()
        self._cells.clear()


def _choose_logs(names: str) -> None:
    if names == "help":
        print(log_names.help_text())  # noqa: T201 - asked for
    else:
        torch_internals.choose_logs(names)


def _settings(*, every: bool) -> settings.Listing:
    return settings.Listing(
        {name: value for name, value in config.current().items() if every or value != config.DEFAULTS[name]}
    )


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        raise UsageError(f"expected a Python constant (16, True, 'warn'), got {text!r}") from None


def complete_setting(shell: InteractiveShell, event: Any) -> list[str]:
    """Names of settings, for the completer of ``%compile_config``."""
    return [name for name in config.DEFAULTS if name.startswith(event.symbol)]


def complete_kind(shell: InteractiveShell, event: Any) -> list[str]:
    """Kinds of graph breaks, for the completer of ``%compile_explain``."""
    return [kind.id for kind in explain.kinds() if kind.id.startswith(event.symbol.upper())]


COMPLETERS: dict[str, Callable[[InteractiveShell, Any], list[str]]] = {
    "%compile_config": complete_setting,
    "%compile_explain": complete_kind,
}
