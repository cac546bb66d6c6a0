"""Tests of nbcompile/recording/recompile_advice.py: how to prevent a recompilation."""

import sys

import pytest
import torch

import nbcompile
from tests.support.watched import watch

pytestmark = pytest.mark.usefixtures("nothing_compiled")

x = torch.ones(3)
RATE = 2


def advice(function, *calls, **options):
    """The advice for the last call."""
    compiled = watch(function, **options)
    for call in calls:
        compiled(*call)
    return compiled.record.frames[-1].failed_guards[0].advice


def test_sizes():
    """A size that differed: mark_dynamic, verified by a trace with the dim dynamic; 0 and 1 need mark_unbacked."""
    found = advice(lambda x: x + 1, [torch.ones(3)], [torch.ones(4)])
    assert (found.text, found.verified) == ("torch._dynamo.mark_dynamic(x, 0) before the first call", True)
    found = advice(lambda x: x + 1, [torch.ones(3)], [torch.ones(1)])
    assert (found.text, found.verified) == ("torch._dynamo.decorators.mark_unbacked(x, 0) before the first call", True)


def test_advice_that_does_not_help_is_not_verified():
    """If the code specialises the size in any case, the mark does not help, and is not verified."""

    def f(x):
        return x + torch.ones(x.shape[0]) if x.shape[0] == 3 else x - 1

    found = advice(f, [torch.ones(4)], [torch.ones(3)])
    assert not found.verified


def test_a_size_that_the_program_fixed():
    """A size that a comparison specialised under dynamic=True cannot be marked, and is not advised."""
    found = advice(lambda x: x + 1 if x.shape[0] == 3 else x - 1, [torch.ones(3)], [torch.ones(4)], dynamic=True)
    assert found.text == "ask less of x.shape[0]: the program compares it, so that it must be 3"
    assert not found.verified


def test_numbers():
    """For a global number, a tensor is advised; this is not verified if Python needs the number."""
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
    """A dtype, requires_grad or strides can be changed before the call; each is tried on the entry's guards."""
    f = lambda x: x + 1
    found = advice(f, [x], [x.double()])
    assert (found.text, found.verified) == ("x.to(torch.float32) before the call", True)
    found = advice(f, [x], [torch.ones(3, requires_grad=True)])
    assert (found.text, found.verified) == ("x.detach() before the call", True)
    square = torch.ones(3, 3)
    found = advice(f, [square], [square.t()])
    assert found is None or found.text == "x.contiguous() before the call"


def test_flags_and_lengths():
    """Advice that only the user can follow is given, and not called verified."""
    found = advice(lambda x, flag: x + 1 if flag else x, [x, True], [x, False])
    assert "one function for each value" in found.text and not found.verified
    found = advice(lambda xs: xs[0] + len(xs), [[x]], [[x, x]])
    assert "at one length" in found.text and not found.verified


class Net(torch.nn.Module):
    """A model that reads a flag of the user, and its training mode."""

    def __init__(self, drops=True):
        super().__init__()
        self.drop, self.drops = torch.nn.Dropout(), drops

    def forward(self, x):
        return self.drop(x) if self.drops else x + 1


def test_train_and_eval():
    """For the training mode, the advice names train() and eval(), and calls two versions normal."""
    net = Net()
    compiled = watch(lambda net, x: net(x))
    compiled(net, x)
    compiled(net.eval(), x)
    (found,) = compiled.record.frames[-1].failed_guards
    assert found.advice.text == (
        "call train() or eval() on the model before the first call, and not between calls; "
        "where both modes are used, one version for each is normal"
    )
    assert not found.advice.verified
    compiled(net.train(), x)
    compiled(net.eval(), x)
    assert len(compiled.record.frames) == 2  # as advised: one version for each, however often the mode changes
    compiled = watch(lambda net, x: net(x))
    for _ in range(2):
        compiled(Net().eval(), x)
    assert len(compiled.record.frames) == 1  # one version, if the advice is followed


