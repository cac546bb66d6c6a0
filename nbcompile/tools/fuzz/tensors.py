"""Tensor programs: dtypes, layouts, views, mutations, special values; many of them in one compiled function.

    def p0(a, b):
        v0 = a.mT
        v1 = v0 + b
        v1.add_(2)
        return a, b, v0, v1

A program is generated while it runs: a step that raises in eager mode is drawn again. Templates come from
``tables/tensors.txt`` and from torch's own database of operators (database.py). One C++ compile takes a second and
serves all programs of a batch, with all their sets of values: dtypes, sizes and strides are the same, so the code is,
too. A batch whose results differ is halved until single programs are found. A program that falls back to eager would
make the whole batch fall back: such programs have batches of their own.

In torch: nothing. Read next: nbcompile/tools/fuzz/layouts.py
"""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from nbcompile.tools.fuzz import batches, database, grammar
from nbcompile.tools.fuzz.excluded import excluded
from nbcompile.tools.fuzz.layouts import DTYPES, FLOATS, LAYOUTS, OTHERS, make_tensor
from nbcompile.tools.fuzz.program import Program

BATCH = 40
SHAPES = (
    (),
    (0,),
    (1,),
    (5,),
    (3, 4),
    (2, 0),
    (4, 1),
    (1, 7),
    (2, 3, 4),
    (2, 1, 3),
    (2, 3, 4, 5),
    (1, 2, 6, 6),
    (33,),
    (3, 17),
)
TABLES = grammar.read("tensors.txt")
PRELUDE = "import torch\nfrom nbcompile.tools.fuzz.layouts import make_tensor\n"
TRIES = 8
NOT_INVERTED = re.compile(r"\b(expand\w*|broadcast_\w+|meshgrid|unfold)\(")
FROM_DATABASE = 0.3
SPECIAL = {True: 0.35, False: 0.08}
"""Probability of an input with special values, in exact programs and in others."""
VALUE_SETS = 8
"""Sets of values for each program."""
MOST_ELEMENTS = 2000


def generate(seed: str) -> Program:
    """A batch of programs that are alike in two ways: all exact or none, all run by generated code or none."""
    rng = random.Random(seed)
    exact, captured = rng.random() < 0.6, rng.random() < 0.05
    size = BATCH // 4 if captured else BATCH
    functions = [_playable(rng, exact, captured) for _ in range(size)]
    source = batches.module([(text, f"[{', '.join(map(_arguments, given))}]") for text, given in functions], PRELUDE)
    sets = sum(len({*map(_arguments, given)}) for _, given in functions)
    dynamic = True if rng.random() < 0.1 else None
    return Program("tensor", seed, source, "inductor", dynamic, size=size, value_sets=sets, approximate=not exact)


def _arguments(given: Sequence[_Input]) -> str:
    return f"({', '.join(map(str, given))},)"


def _playable(rng: random.Random, exact: bool, captured: bool) -> tuple[str, list[list[_Input]]]:
    """A program that runs in eager mode from the start, and the sets of its inputs.

    A step that failed may have changed the inputs of later steps.
    """
    while True:
        author = _Author(rng, exact)
        text = author.written()
        scope: dict[str, Any] = {"torch": torch, "make_tensor": make_tensor}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                separate = runs_by_operator(author.lines, author.drawn(author.inputs), scope, author.returned)
        except Exception:  # noqa: BLE001, S112 - another one, then
            continue
        if captured == separate:
            return text, [author.inputs, *(author.revalued() for _ in range(VALUE_SETS - 1))]


def runs_by_operator(
    lines: Sequence[str], tensors: dict[str, torch.Tensor], scope: dict[str, Any], returned: Sequence[str]
) -> bool:
    """Run a program's statements; return whether a graph with them falls back to eager.

    It does if sizes or strides of an input change in place, if a written tensor overlaps itself or is a view that
    AOTAutograd does not invert, or if two results have one memory and different dtypes.

    Args:
        lines: the statements.
        tensors: the inputs, by name.
        scope: other names that the statements use.
        returned: names of the results.
    """
    before = {name: _layout(tensor) for name, tensor in tensors.items()}
    values: dict[str, Any] = dict(tensors)
    watched = [tensor for tensor in tensors.values() if _shares_elements(tensor)]
    for line in lines:
        # A tensor and its views share one version counter: it shows a write through any of them.
        versions = [tensor._version for tensor in watched]
        partial = "fill_diagonal_" in line and any(map(_is_part, values.values()))
        values = _after(line, scope, values)
        if partial or versions != [tensor._version for tensor in watched]:
            return True
        watched += _not_inverted(values.get(line.partition(" = ")[0]), line)
    results = [*map(values.get, returned), *(tensor for tensor in tensors.values() if tensor._version)]
    return _has_unlike_dtypes(results) or any(_layout(tensor) != before[name] for name, tensor in tensors.items())


