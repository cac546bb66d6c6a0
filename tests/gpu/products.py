"""Random matrix products with what precedes and follows them, by a seed: text, inputs, a tile.

products.program(3).text       def f(a, b, c, r): return torch.relu(torch.addmm(c, a.t(), b)) + r

python -m tests.gpu.products 0 100         those seeds, one line for each that differs
"""

from __future__ import annotations

import random
import sys
import warnings
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

import nbcompile
from nbcompile import errors
from nbcompile.gpu import templates
from nbcompile.ir.kernel import ProductTile

TYPES = (torch.float32, torch.float32, torch.bfloat16, torch.float16)
SIZES = (2, 3, 7, 16, 17, 32, 40, 64, 65, 96, 100)
TILES = (
    ProductTile(16, 16, 16, 1, 2), ProductTile(16, 32, 16, 2, 3), ProductTile(32, 16, 32, 2, 4),
    ProductTile(32, 32, 32, 4, 3), ProductTile(64, 32, 32, 4, 3), ProductTile(64, 64, 32, 4, 4),
    ProductTile(32, 64, 16, 4, 2, 1), ProductTile(16, 16, 32, 4, 3, 2),
    ProductTile(32, 32, 32, 4, 3, programs=2), ProductTile(64, 32, 32, 4, 3, programs=3),
)  # fmt: skip
LEFT = ("a", "a", "a", "a * 0.5", "a.abs()", "torch.where(a > 0, a, 0)", "(a.float() * 1.5).to(a.dtype)", "-a")
RIGHT = ("b", "b", "b", "b * 2", "torch.exp(-b.abs())", "b.sin()")
AFTER = (
    "{}", "torch.relu({})", "F.gelu({})", "{} * torch.sigmoid({})", "{} + r", "{} * r[..., :1]", "{}.float()",
    "({} * 2).to(torch.bfloat16)", "torch.tanh({}) * 0.5 + r", "{} > 0", "torch.where({} > 0, {}, r)", "{} - r[..., :1, :]",
    "F.silu({}) * r", "{}.transpose(-1, -2)", "{}.transpose(-1, -2).contiguous()", "{}.softmax(-1)", "{}.sum(-1)",
    "{}.reshape(-1)", "({}, F.relu({}))", "F.gelu({}, approximate='tanh')",
)  # fmt: skip


@dataclass(slots=True)
class Program:
    """A random function of tensors, its inputs, and a tile."""

    text: str
    inputs: tuple[torch.Tensor, ...]
    tile: ProductTile
    dynamic: bool

    def function(self) -> Any:
        """The function, compiled from its text."""
        names: dict[str, Any] = {"torch": torch, "F": F}
        exec(compile(self.text, "<generated>", "exec"), names)
        return names["f"]


