"""Direct calls of C++ operators: symbols from schemas, and arguments in the order of the System V ABI.

In torch: nothing; compiled graphs call functions that were compiled with torch's headers. Read next:
nbcompile/runtime/direct.py
"""

from __future__ import annotations

import _ctypes
import gc
import shutil
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import nbcompile
from nbcompile.ir.emitted import AtSlot, RuntimeSize
from nbcompile.runtime import direct, dispatched, launcher, toolchain
from tests.runtime.test_dispatched import PROGRAMS, bits, regular, several, values

aten = torch.ops.aten
pytestmark = pytest.mark.fast_path  # the reference path calls operators through the dispatcher alone
here = pytest.mark.skipif(not direct._is_supported_here(), reason="the words are those of x86-64 and Linux")


def arguments(target: Any, *given: Any) -> dict[str, Any]:
    """All arguments by name, with default values for missing ones."""
    declared = target._schema.arguments
    return {each.name: given[at] if at < len(given) else each.default_value for at, each in enumerate(declared)}


@here
def test_symbols_of_all_operators_are_found() -> None:
    """Nearly all functional ATen operators whose types are supported have a symbol."""
    asked, missing = 0, set()
    for name in torch._C._dispatch_get_all_op_names():
        base, _, overload = name.partition(".")
        if not base.startswith("aten::") or "backward" in base:
            continue
        try:
            schema = torch._C._get_schema(base, overload)
            kinds = [direct._kind(each.real_type) for each in schema.arguments]
        except (RuntimeError, direct.NotDirect):
            continue
        if not all(each.type.kind() == "TensorType" for each in schema.returns) or not schema.returns:
            continue
        if any(each.alias_info for each in (*schema.arguments, *schema.returns)):
            continue
        asked += 1
        own = base.removeprefix("aten::") + (f"_{overload}" if overload else "")
        if direct._address(direct.mangled(own, kinds)) is None:
            missing.add(own)
    assert asked > 300
    assert len(missing) <= 3, missing


@here
def test_words_and_their_places() -> None:
    """Integers go to registers from 0 on, doubles from 6 on; what does not fit, or is above 16 bytes, to the stack."""
    _, code, texts = (
        direct.encoded(aten.linalg_qr.default, arguments(aten.linalg_qr.default, AtSlot(2), "reduced")) or ()
    )
    assert code == (0, 0, 0, 1, direct.TENSOR, 2, 2, 0, 7, 3, direct.TEXT, 0)
    assert texts == ("reduced",)
    attention = aten._scaled_dot_product_flash_attention_for_cpu.default
    _, code, _ = direct.encoded(attention, arguments(attention, *map(AtSlot, range(3)), 0.0, True)) or ()
    assert code == (
        0,
        0,
        0,
        1,
        1,
        0,
        2,
        1,
        1,
        3,
        1,
        2,
        6,
        0,
        0,
        4,
        0,
        1,
        5,
        direct.MAYBE_TENSOR,
        -1,
        14,
        0,
        0,
        15,
        0,
        0,
    )
    search = aten.searchsorted.Tensor
    _, code, texts = direct.encoded(search, arguments(search, AtSlot(0), AtSlot(1), False, True, "left")) or ()
    # The text with its mark is 24 bytes, so that it is on the stack, and the tensor behind it in the next register.
    assert code[-12:] == (14, 0, 4, 15, direct.TEXT, 0, 16, 0, 1, 5, direct.MAYBE_TENSOR, -1)
    transform = aten._fft_c2c.default
    _, code, _ = direct.encoded(transform, arguments(transform, AtSlot(0), [0, 1], 0, True)) or ()
    assert code == (0, 0, 0, 1, 1, 0, 2, direct.ARRAY, 2, 0, 1, 3, 0, 2, 4, 0, 0, 5, 0, 1)
    _, code, _ = direct.encoded(aten.slice.Tensor, arguments(aten.slice.Tensor, AtSlot(0), 0, 1, None)) or ()
    # An optional number of a class with a destructor: the address of the number and its mark.
    assert code == (0, 0, 0, 1, 1, 0, 2, 0, 0, 3, direct.ARRAY, 2, 1, 1, 4, direct.ARRAY, 2, 0, 0, 5, direct.CELL, 1)
    _, code, _ = direct.encoded(aten.topk.default, arguments(aten.topk.default, AtSlot(0), RuntimeSize(1))) or ()
    assert code[6:9] == (2, direct.CELL, (1,))


