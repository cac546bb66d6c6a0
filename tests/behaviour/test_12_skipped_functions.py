"""Section 12: skipped functions (SK)."""

import contextlib
import sys
import threading

import pytest
import torch

import nbcompile
from tests.support.watched import report_of, same, watch

x = torch.ones(3)
GB = torch._dynamo.graph_break


def inner1(x):
    return x + 1


def inner2(x):
    return x + 2


def breaking(x):
    x = x + 1
    GB()
    return x + 2


@contextlib.contextmanager
def managed():
    yield


lock = threading.Lock()


def test_SK_1_skip_frame():
    """skip_frame runs its caller in eager mode; the functions that the caller calls are compiled."""

    def g(x):
        x = inner1(x)
        torch._dynamo.skip_frame()
        return inner2(x)

    f = watch(g)
    same(f(x), x + 3)
    assert f.graphs == ["add", "add"]
    assert (f.titles[0], f.gb_ids[0]) == ("Call to `torch._dynamo.skip_frame()`", "GB4297")
    for part in ("g", __file__):
        assert part in f.breaks[0].context
    assert f.record.frames[0].status == "skipped"


def test_SK_1_ours_is_the_same():
    """nbcompile.skip_frame has the same effect."""

    def g(x):
        x = inner1(x)
        nbcompile.skip_frame("because")
        return inner2(x)

    f = watch(g)
    same(f(x), x + 3)
    assert f.graphs == ["add", "add"]
    assert f.gb_ids == ["GB4297"]


def test_SK_2_skip_frame_under_fullgraph():
    """skip_frame raises an error under fullgraph=True."""

    def g(x):
        torch._dynamo.skip_frame()
        return x + 1

    assert report_of(g, x).gb_id == "GB4297"


def test_SK_3_break_in_a_loop():
    """A break in a loop skips the whole frame without a graph, with a second reason."""

    def g(x):
        for _ in range(2):
            x = x + 1
            GB()
        return x

    def h(x):
        n = 0
        while n < 2:
            x = x + 1
            GB()
            n += 1
        return x

    for looping in (g, h):
        f = watch(looping)
        same(f(x), x + 2)
        assert f.graphs == []
        assert f.gb_ids == ["GB0025", "GB7000"]
        assert f.breaks[1].title == "graph break in loop"
        first = looping.__code__.co_firstlineno
        assert f.breaks[1].context == f"frame skipped: {looping.__name__} ({__file__} line {first})"


def test_SK_4_break_before_a_loop():
    """A break before the loop resumes, and the second graph contains the unrolled loop."""

    def g(x):
        x = x * 2
        GB()
        for _ in range(3):
            x = x + 1
        return x

    f = watch(g)
    same(f(x), x * 2 + 3)
    assert f.graphs == ["mul", "add add add"]


def test_SK_5_loop_unrolled_by_hand():
    """A loop written as calls of a nested function: each break resumes; graphs `add add`, `add`, `add`."""

    def g(x):
        def body(x):
            x = x + 1
            GB()
            return x + 1

        x = x + 1
        x = x + 1
        x = body(x)
        return x

    f = watch(g)
    same(f(x), g(x))
    assert f.graphs == ["add add", "add", "add"]
    assert len(f.breaks) == 2


@pytest.mark.parametrize("nested", [False, True])
def test_SK_6_break_in_a_function_called_in_a_loop(nested):
    """The caller is skipped; the callee is compiled once and used three times, in both modes."""

    def body(x):
        x = x + 1
        GB()
        return x

    def g(x):
        for _ in range(3):
            x = body(x)
        return x

    f = watch(g)
    with nbcompile.config.patch(nested_graph_breaks=nested):
        same(f(x), x + 3)
    assert f.graphs == ["add"]


def test_SK_7_break_in_a_user_context_manager():
    """A break inside a user's context manager skips the frame."""

    def g(x):
        with managed():
            x = x + 1
            GB()
            return x + 1

    f = watch(g)
    same(f(x), x + 2)
    assert f.graphs == []
    assert f.gb_ids == ["GB0025", "GB0066"]
    assert "_GeneratorContextManager" in f.breaks[1].context
    assert "outside" in f.breaks[1].hints[0]


def test_SK_8_break_between_two_with_blocks():
    """A break between two `with` blocks resumes."""

    def g(x):
        with managed():
            x = x + 1
        GB()
        with managed():
            x = x + 1
        return x

    f = watch(g)
    same(f(x), x + 2)
    assert f.graphs == ["add", "add"]


def test_SK_9_break_under_torchs_managers():
    """A break inside nullcontext and no_grad resumes, and the resume function enters no_grad again."""

    def g(x):
        with contextlib.nullcontext(), torch.no_grad():
            x = x + 1
            GB()
            return x + 1

    f = watch(g)
    same(f(x), x + 2)
    assert f.graphs == ["_set_grad_enabled add _set_grad_enabled"] * 2


