"""Complex numbers whose ``repr`` evaluates to another number: a graph is printed as text before it runs.

    complex(-0.0, 0.0)      written (-0+0j), which is 0 + 0j
    complex(0.0, inf)       written infj, which is a name

In torch: torch/fx/graph.py writes the text by ``repr``. Read next: nbcompile/tracing/variables/constant.py
"""

from __future__ import annotations

import math


class ExactComplex(complex):
    """A complex number whose ``repr`` is a call of ``complex``."""

    def __repr__(self) -> str:
        """Text that evaluates to the same number."""
        return f"complex({_written(self.real)}, {_written(self.imag)})"


def exact(value: object) -> object:
    """The same value, in a form whose text is right."""
    if type(value) is complex and not all(map(_is_written_well, (value.real, value.imag))):
        return ExactComplex(value)
    return value


def _is_written_well(part: float) -> bool:
    return math.isfinite(part) and not (part == 0 and math.copysign(1, part) < 0)


def _written(part: float) -> str:
    return repr(part) if math.isfinite(part) else f"float('{part}')"
