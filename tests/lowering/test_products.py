"""Matrix products as reductions of the IR, for a GPU where ATen's library is not chosen."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from nbcompile.ir import evaluate, verify
from nbcompile.ir.buffer import Extern, Program, Reduction
from nbcompile.ir.kernel import Kernel, Schedule
from nbcompile.lowering import lower
from nbcompile.scheduling import schedule
from tests.support import targets
from tests.support.lowered import flat, require_equal, traced

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


def lowered(function, *inputs, fallbacks=None, device=GPU, parts=None, **how) -> Program:
    """The program for a GPU, with its products as kernels."""
    program = lower(traced(function, *inputs, **how), True, False, device, fallbacks, parts or {})
    verify.verify_program(program)
    return program


def on_the_cpu(program: Program) -> Program:
    """The same buffers in the memory of the CPU, for the evaluator and Triton's interpreter."""
    buffers = [each if isinstance(each, Extern) else replace(each, device=CPU) for each in program.buffers]
    return replace(program, buffers=tuple(buffers))


def check(function, *inputs, kernels: int = 1, **how) -> tuple[Program, Schedule]:
    """Assert eager's values from the evaluator and Triton's interpreter, the number of kernels, and no extern call."""
    program = lowered(function, *inputs, **how)
    planned = schedule(program, verify.verify_program)
    verify.verify_schedule(planned)
    assert [type(step) for step in planned.steps if isinstance(step, (Kernel, Extern))] == [Kernel] * kernels
    here = schedule(on_the_cpu(program))
    expected = flat(function(*inputs))
    require_equal(evaluate.run(on_the_cpu(program), inputs), expected, signs_of_zeros=False)
    if targets.HAS_TRITON:
        require_equal(targets.run_triton(here, inputs), expected, signs_of_zeros=False)
    return program, planned


def products(program: Program) -> list[Reduction]:
    return [each for each in program.buffers if isinstance(each, Reduction) and each.kind.startswith("dot")]


X, W, B = torch.randn(33, 40), torch.randn(40, 50), torch.randn(50)


@pytest.mark.parametrize("function", [
    lambda x, w, b: torch.relu(torch.mm(x, w)),
    lambda x, w, b: torch.addmm(b, x, w),
    lambda x, w, b: torch.addmm(b, x, w, beta=0.5, alpha=3).sigmoid(),
    lambda x, w, b: torch.addmm(b / 0, x, w, beta=0),
    lambda x, w, b: torch.mm(x * 2, w.abs()) * b,
    lambda x, w, b: torch.mm(x.t().contiguous().t(), w.t().contiguous().t()) > 0.5,
    lambda x, w, b: torch.mm(x[:, ::2], w[1::2]) + x[:, :1],
    lambda x, w, b: torch.mm(w.t(), x.t()).t() - b,
    lambda x, w, b: torch.mm(x[:1].expand(33, 40), w) / 3,
], ids=range(9))  # fmt: skip
def test_a_product_with_what_precedes_and_follows_is_one_kernel(function):
    """A product with bias, activation, residual, scaled or transposed operands is one kernel."""
    check(function, X, W, B)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_types_are_rounded_where_eager_rounds(dtype):
    """The product is rounded once; a computed operand is rounded before the multiplication.

    (It is computed exactly here: Triton's interpreter does not round to bfloat16 as a GPU does.)
    """
    program, _ = check(lambda x, w: F.gelu(torch.mm(x * 2, w)) * 2, X.to(dtype) / 4, W.to(dtype))
    (product,) = products(program)
    assert (product.dtype, product.accumulate) == (dtype, torch.float32)


def test_the_bias_is_added_before_the_result_is_rounded():
    """The product is float32 inside of the kernel, as in the library: it is rounded after the bias."""
    program, planned = check(lambda x, w, b: torch.addmm(b, x, w), X.half(), W.half(), B.half())
    assert products(program)[0].dtype == torch.float32
    (kernel,) = planned.kernels()
    assert products(program)[0].name not in kernel.writes


def test_batches():
    """Batched products work, with a broadcast operand and with an epilogue, too."""
    a, b = torch.randn(3, 20, 24), torch.randn(3, 24, 18)
    check(lambda a, b: torch.bmm(a, b).relu(), a, b)
    check(lambda a, b: torch.baddbmm(a[..., :1], a, b, beta=2), a, b)
    check(lambda a, b: torch.bmm(a, b[:1].expand(3, 24, 18)), a, b)
    check(lambda a, b: torch.bmm(a[:1].expand(3, 20, 24), b) + 1, a, b)
    check(lambda a, b: torch.bmm(a[:1], b[:1]), a, b)


def test_a_linear_layer_over_several_dimensions():
    """The product has the dimensions of its only user's view, so that the epilogue joins its kernel."""
    x, r = torch.randn(2, 17, 40), torch.randn(2, 17, 50)
    program, _ = check(lambda x, w, b, r: F.silu(F.linear(x, w.t(), b)) + r, x, W, B, r)
    assert len(products(program)[0].layout.size) == 3
    check(lambda x, w: (x.transpose(0, 1) @ w).tanh(), x, W)