@pytest.mark.parametrize(
    ("target", "given"),
    [
        (aten.add.Scalar, (AtSlot(0), 1)),
        (aten.cumsum.default, (AtSlot(0), 1, torch.float64)),
        (aten.cat.default, ([AtSlot(0), AtSlot(1)],)),
        (aten.topk.default, (AtSlot(0), -(2**62))),
        (aten.linalg_qr.default, (AtSlot(0), 3)),
    ],
)
def test_what_has_no_form(target: Any, given: tuple[Any, ...]) -> None:
    """A scalar of any type, a dtype, a list of tensors, a symbolic int, and another type are not supported."""
    assert direct.encoded(target, arguments(target, *given)) is None


def test_the_reference_path_has_no_direct_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under ``config.reference`` operators are called by torch's dispatcher, or in Python."""
    monkeypatch.setattr(nbcompile.config, "reference", True)
    assert direct.encoded(aten.linalg_qr.default, arguments(aten.linalg_qr.default, AtSlot(0))) is None


TEXTS: dict[str, tuple[Any, list[Any]]] = {
    "a text": (lambda a: torch.linalg.qr(a, mode="complete"), [values(4, 3)]),
    "a text and a bool": (lambda a: torch.linalg.eigh(a, UPLO="U"), [regular()]),
    "an optional text": (torch.searchsorted, [torch.arange(8.0), values(5)]),
    "an optional text and tensor": (
        lambda a, v, order: torch.searchsorted(a, v, side="right", sorter=order),
        [torch.arange(8.0), values(5), torch.arange(8)],
    ),
    "many elements": (torch.linalg.qr, [values(96, 96)]),
    "an optional bool": (lambda a: torch.sort(a, stable=True, dim=0), [values(5, 4).round()]),
    "nan and signed zeros": (lambda a: torch.sort(a), [torch.tensor([0.0, float("nan"), -0.0, 1.0, -1.0])]),
    "half precision": (lambda a: torch.topk(a, 2), [values(6).half()]),
}  # fmt: skip


