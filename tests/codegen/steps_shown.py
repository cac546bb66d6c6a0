"""The steps in a wrapper's text, parsed from its Python, to be compared with the plan that runs.

Each statement takes its steps off the plan, whose slots get the statement's names; what does not fit is an assertion.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nbcompile.ir.emitted import AllocateSlot, Call, Convolve, FreeSlot, Launch, LaunchPlan, Multiply, Step, ViewSlot


def compare(text: str, plan: LaunchPlan) -> None:
    """Assert that the text lists all steps of the plan, in order, over the same tensors."""
    reader = _Reader(plan)
    (function,) = ast.parse(text).body
    assert isinstance(function, ast.FunctionDef)
    for statement in function.body:
        reader.statement(statement)
    left = next(reader.steps, None)
    assert left is None, f"not in the text: {left}"


class _Reader:
    """A reader of statements in order, which removes their steps from the plan."""

    def __init__(self, plan: LaunchPlan) -> None:
        self.plan = plan
        self.steps: Iterator[Step] = iter(plan.steps)
        self.slots: dict[str, int] = {}
        self.results: dict[str, list[int]] = {}
        """Slots of the results of a call, until they are named."""

    def take(self, kind: type[Step]) -> Step:
        step = next(self.steps, None)
        assert isinstance(step, kind), f"{step} is no {kind.__name__}"
        return step

    def statement(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Assign([ast.Tuple(names)], ast.Name("args")):
                self.slots.update((name.id, at) for at, name in enumerate(names))
            case ast.Assign([ast.Name(name)], ast.Call(ast.Name("attribute"))):
                self.slots[name] = len(self.slots)
            case ast.Assign([ast.Name(name)], ast.Call(ast.Name("empty_strided"))):
                self.slots[name] = self.take(AllocateSlot).slot
            case ast.Assign([ast.Name(name)], ast.Name(old)):
                self.slots[name] = self.slots.pop(old)
            case ast.Assign([ast.Name(name)], ast.Call(ast.Name("take_over"), [ast.Name(old), *_])):
                self.taken_over(name, old)
            case ast.Assign([ast.Name(name)], ast.Call(ast.Name("adopt"), [item, *_])):
                self.slots[name] = self.results[
                    next(node.id for node in ast.walk(item) if isinstance(node, ast.Name))
                ].pop(0)
            case ast.Expr(ast.Call(ast.Name(name)) as call) | ast.Assign(value=ast.Call(ast.Name(name)) as call) if (
                name.endswith("_target")
            ):
                self.called(name.removesuffix("_target"), call)
            case ast.Expr(ast.Call(ast.Name(name), arguments)):
                launch = self.take(Launch)
                named = [argument.id for argument in arguments[: len(launch.slots)]]
                assert (launch.kernel, [*launch.slots]) == (name, [self.slots[one] for one in named])
            case ast.Delete([ast.Name(name)]):
                # The whole result of a call, or a name whose memory another buffer reuses, has no slot.
                assert not self.results.pop(name, [])
                if name in self.slots:
                    assert self.take(FreeSlot).slot == self.slots.pop(name)

    def taken_over(self, name: str, old: str) -> None:
        freed, step = self.slots.pop(old), next(self.steps)
        if isinstance(step, ViewSlot):
            assert step.source == freed
            self.slots[name] = step.slot
            step = self.take(FreeSlot)
        else:
            self.slots[name] = self.take(AllocateSlot).slot
        assert isinstance(step, FreeSlot) and step.slot == freed

    def called(self, extern: str, call: ast.Call) -> None:
        views = [node for node in ast.walk(call) if isinstance(node, ast.Call) and ast.unparse(node.func) == "view_of"]
        made = [self.take(ViewSlot) for _ in views]
        assert sorted(step.source for step in made) == sorted(self.slots[node.args[0].id] for node in views)
        step = next(self.steps)
        allocated = step.slot if isinstance(step, AllocateSlot) else None
        step = step if allocated is None else self.take(Multiply)
        assert isinstance(step, (Call, Multiply, Convolve)) and step.extern == extern
        if isinstance(step, Multiply):
            assert step.slots[0] == allocated
        used = {*getattr(step, "slots", ())[allocated is not None :], *_slots_in(getattr(step, "arguments", ()))}
        used |= set(_slots_in(getattr(step, "keywords", ())))
        names = {node.id for node in ast.walk(call) if isinstance(node, ast.Name)}
        shown = {self.slots[name] for name in names if name in self.slots}
        assert used - {view.slot for view in made} | {view.source for view in made} == shown
        results = getattr(step, "results", ()) or ((step.result,) if isinstance(step, Convolve) else ())
        self.results[extern] = [allocated] if allocated is not None else [result.slot for result in results]
        assert [self.take(FreeSlot).slot for _ in views] == [view.slot for view in made]


def _slots_in(value: object) -> Iterator[int]:
    if hasattr(value, "slot"):
        yield value.slot
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _slots_in(item)
