"""Helper functions in Triton, which every generated module contains.

    nan_maximum(a, b)       as torch.maximum: nan if either is nan
    tanh(x)                 as torch.tanh, from exp

They are written in plain Triton, so that they run in its interpreter too.

In torch: torch/_inductor/runtime/triton_helpers.py. Read next:
nbcompile/codegen/triton.py
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# ruff: noqa: ANN001, ANN201, ANN202, D103, PLR0124  (Triton reads annotations as its own; x != x asks for nan)
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def multiply(a, b):
    return a * b


@triton.jit
def plus(a, b):
    return a + b


@triton.jit
def nan_maximum(a, b):
    return tl.where((a > b) | (a != a), a, b)


@triton.jit
def nan_minimum(a, b):
    return tl.where((a < b) | (a != a), a, b)


@triton.jit
def number_maximum(a, b):
    return tl.where((a >= b) | (b != b), a, b)


@triton.jit
def number_minimum(a, b):
    return tl.where((a <= b) | (b != b), a, b)


@triton.jit
def beats_larger(a, at, b, bt):
    a_nan, b_nan = a != a, b != b
    return (a > b) | (a_nan & ~b_nan) | (((a == b) | (a_nan & b_nan)) & (at < bt))


@triton.jit
def beats_smaller(a, at, b, bt):
    a_nan, b_nan = a != a, b != b
    return (a < b) | (a_nan & ~b_nan) | (((a == b) | (a_nan & b_nan)) & (at < bt))


@triton.jit
def pick_larger(a, at, b, bt):
    taken = beats_larger(b, bt, a, at)
    return tl.where(taken, b, a), tl.where(taken, bt, at)


@triton.jit
def pick_smaller(a, at, b, bt):
    taken = beats_smaller(b, bt, a, at)
    return tl.where(taken, b, a), tl.where(taken, bt, at)


@triton.jit
def latest_larger(a, at, b, bt):
    taken = (b != b) | ((a == a) & (b >= a))
    return tl.where(taken, b, a), tl.where(taken, bt, at)


@triton.jit
def latest_smaller(a, at, b, bt):
    taken = (b != b) | ((a == a) & (b <= a))
    return tl.where(taken, b, a), tl.where(taken, bt, at)


@triton.jit
def divide(a, b):
    # Rounded correctly, as in eager mode: Triton's own quotient of float32 is off by up to 2 ulp, and 6 / 3, truncated,
    # would be 1.
    return tl.div_rn(a, b) if a.dtype == tl.float32 else a / b


@triton.jit
def reciprocal(x):
    return tl.div_rn(1.0, x) if x.dtype == tl.float32 else 1.0 / x


@triton.jit
def square_root(x):
    # Rounded correctly, as a double's always is.
    return tl.sqrt(x) if x.dtype == tl.float64 else tl.sqrt_rn(x)


@triton.jit
def normal_cdf(x):
    return 0.5 * (1.0 + tl.erf(0.7071067811865476 * x))


@triton.jit
def sigmoid(x):
    return reciprocal(1.0 + tl.exp(-x))


@triton.jit
def expm1(x):
    # Kahan: exp(x) - 1, corrected by what the rounding of exp(x) lost. (Of numbers near 0, few bits are left.)
    u = tl.exp(x)
    safe = tl.where((u == 1.0) | (u <= 1e-30) | (x > 80.0), 2.0, u)
    corrected = (safe - 1.0) * x / tl.log(safe)
    return tl.where(u == 1.0, x, tl.where((u <= 1e-30) | (x > 80.0), u - 1.0, corrected))


@triton.jit
def log1p(x):
    u = 1.0 + x
    safe = tl.where((u == 1.0) | (u <= 0.0) | (x > 1e30), 2.0, u)
    corrected = tl.log(safe) * (x / (safe - 1.0))
    return tl.where(u == 1.0, x, tl.where((u <= 0.0) | (x > 1e30), tl.log(u), corrected))


@triton.jit
def log_sum_exp(a, b):
    high, low = nan_maximum(a, b), nan_minimum(a, b)
    same = (a == b) & (tl.abs(a) == float("inf"))
    return tl.where(same, a, high + log1p(tl.exp(tl.where(same, 0.0, low - high))))


@triton.jit
def next_exponentials(largest, total, x, valid):
    # The largest number and the sum of exp(x - largest), with one more number. If all values are -inf, the sum is 0.
    grown = tl.where(valid, nan_maximum(largest, x), largest)
    base = tl.where(grown == float("-inf"), 0.0, grown)
    added = tl.where(valid, tl.exp(x - base), 0.0)
    return grown, total * tl.exp(largest - base) + added


@triton.jit
def next_squares(mean, total, x, share, valid):
    # Welford: the mean and the sum of squared distances from it, with one more number; share is 1 / their count.
    apart = x - mean
    moved = tl.where(valid, mean + apart * share, mean)
    return moved, tl.where(valid, total + apart * (x - moved), total)


@triton.jit
def from_float8_e5m2(bits):
    return (bits.to(tl.uint16) << 8).to(tl.float16, bitcast=True).to(tl.float32)  # the upper half of a float16


@triton.jit
def from_float8_e4m3fn(bits, hardware: tl.constexpr):
    if hardware:
        return bits.to(tl.float8e4nv, bitcast=True).to(tl.float32)
    size = (bits & 0x7F).to(tl.int32)
    normal = ((size << 20) + (120 << 23)).to(tl.float32, bitcast=True)
    number = tl.where(size < 8, size.to(tl.float32) * 0.001953125, normal)  # subnormals: multiples of 2**-9
    number = tl.where(size == 0x7F, float("nan"), number)
    return tl.where(bits > 0x7F, -number, number)


@triton.jit
def to_float8_e4m3fn(x, hardware: tl.constexpr, saturates: tl.constexpr):
    sign = (x.to(tl.int32, bitcast=True) >> 24).to(tl.uint8) & 0x80
    if hardware:
        bits = x.to(tl.float8e4nv).to(tl.uint8, bitcast=True)  # saturates; NaN is positive
        if not saturates:
            bits = tl.where(tl.abs(x) > 464.0, 0x7F, bits).to(tl.uint8)
    else:
        bits = rounded_bits(x, 3, 7, 16384.0, 0x7E if saturates else 0x7F)
    return bits | sign


@triton.jit
def to_float8_e5m2(x, hardware: tl.constexpr):
    sign = (x.to(tl.int32, bitcast=True) >> 24).to(tl.uint8) & 0x80
    if hardware:
        bits = x.to(tl.float8e5).to(tl.uint8, bitcast=True)  # saturates; NaN is positive
        bits = tl.where(tl.abs(x) >= 61440.0, 0x7C, bits).to(tl.uint8)
    else:
        bits = rounded_bits(x, 2, 15, 128.0, 0x7C)
    return bits | sign


@triton.jit
def rounded_bits(x, digits: tl.constexpr, bias: tl.constexpr, ulp: tl.constexpr, largest: tl.constexpr):
    # Half to even. Subnormals are multiples of the last place of ulp: adding it rounds to such a multiple.
    size = x.to(tl.int32, bitcast=True) & 0x7FFFFFFF
    dropped: tl.constexpr = 23 - digits
    normal = ((size + ((1 << (dropped - 1)) - 1) + ((size >> dropped) & 1)) >> dropped) - ((127 - bias) << digits)
    start = tl.full([1], ulp, tl.float32)
    small = (tl.abs(x) + start).to(tl.int32, bitcast=True) - start.to(tl.int32, bitcast=True)
    number = tl.where(size < ((128 - bias) << 23), small, normal)
    number = tl.where(number > largest, largest, number)
    return tl.where(size > 0x7F800000, 0x7F, number).to(tl.uint8)


@triton.jit
def sign_bit(x):
    return (x < 0) | ((x == 0) & (1.0 / x < 0))


@triton.jit
def negative(x):
    # Triton 3.6 writes -x as 0.0 - x, which is 0.0 for 0.0.
    return -x if x.dtype.is_int() else x * -1.0


@triton.jit
def with_sign(size, x):
    return tl.where(sign_bit(x), negative(tl.abs(size)), tl.abs(size))


@triton.jit
def tanh(x):
    a = tl.abs(x)
    e = expm1(-2.0 * a)
    y = -e / (e + 2.0)
    return with_sign(y, x)  # -0.0 stays -0.0


@triton.jit
def log10(x):
    return tl.log2(x) * 0.30102999566398120


@triton.jit
def is_infinite(x):
    return tl.abs(x) == float("inf")


@triton.jit
def sign(x):
    return (x > 0).to(x.dtype) - (x < 0).to(x.dtype)


@triton.jit
def truncate(x):
    return tl.where(x < 0, tl.ceil(x), tl.floor(x))


@triton.jit
def round_half_even(x):
    down = tl.floor(x)
    rest = x - down
    odd = (down - 2.0 * tl.floor(down * 0.5)) != 0
    up = (rest > 0.5) | ((rest == 0.5) & odd)
    return with_sign(tl.where(up, down + 1.0, down), x)  # -0.3 rounds to -0.0


@triton.jit
def c_remainder(a, b):
    return a % b if a.dtype.is_int() else libdevice.fmod(a, b)


@triton.jit
def truncate_divide(a, b):
    return a // b if a.dtype.is_int() else truncate(divide(a, b))


@triton.jit
def remainder(a, b):
    left = c_remainder(a, b)
    return tl.where((left != 0) & ((left < 0) != (b < 0)), left + b, left)


@triton.jit
def floor_divide(a, b):
    return _floor_divide_whole(a, b) if a.dtype.is_int() else _floor_divide_floats(a, b)


@triton.jit
def _floor_divide_whole(a, b):
    left = c_remainder(a, b)
    return tl.where((left != 0) & ((left < 0) != (b < 0)), a // b - 1, a // b)


@triton.jit
def _floor_divide_floats(a, b):
    left = libdevice.fmod(a, b)
    down = (left != 0) & ((left < 0) != (b < 0))
    quotient = divide(a - left, b)
    quotient = tl.where(down, quotient - 1.0, quotient)
    below = tl.floor(quotient)
    whole = tl.where(quotient - below > 0.5, below + 1.0, below)
    whole = tl.where(quotient == 0, with_sign(whole * 0.0, a / b), whole)
    return tl.where(b == 0, a / b, whole)


@triton.jit
def power(a, b):
    return libdevice.pow(a, b)


@triton.jit
def random_bits(seed, counter):
    low, high, _, _ = tl.randint4x(seed, counter)
    return low.to(tl.int64) | (high.to(tl.int64) << 32)
