"""Random numbers of our own: one seed a call, and a counter for every element.

    torch.rand(4)
    ->  seed = aten.randint(...)                    once a call, from torch's generator: torch.manual_seed holds
        buf0[i0] = uniform(philox(seed, 0 + i0))    a pure function, which may be fused and recomputed

``philox`` scrambles seed and counter into 64 bits (Philox4x32-10, the first
two of its words: ``tl.rand(seed, counter)`` and ``tl.randn`` give the same
numbers). The counters of each draw of a graph follow those of the draw before it. All
distributions are formulas over these bits, so that a dropout is part of the loop
around it.

By default none of this is used: ATen draws, and the numbers are eager's (``options={"fallback_random": False}`` selects
these numbers).

In torch: torch/_inductor/fx_passes/replace_random.py, lowering.py
(inductor_random). Read next: nbcompile/lowering/extern.py
"""

from __future__ import annotations

import math
from typing import Any

import torch

from nbcompile.ir import buffer as ir
from nbcompile.ir.expr import Apply, Expr, IndexOf, apply, cast, compute_dtype, constant
from nbcompile.ir.index import constant as known_number, flatten, index, loop_variables, product
from nbcompile.ir.layout import contiguous
from nbcompile.lowering.builder import Builder
from nbcompile.lowering.elementwise import SUPPORTED, operand
from nbcompile.lowering.extern import fallback_reason
from nbcompile.lowering.registry import NoLowering, lowering
from nbcompile.lowering.value import Value, shape_of

aten = torch.ops.aten
SEEDS = (-(2**63), 2**63 - 1)
WORD = 2**32 - 1
DIGITS = {torch.bfloat16: 8, torch.float16: 11}
"""Significant bits of 16-bit types: a number below one must not be rounded up to it."""


def _bits(build: Builder, generator: Any = None) -> tuple[Expr, torch.Tensor]:
    """64 random bits for each element of the node's first result, and the fake tensor of that result."""
    assert build.node is not None
    if build.random_state is None:
        raise NoLowering(fallback_reason(build.node.target))
    # Its state would have to advance, as in eager mode.
    if generator is not None:
        raise NoLowering("random numbers of a generator of the program's own")
    predicted = build.node.meta["val"]
    predicted = predicted[0] if isinstance(predicted, (tuple, list)) else predicted
    if predicted.dtype not in SUPPORTED:
        raise NoLowering(f"dtype {predicted.dtype}")
    size = shape_of(predicted)
    # Each element of each draw has its own counter, whatever the order of the loops, so that
    # kernels may recompute it.
    #     first draw of 6 numbers    counters 0 ... 5
    #     second draw, of 4          counters 6 ... 9
    counter = build.random_state.counters_used + flatten(loop_variables(len(size)), size)
    build.random_state.counters_used += product(size)
    # One for each device: a seed is a tensor, and a kernel reads its own device's memory.
    seed = build.random_state.seeds.get(predicted.device)
    if seed is None:
        seed = build.random_state.seeds[predicted.device] = _seed(build, predicted.device)
    return Apply("philox", (seed.body, IndexOf(counter, torch.int64)), torch.int64), predicted


def _seed(build: Builder, device: torch.device) -> Value:
    """A number from torch's generator, drawn anew in each call of the graph."""
    name, seed = build.fresh("extern"), build.fresh("buf")
    how = {"dtype": torch.int64, "device": device}
    why = "the seed of this call's random numbers, from torch's generator"
    build.add(ir.Extern(name, aten.randint.low, (*SEEDS, []), how, why, (), build.origin()))
    build.add(ir.ExternOutput(seed, torch.int64, build.target_device(device), contiguous(()), name, (), build.origin()))
    return build.whole(seed)


def _words(bits: Expr) -> tuple[Expr, Expr]:
    # The shift copies the sign into the upper half, which the mask removes.
    return apply("bitwise_and", bits, WORD), apply("bitwise_and", apply("shift_right", bits, 32), WORD)


def _single(word: Expr) -> Expr:
    """32 bits as a float32 in [0, 1), as Triton makes it."""
    # As a signed number, the word's upper half is negative, and is mirrored. The factor is a little below 2**-31: the
    # largest number times it is still less than 1 in float32.
    folded = apply("where", apply("gt", word, WORD >> 1), WORD - word, word)
    return cast(folded, torch.float32) * 4.6566127342e-10


