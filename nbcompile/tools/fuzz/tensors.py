"""Tensor programs: dtypes, layouts, views, mutations, special values; many of them in one compiled function.

    def p0(a, b):
        v0 = a.mT
        v1 = v0 + b
        v1.add_(2)
        return a, b, v0, v1

A program is written while it runs: a step that eager refuses is drawn again. Templates come from ``tables/tensors.txt``
and from torch's own database of operators (database.py). One C++ compile takes a second and serves all programs of a
batch; a batch that differs is halved until single programs are found. One program that has to run operator by operator
would make the whole batch do so: such programs have batches of their own.

In torch: nothing. Read next: nbcompile/tools/fuzz/layouts.py
"""

from __future__ import annotations

import ast
import random
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from nbcompile.tools.fuzz import database, grammar
from nbcompile.tools.fuzz.excluded import excluded
from nbcompile.tools.fuzz.layouts import DTYPES, FLOATS, LAYOUTS, OTHERS, made
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
PRELUDE = "import torch\nfrom nbcompile.tools.fuzz.layouts import made\n"
TRIES = 8
FROM_DATABASE = 0.3
MOST_ELEMENTS = 2000


def generate(seed: str) -> Program:
    """A batch of programs, all exact or all not, all such as generated code can run or none."""
    chance = random.Random(seed)
    exact, captured = chance.random() < 0.6, chance.random() < 0.05
    size = BATCH // 4 if captured else BATCH
    functions = [_playable(chance, exact, captured) for _ in range(size)]
    dynamic = True if chance.random() < 0.1 else None
    return Program("tensor", seed, module(functions), "inductor", dynamic, size=size, approximate=not exact)


def _playable(chance: random.Random, exact: bool, captured: bool) -> tuple[str, str]:
    """A program that eager plays from the start: a step that failed half way may have changed what later ones met."""
    while True:
        text, inputs = _Author(chance, exact).written()
        scope: dict[str, Any] = {"torch": torch, "made": made}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exec(text, scope)
                tensors = eval(inputs, scope)
                before = [_layout(tensor) for tensor in tensors]
                scope["p"](*tensors)
        except Exception:  # noqa: BLE001, S112 - another one, then
            continue
        if captured == any(map(_runs_as_captured, tensors, before)):
            return text, inputs


