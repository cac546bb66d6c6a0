"""Reasons of recompiles have the same text as those of torch.compile, which runs in this process."""

from __future__ import annotations

import builtins
import logging
import re

import pytest
import torch
import torch._dynamo

from nbcompile.capture.frame import Frame
from nbcompile.capture.guard import Guard, GuardKind, TensorFacts
from nbcompile.capture.source import AttrSource, CellSource, GlobalSource, ItemSource, LocalSource, TypeSource
from nbcompile.guarding.check import build_check

pytestmark = pytest.mark.skipif(torch.__version__ < "2.13", reason="the words are those of torch 2.13")
K = GuardKind
X, Y, V = LocalSource("x"), LocalSource("y"), LocalSource("v")


def plain(x):
    return x + 1


def with_value(x, v):
    return x + (v if isinstance(v, int | float) and not isinstance(v, bool) else 1)


def with_two(x, y):
    return x + y


def with_list(x, v):
    return x + len(v)


def with_items(x, v):
    return x + v[0]


def with_key(x, v):
    return x + v["a"]


def with_flag(x, v):
    return x + 1 if v else x - 1


def with_none(x, v):
    return x + 1 if v is None else x - 1


def with_text(x, v):
    return x + 1 if v == "a" else x - 1


def with_dtype(x, v):
    return x.to(v)


def helper(x):
    return x + 1


def with_helper(x):
    return helper(x)


def with_default(x):
    return defaulted(x)


def defaulted(x, n=1):
    return x + n


def make_closure(n):
    def inner(x):
        return x + n

    return inner


def tensor(source, value):
    return Guard(source, K.TENSOR_MATCH, TensorFacts(tuple(value.shape), tuple(value.stride())))


def reasons_of_torch(function, first, second) -> str:
    """The reason of the only recompile, without the comment on its source line, with ids as dots."""
    lines: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    listener = Listener()
    logger = logging.getLogger("torch._dynamo.guards.__recompiles")
    torch._dynamo.reset()
    torch._logging.set_logs(recompiles=True)
    logger.addHandler(listener)
    try:
        compiled = torch.compile(function, backend="eager", dynamic=False)
        compiled(*first())
        with second if hasattr(second, "__enter__") else torch.enable_grad():
            compiled(*(first() if hasattr(second, "__enter__") else second()))
    finally:
        logger.removeHandler(listener)
        torch._logging.set_logs()
        torch._dynamo.reset()
    (message,) = [line for line in lines if "triggered by" in line]
    reason = message.split("- 0/0: ", 1)[1].splitlines()[0]
    return normalised(reason.split("  # ")[0])


def normalised(reason: str) -> str:
    return re.sub(r", \d{6,}\)", ", ..)", reason).strip()


def ones(*sizes, **keywords):
    return torch.ones(*sizes, **keywords)


