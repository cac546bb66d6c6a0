"""docs/minicompiler.md: its compiler is right, agrees with the real one, and rejects other code by name."""

from __future__ import annotations

import copy
import itertools
import re
import shutil
import types
import warnings
from pathlib import Path

import pytest
import torch

import nbcompile
from tests.support.watched import Watched

PAGE = Path(__file__).parents[2] / "docs/minicompiler.md"


def cells() -> list[str]:
    return re.findall(r"```\{code-cell\}\n(.*?)```", PAGE.read_text(), re.DOTALL)


def load(code: str = "") -> types.ModuleType:
    """The page's compiler as a module: its cells, except the last one, which imports nbcompile."""
    module = types.ModuleType(__name__)  # dataclasses look their module up
    exec(code or "\n".join(cells()[:-1]), vars(module))
    return module


@pytest.fixture(scope="module")
def page():
    """The page's cells, executed once as in the build."""
    return load()


@pytest.fixture
def mini(page):
    """The page's compiler without compiled code."""
    page.LOG.clear()
    page.RESUMED.clear()
    return page


@pytest.fixture(params=["C", "interpreted"])
def either(request, mini, monkeypatch):
    """The page's compiler with each of its backends."""
    if request.param == "interpreted":
        monkeypatch.setattr(mini, "BACKEND", mini.interpret)
    elif mini.COMPILER is None:
        pytest.skip("no C compiler here")
    return mini


# -- twenty programs, each with the calls that are made of it, in order --------------------------------------------

SCALE = 0.1
WEIGHT = torch.tensor([2.0, -1.0, 0.5, 4.0])
ROWS = torch.arange(-4.0, 4.0).reshape(2, 4)
ROW = torch.tensor([1.0, -0.0, 0.0, -3.0])


def pointwise(x, y):
    return torch.relu(x + y) * y - x / y


def numbers(x):
    return 2 - x * 0.1 + x / 3


def methods(x):
    return -x.abs().sqrt() + x.mul(x).sub(1)


def row_sums(x):
    return (x * x).sum(-1)


def divided_by_its_sum(x):
    y = x / x.sum()
    return y.sum(-1)


def several_results(x, y):
    return x + 1, x, 3, (y * y, None)


def comparison(x, y):
    return x > y, x == y, (x <= 0)


def half_way(x, y):
    z = torch.relu(x + y)
    print("half way")
    return (z * z).sum(-1)


def two_breaks(x):
    y = x + 1
    print("one", y.shape)
    z = y * x
    print("two", z)
    return z - y


def inside_an_expression(x, y):
    return torch.mul(x + 1, torch.add(y, y.sum().item() * 2))


def branch_on_data(x):
    y = x * 2
    if y.sum() > 0:
        return y + 1
    z = y - 1
    return z * z


def unbound_afterwards(x):
    if x.sum() > 0:
        y = x + 1
    else:
        y = x - 1
    print("bound")
    return y + x


def power(x, n):
    y = x
    while n > 1:
        y = y * x
        n -= 1
    return y


def break_behind_a_loop(x, n):
    while n > 0:
        x = x + n
        n -= 1
    print(n)
    return x * 2


def flagged(x, flag):
    if flag:
        return x + 1
    return x - 1


def by_rank(x):
    if x.ndim > 1:
        return x.sum()
    return x + x.ndim


def of_globals(x):
    return x * WEIGHT + SCALE


def times_its_sum(x):
    return x * float(x.sum())


def with_default(x, y=0.5, *, z=2):
    return x * y - z


def scaled_tensor(x, scale):
    y = x * scale
    return y + scale


PROGRAMS = [
    (pointwise, [(ROWS, ROW), (ROW, ROWS), (ROWS.T, ROWS.T), (ROWS.double(), ROW)]),
    (numbers, [(ROWS,), (ROWS.double(),), (ROWS[:1],)]),
    (methods, [(ROWS,), (ROW,)]),
    (row_sums, [(ROWS,), (ROWS.T,), (torch.ones(3, 0),), (torch.ones(0, 3),)]),
    (divided_by_its_sum, [(ROWS,), (ROWS.double(),)]),
    (several_results, [(ROWS, ROW)]),
    (comparison, [(ROWS, ROW), (ROW, ROW)]),
    (half_way, [(ROWS, ROW), (torch.ones(3, 4), ROW), (ROWS, ROW)]),
    (two_breaks, [(ROWS,), (ROW,)]),
    (inside_an_expression, [(ROWS, ROW), (ROWS, ROW + 1), (ROWS, ROW)]),
    (branch_on_data, [(ROWS,), (-ROWS,), (ROW,)]),
    (unbound_afterwards, [(ROWS,), (-ROWS,)]),
    (power, [(ROWS, 3), (ROWS, 2), (ROWS, 3)]),
    (break_behind_a_loop, [(ROWS, 3), (ROWS, 2)]),
    (flagged, [(ROWS, True), (ROWS, False), (ROWS, True)]),
    (by_rank, [(ROWS,), (ROW,)]),
    (of_globals, [(ROWS,), (ROW,)]),
    (times_its_sum, [(ROWS,), (ROWS,), (ROW,)]),
    (with_default, [(ROWS,), (ROWS, 0.25)]),
    (scaled_tensor, [(ROWS, torch.tensor(0.1, dtype=torch.float64)), (ROWS, torch.tensor([0.1], dtype=torch.float64))]),
]
programs = pytest.mark.parametrize(("function", "calls"), PROGRAMS, ids=[function.__name__ for function, _ in PROGRAMS])


