"""Grouped matrix products as GPU kernels: eager mode's values in the simulator, and the candidates."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
pytest.importorskip("numpy", reason="the simulator computes with NumPy")

import nbcompile

pytestmark = pytest.mark.usefixtures("nothing_compiled")

OURS = {"target": "sm_90", "max_autotune": True, "max_autotune_gemm_backends": "TRITON", "simulation_seconds": 300.0}
OPERATOR = torch.ops.aten._grouped_mm.default


def tensors(*sizes):
    torch.manual_seed(0)
    return [torch.randn(size).to(torch.bfloat16) for size in sizes]


def offsets(*ends):
    return torch.tensor(ends, dtype=torch.int32)


def of_columns(w):
    """Factors with contiguous columns, the strides that ATen requires."""
    return w.transpose(-2, -1).contiguous().transpose(-2, -1)


@pytest.mark.parametrize(("left", "right", "ends", "covered"), [
    ((100, 48), (4, 48, 72), (10, 10, 75, 100), (slice(None),)),
    ((100, 48), (3, 48, 40), (33, 40, 90), (slice(0, 90),)),
    ((3, 40, 48), (48, 104), (10, 10, 104), (slice(None),)),
    ((40, 104), (104, 48), (16, 16, 70, 104), (slice(None),)),
], ids=["rows", "rows that no group has", "columns", "parts of the sum"])  # fmt: skip
@pytest.mark.parametrize("transposed", [False, True])
def test_groups_are_found_by_the_kernel(left, right, ends, covered, transposed):
    """Groups of rows, of columns, and of the summed dim, one empty, none a multiple of a tile, are one kernel."""
    a, b = tensors(left, right)
    b = of_columns(b) if transposed else b
    groups = offsets(*ends)
    found = nbcompile.explain(lambda a, b, groups: OPERATOR(a, b, groups), options=OURS)(a, b, groups)
    expected = OPERATOR(a, b, groups)
    assert found.result.stride() == expected.stride()
    torch.testing.assert_close(found.result[covered], expected[covered], rtol=2e-2, atol=2e-2)
    (kernel,) = (kernel for kernel in found.kernels if kernel.name == "triton_grouped_mm")
    assert kernel.gpu.spills == 0
    assert len(kernel.autotuning.candidates) > 3


@pytest.mark.parametrize(("left", "right", "ends", "longer"), [
    ((100, 48), (4, 48, 72), (10, 10, 75, 100), ((37, 80), (3, 80, 24), (0, 20, 37))),
    ((3, 40, 48), (48, 104), (10, 10, 104), ((2, 33, 16), (16, 56), (50, 56))),
    ((40, 104), (104, 48), (16, 16, 70, 104), ((24, 56), (56, 16), (7, 56))),
], ids=["rows", "columns", "parts of the sum"])  # fmt: skip
def test_one_kernel_has_all_sizes(left, right, ends, longer):
    """Groups, rows, columns and depth are arguments: other sizes do not recompile."""

    def function(a, b, groups):
        return torch.relu(OPERATOR(a, b, groups))

    given = (*tensors(left, right), offsets(*ends))
    found = nbcompile.explain(function, options=OURS, dynamic=True)(*given)
    torch.testing.assert_close(found.result, function(*given), rtol=2e-2, atol=2e-2)
    assert "one kernel for all sizes, chosen for " in found.record.frames[-1].compiled_graph.wrapper
    compiled = nbcompile.compile(function, options=OURS, dynamic=True)
    compiled(*given)
    *sizes, groups = longer
    others = (*tensors(*sizes), offsets(*groups))
    with nbcompile.set_stance("fail_on_recompile"):
        torch.testing.assert_close(compiled(*others), function(*others), rtol=2e-2, atol=2e-2)


def test_a_size_that_is_rounded_up_is_the_same_in_the_kernel():
    """``-(-n // 4)`` has the same value in the kernel: Python rounds down, a GPU rounds towards zero."""

    def function(a, b, groups):
        return OPERATOR(a[: -(-a.shape[0] // 4)], b, groups)

    compiled = nbcompile.compile(function, options=OURS, dynamic=True)
    for rows in (102, 75, 33):
        given = (*tensors((rows, 48), (3, 48, 32)), offsets(5, 9, -(-rows // 4)))
        torch.testing.assert_close(compiled(*given), function(*given), rtol=2e-2, atol=2e-2)
    found = nbcompile.explain(function, options=OURS, dynamic=True)(*given)
    assert "triton_grouped_mm" in [kernel.name for kernel in found.kernels]


@pytest.mark.filterwarnings("error")
def test_no_tile_is_chosen_for_a_call_without_elements():
    """A graph that is compiled for zero groups runs through ATen, without an error."""

    def function(a, b, groups):
        return OPERATOR(a, b[2:], groups[2:]) * 0 + 1

    found = nbcompile.explain(function, options=OURS, dynamic=True)(*tensors((24, 48), (2, 48, 32)), offsets(8, 24))
    assert found.result.shape == (24, 32)
    assert "aten._grouped_mm.default" in [kernel.name for kernel in found.kernels]


def test_a_gate_of_symbolic_strides_is_in_the_kernel():
    """An epilogue may read a tensor with symbolic strides, and a bias of symbolic length."""

    def function(a, b, groups, z, bias):
        return torch.sigmoid(OPERATOR(a, b, groups) + bias) * z

    given = (*tensors((64, 32), (2, 32, 64)), offsets(20, 64), *tensors((64, 64), (64,)))
    found = nbcompile.explain(function, options=OURS, dynamic=True)(*given)
    torch.testing.assert_close(found.result, function(*given), rtol=2e-2, atol=2e-2)
    assert [kernel.name for kernel in found.kernels if kernel.language == "triton"] == ["triton_grouped_mm"]


def test_a_group_does_not_see_the_numbers_of_another():
    """An infinite weight of one group does not make the results of another one NaN."""
    a, b = tensors((64, 32), (2, 32, 64))
    b[1] = float("inf")
    groups = offsets(20, 64)
    found = nbcompile.compile(lambda a, b, groups: OPERATOR(a, b, groups), options=OURS)(a, b, groups)
    torch.testing.assert_close(found[:20], OPERATOR(a, b, groups)[:20], rtol=2e-2, atol=2e-2)


AFTER = {
    "relu": lambda y, z, bias: torch.relu(y),
    "a gate": lambda y, z, bias: torch.nn.functional.silu(y) * z,
    "a bias": lambda y, z, bias: torch.sigmoid(y + bias),
    "a residual in float32": lambda y, z, bias: (torch.nn.functional.gelu(y) * 0.5).float() + z.float(),
}


@pytest.mark.parametrize("divided", ["rows", "sum"])
@pytest.mark.parametrize("name", AFTER)
def test_what_follows_is_in_the_kernel(name, divided):
    """Activations, a gate, a bias and casts are in the kernel, and are rounded as in eager mode."""
    a, b = tensors((64, 32), (2, 32, 64)) if divided == "rows" else tensors((64, 40), (40, 64))
    groups = offsets(20, 64 if divided == "rows" else 40)
    z, bias = torch.randn(OPERATOR(a, b, groups).shape).bfloat16(), torch.randn(64).bfloat16()

    def function(a, b, groups, z, bias):
        return AFTER[name](OPERATOR(a, b, groups), z, bias)

    found = nbcompile.explain(function, options=OURS)(a, b, groups, z, bias)
    expected = function(a, b, groups, z, bias)
    assert found.result.dtype == expected.dtype
    torch.testing.assert_close(found.result, expected, rtol=2e-2, atol=2e-2)
    launched = [kernel.name for kernel in found.kernels if kernel.language == "triton"]
    assert "triton_grouped_mm" in launched
    assert len(launched) == (2 if name == "a residual in float32" else 1)  # the cast of the residual comes before it


def test_relu_keeps_nan_and_the_sign_of_zero():
    """The epilogue's bits are eager mode's for a product that rounds to -0.0, and for one that is NaN."""
    a, b = torch.full((64, 32), 1e-22).bfloat16(), torch.full((2, 32, 64), -1e-22).bfloat16()
    b[:, :, 1] = 1.0
    a[5, 3], a[8] = float("nan"), 1.0
    groups = offsets(20, 64)
    # The product is the kernel's own: some processors flush eager mode's to +0.0.
    product = nbcompile.explain(lambda a, b, groups: OPERATOR(a, b, groups), options=OURS)(a, b, groups).result
    expected = torch.relu(product)
    assert product[0, 0] == 0 and torch.signbit(product[0, 0])
    found = nbcompile.explain(lambda a, b, groups: torch.relu(OPERATOR(a, b, groups)), options=OURS)(a, b, groups)
    assert [kernel.name for kernel in found.kernels if kernel.language == "triton"] == ["triton_grouped_mm"]
    numbers = ~expected.isnan()
    assert torch.equal(~found.result.isnan(), numbers)
    assert torch.equal(torch.signbit(found.result)[numbers], torch.signbit(expected)[numbers])


def test_a_product_that_is_used_twice_is_in_memory():
    """If the product has two users, it is stored, and its epilogue is a separate kernel."""
    a, b = tensors((64, 32), (2, 32, 64))
    groups = offsets(20, 64)

    def function(a, b, groups):
        y = OPERATOR(a, b, groups)
        return torch.relu(y), y + 1

    found = nbcompile.explain(function, options=OURS)(a, b, groups)
    for mine, theirs in zip(found.result, function(a, b, groups), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=2e-2, atol=2e-2)
    assert [kernel.language for kernel in found.kernels].count("triton") == 2


@pytest.mark.parametrize("ends", [(20, 80), (-10, 64), (30, 10), (0, 64), (90, 95)])
def test_offsets_are_limited_as_those_of_slices(ends):
    """Offsets past the end, negative or decreasing read and write no other memory; rows are eager mode's."""
    a, b = tensors((64, 32), (2, 32, 64))
    groups = offsets(*ends)
    found = nbcompile.explain(lambda a, b, groups: OPERATOR(a, b, groups), options=OURS)(a, b, groups)
    covered = slice(0, 30) if ends == (30, 10) else slice(None)
    torch.testing.assert_close(found.result[covered], OPERATOR(a, b, groups)[covered], rtol=2e-2, atol=2e-2)
    assert not any(note for frame in found.record.frames for note in frame.compiled_graph.notes)


@pytest.mark.parametrize("keyword", [{"bias": torch.zeros(2, 64).bfloat16()}, {"out_dtype": torch.float32}])
def test_what_eager_mode_rejects_is_rejected(keyword):
    """A bias, and results of another dtype, are rejected, as in torch."""
    a, b = tensors((64, 32), (2, 32, 64))
    for function in (OPERATOR, nbcompile.compile(lambda *given: OPERATOR(*given, **keyword), options=OURS)):
        with pytest.raises(RuntimeError, match="(?i)bias|dtype"):
            function(a, b, offsets(20, 64), **(keyword if function is OPERATOR else {}))


def test_a_batch_is_a_product_with_what_follows():
    """Two 3D tensors are a bmm, with its kernel, candidates and epilogue."""
    a, b = tensors((3, 40, 32), (3, 32, 48))
    found = nbcompile.explain(lambda a, b: torch.relu(OPERATOR(a, b)), options=OURS)(a, b)
    torch.testing.assert_close(found.result, torch.relu(OPERATOR(a, b)), rtol=2e-2, atol=2e-2)
    (kernel,) = found.kernels
    assert kernel.language == "triton"
    assert kernel.autotuning.operator == "_grouped_mm"


@pytest.mark.parametrize(("chip", "is_ours"), [("sm_90", False), ("sm_80", True)])
def test_the_library_is_a_candidate(chip, is_ours):
    """Before sm_90 ATen's kernel waits for the offsets and launches once per group: our kernel is faster."""
    a, b = tensors((128, 64), (8, 64, 64))
    groups = offsets(*range(16, 129, 16))
    options = {"target": chip, "max_autotune": True, "simulation_seconds": 300.0}
    found = nbcompile.explain(lambda a, b, groups: OPERATOR(a, b, groups), options=options)(a, b, groups)
    torch.testing.assert_close(found.result, OPERATOR(a, b, groups), rtol=2e-2, atol=2e-2)
    (kernel,) = (kernel for kernel in found.kernels if "empty_strided" not in kernel.name)
    assert kernel.language == ("triton" if is_ours else "aten")
    assert "library" in kernel.reason or is_ours
    assert {candidate.name for candidate in kernel.autotuning.candidates} >= {"_grouped_mm"}
