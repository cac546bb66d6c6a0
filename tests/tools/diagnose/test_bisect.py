"""Bisection and ablation find planted faults."""

from __future__ import annotations

import itertools

import pytest
import torch

import nbcompile
from nbcompile.support import fuel
from nbcompile.tools.diagnose import outcome
from nbcompile.tools.diagnose.ablate import OURS, ablate
from nbcompile.tools.diagnose.bisect import FlakyPredicateError, bisect
from tests.tools.diagnose import faults

each_fault = pytest.mark.parametrize("fault", faults.FAULTS, ids=lambda fault: fault.name)


@pytest.mark.rotates(3)
@each_fault
def test_bisection_names_the_fault(fault, monkeypatch):
    """The finest subsystem with the fault is named, with its decision; coarser ones are wrong, too."""
    fault.plant(monkeypatch)
    found = bisect(fault.program, predicate=fault.predicate)(*faults.arguments(fault))
    assert found.difference
    assert found.culprit.subsystem == fault.subsystem, str(found)
    assert fault.decision in found.culprit.decision, str(found)
    assert found.findings[0].number >= 1
    assert found.trials < 70


@pytest.mark.rotates(3)
@each_fault
def test_the_ladder_changes_at_the_right_rung(fault, monkeypatch):
    """The first rung that differs from eager mode, or is slower, is the first one with the fault."""
    fault.plant(monkeypatch)
    found = ablate(fault.program)(*faults.arguments(fault))
    if fault.predicate is faults.is_slow:
        assert found.first_change is None
        assert fault.rung in [row.rung for row in found.slower]
        assert "<- slower here" in str(found)
        return
    assert found.first_change is not None
    assert found.first_change.rung == fault.rung, str(found)
    assert "<- changes here" in str(found)


@pytest.mark.parametrize("program", [faults.chain, faults.broken, faults.rows, faults.twice])
def test_without_a_fault_there_is_nothing_to_find(program):
    """Without a fault each rung equals eager mode, and bisection ends after one run."""
    x = torch.randn(6, 24)
    assert ablate(program)(x).first_change is None
    found = bisect(program)(x)
    assert (found.difference, found.trials, found.culprit) == ("", 1, None)
    assert "no error to search for" in str(found)


@pytest.mark.parametrize("subsystem", fuel.SUBSYSTEMS)
@pytest.mark.parametrize("program", [faults.chain, faults.broken, faults.rows, faults.twice])
def test_with_any_number_of_decisions_the_result_is_right(program, subsystem):
    """With any prefix of the decisions, the compiled function equals the eager one."""
    x = torch.randn(5, 16, requires_grad=True)
    expected = outcome.run(program, (x,))
    for allowed in itertools.count():
        with fuel.limited(subsystem, allowed) as log, nbcompile.config.patch(warm_start=False):
            nbcompile.reset()
            found = outcome.run(nbcompile.compile(program), (x,))
        assert outcome.difference(expected, found, outcome.exact(program, (x,))) == ""
        if allowed >= len(log):
            break


def test_a_flaky_predicate_is_reported():
    """A predicate that alternates raises an error."""
    answers = itertools.cycle(["wrong", ""])
    with pytest.raises(FlakyPredicateError):
        bisect(faults.chain, predicate=lambda _: next(answers))(torch.randn(2, 3))


def test_a_predicate_of_ones_own():
    """A user's predicate decides what is wrong: here a result above a bound."""
    found = bisect(lambda x: x.exp() + 1, predicate=lambda seen: "large" if float(seen.values[0].max()) > 2 else "")(
        torch.ones(3)
    )
    assert found.difference == "large"
    assert all(finding.number == 0 for finding in found.findings), "eager mode gives it, too"


def test_arguments_are_copied():
    """The function may mutate its argument: each run gets a copy."""

    def writes(x):
        x += 1
        return x * 2

    x = torch.zeros(3)
    assert ablate(writes)(x).first_change is None
    assert x.tolist() == [0, 0, 0]


def test_a_result_that_depends_on_more_than_the_arguments():
    """If two eager calls differ, no stage is blamed, and the error says why."""
    calls = itertools.count()

    def counts(x):
        return x + next(calls)

    for tool in (ablate, bisect):
        with pytest.raises(ValueError, match="two calls in eager mode differ .* depends on more than the arguments"):
            tool(counts)(torch.ones(2))


def test_differences():
    """Types, NaN, infinities, signs of zero, lengths and exceptions differ; rounding does not."""

    def of(*values, error=""):
        return outcome.Outcome(values, error=error)

    nan, inf = float("nan"), float("inf")
    same = [(1, 1), (nan, nan), (torch.tensor([1.0, nan]), torch.tensor([1.0, nan])), ("a", "a"), (None, None),
            (torch.ones(3), torch.ones(3) * (1 + 1e-7))]  # fmt: skip
    others = [(1, 2), (1, True), (0.0, -0.0), (torch.ones(3), torch.ones(2)), (torch.ones(2), torch.ones(2).double()),
              (torch.tensor([inf]), torch.tensor([1.0])), (torch.tensor([1]), torch.tensor([2])),
              (torch.ones(3), torch.ones(3) * 1.01)]  # fmt: skip
    assert [outcome.difference(of(a), of(b)) for a, b in same] == [""] * len(same)
    assert all(outcome.difference(of(a), of(b)) for a, b in others)
    assert outcome.difference(of(1), of(1, 2))
    assert outcome.difference(of(error="ValueError: x"), of(1))


def test_an_unknown_engine():
    """ablate rejects an unknown engine, with the known ones."""
    with pytest.raises(ValueError, match="nbcompile, torch"):
        ablate(faults.chain, engine="jax")
    with pytest.raises(ValueError, match="nbcompile, torch"):
        bisect(faults.chain, engine="jax")


@pytest.mark.peer
def test_the_ladder_of_torch_compile():
    """With torch.compile, the ladder has the rungs up to its code generation."""
    found = ablate(lambda x: x.sin() + 1, engine="torch")(torch.ones(4))
    assert [row.difference for row in found.rows] == [""] * 5


@pytest.mark.slow
@pytest.mark.peer
def test_bisection_of_torch_compile_names_the_lowering(monkeypatch):
    """A wrong lowering of Inductor is found: backend, lowering and operator, by torch's numbering."""
    from torch._inductor import lowering

    sin, cos = torch.ops.aten.sin.default, torch.ops.aten.cos.default
    monkeypatch.setitem(lowering.lowerings, sin, lowering.lowerings[cos])
    found = bisect(lambda x: (x.exp() + 1).sin(), engine="torch")(torch.ones(4))
    assert [finding.subsystem for finding in found.findings] == ["backend", "lowerings"]
    assert found.findings[0].decision == "inductor"
    assert "sin" in found.culprit.decision
    assert found.difference.startswith("value 0")


@pytest.mark.peer
def test_bisection_of_a_right_torch_compile():
    """With a right torch.compile nothing is found, and the text says so."""
    found = bisect(lambda x: x + 1, engine="torch")(torch.ones(4))
    assert not found.difference
    assert "no error to search for" in str(found)


def test_every_rung_has_a_name_of_its_own():
    """The names of the rungs are unique."""
    assert len({rung.name for rung in OURS}) == len(OURS)
