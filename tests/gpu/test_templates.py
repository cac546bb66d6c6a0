"""Matrix products as GPU kernels: eager's values in the simulator, matrix instructions, and counted bytes."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
pytest.importorskip("numpy", reason="the simulator computes with NumPy")

import nbcompile
from nbcompile.gpu import templates
from nbcompile.gpu.chip import CHIPS
from nbcompile.gpu.product_times import Shape
from nbcompile.ir.kernel import ProductTile
from tests.gpu import products

pytestmark = pytest.mark.usefixtures("nothing_compiled")

OURS = {"target": "sm_90", "max_autotune_gemm": True, "max_autotune_gemm_backends": "TRITON"}
WIDE = ProductTile(64, 64, 32, 4, 3)


@pytest.fixture
def one_tile(monkeypatch):
    """One candidate: a tile for the matrix instructions of a warp group."""
    monkeypatch.setattr(templates, "TILES", (WIDE,))


def explained(function, *inputs, options=OURS, **how):
    """Run the compiled function; assert that the result is eager's."""
    found = nbcompile.explain(function, options=options, **how)(*inputs)
    expected = function(*inputs)
    torch.testing.assert_close(found.result, expected, **products.tolerance(inputs[0].dtype))
    return found


def half(*size: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.randn(size).to(dtype)


def sass(kernel) -> str:
    return " ".join(text for line in kernel.gpu.lines for text in line.sass)


@pytest.mark.prints_machine_code
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.usefixtures("one_tile")
def test_a_product_with_its_epilogue_on_the_matrix_units_of_sm_90(dtype):
    """The kernel has ``wgmma`` (HGMMA in SASS) and asynchronous copies; bias and activation are in registers."""
    x, w, b = half(70, 96, dtype=dtype), half(96, 72, dtype=dtype), half(72, dtype=dtype)
    (kernel,) = explained(lambda x, w, b: F.gelu(torch.addmm(b, x, w)), x, w, b).kernels
    assert "HGMMA.64x64x16.F32" in sass(kernel)
    assert "LDGSTS" in sass(kernel)
    assert kernel.gpu.spills == 0


@pytest.mark.prints_machine_code
@pytest.mark.usefixtures("one_tile")
def test_sm_80_multiplies_by_warps():
    """On sm_80 the kernel has ``mma``, HMMA in SASS."""
    x, w = half(64, 32), half(32, 64)
    (kernel,) = explained(lambda x, w: torch.mm(x, w).relu(), x, w, options={**OURS, "target": "sm_80"}).kernels
    assert "HMMA.16816.F32.BF16" in sass(kernel)


@pytest.mark.prints_machine_code
def test_float32_has_no_matrix_units_unless_eager_allows_them():
    """Without tf32 each value is as exact as eager's; with tf32 the factors have 10 bits."""
    x, w = torch.randn(32, 32), torch.randn(32, 32)
    (kernel,) = explained(torch.mm, x, w).kernels
    assert "FFMA" in sass(kernel)
    assert "MMA" not in sass(kernel).replace("HFMA2.MMA", "")


@pytest.mark.usefixtures("one_tile")
def test_an_epilogue_adds_no_traffic_but_its_own_operands():
    """An activation moves no bytes, a bias and a residual move their own, and a cast changes the result's."""

    def figures(function, *inputs):
        (kernel,) = explained(function, *inputs).kernels
        return kernel.gpu.least, kernel.gpu.moved

    x, w, b, r = half(64, 64), half(64, 128), half(128), half(64, 128)
    least, moved = figures(lambda x, w: x @ w, x, w)
    assert least == 2 * (64 * 64 + 64 * 128 + 64 * 128)
    assert figures(lambda x, w: F.silu(x @ w) * 2, x, w) == (least, moved)
    assert figures(lambda x, w, r: F.gelu(x @ w) + r, x, w, r) == (least + 2 * 64 * 128, moved + 2 * 64 * 128)
    with_bias = figures(lambda x, w, b: torch.relu(torch.addmm(b, x, w)), x, w, b)
    assert with_bias[0] == least + 2 * 128
    assert with_bias[1] <= moved + 8 * 2 * 128  # each warp loads the bias of its columns
    assert figures(lambda x, w: (x @ w).float(), x, w) == (least + 2 * 64 * 128, moved + 2 * 64 * 128)


@pytest.mark.usefixtures("one_tile")
def test_matrix_instructions_that_the_simulator_lacks_are_the_librarys():
    """On sm_100 the product runs through ATen, and its epilogue is a kernel."""
    found = explained(
        lambda x, w: torch.mm(x, w).relu() * 3, half(128, 64), half(64, 128), options={**OURS, "target": "sm_100"}
    )
    kernel, call = found.kernels
    assert (call.language, kernel.language) == ("aten", "triton")
    assert "tcgen05" in call.reason


def test_only_the_library_unless_asked():
    """Templates are candidates only with max-autotune, as in torch."""
    function, inputs = (lambda x, w: torch.mm(x, w).relu()), (half(32, 32), half(32, 32))
    for options in (
        {},
        {"max_autotune_gemm_backends": "TRITON"},
        {"max_autotune": True, "max_autotune_gemm_backends": "ATEN"},
    ):
        _, call = explained(function, *inputs, options={"target": "sm_90", **options}).kernels
        assert call.language == "aten"
    (kernel,) = explained(function, *inputs, options={"target": "sm_90", "max_autotune": True}).kernels
    assert kernel.language == "triton"


def test_gradients_of_a_linear_layer():
    """Products of transposed factors are generated kernels, without a copy."""
    torch.manual_seed(0)
    layer = torch.nn.Linear(32, 48)
    x = torch.randn(16, 32, requires_grad=True)
    function = nbcompile.compile(lambda x: F.relu(layer(x)), options=OURS)
    function(x).square().sum().backward()
    mine = [x.grad.clone(), layer.weight.grad.clone(), layer.bias.grad.clone()]
    x.grad = layer.weight.grad = layer.bias.grad = None
    F.relu(layer(x)).square().sum().backward()
    torch.testing.assert_close(mine, [x.grad, layer.weight.grad, layer.bias.grad], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("seed", [0, 1, 8, 12, 27, *range(40, 44)])
def test_a_generated_product(seed):
    """A random product, with its strides, prologue, epilogue and tile, equals eager's; the first seeds had bugs."""
    assert products.differences(seed) == [], products.program(seed).text


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200))
def test_200_generated_products(seed):
    """200 more random products equal eager's (``make sweep``)."""
    assert products.differences(seed) == [], products.program(seed).text


