"""Planted compiler faults, each with a program that it breaks, and the decision that must be named."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from nbcompile.aot import compile as aot_compile
from nbcompile.backends import aten_graph
from nbcompile.driver import stages as driver
from nbcompile.ir.expr import apply
from nbcompile.lowering.registry import LOWERINGS
from nbcompile.scheduling import fuse, plan
from nbcompile.tools.diagnose.outcome import Outcome

aten = torch.ops.aten


@dataclass(frozen=True)
class Fault:
    name: str
    plant: Callable[[Any], None]
    """Takes pytest's monkeypatch."""
    program: Callable[..., Any]
    subsystem: str
    """The finest one that matters."""
    decision: str
    """What its finding has to name."""
    rung: str
    """The first rung of the ladder that differs."""
    grad: bool = False
    predicate: Callable[[Outcome], str] | None = None
    """What is wrong, where it is no difference from eager mode."""


def chain(x):
    y = (x.sin() + 1).relu()
    z = torch.sigmoid(y * 3) - x.abs()
    return (z.exp().clamp(max=4) / 2).sum(-1)


def broken(x):
    y = x.cos() * 2
    print(end="")
    return y.tanh() + y.abs()


def resumed(x):
    y = x.cos() * 2
    z = y.abs() + 1
    print(end="")
    if len(z) > 3:
        z = z.tanh()
    return z.exp() - y


def rows(x):
    return torch.softmax(x, -1) + x.amax(-1, keepdim=True)


def twice(x):
    return (x.sin() * x.sin() + x.cos()).sum()


def swapped(wrong: Any, right: Any) -> Callable[[Any], None]:
    """An operator that is lowered as another one."""
    other = LOWERINGS[right]
    return lambda patch: patch.setitem(LOWERINGS, wrong, lambda build, *args, **kwargs: other(build, *args, **kwargs))


