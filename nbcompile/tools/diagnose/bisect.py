"""Find the decision of the compiler that makes a result wrong: frame, graph, pass, fusion, operator.

    print(nbcompile.bisect(f)(x))

    compiled: value 0 differs by up to 0.5 (rounding explains 1e-06)
    frame      1 of 2   f (program.py:3)
    graph      1 of 1   inference graph of 7 nodes
    pass       not the cause: it differs without any of 4
    fusion     2 of 3   buf0, buf2
    lowering   3 of 5   mul_1 (aten.mul.Tensor)

For each subsystem, first all its decisions are denied. If the result is right then, a binary search over the number of
allowed decisions finds the one without which the result is right, and with which it is wrong.

In torch: torch/_inductor/compiler_bisector.py. Read next: nbcompile/support/fuel.py
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from nbcompile import api, config
from nbcompile.support import fuel, lazy_import
from nbcompile.tools.diagnose import isolated, outcome
from nbcompile.tools.diagnose.outcome import FlakyPredicateError, Outcome

if TYPE_CHECKING:
    from nbcompile.peer import bisect as peer_bisect
else:
    peer_bisect = lazy_import.module("nbcompile.peer.bisect")  # it imports torch's compiler

ENGINES = ("nbcompile", "torch")
BLAME = ("pass", "fusion", "lowering", "graph", "frame")
Predicate = Callable[[Outcome], str]
"""A function that describes the error of an outcome; "" if there is none."""


Trial = Callable[[str, int], tuple[str, list[str]]]
"""A run with a number of allowed decisions of a subsystem ("": all): its error, and the decisions that it requested."""
UNLIMITED = 1 << 62


@dataclass(frozen=True, slots=True)
class Finding:
    """The share of one subsystem in an error."""

    subsystem: str
    number: int
    """Number of the decision that makes the result wrong, from 1; 0: it is wrong without the subsystem, too."""
    decisions: int
    """Number of decisions that the subsystem took."""
    decision: str = ""

    def __str__(self) -> str:
        if not self.number:
            return f"{self.subsystem:<10} not the cause: it differs without any of {self.decisions}"
        return f"{self.subsystem:<10} {self.number} of {self.decisions}   {self.decision}"


@dataclass(frozen=True, slots=True)
class Bisection:
    """The findings, from coarse to fine."""

    difference: str
    """The error with all decisions allowed; "" if there is none."""
    findings: tuple[Finding, ...] = ()
    trials: int = 0

    @property
    def culprit(self) -> Finding | None:
        """The decision to examine first: a pass or fusion rather than a lowering, without which there would be none."""
        by_name = {finding.subsystem: finding for finding in self.findings if finding.number}
        return next((by_name[name] for name in BLAME if name in by_name), self.findings[-1] if by_name else None)

    def __str__(self) -> str:
        if not self.difference:
            return "The compiled function does what the eager one does: there is no error to search for."
        lines = [f"compiled: {self.difference}", *map(str, self.findings), f"{self.trials} runs"]
        return "\n".join([*lines, f"look at: {self.culprit}"] if self.culprit else lines)


def bisect(
    function: Callable[..., Any],
    *,
    predicate: Predicate | None = None,
    engine: str = "nbcompile",
    seconds: float = isolated.SECONDS,
    **options: Any,
) -> Callable[..., Bisection]:
    """Find the decisions of the compiler that make a function wrong.

    If the compiled function ends the process, or does not end, each trial runs in a fork.

    Args:
        function: a function or module that is not compiled yet.
        predicate: function of an :class:`Outcome` (its values, its exception, the ``seconds`` of a call) that returns
        a description of the error, or "". Default: a difference from eager mode that rounding does not explain,
        another exception, or a failure inside the compiler.
        engine: ``"nbcompile"``, or ``"torch"`` for torch.compile: its backends and the subsystems of Inductor.
        seconds: limit of a trial.
        **options: of ``compile``.

    Returns:
        A function with the same arguments that returns a :class:`Bisection`. It raises ``ValueError`` if the function
        ends the process in eager mode, too, or if two calls in eager mode differ.

    Raises:
        ValueError: there is no such engine.
    """
    if engine not in ENGINES:
        raise ValueError(f"engine: expected one of {', '.join(ENGINES)}, got {engine!r}")

    def bisected(*arguments: Any, **keywords: Any) -> Bisection:
        wrong = predicate
        if wrong is None:
            isolated.expect_to_return(lambda: outcome.run(function, arguments, keywords), seconds)
            wrong = differs_from_eager(function, arguments, keywords)
        if engine == "torch":
            return _bisect_torch(
                function,
                lambda compiled: wrong(outcome.for_predicate(compiled, arguments, keywords, predicate)),
                options,
                seconds,
            )

        def trial(subsystem: str, allowed: int, file: str = "") -> tuple[str, list[str]]:
            api.reset()
            # Without the stores: a trial must compile, and not load what another trial has compiled.
            with fuel.limited(subsystem, allowed, file) as log, config.patch(warm_start=False, background=False):
                compiled = api.compile(function, **{"isolate_recompiles": True, **options})
                found = outcome.for_predicate(compiled, arguments, keywords, predicate)
            api.reset()
            return wrong(found), log

        # Trials run in this process unless one of them ends it, since each fork costs time.
        ends = isolated.ending(lambda: trial("", 0), seconds)
        return search(_in_forks(trial, seconds) if ends else trial)

    return bisected


def _in_forks(trial: Callable[[str, int, str], tuple[str, list[str]]], seconds: float) -> Trial:
    """Trials that each run in a fork, which writes its decisions to a file."""

    def attempt(subsystem: str, allowed: int) -> tuple[str, list[str]]:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "decisions"
            wrong = isolated.call_in_fork(lambda: trial(subsystem, allowed, str(file))[0], seconds)
            return wrong, file.read_text(encoding="utf-8").splitlines() if file.exists() else []

    return attempt


def _bisect_torch(
    function: Callable[..., Any], error: Callable[[Callable[..., Any]], str], options: Mapping[str, Any], seconds: float
) -> Bisection:
    """Bisect torch.compile.

    Raises:
        ValueError: the compiled function ends the process, and torch's bisection with it.
    """
    if ended := isolated.ending(lambda: error(torch.compile(function, **options)), seconds):
        raise ValueError(
            f"the compiled function {ended}: write a program that calls torch.compile, and run "
            "python -m nbcompile bisect PROGRAM --engine torch"
        )
    differences: list[str] = []

    def is_right(compiled: Callable[..., Any]) -> bool:
        differences.append(error(compiled))
        return not differences[-1]

    return _from_torch(peer_bisect.bisect(function, is_right, **options), differences)


def bisect_torch_program(error: Callable[[str, str], str]) -> Bisection:
    """Bisect torch.compile in a whole program.

    Args:
        error: function that runs the program with a backend, as a part of the bisection in a folder
        (:func:`nbcompile.peer.bisect.take_part`), and describes its error; "" for none.
    """
    differences: list[str] = []

    def is_right(backend: str, folder: str) -> bool:
        differences.append(error(backend, folder))
        return not differences[-1]

    return _from_torch(peer_bisect.bisect_program(is_right), differences)


def _from_torch(found: Any, differences: Sequence[str]) -> Bisection:
    """The result of torch's bisector: one finding for the backend, one for a subsystem of it."""
    difference = next(filter(None, differences), "")
    if found is None:
        return Bisection("", trials=len(differences))
    backend = Finding("backend", 1, 1, found.backend)
    number = found.bisect_number or 0
    within = [Finding(found.subsystem, number + 1, number + 1, found.debug_info or "")] if found.subsystem else []
    return Bisection(difference, (backend, *within), len(differences))


