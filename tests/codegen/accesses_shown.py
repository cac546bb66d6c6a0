"""Programs whose masked parts lie between pages that cannot be accessed; ``test_vector_expr.py`` runs this file.

In torch: nothing; its tests compare values alone. Read next: tests/support/guard_pages.py
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

import nbcompile
from tests.support.guard_pages import at_end, at_start

PROGRAMS = {
    "cat": lambda a, b: torch.cat([a * 2, b * 3]),
    "cat_of_columns": lambda a, b: torch.cat([a[:, :2] * 2, b * 3], 1),
    "cat_of_three": lambda a, b: torch.cat([a.exp(), b * 3, a - 1]),
    "stack": lambda a, b: torch.stack([a * 2, b * 3]),
    "stack_of_columns": lambda a, b: torch.stack([a * 2, b * 3], -1),
    "rotated": lambda a, b: torch.cat([-a[:, 4:], b[:, :4]], 1) * 2,
    "pad": lambda a, b: F.pad(a * 2, (1, 2, 3, 0)) + 1,
    "cut": lambda a, b: F.pad(a * 2, (-1, 2)),
    "slice_scatter": lambda a, b: torch.slice_scatter(a * 2, b[:2] * 3, 0, 1, 3),
    "select_scatter": lambda a, b: torch.select_scatter(a * 2, b[0] * 3, 0, 5),
    "roll": lambda a, b: torch.roll(a * 2, 1, 0) + b,
    "gathered": lambda a, b: torch.cat([a[:2] * 2, b[torch.arange(7, -1, -1)] * 3]),
    "transposed": lambda a, b: torch.cat([a.t() * 2, b.t() * 3]),
    "summed": lambda a, b: torch.cat([a * 2, b * 3]).sum(0),
    "pooled": lambda a, b: F.max_pool1d(torch.cat([a, b]), 3, 2, 1) + F.avg_pool1d(torch.cat([a, b * 2]), 3, 2, 1),
    "shifted": lambda a, b: torch.cat([b[:, -1:], a[:, :-1]], 1) - a,
}
DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool)


def _works(program, dtype) -> bool:
    try:
        program(*(torch.ones(8, 8).to(dtype) for _ in range(2)))
    except RuntimeError:  # not an operator of the dtype
        return False
    return True


def _run(dtype) -> None:
    programs = {name: program for name, program in PROGRAMS.items() if _works(program, dtype)}

    def everything(a, b):
        return {name: program(a, b) for name, program in programs.items()}

    for place in (at_start, at_end):
        print(dtype, place.__name__, flush=True)
        a, b = (place((torch.arange(64.0).view(8, 8) % 7).to(dtype)) for _ in range(2))
        torch.testing.assert_close(nbcompile.compile(everything)(a, b), everything(a, b))


if __name__ == "__main__":
    for dtype in DTYPES:
        _run(dtype)
    # The part that is not chosen would be 120 MB in front of its memory.
    large = torch.ones(30_000_000)
    assert nbcompile.compile(lambda a, b: torch.cat([a * 2, b * 3]).sum())(large, torch.ones(8)) == 60_000_024
