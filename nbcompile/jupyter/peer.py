"""``%%compile --peer``: the cell is run with the real torch.compile, too, in a process with a copy of the notebook's
values.

    sent = job(shell, parsed, options)      before the cell runs, as it may change the values that it reads
    compare_cell(record, sent)                  after it ran: ComparisonView

Only the names that the cell reads are copied. Effects outside of Python (files, network) happen twice.

In torch: nothing. Read next: nbcompile/tools/compare/job.py
"""

from __future__ import annotations

import marshal
from collections.abc import Iterator, Mapping
from types import CodeType
from typing import Any

from nbcompile.jupyter.cell import ParsedCell
from nbcompile.jupyter.wrapping import WRAP, wrapper
from nbcompile.record.model import Record
from nbcompile.tools import compare
from nbcompile.tools.compare import job as jobs, processes
from nbcompile.views.comparison import ComparisonView


def job(namespace: Mapping[str, Any], parsed: ParsedCell, options: Mapping[str, Any]) -> bytes:
    """The cell and what it reads, pickled.

    Raises:
        CannotSendError: a value cannot be pickled; the message names it.
    """
    read = {name: namespace[name] for code in parsed.codes for name in names(code) if name in namespace}
    sent = {name: compare.original(value) for name, value in read.items() if name != WRAP}
    codes = tuple(marshal.dumps(code) for code in parsed.codes)
    for name, value in sent.items():
        try:
            jobs.pickle_job(value)
        except jobs.CannotSendError as error:
            raise jobs.CannotSendError(f"{name}: {error}") from error
    return jobs.pickle_job(jobs.Job(jobs.CellJob(codes, sent, WRAP, wrapper, options), jobs.process_settings()))


def names(code: CodeType) -> Iterator[str]:
    """The global names that a piece of code, or a function in it, reads."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names(constant)


def compare_cell(record: Record, sent: bytes, seconds: float) -> ComparisonView:
    """Compare the record of the cell with the results of the real torch.compile for it."""
    return ComparisonView(compare.compare_cell(record, processes.run(sent, ("torch",), seconds)["torch"]))
