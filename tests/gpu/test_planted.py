"""Mistakes that are planted in generated code, in its launch, or in compiled code: the simulator finds each of them.

The code as it is gives eager's numbers and no fault; with one change to its text it faults, or gives other numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
pytest.importorskip("numpy", reason="the simulator computes with NumPy")

from nbcompile.codegen import triton as generator
from nbcompile.gpu import memory, simulated
from nbcompile.gpu.chip import CHIPS
from nbcompile.gpu.memory import Fault
from nbcompile.gpu.target import DEVICE
from nbcompile.ir.emitted import EmittedKernel
from nbcompile.lowering import lower
from nbcompile.scheduling import schedule
from tests.support.lowered import traced

torch.manual_seed(0)
X, Y = torch.randn(6, 1000), torch.randn(6, 1000)
SHORT, WIDE = torch.randn(1000), torch.randn(37, 70)
INDEX = torch.randint(0, 5, (3000,))


def softmax(x):
    return x.softmax(-1)


def double(x):
    return x * 2 + 1


def transposed(x, y):
    return x.t() + y


def joined(a, b):
    return torch.cat([a, b, a])


def counted(x, i):
    return x.index_add(0, i, torch.arange(3000.0))


def largest(x):
    return (x - 9).amax(-1)


def fetched(x, i):
    return x[i]


def far(x):
    return x.as_strided((3,), (1 << 30,)) + 1


def rolled(x):
    return x.roll(1, 0) + 1


def added(x):
    return x.sum(-1)


def bumped(x):
    return x.add_(1)


# torch.zeros would write 2 GB in every process of a run. Only the pages that are read here are allocated.
FAR = torch.empty((2 << 30) + 8, dtype=torch.int8)
FAR[:: 1 << 30] = 0


@dataclass(frozen=True)
class Planted:
    """A program, and the mistake in its code."""

    function: Callable[..., Any]
    inputs: tuple[torch.Tensor, ...]
    said: str
    """What the fault says; "" where there is none, and the numbers are wrong."""
    triton: tuple[str, str] = ("", "")
    """A pattern of the generated text, and what replaces it where it is found first."""
    ptx: tuple[str, str] = ("", "")
    shift: int = 0
    """Bytes by which the first pointer is off."""
    check_races: bool = True


GRID = r"return \((.*),\)"
MISTAKES = {
    # the launch
    "one program too many": Planted(softmax, (X,), "past the end", triton=(GRID, r"return (\1 + 1,)")),
    "one program too few": Planted(softmax, (X,), "", triton=(GRID, r"return (\1 - 1,)")),
    "a pointer off by 4 bytes": Planted(softmax, (X,), "no multiple of|past the end", shift=4),
    "a pointer off by a row": Planted(softmax, (X,), "past the end", shift=4000),
    "a pointer off by 2 bytes": Planted(double, (SHORT,), "no multiple of|past the end", shift=2),
    # the generated text
    "a mask that is one too long": Planted(double, (SHORT,), "past the end", triton=(r"element < 1000", "element < 1001")),
    "a mask that is one too short": Planted(double, (SHORT,), "", triton=(r"element < 1000", "element < 999")),
    "a load without its mask": Planted(double, (SHORT,), "past the end", triton=(r", \(element < 1000\), 0\.0", "")),
    "a store without its mask": Planted(double, (SHORT,), "past the end", triton=(r"(tl\.store.*), \(element < 1000\)", r"\1")),
    "a wrong stride": Planted(softmax, (X,), "past the end", triton=(r"1000\*(\w+)", r"1001*\1")),
    "two strides in each other's place": Planted(transposed, (WIDE, WIDE.t().contiguous()), "past|",
                                                 triton=(r"i0 \+ 70\*i1|70\*i1 \+ i0", "i1 + 70*i0")),
    "the operand of another place": Planted(joined, (torch.randn(8), torch.randn(8)), "outside of every tensor",
                                            triton=(r"& ~(t\d+)\) & t3", r"& \1) & t3")),
    "an index that is not checked": Planted(fetched, (torch.randn(4, 8), torch.tensor([0, 4])), "past the end",
                                            triton=(r"tl\.device_assert\(.*\n", "pass\n")),
    "a wrong neutral element": Planted(largest, (torch.randn(6, 1000),), "", triton=(r"float\(\"-inf\"\)", "0.0")),
    "an index of 32 bits": Planted(far, (FAR,), "outside of every tensor", triton=(r"\.to\(tl\.int64\)", ""),
                                   check_races=False),
    "a result over what others still read": Planted(rolled, (torch.randn(4096),), "race", triton=(r"tl\.store\(p1", "tl.store(p0")),
    "blocks that overlap": Planted(bumped, (torch.randn(4096),), "race", triton=(r"\* 128", "* 64")),
    "a sum in place of a product": Planted(double, (SHORT,), "", triton=(r"\* ", "+ ")),
    # the compiled code
    "a store that should be atomic": Planted(counted, (torch.zeros(5), INDEX), "race",
                                             ptx=(r"atom\.\S*add\S*\.f32\s+(%r\d+),\s*(\[.*?\]),\s*(%r\d+);", r"st.global.b32 \2, \3;")),
    "no barrier before a read": Planted(softmax, (X,), "no barrier between", ptx=(r"bar\.sync\s+0;", "")),
    "no barrier before a write": Planted(softmax, (X,), "over what another warp or block read",
                                         ptx=(r"(bar\.sync\s+0;.*?)bar\.sync\s+0;", r"\1")),
    "a misaligned vector": Planted(double, (torch.randn(1 << 18),), "no multiple of the 16 bytes",
                                   ptx=(r"(ld\.global\.v4\.b32 \{.*?\}, \[ ?%rd\d+ \+) 0", r"\1 4")),
    "a predicate that is turned round": Planted(double, (SHORT,), "past the end|differs", ptx=(r"@(%p\d+) ld\.global", r"@!\1 ld.global")),
    "lanes that exchange with the wrong ones": Planted(added, (X,), "", ptx=(r"(shfl\.sync\.bfly\.b32\s+%\w+, %\w+,) 16", r"\1 8")),
    "a barrier in one way only": Planted(softmax, (X,), "different barriers",
                                         ptx=(r"bar\.sync\s+0;", "setp.lt.u32 %p1, %tid.x, 64; @%p1 bra $L_x; bar.sync 0; bra.uni $L_y; $L_x: bar.sync 0; $L_y:")),
    "another rounding": Planted(double, (torch.randn(1 << 18, dtype=torch.bfloat16) * 1000,), "",
                                ptx=(r"cvt\.rn\.bf16x2\.f32\s+(%r\d+), (%r\d+), (%r\d+)", r"cvt.rn.bf16x2.f32 \1, \3, \2")),
}  # fmt: skip


def scheduled(case: Planted) -> Any:
    """The program's kernels, as for tensors on a GPU; the traced tensors have 32-bit indices."""
    inputs = [torch.zeros_like(each) if each.dtype == torch.int64 else each for each in case.inputs]
    copies = [each if each is FAR else each.clone() for each in inputs]
    return schedule(lower(traced(case.function, *copies), True, False, DEVICE, {}))


