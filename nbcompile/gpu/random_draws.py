"""Random tensors as arguments of a plan: they are drawn before a recorded graph runs, as a replay draws nothing.

    without_draws(plan, targets)                aten.rand(4, 4) inside becomes one more argument, and a Draw
    NotDrawable("aten.multinomial.default")     what is drawn depends on a tensor of the graph

The generator is torch's, so that numbers are eager mode's, and its offset advances with every replay.
``native_dropout`` is drawn for a tensor of ones and multiplied: in float32 and float64 that is the same number.

In torch: torch/csrc/cuda/CUDAGeneratorImpl.cpp (offsets that a graph reads). Read next: nbcompile/gpu/cuda_graphs.py
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch

from nbcompile.ir.emitted import (
    AllocateSlot,
    AtSlot,
    Call,
    Convolve,
    ExternResult,
    FreeSlot,
    Launch,
    LaunchPlan,
    Multiply,
    RuntimeSize,
    Step,
    TensorShape,
    ViewSlot,
)

aten = torch.ops.aten
STEPS = (AllocateSlot, Launch, FreeSlot, ViewSlot, Call, Multiply, Convolve)
OF_A_LAYOUT = frozenset(
    {
        aten.bernoulli.p, aten.rand_like.default, aten.randn_like.default, aten.randint_like.default,
        aten.randint_like.low_dtype,
    }
)  # fmt: skip
"""Operators that read the sizes, strides and type of their tensor, and not its elements."""


@dataclass(frozen=True, slots=True)
class DrawnTensor:
    """One random tensor."""

    path: tuple[int, ...]
    """Path of the item in the operator's result."""
    size: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    gpu: int

    def buffer(self) -> torch.Tensor:
        """Memory for it."""
        return torch.empty_strided(self.size, self.stride, dtype=self.dtype, device=torch.device("cuda", self.gpu))


@dataclass(frozen=True, slots=True)
class Like:
    """Argument of an operator that reads a tensor's layout, or multiplies by it."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    gpu: int
    ones: bool = False

    def tensor(self) -> torch.Tensor:
        """Allocate a tensor of this size; filled with ones if it has to be."""
        created = torch.empty_strided(self.size, self.stride, dtype=self.dtype, device=torch.device("cuda", self.gpu))
        return created.fill_(1) if self.ones else created


@dataclass(frozen=True, slots=True)
class Draw:
    """A random operator that is called before each replay, as eager mode calls it."""

    target: Callable[..., Any]
    arguments: tuple[Any, ...]
    keywords: tuple[tuple[str, Any], ...]
    results: tuple[DrawnTensor, ...]

    def fill(self, buffers: Sequence[torch.Tensor]) -> None:
        """Draw anew."""
        given = [value.tensor() if isinstance(value, Like) else value for value in self.arguments]
        result = self.target(*given, **dict(self.keywords))
        for row, buffer in zip(self.results, buffers, strict=True):
            item = result
            for at in row.path:
                item = item[at]
            buffer.copy_(item)


class NotDrawable(Exception):
    """An operator whose random numbers cannot be drawn before the graph runs."""


def is_random(target: Any) -> bool:
    """Return whether an operator draws random numbers."""
    return torch.Tag.nondeterministic_seeded in getattr(target, "tags", ())


def draws(target: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> bool:
    """Return whether a call draws random numbers: attention without dropout draws none."""
    return is_random(target) and _dropout_of(target, arguments, keywords) != 0


def _dropout_of(target: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """Share that a call drops; None for an operator without such an argument."""
    for at, argument in enumerate(target._schema.arguments):
        if argument.name == "dropout_p":
            given = arguments[at] if at < len(arguments) else argument.default_value
            return keywords.get(argument.name, given)
    return None


@dataclass(frozen=True, slots=True)
class Drawn:
    """A plan whose random tensors are its last arguments."""

    plan: LaunchPlan
    draws: tuple[Draw, ...]
    more_externs: tuple[tuple[str, Any], ...] = ()
    """Operators that the plan calls in addition, by name."""


def without_draws(plan: LaunchPlan, targets: Mapping[str, Any]) -> Drawn:
    """The plan where random tensors are arguments, and how to draw each.

    Raises:
        NotDrawable: some cannot be drawn before.
    """
    if not any(is_random(target) for target in targets.values()):
        return Drawn(plan, ())
    return _Hoister(plan, targets).hoisted()


class _Hoister:
    """Takes the random calls out of a plan, one by one."""

    def __init__(self, plan: LaunchPlan, targets: Mapping[str, Any]) -> None:
        self.plan = plan
        self.targets = targets
        self.shapes = shapes_of(plan)
        self.count = plan.slots
        self.slots: list[int] = []
        self.draws: list[Draw] = []
        self.more: dict[str, Any] = {}

    def hoisted(self) -> Drawn:
        steps: list[Step] = []
        for step in self.plan.steps:
            if isinstance(step, Call) and draws(self.targets[step.extern], step.arguments, dict(step.keywords)):
                steps += self._draw(step, self.targets[step.extern])
            else:
                steps.append(step)
        # The tensor is an argument now: its memory belongs to the recording, and lives as long.
        kept = tuple(step for step in steps if not (isinstance(step, FreeSlot) and step.slot in self.slots))
        shapes = [TensorShape(row.dtype, row.size, row.stride, row.gpu) for draw in self.draws for row in draw.results]
        plan = replace(self.plan, steps=kept, slots=self.count)
        return Drawn(with_arguments(plan, self.slots, shapes), tuple(self.draws), tuple(self.more.items()))

    def _draw(self, step: Call, target: Any) -> list[Step]:
        """The steps that are left of a random call."""
        if target is aten.native_dropout.default:
            return self._dropout(step)
        given = step.arguments
        # rand_like(x) reads x's layout only, so another tensor of that layout is used before x exists.
        if target in OF_A_LAYOUT:
            given = (self._like(given[0]), *given[1:])
        # What is drawn depends on a tensor of the graph (multinomial), or its size on the call.
        if _depends((given, step.keywords)) or any(_depends(_fixed(row.shape)) for row in step.results):
            raise NotDrawable(str(target))
        self.slots += [row.slot for row in step.results]
        self.draws.append(
            Draw(target, given, step.keywords, tuple(_drawn(row.path, row.shape) for row in step.results))
        )
        return []

    def _dropout(self, step: Call) -> list[Step]:
        results = {row.path: row for row in step.results}
        source, probability, train = step.arguments
        value, mask = results.get((0,)), results.get((1,))
        # In 16 bits the factor 1 / (1 - p) would be rounded before the product, and once more after
        # it; eager mode's kernel rounds once. Without training nothing is drawn.
        if train is not True or value is None or value.shape.dtype not in (torch.float32, torch.float64):
            raise NotDrawable("aten.native_dropout.default")
        scale, self.count = self.count, self.count + 1
        rows = [((0,), scale, value.shape), *([((1,), mask.slot, mask.shape)] if mask is not None else [])]
        if any(_depends(_fixed(shape)) for _, _, shape in rows):
            raise NotDrawable("aten.native_dropout.default")
        self.slots += [slot for _, slot, _ in rows]
        #     eager       dropout(x) = x * mask * scale
        #     here        dropout(1) = mask * scale, drawn before; and x * that, inside of the graph
        ones = Like(_fixed(value.shape)[0], _fixed(value.shape)[1], value.shape.dtype, value.shape.gpu, ones=True)
        drawn = tuple(_drawn(path, shape) for path, _, shape in rows)
        self.draws.append(Draw(aten.native_dropout.default, (ones, probability, True), (), drawn))
        self.more[SCALE] = aten.mul.Tensor
        return [Call(SCALE, (source, AtSlot(scale)), (), (replace(value, path=()),))]

    def _like(self, argument: Any) -> Like:
        shape = self.shapes.get(argument.slot) if isinstance(argument, AtSlot) else None
        if shape is None:
            raise NotDrawable("a random tensor like another one of unknown layout")
        size, stride = _fixed(shape)
        return Like(size, stride, shape.dtype, shape.gpu)


SCALE = "extern_dropout"


def _drawn(path: tuple[int, ...], shape: TensorShape) -> DrawnTensor:
    size, stride = _fixed(shape)
    return DrawnTensor(path, size, stride, shape.dtype, shape.gpu)


def _fixed(shape: TensorShape) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Sizes and strides, which have to be the same in every call."""
    if _depends((shape.size, shape.stride)):
        raise NotDrawable("a random tensor of dynamic size")
    return shape.size, shape.stride  # type: ignore[return-value]


