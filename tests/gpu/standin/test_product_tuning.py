"""Autotuning of matrix products on the stand-in driver: candidates are compiled by workers, and their times stored."""

from __future__ import annotations

import pytest
import torch

import nbcompile
from nbcompile.gpu import cubins, product_tuning, templates
from nbcompile.gpu.product_times import Prediction
from nbcompile.ir.kernel import ProductTile
from nbcompile.runtime import store

TILES = (ProductTile(32, 32, 32, 4, 3), ProductTile(16, 32, 32, 2, 3), ProductTile(16, 16, 16, 1, 2))

SLOW = Prediction(1.0, 0.0, 0.0)
"""Of a product whose sum is whole."""


@pytest.fixture(autouse=True)
def few_tiles(monkeypatch):
    """A short list of tiles, because each is simulated."""
    monkeypatch.setattr(templates, "TILES", TILES)


@pytest.fixture
def fresh_times(monkeypatch):
    """No stored times of other tests or earlier runs."""
    times: dict[str, dict[str, float | None]] = {}
    monkeypatch.setattr(product_tuning, "_read", lambda key: times.get(key, {}))
    monkeypatch.setattr(product_tuning, "_keep", times.__setitem__)


def explained(function, *inputs, **how):
    """Compile and run; assert eager's results."""
    found = nbcompile.explain(function, **how)(*inputs)
    torch.testing.assert_close(found.result, function(*inputs), rtol=2e-2, atol=5e-2)
    return found


def gelu_of_product(x, w, b):
    return torch.nn.functional.gelu(torch.addmm(b, x, w))


def inputs():
    torch.manual_seed(0)
    return [torch.randn(size, device="cuda").half() for size in ((32, 48), (48, 40), (40,))]


def measured(monkeypatch, fastest: str) -> list[str]:
    """The names of measured candidates, in order; one of them takes 1 us, the others 1 ms."""
    names: list[str] = []

    def seconds(call, expected):
        del expected
        call()
        tile = getattr(call.func, "__name__", "")  # a kernel or an operator
        names.append(tile)
        return 1e-6 if fastest in tile or (fastest == "library" and tile in ("mm", "bmm", "addmm.default")) else 1e-3

    monkeypatch.setattr(product_tuning, "seconds", seconds)
    return names


@pytest.mark.usefixtures("fresh_times")
@pytest.mark.parametrize("mode", ["max-autotune", "max-autotune-no-cudagraphs"])
def test_a_product_is_tuned_by_measurement(mode):
    """Under torch's autotuning modes the record has the candidates' times, the chosen one first."""
    found = explained(gelu_of_product, *inputs(), mode=mode)
    (tuned,) = (kernel.autotuning for kernel in found.kernels if kernel.autotuning is not None)
    assert all(candidate.measured for candidate in tuned.candidates)
    assert {candidate.name for candidate in tuned.candidates} == {"addmm", *(tile.label for tile in TILES)}


def test_the_default_mode_measures_nothing(monkeypatch):
    """The default mode measures nothing and uses ATen's product, as in torch."""
    names = measured(monkeypatch, "library")
    found = explained(gelu_of_product, *inputs())
    assert names == []
    assert [kernel.language for kernel in found.kernels] == ["triton", "aten"]


@pytest.mark.usefixtures("fresh_times")
def test_the_fastest_is_chosen(monkeypatch):
    """The fastest candidate is chosen; if that is ATen's, its epilogue is a separate kernel."""
    measured(monkeypatch, "library")
    found = explained(gelu_of_product, *inputs(), mode="max-autotune")
    (call,) = (kernel for kernel in found.kernels if kernel.language == "aten")
    assert "(measured)" in call.reason
    assert call.autotuning.candidates[0].name == "addmm"


def test_what_was_measured_is_known_by_the_next_process(monkeypatch, tmp_path):
    """The times are in the store; a product with other strides is measured separately."""
    monkeypatch.setenv("NBCOMPILE_CACHE_DIR", str(tmp_path))
    names = measured(monkeypatch, "library")
    x, w, b = inputs()
    for inputs_of_call, count in (((x, w, b), 4), ((x, w, b), 4), ((x, w.t().contiguous().t(), b), 8)):
        nbcompile.reset()
        explained(gelu_of_product, *inputs_of_call, mode="max-autotune")
        assert len(names) == count


