"""Random programs of tensors, by a seed: text, inputs, and what eager mode gives for them.

    generated.program(7).text       def f(a, b): v0 = a.softmax(-1); v1 = torch.cat([v0, b], 0); return (v1,)

Each step takes values that are there and is tried in eager mode: what raises is drawn again. A comparison, or the place
of a largest value, is asked only of values without rounding; elsewhere another order of additions would flip it.

    python -m tests.gpu.generated 0 200             those seeds, one line for each that differs
    python -m tests.gpu.generated 0 200 sm_100      for another chip
"""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F

import nbcompile
from nbcompile import errors

SHAPES = ((7,), (33,), (128,), (4, 9), (5, 64), (3, 130), (2, 3, 17), (2, 4, 6, 5), (1, 70), (64, 33), (2, 700), (6, 1))
TYPES = (
    torch.float32, torch.float32, torch.float32, torch.float32, torch.bfloat16, torch.float16, torch.float64,
    torch.int64, torch.int32, torch.int8, torch.bool,
)  # fmt: skip
LARGEST = 1 << 13
"""Elements of a value, at most: it is simulated."""


@dataclass(slots=True)
class Program:
    """A random function of tensors, and its inputs."""

    text: str
    inputs: tuple[torch.Tensor, ...]

    def function(self) -> Callable[..., Any]:
        """The function, compiled from its text."""
        names: dict[str, Any] = {"torch": torch, "F": F}
        exec(compile(self.text, "<generated>", "exec"), names)  # another file name would be traced as a module's
        made: Callable[..., Any] = names["f"]
        return made


@dataclass(slots=True)
class _Draft:
    chance: random.Random
    lines: list[str] = field(default_factory=list)
    values: dict[str, torch.Tensor] = field(default_factory=dict)
    exact: set[str] = field(default_factory=set)
    """Values without rounding: inputs, and what was moved, compared or counted of them."""

    def some(self, fits: Callable[[torch.Tensor], bool] = lambda _: True, exact: bool = False) -> str:
        """The name of a value; recent ones are more likely."""
        names = [name for name, value in self.values.items() if fits(value) and (not exact or name in self.exact)]
        if not names:
            raise LookupError
        return names[-1] if self.chance.random() < 0.4 else self.chance.choice(names)

    def add(self, text: str, exact: bool = False) -> None:
        """Append a line if eager mode can run it and its value can be used."""
        value = eval(text, {"torch": torch, "F": F, **self.values})
        usable = isinstance(value, torch.Tensor) and 0 < value.numel() <= LARGEST and value.dim() <= 4
        if not usable or (value.is_floating_point() and not value.isfinite().all()):
            raise LookupError
        if value.is_floating_point() and value.abs().max() > 1e4:
            raise LookupError
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        self.values[name] = value
        if exact:
            self.exact.add(name)


def _is_float(value: torch.Tensor) -> bool:
    return value.is_floating_point()


def _is_number(value: torch.Tensor) -> bool:
    return value.dtype != torch.bool


UNARY = (
    "torch.sin({})", "torch.cos({})", "torch.exp(-{}.abs())", "torch.tanh({})", "torch.sigmoid({})", "F.gelu({})",
    "F.silu({})", "torch.sqrt({}.abs())", "torch.rsqrt({}.abs() + 1)", "torch.log1p({}.abs())", "torch.expm1(-{}.abs())",
    "torch.erf({})", "F.softplus({})", "F.elu({})", "{} * {}", "{}.square()", "F.hardswish({})", "torch.atan({})",
    "1 / ({}.abs() + 0.5)", "F.mish({})", "{}.pow(3)",
)  # fmt: skip
EXACT_UNARY = (
    "-{}", "{}.abs()", "F.relu({})", "{}.clamp(-1, 1)", "{}.sign()", "{}.clone()", "torch.where({} > 0, {}, 0)",
    "{}.clamp_min(0)", "F.threshold({}, 0.1, 0.2)",
)  # fmt: skip
BINARY = ("{} + {}", "{} - {}", "{} * {}", "torch.maximum({}, {})", "{} / ({}.abs() + 1)", "torch.lerp({0}, {1}, 0.3)",
          "torch.hypot({}, {})", "torch.where({0} > {0}, {0}, {1})", "torch.atan2({}, {})", "torch.addcmul({0}, {0}, {1})")  # fmt: skip