def same(actual, expected):
    """Assert equality with the sign of zero, type, strides and structure."""
    assert type(actual) is type(expected)
    if isinstance(expected, tuple):
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            same(one, other)
    elif isinstance(expected, torch.Tensor):
        assert (actual.dtype, actual.shape, actual.stride()) == (expected.dtype, expected.shape, expected.stride())
        torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)
        assert torch.equal(actual.signbit() & ~actual.isnan(), expected.signbit() & ~expected.isnan())
    else:
        assert actual == expected


def strict(function):
    """A function under the page's compiler; a rejection is an error."""

    def call(*arguments):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return function(*arguments)

    return call


@programs
def test_results_are_those_of_eager_mode(either, function, calls):
    """Each compiled program gives eager's results bit by bit, in C and interpreted."""
    compiled = strict(either.minicompile(function))
    for arguments in calls:
        same(compiled(*arguments), function(*arguments))


@programs
@pytest.mark.filterwarnings("ignore:Graph break")
def test_the_real_compiler_agrees(mini, function, calls):
    """Both compilers create the same graphs in order, with as many breaks and recompiles."""
    compiled, watched = strict(mini.minicompile(function)), Watched(function, dynamic=False)
    for arguments in calls:
        same(compiled(*arguments), watched(*arguments))
    theirs = [[{"truediv": "div"}.get(name, name) for name in graph.split()] for graph in watched.graphs]
    assert [[node.operator for node in entry.trace.graph.calls] for entry in mini.LOG if entry.program.graph] == theirs
    assert sum(isinstance(entry.trace.exit, mini.Break) for entry in mini.LOG) == len(watched.breaks)
    assert sum(bool(entry.reasons) for entry in mini.LOG) == sum(bool(frame.failed_guards) for frame in watched.frames)


def test_there_are_twenty_programs():
    """The page is compared on twenty programs."""
    assert len(PROGRAMS) == len({function for function, _ in PROGRAMS}) == 20


# -- operators ------------------------------------------------------------------------------------------------------

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.1, 3.0, 1e-40, -1e38, float("inf"), float("-inf"), float("nan"), 16777217.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_operators_are_exact(mini, dtype):
    """Each operator gives eager's bits for zeros, infinities, NaN and rounded values."""
    left, right = (
        torch.tensor(values, dtype=dtype) for values in zip(*itertools.product(SPECIAL, SPECIAL), strict=True)
    )
    for name, text in mini.C_OF.items():
        if name == "sum":
            continue
        function = getattr(torch, name)
        two = "{b}" in text
        namespace = {"torch": torch}
        exec(f"def program(x, y): return torch.{name}(x{', y' * two})", namespace)
        same(strict(mini.minicompile(namespace["program"]))(left, right), function(*(left, right)[: 1 + two]))


