"""A frame whose caller handles an exception: that is the context of new exceptions, and can be read.

    except ValueError:
        f(x)          in f: sys.exception() is the ValueError, a bare ``raise`` raises it again

The programs are: ``__context__`` of exceptions that are raised and caught (by C, in a generator, in a group, by
``with`` blocks, twice), a bare ``raise``, ``raise ... from``, ``sys.exc_info()``, ``sys.exception()``,
``traceback.format_exc()``, ``contextlib``, resume functions of the frame and of its callees, code that Python runs at a
break. Each is called with and without a handled exception, and with exceptions of two classes.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import traceback
import weakref

import pytest
import torch

import nbcompile
from tests.support.processes import python


def chain(error):
    """An exception as text, with all exceptions to which it refers."""
    links = error and (chain(error.__cause__), chain(error.__context__), error.__suppress_context__)
    return links and (repr(error), *links)


def context_of_caught(x):
    try:
        raise KeyError("k")
    except KeyError as error:
        return x + 1, error


def context_read(x):
    try:
        x.nothing  # noqa: B018
    except AttributeError as error:
        return x - 1 if error.__context__ is None else x + len(error.__context__.args[0])


def raised_twice(x):
    error = ValueError("twice")
    try:
        try:
            raise KeyError("k")
        except KeyError:
            raise error  # noqa: B904
    except ValueError:
        pass
    try:
        raise error
    except ValueError as again:
        return x + 1, again


def bare_raise(x):
    try:
        raise  # noqa: PLE0704
    except Exception as error:  # noqa: BLE001
        return x + 1, error


def bare_raise_leaves(x):
    x.add_(1)
    raise  # noqa: PLE0704


def raised_again_in_handler(x):
    outer = sys.exception()
    try:
        try:
            raise KeyError("k")
        except KeyError:
            raise outer or IndexError("none")  # noqa: B904
    except Exception as error:  # noqa: BLE001
        return x + 1, error


def raised_from(x):
    try:
        raise ValueError("in") from sys.exception()
    except ValueError as error:
        return x + 1, error


def exc_info(x):
    return x + 1, sys.exc_info()[:2], sys.exc_info() == (None, None, None)


def branches(x):
    if sys.exc_info()[0] is None:
        return x - 1
    return x + (1 if str(sys.exception()) == "outer" else 2)


def noted(x):
    if (error := sys.exception()) is not None:
        error.add_note("seen")
    return x + 1


def formatted(x):
    return x + len(traceback.format_exc().splitlines()[-1])


class Raises:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        raise TypeError("exit")


def exit_raises(x):
    try:
        with Raises():
            y = x + 1
    except TypeError as error:
        return y, error


def exits_of_stack(x):
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(Raises())
            stack.enter_context(Raises())
            raise KeyError("i")
    except TypeError as error:
        return x + 1, error


def suppressed(x):
    with contextlib.suppress(KeyError):
        raise KeyError("s")
    return x + 1, sys.exception()


def in_generator(x):
    def steps():
        yield sys.exception()
        raise ValueError("g")

    waiting = steps()
    first = next(waiting)
    try:
        next(waiting)
    except ValueError as error:
        return x + 1, first, error


def in_group(x):
    try:
        raise ExceptionGroup("g", [ValueError("1")])
    except* ValueError as error:
        found = error
    return x + 1, found


def after_break(x):
    y = x + 1
    print(end="")
    try:
        raise KeyError("after")
    except KeyError as error:
        return y * 2, sys.exception(), error


def breaks_and_raises(y):
    print(end="")
    try:
        raise KeyError("callee")
    except KeyError as error:
        return y * 2, error


def callee_breaks_in_handler(x):
    y = x + 1
    try:
        raise ValueError("a")
    except ValueError:
        return breaks_and_raises(y)


def python_in_handler(x):
    y, seen = x + 1, []
    try:
        raise ValueError("a")
    except ValueError:
        exec("import sys; seen.append(repr(sys.exception()))", {"seen": seen})
    return y * 2, seen


PROGRAMS = (
    context_of_caught, context_read, raised_twice, bare_raise, bare_raise_leaves, raised_again_in_handler, raised_from, exc_info,
    branches, noted, formatted, exit_raises, exits_of_stack, suppressed, in_generator, in_group, after_break,
    callee_breaks_in_handler, python_in_handler,
)  # fmt: skip
HANDLED = {"nothing": None, "one": ValueError("outer"), "another": IndexError("longer")}
ORDERS = (
    "nothing one nothing another another one one nothing nothing",
    "one one one one nothing nothing another",
)


def described(value):
    if isinstance(value, BaseException):
        return chain(value)
    if isinstance(value, tuple):
        return tuple(map(described, value))
    return value.tolist() if isinstance(value, torch.Tensor) else value


def called(function, error):
    """The result or the error of a call while an exception is handled, and that exception afterwards."""
    x = torch.ones(3)
    try:
        if error is not None:
            raise type(error)(*error.args)
        return described(function(x)), x.tolist()
    except BaseException as handled:  # noqa: BLE001
        if error is None:
            return chain(handled), x.tolist()
        try:
            found = described(function(x))
        except BaseException as raised:  # noqa: BLE001
            found = chain(raised)
        return found, x.tolist(), chain(handled), getattr(handled, "__notes__", None)


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_what_the_caller_handles(program, order):
    """The results are eager mode's, whether the caller handles no exception or one of several classes."""
    compiled = nbcompile.compile(program, backend="eager")
    for name in order.split():
        assert called(compiled, HANDLED[name]) == called(program, HANDLED[name]), name


@pytest.mark.usefixtures("nothing_compiled")
def test_nobody_asks():
    """An exception that is only caught needs no guard on the caller's exception: there is one graph."""
    graphs = []

    def counting(graph, _inputs):
        graphs.append(graph)
        return graph.forward

    compiled = nbcompile.compile(context_of_caught, backend=counting)
    for error in HANDLED.values():
        called(compiled, error)
    assert len(graphs) == 1


@pytest.mark.usefixtures("nothing_compiled")
def test_what_the_caller_handles_is_freed():
    """No cache entry refers to the exception that was handled during its compilation."""

    class Own(Exception):
        pass

    compiled, references = nbcompile.compile(exc_info, backend="eager"), []
    gc.disable()
    try:
        for _ in range(3):
            try:
                raise Own
            except Own as error:
                references.append(weakref.ref(error))
                compiled(torch.ones(2))
    finally:
        gc.enable()
    assert [each() for each in references] == [None] * 3


IN_TWO_PROCESSES = """
import torch, nbcompile
from tests.tracing.test_callers_that_handle import HANDLED, PROGRAMS, called
for program in PROGRAMS[::4]:
    compiled = nbcompile.compile(program, backend="eager")
    for error in (*HANDLED.values(), None):
        assert called(compiled, error) == called(program, error), (program, error)
"""


def test_a_second_process_asks_too(tmp_path):
    """Code that is loaded from the store reads the exception of its own caller."""
    for _ in range(2):
        python(IN_TWO_PROCESSES, NBCOMPILE_CACHE_DIR=tmp_path, NBCOMPILE_WARM_START="1")