COMPARE = ("{} < {}", "{} == {}", "{} >= {}", "torch.isclose({}, {})", "torch.logical_xor({}, {})")
MOVES = (
    "{}.t()", "{}.transpose(0, -1)", "{}.flip(0)", "{}.roll(1, -1)", "{}.unsqueeze(0)", "{}.reshape(-1)", "{}[..., ::2]",
    "{}[1:]", "{}.contiguous()", "F.pad({}, (1, 2))", "{}.expand(3, *{}.shape)", "torch.cat([{}, {}], -1)",
    "torch.stack([{}, {}])", "{}.repeat_interleave(2, 0)", "{}.tril()", "{}.permute(*reversed(range({}.dim())))",
    "{}.T.contiguous()", "{}.unfold(-1, 3, 2)", "{}.diagonal()", "torch.cat([{}[1:], {}[:1]])", "{}.squeeze()",
    "{}.flatten(0, 1)", "{}.movedim(0, -1)", "F.pad({}, (-1, 2), value=1)",
)  # fmt: skip
REDUCE = (
    "{}.sum()", "{}.sum(-1)", "{}.sum(0)", "{}.mean(-1, keepdim=True)", "{}.mean(0)", "{}.var(-1)", "{}.std(0)",
    "{}.logsumexp(-1)", "{}.softmax(-1)", "{}.softmax(0)", "{}.log_softmax(-1)", "{}.cumsum(-1)", "{}.cumsum(0)",
    "{}.norm(dim=-1)", "F.layer_norm({}, {}.shape[-1:])", "{}.prod(-1)", "{}.sum((0, -1))",
    "F.rms_norm({}, {}.shape[-1:])", "{}.logcumsumexp(-1)", "F.normalize({}, dim=-1)",
)  # fmt: skip
EXACT_REDUCE = (
    "{}.amax(-1)", "{}.amin(0)", "{}.argmax(-1)", "{}.argmin(0)", "{}.cummax(-1).values", "{}.any(-1)", "{}.all(0)",
    "({} > 0).sum(-1)", "{}.amax((0, -1))", "{}.argmax()", "{}.count_nonzero(-1)",
)  # fmt: skip
INTEGER = (
    "{} // 3",
    "{} % 5",
    "{} & 7",
    "{} | 1",
    "{} ^ {}",
    "{} << 1",
    "{} >> 1",
    "~{}",
    "-{}",
    "{} * {}",
    "{}.float() / 2",
)
CASTS = (
    "torch.float32",
    "torch.bfloat16",
    "torch.float16",
    "torch.float64",
    "torch.int64",
    "torch.int32",
    "torch.uint8",
)
BY_INDEX = (
    "{x}[({i} % {x}.shape[0]).abs()]", "{x}.gather(0, ({x}.abs() * 0).long())",
    "{x}.index_select(0, ({i}.reshape(-1) % {x}.shape[0]).abs())", "{x}.take(({i} % {x}.numel()).abs())", "F.embedding(({i} % {x}.shape[0]).abs(), {x})",
    "torch.zeros_like({x}).index_add(0, (torch.arange({x}.shape[0]) % 2), {x})",
    "torch.zeros_like({x}).scatter_add(0, ({x} * 0).long(), {x})", "{x}.masked_fill({x} > 0.5, 2.0)",
    "F.one_hot(({i} % 5).abs(), 5) * 1.5", "torch.searchsorted(torch.arange(5.0), {x}.float().contiguous())",
)  # fmt: skip


def _step(draft: _Draft) -> None:
    """A new line of a random kind."""
    chance = draft.chance
    kind = chance.choice(
        ("unary", "unary", "exact", "binary", "binary", "compare", "move", "move", "reduce", "reduce", "exact reduce",
         "integer", "cast", "index", "where")
    )  # fmt: skip
    if kind == "unary":
        draft.add(_filled(chance.choice(UNARY), draft.some(_is_float)))
    elif kind == "exact":
        name = draft.some(_is_float)
        draft.add(_filled(chance.choice(EXACT_UNARY), draft.some(_is_float, exact=True)), True) if name else None
    elif kind == "binary":
        draft.add(chance.choice(BINARY).format(draft.some(_is_float), draft.some(_is_float)))
    elif kind == "compare":
        draft.add(chance.choice(COMPARE).format(draft.some(exact=True), draft.some(exact=True)), True)
    elif kind == "move":
        name = draft.some()
        draft.add(_filled(chance.choice(MOVES), name), name in draft.exact)
    elif kind == "reduce":
        draft.add(_filled(chance.choice(REDUCE), draft.some(_is_float)))
    elif kind == "exact reduce":
        draft.add(_filled(chance.choice(EXACT_REDUCE), draft.some(exact=True)), True)
    elif kind == "integer":
        name = draft.some(lambda value: not value.is_floating_point() and _is_number(value))
        draft.add(_filled(chance.choice(INTEGER), name), True)
    elif kind == "cast":
        name = draft.some(exact=True)
        target = chance.choice(CASTS)
        # A negative number has no defined value as an unsigned number.
        draft.add(
            f"({name} * 2).to({target})"
            if chance.random() < 0.3 and target != "torch.uint8"
            else f"{name}.clamp(0, 9).to({target})",
            True,
        )
    elif kind == "index":
        index = draft.some(lambda value: value.dtype in (torch.int64, torch.int32), exact=True)
        draft.add(chance.choice(BY_INDEX).format(x=draft.some(_is_float, exact=True), i=index))
    else:
        condition = draft.some(lambda value: value.dtype == torch.bool, exact=True)
        draft.add(f"torch.where({condition}, {draft.some(_is_float)}, {draft.some(_is_float)})")


