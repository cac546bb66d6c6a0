"""Calls that a cache entry accepts have eager mode's results, and memory use does not grow."""

import gc
import warnings

import pytest
import torch
from hypothesis import HealthCheck, given, settings, strategies

import nbcompile
from nbcompile.dispatch import cache


def sizes(x, k):
    return x + 1 if x.shape[0] > 2 else x * k


def layout(x, k):
    return x.t().reshape(-1) + (1 if x.is_contiguous() else k)


def kinds(x, k):
    return x.sum() if x.dtype.is_floating_point and x.requires_grad else x * bool(k)


def aliases(x, k, *more):
    y = more[0] if more else x
    z = y * 2
    return (z + 1, x is y, len(more))


def containers(x, k):
    table = {"k": k, "x": [x, x.shape]}
    return table["x"][0] * (k if isinstance(k, float) else len(table)), table["x"][1]


def broadcasting(x, k, *more):
    return x + (more[-1] if more else torch.ones(x.shape[-1]))


@strategies.composite
def tensors(draw):
    shape = draw(strategies.lists(strategies.integers(0, 4), min_size=2, max_size=2))
    dtype = draw(strategies.sampled_from((torch.float32, torch.float64, torch.int64)))
    tensor = (torch.arange(shape[0] * shape[1]).reshape(shape) + 1).to(dtype)
    if draw(strategies.booleans()):
        tensor = tensor.t()
    if dtype.is_floating_point and draw(strategies.booleans()):
        tensor.requires_grad_()
    return tensor


NUMBERS = strategies.sampled_from((0, 1, 2, 3, -1, 0.0, -0.0, 0.5, 1.0, True, False))


@strategies.composite
def calls(draw):
    x = draw(tensors())
    more = draw(strategies.sampled_from(("none", "the same", "another")))
    return (x, draw(NUMBERS), *(() if more == "none" else (x,) if more == "the same" else (draw(tensors()),)))


def outcome(function, arguments):
    try:
        return function(*arguments)
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("function", [sizes, layout, kinds, aliases, containers, broadcasting])
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(strategies.lists(calls(), min_size=2, max_size=6), strategies.sampled_from((None, True, False)))
def test_what_an_entry_accepts_it_computes_as_eager_does(function, many, dynamic):
    """Random calls one after the other have eager mode's results, whichever cache entry runs."""
    nbcompile.reset()
    compiled = nbcompile.compile(function, backend="eager", dynamic=dynamic)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for arguments in many:
            arguments = arguments if len(arguments) == 2 or function in (aliases, broadcasting) else arguments[:2]
            expected = outcome(function, arguments)
            actual = outcome(compiled, arguments)
            if isinstance(expected, type):
                assert isinstance(actual, type)
            else:
                torch.testing.assert_close(actual, expected, equal_nan=True)


def test_alternating_shapes_do_not_leak():
    """1,000 calls with alternating shapes leave as many objects as 100 calls."""
    nbcompile.reset()
    compiled = nbcompile.compile(lambda x: x * x.shape[0], backend="eager")
    given_ = [torch.ones(size) for size in (3, 4, 1, 5)]

    def objects(calls):
        for number in range(calls):
            compiled(given_[number % len(given_)])
        gc.collect()
        return len(gc.get_objects())

    before = objects(100)
    assert objects(1000) <= before + 5


def test_a_hundred_redefinitions_leave_one_entry():
    """A notebook cell that runs many times leaves one cache entry: the code of earlier runs is freed."""
    nbcompile.reset()
    scope = {"torch": torch, "nbcompile": nbcompile}
    cell = (
        "@nbcompile.compile(backend='eager')\ndef f(x):\n    return helper(x) + 1\ndef helper(x):\n    return x * 2\n"
    )
    x = torch.ones(3)
    for _ in range(100):
        exec(compile(cell, "<cell>", "exec"), scope)
        scope["f"](x)
    gc.collect()
    living = [code for code in cache.known_codes() if code.co_filename == "<cell>"]
    assert sum(len(cache.entries(code)) for code in living) == 1


def test_a_helper_that_is_defined_again_recompiles_with_a_reason():
    """A helper that a notebook cell defines again causes one recompile, whose reason names the helper."""
    nbcompile.reset()
    scope = {"torch": torch}
    exec("def f(x):\n    return helper(x) + 1\ndef helper(x):\n    return x * 2\n", scope)
    compiled = nbcompile.compile(scope["f"], backend="eager")
    x = torch.ones(3)
    frame_recorder = nbcompile.api.new_recorder("f")
    with frame_recorder.listening():
        compiled(x)
        exec("def helper(x):\n    return x * 3\n", scope)
        assert torch.equal(compiled(x), x * 3 + 1)
    (failed,) = frame_recorder.record().frames[-1].failed_guards
    assert "helper" in failed.reason and failed.actual