def differs_from_eager(
    function: Callable[..., Any], arguments: tuple[Any, ...], keywords: Mapping[str, Any]
) -> Predicate:
    """The default predicate: an outcome that differs from eager mode's."""
    expected = outcome.run_eagerly(function, arguments, keywords)
    reference = outcome.exact(function, arguments) if not keywords else None
    return lambda found: outcome.difference(expected, found, reference)


def search(trial: Trial, subsystems: Iterable[str] = tuple(fuel.SUBSYSTEMS)) -> Bisection:
    """Find the decisions that cause an error, subsystem by subsystem.

    Args:
        trial: runs the program with a limit.
        subsystems: the subsystems to search.

    Raises:
        FlakyPredicateError: two equal trials differed.
    """
    return _Search(trial).find(subsystems)


class _Search:
    """A binary search over the decisions of each subsystem, with the number of runs."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.trials = 0

    def find(self, subsystems: Iterable[str]) -> Bisection:
        """Search the subsystems, from coarse to fine."""
        whole, _ = self._try("", 0)
        if not whole:
            return Bisection("", trials=self.trials)
        if not self._try("", 0)[0]:
            raise FlakyPredicateError("the same run was wrong once and right once: there is no decision to be found")
        findings = tuple(self._subsystem(name) for name in subsystems)
        return Bisection(whole, findings, self.trials)

    def _subsystem(self, name: str) -> Finding:
        _, decisions = self._try(name, UNLIMITED)
        if self._try(name, 0)[0]:
            return Finding(name, 0, len(decisions))
        # Invariant: with the first ``right`` decisions the result is right, with the first ``wrong`` it is wrong.
        #     decisions      1  2  3  4  5  6  7  8          all 8 allowed: wrong, none: right
        #     first 4        allowed: right                  the culprit is in 5 ... 8
        #     first 6        allowed: wrong                  in 5, 6
        #     first 5        allowed: right                  it is 6
        right, wrong = 0, len(decisions)
        while wrong - right > 1:
            middle = (right + wrong) // 2
            if self._try(name, middle)[0]:
                wrong = middle
            else:
                right = middle
        # A denied decision may change later decisions, but no earlier ones: this one was requested in each run.
        still, log = self._try(name, wrong)
        if not still:
            raise FlakyPredicateError(f"{name}: the first {wrong} decisions were wrong once and right once")
        return Finding(name, wrong, len(decisions), log[wrong - 1] if 0 < wrong <= len(log) else "")

    def _try(self, name: str, allowed: int) -> tuple[str, list[str]]:
        self.trials += 1
        return self.trial(name, allowed)
