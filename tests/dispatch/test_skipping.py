"""Code that is never compiled, because it is not the user's."""

from __future__ import annotations

import contextlib
import functools
import random
from typing import NamedTuple

import pytest
import torch

import nbcompile
from nbcompile import api, config
from nbcompile.capture.frame import Frame
from nbcompile.dispatch import skipping
from tests.support.graphs import Graphs


class Point(NamedTuple):
    x: int


def plain(a, b):
    return a * b


def generator():
    yield 1


async def coroutine():
    return 1


def frame(function, scope=None, **values):
    return Frame(function.__code__, values, {} if scope is None else scope, {})


def test_a_users_function_may_be_compiled():
    """A function of the user that is not a generator may be compiled."""
    assert skipping.code_skip_reason(plain.__code__) is None


@pytest.mark.parametrize(("code", "reason"), [
    (generator.__code__, "generators are not compiled as frames of their own"),
    (coroutine.__code__, "coroutines are not compiled as frames of their own"),
    (torch.nn.Module.__call__.__code__, "the file belongs to torch"),
    (api.compile.__code__, "the file belongs to nbcompile"),
    (random.Random.choice.__code__, "the file belongs to random"),
    (compile("x = 1", "module.py", "exec"), "the body of a class or of a module"),
    (Point._make.__func__.__code__, "the frame constructs a namedtuple"),
])  # fmt: skip
def test_what_is_not_the_users_is_skipped(code, reason):
    """Code that is not the user's has a reason, which ``TORCH_LOGS`` and the record show."""
    assert skipping.code_skip_reason(code) == reason


def test_parts_of_torch_that_are_plain_tensor_code_are_compiled():
    """Optimizers are compiled; their schedulers, which count steps, are not."""
    assert skipping.code_skip_reason(torch.optim.SGD.step.__wrapped__.__code__) is None
    assert skipping.code_skip_reason(torch.optim.lr_scheduler.LRScheduler.step.__code__) is not None


def test_a_call_without_tensors_is_left_to_python():
    """The call is compiled if it names a module of torch, or if the user requested it."""
    assert skipping.frame_skip_reason(frame(plain, a=1, b=2)) == skipping.NO_TENSORS
    assert skipping.frame_skip_reason(frame(plain, a=torch.ones(1), b=2)) is None

    def makes():
        return torch.ones(2)

    assert skipping.frame_skip_reason(frame(makes, {"torch": torch})) is None

    def asked(a):
        return a

    skipping.always_look(asked.__code__)
    assert skipping.frame_skip_reason(frame(asked, a=1)) is None


def test_tensors_are_found_in_containers():
    """Tensors are found in lists, tuples and dicts, also in recursive ones."""
    loop = [1]
    loop.append(loop)
    assert not skipping.touches_tensors(frame(plain, a=loop, b={}))
    loop.append({"deep": (torch.ones(1),)})
    assert skipping.touches_tensors(frame(plain, a=loop, b={}))
    assert skipping.touches_tensors(frame(plain, a=torch.nn.Linear, b=0))


def test_nothing_is_compiled_while_the_compiler_is_off():
    """Frames are skipped with ``config.disable``, and below a dispatch mode."""
    called = frame(plain, a=torch.ones(1), b=2)
    with config.patch(disable=True):
        assert "disabled" in skipping.frame_skip_reason(called)

    class Mode(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
            return function(*arguments, **(keywords or {}))

    with contextlib.ExitStack() as stack:
        stack.enter_context(Mode())
        assert skipping.frame_skip_reason(called) == "a torch dispatch mode is active"


def test_a_module_of_torchs_with_hooks_is_an_entry():
    """A hook may break the graph of its caller; then the ``forward`` is a separate frame."""
    layer = torch.nn.Linear(2, 2)
    forward = Frame(torch.nn.Linear.forward.__code__, {"self": layer}, {}, {})
    assert not skipping.module_forward_with_hooks(forward)
    layer.register_forward_hook(lambda *_: None)
    assert skipping.module_forward_with_hooks(forward)


def test_the_rest_of_a_frame_finds_tensors_in_closures():
    """There is one graph after the break, as in torch, not one for each call of an inner function."""

    def program(x):
        def scaled(number):
            return x * number if number else outer(1)

        def outer(number):  # each of the two functions is in the closure of the other
            return scaled(number)

        print(end="")
        return outer(2), outer(3)

    graphs = []

    def backend(module, _):
        graphs.append(module)
        return module.forward

    x = torch.ones(2)
    first, second = nbcompile.compile(program, backend=backend)(x)
    assert torch.equal(first, x * 2)
    assert torch.equal(second, x * 3)
    assert len(graphs) == 1


def _under_a_cache(x):
    return functools.lru_cache(lambda number: x + number)


def _of_a_partial(x):
    return functools.partial(lambda first, number: x + first + number, 2)


def _in_a_list(x):
    functions = [lambda number: x + number]
    return lambda number: functions[0](number)


def _of_a_class(x):
    class Scaled:
        @staticmethod
        def by(number):
            return x * number

        @classmethod
        def by_class(cls, number):
            return cls.by(number) + x

    return Scaled.by_class


@pytest.mark.parametrize(
    ("make", "count"), [(_of_a_partial, 1), (_in_a_list, 1), (_of_a_class, 1), (_under_a_cache, 3)]
)
@pytest.mark.usefixtures("nothing_compiled")
def test_the_rest_of_a_frame_finds_functions_that_hold_tensors(make, count):
    """Tensors in a partial, a container or a class give one graph of both calls after the break.

    Python runs the calls of a cached function from before the break: a graph for each call, and one for the sum.
    """

    def program(x):
        function = make(x)
        print(end="")
        return function(1) + function(3)

    graphs = Graphs()
    x = torch.ones(2)
    assert torch.equal(nbcompile.compile(program, backend=graphs)(x), program(x))
    assert len(graphs) == count
    assert graphs.operators[0].count("add") >= 1
