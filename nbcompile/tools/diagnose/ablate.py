"""Run a function with less and less of the compiler, and say at which rung it changes.

    print(nbcompile.ablate(f)(x))

    rung                        result                            us per call
    eager                       -                                        12.1
    capture                     as eager                                  9.0
    AOTAutograd                 as eager                                 14.2
    decompositions              as eager                                 15.0
    no lowering                 as eager                                 11.9
    no fusion                   value 0: differs by up to 0.5             8.1   <- changes here
    ...

In torch: docs "Ablation" (backends eager, aot_eager, inductor). Read next: nbcompile/tools/diagnose/bisect.py
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from nbcompile import api, config
from nbcompile.support import fuel
from nbcompile.tools.diagnose import outcome
from nbcompile.tools.diagnose.outcome import Outcome

TIMED_CALLS = 5
SLOWER = 1.5
"""A rung that is so many times as slow as the one before is pointed out."""
LONGER = 10.0
"""Seconds that a program must take longer besides: each rung compiles more than the one before."""


@dataclass(frozen=True, slots=True)
class Rung:
    """One way to run a function."""

    name: str
    backend: str
    denied: str = ""
    """A subsystem of which nothing is allowed (nbcompile/support/fuel.py)."""
    settings: tuple[tuple[str, Any], ...] = ()


OURS = (
    Rung("capture", "eager"),
    Rung("AOTAutograd", "aot_eager"),
    Rung("decompositions", "aot_eager_decomp_partition"),
    Rung("no lowering", "inductor", denied="lowering"),
    Rung("no fusion", "inductor", denied="fusion"),
    Rung("no passes", "inductor", denied="pass"),
    Rung("no vectors", "inductor", settings=(("instruction_set", "generic"),)),
    Rung("reference path", "inductor", settings=(("reference", True),)),
    Rung("everything", "inductor"),
)
TORCHS = (
    Rung("torch.compile, capture", "eager"),
    Rung("torch.compile, AOTAutograd", "aot_eager"),
    Rung("torch.compile, decompositions", "aot_eager_decomp_partition"),
    Rung("torch.compile, Inductor", "inductor"),
)
ENGINES = {"nbcompile": OURS, "torch": TORCHS}


@dataclass(frozen=True, slots=True)
class Row:
    """The outcome of one step."""

    rung: str
    difference: str
    """From eager mode; "" for none."""
    seconds: float


@dataclass(frozen=True, slots=True)
class Ablation:
    """All rungs, from eager mode up."""

    rows: tuple[Row, ...]
    whole_program: bool = False
    """The times are those of a program from start to end, the compiler's included."""

    @property
    def first_change(self) -> Row | None:
        """The first rung with another outcome than eager mode."""
        return next((row for row in self.rows if row.difference), None)

    @property
    def slower(self) -> tuple[Row, ...]:
        """The rungs that are much slower than the one before."""
        pairs = zip(self.rows, self.rows[1:], strict=False)
        least = LONGER if self.whole_program else 0.0
        return tuple(row for before, row in pairs if 0 < before.seconds * SLOWER + least < row.seconds)

    def __str__(self) -> str:
        first, width = self.first_change, max(len(row.rung) for row in self.rows) + 2
        slower = self.slower
        unit, factor = ("seconds", 1.0) if self.whole_program else ("us per call", 1e6)
        lines = [f"{'rung':<{width}} {'result':<60} {unit:>12}"]
        for row in self.rows:
            result = row.difference or ("-" if row.rung == "eager" else "as eager")
            mark = "   <- changes here" if row is first else "   <- slower here" if row in slower else ""
            lines.append(f"{row.rung:<{width}} {result:<60} {row.seconds * factor:>12.1f}{mark}")
        return "\n".join(lines)


def ablate(function: Callable[..., Any], *, engine: str = "nbcompile", **options: Any) -> Callable[..., Ablation]:
    """Run a function on each rung of the ladder and compare with eager mode.

    Args:
        function: a function or module that is not compiled yet.
        engine: ``"nbcompile"``, or ``"torch"`` for the rungs of torch.compile.
        **options: of ``compile`` (``dynamic``, ``fullgraph``).

    Returns:
        A function with the same arguments that returns an :class:`Ablation`.

    Raises:
        ValueError: there is no such engine.
    """
    if engine not in ENGINES:
        raise ValueError(f"engine={engine!r} is none of {', '.join(ENGINES)}")

    def ablated(*arguments: Any, **keywords: Any) -> Ablation:
        expected = outcome.run(function, arguments, keywords, TIMED_CALLS)
        reference = outcome.exact(function, arguments) if not keywords else None
        rows = [Row("eager", "", expected.seconds)]
        for rung in ENGINES[engine]:

            def attempt(rung: Rung = rung) -> tuple[str, float]:
                found = _run(rung, engine, function, options, arguments, keywords)
                return outcome.difference(expected, found, reference), found.seconds

            rows.append(confirmed(rung.name, attempt))
        return Ablation(tuple(rows))

    return ablated


def confirmed(rung: str, attempt: Callable[[], tuple[str, float]]) -> Row:
    """The row of a rung; one that differs is tried again, as a program can be wrong by chance."""
    difference, seconds = attempt()
    if difference and not attempt()[0]:
        difference = f"by chance: once {difference}, then as eager"
    return Row(rung, difference, seconds)


def _run(
    rung: Rung,
    engine: str,
    function: Callable[..., Any],
    options: Mapping[str, Any],
    arguments: tuple[Any, ...],
    keywords: Mapping[str, Any],
) -> Outcome:
    if engine == "torch":
        torch.compiler.reset()
        compiled = torch.compile(function, backend=rung.backend, **options)
        return outcome.run(compiled, arguments, keywords, TIMED_CALLS)
    api.reset()
    with _as(rung), config.patch(warm_start=False, background=False, **dict(rung.settings)):
        compiled = api.compile(function, **{"isolate_recompiles": True, "backend": rung.backend, **options})
        found = outcome.run(compiled, arguments, keywords, TIMED_CALLS)
    api.reset()
    return found


@contextlib.contextmanager
def _as(rung: Rung) -> Iterator[None]:
    if not rung.denied:
        yield
        return
    with fuel.limited(rung.denied, 0):
        yield
