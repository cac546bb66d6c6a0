"""Each instruction set gives eager's results if the machine can run it; otherwise the code is only compiled."""

import pytest
import torch
import torch.nn.functional as F

import nbcompile
from nbcompile import config
from nbcompile.codegen.header import HEADER
from nbcompile.runtime import processor, toolchain
from tests.support.targets import compiler

torch.manual_seed(0)


def exact(x, y, n, h, b):
    """Operators whose result is exact, or correctly rounded in eager mode."""
    yield from (x * y - x, x / y, x.floor(), x.round(), x.trunc(), x.ceil(), x.sign(), x.abs())
    yield from (
        torch.maximum(x, y),
        torch.fmin(x, y),
        x.clamp(-0.5, 0.5),
        torch.where(x > y, x, y),
        x.masked_fill(y > 0, -0.0),
    )
    yield from (torch.fmod(x, y), torch.remainder(x, y), torch.floor_divide(x, y), torch.nextafter(x, y))
    yield from (torch.floor_divide(h, h.flip(0)), torch.div(b, b.flip(0), rounding_mode="trunc"), b // b.flip(1), h % b)
    yield from (x.double() / 3, x.to(torch.int32), x.to(torch.uint8), (x * 100).to(torch.int64), n.double(), x == y)
    yield from (n // 7, n % 7, n >> 2, n.to(torch.int8), n.sum(1), n.amax(0), n.cumsum(1))
    yield from (x.to(torch.bfloat16), x.half(), h.float(), h + 1, b * 2, h.double(), b.to(torch.int32))
    yield from (x.argmax(1), x.argmin(0), x.cummax(1)[1], (x > 0).any(1), x.count_nonzero(1))
    yield from (
        x.t() + 1,
        x.flip(1),
        x[:, ::2] * 2,
        x[:, 1::3] + 1,
        x.roll(3, 1),
        F.pad(x, (2, 3)),
        x.gather(1, n % 37),
    )


def rounded(x, y, n, h, b):
    """Functions and sums, which are rounded; the maximum of zeros may have any sign."""
    yield from (x.exp(), x.sin(), x.tan(), x.tanh(), x.erf(), F.gelu(x), x.abs().log(), x.abs().log1p(), x.abs().pow(y))
    yield from (torch.atan2(x, y), torch.hypot(x, y), x.abs().sqrt(), x.cosh(), x.abs().lgamma(), x.double().pow(3.5))
    yield from (
        x.double().sin(),
        x.double().erf(),
        x.double().exp(),
        x.sum(1),
        x.sum(0),
        x.var(1),
        x.cumsum(1),
        x.norm(),
    )
    yield from (
        x.amax(1),
        x.amin(0),
        x.softmax(1),
        x.softmax(0),
        x.logsumexp(1),
        x.t().softmax(1),
        h.sum(1),
        b.softmax(1),
    )
    yield from (F.layer_norm(x, (37,)), F.max_pool1d(x, 3, 2))


def inputs():
    """Rows with a remainder; zeros of both signs, infinities and NaN at any index."""
    x, y = torch.randn(41, 37) * 3, torch.randn(41, 37)
    special = torch.tensor([0.0, -0.0, 1.0, -1.0])
    for place, value in enumerate(special.repeat(37)):
        x[place % 41, place % 37] = value
        y[(place * 7) % 41, place % 37] = value or 1.0
    n = torch.randint(0, 1000, (41, 37))
    return x, y, n, x.half(), x.to(torch.bfloat16)


SETS = tuple(processor.INSTRUCTION_SETS)


@pytest.fixture(params=SETS)
def instruction_set(request):
    """Each instruction set of this processor, chosen by the setting."""
    if lacking := processor.lacking(request.param):
        pytest.skip(f"this processor has no {lacking}")
    with config.patch(instruction_set=request.param):
        yield request.param


def test_every_instruction_set_is_as_exact(instruction_set):
    """A graph of eighty operators has eager's bits where eager does not round, and as small errors elsewhere."""

    def f(*arguments):
        return list(exact(*arguments)), list(rounded(*arguments))

    arguments = inputs()
    (found, near), (wanted, about) = compiled(f)(*arguments), f(*arguments)
    for number, (one, other) in enumerate(zip(found, wanted, strict=True)):
        assert_close(one, other, 0.0, number)
        if other.is_floating_point():
            assert torch.equal(one.signbit()[other == 0], other.signbit()[other == 0]), number
    for number, (one, other) in enumerate(zip(near, about, strict=True)):
        assert_close(one, other, {torch.float32: 3e-6, torch.float64: 1e-14}.get(other.dtype, 8e-3), number)


FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)


@pytest.mark.parametrize("count", [1, 37])
def test_numbers_between_minus_one_and_zero_lose_their_sign_as_integers(instruction_set, count):
    """A float that is cast to an integer and back has no sign of zero: C++ compilers replace both casts by trunc()."""
    numbers = torch.tensor([-0.0, -0.3, 2.7, -2.7, 0.3]).repeat(8)[:count]

    def f(*inputs):
        return [x.to(integer).to(dtype) for x in inputs for integer in INTEGERS for dtype in FLOATS]

    inputs = [numbers.clamp(min=-0.9).to(dtype) for dtype in FLOATS]
    for found, wanted in zip(compiled(f)(*inputs), f(*inputs), strict=True):
        assert torch.equal(found, wanted)
        assert torch.equal(found.signbit(), wanted.signbit())


def assert_close(found, wanted, bound, number):
    """Assert that the results are close; the message has the index of the result."""
    torch.testing.assert_close(
        found, wanted, rtol=bound, atol=bound, equal_nan=True, msg=lambda text: f"result {number}: {text}"
    )


def compiled(function):
    """The function as one graph of generated code, without cached code."""
    nbcompile.reset()
    return nbcompile.compile(function, fullgraph=True, dynamic=False)


@pytest.mark.parametrize("name", SETS)
def test_the_header_is_compiled_for_every_instruction_set(name, tmp_path):
    """All functions of the header compile, with all lanes and with a remainder; they run if the processor can."""
    chosen = toolchain.for_kernels(compiler(), name)
    text = HEADER + "\nusing namespace nb;\n" + "".join(map(several_lanes, ("exp", "tanh", "log", "sin", "lgamma")))
    toolchain.build(chosen, text, tmp_path / "header.so")


def several_lanes(name):
    """A function of a row of any length."""
    return (
        f"EXPORT void {name}_row(const f32 *a, f32 *o, i64 n) {{ constexpr int W = LANES32; i64 i = 0;"
        f" for (; i + W <= n; i += W) store(o + i, All{{}}, {name}(load<f32, W>(a + i, All{{}})));"
        f" if (i < n) store(o + i, First{{n - i}}, {name}(load<f32, W>(a + i, First{{n - i}}))); }}\n"
    )
