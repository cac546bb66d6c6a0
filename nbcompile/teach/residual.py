"""Exercises about a residual program that is written by hand and calls the given captured graphs.

    def residual(x, graphs):              the answer
        (y,) = graphs[0](x)               a captured graph: called once, as in the compiler's residual program
        print("half way")
        (z,) = graphs[1](y)
        return z

While it runs, no operator may be executed outside of the graphs.

In torch: torch/_dynamo/codegen.py. Read next: nbcompile/teach/fusion.py
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from nbcompile.record.model import Record
from nbcompile.teach import attempt
from nbcompile.teach.attempt import Outcome, Rejection
from nbcompile.teach.comparison import expect_same_outcome
from nbcompile.teach.exercise_table import Exercise

READS = ("_local_scalar_dense", "is_nonzero", "item", "detach", "clone")
"""Operators by which Python reads a number from a tensor, or prints one."""


class CapturedGraph:
    """A captured graph that counts its calls."""

    def __init__(self, number: int, module: torch.fx.GraphModule, guard: OperatorGuard) -> None:
        self.number, self.module, self.guard = number, module, guard

    def __call__(self, *inputs: Any) -> Any:
        expected = [node for node in self.module.graph.nodes if node.op == "placeholder"]
        if len(inputs) != len(expected):
            names = ", ".join(node.name for node in expected)
            raise TypeError(f"graph {self.number} has {len(expected)} inputs ({names}), and {len(inputs)} were given")
        self.guard.called.append(self.number)
        self.guard.allowed = True
        try:
            return self.module.forward(*inputs)
        finally:
            self.guard.allowed = False


class OperatorGuard(TorchDispatchMode):
    """Recorder of the operators outside of captured graphs, and of the graphs that are called."""

    def __init__(self) -> None:
        super().__init__()
        self.allowed = False
        self.called: list[int] = []
        self.outside: list[str] = []

    def __torch_dispatch__(
        self, operator: Any, types: Any, arguments: tuple[Any, ...] = (), keywords: dict[str, Any] | None = None
    ) -> Any:
        """Record one operator."""
        name = str(operator.overloadpacket).rsplit(".", 1)[-1]
        if not self.allowed and name not in READS:
            self.outside.append(name)
        return operator(*arguments, **(keywords or {}))


def captured(exercise: Exercise) -> tuple[list[torch.fx.GraphModule], Record]:
    """The graphs of the exercise's function, in the order in which its hidden calls capture them."""
    graphs: list[torch.fx.GraphModule] = []

    def backend(module: torch.fx.GraphModule, inputs: object) -> Callable[..., Any]:
        graphs.append(module)
        return module.forward

    record = attempt.trace(exercise.reference_object("f"), exercise.arguments(), backend=backend)
    return graphs, record


def facts(exercise: Exercise) -> str:
    """The captured graphs as code."""
    graphs, _ = captured(exercise)
    shown = [f"# graphs[{number}]\n{graph.code.strip()}" for number, graph in enumerate(graphs)]
    return "The captured graphs:\n\n```python\n" + "\n\n".join(shown) + "\n```"


def check(exercise: Exercise, answer: Any) -> tuple[str, Record | None]:
    """Check for the result and output of the function, by calls of its graphs without any other operator."""
    function = attempt.expect_function(answer, exercise.answer)
    graphs, record = captured(exercise)
    original = exercise.reference_object("f")
    for number, arguments in enumerate(exercise.arguments(), 1):
        guard = OperatorGuard()
        given = [CapturedGraph(index, graph, guard) for index, graph in enumerate(graphs)]
        expected = attempt.attempt(original, copy.deepcopy(arguments))
        copied = copy.deepcopy(arguments)
        with guard:
            actual = attempt.attempt(function, (*copied, given))
        mine = Outcome(actual.result, actual.printed, actual.arguments[:-1])
        if guard.outside:
            raise Rejection(f"it executes `{guard.outside[0]}` itself. Operators are the graphs' part.", record)
        repeated = [index for index in guard.called if guard.called.count(index) > 1]
        if repeated:
            raise Rejection(
                f"it calls graphs[{repeated[0]}] {guard.called.count(repeated[0])} times. Once is enough.", record
            )
        expect_same_outcome(mine, expected, f"call {number}", prints=True)
    return "the graphs and your program do what the function does.", record
