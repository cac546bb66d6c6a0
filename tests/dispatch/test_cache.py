"""State for each code object: ids, limits, and values that differed between calls."""

from __future__ import annotations

import builtins
import gc

import pytest
import torch

import nbcompile
from nbcompile import config
from nbcompile.capture.compiled import CompiledFrame
from nbcompile.capture.frame import Frame
from nbcompile.capture.guard import Guard, GuardKind, TensorFacts
from nbcompile.capture.source import GlobalSource, LocalSource
from nbcompile.dispatch import cache, hook
from nbcompile.guarding.check import build_check
from nbcompile.record.model import FailedGuard

X, K = LocalSource("x"), LocalSource("k")


@pytest.fixture(autouse=True)
def clean():
    """A fixture without entries and recorded values before and after each test."""
    hook.reset()
    yield
    hook.reset()


def function(x=None, k=None):
    return x


def frame_of(**values) -> Frame:
    return Frame(function.__code__, values, globals(), vars(builtins))


def tensor_guard(source, value):
    return Guard(source, GuardKind.TENSOR_MATCH, TensorFacts(tuple(value.shape), tuple(value.stride())))


def test_compile_ids_count_code_objects_and_attempts():
    """ "3/1" is the fourth code object's second attempt; equal code objects have different ids."""
    twins = [compile("x = 1", "<cell>", "exec") for _ in range(2)]
    assert twins[0] == twins[1]
    ids = [cache.next_compile_id(code) for code in (twins[0], twins[0], twins[1], twins[0])]
    assert ids == ["0/0", "0/1", "1/0", "0/2"]


def compiled_with(guards, frame):
    check = build_check(tuple(guards), frame)
    return CompiledFrame(cache.next_compile_id(frame.code), frame.code.replace(), check, "b")


def test_the_limit_and_its_warning():
    """The limit is eight entries; the warning has torch's text, and a higher limit allows more entries."""
    failed: list[tuple[FailedGuard, ...]] = []
    limits: list[object] = []

    def compile_frame(frame):
        limit = cache.limit_reached(frame)
        if limit:
            limits.append(limit)
            failed.append(cache.failures(frame.code, frame.scope(), callback.key))
            return hook.RunOnly("limit")
        return compiled_with([tensor_guard(X, frame.locals["x"])], frame)

    callback = hook.FrameCallback(compile_frame, "b")
    for size in range(1, 10):
        callback.call(function, (torch.ones(size),), {})
    assert limits == [("recompile_limit", 8)]
    assert [failure.compile_id for failure in failed[0]] == [f"0/{n}" for n in reversed(range(8))]
    warning = cache.limit_warning(function.__code__, limits[0], failed[0])
    where = f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}"
    assert warning.splitlines()[:4] == [
        "torch._dynamo hit config.recompile_limit (8)",
        f"   function: 'function' ({where})",
        "   last reason: 0/7: tensor 'x' size mismatch at index 0. expected 8, actual 9",
        'To log all recompilation reasons, use TORCH_LOGS="recompiles".',
    ]
    frame = frame_of(x=torch.ones(20))
    assert cache.limit_reached(frame, 16) is None
    with config.patch(recompile_limit=16):
        assert cache.limit_reached(frame) is None
    with config.patch(accumulated_recompile_limit=3):
        assert cache.limit_reached(frame, 16) == ("accumulated_recompile_limit", 3)


def test_the_limit_counts_entries_of_the_same_modules():
    """Entries with guards on the identity of other modules do not count."""
    modules = [torch.nn.Linear(1, 1) for _ in range(10)]

    def compile_frame(frame):
        assert cache.limit_reached(frame) is None
        return compiled_with([Guard(K, GuardKind.ID_MATCH, frame.locals["k"])], frame)

    callback = hook.FrameCallback(compile_frame, "b")
    for module in modules:
        callback.call(function, (torch.ones(1), module), {})
    assert len(cache.entries(function.__code__)) == 10


def helper(x):
    return x


def test_an_entry_expires_with_what_it_recognises():
    """The failure still has its reason after a function that the entry guards was redefined and freed."""
    compiled = []

    def compile_frame(frame):
        compiled.append(cache.failures(frame.code, frame.scope(), callback.key))
        guard = Guard(GlobalSource("helper"), GuardKind.FUNCTION_MATCH, helper)
        return compiled_with([guard], frame)

    callback = hook.FrameCallback(compile_frame, "b")
    original = helper
    try:
        exec("def helper(x): return x", globals())
        callback.call(function, (torch.ones(1),), {})
        assert len(cache.entries(function.__code__)) == 1
        exec("def helper(x): return -x", globals())
        assert cache.entries(function.__code__) == ()
        callback.call(function, (torch.ones(1),), {})
        (failure,) = compiled[1]
        assert failure.compile_id == "0/0"
        assert failure.reason == "___check_obj_id(G['helper'].__code__, ..), type=<class 'code'>"
    finally:
        globals()["helper"] = original


def test_a_notebook_cell_that_runs_again_and_again(recwarn):
    """Entries for old versions of a helper are freed and do not count: the last version is compiled, too."""
    names = {"torch": torch}
    exec("def f(x): return helper(x) * 2", names)
    graphs = []
    compiled = nbcompile.compile(names["f"], backend=lambda graph, inputs: graphs.append(1) or graph)
    for number in range(12):
        exec(f"def helper(x): return x + {number}", names)
        assert compiled(torch.ones(1)).item() == 2 * (1 + number)
    gc.collect()
    assert (len(graphs), len(cache.entries(names["f"].__code__))) == (12, 1)
    assert not [each for each in recwarn if issubclass(each.category, nbcompile.errors.RecompileLimitWarning)]
