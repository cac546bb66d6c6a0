"""Generated C++ computes what eager computes."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings, strategies as st
from torch.fx.experimental.proxy_tensor import make_fx

import nbcompile
from nbcompile.aot.decompositions import default_table
from nbcompile.codegen import cpp
from nbcompile.codegen.launch_plan import opaque_values
from nbcompile.ir import evaluate
from nbcompile.ir.expr import OPERATIONS, Apply, Constant
from nbcompile.lowering.graph import lower
from nbcompile.runtime import program
from nbcompile.scheduling.plan import schedule
from tests.support.lowered import programs
from tests.support.schedules import pointwise, reduction
from tests.support.targets import compiler, run_cpp

FLOATS = [torch.float32, torch.float64]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.5,
    -2.5,
    1.5,
    3.0,
    -3.0,
    float("inf"),
    float("-inf"),
    float("nan"),
    1e30,
    -1e30,
    88.0,
    -104.0,
    0.99,
]


def operands(dtype):
    """Two vectors with each pair of special values, and ordinary ones; the length is no multiple of a vector."""
    torch.manual_seed(0)
    if dtype.is_floating_point:
        special = torch.tensor(SPECIAL)
        rest = torch.randn(2, 140) * 3
        return [
            torch.cat([each, more]).to(dtype)
            for each, more in zip((special.repeat_interleave(19), special.repeat(19)), rest)
        ]
    if dtype == torch.bool:
        return [torch.randint(0, 2, (203,)).bool() for _ in range(2)]
    first, second = (torch.randint(0 if dtype == torch.uint8 else -9, 10, (203,)).to(dtype) for _ in range(2))
    second[second == 0] = 3
    first[4], second[3] = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    return [first, second]


def applies(name, dtype):
    """True if the operation is defined on a dtype."""
    kind, floating, boolean = OPERATIONS[name].kind, dtype.is_floating_point, dtype == torch.bool
    if name == "neg" and dtype == torch.uint8:
        return False
    return {
        "arithmetic": not boolean, "float": floating, "logical": boolean, "where": True, "cast": False,
        "comparison": not boolean or name not in {"isnan", "isinf", "signbit"},
        "bitwise": not floating and not (boolean and name.startswith("shift")), "random": dtype == torch.int64,
    }[kind]  # fmt: skip


def body_of(name):
    """The operation on two elements, with operands for which eager has a defined result."""

    def body(x, y):
        if name == "where":
            return Apply("where", (Apply("lt", (x, y), torch.bool), x, y), x.dtype)
        if name == "pow" and x.dtype != torch.uint8 and not x.dtype.is_floating_point:
            y = Apply("abs", (y,), y.dtype)
        if name.startswith("shift"):
            y = Constant(3, y.dtype)
        args = (x, y, x)[: OPERATIONS[name].arity]
        return Apply(name, args, torch.bool if OPERATIONS[name].kind == "comparison" else x.dtype)

    return body


def cast_to(dtype):
    """A cast, of a value that is in the range of all dtypes where eager's result would be undefined."""

    def body(x, _):
        if x.dtype.is_floating_point and not dtype.is_floating_point and dtype != torch.bool:
            x = Apply(
                "where",
                (
                    Apply("lt", (Apply("abs", (x,), x.dtype), Constant(100.0, x.dtype)), torch.bool),
                    Apply("abs", (x,), x.dtype),
                    Constant(7.0, x.dtype),
                ),
                x.dtype,
            )
        return Apply("cast", (x,), dtype)

    return body


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, torch.bool], ids=str)
def test_every_operation_on_every_dtype(dtype):
    """Each operation of expr.OPERATIONS, and each cast, gives eager's values, special ones included."""
    given_ = operands(dtype)
    bodies = {name: body_of(name) for name in OPERATIONS if applies(name, dtype)}
    for to in [*FLOATS, *INTEGERS, torch.bool, torch.bfloat16, torch.float16]:
        if to != dtype:
            bodies[f"cast_to_{str(to)[6:]}"] = cast_to(to)
    planned = pointwise(given_, bodies)
    for name, ours, eager in zip(bodies, run_cpp(planned, given_), evaluate.run(planned, given_), strict=True):
        if ours.dtype.is_floating_point:
            # digamma: eager's own float32 version has an error of this size
            relative = {"digamma": 1e-5, "ndtr": 6e-7, "gelu": 6e-7}.get(name, 3e-7)
            tolerance = {"rtol": relative, "atol": 1e-38} if ours.dtype == torch.float32 else {}
            torch.testing.assert_close(
                ours, eager, equal_nan=True, **tolerance, msg=lambda text, name=name: f"{name}: {text}"
            )
        else:
            assert torch.equal(ours, eager), name