def _after(line: str, scope: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    space = scope | values
    exec(line, space)
    return {name: value for name, value in space.items() if name not in scope and name != "__builtins__"}


def _not_inverted(value: object, line: str) -> list[torch.Tensor]:
    """The value of a statement, if it is a view whose writes AOTAutograd would add up."""
    return [value] if isinstance(value, torch.Tensor) and value._is_view() and NOT_INVERTED.search(line) else []


def _is_part(value: object) -> bool:
    return isinstance(value, torch.Tensor) and (value._is_view() or not value.is_contiguous())


def _has_unlike_dtypes(results: Sequence[object]) -> bool:
    """Return whether two results have one memory and different dtypes; a mutated input is a result, too."""
    dtypes: dict[int, torch.dtype] = {}
    tensors = [value for value in results if isinstance(value, torch.Tensor)]
    return any(dtypes.setdefault(one.untyped_storage()._cdata, one.dtype) != one.dtype for one in tensors)


def _layout(tensor: torch.Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return tuple(tensor.shape), tuple(tensor.stride())


def _shares_elements(tensor: torch.Tensor) -> bool:
    return any(step == 0 and size > 1 for size, step in zip(tensor.shape, tensor.stride(), strict=True))


@dataclass(frozen=True, slots=True)
class _Input:
    """Arguments of ``make_tensor``."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    layout: str
    seed: int
    special: bool

    def __str__(self) -> str:
        return f"make_tensor({self.shape}, {self.dtype}, {self.layout!r}, {self.seed}, {self.special})"


@dataclass
class _Author:
    rng: random.Random
    exact: bool
    lines: list[str] = field(default_factory=list)
    inputs: list[_Input] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    returned: list[str] = field(default_factory=list)

    def written(self) -> str:
        """The text of the function."""
        rng = self.rng
        for _ in range(rng.randint(1, 2)):
            self.input(rng.choice(SHAPES), self.dtype())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(rng.randint(1, 5)):
                self.step()
        names = [chr(97 + k) for k in range(len(self.inputs))]
        self.returned = returned = [name for name in self.values if name not in names][-3:] or names
        body = "".join(f"    {line}\n" for line in self.lines)
        return f"def p({', '.join(names)}):\n{body}    return {', '.join(returned)},\n"

    def drawn(self, inputs: Sequence[_Input]) -> dict[str, Any]:
        """Tensors by name."""
        tensors = [make_tensor(one.shape, one.dtype, one.layout, one.seed, one.special) for one in inputs]
        return {chr(97 + number): tensor for number, tensor in enumerate(tensors)}

    def layouts(self, names: Sequence[str]) -> list[list[tuple[tuple[int, ...], tuple[int, ...]]]]:
        """Sizes and strides of values, which may be tuples of tensors."""
        values = [self.values[name] for name in names]
        return [[*map(_layout, value if isinstance(value, (tuple, list)) else (value,))] for value in values]

    def revalued(self) -> list[_Input]:
        """Inputs with other values, if eager mode runs all steps with them and no known difference; else the same."""
        share = SPECIAL[self.exact] * 2
        for _ in range(TRIES // 2):
            inputs = [
                replace(one, seed=self.rng.randrange(10000), special=self.rng.random() < share) for one in self.inputs
            ]
            other = _Author(self.rng, self.exact, values=self.drawn(inputs))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                runs = all(not excluded(line, other.values) and other.ran(line) for line in self.lines)
                if runs and other.layouts(self.returned) == self.layouts(self.returned):
                    return inputs
        return self.inputs

    def dtype(self) -> torch.dtype:
        roll = self.rng.random()
        table = FLOATS[:2] if roll < 0.5 else FLOATS if roll < 0.6 else OTHERS if roll > 0.9 else DTYPES
        if self.exact and roll < 0.6:
            table = FLOATS[:2]
        return self.rng.choice(table)

    def input(self, shape: tuple[int, ...], dtype: torch.dtype) -> str:
        """Add an input, which is read before all statements."""
        name, rng = chr(97 + len(self.inputs)), self.rng
        drawn = _Input(shape, dtype, rng.choice(LAYOUTS), rng.randrange(10000), rng.random() < SPECIAL[self.exact])
        self.inputs.append(drawn)
        self.values[name] = make_tensor(drawn.shape, drawn.dtype, drawn.layout, drawn.seed, drawn.special)
        return name

    def step(self) -> None:
        for _ in range(TRIES):
            text = self.proposed()
            if text is not None and not excluded(text, self.values) and self.ran(text):
                return

    def proposed(self) -> str | None:
        rng = self.rng
        if not self.exact and rng.random() < FROM_DATABASE and len(self.inputs) < 8:
            return self.of_the_database()
        names = [name for name, value in self.values.items() if isinstance(value, torch.Tensor)]
        # One operand is a recent value, so that steps build on one another.
        one, other = rng.choice(names[-3:]), rng.choice(names)
        if rng.random() < 0.2:
            table = "CHANGE"
        else:
            table = "EXACT" if self.exact or rng.random() < 0.4 else "INEXACT"
        text = rng.choice(TABLES[table]).replace("<A>", one).replace("<B>", other)
        for name in "IDS":
            while f"<{name}>" in text:
                text = text.replace(f"<{name}>", rng.choice(TABLES[name]), 1)
        text = text.replace("<DT>", rng.choice(TABLES["DT"]))
        return text if table == "CHANGE" else f"v{len(self.lines)} = {text}"

    def of_the_database(self) -> str | None:
        call = database.drawn(self.rng)
        if call is None:
            return None
        names = []
        for shape, dtype in call.tensors:
            same = [
                n
                for n, v in self.values.items()
                if isinstance(v, torch.Tensor) and v.shape == shape and v.dtype == dtype
            ]
            names.append(self.rng.choice(same) if same and self.rng.random() < 0.7 else self.input(shape, dtype))
        return f"v{len(self.lines)} = {call.text.format(*names)}"

    def ran(self, text: str) -> bool:
        """Run a statement in eager mode; return whether that succeeded."""
        scope = dict(self.values) | {"torch": torch}
        try:
            exec(text, scope)
        except Exception:  # noqa: BLE001 - no step for these values
            return False
        new = {name: value for name, value in scope.items() if name not in ("torch", "__builtins__")}
        if not all(_is_usable(value) for value in new.values()):
            return False
        self.values |= new
        self.lines.append(text)
        return True


def _is_usable(value: object) -> bool:
    parts = value if isinstance(value, (tuple, list)) else (value,)
    return all(
        isinstance(part, torch.Tensor) and part.layout == torch.strided and part.numel() <= MOST_ELEMENTS
        for part in parts
    )
