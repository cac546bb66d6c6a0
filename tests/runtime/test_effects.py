"""Operators with effects run in program order, without the dispatch of a higher-order operator.

In torch: test/higher_order_ops/test_with_effects.py. Read next: nbcompile/runtime/effects.py
"""

from __future__ import annotations

import pytest
import torch
from torch._higher_order_ops.effects import with_effects

import nbcompile
from nbcompile.runtime import effects, program


def solve(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.linalg.cholesky(a) @ b + torch.linalg.solve(a, b) + torch.linalg.inv(a).sum()


def regular(size: int = 4) -> torch.Tensor:
    a = torch.randn(size, size, generator=torch.Generator().manual_seed(0))
    return a @ a.T + size * torch.eye(size)


def test_checks_of_linear_algebra_run() -> None:
    """A graph with checks gives eager's results, and the first failing check raises eager's error."""
    compiled = nbcompile.compile(solve, fullgraph=True)
    b = torch.ones(4, 2)
    for _ in range(3):
        torch.testing.assert_close(compiled(regular(), b), solve(regular(), b))
    indefinite = -torch.eye(4)
    with pytest.raises(torch.linalg.LinAlgError) as expected:
        solve(indefinite, b)
    with pytest.raises(torch.linalg.LinAlgError) as found:
        compiled(indefinite, b)
    assert str(found.value) == str(expected.value)
    torch.testing.assert_close(compiled(regular(), b), solve(regular(), b))


def test_the_operator_is_called_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiled graph calls the operator itself, because the dispatch of the higher-order operator is expensive."""
    compiled = nbcompile.compile(solve)
    b = torch.ones(4, 2)
    compiled(regular(), b)
    called: list[object] = []
    monkeypatch.setattr(type(with_effects), "__call__", lambda *given, **_: called.append(given))
    torch.testing.assert_close(compiled(regular(), b), solve(regular(), b))
    assert not called


def test_results_are_those_of_the_higher_order_operator() -> None:
    """The items of a tuple follow the token; one result, a list, or None is a single item after it."""
    run = effects.callee(with_effects)
    token, values = torch.tensor([]), torch.tensor([[3.0, 1.0], [2.0, 5.0]])
    for operator, arguments in (
        (torch.ops.aten.sin.default, (values,)),
        (torch.ops.aten.max.dim, (values, 1)),
        (torch.ops.aten._linalg_check_errors.default, (torch.zeros((), dtype=torch.int32), "name")),
    ):
        keywords = {"is_matrix": True} if operator is torch.ops.aten._linalg_check_errors.default else {}
        found, expected = (way(token, operator, *arguments, **keywords) for way in (run, with_effects))
        assert len(found) == len(expected)
        assert found[0].shape == expected[0].shape == (0,)
        assert all(
            torch.equal(one, other) if isinstance(one, torch.Tensor) else one is other is None
            for one, other in zip(found[1:], expected[1:], strict=True)
        )


def test_other_targets_are_called_as_they_are() -> None:
    """An operator without an effect is called unchanged."""
    assert effects.callee(torch.ops.aten.mm.default) is torch.ops.aten.mm.default


@pytest.mark.parametrize("trained", [False, True])
def test_a_graph_with_effects_has_a_plan_in_c(trained: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """No token is an argument or a result of the graph, so that the plan runs in C."""

    def reject(*_: object) -> object:
        raise AssertionError("the wrapper in Python runs")

    monkeypatch.setattr(program.PythonWrapper, "__call__", reject)
    compiled, b = nbcompile.compile(solve, fullgraph=True), torch.ones(4, 2)
    given, wanted = (regular().requires_grad_(trained) for _ in range(2))
    for _ in range(3):
        found, expected = compiled(given, b), solve(wanted, b)
        torch.testing.assert_close(found, expected)
    if trained:
        found.sum().backward()
        expected.sum().backward()
        torch.testing.assert_close(given.grad, wanted.grad)
