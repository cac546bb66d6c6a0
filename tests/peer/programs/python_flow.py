"""Python's statements in small programs: exceptions, with, generators, match, unpacking, scopes."""

# ruff: noqa  (programs use what users use, and say it in one line)

import torch
import collections
import dataclasses
import typing
import contextlib
import os

from tests.peer.program import case

ones, arange = torch.ones, torch.arange


def X():
    return torch.arange(4.0) + 1


class E1(Exception):
    pass


class E2(E1):
    def __init__(self, a, b=2):
        super().__init__(a)
        self.a = a
        self.b = b


@case()
def try_else_finally(x):
    log = []
    try:
        y = x + 1
    except ValueError:
        y = x
    else:
        y = y * 2
        log.append("else")
    finally:
        log.append("fin")
    return y, log


@case()
def raise_user(x):
    try:
        raise E2(3, b=4)
    except E1 as e:
        return x * e.a + e.b, e.args


@case()
def raise_from(x):
    try:
        try:
            raise ValueError("a")
        except ValueError as e:
            raise KeyError("b") from e
    except KeyError as e:
        return x + (1 if isinstance(e.__cause__, ValueError) else 2), str(e.__cause__)


@case()
def raise_context(x):
    try:
        try:
            1 / 0
        except ZeroDivisionError:
            raise KeyError("b")
    except KeyError as e:
        return x + 1, type(e.__context__).__name__, e.__cause__ is None, e.__suppress_context__


@case()
def reraise(x):
    try:
        try:
            raise ValueError(1)
        except ValueError:
            raise
    except ValueError as e:
        return x + e.args[0]


@case()
def finally_overrides(x):
    for i in range(3):
        try:
            if i == 1:
                return x + i
        finally:
            if i == 1:
                continue
    return x * 5


@case()
def tuple_except(x):
    try:
        [][0]
    except (KeyError, IndexError) as e:
        return x + 1, str(e)


@case()
def exc_group(x):
    try:
        raise ExceptionGroup("g", [ValueError(1), TypeError(2)])
    except* ValueError as g:
        x = x + 1
    except* TypeError:
        x = x + 2
    return x


@case()
def exc_str_repr(x):
    try:
        raise ValueError("a", 1)
    except ValueError as e:
        return x + 1, str(e), repr(e)


@case()
def nested_fn_raises(x):
    def g(y):
        if y.dim() == 1:
            raise RuntimeError("bad")
        return y

    try:
        return g(x)
    except RuntimeError as e:
        return x * 2, str(e)


class CM:
    def __init__(self, log, swallow=False):
        self.log = log
        self.swallow = swallow

    def __enter__(self):
        self.log.append("in")
        return self

    def __exit__(self, t, v, tb):
        self.log.append(("out", None if t is None else t.__name__))
        return self.swallow


@case()
def with_user(x):
    log = []
    with CM(log) as c:
        y = x + len(c.log)
    return y, log


@case()
def with_two(x):
    log = []
    with CM(log) as a, CM(log) as b:
        y = x + len(log)
    return y, log, a is b


@case()
def with_swallow(x):
    log = []
    y = x
    with CM(log, True):
        y = x + 1
        raise ValueError("z")
    return y + 1, log


@case()
def with_loop_break(x):
    log = []
    for i in range(3):
        with CM(log):
            if i == 1:
                break
            x = x + i
    return x, log


@contextlib.contextmanager
def cmgr(log):
    log.append("a")
    try:
        yield 5
    finally:
        log.append("b")


@case()
def with_contextmanager(x):
    log = []
    with cmgr(log) as v:
        y = x + v
    return y, log


@case(torch_differs="str of a KeyError is its text in quotes")
def with_contextmanager_raise(x):
    log = []
    try:
        with cmgr(log) as v:
            raise KeyError("k")
    except KeyError as e:
        return x + 1, log, str(e)


@case()
def with_suppress(x):
    with contextlib.suppress(ZeroDivisionError):
        x = x + 1
        1 / 0
    return x + 2


@case()
def with_exitstack(x):
    log = []
    with contextlib.ExitStack() as st:
        v = st.enter_context(cmgr(log))
        st.callback(log.append, "cb")
        x = x + v
    return x, log


@case()
def with_nullcontext(x):
    with contextlib.nullcontext(3) as k:
        return x + k