@here
@pytest.mark.parametrize("name", [*PROGRAMS, *TEXTS])
def test_results_are_those_of_eager_and_of_the_dispatcher(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Direct calls, the dispatcher and eager mode give the same bits and strides, and no views."""
    function, given = {**PROGRAMS, **TEXTS}[name]
    seen: list[Any] = []
    own = direct.encoded
    monkeypatch.setattr(dispatched.direct, "encoded", lambda *asked: seen.append(own(*asked)) or seen[-1])
    nbcompile.reset()
    ours = nbcompile.compile(function, fullgraph=True)
    for _ in range(4):
        found = several(ours(*given))
    assert any(seen)
    monkeypatch.setattr(dispatched.direct, "encoded", lambda *asked: None)
    nbcompile.reset()
    by_name = several(nbcompile.compile(function, fullgraph=True)(*given))
    for one, other, third in zip(found, several(function(*given)), by_name, strict=True):
        assert one.stride() == other.stride() == third.stride()
        assert bits(one) == bits(other) == bits(third)
        assert not one.requires_grad and not one._is_view()


@here
def test_gradients_and_sizes() -> None:
    """A direct call in a graph with gradients and symbolic sizes gives eager's results and gradients."""

    def function(a: torch.Tensor) -> torch.Tensor:
        q, r = torch.linalg.qr(a)
        return (q @ r).sum() + torch.topk(a.flatten(), a.shape[0]).values.sum()

    compiled = nbcompile.compile(function, dynamic=True, fullgraph=True)
    for size in (3, 4, 6):
        one, other = values(size, 3).requires_grad_(), values(size, 3).requires_grad_()
        compiled(one).backward()
        function(other).backward()
        torch.testing.assert_close(one.grad, other.grad)


@here
def test_modes_see_the_operator() -> None:
    """Under a dispatch mode the program runs as its wrapper, so that the mode sees the operator."""

    class Listing(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            names.append(str(func))
            return func(*args, **(kwargs or {}))

    names: list[str] = []
    compiled = nbcompile.compile(torch.linalg.qr, fullgraph=True)
    a = values(3, 3)
    for _ in range(4):
        compiled(a)
    with Listing():
        found = compiled(a)
    assert "aten.linalg_qr.default" in names
    assert torch.equal(found[0], torch.linalg.qr(a)[0])


def test_a_step_that_is_not_valid_is_rejected() -> None:
    """The launcher rejects words with an index beyond its slots, positions or texts."""
    module = launcher.extension_module(toolchain.find())
    if isinstance(module, launcher.NoLauncher):
        pytest.skip(module.reason)
    code, *_ = module.describe(torch.ones(3))
    result = (1, (), code, (3,), (1,), print)
    for words in ((24, 0, 0), (0, 6, 0), (0, 1, 2), (0, 4, 0), (0, 5, 3), (0, 5, -1), (0, 0)):
        step = (4, print, (), None, (result,), (1, words, (), (0,), 1), None)
        with pytest.raises(ValueError, match="words"):
            module.make_program((((code, (3,), (1,)),), (step,), ((1, None),), ()), 2, True, (), print, print, None)


def switches_while(call: Any) -> bool:
    """Return whether another thread gets the GIL while ``call`` runs: the switch interval is longer than the test.

    The results live until the end, and no garbage is collected: torch releases the GIL to free a tensor.
    """
    turns, ends, before, results = [0], threading.Event(), sys.getswitchinterval(), []

    def count() -> None:
        while not ends.is_set():
            turns[0] += 1
            time.sleep(0)

    sys.setswitchinterval(1000)
    gc.disable()
    other = threading.Thread(target=count)
    try:
        other.start()
        while not turns[0]:
            time.sleep(0.001)
        first = turns[0]
        results.append(call())
        return turns[0] != first
    finally:
        gc.enable()
        sys.setswitchinterval(before)
        ends.set()
        other.join()


@here
def test_the_gil_is_kept_for_small_arguments_and_results_alone() -> None:
    """A step on few elements keeps the GIL, and a step on many elements releases it."""
    compiled = nbcompile.compile(lambda a, b: torch.cdist(a, b, p=1.0), fullgraph=True, dynamic=False)
    small, large = torch.randn(8, 1), torch.randn(2000, 1)
    for each in (small, large):
        for _ in range(4):
            compiled(each, each)
    assert not any([switches_while(lambda: compiled(small, small)) for _ in range(3)])
    assert any([switches_while(lambda: compiled(large, large)) for _ in range(20)])


def test_another_library_of_the_name_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The functions are those of torch's loaded library: another copy would have a separate dispatcher."""
    (tmp_path / "lib").mkdir()
    shutil.copy(_ctypes.__file__, tmp_path / "lib" / "libtorch_cpu.so")
    monkeypatch.setattr(torch, "__file__", str(tmp_path / "__init__.py"))
    assert direct._library.__wrapped__() is None


def test_a_library_with_another_standard_library_is_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another standard library may have another layout of tuples, so symbols must have libstdc++'s type names."""
    supported = direct._is_supported_here.__wrapped__
    monkeypatch.setattr(direct, "_address", lambda symbol: None if "St17basic_string_view" in symbol else 4096)
    assert not supported()
