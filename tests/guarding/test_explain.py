"""Guards as sentences, and the guard that fails."""

from __future__ import annotations

import builtins

import pytest
import torch

from nbcompile.capture.frame import Frame
from nbcompile.capture.guard import Guard, GuardKind
from nbcompile.capture.source import AttrSource, GlobalSource, LocalSource
from nbcompile.guarding import explain
from nbcompile.guarding.check import build_check
from nbcompile.options import Options
from nbcompile.tracing import tracer
from nbcompile.tracing.inputs.dynamism import Dynamism


def f(x, k):
    return x


def frame(**values):
    return Frame(f.__code__, values, {}, vars(builtins))


X, K = LocalSource("x"), LocalSource("k")


def test_names_are_those_of_the_program():
    """Names of locals and globals do not contain the dicts from which they are read."""
    assert explain.shortened("L['x'].size()[0] == 3") == "x.size()[0] == 3"
    words = explain.words(Guard(AttrSource(GlobalSource("settings"), "k"), GuardKind.EQUALS_MATCH, 3))
    assert "settings.k" in words and "G[" not in words


def test_the_guard_that_fails_is_named_with_both_values():
    """``failure`` names the guard at which C++ stopped; ``all_failures`` names every guard that fails."""
    check = build_check((Guard(X, GuardKind.EQUALS_MATCH, 1), Guard(K, GuardKind.EQUALS_MATCH, 2)), frame(x=1, k=2))
    assert explain.failure(check, frame(x=1, k=2).scope(), "0/0") is None
    failed = explain.failure(check, frame(x=1, k=5).scope(), "0/0")
    assert failed.compile_id == "0/0" and failed.source == "L['k']"
    assert (failed.expected, failed.actual) == ("2", "5")
    every = explain.all_failures(check, frame(x=7, k=5).scope(), "0/0")
    assert {each.source for each in every} == {"L['x']", "L['k']"}


def test_a_tensor_is_named_though_c_knows_no_guards():
    """The message of C++ contains the name of the tensor, which identifies the guard."""
    called = frame(x=torch.ones(2), k=0)
    check = build_check(guards_of(called), called)
    failed = explain.failure(check, frame(x=torch.ones(3), k=0).scope(), "0/0")
    assert failed.source == "L['x']" and "size" in failed.reason


def guards_of(called):
    """The guards of a traced function of a tensor."""

    def g(x, k):
        return x + 1

    traced = Frame(g.__code__, called.locals, globals(), vars(builtins))
    trace = tracer.trace(traced, Options(), Dynamism(False))
    return tuple(trace.guards())


@pytest.mark.parametrize(("keys", "said"), [((1,), "len("), ((1, 3), "[1] == 2")])
def test_the_first_key_that_differs_is_named(keys, said):
    """The reason names the first key that differs, or the number of keys."""
    check = build_check((Guard(X, GuardKind.DICT_KEYS, (1, 2)),), frame(x={1: 0, 2: 0}, k=0))
    failed = explain.failure(check, frame(x=dict.fromkeys(keys, 0), k=0).scope(), "0/0")
    assert said in failed.reason