def outcome(case: Planted, monkeypatch, broken: bool) -> str:
    """The text of the fault, "differs" for wrong values, or "" without a difference."""
    planned = scheduled(case)
    emitted = generator.emit(planned)
    if broken and case.triton[0]:
        emitted = replace(emitted, kernels=with_mistake(emitted.kernels, *case.triton))
    parse, copy_in = simulated.ptx.parse, memory.GlobalMemory.copy_in

    changes = []

    def changed(text):
        found, count = re.subn(case.ptx[0], case.ptx[1], text, count=1, flags=re.DOTALL)
        changes.append(count)
        return parse(found)

    def placed(self, tensor, name):
        return copy_in(self, tensor, name) + (case.shift if not self.names[1:] else 0)

    monkeypatch.setattr(
        simulated, "_on_the_cpu", lambda *size, dtype, device="": torch.empty_strided(*size, dtype=dtype).fill_(7)
    )
    if not case.check_races:
        monkeypatch.setattr(simulated, "GlobalMemory", lambda _: memory.GlobalMemory(False))
        monkeypatch.setattr(memory.GlobalMemory, "touched", lambda _: 0)
    if broken and case.ptx[0]:
        monkeypatch.setattr(simulated.ptx, "parse", changed)
    if broken and case.shift:
        monkeypatch.setattr(memory.GlobalMemory, "copy_in", placed)
    inputs = [each if each is FAR else each.clone() for each in case.inputs]
    wrong_index = case.function is fetched
    expected = None if wrong_index else case.function(*(each if each is FAR else each.clone() for each in case.inputs))
    loaded = simulated.load(emitted, CHIPS["sm_90"], lambda _: None)
    assert any(changes) or not (broken and case.ptx[0]), "the instruction to change is not there"
    try:
        (found,) = loaded(*inputs)[:1]
    except Fault as fault:
        return str(fault)
    try:
        torch.testing.assert_close(found, expected)
    except AssertionError:
        return "differs"
    return ""


@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_is_found(name, monkeypatch):
    """The mistake is a fault with the right text, or a difference from eager's values."""
    case = MISTAKES[name]
    found = outcome(case, monkeypatch, broken=True)
    assert re.search(case.said, found) if case.said else found == "differs", found
    assert found


@pytest.mark.parametrize(
    "function", {case.function: case for case in MISTAKES.values()}.values(), ids=lambda case: case.function.__name__
)
def test_without_it_nothing_is_found(function, monkeypatch):
    """The same programs without the mistake have no fault, and eager's values."""
    said = "line \\d+: index out of bounds" if function.function is fetched else "^$"
    assert re.search(said, outcome(function, monkeypatch, broken=False))


def with_mistake(kernels: tuple[EmittedKernel, ...], pattern: str, text: str) -> tuple[EmittedKernel, ...]:
    """The kernels with one mistake, in the text of a kernel or in its number of programs."""
    changed = list(kernels)
    for at, kernel in enumerate(kernels):
        source = re.sub(pattern, text, kernel.source, count=1)
        if source != kernel.source:
            grid = re.search(GRID, source)
            assert grid is not None
            changed[at] = replace(kernel, source=source, grid=grid[1])
            return tuple(changed)
    pytest.fail("the text to change is not there")