def test_dynamic_sizes():
    """Symbolic sizes are arguments of the kernel."""
    _, planned = check(lambda x, w, b: torch.relu(torch.addmm(b, x, w)), X, W, B, dynamic=True)
    (kernel,) = planned.kernels()
    assert any(loop.size.free_symbols for loop in kernel.loops)


def test_what_reduces_rows_is_a_kernel_of_its_own():
    """A reduction over rows is a separate kernel: a tile has only a part of each row."""
    check(lambda x, w: torch.mm(x, w).softmax(-1), X, W, kernels=2)
    check(lambda x, w: (torch.mm(x, w).relu(), torch.mm(x, w).square().sum()), X, W, kernels=3)


def test_two_products_in_a_row():
    """Each of two chained products begins a kernel."""
    check(lambda x, w: torch.relu(x @ w) @ w.t() / 9, X / 9, W, kernels=2)


def test_a_costly_operand_is_computed_once():
    """An expensive operand is computed once, in a separate kernel: many blocks of the product would recompute it."""
    check(lambda x, w: (x.sin() * x.exp() + x.tanh()) @ w, X, W, kernels=2)


@pytest.mark.parametrize(("function", "inputs"), [
    (torch.mm, (torch.randn(1, 8), torch.randn(8, 8))),
    (torch.mm, (torch.randn(8, 8), torch.randn(8, 1))),
    (torch.mm, (torch.randn(8, 1), torch.randn(1, 8))),
    (torch.mm, (torch.randn(8, 0), torch.randn(0, 8))),
    (torch.mm, (torch.randn(0, 8), torch.randn(8, 8))),
    (torch.mm, (torch.randn(8, 8).double(), torch.randn(8, 8).double())),
    (torch.mm, (torch.ones(8, 8, dtype=torch.int64), torch.ones(8, 8, dtype=torch.int64))),
], ids=["row", "column", "outer", "nothing summed", "empty", "float64", "integers"])  # fmt: skip
def test_what_is_left_to_the_library(function, inputs):
    """Products with a dimension of size 1 or 0, and with unsupported dtypes, run through ATen."""
    program = lowered(function, *inputs)
    assert [str(each.target) for each in program.buffers if isinstance(each, Extern)] == ["aten.mm.default"]


def test_a_rejected_product_is_an_extern_call():
    """A rejected product is an extern call, and its operands are stored."""
    program = lowered(lambda x, w: torch.relu((x * 2) @ w), X, W, fallbacks={"mm": "the library is faster"})
    (call,) = (each for each in program.buffers if isinstance(each, Extern))
    assert call.reason == "the library is faster"
    assert products(program) == []


def test_a_cpu_has_the_library_alone():
    """On a CPU, products always run through ATen."""
    assert products(lowered(lambda x, w: x @ w, X, W, device=None)) == []


@pytest.mark.parametrize(("setting", "value"), [("allow_tf32", True), ("fp32_precision", "tf32")])
def test_tf32_only_where_eager_may(setting, value):
    """TF32 is used only if ``torch.backends.cuda.matmul`` allows it, by its old or its new setting."""
    assert products(lowered(torch.mm, X, W))[0].kind == "dot"
    before = getattr(torch.backends.cuda.matmul, setting)
    setattr(torch.backends.cuda.matmul, setting, value)
    try:
        assert products(lowered(torch.mm, X, W))[0].kind == "dot_tf32"
        assert products(lowered(torch.mm, X.half(), W.half()))[0].kind == "dot"
    finally:
        setattr(torch.backends.cuda.matmul, setting, before)


def test_an_input_that_the_product_reads_is_not_overwritten_meanwhile():
    """A mutation of an input that the product reads is not fused into it: other programs still read the input."""
    square = torch.randn(32, 32)
    program = lowered(lambda x: x.copy_(torch.relu(x @ x)), square.clone())
    here = on_the_cpu(program)
    mine, theirs = square.clone(), torch.relu(square @ square)
    evaluate.run(schedule(here), (mine,))
    torch.testing.assert_close(mine, theirs)
    kernels = list(schedule(program).kernels())
    assert all(not set(kernel.reads) & set(kernel.writes) for kernel in kernels if kernel.product)


@pytest.mark.parametrize("number", [2, 3, 4, 8])
def test_a_long_sum_in_parts(number):
    """A long sum is two kernels: parts in float32, then their sum with the epilogue, also for unequal parts."""
    x, w, b = torch.randn(9, 520) / 16, torch.randn(520, 11) / 16, torch.randn(11)
    programs = [
        check(lambda x, w: torch.mm(x, w).relu(), x, w, kernels=2, parts={"mm": number}),
        check(lambda x, w, b: torch.addmm(b, x.half(), w.half(), beta=2).tanh(), x, w, b.half(), kernels=2,
              parts={"addmm": number}),
        check(lambda x, w: torch.bmm(x.view(3, 3, 520), w.expand(3, 520, 11)) * 2, x, w, kernels=2, parts={"bmm": number}),
        check(lambda x, w, b: F.linear(x.view(3, 3, 520), w.t(), b).sin(), x, w, b, kernels=2, parts={"addmm": number}),
        check(lambda x, w: torch.mm(x * 2, w.abs()), x, w, kernels=2, parts={"mm": number}),
    ]  # fmt: skip
    for program, _ in programs:
        (product,) = products(program)
        assert product.dtype == torch.float32
        assert number in product.layout.size[:2]