def _strided(chance: random.Random, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """A tensor with one of several layouts."""
    value = torch.randn(shape).to(dtype)
    layout = chance.choice(("plain", "plain", "transposed", "padded", "sliced", "expanded"))
    if layout == "transposed":
        return value.transpose(-1, -2).contiguous().transpose(-1, -2)
    if layout == "padded":
        return torch.randn((*shape[:-1], shape[-1] + 5)).to(dtype)[..., 3 : 3 + shape[-1]]
    if layout == "sliced":
        return torch.randn((*shape[:-1], 2 * shape[-1])).to(dtype)[..., ::2]
    return value[..., :1, :].expand(shape) if layout == "expanded" else value


def program(seed: int) -> Program:
    """The program of a seed."""
    chance = random.Random(seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        m, n, k = (chance.choice(SIZES) for _ in range(3))
        dtype = chance.choice(TYPES)
        kind = chance.choice(("mm", "addmm", "bmm", "baddbmm", "linear", "linear3"))
        batch = (chance.choice((1, 2, 3)),) if kind in ("bmm", "baddbmm", "linear3") else ()
        a = _strided(chance, (*batch, m, k), dtype)
        b = _strided(chance, (*(batch if "bmm" in kind else ()), k, n), dtype)
        c = torch.randn(chance.choice(((n,), (m, n), (1, n), (m, 1))) if kind != "linear3" else (n,)).to(dtype)
        r = _strided(chance, (*batch, m, n), dtype)
    left, right = chance.choice(LEFT), chance.choice(RIGHT)
    scale = chance.choice(("", "", ", beta=0.5, alpha=2", ", beta=0"))
    text = {
        "mm": f"torch.mm({left}, {right})", "bmm": f"torch.bmm({left}, {right})",
        "addmm": f"torch.addmm(c, {left}, {right}{scale})", "baddbmm": f"torch.baddbmm(c, {left}, {right}{scale})",
        "linear": f"F.linear({left}, ({right}).t(), c.reshape(-1)[:b.shape[-1]] if c.numel() >= b.shape[-1] else None)",
        "linear3": f"F.linear({left}, ({right}).t(), c)",
    }[kind]  # fmt: skip
    lines = [f"y = {text}", f"return {chance.choice(AFTER).replace('{}', 'y')}"]
    body = "".join(f"    {line}\n" for line in lines)
    return Program(f"def f(a, b, c, r):\n{body}", (a, b, c, r), chance.choice(TILES), chance.random() < 0.2)


def tolerance(dtype: torch.dtype) -> dict[str, float]:
    """The tolerance for sums in another order."""
    return {"rtol": 1e-5, "atol": 1e-4} if dtype == torch.float32 else {"rtol": 2e-2, "atol": 0.05}


def differences(seed: int, target: str = "sm_90") -> list[str]:
    """The differences of a seed's compiled code: values, faults, a product without a kernel."""
    made = program(seed)
    function = made.function()
    expected = function(*made.inputs)
    nbcompile.reset()
    before = templates.TILES, templates.FLOAT_TILES
    templates.TILES = templates.FLOAT_TILES = (made.tile,)
    options = {
        "target": target, "simulation_seconds": 600.0, "max_autotune_gemm": True,
        "max_autotune_gemm_backends": "TRITON",
    }  # fmt: skip
    try:
        with warnings.catch_warnings(record=True) as met:
            warnings.simplefilter("always")
            explained = nbcompile.explain(function, options=options, dynamic=made.dynamic or None)(*made.inputs)
    finally:
        templates.TILES, templates.FLOAT_TILES = before
    wrong = [str(each.message) for each in met if each.category is errors.GeneratedCodeWarning]
    theirs, mine = (each if isinstance(each, tuple) else (each,) for each in (expected, explained.result))
    for at, (one, other) in enumerate(zip(mine, theirs, strict=True)):
        # A comparison with 0 may have either result if a sum is nearly 0.
        if other.dtype == torch.bool:
            wrong += [f"result {at}: other truth values"] if (one != other).float().mean() > 0.02 else []
            continue
        try:
            torch.testing.assert_close(one, other, equal_nan=True, **tolerance(made.inputs[0].dtype))
        except AssertionError as difference:
            wrong.append(f"result {at}: {' '.join(str(difference).split())[:300]}")
    wrong += [note for frame in explained.record.frames for note in getattr(frame.compiled_graph, "notes", ())]
    return list(dict.fromkeys(wrong))


def main(first: int, last: int) -> None:
    """Print the programs with wrong compiled code."""
    bad = 0
    for seed in range(first, last):
        try:
            wrong = differences(seed)
        except Exception as error:  # noqa: BLE001  a crash of the compiler is what is looked for
            wrong = [f"{type(error).__name__}: {error}"]
        if wrong:
            bad += 1
            made = program(seed)
            layouts = [(tuple(each.shape), each.stride(), each.dtype) for each in made.inputs]
            print(f"--- {seed}\n{made.text}{layouts} {made.tile.label} {made.dynamic}\n" + "\n".join(wrong), flush=True)
    print(f"{last - first} programs, {bad} wrong")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
