"""How exact the generated mathematics is: errors in units of the last place, against float64.

    python -m benchmarks.ulp [--every 257]     ->  a Markdown table: nbcompile, eager, and where the worst is

Each function is compiled as a user would, and called on every n-th float32 there is (all signs and sizes, subnormals,
infinities, nans) and on dense sweeps where functions bend. NaN and infinities must be where eager's are.

Read next: tests/codegen/test_nbvec.py
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812

import nbcompile

Function = Callable[[torch.Tensor], torch.Tensor]
FUNCTIONS: dict[str, Function] = {
    "exp": torch.exp, "exp2": torch.exp2, "expm1": torch.expm1, "log": torch.log, "log2": torch.log2,
    "log10": torch.log10, "log1p": torch.log1p, "tanh": torch.tanh, "erf": torch.erf, "sin": torch.sin,
    "cos": torch.cos, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "sigmoid": torch.sigmoid,
    "gelu": F.gelu,
}  # fmt: skip
EXACT: dict[str, Function] = {
    "gelu": lambda x: x * torch.erfc(x * -math.sqrt(0.5)) / 2,  # torch's own float64 loses digits below zero, too
}
TINY = 2.0**-126


@dataclass(frozen=True, slots=True)
class Row:
    """What was found of one function."""

    name: str
    ours: float
    worst: float
    """Where ours is worst."""
    eager: float
    limits_differ: int
    """Arguments at which NaN or an infinity is not where it is in float64's answer."""


def arguments(every: int) -> torch.Tensor:
    """Every n-th float32, dense sweeps, and the special values."""
    bits = torch.arange(-(2**31), 2**31, every).to(torch.int32).view(torch.float32)
    sweeps = [torch.linspace(-bound, bound, 1_000_003) for bound in (1.5, 20, 90)]
    special = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan, 1e-40, -1e-40, 1e-45, TINY, -TINY])
    return torch.cat([bits, *sweeps, torch.linspace(0.5, 2, 1_000_003), special])


def rows(every: int, names: tuple[str, ...] = tuple(FUNCTIONS)) -> Iterator[Row]:
    """Measure each function."""
    x = arguments(every)
    for name in names:
        function = FUNCTIONS[name]
        nbcompile.reset()  # or the limit of recompilations is reached, and eager would be measured
        ours = nbcompile.compile(function)(x)
        eager, exact = function(x), EXACT.get(name, function)(x.double())
        # A result that is subnormal in float64's answer is right as eager has it (which may be 0).
        error = units(ours, exact).where((exact.abs() >= TINY) | (ours != eager), 0)
        at = int(error.argmax())
        rounded = exact.float()
        differ = (ours.isnan() != rounded.isnan()) | (ours.isinf() != rounded.isinf()) & (units(ours, exact) > 1)
        yield Row(
            name,
            float(error[at]),
            float(x[at]),
            float(units(eager, exact).where(exact.abs() >= TINY, 0).max()),
            int(differ.sum()),
        )


def units(found: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """The distance from float64's answer in units of the last place of its rounding to float32."""
    rounded = exact.float()
    finite = rounded.abs().clamp(max=torch.finfo(torch.float32).max)
    unit = (finite - torch.nextafter(finite, torch.zeros(()))).double().clamp(min=2.0**-149)
    error = (found.double() - exact).abs() / unit
    error[(found == rounded) | (found.isnan() & rounded.isnan())] = 0
    return error.nan_to_num(nan=math.inf)


def table(found: Iterator[Row]) -> str:
    """The rows as Markdown."""
    lines = ["| float32 | nbcompile, ulp | worst at | eager, ulp | NaN or inf elsewhere |", "|---|---|---|---|---|"]
    lines += [f"| {r.name} | {r.ours:.2f} | {r.worst:.9g} | {r.eager:.3g} | {r.limits_differ} |" for r in found]
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ulp", description=__doc__.partition("\n")[0])
    parser.add_argument("--every", type=int, default=257, help="every how many-th float32 is tried (257)")
    print(table(rows(parser.parse_args().every)))


if __name__ == "__main__":
    main()
