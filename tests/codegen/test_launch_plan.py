"""A graph runs in C from end to end, including its ATen operators, with the results of the wrapper.

In torch: test/inductor/test_cpu_cpp_wrapper.py.
"""

import concurrent.futures
import gc
import re
import weakref

import pytest
import torch
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

import nbcompile
from nbcompile.aot.decompositions import default_table
from nbcompile.codegen import cpp
from nbcompile.codegen.launch_plan import opaque_values
from nbcompile.ir.emitted import AllocateSlot, Call, Convolve, Launch, Multiply, ViewSlot
from nbcompile.lowering.graph import lower
from nbcompile.runtime import program
from nbcompile.scheduling.plan import schedule
from tests.support.targets import compiler

R = torch.randn
HELD = R(6, 5)

PROGRAMS = {
    "mm": (lambda x, w: torch.mm(x, w).relu(), [R(7, 5), R(5, 6)], {Multiply}),
    "mm, transposed and offset": (lambda x, w: x[2:].mm(w.t()[1:]) + 1, [R(7, 5), R(6, 6)], {Multiply, ViewSlot}),
    "bmm": (lambda x, w: torch.bmm(x, w), [R(3, 7, 5), R(3, 5, 6)], {Multiply}),
    "addmm": (lambda b, x, w: torch.addmm(b, x, w), [R(6), R(7, 5), R(5, 6)], {Multiply}),
    "addmm, scaled": (lambda b, x, w: torch.addmm(b, x, w, beta=0.5, alpha=2), [R(6), R(7, 5), R(5, 6)], {Multiply}),
    "addmm, a sum that does not count": (
        lambda b, x, w: torch.addmm(b, x, w, beta=0), [torch.full((6,), float("nan")), R(7, 5), R(5, 6)], {Multiply},
    ),
    "baddbmm": (lambda b, x, w: torch.baddbmm(b, x, w, beta=2, alpha=-1), [R(7, 6), R(3, 7, 5), R(3, 5, 6)], {Multiply}),
    "integers": (lambda x, w: x @ w + 1, [torch.arange(12).view(3, 4), torch.arange(8).view(4, 2)], {Multiply}),
    "half": (lambda x, w: x @ w + 1, [R(3, 4).bfloat16(), R(4, 2).bfloat16()], {Multiply}),
    "complex": (lambda x, w: x @ w, [R(3, 4, dtype=torch.complex64), R(4, 2, dtype=torch.complex64)], {Call}),
    "nothing to sum": (lambda x, w: x @ w + 1, [R(3, 0), R(0, 2)], {Multiply}),
    "convolution": (lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1).relu(), [R(2, 3, 99, 99), R(4, 3, 3, 3), R(4)],
                    {Convolve}),
    "convolution without bias, in groups": (
        lambda x, w: F.conv1d(x, w, dilation=2, groups=2) * 2, [R(2, 4, 19), R(6, 2, 3)], {Convolve},
    ),
    "transposed convolution": (
        lambda x, w: F.conv_transpose2d(x, w, stride=2, output_padding=1), [R(2, 4, 5, 5), R(4, 3, 3, 3)], {Convolve},
    ),
    "several results": (lambda x: torch.topk(x * 2, 3), [R(4, 9)], {Call, Launch}),
    "a list of tensors": (lambda x, y: torch.ops.aten.histogramdd(torch.stack([x, y], 1), [3, 3])[0], [R(9), R(9)], {Call}),
    "indices": (lambda x, i: torch.ops.aten.index_reduce(x, 0, i, x, "amax"), [R(5, 3), torch.tensor([4, 2, 0, 1, 1])],
                {Call}),
    "a view of an input": (lambda x: (x.t(), x[1:], x), [R(4, 5)], set()),
    "a tensor of its own": (lambda x: x @ HELD + HELD.sum(), [R(4, 6)], {Multiply}),
    "None and a number": (lambda x: (x @ x, None, 3, 2.5), [R(4, 4)], {Multiply}),
}  # fmt: skip


def emitted(function, arguments):
    graph = make_fx(function, decomposition_table=default_table(), tracing_mode="fake", _allow_non_fake_inputs=True)(
        *arguments
    )
    planned = schedule(lower(graph))
    made = cpp.emit(planned)

    def attribute(path):
        return getattr(graph, path)

    return made, program.load(made, compiler(), attribute, opaque_values(planned))


def assert_same(ours, expected):
    torch.testing.assert_close(ours, expected, equal_nan=True, check_stride=True)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_step(name):
    """The plan has the expected steps, and gives eager's results and strides twice; so does the wrapper."""
    function, arguments, steps = PROGRAMS[name]
    made, call = emitted(function, arguments)
    assert made.plan is not None, made.no_plan
    assert steps <= {type(each) for each in made.plan.steps}
    assert not isinstance(call, program.PythonWrapper)
    expected = function(*arguments)
    for run in (call.positional, call.positional, lambda *given: call(list(given))):
        assert_same(run(*arguments), expected)
    with Seen():  # the text of the wrapper
        assert_same(call.positional(*arguments), expected)