def test_SK_9_break_under_autocast():
    """A break inside autocast resumes, and the resume function enters autocast again."""

    def g(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            x = x @ x
            GB()
            return x @ x

    f = watch(g)
    m = torch.ones(3, 3)
    same(f(m), g(m))
    assert f.graphs == ["_enter_autocast matmul _exit_autocast"] * 2


def test_SK_10_unsupported_manager():
    """A manager that cannot be entered while tracing (a lock) skips the frame."""

    def g(x):
        x = x + 1
        with lock:
            return x + 1

    f = watch(g)
    same(f(x), x + 2)
    assert f.gb_ids[0] == "GB0142"
    assert f.titles[0] == "Unsupported context manager"


def test_SK_11_break_in_try():
    """A break inside `try` skips the frame, without a second reason."""

    def g(x):
        try:
            x = x + 1
            GB()
            return x + 1
        except ValueError:
            return x

    f = watch(g)
    same(f(x), x + 2)
    assert f.graphs == []
    assert f.gb_ids == ["GB0025"]


def test_SK_11_break_between_two_try_blocks():
    """A break between two `try` blocks resumes."""

    def g(x):
        try:
            x = x + 1
        except ValueError:
            pass
        GB()
        try:
            return x + 1
        except ValueError:
            pass

    f = watch(g)
    same(f(x), x + 2)
    assert f.graphs == ["add", "add"]


def test_SK_12_try_is_traced():
    """try/except without a break is traced in one graph."""

    def g(x):
        try:
            raise ValueError("no")
        except ValueError:
            return x + 1

    f = watch(g, fullgraph=True)
    same(f(x), x + 1)
    assert f.graphs == ["add"]


def test_SK_12_uncaught_exception():
    """An uncaught exception is a break, `Observed exception`, and eager mode raises it."""

    def g(x):
        x = x + 1
        raise ValueError("no")

    f = watch(g)
    with pytest.raises(ValueError, match="no"):
        f(x)
    assert f.gb_ids == ["GB0088"]
    assert f.titles == ["Observed exception"]


def test_SK_13_recompile_limit():
    """At the recompile limit the function and its callees run existing entries, or eager mode."""

    def g(x, k):
        return inner1(x) + k

    f = watch(g, dynamic=False)
    with nbcompile.config.patch(recompile_limit=2):
        for number in range(2):
            f(x, str(number).__len__() * (number + 1))
        before = len(f.graphs)
        with pytest.warns(UserWarning, match="recompile_limit"):
            same(f(x, 77), x + 78)
        same(f(x, 78), x + 79)
    assert len(f.graphs) == before == 2


def test_SK_14_hard_errors():
    """Errors of the backend and forbidden callables are raised, not skipped."""

    def failing(gm, inputs):
        raise ValueError("no such thing")

    with pytest.raises(nbcompile.exc.BackendCompilerFailed, match="ValueError: no such thing"):
        nbcompile.compile(inner1, backend=failing)(x)

    def stance(x):
        torch.compiler.set_stance("default")
        return x + 1

    with pytest.raises(AssertionError, match="Attempt to trace forbidden callable"):
        watch(stance)(x)


def test_SK_15_isolated():
    """A problem in a separate nested function skips only that function."""

    def looping(x):
        for _ in range(2):
            GB()
        return x

    def g(x):
        x = x + 1
        x = looping(x)
        return x * 2

    f = watch(g)
    same(f(x), (x + 1) * 2)
    assert f.graphs == ["add", "mul"]


def test_SK_16_step_unsupported():
    """step_unsupported: the part before it is compiled, and the rest of the frame runs in eager mode."""

    def g(x):
        x = x + 1
        x = x * 2
        torch._dynamo.step_unsupported()
        x = x - 1
        return x / 2

    f = watch(g)
    same(f(x), torch.full((3,), 1.5))
    assert f.graphs == ["add mul"]
    assert f.gb_ids == ["GB4636"]


def test_SK_16_ours_is_the_same():
    """nbcompile.step_unsupported has the same effect."""

    def g(x):
        x = x + 1
        x = x * 2
        nbcompile.step_unsupported()
        return x - 1

    f = watch(g)
    same(f(x), x + 2)
    assert f.graphs == ["add mul"]


def test_SK_17_silent_skips():
    """Frames without operators or without tensors are skipped without a report."""

    def nothing(x):
        return x

    def numbers(a, b):
        return a * b

    f = watch(nothing)
    assert f(x) is x
    assert not f.breaks
    assert [each.skip_reason for each in f.record.frames] == ["no ops traced"]
    f = watch(lambda x: x + numbers(2, 3))
    same(f(x), x + 6)
    assert len(f.record.frames) == 1


def test_SK_18_break_in_a_list_comprehension():
    """A comprehension with a break is skipped as a loop; its caller resumes after it.

    Before 3.12 it is a separate function with its own frame, and its caller breaks the graph at its call.
    """

    def g(x):
        x = x * 2
        ys = [torch.add(y, 1) if GB() is None else y for y in (x, x)]
        return ys[0] + ys[1]

    f = watch(g)
    same(f(x), x * 4 + 2)
    assert ("GB7000" if sys.version_info < (3, 12) else "GB0025") in f.gb_ids
    first, second = (each for each in f.frames if each.graph)
    assert (first.function, second.resumes) == ("g", first.id)


def test_SK_19_steps_are_recorded():
    """The record has the steps of the interpreter, if the setting is on, and the inlined functions."""
    f = watch(lambda x: inner1(x) * 2)
    with nbcompile.config.patch(record_steps=True):
        f(x)
    (frame,) = f.frames
    assert {"LOAD_GLOBAL", "CALL", "BINARY_OP"} <= {each.opcode for each in frame.steps}
    assert any(each.startswith("inner1 (") for each in frame.inlined)