def _layout(tensor: torch.Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return tuple(tensor.shape), tuple(tensor.stride())


def _runs_as_captured(tensor: torch.Tensor, before: tuple[tuple[int, ...], tuple[int, ...]]) -> bool:
    """Return whether a mutation of an input makes the whole graph, with all programs in it, fall back to eager.

    An input gets other sizes or strides in place, or one is written whose elements share memory.
    """
    shares = any(step == 0 and size > 1 for size, step in zip(*before, strict=True))
    return _layout(tensor) != before or (shares and tensor._version > 0)


def module(functions: list[tuple[str, str]]) -> str:
    """Functions and their inputs, and one function that calls them all."""
    numbers = range(len(functions))
    called = ", ".join(f"p{number}(*inputs[{number}])" for number in numbers)
    given = ", ".join(inputs for _, inputs in functions)
    texts = "\n".join(text.replace("def p(", f"def p{number}(") for number, (text, _) in enumerate(functions))
    play = f"def play(compiled):\n    inputs = [{given}]\n    yield list(zip(compiled(f)(inputs), inputs))\n"
    return f"{PRELUDE}\n{texts}\ndef f(inputs):\n    return [{called}]\n\n{play}"


def halves(program: Program) -> Iterator[Program]:
    """The programs of a batch, as two batches; none of a single one."""
    if program.size > 1:
        middle = program.size // 2
        yield from _batches(program, (range(middle), range(middle, program.size)))


def members(program: Program, numbers: Iterable[int]) -> Iterator[Program]:
    """Programs of a batch, alone."""
    yield from _batches(program, [(number,) for number in numbers])


def _batches(program: Program, choices: Iterable[Sequence[int]]) -> Iterator[Program]:
    tree = ast.parse(program.source)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    given = functions["play"].body[0]
    assert isinstance(given, ast.Assign)
    assert isinstance(given.value, ast.List)
    inputs = [ast.unparse(one) for one in given.value.elts]
    for numbers in choices:
        for number in numbers:
            # As they were written: ``module`` numbers the functions of the new batch.
            functions[f"p{number}"].name = "p"
        texts = [ast.unparse(functions[f"p{number}"]) + "\n" for number in numbers]
        source = module(list(zip(texts, [inputs[number] for number in numbers], strict=True)))
        yield replace(program, source=source, size=len(numbers))


@dataclass
class _Author:
    chance: random.Random
    exact: bool
    lines: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)

    def written(self) -> tuple[str, str]:
        """The text of the function and of its inputs."""
        chance = self.chance
        for _ in range(chance.randint(1, 2)):
            self.input(chance.choice(SHAPES), self.dtype())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(chance.randint(1, 5)):
                self.step()
        names = [chr(97 + k) for k in range(len(self.inputs))]
        returned = [name for name in self.values if name not in names][-3:] or names
        body = "".join(f"    {line}\n" for line in self.lines)
        text = f"def p({', '.join(names)}):\n{body}    return {', '.join(returned)},\n"
        return text, f"({', '.join(self.inputs)},)"

    def dtype(self) -> torch.dtype:
        roll = self.chance.random()
        table = FLOATS[:2] if roll < 0.5 else FLOATS if roll < 0.6 else OTHERS if roll > 0.9 else DTYPES
        if self.exact and roll < 0.6:
            table = FLOATS[:2]
        return self.chance.choice(table)

    def input(self, shape: tuple[int, ...], dtype: torch.dtype) -> str:
        """A new input, read before anything else."""
        name, chance = chr(97 + len(self.inputs)), self.chance
        layout, seed, special = (
            chance.choice(LAYOUTS),
            chance.randrange(10000),
            chance.random() < (0.35 if self.exact else 0.08),
        )
        self.inputs.append(f"made({shape}, {dtype}, {layout!r}, {seed}, {special})")
        self.values[name] = made(shape, dtype, layout, seed, special)
        return name

    def step(self) -> None:
        for _ in range(TRIES):
            text = self.proposed()
            if text is not None and not excluded(text, self.values) and self.ran(text):
                return

    def proposed(self) -> str | None:
        chance = self.chance
        if not self.exact and chance.random() < FROM_DATABASE and len(self.inputs) < 8:
            return self.of_the_database()
        names = [name for name, value in self.values.items() if isinstance(value, torch.Tensor)]
        # One operand is a recent value, so that steps build on one another.
        one, other = chance.choice(names[-3:]), chance.choice(names)
        if chance.random() < 0.2:
            table = "CHANGE"
        else:
            table = "EXACT" if self.exact or chance.random() < 0.4 else "INEXACT"
        text = chance.choice(TABLES[table]).replace("<A>", one).replace("<B>", other)
        for name in "IDS":
            while f"<{name}>" in text:
                text = text.replace(f"<{name}>", chance.choice(TABLES[name]), 1)
        text = text.replace("<DT>", chance.choice(TABLES["DT"]))
        return text if table == "CHANGE" else f"v{len(self.lines)} = {text}"

    def of_the_database(self) -> str | None:
        call = database.drawn(self.chance)
        if call is None:
            return None
        names = []
        for shape, dtype in call.tensors:
            same = [
                n
                for n, v in self.values.items()
                if isinstance(v, torch.Tensor) and v.shape == shape and v.dtype == dtype
            ]
            names.append(self.chance.choice(same) if same and self.chance.random() < 0.7 else self.input(shape, dtype))
        return f"v{len(self.lines)} = {call.text.format(*names)}"

    def ran(self, text: str) -> bool:
        """Return whether eager mode can run a statement; the values are then those after it."""
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