@pytest.mark.parametrize("text", ["[]", "no JSON", '{"library": "fast"}', "7"])
def test_an_entry_that_holds_something_else_is_absent(monkeypatch, tmp_path, text):
    """An invalid entry of the folder counts as absent."""
    monkeypatch.setenv("NBCOMPILE_CACHE_DIR", str(tmp_path))
    key = store.key_of("product", text)
    store.add(key, ".json", lambda path: path.write_text(text))
    assert product_tuning._read(key) == {}
    good = store.key_of("product", "good")
    store.add(good, ".json", lambda path: path.write_text('{"library": 1e-5, "16x16x16": null}'))
    assert product_tuning._read(good) == {"library": 1e-5, "16x16x16": None}


@pytest.mark.usefixtures("fresh_times")
def test_dynamic_sizes_are_measured_as_those_of_the_call(monkeypatch):
    """Symbolic sizes are measured with the sizes of the call, with epilogues, too."""
    given = []

    def seconds(call, expected):
        call()
        given.append(call.args)
        return 1e-6

    monkeypatch.setattr(product_tuning, "seconds", seconds)
    x, w, b = inputs()
    explained(gelu_of_product, x, w, b, mode="max-autotune-no-cudagraphs", dynamic=True)
    *ours, library = given
    assert [tuple(value.shape) for value in library] == [(40,), (32, 48), (48, 40)]
    assert len(ours) == len(TILES)
    for arguments in ours:
        tensors = [value for value in arguments if isinstance(value, torch.Tensor)]
        assert {tuple(value.shape) for value in tensors} == {(40,), (32, 48), (48, 40), (32, 40)}
        assert sorted(value for value in arguments if isinstance(value, int)) == [32, 40, 48]


@pytest.mark.usefixtures("fresh_times")
def test_too_little_memory_leaves_the_prediction(monkeypatch):
    """If memory does not suffice for a measurement, the prediction chooses."""

    def raising(call, expected):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(product_tuning, "seconds", raising)
    found = explained(gelu_of_product, *inputs(), mode="max-autotune")
    (tuned,) = (kernel.autotuning for kernel in found.kernels if kernel.autotuning is not None)
    assert not any(candidate.measured for candidate in tuned.candidates)


@pytest.mark.usefixtures("fresh_times")
def test_the_random_state_is_the_users():
    """A measurement draws no random numbers."""
    given, before = inputs(), torch.get_rng_state()
    nbcompile.compile(gelu_of_product, mode="max-autotune")(*given)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.usefixtures("fresh_times")
@pytest.mark.parametrize("fastest", ["in parts", "whole"])
def test_a_sum_in_parts_is_measured_before_it_is_chosen(monkeypatch, fastest):
    """A split sum is chosen by prediction, measured, and lowered again without the split if that is faster."""
    calls = []

    def seconds(call, expected):
        call()
        calls.append(getattr(call.func, "__name__", ""))
        is_in_parts = len(calls) > len(TILES) + 1
        return 1e-3 if not is_in_parts else 1e-6 if fastest == "in parts" else 1.0

    monkeypatch.setattr(product_tuning, "seconds", seconds)
    monkeypatch.setattr(templates, "predict", lambda *given: SLOW)
    torch.manual_seed(0)
    x, w = torch.randn(16, 2048, device="cuda").half() / 16, torch.randn(2048, 32, device="cuda").half()
    found = explained(lambda x, w: torch.relu(x @ w), x, w, mode="max-autotune")
    kernels = [kernel for kernel in found.kernels if kernel.language == "triton"]
    tuned = next(kernel.autotuning for kernel in found.kernels if kernel.autotuning is not None)
    assert ("sum in" in tuned.candidates[0].name) == (fastest == "in parts")
    assert tuned.candidates[0].measured
    assert len(kernels) == (2 if fastest == "in parts" else 1)
    assert any("sum in" in candidate.name and candidate.measured for candidate in tuned.candidates)