def _filled(pattern: str, name: str) -> str:
    return pattern.replace("{}", name)


def _input(chance: random.Random) -> torch.Tensor:
    shape, dtype = chance.choice(SHAPES), chance.choice(TYPES)
    if dtype == torch.bool:
        return torch.rand(shape) > 0.5
    if not dtype.is_floating_point:
        return torch.randint(-20, 20, shape, dtype=dtype)
    return torch.randn(shape).to(dtype)


def program(seed: int) -> Program:
    """The program of a seed: three inputs, some lines, and the unused values as results."""
    chance = random.Random(seed)
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(seed)
        inputs = (torch.randn(chance.choice(SHAPES)), _input(chance), _input(chance))
        names = dict(zip("abc", inputs, strict=True))
        draft = _Draft(chance, values=dict(names), exact=set(names))
        length = chance.randrange(3, 10)
        for _ in range(200):
            if len(draft.lines) >= length:
                break
            try:
                _step(draft)
            except (LookupError, RuntimeError, TypeError, ValueError, NotImplementedError):
                continue
    text = "".join(f"    {line}\n" for line in draft.lines)
    used = " ".join(line.partition(" = ")[2] for line in draft.lines)
    free = [f"v{at}" for at in range(len(draft.lines)) if f"v{at}" not in _words(used)]
    return Program(f"def f(a, b, c):\n{text}    return ({', '.join(free)},)\n", inputs)


def _words(text: str) -> set[str]:
    return set("".join(letter if letter.isalnum() else " " for letter in text).split())


def differences(seed: int, target: str = "sm_90") -> list[str]:
    """The differences of a seed's compiled code from eager mode: values, faults, operators without a kernel."""
    made = program(seed)
    function = made.function()
    expected = function(*(each.clone() for each in made.inputs))
    nbcompile.reset()
    with warnings.catch_warnings(record=True) as met:
        warnings.simplefilter("always")
        explained = nbcompile.explain(function, options={"target": target, "simulation_seconds": 600.0})(*made.inputs)
    wrong = [str(each.message) for each in met if each.category is errors.GeneratedCodeWarning]
    for at, (mine, theirs) in enumerate(zip(explained.result, expected, strict=True)):
        half = any(word in made.text for word in ("bfloat16", "float16")) or any(
            each.dtype in (torch.bfloat16, torch.float16) for each in made.inputs
        )
        tolerance = {"rtol": 3e-2, "atol": 3e-2} if half and theirs.is_floating_point() else {}
        try:
            torch.testing.assert_close(mine, theirs, equal_nan=True, **tolerance)
        except AssertionError as difference:
            wrong.append(f"result {at}: {str(difference).splitlines()[0]}")
    wrong += [note for frame in explained.record.frames for note in getattr(frame.compiled_graph, "notes", ())]
    for frame in explained.record.frames:
        for extern in getattr(frame.compiled_graph, "kernels", ()):
            if "no code for a GPU" in (getattr(extern, "reason", "") or ""):
                wrong.append(f"{extern.name}: {extern.reason}")
    return list(dict.fromkeys(wrong))


def main(first: int, last: int, target: str = "sm_90") -> None:
    """Print the programs with wrong compiled code."""
    bad = 0
    for seed in range(first, last):
        try:
            wrong = differences(seed, target)
        except Exception as error:  # noqa: BLE001  a crash of the compiler is what is looked for
            wrong = [f"{type(error).__name__}: {error}"]
        if wrong:
            bad += 1
            print(f"--- {seed}\n{program(seed).text}" + "\n".join(wrong), flush=True)
    print(f"{last - first} programs for {target}, {bad} wrong")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
