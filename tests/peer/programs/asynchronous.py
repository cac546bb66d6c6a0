"""Exception groups and asynchronous code: the frame of a coroutine is skipped, and its callees are compiled."""

# ruff: noqa  (programs use what users use, and say it in one line)

import asyncio
import contextlib

import torch

from tests.peer.program import case, program

ones = torch.ones


def X():
    return torch.arange(3.0) + 1


def step(x):
    return x.sin() + 1


@program(torch_differs="torch 2.13 fails at await in a coroutine that it compiles", differs_on=((3, 11),))
def a_coroutine_is_compiled():
    async def f(x):
        await asyncio.sleep(0)
        return step(x)

    return f, [lambda f: asyncio.run(f(X())), lambda f: asyncio.run(f(X()))]


@program()
def a_compiled_function_is_called_from_a_coroutine():
    def f(x):
        return step(x) * 2

    async def work(f):
        first = f(X())
        await asyncio.sleep(0)
        return first + f(X())

    return f, [lambda f: asyncio.run(work(f)), lambda f: asyncio.run(work(f))]


@program()
def compiled_calls_of_many_tasks():
    def f(x, k):
        return x * k

    async def work(f, k):
        await asyncio.sleep(0)
        return f(X(), k)

    async def all_of(f):
        return await asyncio.gather(*(work(f, k) for k in (2, 3, 2)))

    return f, [lambda f: asyncio.run(all_of(f))]


@program()
def an_asynchronous_generator_is_compiled():
    async def f(x):
        for k in range(3):
            yield x + k

    async def all_of(f):
        return [each async for each in f(X())]

    return f, [lambda f: asyncio.run(all_of(f))]


@program(torch_differs="torch 2.13 fails at await in a coroutine that it compiles", differs_on=((3, 11),))
def an_asynchronous_context_around():
    @contextlib.asynccontextmanager
    async def scope(k):
        yield k

    async def f(x):
        async with scope(3) as k:
            return step(x) * k

    return f, [lambda f: asyncio.run(f(X()))]


@program(torch_differs="torch 2.13 runs a coroutine where it is made")
def a_coroutine_is_made_and_returned():
    def f(x):
        async def work():
            return y + 1

        y = x * 2
        return work()

    return f, [lambda f: asyncio.run(f(X()))]


@program()
def asynchronous_for_over_an_object():
    class Ticker:
        def __init__(self, n):
            self.n = n

        def __aiter__(self):
            return self

        async def __anext__(self):
            if not self.n:
                raise StopAsyncIteration
            self.n -= 1
            return self.n

    async def f(x):
        async for k in Ticker(3):
            x = step(x) + k
        return x

    return f, [lambda f: asyncio.run(f(X()))]


@program()
def a_coroutine_raises():
    async def f(x):
        y = step(x)
        raise ValueError("from within", y.shape[0])

    return f, [lambda f: asyncio.run(f(X()))]


@program()
def a_method_is_a_coroutine():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = 2

        async def fetch(self, x):
            return x * self.scale

        def forward(self, x):
            return step(x)

    net = Net()

    async def f(x):
        return net(await net.fetch(x))

    return f, [lambda f: asyncio.run(f(X()))]


@case()
def groups_are_split(x):
    try:
        raise ExceptionGroup("several", [ValueError("a"), TypeError("b"), KeyError("c")])
    except* ValueError as some:
        x = x + len(some.exceptions)
    except* (TypeError, KeyError) as others:
        x = x * len(others.exceptions)
    return x


@case()
def a_group_of_which_a_part_is_not_caught(x):
    y = x + 1
    try:
        raise ExceptionGroup("several", [ValueError("a"), TypeError("b")])
    except* ValueError:
        y = y * 2
    return y


@case()
def except_star_of_a_plain_exception(x):
    try:
        x = x + 1
        raise ValueError("alone")
    except* ValueError as some:
        return_value = x * 2, type(some).__name__, len(some.exceptions)
    return return_value


@case()
def except_star_of_nothing(x):
    try:
        y = x + 1
    except* ValueError:
        y = x - 1
    else:
        y = y * 3
    finally:
        z = y + 1
    return z


@case()
def groups_within_groups(x):
    inner = ExceptionGroup("inner", [OSError("d"), ValueError("e")])
    try:
        try:
            raise ExceptionGroup("outer", [TypeError("f"), inner])
        except* OSError as some:
            x = x + len(some.exceptions)
    except ExceptionGroup as rest:
        found, others = rest.split(TypeError)
        return x + 1, [str(each) for each in found.exceptions], others.message
    return x


@case()
def an_exception_group_is_caught_whole(x):
    try:
        raise ExceptionGroup("both", [ValueError(1), ValueError(2)])
    except ExceptionGroup as group:
        return x + len(group.exceptions), group.message, group.subgroup(lambda e: e.args[0] > 1) is not None


@case()
def raising_inside_except_star(x):
    try:
        try:
            raise ExceptionGroup("first", [ValueError("a")])
        except* ValueError:
            x = x.cos()
            raise RuntimeError("second")
    except ExceptionGroup as group:
        return x + 1, repr(group.exceptions[0])


@case()
def a_group_leaves_the_function(x):
    y = x + 1
    raise ExceptionGroup("out", [ValueError(int(y.shape[0])), TypeError("t")])