CASES = {
    "size": (plain, lambda: (ones(3),), lambda: (ones(4),), lambda x: [tensor(X, x)]),
    "second size": (plain, lambda: (ones(3, 3),), lambda: (ones(3, 4),), lambda x: [tensor(X, x)]),
    "dtype": (plain, lambda: (ones(3),), lambda: (ones(3).double(),), lambda x: [tensor(X, x)]),
    "rank": (plain, lambda: (ones(3, 3),), lambda: (ones(3),), lambda x: [tensor(X, x)]),
    "requires_grad": (plain, lambda: (ones(3),), lambda: (ones(3, requires_grad=True),), lambda x: [tensor(X, x)]),
    "stride": (plain, lambda: (ones(3, 3),), lambda: (ones(3, 3).t() * 1,), lambda x: [tensor(X, x)]),
    "no tensor": (plain, lambda: (ones(3),), lambda: (3,), lambda x: [tensor(X, x)]),
    "aliasing": (
        with_two, lambda: (ones(3), ones(3)), lambda: (ones(3),) * 2,
        lambda x, y: [tensor(X, x), tensor(Y, y), Guard(None, K.NO_TENSOR_ALIASING, (X, Y))],
    ),
    "int": (with_value, lambda: (ones(3), 3), lambda: (ones(3), 4), lambda x, v: [Guard(V, K.EQUALS_MATCH, 3)]),
    "float": (with_value, lambda: (ones(3), 0.5), lambda: (ones(3), 1.5), lambda x, v: [Guard(V, K.EQUALS_MATCH, 0.5)]),
    "bool": (with_flag, lambda: (ones(3), True), lambda: (ones(3), False), lambda x, v: [Guard(V, K.BOOL_MATCH, True)]),
    "none": (with_none, lambda: (ones(3), None), lambda: (ones(3), 3), lambda x, v: [Guard(V, K.NONE_MATCH)]),
    "str": (with_text, lambda: (ones(3), "a"), lambda: (ones(3), "b"), lambda x, v: [Guard(V, K.EQUALS_MATCH, "a")]),
    "dtype value": (
        with_dtype, lambda: (ones(3), torch.float64), lambda: (ones(3), torch.float32),
        lambda x, v: [Guard(V, K.EQUALS_MATCH, torch.float64)],
    ),
    "length": (
        with_list, lambda: (ones(3), [1]), lambda: (ones(3), [1, 2]), lambda x, v: [Guard(V, K.SEQUENCE_LENGTH, 1)],
    ),
    "empty": (with_list, lambda: (ones(3), []), lambda: (ones(3), [1]), lambda x, v: [Guard(V, K.SEQUENCE_LENGTH, 0)]),
    "type": (with_list, lambda: (ones(3), [1]), lambda: (ones(3), (1,)), lambda x, v: [Guard(V, K.TYPE_MATCH, list)]),
    "item": (
        with_items, lambda: (ones(3), [1, 2]), lambda: (ones(3), [5, 2]),
        lambda x, v: [Guard(V, K.SEQUENCE_LENGTH, 2), Guard(ItemSource(V, 0), K.EQUALS_MATCH, 1)],
    ),
    "key": (
        with_key, lambda: (ones(3), {"a": 1}), lambda: (ones(3), {"a": 2}),
        lambda x, v: [Guard(ItemSource(V, "a"), K.EQUALS_MATCH, 1)],
    ),
    "no_grad": (plain, lambda: (ones(3),), torch.no_grad(), lambda x: [Guard(None, K.GLOBAL_STATE)]),
    "autocast": (plain, lambda: (ones(3),), torch.autocast("cpu"), lambda x: [Guard(None, K.GLOBAL_STATE)]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_reason(name):
    """torch and nbcompile report the same reason for one change between two calls."""
    function, first, second, guards = CASES[name]
    expected = reasons_of_torch(function, first, second)
    code = function.__code__

    def frame(values):
        return Frame(code, dict(zip(code.co_varnames, values, strict=False)), globals(), vars(builtins))

    traced = first()
    check = build_check(tuple(guards(*traced)), frame(traced))
    if hasattr(second, "__enter__"):
        with second:
            failure = check.failure(frame(first()).scope(), "0/0")
    else:
        failure = check.failure(frame(second()).scope(), "0/0")
    assert failure is not None and failure.reason.strip() == expected


def test_reason_of_a_redefined_global_function():
    """A global function that is defined again, as in a notebook, has another code object."""
    kept = helper

    def redefined():
        globals()["helper"] = lambda x: x - 1
        return (ones(3),)

    try:
        expected = reasons_of_torch(with_helper, lambda: (ones(3),), redefined)
        globals()["helper"] = kept
        frame = Frame(with_helper.__code__, {"x": ones(3)}, globals(), vars(builtins))
        check = build_check((Guard(GlobalSource("helper"), K.FUNCTION_MATCH, kept),), frame)
        redefined()
        failure = check.failure(frame.scope(), "0/0")
    finally:
        globals()["helper"] = kept
    assert failure is not None and failure.reason == expected


def test_reason_of_a_changed_default():
    """The reason is ``defaulted.__defaults__[0] == 1``, as in torch."""

    def change():
        defaulted.__defaults__ = (2,)
        return (ones(3),)

    try:
        expected = reasons_of_torch(with_default, lambda: (ones(3),), change)
        defaulted.__defaults__ = (1,)
        frame = Frame(with_default.__code__, {"x": ones(3)}, globals(), vars(builtins))
        source = ItemSource(AttrSource(GlobalSource("defaulted"), "__defaults__"), 0)
        check = build_check((Guard(source, K.EQUALS_MATCH, 1),), frame)
        change()
        failure = check.failure(frame.scope(), "0/0")
    finally:
        defaulted.__defaults__ = (1,)
    assert failure is not None and failure.reason == expected


def test_reason_of_a_closure():
    """The reason of another free variable contains its cell; another closure of the same type passes a type guard."""
    inner = make_closure(1)
    frame = Frame(plain.__code__, {"x": inner}, globals(), vars(builtins))
    check = build_check((Guard(CellSource(X, "n", 0), K.EQUALS_MATCH, 1),), frame)
    other = Frame(plain.__code__, {"x": make_closure(2)}, globals(), vars(builtins))
    failure = check.failure(other.scope(), "0/0")
    assert failure is not None
    assert (failure.reason, failure.expected, failure.actual) == ("x.__closure__[0].cell_contents == 1", "1", "2")
    types = build_check((Guard(TypeSource(X), K.ID_MATCH, type(inner)),), frame)
    assert types.holds(other.scope())