@pytest.mark.parametrize("columns", [False, True], ids=["rows", "columns"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bfloat16, torch.bool], ids=str)
def test_reductions(dtype, columns):
    """Each kind of reduction, along rows and columns, with a remainder and with nan, equals eager's."""
    torch.manual_seed(0)
    kinds = ("any", "all") if dtype == torch.bool else ("sum", "prod", "max", "min", "argmax", "argmin")
    matrix = (torch.randn(5, 77) if dtype.is_floating_point else torch.randint(0, 3, (5, 77))).to(dtype)
    inputs = [matrix]
    if dtype.is_floating_point:
        inputs.append(torch.where(torch.rand(5, 77) < 0.02, torch.tensor(float("nan")).to(dtype), matrix))
    for kind in kinds:
        planned = reduction(matrix, kind, columns, torch.float32 if dtype == torch.bfloat16 else None)
        for each in inputs:
            torch.testing.assert_close(run_cpp(planned, [each])[0], evaluate.run(planned, [each])[0], equal_nan=True)


@pytest.mark.parametrize("columns", [False, True], ids=["rows", "columns"])
def test_a_sum_that_overflows_is_infinite(columns):
    """A sum that overflows is infinite, also if its partial sums are finite: the correction term must not give nan."""
    matrix = torch.zeros(3, 64 * 6)
    matrix[:, [1, 65, 150]] = 3e38
    matrix = matrix.t().contiguous() if columns else matrix
    ours = run_cpp(reduction(matrix, "sum", columns), [matrix])[0]
    assert torch.equal(ours, torch.full_like(ours, torch.inf))


def test_a_long_sum_is_cut_in_chunks_and_stays_exact():
    """A sum of a million values is split among threads, and its error is no larger than eager's."""
    row = torch.rand(1, 1_000_003)
    (ours,) = run_cpp(reduction(row, "sum"), [row])
    exact = row.double().sum(1)
    assert abs(ours.double() - exact).item() <= 2 * abs(row.sum(1).double() - exact).item() + 0.1


R = torch.randn
PROGRAMS = {
    "softmax": (lambda x: torch.softmax(x * 0.5, -1), [R(33, 100)]),
    "layernorm + residual": (lambda x, r, w, b: F.layer_norm(x + r, (70,), w, b), [R(9, 70), R(9, 70), R(70), R(70)]),
    "gelu, broadcast": (lambda x, y: F.gelu(x * y + 1), [R(10, 37), R(37)]),
    "cross entropy": (lambda x, t: F.nll_loss(F.log_softmax(x, -1), t), [R(64, 100), torch.randint(0, 100, (64,))]),
    "embedding": (lambda w, i: F.embedding(i, w).sum(1), [R(100, 64), torch.randint(0, 100, (16, 20))]),
    "negative indices": (lambda x, i: x[i] + 1, [R(50, 7), torch.randint(-50, 50, (33,))]),
    "cat": (lambda x, y: torch.cat([x, y], 1).relu(), [R(5, 7), R(5, 9)]),
    "pad": (lambda x: F.pad(x, (1, 2, 3, 4)) * 2, [R(5, 7)]),
    "transposed": (lambda x: x.t() + 1, [R(50, 70)]),
    "column sum": (lambda x: x.sum(0), [R(500, 70)]),
    "variance": (lambda x: x.var(1), [R(50, 71)]),
    "bfloat16": (lambda x: torch.tanh(x) * 2, [R(50, 71).bfloat16()]),
    "float16": (lambda x: torch.softmax(x, -1), [R(5, 71).half()]),
    "matrix product": (lambda x, w: torch.relu(x @ w + 1).sum(1), [R(50, 71), R(71, 30)]),
    "causal mask": (
        lambda x: torch.softmax(x.masked_fill(torch.ones(33, 33).tril() == 0, float("-inf")), -1),
        [R(4, 33, 33)],
    ),
    "batch norm": (lambda x: F.batch_norm(x, None, None, training=True), [R(8, 3, 9, 9)]),
    "several outputs": (lambda x: (x + 1, x.t(), x.sum(), x * 2), [R(9, 5)]),
    "no elements": (lambda x: x + 1, [R(0, 5)]),
    "one number": (lambda x: x.sin() + 1, [torch.tensor(2.0)]),
    "float64": (lambda x: torch.softmax(x, -1).tanh(), [R(9, 77).double()]),
    "not contiguous": (lambda x: x * 2 + 1, [R(9, 77, 4).permute(2, 0, 1)[:, ::2]]),
    "argmax": (lambda x: x.argmax(1), [R(50, 70)]),
}