def _uniform(build: Builder, generator: Any = None) -> tuple[Expr, torch.Tensor]:
    """Numbers in [0, 1): doubles where the result is one, otherwise float32."""
    bits, predicted = _bits(build, generator)
    if predicted.dtype == torch.float64:
        # A double has 53 significant bits. The shift copies the sign, which the mask removes.
        return cast(
            apply("bitwise_and", apply("shift_right", bits, 11), 2**53 - 1), torch.float64
        ) * 2.0**-53, predicted
    return _single(_words(bits)[0]), predicted


def _below_one(body: Expr, dtype: torch.dtype) -> Expr:
    """Truncate to the significant bits of a 16-bit type."""
    if dtype not in DIGITS:
        return body
    steps = 2.0 ** DIGITS[dtype]
    return apply("floor", body * steps) * (1 / steps)


def _normal(build: Builder, generator: Any = None) -> tuple[Expr, torch.Tensor]:
    """Box and Muller: the angle and the distance of a point, both from uniform numbers."""
    bits, predicted = _bits(build, generator)
    if predicted.dtype == torch.float64:
        # In (0, 1]: the logarithm of 0 is infinite. In float32 a lower bound does the same, as in Triton.
        first, second = ((cast(each, torch.float64) + 1.0) * 2.0**-32 for each in _words(bits))
    else:
        first, second = (_single(each) for each in _words(bits))
    #     z = sqrt(-2 ln u1) * cos(2 pi u2)     float32: u1 is 1e-7 or more, so |z| is at most 5.7
    #                                           float64: u1 is 2**-32 or more, and |z| at most 6.7
    distance = apply(
        "sqrt", apply("log", apply("maximum", first, 1e-7 if first.dtype == torch.float32 else 0.0)) * -2.0
    )
    return distance * apply("cos", second * math.tau), predicted


def _result(build: Builder, body: Expr, predicted: torch.Tensor) -> Value:
    wide = compute_dtype(predicted.dtype)
    rounded = cast(cast(body, predicted.dtype), wide)
    return Value(predicted.dtype, build.target_device(predicted.device), shape_of(predicted), rounded, build.origin())


def _parameter(value: Any, predicted: torch.Tensor, like: Expr) -> Expr:
    """A mean, a probability: a number, or a tensor that is broadcast."""
    return cast(operand(value, like.dtype, shape_of(predicted)), like.dtype)


@lowering(aten.rand.default, aten.rand_like.default)
def rand(build: Builder, _: Any, *, generator: Any = None, **__: Any) -> Value:
    """Uniform in [0, 1)."""
    body, predicted = _uniform(build, generator)
    return _result(build, _below_one(body, predicted.dtype), predicted)


@lowering(aten.randn.default, aten.randn_like.default)
def randn(build: Builder, _: Any, *, generator: Any = None, **__: Any) -> Value:
    """Normal, of mean 0 and variance 1."""
    return _result(build, *_normal(build, generator))


@lowering(aten.uniform.default)
def uniform(build: Builder, _: Value, low: float = 0.0, high: float = 1.0, *, generator: Any = None) -> Value:
    """Uniform in [low, high)."""
    body, predicted = _uniform(build, generator)
    return _result(build, _below_one(body, predicted.dtype) * (high - low) + low, predicted)


@lowering(aten.normal_functional.default, aten.normal.Tensor_Tensor, aten.normal.Tensor_float, aten.normal.float_Tensor)
def normal(build: Builder, first: Any, *rest: Any, generator: Any = None) -> Value:
    """Normal. The functional form is ``(x, mean, std)``, of which x says only the shape; the others ``(mean, std)``."""
    assert build.node is not None
    given = rest if build.node.target is aten.normal_functional.default else (first, *rest)
    mean, deviation = (*given, 1.0)[:2] if given else (0.0, 1.0)
    body, predicted = _normal(build, generator)
    scaled = body * _parameter(deviation, predicted, body) + _parameter(mean, predicted, body)
    return _result(build, scaled, predicted)


@lowering(aten.bernoulli.default)
def bernoulli(build: Builder, probability: Value, *, generator: Any = None) -> Value:
    """1 with its own probability for each element, else 0."""
    return _hits(build, probability, generator)


