"""A user's Triton kernels, for the tests of their launches."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

import nbcompile

ON_A_GPU = {"target": "sm_90"}
X = torch.arange(300.0)


@triton.jit
def scale(source, target, count, factor, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = places < count
    tl.store(target + places, tl.load(source + places, mask=inside) * factor, mask=inside)


@triton.jit
def numbered(out):
    at = tl.program_id(0) + 2 * tl.program_id(1) + 6 * tl.program_id(2)
    tl.store(out + at, at * tl.num_programs(1))


CONFIGS = [triton.Config({"BLOCK": block}, num_warps=warps) for block, warps in ((32, 1), (256, 4))]
tuned = triton.autotune(configs=CONFIGS, key=["count"])(scale)
heuristic = triton.heuristics({"BLOCK": lambda given: 64 if given["count"] > 100 else 32})(scale)
outer_heuristic = triton.heuristics({"factor": lambda given: given["count"] / 100})(tuned)
hooked = triton.autotune(configs=[triton.Config({"BLOCK": 32}, pre_hook=print), CONFIGS[1]], key=[])(scale)
pruned = triton.autotune(configs=CONFIGS, key=[], prune_configs_by={"early_config_prune": lambda *_: CONFIGS})(scale)
tuned_heuristic = triton.autotune(configs=CONFIGS, key=[])(triton.heuristics({"factor": lambda _: 2.0})(scale))


def launched(kernel, x, *more, **how):
    """The result of a kernel for x, with blocks of 128 elements unless the kernel chooses its blocks."""
    out = torch.empty_like(x)
    kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel(), *more, **how)
    return out


def explained(function, *inputs, **how):
    found = nbcompile.explain(function, options=ON_A_GPU, fullgraph=True, **how)(*inputs)
    assert found.exception is not None or found.record.frames[-1].compiled_graph.notes == ()
    return found


@triton.jit
def shift(source, target, count, factor, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = places < count
    tl.store(target + places, tl.load(source + places, mask=inside) + factor, mask=inside)


@triton.jit
def scale_by_constant(source, target, count, factor: tl.constexpr, BLOCK: tl.constexpr):
    places = tl.arange(0, BLOCK)
    tl.store(target + places, tl.load(source + places, mask=places < count) * factor, mask=places < count)


@triton.jit
def scale_by_bfloat16(source, target, count, factor: tl.bfloat16, BLOCK: tl.constexpr):
    places = tl.arange(0, BLOCK)
    tl.store(target + places, tl.load(source + places, mask=places < count) * factor, mask=places < count)


@triton.jit
def add_first(target, count, BLOCK: tl.constexpr):
    places = tl.arange(0, BLOCK)
    tl.store(target + places, tl.load(target + places, mask=places < count) + tl.load(target), mask=places < count)


@triton.jit
def negate_bits(target, count, SIGN: tl.constexpr, STEP: tl.constexpr, BLOCK: tl.constexpr):
    places = tl.arange(0, BLOCK)
    inside = places < count
    tl.store(target + places * STEP, tl.load(target + places * STEP, mask=inside) ^ SIGN, mask=inside)


@triton.jit
def add_to(target, first, count, STEP: tl.constexpr, BLOCK: tl.constexpr):
    places = first + tl.arange(0, BLOCK) * STEP
    inside = tl.arange(0, BLOCK) < count
    tl.store(target + places, tl.load(target + places, mask=inside) + 1000, mask=inside)


FACTOR = tl.constexpr(3)


@triton.jit
def scale_by_global(source, target, count, BLOCK: tl.constexpr):
    places = tl.arange(0, BLOCK)
    tl.store(target + places, tl.load(source + places, mask=places < count) * FACTOR, mask=places < count)


@triton.jit
def both(first, second, count, BLOCK: tl.constexpr):
    places = tl.arange(0, BLOCK)
    inside = places < count
    tl.store(first + places, tl.load(first + places, mask=inside) + 1, mask=inside)
    tl.debug_barrier()
    tl.store(second + places, tl.load(second + places, mask=inside) * 10, mask=inside)


@triton.jit
def doubled(source, target, count, BLOCK: tl.constexpr):
    places = tl.arange(0, BLOCK)
    inside = places < count
    tl.store(target + places, tl.load(target + places, mask=inside) * 2, mask=inside)
    tl.debug_barrier()
    tl.store(target + places, tl.load(source + places, mask=inside) + 1, mask=inside)


@torch.library.triton_op("nbtest::tripled", mutates_args={})
def tripled(x: torch.Tensor) -> torch.Tensor:
    """An operator whose function is traced, so that its kernel is in the graph."""
    out = torch.empty_like(x)
    torch.library.wrap_triton(scale)[(3,)](x, out, x.numel(), 3.0, BLOCK=128)
    return out


@torch.library.triton_op("nbtest::tripled_with_a_derivative", mutates_args={})
def tripled_with_a_derivative(x: torch.Tensor) -> torch.Tensor:
    """An operator whose derivative launches the kernel, too; on the CPU it is another function."""
    out = torch.empty_like(x)
    torch.library.wrap_triton(scale)[(3,)](x, out, x.numel(), 3.0, BLOCK=128)
    return out


calls_on_the_cpu: list[int] = []


@tripled_with_a_derivative.register_kernel("cpu")
def _(x: torch.Tensor) -> torch.Tensor:
    calls_on_the_cpu.append(x.numel())
    return x * 3


tripled_with_a_derivative.register_autograd(lambda ctx, grad: tripled_with_a_derivative(grad.contiguous()))


@torch.library.triton_op("nbtest::tripled_with_a_fake", mutates_args={})
def tripled_with_a_fake(x: torch.Tensor) -> torch.Tensor:
    """An operator whose fake function launches nothing."""
    out = torch.empty_like(x)
    torch.library.wrap_triton(scale)[(3,)](x, out, x.numel(), 3.0, BLOCK=128)
    return out


tripled_with_a_fake.register_fake(torch.zeros_like)