def test_sums_of_zeros(mini):
    """An empty sum is 0, that of a negative zero is eager's, and that of many numbers is close to eager's."""

    def program(x):
        return x.sum(), x.sum(-1)

    compiled = strict(mini.minicompile(program))
    for tensor in (torch.ones(0), torch.tensor([-0.0]), torch.tensor(-0.0), torch.tensor(2.5)):
        same(compiled(tensor), program(tensor))
    many = torch.randn(7, 1001, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(compiled(many), program(many))


def test_one_nest(mini):
    """Pointwise operators and their sum are one loop nest, and only the sum is stored."""
    trace = mini.Translator(row_sums, {"x": ROWS}).trace()
    [nest] = mini.fuse(mini.lower(trace.graph))
    assert [loop.node.operator for loop in nest] == ["mul", "sum"]
    assert [node.operator for node in mini.in_memory(trace.graph, [nest], [trace.exit.value])] == ["sum"]


def test_a_method_in_place(mini):
    """A mutation by Python between two graphs is seen by the second graph, and by all aliases."""

    def program(x):
        y = x + 1
        z = y
        y.mul_(2)
        return z, y * x

    same(strict(mini.minicompile(program))(ROW), program(ROW))
    assert mini.LOG[0].trace.exit.reason == "Python calls mul_"


def test_what_needs_a_sum_is_another_nest(mini):
    """A quotient of a sum needs a second loop nest."""
    trace = mini.Translator(divided_by_its_sum, {"x": ROWS}).trace()
    nests = mini.fuse(mini.lower(trace.graph))
    assert [[loop.node.operator for loop in nest] for nest in nests] == [["sum"], ["div", "sum"]]


# -- guards, cache entries ----------------------------------------------------------------------------------------------


def test_a_guard_fails_in_words(mini):
    """The log has the failed guard of each entry, with expected and actual value."""
    compiled = mini.minicompile(flagged)
    for flag in (True, 1, 1.0):
        same(compiled(ROW, flag), flagged(ROW, flag))
    assert [entry.reasons for entry in mini.LOG] == [
        [],
        ["flag: expected True, got 1"],
        ["flag: expected True, got 1.0", "flag: expected 1, got 1.0"],
    ]


def test_zeros_are_told_apart(mini):
    """An entry for -0.0 does not serve 0.0: the call recompiles."""

    def program(x, zero):
        return x * zero

    compiled = strict(mini.minicompile(program))
    for zero in (0.0, -0.0, 0.0):
        same(compiled(ROW, zero), program(ROW, zero))
    assert len(mini.LOG) == 2


def test_a_global_is_guarded(mini, monkeypatch):
    """A changed global number, and a replaced module function, cause a recompile."""
    compiled = strict(mini.minicompile(of_globals))
    same(compiled(ROW), of_globals(ROW))
    monkeypatch.setitem(globals(), "SCALE", 0.2)
    same(compiled(ROW), of_globals(ROW))
    with_relu = strict(mini.minicompile(half_way))
    same(with_relu(ROWS, ROW), half_way(ROWS, ROW))
    monkeypatch.setattr(torch, "relu", torch.abs)
    same(with_relu(ROWS, ROW), half_way(ROWS, ROW))


def test_the_limit(mini):
    """After eight entries, a call without a hit runs in eager mode."""

    def program(x, n):
        return x + n

    compiled = strict(mini.minicompile(program))
    for n in range(12):
        same(compiled(ROW, n), program(ROW, n))
    assert len(mini.LOG) == mini.RECOMPILE_LIMIT == 8


# -- resume functions -----------------------------------------------------------------------------------------------


def test_a_loop_resumes_at_one_place(mini):
    """A break in a loop has one resume function, whatever the number of iterations."""
    namespace = {"torch": torch}
    exec(
        "def program(x, n):\n    while n > 0:\n        print(n)\n        x, n = x + n, n - 1\n    return x * 2",
        namespace,
    )
    same(strict(mini.minicompile(namespace["program"]))(ROW, 4), namespace["program"](ROW, 4))
    assert len(mini.RESUMED) == 1


def test_a_break_in_a_loop_is_left_to_eager_by_the_real_compiler():
    """The real compiler does not compile a frame that breaks in a loop, as the page says."""

    def program(x, n):
        while n > 0:
            x, n = x + n, n - 1
            print(n)
        return x

    watched = Watched(program, dynamic=False)
    same(watched(ROW, 2), program(ROW, 2))
    assert watched.graphs == []


def test_a_traceback_shows_the_line(mini):
    """An error in a resume function in eager mode is reported on the user's line."""

    def program(x, values):
        print(x)
        return values[7]

    with pytest.warns(UserWarning, match="falls back"), pytest.raises(IndexError) as caught:
        mini.minicompile(program)(ROW, [])
    assert caught.traceback[-1].lineno + 1 == program.__code__.co_firstlineno + 2


def test_other_values_are_read_before_the_call(mini):
    """A value on the stack below a call is that of before the call."""
    namespace = {"torch": torch, "weight": ROW}
    exec("def change():\n    global weight\n    weight = weight + 1\n    return 1", namespace)
    exec("def program(x): return (weight, x + change())", namespace)
    result = strict(mini.minicompile(namespace["program"]))(ROW)
    assert result[0] is ROW
    same(result[1], ROW + 1)


# -- what is rejected ------------------------------------------------------------------------------------------------


def in_place(x):
    x += 1
    return x


def closure(x):
    return (lambda: x)()


def handles(x):
    try:
        return x + 1
    except ValueError:
        return x


def generates(x):
    yield x + 1


def keywords(x):
    return torch.sum(x, dim=-1)


def iterates(x):
    for row in x:
        return row
    return x


def subscripts(x):
    return x[0]


def reads_locals(x):
    return x, locals()


REJECTED = [
    (in_place, ROW, r"the operator \+= is not supported"),
    (closure, ROW, "the instruction MAKE_CELL is not supported"),
    (handles, ROW, "try, with or yield is not supported"),
    (generates, ROW, "(the instruction RETURN_GENERATOR|yield) is not supported"),
    (keywords, ROW, "the instruction (KW_NAMES|CALL_KW) is not supported"),
    (iterates, ROWS, "the instruction GET_ITER is not supported"),
    (subscripts, ROW, "the instruction BINARY_SUBSCR is not supported"),
    (reads_locals, ROW, r"locals \(builtin_function_or_method\) is not supported"),
    (lambda *x: x[0], ROW, r"\*args or \*\*kwargs is not supported"),
    (lambda x: x**2, ROW, r"the operator \*\* is not supported"),
    (lambda x: x @ x, ROW, "the operator @ is not supported"),
    (lambda x: x.sum(0), ROWS, "sum with these arguments is not supported"),
    (lambda x: torch.add(x, x, x), ROW, "add with these arguments is not supported"),
    (lambda x: (x > 0) + 1, ROW, "add of anything but floating-point"),
    (lambda x: x + True, ROW, "add of anything but floating-point"),
    (lambda x: x * 1e300, ROW, r"numbers up to 2\*\*53 is not supported"),
    (lambda x: x.T.shape, ROWS, "the attribute shape is not supported"),
    (lambda x: x + 1, torch.ones(2, requires_grad=True), r"x \(torch.float32, requires_grad=True\)"),
    (lambda x: x + 1, torch.ones(2, dtype=torch.int32), r"x \(torch.int32, requires_grad=False\)"),
    (lambda x: x + 1, torch.nn.Parameter(ROW), r"x \(Parameter\)"),
    (lambda x: x + 1, [1], r"x \(list\) is not supported"),
    (lambda x: x + 1, ROW.to_sparse(), r"x \(torch.float32"),
]


@pytest.mark.parametrize(("function", "argument", "sentence"), REJECTED)
def test_rejections(mini, function, argument, sentence):
    """Each rejected construct is named with its line, and the function runs in eager mode."""

    def outcome(function):
        try:
            result = function(copy.deepcopy(argument))
        except Exception as error:
            return type(error)
        return list(result) if isinstance(result, types.GeneratorType) else result

    with pytest.warns(UserWarning, match=sentence) as caught:
        actual = outcome(mini.minicompile(function))
    assert re.match(rf"falls back to eager mode: {function.__name__}, line \d+: ", str(caught[0].message))
    expected = outcome(function)
    assert repr(actual) == repr(expected)
    assert mini.LOG == []


def test_a_branch_on_an_attribute_is_python_s(mini):
    """Python reads an unknown attribute of a tensor, also in the condition of a branch."""

    def program(x):
        if x.is_sparse:
            return x
        return x + 1

    same(strict(mini.minicompile(program))(ROW), ROW + 1)


# -- the page -------------------------------------------------------------------------------------------------------


def test_the_page_is_short():
    """The page has at most 600 lines, of at most 120 columns."""
    lines = PAGE.read_text().splitlines()
    assert len(lines) <= 600
    assert [line for line in lines if len(line) > 120] == []


def test_nothing_of_nbcompile_is_imported():
    """Only the last cell imports nbcompile."""
    *earlier, last = cells()
    assert "nbcompile" not in "".join(earlier)
    assert "import nbcompile" in last


def test_named_files_of_torch_exist():
    """Each part names the file of torch with the full implementation."""
    named = re.findall(r"`(torch/\w+/[\w/]+\.py)`", PAGE.read_text())
    assert len(named) >= 10
    assert [name for name in named if not (Path(torch.__file__).parents[1] / name).exists()] == []


def test_without_a_compiler(monkeypatch, capsys):
    """Without a C compiler, the page says so, and interprets the graphs."""
    monkeypatch.setattr(shutil, "which", lambda name: None)
    module = load()
    assert module.BACKEND is module.interpret
    assert "backend: interpret, as there is no C compiler here" in capsys.readouterr().out


def test_the_last_cell():
    """The comparison with nbcompile, in the last cell, runs."""
    nbcompile.reset()
    module = load("\n".join(cells()))
    assert torch.equal(module.explained.result, module.f(module.x, module.weight))