def test_a_grouped_product_is_launched(here):
    """One kernel computes all groups, whose sizes the CPU does not know; gradients are grouped products, too."""
    torch.manual_seed(0)
    a, b = (torch.randn(size, device="cuda").bfloat16().requires_grad_() for size in ((40, 32), (3, 32, 48)))
    groups = torch.tensor([10, 10, 40], dtype=torch.int32, device="cuda")

    def function(a, b):
        return torch.nn.functional.grouped_mm(a, b, offs=groups)

    expected = function(a, b)
    wanted = torch.autograd.grad(expected.float().sin().sum(), (a, b))
    options = {"max_autotune": True, "max_autotune_gemm_backends": "TRITON"}
    here.driver.clear_log()
    result = nbcompile.compile(function, options=options, fullgraph=True)(a, b)
    found = torch.autograd.grad(result.float().sin().sum(), (a, b))
    for mine, theirs in zip((result, *found), (expected, *wanted), strict=True):
        torch.testing.assert_close(mine.cpu(), theirs.cpu(), rtol=2e-2, atol=2e-2)
    names = [line.split()[1] for line in here.driver.log() if line.startswith("launch ")]
    assert names.count("triton_grouped_mm") == 3
    assert here.executor.reasons == []


def test_a_grouped_product_of_other_sizes_is_the_same_kernel(here, monkeypatch):
    """Sizes are arguments of the launch, so other sizes do not recompile; the grid follows the sizes."""
    torch.manual_seed(0)

    def function(a, b, groups):
        return torch.nn.functional.grouped_mm(a, b, offs=groups)

    options = {"max_autotune": True, "max_autotune_gemm_backends": "TRITON"}
    compiled = nbcompile.compile(function, options=options, fullgraph=True, dynamic=True)
    here.driver.clear_log()
    for rows, depth, columns, ends in ((40, 32, 48, [10, 10, 40]), (72, 16, 24, [50, 72])):
        a, b = torch.randn(rows, depth).bfloat16(), torch.randn(len(ends), depth, columns).bfloat16()
        given = [value.cuda() for value in (a, b, torch.tensor(ends, dtype=torch.int32))]
        found = compiled(*given)
        torch.testing.assert_close(found.cpu(), function(*given).cpu(), rtol=2e-2, atol=2e-2)
        monkeypatch.setattr(cubins._workers, "compile", lambda requests: pytest.fail("compiled again"))
    launches = [line for line in here.driver.log() if line.startswith("launch triton_grouped_mm")]
    assert len(launches) == len(set(launches)) >= 2
    assert here.executor.reasons == []


@pytest.mark.usefixtures("fresh_times")
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("fastest", ["library", "triton_grouped"])
def test_a_grouped_product_is_chosen_by_measurement(monkeypatch, fastest, dynamic):
    """ATen's kernel and ours are measured on groups of equal length, with the sizes of the call."""
    names = []

    def seconds(call, expected):
        call()
        names.append(getattr(call.func, "__name__", type(call.func).__name__))
        is_library = "grouped_mm" in names[-1]
        return 1e-6 if is_library == (fastest == "library") else 1e-3

    monkeypatch.setattr(product_tuning, "seconds", seconds)
    torch.manual_seed(0)
    a, b = (torch.randn(size, device="cuda").bfloat16() for size in ((40, 32), (3, 32, 48)))
    groups = torch.tensor([10, 10, 40], dtype=torch.int32, device="cuda")

    def function(a, b):
        return torch.relu(torch.nn.functional.grouped_mm(a, b, offs=groups))

    found = nbcompile.explain(function, mode="max-autotune-no-cudagraphs", dynamic=dynamic)(a, b)
    torch.testing.assert_close(found.result.cpu(), function(a, b).cpu(), rtol=2e-2, atol=2e-2)
    tuned = next(kernel.autotuning for kernel in found.kernels if kernel.autotuning is not None)
    assert all(candidate.measured for candidate in tuned.candidates)
    assert (tuned.candidates[0].name == "_grouped_mm") == (fastest == "library")
    # With 14 rows in a group, half of a tile of 32 rows would be empty.
    assert len(names) == len(TILES[1:]) + 1