def test_flags_without_a_caller():
    """A flag in an attribute, a container, a closure or a global is no argument: the advice is to keep it constant."""
    global RATE
    told = "keep {} at one value, or read it outside of the compiled function: each of its values is compiled anew"
    found = advice(lambda net, x: net(x), [Net(), x], [Net(drops=False), x])
    assert (found.text, found.verified) == (told.format("net.drops"), False)
    found = advice(lambda d, x: x + 1 if d["big"] else x, [{"big": True}, x], [{"big": False}, x])
    assert found.text == told.format("d['big']")
    captured, RATE = True, "slow"
    in_closure, in_global = watch(lambda x: x + 1 if captured else x), watch(lambda x: x + len(RATE))
    in_closure(x), in_global(x)
    captured, RATE = None, "fast!"
    in_closure(x), in_global(x)
    assert in_closure.record.frames[-1].failed_guards[0].advice.text == told.format("captured")
    assert in_global.record.frames[-1].failed_guards[0].advice.text == told.format("G['RATE']")
    asks, before = watch(lambda x: x + sys.getrecursionlimit()), sys.getrecursionlimit()
    try:
        asks(x)
        sys.setrecursionlimit(before + 10)
        asks(x)
    finally:
        sys.setrecursionlimit(before)
    assert asks.record.frames[-1].failed_guards[0].advice.text == told.format("sys.getrecursionlimit()")


def test_nothing_of_the_users_runs():
    """A verification traces the function: the user's side effects happen once per call."""
    seen = []

    def f(x, k):
        seen.append(k)
        return x * k

    compiled = watch(f)
    for k in (3, 4, 5):
        compiled(x, k)
    assert seen == [3, 4, 5]


def rejected(function, *calls, **options):
    """The failed guards of the last call."""
    compiled = watch(function, **options)
    for call in calls:
        compiled(*call)
    return compiled.record.frames[-1].failed_guards


def test_sizes_zero_one_and_equal():
    """For 0, 1 and equal sizes, which torch specialises, the mark that prevents it is verified."""
    (found,) = rejected(lambda x: x + 1, [torch.ones(4)], [torch.ones(1)], dynamic=True)
    assert found.reason == "2 <= x.size()[0]"
    assert (found.advice.text, found.advice.verified) == (
        "torch._dynamo.decorators.mark_unbacked(x, 0) before the first call",
        True,
    )
    (found,) = rejected(lambda x: x + 1, [torch.ones(4, 4)], [torch.ones(4, 5)], dynamic=True)
    assert found.reason == "x.size()[1] == x.size()[0]"
    assert found.advice.text.startswith("torch._dynamo.mark_dynamic(x, 1) and torch._dynamo.mark_dynamic(x, 0)")
    assert found.advice.verified
    (found,) = rejected(lambda x: x + 1 if x.shape[0] > 9 else x, [torch.ones(4)], [torch.ones(11)], dynamic=True)
    assert "torch.cond" in found.advice.text and not found.advice.verified


def test_one_tensor_twice():
    """For one tensor as two arguments, a copy is advised, and verified on the entry."""
    (found,) = rejected(lambda x, y: x + y, [torch.ones(3), torch.ones(3)], [x, x])
    assert (found.advice.text, found.advice.verified) == ("y.clone() before the call", True)


def redefined():
    def helper(x):
        return x + 1

    return helper


@pytest.mark.parametrize(
    ("calls", "told"),
    [
        ([[x, None], [x, 3]], "one function for each value"),
        ([[x, [1]], [x, (1,)]], "one class in y"),
        ([[x, {"a": 1}], [x, {"b": 1}]], "keep the keys of y"),
        ([[x, redefined()], [x, redefined.__class__(redefined().__code__.replace(co_name="again"), {})]], "define y once"),
        ([[x, 1], [torch.ones(3, 3), 1]], "as many dims in x"),
    ],
)  # fmt: skip
def test_in_words(calls, told):
    """Each recompilation has advice; what cannot be verified is not called verified."""

    def f(x, y):
        if isinstance(y, dict):
            return x + len([*y])
        if callable(y):
            return y(x)
        return x + (y[0] if isinstance(y, (list, tuple)) else y or 1)

    for found in rejected(f, *calls):
        assert told in found.advice.text and not found.advice.verified


def test_each_entry_and_the_limit():
    """Each entry that rejects has separate advice; at the limit, raising it is advised, too."""
    found = rejected(lambda x, y: x + (1 if y else 2), [x, True], [x.double(), True], [x, False])
    assert [each.advice.text for each in found] == [
        "x.to(torch.float64) before the call",
        "do not pass y: define one function for each value of it",
    ]
    with nbcompile.config.patch(recompile_limit=1), pytest.warns(nbcompile.errors.RecompileLimitWarning):
        (found,) = rejected(lambda x, name: x + len(name), [x, "a"], [x, "bb"])
    assert found.advice.text.endswith("or config.recompile_limit = 2, if so many versions are meant")