@pytest.mark.parametrize("chip", CHIPS.values(), ids=CHIPS)
def test_tiles_that_fit(chip):
    """Each chip has a candidate for each kind of product."""
    for kind, width in (("narrow", 2), ("tf32", 4), ("float32", 4)):
        tiles = templates.FLOAT_TILES if kind == "float32" else templates.TILES
        shape = Shape(1, 4096, 4096, 4096, width, kind)
        assert any(templates.fits(tile, shape, chip) for tile in tiles)
        assert any(templates.fits(tile, shape, chip) for tile in templates.LIBRARY_TILES)


def test_a_chosen_library_call_says_by_how_much(monkeypatch):
    """The reason for ATen's call has the times, and the record has all candidates."""
    monkeypatch.setattr(templates, "TEMPLATE_REACHED", 1e-3)
    found = explained(torch.mm, half(64, 48), half(48, 64), options={"target": "sm_90", "max_autotune": True})
    (call,) = found.kernels
    assert call.language == "aten"
    assert "the library takes" in call.reason
    assert call.autotuning.candidates[0].name == "mm"


def test_tf32_is_guarded():
    """If eager mode may use tf32, the product recompiles for the matrix units."""
    x, w = torch.randn(32, 32), torch.randn(32, 32)
    before = torch.backends.cuda.matmul.allow_tf32
    sources = []
    try:
        for allowed in (False, True):
            torch.backends.cuda.matmul.allow_tf32 = allowed
            found = nbcompile.explain(torch.mm, options=OURS)(x, w)
            torch.testing.assert_close(found.result, x @ w, rtol=1e-5, atol=3e-2 if allowed else 1e-4)
            sources.append(found.kernels[0].source)
        compiled = nbcompile.compile(torch.mm, options=OURS)
        results = []
        for allowed in (False, True):
            torch.backends.cuda.matmul.allow_tf32 = allowed
            results.append(compiled(x, w))
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    assert ['input_precision="tf32"' in source for source in sources] == [False, True]
    assert not torch.equal(*results)