def compiled(function, arguments, mode="fake"):
    graph = make_fx(function, decomposition_table=default_table(), tracing_mode=mode)(*arguments)
    planned = schedule(lower(graph))
    return program.load(cpp.emit(planned), compiler(), constants=opaque_values(planned))


@pytest.mark.parametrize("mode", ["fake", "symbolic"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name, mode):
    """A lowered, fused and generated program gives eager's result, with static and symbolic sizes."""
    function, arguments = PROGRAMS[name]
    expected, ours = function(*arguments), compiled(function, arguments, mode)(list(arguments))
    pairs = zip(ours, expected, strict=True) if isinstance(expected, tuple) else [(ours, expected)]
    for one, two in pairs:
        torch.testing.assert_close(
            one, two, atol=2e-5, rtol=1e-5 if one.dtype == torch.float32 else None, check_stride=True
        ) if one.dtype == torch.float32 else torch.testing.assert_close(one, two)


def test_symbolic_sizes_serve_other_shapes():
    """One dynamic compile runs for other sizes, vector remainders and empty tensors included."""
    function = compiled(lambda x: torch.softmax(x, -1) + x.sum(), [R(5, 9)], "symbolic")
    for shape in ((3, 16), (2, 17), (4, 2), (7, 1001)):
        x = R(shape)
        torch.testing.assert_close(function([x]), torch.softmax(x, -1) + x.sum(), atol=1e-4, rtol=1e-5)


def test_an_index_out_of_bounds_is_an_index_error():
    """A bad index raises as in eager, and touches no memory."""
    table, good = R(10, 4), torch.tensor([0, 9])
    function = compiled(lambda w, i: F.embedding(i, w) * 2, [table, good])
    torch.testing.assert_close(function([table, good]), F.embedding(good, table) * 2)
    with pytest.raises(IndexError, match="index 10 is out of bounds"):
        function([table, torch.tensor([0, 10])])


UNARY = ["relu", "tanh", "exp", "sigmoid", "neg", "abs", "sin"]


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.sampled_from([*UNARY, "sum", "softmax", "t", "add"]), min_size=2, max_size=6),
    st.integers(1, 20),
    st.integers(1, 40),
)
def test_random_chains(names, rows, columns):
    """Random chains of pointwise operations, reductions and transpositions equal eager."""

    def chain(x, y):
        for name in names:
            match name:
                case "sum":
                    x = x - x.sum(-1, keepdim=True) / 8
                case "softmax":
                    x = torch.softmax(x, -1)
                case "t":
                    x, y = x.t(), y.t()
                case "add":
                    x = x + y
                case "exp":
                    x = torch.exp(x.clamp(max=2.0))
                case _:
                    x = getattr(torch, name)(x)
        return (x,)

    torch.manual_seed(0)
    arguments = [R(rows, columns), R(rows, columns)]
    (expected,), (ours,) = chain(*arguments), compiled(chain, arguments)(list(arguments))
    torch.testing.assert_close(ours, expected, atol=1e-4, rtol=1e-4)


