"""The record of a trace's steps: for each instruction the stack before it, the guards and the nodes that it added.

    LOAD_FAST x     [LazyVariable(L['x'])]     guards: TENSOR_MATCH L['x']     nodes: x: an input

In torch: torch/_dynamo/symbolic_convert.py (step, its trace log). Read next: step_description.py
"""

from __future__ import annotations

import dataclasses
import linecache

import torch.fx

from nbcompile import config
from nbcompile.capture.guard import Guard
from nbcompile.capture.source import expression
from nbcompile.record.model import Step
from nbcompile.tracing.frame.step_description import describe_argument
from nbcompile.tracing.frame.translator import Translator
from nbcompile.tracing.graph.output_graph import OutputGraph

LAST_STEPS = 20
"""Number of instructions before a break that ``config.verbose`` prints."""
MOST_STEPS = 5000
"""Limit of the record of steps: a longer one does not help the reader."""


class StepRecord:
    """The steps of one trace, recorded if a log or ``config.verbose`` requires them."""

    def __init__(self, output: OutputGraph, recording: bool) -> None:
        self.output = output
        self.steps: list[Step] | None = [] if recording or config.verbose else None
        self._recorded: set[object] = set()
        """Guards and nodes that a step is known to have added."""

    def note_step(self, frame: Translator, depth: int) -> None:
        """Record that one instruction is about to be traced."""
        # Guards and nodes are known only after an instruction ran, which may end in an exception: so the next step, or
        # the end of the trace, completes the step before.
        if self.steps is None or len(self.steps) >= MOST_STEPS:
            return
        self.note_effects()
        instruction, line = frame.current, frame.current.line or 0
        stack, values = frame.describe_step(), frame.describe_locals()
        text = linecache.getline(frame.code.co_filename, line).strip()
        self.steps.append(
            Step(
                frame.code.co_name,
                depth,
                instruction.offset,
                instruction.opcode,
                describe_argument(instruction),
                line,
                stack,
                text,
                values,
            )
        )

    def note_effects(self) -> None:
        """Record the guards and the nodes that the step before added."""
        if not self.steps:
            return
        # A difference of sets, since nodes may also be erased, and inputs are inserted before nodes
        # that are already there.
        guards = [each for key, each in self.output.guards.items() if key not in self._recorded]
        nodes = [each for each in self.output.graph.nodes if each.name not in self._recorded and each.op != "output"]
        self._recorded |= {*(key for key in self.output.guards), *(each.name for each in nodes)}
        if guards or nodes:
            self.steps[-1] = dataclasses.replace(
                self.steps[-1], guards=tuple(map(_guard_text, guards)), nodes=tuple(map(_node_text, nodes))
            )

    def last_steps(self) -> tuple[str, ...]:
        """The last instructions, shown if config.verbose is set."""
        if self.steps is None or not config.verbose:
            return ()
        return tuple(
            f"{step.function}:{step.line}  {step.opcode} {step.argument} [{', '.join(step.stack)}]"
            for step in self.steps[-LAST_STEPS:]
        )


def _guard_text(guard: Guard) -> str:
    return f"{guard.kind.value} {expression(guard.source) if guard.source is not None else ''}".strip()


def _node_text(node: torch.fx.Node) -> str:
    if node.op == "placeholder":
        return f"{node.name}: an input"
    target = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
    return f"{node.name} = {target}({', '.join(map(str, node.args))})"
