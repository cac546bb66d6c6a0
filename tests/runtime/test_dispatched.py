"""Operators with tensors, numbers and lists as arguments are called from C by torch's dispatcher.

In torch: test/inductor/test_aot_inductor.py (fallback operators). Read next: nbcompile/runtime/dispatched.py
"""

from __future__ import annotations

import ctypes
import gc
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import nbcompile
from nbcompile.ir.emitted import AtSlot, Call, ExternResult, RuntimeSize, TensorShape
from nbcompile.runtime import dispatched, plan_encoding

aten = torch.ops.aten
F = torch.nn.functional


def values(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def regular(*batch: int) -> torch.Tensor:
    a = values(*batch, 4, 4)
    return a @ a.mT + 4 * torch.eye(4)


PROGRAMS: dict[str, tuple[Callable[..., Any], list[torch.Tensor]]] = {
    "one tensor, several results": (torch.linalg.slogdet, [regular()]),
    "a bool": (lambda a: torch.linalg.svd(a, full_matrices=False), [values(4, 3)]),
    "two ints and bools": (lambda a: torch.topk(a, 2, 0, False, True), [values(4, 3)]),
    "a float, and optional ones left out": (F.scaled_dot_product_attention, [values(1, 2, 4, 8)] * 3),
    "an optional tensor and float": (
        lambda q, m: F.scaled_dot_product_attention(q, q, q, m, scale=0.5), [values(1, 2, 4, 8), values(4, 4)]
    ),
    "lists of ints": (lambda a: torch.fft.fftn(a, dim=(0, 1)), [values(4, 3).to(torch.complex64)]),
    "a view as argument": (lambda a: torch.linalg.det(a.mT[..., :2, :2]), [regular(3)]),
    "checks of a batch": (torch.linalg.inv, [regular(3)]),
    "an empty batch": (torch.linalg.inv, [regular(0)]),
    "complex numbers": (torch.linalg.det, [regular().to(torch.complex64)]),
    "one result used": (lambda a: torch.linalg.svd(a)[1] + 1, [regular()]),
    "none of one dimension": (lambda a: torch.sort(a, descending=True), [torch.tensor(3.0)]),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_eagers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All results are bitwise eager's, of the same classes, and each operator of the program is encoded for C."""
    function, arguments = PROGRAMS[name]
    seen = []
    encoded = dispatched.encoded
    monkeypatch.setattr(
        plan_encoding.dispatched, "encoded", lambda *given: seen.append((given[0], encoded(*given))) or seen[-1][1]
    )
    nbcompile.reset()  # another test may have compiled the same function in this process
    compiled = nbcompile.compile(function, fullgraph=True)
    for _ in range(4):
        found, expected = compiled(*arguments), function(*arguments)
        assert type(found) is type(expected)
        for one, other in zip(several(found), several(expected), strict=True):
            assert one.stride() == other.stride() and one.dtype == other.dtype
            assert bits(one) == bits(other)
    missed = [target for target, code in seen if code is None and target is not aten._linalg_check_errors.default]
    assert seen and not missed


def bits(tensor: torch.Tensor) -> bytes:
    return bytes(tensor.contiguous().resolve_conj().numpy().tobytes())


def several(result: Any) -> tuple[torch.Tensor, ...]:
    return (result,) if isinstance(result, torch.Tensor) else tuple(result)


def test_an_error_is_eagers() -> None:
    """An operator that raises in C raises eager's error in Python, and the next call runs."""
    compiled = nbcompile.compile(torch.linalg.eigh, fullgraph=True)
    compiled(regular())
    wrong = torch.full((4, 4), float("nan"))
    with pytest.raises(torch.linalg.LinAlgError) as expected:
        torch.linalg.eigh(wrong)
    with pytest.raises(torch.linalg.LinAlgError) as found:
        compiled(wrong)
    assert str(found.value) == str(expected.value)
    assert torch.equal(compiled(regular())[0], torch.linalg.eigh(regular())[0])


def _warned(function: Callable[..., Any], *arguments: Any, action: str) -> tuple[list[str], list[str]]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter(action)  # type: ignore[arg-type]
        try:
            function(*arguments)
        except UserWarning as error:
            return [], [str(error)[:60]]
    return [str(warning.message)[:60] for warning in seen], []


@pytest.mark.parametrize("action", ["always", "error"])
def test_warnings_are_pythons(action: str) -> None:
    """A warning of an operator is a Python warning, or an error by the filters; the next call runs."""
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)  # otherwise the process warns only once
    try:
        boundaries, transposed = torch.arange(12.0).reshape(3, 4), torch.ones(2, 3).t()
        compiled = nbcompile.compile(torch.searchsorted, fullgraph=True)
        compiled(boundaries, transposed)
        for _ in range(3):
            expected = _warned(torch.searchsorted, boundaries, transposed, action=action)
            assert any(expected)
            assert _warned(compiled, boundaries, transposed, action=action) == expected
        assert torch.equal(compiled(boundaries, transposed), torch.searchsorted(boundaries, transposed))
    finally:
        torch.set_warn_always(before)


def test_the_first_of_a_batch_that_fails_is_named() -> None:
    """If one matrix of a batch is singular, the error names it."""
    compiled = nbcompile.compile(torch.linalg.inv, fullgraph=True)
    compiled(regular(3))
    wrong = regular(3)
    wrong[1] = 0
    with pytest.raises(torch.linalg.LinAlgError, match=r"Batch element 1"):
        compiled(wrong)


def shape(*size: int) -> TensorShape:
    return TensorShape(torch.float32, size, (1,) * len(size))


def call(arguments: tuple[Any, ...], *paths: tuple[int, ...], **keywords: Any) -> Call:
    results = tuple(ExternResult(path, 5 + at, shape(1)) for at, path in enumerate(paths))
    return Call("extern0", arguments, tuple(keywords.items()), results)


def test_what_is_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """An encoding has numbers, slots for tensors, 0 for None, and default values for missing arguments."""
    monkeypatch.setattr(dispatched.direct, "encoded", lambda *given: None)
    assert dispatched.encoded(aten.topk.default, call((AtSlot(2), RuntimeSize(1)), (0,), sorted=False)) == (
        "aten::topk", "", 2, (1, 2, 0, (1,), 0, -1, 0, 1, 0, 0)
    )  # fmt: skip
    assert dispatched.encoded(aten.cumsum.default, call((AtSlot(2), 1), ())) == (
        "aten::cumsum", "", 1, (1, 2, 0, 1, 0, 0)
    )  # fmt: skip
    assert dispatched.encoded(aten._fft_c2c.default, call((AtSlot(0), [0, 1], 0, True), ())) == (
        "aten::_fft_c2c", "", 1, (1, 0, 2, 2, 0, 0, 0, 1, 0, 0, 0, 1)
    )  # fmt: skip


@pytest.mark.parametrize(
    ("target", "step"),
    [
        (aten.add_.Tensor, call((AtSlot(0), AtSlot(1)), ())),
        (aten.t.default, call((AtSlot(0),), ())),
        (aten.bernoulli.p, call((AtSlot(0), 0.5), ())),
        (aten._scaled_dot_product_flash_attention_for_cpu.default, call((AtSlot(0),) * 3 + (0.5,), (0,))),
        (aten.add.Scalar, call((AtSlot(0), 1), ())),
        (aten._to_copy.default, call((AtSlot(0),), (), dtype=torch.float64)),
        (aten.cumsum.default, call((AtSlot(0), 1), (), dtype=torch.float64)),
        (aten.split.Tensor, call((AtSlot(0), 2), (0,))),
        (aten.topk.default, call((AtSlot(0), 2), ())),
        (torch.ops.prims.sin.default, call((AtSlot(0),), ())),
        (torch.sin, call((AtSlot(0),), ())),
    ],
)  # fmt: skip
def test_what_is_called_in_python(target: Any, step: Call) -> None:
    """Operators that mutate, draw, return views or lists, take dtypes, or are not ATen's, are called in Python."""
    assert dispatched.encoded(target, step) is None


def test_texts_are_for_direct_calls_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator with a text that has no direct call is called in Python, because torch leaks the text."""
    monkeypatch.setattr(dispatched.direct, "encoded", lambda *given: None)
    assert dispatched.encoded(aten.linalg_qr.default, call((AtSlot(0), "r"), (0,), (1,))) is None


class Memory(ctypes.Structure):
    """glibc's ``mallinfo2``."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    ]  # fmt: skip


LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def bytes_in_use() -> int:
    """The bytes that malloc has allocated."""
    gc.collect()
    assert LIBC is not None
    LIBC.mallinfo2.restype = Memory
    return int(LIBC.mallinfo2().uordblks)


@pytest.mark.skipif(not hasattr(LIBC, "mallinfo2"), reason="only glibc tells how much memory is in use")
@pytest.mark.parametrize("name", [*PROGRAMS, "a text"])
def test_nothing_is_left_of_a_call(name: str) -> None:
    """A call leaks neither its arguments (a list, an optional) nor its unused results."""
    function, arguments = PROGRAMS.get(name, (torch.linalg.qr, [regular()]))
    compiled = nbcompile.compile(function, fullgraph=True)
    for _ in range(200):
        compiled(*arguments)
    before = bytes_in_use()
    for _ in range(1000):
        compiled(*arguments)
    # A text has 48 bytes and a tensor more, so a leak of one per call is at least 48,000 bytes.
    assert bytes_in_use() - before < 12_000
