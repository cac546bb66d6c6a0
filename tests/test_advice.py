"""Tests of nbcompile/advice.py: what would have prevented a recompilation."""

import pytest
import torch

import nbcompile
from tests.behaviour.support import watch

x = torch.ones(3)
RATE = 2


@pytest.fixture(autouse=True)
def nothing_compiled_before():
    nbcompile.reset()


def advice(function, *calls, **options):
    """What is advised at the last call."""
    compiled = watch(function, **options)
    for call in calls:
        compiled(*call)
    return compiled.record.frames[-1].failed_guards[0].advice


def test_sizes():
    """A size that differed: mark_dynamic, tried by tracing with the dim dynamic; 0 and 1 need mark_unbacked."""
    found = advice(lambda x: x + 1, [torch.ones(3)], [torch.ones(4)])
    assert (found.text, found.verified) == ("torch._dynamo.mark_dynamic(x, 0) before the first call", True)
    found = advice(lambda x: x + 1, [torch.ones(3)], [torch.ones(1)])
    assert (found.text, found.verified) == ("torch._dynamo.decorators.mark_unbacked(x, 0) before the first call", True)


def test_advice_that_does_not_help_is_not_verified():
    """Where the code makes a constant of the size all the same, marking it is no help."""

    def f(x):
        return x + torch.ones(x.shape[0]) if x.shape[0] == 3 else x - 1

    found = advice(f, [torch.ones(4)], [torch.ones(3)])
    assert not found.verified


def test_a_size_that_the_program_fixed():
    """With dynamic=True it was a symbol until the program compared it: marking it would be an error, and is not advised."""
    found = advice(lambda x: x + 1 if x.shape[0] == 3 else x - 1, [torch.ones(3)], [torch.ones(4)], dynamic=True)
    assert found.text == "ask less of x.shape[0]: the program compares it, so that it must be 3"
    assert not found.verified


def test_numbers():
    """A global number: a tensor in its place; where the number is needed in Python, that is not verified."""
    global RATE

    def f(x):
        return x * RATE

    def g(x):
        return x * 2 if RATE > 2 else x * 3

    for function, verified in ((f, True), (g, False)):
        compiled = watch(function)
        for RATE in (2, 3):
            compiled(x)
        found = compiled.record.frames[-1].failed_guards[0].advice
        assert found.text == "make G['RATE'] a tensor: torch.tensor(3)"
        assert found.verified is verified


def test_the_call():
    """dtype, requires_grad and strides can be changed before the call; tried on the entry that refused."""
    f = lambda x: x + 1
    found = advice(f, [x], [x.double()])
    assert (found.text, found.verified) == ("x.to(torch.float32) before the call", True)
    found = advice(f, [x], [torch.ones(3, requires_grad=True)])
    assert (found.text, found.verified) == ("x.detach() before the call", True)
    square = torch.ones(3, 3)
    found = advice(f, [square], [square.t()])
    assert found is None or found.text == "x.contiguous() before the call"


def test_flags_and_lengths():
    """What cannot be tried without the user's hand is advised, and not called verified."""
    found = advice(lambda x, flag: x + 1 if flag else x, [x, True], [x, False])
    assert "one function for each value" in found.text and not found.verified
    found = advice(lambda xs: xs[0] + len(xs), [[x]], [[x, x]])
    assert "at one length" in found.text and not found.verified


def test_nothing_of_the_users_runs():
    """Trying advice traces; the user's side effects happen once per call."""
    seen = []

    def f(x, k):
        seen.append(k)
        return x * k

    compiled = watch(f)
    for k in (3, 4, 5):
        compiled(x, k)
    assert seen == [3, 4, 5]