def test_equal_kernels_are_compiled_once():
    """Two equal kernels share one function of the source."""
    graph = make_fx(
        lambda x, w: torch.relu(torch.relu(x @ w + 1) @ w + 1), decomposition_table=default_table(), tracing_mode="fake"
    )(R(8, 8), R(8, 8))
    emitted = cpp.emit(schedule(lower(graph)))
    assert len(emitted.kernels) == 2
    assert emitted.source.count("EXPORT i64") == 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int8, torch.bool, torch.uint8])
def test_a_tensor_of_one_number(dtype):
    """A constant tensor with one element is rounded to a 16-bit dtype, and is not read as bits."""
    x = torch.zeros(3, 5, dtype=dtype)
    made = nbcompile.compile(lambda x: (torch.ones_like(x), x.new_full((7,), 2.5), torch.full((), 1, dtype=x.dtype)))
    for mine, theirs in zip(
        made(x), (torch.ones_like(x), x.new_full((7,), 2.5), torch.full((), 1, dtype=dtype)), strict=True
    ):
        assert torch.equal(mine, theirs)


NUMBERS = {
    "a summand": lambda x: x + 0.1,
    "beyond float32": lambda x: x.sin() - 1e300,
    "a factor of the second operand": lambda x: torch.add(x, x, alpha=0.1),
    "bounds": lambda x: x.clamp(0.1, 0.7),
    "choices": lambda x: torch.where(x > 0.5, 0.3, 0.1) + x,
    "a filled tensor": lambda x: torch.full((2,), 0.1, dtype=torch.float64) + x[0, :2],
    "an exponent": lambda x: x**2.1,
    "a slope": lambda x: F.leaky_relu(x - 0.5, 0.1),
    "an epsilon": lambda x: F.layer_norm(x, (9,), eps=1e-3),
    "steps": lambda x: torch.arange(0, 1, 0.1, dtype=torch.float64) + x[0, 0],
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_of_python_has_64_bits(name):
    """A Python number next to float64 tensors has 64 bits, whatever the default dtype is."""
    function, x = NUMBERS[name], torch.rand(5, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    nbcompile.reset()
    torch.testing.assert_close(nbcompile.compile(function)(x), function(x), rtol=1e-14, atol=0)


@pytest.mark.parametrize("dim", [0, 1])
def test_places_of_narrow_values_take_narrow_lanes(dim):
    """An index fits in 32 bits as the values do, if the count of elements does; the result is int64."""
    x = torch.randint(-3, 4, (300, 300)).float()
    x[7, 5] = torch.nan
    for function, tensor, lanes in (
        (lambda x: x.argmax(dim), x, "LANES32"),
        (lambda x: x.min(dim), x.bfloat16(), "LANES32"),
        (lambda x: x.argmax(dim) + 1, x, "LANES64" if dim == 0 else "LANES32"),
        (lambda x: x.argmax(dim), x.double(), "LANES64"),
        (lambda x: x.argmax(dim), torch.full((300, 300), -torch.inf), "LANES32"),
    ):
        _, plan = programs(function, tensor)
        (kernel,) = cpp.emit(plan).kernels
        assert f"W = {lanes};" in kernel.source
        for ours, eager in zip(run_cpp(plan, [tensor]), _flat(function(tensor)), strict=True):
            torch.testing.assert_close(ours, eager, rtol=0, atol=0, equal_nan=True)


def _flat(results):
    return [results] if isinstance(results, torch.Tensor) else list(results)


def test_only_what_is_rounded_at_once_is_computed_roughly():
    """A gelu from bfloat16 to bfloat16 uses the approximate function; in float32 the exact one, once for all users."""
    half, single = torch.randn(64).bfloat16(), torch.randn(64)
    for function, x, rough, exact in (
        (F.gelu, half, True, False),
        (F.gelu, single, False, True),
        (lambda x: (F.gelu(x).bfloat16(), F.gelu(x) + 1), single, False, True),
    ):
        _, plan = programs(function, x)
        (kernel,) = cpp.emit(plan).kernels
        assert ("approximate_gelu(" in kernel.source, " gelu(" in kernel.source or "(gelu(" in kernel.source) == (
            rough,
            exact,
        )