@pytest.mark.prints_machine_code
@pytest.mark.usefixtures("one_tile")
def test_a_convolution_of_one_pixel_with_its_epilogue():
    """A 1x1 convolution is a product with bias, activation and residual in registers, without extra traffic."""
    x, w, b, r = half(1, 64, 8, 8), half(64, 64, 1, 1), half(64), half(1, 64, 8, 8)
    (kernel,) = explained(lambda x, w, b, r: F.relu(F.conv2d(x, w, b)) + r, x, w, b, r).kernels
    assert "HGMMA.64x64x16.F32.BF16" in sass(kernel)
    assert kernel.gpu.least == 2 * (3 * 64 * 64 + 64 + 64 * 64)
    assert kernel.gpu.moved <= kernel.gpu.least + 8 * 2 * 64  # each warp loads the biases of its columns


@pytest.mark.prints_machine_code
@pytest.mark.usefixtures("one_tile")
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_a_convolution_reads_its_windows_in_place(memory_format):
    """A convolution in either memory format copies no windows, and has eager mode's strides."""
    x = half(2, 16, 9, 10).to(memory_format=memory_format)
    w, b = half(40, 16, 3, 3).to(memory_format=memory_format), half(40)

    def function(x, w, b):
        return F.silu(F.conv2d(x, w, b, stride=2, padding=(1, 2)))

    found = explained(function, x, w, b)
    (kernel,) = found.kernels
    assert "HGMMA" in sass(kernel)
    assert found.result.stride() == function(x, w, b).stride()


def test_a_library_convolution_is_predicted_by_its_own_traffic():
    """The prediction for ATen's convolution loads the image once; the epilogue is a separate kernel."""
    options = {"target": "sm_90", "max_autotune": True}
    x, w = half(1, 16, 12, 12), half(32, 16, 3, 3)
    found = explained(lambda x, w: F.relu(F.conv2d(x, w, padding=1)), x, w, options=options)
    tuned = next(kernel.autotuning for kernel in found.kernels if kernel.autotuning is not None)
    assert tuned.operator == "convolution"
    assert "convolution" in [candidate.name for candidate in tuned.candidates]


@pytest.mark.parametrize("dynamic", [None, True])
def test_a_persistent_kernel_has_one_tile_after_another(monkeypatch, dynamic):
    """Three programs compute the tiles of all matrices, with prologue and epilogue, for symbolic sizes, too."""
    monkeypatch.setattr(templates, "TILES", (ProductTile(64, 32, 32, 4, 3, programs=3),))
    a, b = half(2, 130, 72), half(2, 72, 70)
    found = explained(lambda a, b: torch.relu(torch.bmm(a * 2, b) + 1), a, b, dynamic=dynamic)
    (kernel,) = found.kernels
    assert kernel.gpu.blocks == 3
    assert kernel.gpu.spills == 0
    assert "for tile in range(tl.program_id(0)" in kernel.source


def test_large_products_have_persistent_candidates():
    """A persistent kernel has as many programs as run concurrently, and is no candidate with one tile per program."""
    shapes = [Shape(1, size, size, 4096, 2, "narrow") for size in (4096, 512)]
    tiles = [tile for tile in templates.TILES if tile.rows * tile.columns >= 128 * 128]
    large, small = (list(templates._persistent(tiles, shape, CHIPS["sm_90"])) for shape in shapes)
    assert {tile.programs % 132 for tile in large} == {0}
    assert small == []
