"""Run a function with fewer and fewer stages of the compiler, and report the rung at which the result changes.

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
import functools
import itertools
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
import torch.utils._pytree as pytree

from nbcompile import api, config
from nbcompile.backends.gpu import obstacle_to
from nbcompile.runtime import store
from nbcompile.support import fuel
from nbcompile.tools.diagnose import isolated, outcome
from nbcompile.tools.diagnose.outcome import Outcome

TIMED_CALLS = 5
SLOWER = 1.5
"""A rung that takes this many times as long as the previous one is marked."""
LONGER = 10.0
"""Additional seconds before a rung of a program is marked: each rung compiles more than the previous one."""


@dataclass(frozen=True, slots=True)
class Rung:
    """One way to run a function."""

    name: str
    backend: str
    denied: str = ""
    """A subsystem of which nothing is allowed (nbcompile/support/fuel.py)."""
    settings: tuple[tuple[str, Any], ...] = ()
    stored: bool = False
    """True to run with the store on disk, which is the default of a program; all other rungs compile and build anew."""
    target: str = ""
    """A GPU whose code a simulator runs: another code generator, instead of one more stage."""


# From the fewest stages to all of them, so that the stage of the first rung that differs is the cause.
OURS = (
    Rung("capture", "eager"),
    Rung("AOTAutograd", "aot_eager"),
    Rung("decompositions", "aot_eager_decomp_partition"),
    Rung("no lowering", "inductor", denied="lowering"),
    Rung("no fusion", "inductor", denied="fusion"),
    Rung("no passes", "inductor", denied="pass"),
    Rung("no vectors", "inductor", settings=(("instruction_set", "generic"),)),
    Rung("reference path", "inductor", settings=(("reference", True),)),
    Rung("store off", "inductor"),
    Rung("everything", "inductor", stored=True),
    Rung("everything, again", "inductor", stored=True),  # loads the entries that the previous rung has stored
    Rung("Triton in the simulator", "inductor", target="sm_90"),
)
BY_CHANCE = "by chance"
TOO_LONG = "are allowed: the call runs through ATen"
"""The end of the warning about such a call (nbcompile/gpu/simulated.py)."""
SIMULATION_SECONDS = 20.0
"""Limit of a simulated call. One that would take longer is not simulated."""
TORCHS = (
    Rung("torch.compile, capture", "eager"),
    Rung("torch.compile, AOTAutograd", "aot_eager"),
    Rung("torch.compile, decompositions", "aot_eager_decomp_partition"),
    Rung("torch.compile, Inductor", "inductor"),
)
ENGINES = {"nbcompile": OURS, "torch": TORCHS}


@dataclass(frozen=True, slots=True)
class Row:
    """The outcome of one rung."""

    rung: str
    difference: str
    """Difference from eager mode; "" for none."""
    seconds: float
    left_out: str = ""
    """The reason why this rung was not tried."""
    simulated: bool = False
    """True if the time is that of the simulator, not of compiled code."""


@dataclass(frozen=True, slots=True)
class Ablation:
    """All rungs, from eager mode up."""

    rows: tuple[Row, ...]
    whole_program: bool = False
    """True if the times are those of a program from start to end, compilation included."""

    @property
    def first_change(self) -> Row | None:
        """The first rung with another outcome than eager mode."""
        return next((row for row in self.rows if row.difference), None)

    @property
    def slower(self) -> tuple[Row, ...]:
        """The rungs that are much slower than the previous one."""
        timed = [row for row in self.rows if not row.simulated]
        pairs = itertools.pairwise(timed)
        least = LONGER if self.whole_program else 0.0
        return tuple(row for before, row in pairs if 0 < before.seconds * SLOWER + least < row.seconds)

    def __str__(self) -> str:
        first, width = self.first_change, max(len(row.rung) for row in self.rows) + 2
        slower = self.slower
        unit, factor = ("seconds", 1.0) if self.whole_program else ("us per call", 1e6)
        lines = [f"{'rung':<{width}} {'result':<60} {unit:>12}"]
        for row in self.rows:
            result = row.difference or row.left_out or ("-" if row.rung == "eager" else "as eager")
            mark = "   <- changes here" if row is first else "   <- slower here" if row in slower else ""
            time = f"{row.seconds * factor:.1f}" if row.seconds else "-"
            lines.append(f"{row.rung:<{width}} {result:<60} {time:>12}{mark}")
        return "\n".join(lines)


def ablate(
    function: Callable[..., Any], *, engine: str = "nbcompile", seconds: float = isolated.SECONDS, **options: Any
) -> Callable[..., Ablation]:
    """Run a function on each rung of the ladder and compare with eager mode.

    A fork of the process detects a rung that ends the process, or does not end.

    Args:
        function: a function or module that is not compiled yet.
        engine: ``"nbcompile"``, or ``"torch"`` for the rungs of torch.compile.
        seconds: limit of a rung.
        **options: of ``compile`` (``dynamic``, ``fullgraph``).

    Returns:
        A function with the same arguments that returns an :class:`Ablation`. It raises ``ValueError`` if the function
        ends the process in eager mode, too, or if two calls in eager mode differ.

    Raises:
        ValueError: there is no such engine.
    """
    if engine not in ENGINES:
        raise ValueError(f"engine: expected one of {', '.join(ENGINES)}, got {engine!r}")

    def ablated(*arguments: Any, **keywords: Any) -> Ablation:
        isolated.expect_to_return(lambda: outcome.run(function, arguments, keywords), seconds)
        expected = outcome.run_eagerly(function, arguments, keywords, TIMED_CALLS)
        reference = outcome.exact(function, arguments) if not keywords else None
        rows = [Row("eager", "", expected.seconds)]
        with tempfile.TemporaryDirectory() as kernels:
            for rung in ENGINES[engine]:
                if reason := _not_simulated(rung, (arguments, keywords)):
                    rows.append(Row(rung.name, "", 0.0, reason, simulated=True))
                    continue
                run = functools.partial(_Call(function, options, arguments, keywords).run, rung, engine, kernels)

                def attempt(run: Callable[[int], Outcome] = run, rung: Rung = rung) -> tuple[str, float]:
                    if ended := isolated.ending(lambda: run(0), seconds):
                        return ended, 0.0
                    found = run(0 if rung.target else TIMED_CALLS)
                    return outcome.difference(expected, found, reference), found.seconds

                rows.append(confirmed(rung, attempt, rows))
        return Ablation(tuple(rows))

    return ablated


def confirmed(rung: Rung, attempt: Callable[[], tuple[str, float]], before: Sequence[Row] = ()) -> Row:
    """The row of a rung. A first difference is confirmed by a second run: a program can be wrong by chance."""
    difference, seconds = attempt()
    if rung.target and TOO_LONG in difference:
        return Row(rung.name, "", 0.0, "left out: its simulation would take too long", simulated=True)
    certain = any(row.difference and not row.difference.startswith(BY_CHANCE) for row in before)
    if difference and not certain and isolated.HUNG not in difference and not attempt()[0]:
        difference = f"{BY_CHANCE}: once {difference}, then as eager"
    return Row(rung.name, difference, seconds, simulated=bool(rung.target))


def without_tools(rung: Rung) -> str:
    """The reason why a rung cannot be tried on this machine; "" if it can."""
    obstacle = obstacle_to(rung.target)
    return f"left out: {obstacle}" if obstacle else ""


def _not_simulated(rung: Rung, inputs: Any) -> str:
    """The reason why nothing is simulated; "" if the code is simulated, or the rung needs no simulator."""
    devices = {value.device.type for value in pytree.tree_leaves(inputs) if isinstance(value, torch.Tensor)}
    elsewhere = ", ".join(sorted(devices - {"cpu"}))
    if rung.target and elsewhere:
        return f"left out: there are tensors on {elsewhere}, where Triton runs by itself"
    return without_tools(rung)


@dataclass(frozen=True, slots=True)
class _Call:
    """The call that every rung runs."""

    function: Callable[..., Any]
    options: Mapping[str, Any]
    """Options of ``compile``."""
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]

    def run(self, rung: Rung, engine: str, kernels: str, timed: int) -> Outcome:
        """Compile the function as a rung does, call it, and time more calls."""
        if engine == "torch":
            torch.compiler.reset()
            compiled = torch.compile(self.function, backend=rung.backend, **self.options)
            return outcome.run(compiled, self.arguments, self.keywords, timed)
        api.reset()
        own = {"isolate_recompiles": True, "backend": rung.backend, **self.options}
        if rung.target:
            own = {**own, "mode": None, "options": for_target(rung.target, self.options.get("options"))}
        with _as(rung, kernels), config.patch(warm_start=rung.stored, background=False, **dict(rung.settings)):
            found = outcome.run(api.compile(self.function, **own), self.arguments, self.keywords, timed)
        api.reset()
        return found


def for_target(target: str, options: Mapping[str, object] | None) -> dict[str, object]:
    """Options of the backend, with which its code for a GPU is simulated."""
    return {**(options or {}), "target": target, "simulation_seconds": SIMULATION_SECONDS}


@contextlib.contextmanager
def _as(rung: Rung, kernels: str) -> Iterator[None]:
    """Deny the rung's decisions; kernels of rungs without the store are built in a folder of their own."""
    with contextlib.ExitStack() as stack:
        if rung.denied:
            stack.enter_context(fuel.limited(rung.denied, 0))
        if not rung.stored:
            stack.enter_context(mock.patch.dict(os.environ, {store.VARIABLE: kernels}))
        yield