def test_inputs_that_do_not_begin_where_their_storage_does():
    """A view of an input with a storage offset is relative to the input's first element."""
    x, w = torch.arange(40.0).view(10, 4)[5:], R(60)[4:].view(7, 8)[:, 4:]

    def f(x, w):
        return x.t(), x[1:], x + 1, x[1:] @ w.t(), F.conv1d(x[None].transpose(1, 2), w.view(7, 4, 1))

    _, call = emitted(f, [x, w])
    for _ in range(2):
        for one, two in zip(call.positional(x, w), f(x, w), strict=True):
            torch.testing.assert_close(one, two)


class Seen(TorchDispatchMode):
    """A mode that lists the operators that are called."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def test_a_mode_and_the_profiler_see_the_operators():
    """A dispatch mode and the profiler see the matrix product of a compiled function."""
    x, w = R(7, 5), R(5, 6)
    _, call = emitted(lambda x, w: torch.mm(x, w).relu(), [x, w])
    with Seen() as seen:
        assert_same(call.positional(x, w), torch.mm(x, w).relu())
    assert "aten.mm.default" in seen.names
    with torch.profiler.profile() as profiler:
        call.positional(x, w)
    assert "aten::mm" in {each.key for each in profiler.key_averages()}


def test_inputs_of_another_layout_take_the_wrapper():
    """An input with other strides is copied by the wrapper, and another shape is rejected."""
    x, w = R(7, 5), R(5, 6)
    _, call = emitted(lambda x, w: torch.mm(x, w).relu(), [x, w])
    assert_same(call.positional(x.t().contiguous().t(), w), torch.mm(x, w).relu())
    with pytest.raises(ValueError, match="was given"):
        call.positional(R(8, 5), w)


def test_an_operator_that_raises_leaves_nothing_behind():
    """The operator's own exception propagates, the buffers are freed, and the next call works."""

    def f(x, i):
        return torch.index_select(torch.relu(x @ x), 0, i), torch.linalg.cholesky(x)

    x, i = torch.eye(4) * 2, torch.tensor([0, 3])
    made, call = emitted(f, [x, i])
    assert made.plan is not None
    bad = -torch.eye(4)
    for _ in range(3):
        with pytest.raises(torch.linalg.LinAlgError, match="not positive-definite"):
            call.positional(bad, i)
        assert_same(call.positional(x, i), f(x, i))
    gone = weakref.ref(bad)
    del bad
    gc.collect()
    assert gone() is None


@torch.library.custom_op("nbcompile_test_plan::promises_rows", mutates_args=())
def promises_rows(x: torch.Tensor) -> torch.Tensor:
    return x.t().contiguous().t() * 2


@promises_rows.register_fake
def _(x):
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


def test_results_match_their_fake_tensors():
    """If the result of an operator has other strides than its fake result, it is copied to the expected ones."""

    @nbcompile.compile(fullgraph=True)
    def f(x):
        return promises_rows(x) + 1

    x = R(4, 5)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(f(x), x * 2 + 1)


def test_memory_of_another_shape_or_type_is_taken_over():
    """A dead buffer is reused for a result of another shape, and not for one of another dtype."""
    x = R(64, 32)

    def f(x):
        y = torch.softmax(x @ x.t(), -1)
        return torch.bmm(y.view(4, 16, 64), (y * 2).view(4, 64, 16)).cumsum(0).sum(0)

    made, call = emitted(f, [x])
    assert made.plan is not None
    assert AllocateSlot in {type(each) for each in made.plan.steps}
    for _ in range(2):
        torch.testing.assert_close(call.positional(x), f(x), rtol=1e-4, atol=1e-4)