def raising(target: Any) -> Callable[[Any], None]:
    """A lowering that raises."""

    def fail(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("planted")

    return lambda patch: patch.setitem(LOWERINGS, target, fail)


def negated(program: Any) -> Any:
    """A program whose last computed buffer is negated."""
    last = max((at for at, buffer in enumerate(program.buffers) if hasattr(buffer, "body")), default=-1)
    if last < 0:
        return program
    buffers = list(program.buffers)
    buffers[last] = dataclasses.replace(buffers[last], body=apply("neg", buffers[last].body))
    return dataclasses.replace(program, buffers=tuple(buffers))


def wrong_pass(position: int) -> Callable[[Any], None]:
    """A wrong pass over programs."""

    def plant(patch: Any) -> None:
        original = plan.PASSES[position]

        def planted(program: Any) -> Any:
            return negated(original(program))

        planted.__name__ = original.__name__
        patch.setattr(plan, "PASSES", (*plan.PASSES[:position], planted, *plan.PASSES[position + 1 :]))

    return plant


def failing_pass(patch: Any) -> None:
    def inline_small(program: Any) -> Any:
        raise RuntimeError("planted")

    patch.setattr(plan, "PASSES", (plan.PASSES[0], inline_small, *plan.PASSES[2:]))


def wrong_recompute(patch: Any) -> None:
    def recompute_in_consumers(program: Any, units: Any) -> Any:
        raise RuntimeError("planted")

    patch.setattr(plan, "recompute_in_consumers", recompute_in_consumers)


def wrong_elimination(patch: Any) -> None:
    def eliminate(joint: Any) -> None:
        (output,) = joint.graph.find_nodes(op="output")
        for node in joint.graph.find_nodes(op="call_function", target=aten.sin.default):
            node.target = aten.cos.default
        joint.recompile()

    patch.setattr(aot_compile.passes, "eliminate_common_subexpressions", eliminate)


def wrong_fusion(patch: Any) -> None:
    original = fuse.join

    def join(group: Any, buffer: Any) -> Any:
        return original(group, dataclasses.replace(buffer, body=apply("neg", buffer.body)))

    patch.setattr(fuse, "join", join)


def failing_fusion(patch: Any) -> None:
    original = fuse.join

    def join(group: Any, buffer: Any) -> Any:
        joined = original(group, buffer)
        joined_names.append(buffer.name)
        return joined

    joined_names: list[str] = []
    kernel = plan.build_kernel

    def build(*args: Any, **kwargs: Any) -> Any:
        if joined_names:
            joined_names.clear()
            raise RuntimeError("planted")
        return kernel(*args, **kwargs)

    patch.setattr(fuse, "join", join)
    patch.setattr(plan, "build_kernel", build)


def failing_code(patch: Any) -> None:
    def generate(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("planted")

    patch.setattr(aten_graph, "generate", generate)


def wrong_code(patch: Any) -> None:
    original = aten_graph.generate

    def generate(*args: Any, **kwargs: Any) -> Any:
        compiled = original(*args, **kwargs)

        def run(arguments: Any) -> Any:
            return [each * 2 if isinstance(each, torch.Tensor) else each for each in compiled(arguments)]

        run._boxed_call = True
        return run

    patch.setattr(aten_graph, "generate", generate)


PAUSE = 0.4
"""Seconds that a slow kernel takes: more than eager mode takes on a busy machine."""


def slow_code(patch: Any) -> None:
    original = aten_graph.generate

    def generate(*args: Any, **kwargs: Any) -> Any:
        compiled = original(*args, **kwargs)

        def run(arguments: Any) -> Any:
            time.sleep(PAUSE)
            return compiled(arguments)

        run._boxed_call = True
        return run

    patch.setattr(aten_graph, "generate", generate)


def is_slow(seen: Outcome) -> str:
    """The predicate of the slow fault."""
    return "slow" if seen.seconds > PAUSE else ""


def failing_frame(patch: Any) -> None:
    original = driver.run_stages

    def stages(frame: Any, *args: Any) -> Any:
        if frame.code.co_name.startswith("torch_dynamo_resume"):
            raise RuntimeError("planted")
        return original(frame, *args)

    patch.setattr(driver, "run_stages", stages)


def wrong_frame(patch: Any) -> None:
    original = driver.compile_graph

    def compile_graph(trace: Any, *args: Any) -> Any:
        compiled = original(trace, *args)
        right = compiled.function
        wrong = None if right is None else lambda *inputs: tuple(each + 1 for each in right(*inputs))
        return dataclasses.replace(compiled, function=wrong)

    patch.setattr(driver, "compile_graph", compile_graph)


FAULTS = (
    Fault("relu as neg", swapped(aten.relu.default, aten.neg.default), chain, "lowering", "relu", "no fusion"),
    Fault("sin as cos", swapped(aten.sin.default, aten.cos.default), chain, "lowering", "sin", "no fusion"),
    Fault("sigmoid as tanh", swapped(aten.sigmoid.default, aten.tanh.default), chain, "lowering", "sigmoid", "no fusion"),
    Fault("abs as neg", swapped(aten.abs.default, aten.neg.default), chain, "lowering", "abs", "no fusion"),
    Fault("exp as sin", swapped(aten.exp.default, aten.sin.default), chain, "lowering", "exp", "no fusion"),
    Fault("sub as add", swapped(aten.sub.Tensor, aten.add.Tensor), chain, "lowering", "sub", "no fusion"),
    Fault("div as mul", swapped(aten.div.Tensor, aten.mul.Tensor), chain, "lowering", "div", "no fusion"),
    Fault("amax as amin", swapped(aten.amax.default, aten.amin.default), rows, "lowering", "amax", "no fusion"),
    Fault("tanh as exp after a break", swapped(aten.tanh.default, aten.exp.default), broken, "lowering", "tanh", "no fusion"),
    Fault("sin raises", raising(aten.sin.default), chain, "lowering", "sin", "no fusion"),
    Fault("exp raises", raising(aten.exp.default), chain, "lowering", "exp", "no fusion"),
    Fault("inlining negates", wrong_pass(1), chain, "pass", "inline_small", "no fusion"),
    Fault("dead code elimination negates", wrong_pass(0), chain, "pass", "eliminate_dead_code", "no fusion"),
    Fault("narrowing negates", wrong_pass(3), rows, "pass", "narrow_count_sums", "no fusion"),
    Fault("inlining raises", failing_pass, chain, "pass", "inline_small", "no lowering"),
    Fault("recomputation raises", wrong_recompute, rows, "pass", "recompute_in_consumers", "no lowering"),
    Fault("common subexpressions are others", wrong_elimination, twice, "pass", "eliminate_common", "decompositions", grad=True),
    Fault("a fused buffer is negated", wrong_fusion, rows, "fusion", "buf", "no passes"),
    Fault("code generation raises", failing_code, chain, "graph", "inference graph", "no lowering"),
    Fault("a resume function fails", failing_frame, resumed, "frame", "torch_dynamo_resume_in_resumed", "capture"),
    Fault("the graph's callable adds one", wrong_frame, chain, "frame", "chain", "capture"),
    Fault("generated code doubles", wrong_code, chain, "graph", "inference graph", "no lowering"),
    Fault("generated code is slow", slow_code, chain, "graph", "inference graph", "no lowering", predicate=is_slow),
)  # fmt: skip


def arguments(fault: Fault) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(3)
    return (torch.randn(6, 24, requires_grad=fault.grad),)
