"""The doors that are plain functions: what ``explain`` tells whatever happened before."""

import asyncio

import torch

import nbcompile


def double(x):
    return x * 2


def test_explain_tells_of_a_function_that_was_compiled_before():
    """Entries of an earlier ``compile`` do not answer the call that is to be explained."""
    x = torch.ones(3)
    nbcompile.compile(double, backend="eager")(x)
    for _ in range(2):
        told = nbcompile.explain(double, backend="eager")(x)
        assert told.graph_count == 1
        assert told.guards
        assert torch.equal(told.result, x * 2)


def test_explain_of_compiled_code_tells_what_a_call_adds():
    """Nothing for a call that is answered; the recompilation and its cause for one that is not."""
    compiled = nbcompile.compile(double, backend="eager", dynamic=False)
    compiled(torch.ones(3))
    answered = nbcompile.explain(compiled)(torch.ones(3))
    assert answered.graph_count == 0
    assert "Nothing new was compiled: double ran code that was compiled before." in str(answered)
    (frame,) = nbcompile.explain(compiled)(torch.ones(4)).record.frames
    assert frame.cause == "recompiled"


def test_the_reason_of_a_coroutine_is_in_the_users_code():
    """A compiled coroutine function runs as it is, as with torch.compile; its break is told where it is defined."""

    async def work(x):
        return x + 1

    explanation = nbcompile.explain(work, backend="eager")(torch.ones(2))
    assert torch.equal(asyncio.run(explanation.result), torch.full((2,), 2.0))
    ((cause, count),) = explanation.breaks
    assert (cause.stack[-1].file, cause.stack[-1].code) == (__file__, "async def work(x):") and count == 1
