"""Reasons why a cell compiled nothing: a sentence for each situation.

    %compile f                         `f` is compiled from now on, when it is called.
    @torch.compile                     `f` is compiled by torch.compile, which nbcompile leaves alone: ...
    def f(x): ...
    def g(x): yield x                  `g` is a generator function, ...
    def h(x): ...                      `h` was not called in this cell: it is compiled when it is.
    h(x), in a later cell              Nothing new was compiled: `h` ran code that was compiled before.

Calls are taken from the record, and functions that were not compiled from the names that the cell's tree wrapped.

In torch: nothing. Read next: nbcompile/jupyter/wrapping.py
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nbcompile import config, stance
from nbcompile.jupyter.wrapping import WrappedFunction
from nbcompile.record.model import Record
from nbcompile.views import cell_summary


def why(record: Record, wrapped: Sequence[WrappedFunction], *, names_only: bool) -> str:
    """Sentences about a cell (or, with ``names_only``, about ``%compile f``) that compiled nothing."""
    return " ".join(dict.fromkeys(_sentences(record, wrapped, names_only=names_only))) or NOTHING_DEFINED


NOTHING_DEFINED = (
    "Nothing was compiled: the cell neither defines nor calls a function or a module that is compiled. "
    "Move the definition into the cell, or write %compile before a call: %compile f(x)"
)


def _sentences(record: Record, wrapped: Sequence[WrappedFunction], *, names_only: bool) -> Iterator[str]:
    if config.disable:
        yield "Nothing was compiled: compilation is switched off (config.disable)."
        return
    if stance.stance()[0] == "force_eager":
        yield 'Nothing was compiled: the stance is "force_eager" (set_stance), so that everything ran eagerly.'
        return
    if record.calls:
        yield cell_summary.outcome(record)
    called = {each.function for each in record.calls}
    for function in wrapped:
        if function.obstacle:
            yield f"`{function.title}` {function.obstacle}"
        elif names_only:
            yield f"`{function.title}` is compiled from now on, when it is called."
        elif function.name not in called:
            yield f"`{function.title}` was not called in this cell: it is compiled when it is."