@case()
def cm_decorator(x):
    log = []

    @cmgr(log)
    def g(y):
        return y + 1

    return g(x), log


@case()
def gen_send(x):
    def g():
        t = 0
        while True:
            v = yield t
            if v is None:
                return
            t = t + v

    it = g()
    next(it)
    it.send(x)
    return it.send(x)


@case()
def gen_throw(x):
    def g():
        try:
            yield 1
        except ValueError:
            yield 2

    it = g()
    a = next(it)
    b = it.throw(ValueError("x"))
    return x + a + b


@case()
def gen_close(x):
    log = []

    def g():
        try:
            yield 1
        finally:
            log.append("closed")

    it = g()
    next(it)
    it.close()
    return x + 1, log


@case()
def gen_zip_two(x):
    g = (i for i in range(5))
    return [x + a * b for a, b in zip(g, g)]


@case()
def match_const(x):
    out = []
    for v in (1, "a", None, [1, 2], (3, 4, 5), {"k": 2}, 2.5):
        match v:
            case 1:
                out.append("one")
            case str(s):
                out.append("s" + s)
            case None:
                out.append("none")
            case [a, b]:
                out.append(a + b)
            case [a, *rest]:
                out.append(len(rest))
            case {"k": k, **kw}:
                out.append(k)
            case float() as fl if fl > 2:
                out.append(fl)
    return x + len(out), out


@dataclasses.dataclass
class Pt:
    x: typing.Any
    y: int = 0


@case()
def match_class(x):
    p = Pt(x, 3)
    match p:
        case Pt(x=t, y=0):
            return t
        case Pt(t, n):
            return t + n


@case()
def star_unpack(x):
    a, *b, c = [1, 2, 3, 4]
    (d, e), *f = (x, 2), 3

    def g(*args, **kw):
        return args, kw

    return g(*b, a, *f, **{"k": d + e}, z=c), [*b, *f], {**{"a": 1}, "b": 2}, (*b,), {*b}


@case()
def nonlocal_(x):
    n = 0

    def inc():
        nonlocal n
        n += 1
        return n

    inc()
    inc()
    return x + n


@case()
def class_body(x):
    class A:
        k = 3

        def m(self, y):
            return y + self.k

    return A().m(x)


@case()
def class_body_inherit(x):
    class A:
        def m(self):
            return 1

    class B(A):
        def m(self):
            return super().m() + 1

    return x + B().m()


@case()
def lambda_late(x):
    fs = [lambda y: y + i for i in range(3)]
    return [f(x) for f in fs]


@case()
def import_inside(x):
    import math as m
    from math import pi
    import os.path
    import collections.abc as c

    return x + m.sqrt(4) + pi, os.path.join("a", "b") if False else 1


@case()
def assert_msg(x):
    try:
        assert x.shape[0] == 3, f"bad {x.shape[0]}"
    except AssertionError as e:
        return x + 1, str(e)


@case()
def fstrings(x):
    k = 3
    f = 2.5
    return x + 1, f"{k:>5}|{f:.3f}|{k!r}|{x.shape}|{k=}|{'a':*^5}|{k:0{5}d}|{x.dtype}"


@case()
def chained_compare(x):
    k = 5
    return x + (1 if 0 < k <= 5 != 6 else 2), 1 < k < 3, k in (1, 5), k not in [5]


@case()
def aug_assign(x):
    l = [1]
    m = l
    l += [2]
    d = {"a": 1}
    d["a"] += 4
    t = (1,)
    u = t
    t += (2,)
    x = x.clone()
    y = x
    y += 1
    return x, l, m, d, t, u, l is m


@case(torch_differs="the RuntimeError has no text")
def stopiter_in_gen(x):
    def g():
        yield 1
        raise StopIteration

    try:
        return [x + i for i in g()]
    except RuntimeError as e:
        return x - 1, str(e)


@case()
def exc_traceback_with(x):
    try:
        raise ValueError("a")
    except ValueError as e:
        e2 = e.with_traceback(None)
    return x + 1, e2.args


@case()
def nested_try_break(x):
    out = []
    for i in range(4):
        try:
            if i == 2:
                break
            out.append(i)
        except Exception:
            pass
        else:
            out.append("e")
        finally:
            out.append("f")
    return x + 1, out
