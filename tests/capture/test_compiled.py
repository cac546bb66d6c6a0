"""One cache entry: a check, and the code that runs if the check holds."""

import torch

import nbcompile
from nbcompile.capture.compiled import CompiledFrame
from nbcompile.dispatch import cache


def test_the_entries_of_a_function_are_compiled_frames():
    """A cache entry has its compile id, runnable code, and a check that holds for its call."""

    def f(x):
        return x + 1

    nbcompile.compile(f, backend="eager")(torch.ones(2))
    (entry,) = cache.entries(f.__code__)
    assert isinstance(entry, CompiledFrame)
    assert entry.compile_id.endswith("/0")
    assert entry.code is not f.__code__
    assert entry.backend == "eager"
    scope = nbcompile.capture.resolution.Scope(
        f.__code__, {"x": torch.ones(2)}, globals(), vars(__import__("builtins"))
    )
    assert entry.check.holds(scope)
    assert entry.check.failure(scope, entry.compile_id) is None


def test_a_failing_check_names_its_guard():
    """The check fails for another size, and names the guard."""

    def f(x):
        return x + 1

    nbcompile.compile(f, backend="eager", dynamic=False)(torch.ones(2))
    (entry,) = cache.entries(f.__code__)
    scope = nbcompile.capture.resolution.Scope(
        f.__code__, {"x": torch.ones(3)}, globals(), vars(__import__("builtins"))
    )
    assert not entry.check.holds(scope)
    failed = entry.check.failure(scope, entry.compile_id)
    assert failed.reason == "tensor 'x' size mismatch at index 0. expected 2, actual 3"
    assert len(entry.check.failures(scope, entry.compile_id)) == 1