def _depends(value: Any) -> bool:
    """Return whether a value belongs only to this call."""
    if isinstance(value, (list, tuple)):
        return any(map(_depends, value))
    return isinstance(value, (AtSlot, RuntimeSize))


def shapes_of(plan: LaunchPlan) -> dict[int, TensorShape]:
    """Layout of the tensor in each slot that has one from its beginning."""
    shapes = {slot: shape for slot, shape in enumerate(plan.inputs) if shape is not None}
    shapes |= {len(plan.inputs) + at: shape for at, (_, shape) in enumerate(plan.attributes)}
    for step in plan.steps:
        match step:
            case AllocateSlot(slot, shape):
                shapes[slot] = shape
            case ViewSlot(slot, source, (size, stride, _)) if source in shapes:
                shapes[slot] = replace(shapes[source], size=size, stride=stride)
            case Call(results=results):
                shapes |= {row.slot: row.shape for row in results}
            case Convolve(result=result):
                shapes[result.slot] = result.shape
    return shapes


def with_arguments(plan: LaunchPlan, slots: Sequence[int], shapes: Sequence[TensorShape]) -> LaunchPlan:
    """The plan with further arguments, which come in these slots; all slots are numbered again."""
    #     before    inputs | constants, buffers, results, drawn tensors among them
    #     after     inputs | drawn tensors | constants, buffers, results
    # A plan's arguments are in its first slots, in order.
    given = len(plan.inputs)
    order = [*range(given), *slots, *(slot for slot in range(given, plan.slots) if slot not in slots)]
    numbers = {slot: number for number, slot in enumerate(order)}
    outputs = tuple(row if row.slot is None else replace(row, slot=numbers[row.slot]) for row in plan.outputs)
    steps = tuple(_renumbered(step, numbers) for step in plan.steps)
    return replace(plan, inputs=(*plan.inputs, *shapes), steps=steps, outputs=outputs)


def _renumbered(part: Any, numbers: Mapping[int, int]) -> Any:
    """A step, or a part of one, with other numbers of slots."""
    if isinstance(part, (list, tuple)) and type(part) in (list, tuple):
        return type(part)(_renumbered(item, numbers) for item in part)
    # Sizes, names and numbers have no slots.
    if not isinstance(part, (*STEPS, ExternResult, AtSlot)):
        return part
    changed: dict[str, Any] = {}
    for known in fields(part):
        value = getattr(part, known.name)
        if known.name in ("slot", "source"):
            changed[known.name] = numbers[value]
        elif known.name == "slots":
            changed[known.name] = tuple(numbers[slot] for slot in value)
        elif known.name in ("arguments", "keywords", "results", "result"):
            changed[known.name] = _renumbered(value, numbers)
    return replace(part, **changed)
