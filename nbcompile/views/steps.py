"""Steps of the symbolic interpreter, instruction by instruction, forwards and backwards.

    step 4 of 9   f, line 2   BINARY_OP *      |====o=====|      stack   TensorVariable(), ConstantVariable(2)
    y = x * 2                                                    locals  x = TensorVariable()
                                                                 guards  TENSOR_MATCH L['x']      graph  l_x_: an input

With the script a slider walks through the steps and shows the state at each; without it the table shows the effect of
each instruction, and later iterations of a loop are one row.

In torch: TORCH_LOGS="+dynamo" prints `TRACE ...` lines. Read next: nbcompile/views/static/steps.js
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from nbcompile.record.model import CompiledFrame, Step
from nbcompile.views import facts
from nbcompile.views.markup import Limits, chip, code, row, section, table, tag
from nbcompile.views.what_if import Pool, as_script

PASSES = 2
"""Number of iterations of a loop that are shown in full."""


@dataclass(frozen=True, slots=True)
class StepRow:
    """A row of the table: one step, or the later iterations of a loop."""

    first: int
    steps: tuple[Step, ...]

    @property
    def is_loop(self) -> bool:
        """True if it summarises iterations that repeat earlier ones."""
        return len(self.steps) > 1


def render(frame: CompiledFrame, limits: Limits) -> Markup | None:
    """The steps of a frame; None where they were not recorded."""
    if not frame.steps:
        return None
    rows, more = limits.cut(list(summarised(frame.steps)))
    head = ("step", "line", "instruction", "what it added")
    listing = table("What each instruction did", head, [_row(each) for each in rows])
    data = tag("script", Markup(as_script(packed(frame))), type="application/json")
    about = f"{facts.count(len(frame.steps), 'instruction')} of the symbolic interpreter"
    return section(
        "steps", "Steps", tag("div", listing, more, data, class_="n-steps"), about=about, figures="steps", is_open=True
    )


def summarised(steps: tuple[Step, ...]) -> Iterator[StepRow]:
    """The steps in order, with the later iterations of loops combined."""
    visits: dict[tuple[str, int, int], int] = {}
    repeats: list[Step] = []
    for index, step in enumerate(steps):
        position = (step.function, step.depth, step.offset)
        visits[position] = visits.get(position, 0) + 1
        if visits[position] > PASSES:
            repeats.append(step)
            continue
        if repeats:
            yield StepRow(index - len(repeats), tuple(repeats))
            repeats = []
        yield StepRow(index, (step,))
    if repeats:
        yield StepRow(len(steps) - len(repeats), tuple(repeats))


def _row(shown: StepRow) -> Markup:
    step, last = shown.steps[0], shown.first + len(shown.steps)
    number = f"{shown.first + 1}" if not shown.is_loop else f"{shown.first + 1}-{last}"
    added = (text for each in shown.steps for text in (*each.nodes, *each.guards))
    what = code(facts.shortened(added, 4)) if not shown.is_loop else facts.shortened(added, 4)
    if shown.is_loop:
        lines = sorted({each.line for each in shown.steps})
        instruction: Any = chip(f"{len(shown.steps)} more steps: the loop continues", "info")
        return row(tag("th", number), f"{lines[0]}-{lines[-1]}", instruction, what)
    where = f"{step.line}" if not step.depth else f"{step.function}:{step.line}"
    indent = "\N{NO-BREAK SPACE}" * 2 * step.depth
    return row(tag("th", number), where, code(f"{indent}{step.opcode} {step.argument}".rstrip()), what)


def packed(frame: CompiledFrame) -> dict[str, Any]:
    """Data of the script: each text and each list of texts once, each step as indices."""
    texts, lists = Pool(), Pool()

    def several(words: tuple[str, ...]) -> int:
        return lists.add([texts.add(in_words(text)) for text in words])

    steps = [
        [texts.add(step.function), step.depth, texts.add(f"{step.opcode} {step.argument}".rstrip()), step.line,
         texts.add(step.text), several(step.stack), several(step.locals), several(step.guards), several(step.nodes)]
        for step in frame.steps
    ]  # fmt: skip
    broken = [f"{each.title}" for each in frame.breaks]
    return {"texts": texts.items, "lists": lists.items, "steps": steps, "end": broken[0] if broken else ""}


def in_words(value: str) -> str:
    """A value of the interpreter; an unused input has its source as its name."""
    name, _, rest = value.partition(" = ")
    return f"{name} (input)" if rest == _UNTOUCHED else "an input" if value == _UNTOUCHED else value


_UNTOUCHED = "LazyVariableTracker(unrealized)"


def as_text(frame: CompiledFrame) -> Iterator[str]:
    """Steps as plain text."""
    for shown in summarised(frame.steps):
        step, last = shown.steps[0], shown.first + len(shown.steps)
        added = facts.shortened((text for each in shown.steps for text in (*each.nodes, *each.guards)), 4)
        note = f"  # {added}" if added else ""
        if shown.is_loop:
            yield f"{shown.first + 1:>4}-{last} {len(shown.steps)} more steps: the loop continues{note}"
        else:
            yield (
                f"{shown.first + 1:>4} {step.line:>4}  {'  ' * step.depth}{step.opcode} {step.argument}".rstrip() + note
            )