SYMBOLIC = {
    "a chain": (lambda x, y: torch.tanh(x * y) + x, lambda n, m: [R(n, m), R(n, m)]),
    "two symbols in one size": (lambda x, y: torch.cat([x * 2, y], 1).sigmoid(), lambda n, m: [R(9, n), R(9, m)]),
    "softmax": (lambda x: torch.softmax(x, -1), lambda n, m: [R(n, m)]),
    "sums of sums": (
        lambda x: (x.var() + x.mean(), (x - x.mean()) / (x.std() + 1)), lambda n, m: [R(n, m)],
    ),
    "a sum of all": (lambda x: (x.sum(), x.amax(0)), lambda n, m: [R(n + 1, m)]),
    "products": (lambda x, w: torch.addmm(x[0], x @ x.t(), x, alpha=2) @ w, lambda n, m: [R(n, m), R(m, 3)]),
    "products of views": (lambda x: x[1:] @ x[:-1].t() + x.shape[0], lambda n, m: [R(n + 2, m)]),
    "a convolution": (
        lambda x, w: F.conv1d(F.pad(x, (1, 1)), w, padding=1).relu(), lambda n, m: [R(2, n, m + 4), R(11, n, 3)],
    ),
    "operators that take sizes": (
        lambda x: torch.ops.aten.rand_like(x.new_zeros([x.shape[0] * 2, 3])) * 0 + torch.repeat_interleave(
            x[:, :1], 2, 0, output_size=2 * x.shape[0]), lambda n, m: [R(n, m)],
    ),
    "several results": (lambda x: torch.topk(x * 2, x.shape[1] // 2), lambda n, m: [R(n, m)]),
    "sizes as results": (
        lambda x: (x + 1, x.shape[0], x.shape[0] * 3 - 1, x.shape[0] // 2, (x.shape[1] + 3) % 4, x[:, 1:].t()),
        lambda n, m: [R(n, m)],
    ),
    "strides": (lambda x: x + 1, lambda n, m: [R(n, 2 * m)[:, :m]]),
    "memory of another shape": (
        lambda x: torch.bmm(torch.softmax(x @ x.t(), -1)[None], (x * 2)[None]).cumsum(1), lambda n, m: [R(n, m)],
    ),
}  # fmt: skip


def symbolic(function, arguments):
    graph = make_fx(function, decomposition_table=default_table(), tracing_mode="symbolic")(*arguments)
    made = cpp.emit(schedule(lower(graph)))
    return made, program.load(made, compiler())


@pytest.mark.parametrize("name", SYMBOLIC)
def test_symbolic_sizes(name):
    """One plan serves all sizes, empty tensors included, with eager's sizes, strides and values."""
    function, make = SYMBOLIC[name]
    made, call = symbolic(function, make(6, 5))
    assert made.plan is not None, made.no_plan
    assert made.plan.values
    assert not isinstance(call, program.PythonWrapper)
    for n, m in ((6, 5), (3, 17), (2, 64), (41, 8), (0, 9)) if name not in NOT_EMPTY else ((6, 5), (9, 12), (2, 33)):
        arguments = make(n, m)
        expected = function(*arguments)
        for run in (call.positional, lambda *given: call(list(given))):
            torch.testing.assert_close(
                run(*arguments), expected, equal_nan=True, check_stride=n > 0, rtol=1e-4, atol=1e-4
            )
        with Seen():  # the text of the wrapper
            torch.testing.assert_close(call.positional(*arguments), expected, equal_nan=True, rtol=1e-4, atol=1e-4)


NOT_EMPTY = {"a convolution", "two symbols in one size", "several results", "products"}
"""Eager rejects these sizes, or the graph was made for others (a tensor of no elements has strides of its own)."""


def test_inputs_that_contradict_each_other():
    """Two inputs with one symbolic size that differ are an error of the wrapper."""
    made, call = symbolic(lambda x, y: x + y, [R(6, 5), R(6, 5)])
    assert made.plan is not None
    assert call.positional(R(3, 4), R(3, 4)).shape == (3, 4)
    with pytest.raises(ValueError, match="was given"):
        call.positional(R(3, 4), R(4, 4))
    x, y = R(4, 3).t(), R(3, 4)
    assert_same(call.positional(x, y), x.contiguous() + y)


def test_threads_that_run_one_graph_at_several_sizes():
    """Calls in several threads have separate sizes."""
    _, call = symbolic(lambda x: torch.softmax(x @ x.t(), -1).sum(0), [R(6, 5)])
    inputs = [R(n, 7) for n in (3, 50, 200, 31)]
    expected = [call.positional(x) for x in inputs]

    def work(at):
        return [call.positional(inputs[at]) for _ in range(50)]

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for at, results in enumerate(pool.map(work, range(4))):
            for each in results:
                assert_same(each, expected[at])


def test_a_long_sum_of_symbolic_length_is_cut_in_chunks():
    """Each call decides whether a sum is long; with one thread and with two the result is bitwise equal."""
    made, call = symbolic(lambda x: x.sum(), [R(100)])
    assert re.search(r"const int chunks\d* = ", made.source)
    for length in (0, 1, 1000, 65535, 65536, 300_001):
        x = torch.rand(length)
        results = []
        for threads in (1, 2):
            before = torch.get_num_threads()
            torch.set_num_threads(threads)
            results.append(call.positional(x))
            torch.set_num_threads(before)
        assert torch.equal(*results)
        torch.testing.assert_close(results[0], x.double().sum().float(), rtol=1e-6, atol=1e-6)


def test_what_is_no_whole_number_keeps_the_wrapper():
    """A graph without a plan has the reason in its record."""
    function = lambda x: torch.ops.aten.histc(x, 4, 0, x.shape[0] / 3)  # noqa: E731
    made, call = symbolic(function, [R(4, 5)])
    assert made.plan is None
    assert "whole numbers" in made.no_plan
    assert_same(call.positional(x := R(7, 3).abs()), function(x))
