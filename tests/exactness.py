"""The exactness of results: bounds that tests check, and differences from eager mode. docs/exactness.md shows both.

    BOUNDS["tan"]      3.5      units in the last place; FEW where a function is not named

In torch: torch/testing/_internal/common_methods_invocations.py (tolerances). Read next: tests/test_exactness.py
"""

from __future__ import annotations

from dataclasses import dataclass

FEW = 2.0
"""Units in the last place by which a function errs at most, if it is not named below."""
BOUNDS = {
    "ndtr": 3, "gelu": 2.5, "sigmoid": 2.01, "tan": 3.5, "sinh": 2.5, "cosh": 2.5, "acosh": 2.1, "atan2": 2.5,
    "erfc": 2.5, "erfinv": 2.5, "lgamma": 3.5, "fmod": 0, "floor_div": 0, "nextafter": 0, "sqrt": 0.5,
}  # fmt: skip
"""Functions of a quotient, a root or an exponential of another; and those that are exact or rounded correctly."""
SINGLE = (
    "exp", "exp2", "expm1", "log", "log1p", "tanh", "erf", "erfc", "erfinv", "ndtr", "gelu", "lgamma", "sigmoid", "sin",
    "cos", "tan", "log2", "log10", "atan", "asin", "acos", "sinh", "cosh", "asinh", "acosh", "atanh",
)  # fmt: skip
"""Functions of float32."""
DOUBLE = (
    "exp", "exp2", "expm1", "log", "log1p", "sin", "cos", "tan", "log2", "log10", "atan", "asin", "acos", "sinh", "cosh",
    "asinh", "acosh", "atanh",
)  # fmt: skip
"""Functions of float64 that NumPy has for longer floats; erf, erfc, ndtr, gelu and lgamma are checked with mpmath."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A compiled result that is not bitwise eager's; ``name`` is that of its check in tests/test_exactness.py."""

    name: str
    program: str
    eager: str
    compiled: str
    why: str


DIFFERENCES = (
    Difference(
        "largest_zero",
        "`max(dim)`, `min(dim)`, `aminmax`, `amax`, `amin`, `max()`, `min()`, max pools, where several zeros of both signs "
        "are the largest",
        "the first zero in `max(dim)`, `min(dim)`, `aminmax(dim=...)` and pools; in the others one that depends on vector "
        "width and on the number of threads",
        "one of these zeros; it is the same for any number of threads. Indices are those of eager",
        "each lane of a vector has a largest value of its own; which zero came first, they do not know",
    ),
    Difference(
        "zero_of_two",
        "`maximum`, `minimum` and `clamp` by a tensor of two zeros of both signs",
        "the second zero in whole vectors; the first after the last whole vector",
        "the second zero",
        "eager's two paths differ; this is that of vectors, as in `torch.compile`",
    ),
    Difference(
        "sign_of_nan", "any operator whose result is NaN", "sign and payload as the instruction leaves them",
        "a NaN at the same place; its sign may be another", "IEEE 754 leaves them open",
    ),
    Difference(
        "softshrink",
        "`softshrink` of numbers within the bound, float32 and float64",
        "0.0 in whole vectors; a zero with the sign of the number after the last whole vector",
        "a zero with the sign of the number",
        "eager's two paths differ; this is the second one",
    ),
    Difference(
        "root", "`sqrt` of float32", "up to 0.75 units in the last place (MKL)", "rounded correctly",
        "it is one instruction",
    ),
    Difference(
        "hyperbolic",
        "`sinh` and `cosh` of float32 from 88.73 to 89.41",
        "`cosh` is infinite for some of them, depending on their place",
        "finite, as the answer is",
        "the exponential overflows there, and half of it does not",
    ),
    Difference(
        "equal_rows", "`var`, `std`, `var_mean`, `layer_norm`, `group_norm` and `batch_norm` of numbers that are equal",
        "0 or noise: the square of the rounding error of the mean (`var` of 28 times 0.1: 2.3e-16)",
        "0, for up to 10,000 numbers; the variance of a million is at most 1e-12 of their square",
        "the exact answer is 0; the pass over the squares also sums the distances from the mean, which corrects it",
    ),
    Difference(
        "sums", "sums, means and variances of floats", "added in an order of vectors and threads",
        "added in another order; the error is at most 1e-6 of the sum of absolute values (float32, 65,536 elements), for any "
        "number of threads the same bits",
        "rounding depends on the order",
    ),
    Difference(
        "large_variance",
        "`var`, `std`, `layer_norm`, `batch_norm`, `group_norm` of float32 and bfloat16 numbers whose sum, or the sum of whose "
        "squared distances from the mean, is above 3.4e38 (17 numbers, 4.5e18 from their mean)",
        "`var` and `std` of float32 are calculated in float64, so that the variance itself has to be above 3.4e38 to be "
        "infinite, and `std` hardly ever is; of the others some are NaN, some 0, depending on the operator and on the length of "
        "a row",
        "the variance is infinite (or NaN, if the mean is not finite); a number divided by its root is a zero of either sign, or "
        "NaN. Up to that sum the error is as small as that of other numbers",
        "sums are those of float32, as in `torch.compile`, which gives infinity as well; vectors of float64 have half as many lanes",
    ),
    Difference(
        "nan_window", "index of `max_pool` for a window that holds only NaN", "the last one", "the first one",
        "the value is NaN either way",
    ),
    Difference(
        "grid_coordinates", "bilinear `grid_sample`, padded by zeros, with coordinates that are NaN or infinite", "NaN", "0.0",
        "such a point is outside of the image, and its weight is replaced by 0; `torch.compile` gives 0.0 as well",
    ),
    Difference(
        "infinite_gelu",
        "`gelu` of infinity, and of float32, bfloat16 and float16 above 1e38, where eager mode asks oneDNN",
        "NaN of infinity, infinity of numbers above 1e38; `gelu` of float64, or with `approximate='tanh'`, has infinity and the number",
        "infinity, and the number; NaN of -infinity in both",
        "oneDNN's formula overflows; `torch.compile` has no NaN either",
    ),
    Difference(
        "large_quotient", "`%` and `fmod` of float32, float64 and bfloat16 whose quotient is too large for the type (`1.0 % 1e-40`)",
        "NaN in whole vectors; the remainder after the last whole vector", "the remainder",
        "the vectors of eager divide first; `torch.compile` gives infinity for some of them",
    ),
    Difference(
        "strides", "strides of `//`, `copysign`, `xlogy`, `xlog1py` of two tensors with different strides (one channels last or "
        "permuted), and of `one_hot` and `batch_norm` of a permuted tensor", "follow the first argument, or are contiguous",
        "those that torch's fake tensors promise", "graphs are made for promised strides, as those of `torch.compile` are",
    ),
)  # fmt: skip
