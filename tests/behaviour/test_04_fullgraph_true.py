"""Section 4: fullgraph=True (FG)."""

import array
import io
import logging
import os
import zlib

import pytest
import torch

import nbcompile
from nbcompile.observe import torch_logs
from tests.support.watched import report_of, same, watch

x = torch.ones(3)
GB = torch._dynamo.graph_break


def breaking(x):
    x = x + 1
    GB()
    return x * 2


def outer(x):
    return breaking(x * 2)


@torch.library.custom_op("nbcompile_behaviour::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    runs.append(type(x))
    return x * 2


@twice.register_fake
def _(x):
    return torch.empty_like(x)


@torch.library.custom_op("nbcompile_behaviour::no_fake", mutates_args=())
def no_fake(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


runs = []
ran = []


def test_FG_1_first_break_raises():
    """With fullgraph=True the first graph break is an error and no code runs; the default is False."""

    def g(x):
        ran.append(1)
        return breaking(x)

    f = watch(g, fullgraph=True)
    with pytest.raises(nbcompile.exc.Unsupported):
        f(x)
    assert f.graphs == []
    assert ran == []
    same(watch(breaking)(x), x * 4)


def test_FG_2_message():
    """The message has a title, explanation, hint, developer context, link, the user's stack with carets, and advice."""
    with pytest.raises(nbcompile.exc.Unsupported) as caught:
        watch(outer, fullgraph=True)(x)
    text = str(caught.value)
    parts = [
        "Call to `torch._dynamo.graph_break()`",
        "  Explanation: ",
        "  Hint: ",
        "  Developer debug context: ",
        "For more details about this graph break, run: ",
        "python -m nbcompile explain NB0001",
        "from user code:",
        "in outer",
        "^^^^",
        "in breaking",
        "TORCHDYNAMO_VERBOSE=1",
    ]
    places = [text.rindex(each) for each in parts]
    assert places == sorted(places)
    assert caught.value.__cause__ is None


def test_FG_2_verbose():
    """config.verbose also shows the compiler's own stack."""
    with nbcompile.config.patch(verbose=True), pytest.raises(nbcompile.exc.Unsupported) as caught:
        watch(outer, fullgraph=True)(x)
    assert caught.value.__cause__ is not None


def test_FG_3_iterator_from_outside():
    """`next` of a list iterator that is an argument breaks the graph."""
    report = report_of(lambda xs, x: x + next(xs), iter([1, 2]), x)
    assert (report.title, report.gb_id) == ("Missing tp_iternext", "GB4347")
    assert report.context == "next(list_iterator)"


def test_FG_4_iterator_made_inside():
    """A list as the argument, with the iterator created inside, is one graph."""
    f = watch(lambda xs, x: x + next(iter(xs)), fullgraph=True)
    same(f([1, 2], x), x + 1)
    assert f.graphs == ["add"]


def test_FG_6_nested_break():
    """A graph break in a callee: the report names the call, and the stack has the caller, then the callee."""
    report = report_of(outer, x)
    assert report.title == "Call to `torch._dynamo.graph_break()`"
    assert report.explanation == "User-inserted graph break. Message: None"
    assert report.gb_id == "GB0025"
    assert "args `[]`, kwargs `{}`" in report.context
    assert [each.function for each in report.stack] == ["outer", "breaking"]


def test_FG_7_message_of_a_break():
    """A positional message is only in the context."""

    def g(x):
        GB("hello")
        return x + 1

    report = report_of(g, x)
    assert report.explanation.endswith("Message: None")
    assert "hello" in report.context


def test_FG_8_nonstrict_trace():
    """nonstrict_trace makes the call one node."""
    f = watch(lambda w: torch._dynamo.nonstrict_trace(breaking)(w), fullgraph=True)
    same(f(x), x * 4)
    assert f.graphs == ["flat_apply_capture"]


def test_FG_9_c_functions():
    """A C builtin breaks the graph, with two hints: report it, or wrap it; a warning says the same once."""
    for function in (lambda x: x + zlib.crc32(b"abc"), lambda x: x + os.getpid()):
        torch_logs._warned.clear()
        with pytest.warns(UserWarning, match="comes from a C/C\\+\\+ extension") as warned:
            report = report_of(function, x)
            report_of(function, x)
        assert len([each for each in warned if "extension" in str(each.message)]) == 1
        assert (report.title, report.gb_id) == ("Attempted to call function marked as skipped", "GB0007")
        assert len(report.hints) == 2
        assert "allow_in_graph" in report.hints[1]
        assert "likely a C extension or builtin" in report.context


def test_FG_10_c_class():
    """The creation of an object of a C class breaks the graph."""
    report = report_of(lambda x: x + len(array.array("i", [1])), x)
    assert (report.title, report.gb_id) == ("Unsupported function call", "GB0147")


def test_FG_11_custom_op():
    """A custom operator is one node; its kernel runs once in each call, on real tensors."""
    f = watch(lambda x: twice(x) + 1, fullgraph=True)
    same(f(x), x * 2 + 1)
    same(f(x), x * 2 + 1)
    assert f.graphs == ["nbcompile_behaviour.twice.default add"] or f.graphs == ["twice.default add"]
    assert runs == [torch.Tensor, torch.Tensor]


def test_FG_12_custom_op_without_fake():
    """A custom operator without a fake implementation raises an error that names register_fake."""
    f = watch(lambda x: no_fake(x) + 1)
    with pytest.raises(nbcompile.exc.TorchRuntimeError, match="register_fake"):
        f(x)


def test_FG_13_save():
    """torch.save breaks the graph; two compiled functions before and after it work."""
    buffer = io.BytesIO()
    assert report_of(lambda x: torch.save(x + 1, buffer), x).gb_id == "GB0007"
    first, second = watch(lambda x: x + 1, fullgraph=True), watch(lambda x: x * 2, fullgraph=True)
    y = first(x)
    torch.save(y, io.BytesIO())
    same(second(y), x * 4)


def test_FG_14_is_compiling():
    """Code under `if not is_compiling()` is not traced and does not run."""

    def g(x):
        if not torch.compiler.is_compiling():
            ran.append("never")
        return x + 1

    f = watch(g, fullgraph=True)
    same(f(x), x + 1)
    assert "never" not in ran


def test_FG_15_ignored_functions():
    """Calls of an ignored function are removed; not even their arguments are checked."""

    def log(x):
        ran.append(x)

    def g(x):
        log()
        logger.warning("no")
        return x + 1

    logger = logging.getLogger("nbcompile.behaviour")
    f = watch(g, fullgraph=True)
    with nbcompile.config.patch(ignore_logging_functions={log, logger.warning}):
        same(f(x), x + 1)
    f = watch(g, fullgraph=True)
    with nbcompile.config.patch(ignore_logger_methods={log, logging.Logger.warning}):
        same(f(x), x + 1)
    assert ran == []


def test_FG_15_torchs_own_setting():
    """The functions in torch's own set are ignored, too."""

    def log(x):
        raise AssertionError

    torch._dynamo.config.ignore_logging_functions.add(log)
    try:
        same(watch(lambda x: (log(x), x + 1)[1], fullgraph=True)(x), x + 1)
    finally:
        torch._dynamo.config.ignore_logging_functions.discard(log)


def test_FG_16_ignored_function_with_a_result():
    """An ignored function returns None, whatever its result would be."""

    def log(x):
        return 7

    with nbcompile.config.patch(ignore_logging_functions={log}):
        assert watch(lambda x: (x + 1, log(x)))(x)[1] is None


def test_FG_17_scalars_are_captured():
    """fullgraph=True captures numbers and shapes that depend on data, whatever the settings are."""
    f = watch(lambda x: x + x.sum().item(), fullgraph=True)
    same(f(x), x + 3)
    assert f.graphs == ["sum item add"]
    f = watch(lambda x: (x > 0).nonzero(), fullgraph=True)
    same(f(x), (x > 0).nonzero())


def test_FG_18_no_tensors():
    """A function without tensors gives its result, without a graph and without an error."""
    for function, arguments in ((lambda: 5, ()), (lambda a: a + 1, (4,))):
        f = watch(function, fullgraph=True)
        assert f(*arguments) == 5
        assert f.graphs == []


def test_FG_19_recompile_limit():
    """At the recompile limit, fullgraph=True raises an error."""
    f = watch(lambda x, k: x + len(k), fullgraph=True, dynamic=False)
    with nbcompile.config.patch(recompile_limit=1):
        f(x, "a")
        with pytest.raises(nbcompile.exc.FailOnRecompileLimitHit, match="Hard failure due to fullgraph=True"):
            f(x, "ab")


@pytest.fixture(autouse=True)
def nothing_ran():
    runs.clear()
    ran.clear()