@lowering(aten.bernoulli.p, aten.bernoulli.Tensor)
def bernoulli_p(build: Builder, _: Value, probability: Any = 0.5, *, generator: Any = None) -> Value:
    """1 with a probability, else 0."""
    return _hits(build, probability, generator)


def _hits(build: Builder, probability: Any, generator: Any) -> Value:
    drawn, predicted = _uniform(build, generator)
    # drawn is in [0, 1): probability 0 never hits, probability 1 always.
    return _result(build, apply("lt", drawn, _parameter(probability, predicted, drawn)), predicted)


@lowering(aten.native_dropout.default)
def native_dropout(build: Builder, x: Value, p: float, train: bool | None) -> tuple[Value, Value]:
    """Dropout: some elements are zeroed, the others scaled; the backward pass needs the mask."""
    if train is False:
        return x, build.call(aten.ones_like.default, Value(torch.bool, x.device, x.size, constant(True, torch.bool)))
    drawn, predicted = _uniform(build)
    keep_mask = apply("ge", drawn, float(p))
    # With p = 1 nothing is kept, and 0 times an infinite scale would be nan.
    scale = 0.0 if p == 1 else 1.0 / (1.0 - p)
    body = x.body * cast(keep_mask, x.body.dtype) * scale
    return _result(build, body, predicted), Value(torch.bool, x.device, x.size, keep_mask, build.origin())


@lowering(aten.randint.default, aten.randint_like.default)
def randint(build: Builder, first: Any, second: Any, *_: Any, generator: Any = None, **__: Any) -> Value:
    """Whole numbers in [0, high)."""
    high = second if isinstance(first, Value) else first
    return _between(build, 0, high, generator)


@lowering(aten.randint.low, aten.randint_like.low_dtype)
def randint_low(build: Builder, *given: Any, generator: Any = None, **__: Any) -> Value:
    """Whole numbers in [low, high)."""
    low, high = given[1:3] if isinstance(given[0], Value) else given[:2]
    return _between(build, low, high, generator)


def _between(build: Builder, low: Any, high: Any, generator: Any) -> Value:
    span = known_number(index(high) - index(low))
    if span is None or span > SEEDS[1]:
        raise NoLowering("a range of random numbers that is symbolic, or longer than an int64")
    bits, predicted = _bits(build, generator)
    # Without the sign: the remainder is then in [0, span).
    positive = apply("bitwise_and", bits, SEEDS[1])
    return _result(build, apply("remainder", positive, int(span)) + int(index(low)), predicted)


@lowering(aten.exponential.default)
def exponential(build: Builder, _: Value, rate: float = 1.0, *, generator: Any = None) -> Value:
    """The exponential distribution. Never zero, since Gumbel softmax takes the logarithm."""
    body, predicted = _uniform(build, generator)
    # 1 - body is in (0, 1], so that its logarithm is finite.
    time = apply("maximum", -apply("log", 1.0 - body), torch.finfo(body.dtype).eps / 2)
    return _result(build, time / float(rate), predicted)


@lowering(aten.geometric.default)
def geometric(build: Builder, _: Value, p: float, *, generator: Any = None) -> Value:
    """The number of trials until the first success."""
    body, predicted = _uniform(build, generator)
    # The smallest n with 1 - (1 - p)^n >= body.
    trials = apply("ceil", apply("log", 1.0 - body) / math.log1p(-p)) if p < 1 else body
    return _result(build, apply("maximum", trials, 1.0), predicted)


@lowering(aten.cauchy.default)
def cauchy(build: Builder, _: Value, median: float = 0.0, sigma: float = 1.0, *, generator: Any = None) -> Value:
    """Sample the Cauchy distribution: the point where a ray of a random direction intersects a line."""
    body, predicted = _uniform(build, generator)
    return _result(build, apply("tan", (body - 0.5) * math.pi) * float(sigma) + float(median), predicted)


@lowering(aten.log_normal.default)
def log_normal(build: Builder, _: Value, mean: float = 1.0, std: float = 2.0, *, generator: Any = None) -> Value:
    """A number whose logarithm is normal."""
    body, predicted = _normal(build, generator)
    return _result(build, apply("exp", body * float(std) + float(mean)), predicted)
