"""The public functions: ``explain`` reports the call, whatever was compiled before."""

import asyncio

import pytest
import torch

import nbcompile


def double(x):
    return x * 2


def test_explain_shows_a_function_that_was_compiled_before():
    """Entries of an earlier ``compile`` do not hit in ``explain``."""
    x = torch.ones(3)
    nbcompile.compile(double, backend="eager")(x)
    for _ in range(2):
        told = nbcompile.explain(double, backend="eager")(x)
        assert told.graph_count == 1
        assert told.guards
        assert torch.equal(told.result, x * 2)


def test_explain_of_compiled_code_shows_what_a_call_adds():
    """A hit adds nothing to the record; a recompile is in it with its cause."""
    compiled = nbcompile.compile(double, backend="eager", dynamic=False)
    compiled(torch.ones(3))
    answered = nbcompile.explain(compiled)(torch.ones(3))
    assert answered.graph_count == 0
    assert "Nothing new was compiled: double ran code that was compiled before." in str(answered)
    (frame,) = nbcompile.explain(compiled)(torch.ones(4)).record.frames
    assert frame.cause == "recompiled"


def test_explain_shows_what_the_function_raised():
    """The record has the exception, its line and advice; reading the result raises it."""

    def wrong(x):
        y = torch.relu(x)
        return torch.nn.functional.linear(y, torch.ones(4, 8))

    told = nbcompile.explain(wrong, backend="eager")(torch.ones(2, 16))
    assert told.record.raised.error == type(told.exception).__name__ == "TorchRuntimeError"
    assert "wrong raises RuntimeError at line" in " ".join(str(told).split())
    assert "in_features" in str(told) and "in_features" in told._repr_mimebundle_()["text/html"]
    with pytest.raises(nbcompile.exc.TorchRuntimeError, match="same reduction dim"):
        _ = told.result
    assert told.show("summary").exception is told.exception
    assert nbcompile.explain(double, backend="eager")(torch.ones(3)).exception is None


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_explain_does_not_catch_exit_and_interrupt(error):
    """Ctrl-C and sys.exit end the program."""

    def leaves(x):
        raise error

    with pytest.raises(error):
        nbcompile.explain(leaves, backend="eager")(torch.ones(3))


def test_the_reason_of_a_coroutine_is_in_the_users_code():
    """A compiled coroutine function runs eagerly, as with torch.compile; its break is at its definition."""

    async def work(x):
        return x + 1

    explanation = nbcompile.explain(work, backend="eager")(torch.ones(2))
    assert torch.equal(asyncio.run(explanation.result), torch.full((2,), 2.0))
    ((cause, count),) = explanation.breaks
    assert (cause.stack[-1].file, cause.stack[-1].code) == (__file__, "async def work(x):") and count == 1
