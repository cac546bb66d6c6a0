"""The standard library in small programs: functools, itertools, operator, inspect, copy, closures."""

# ruff: noqa  (programs use what users use, and say it in one line)

import torch
import collections
import functools
import keyword
import struct
import weakref
import itertools
import operator
import types
import copy
import time
import inspect
import warnings

from tests.peer.program import case

ones, arange = torch.ones, torch.arange


def X():
    return torch.arange(4.0) + 1


@case(torch_differs="a partial of a partial is not flattened")
def ft_partial(x):
    def f(a, b, c=3):
        return a + b * c

    p = functools.partial(f, x, c=2)
    q = functools.partial(p, c=5)
    return p(1), q(1), q.keywords, q.func is f, len(q.args)


@case()
def ft_wraps(x):
    def deco(fn):
        @functools.wraps(fn)
        def w(*a, **k):
            return fn(*a, **k) * 2

        return w

    @deco
    def g(y, z=1):
        "doc"
        return y + z

    return g(x), g.__name__, g.__doc__, g.__wrapped__(x)


@functools.lru_cache(maxsize=None)
def lru(n):
    return n * 2


@case()
def ft_lru(x):
    return (x + lru(3) + lru(3),)


@case()
def ft_reduce(x):
    return functools.reduce(lambda a, b: a + b, [x, 1, 2]), functools.reduce(operator.mul, [1, 2, 3], 4)


@functools.singledispatch
def sd(a):
    return 0


@sd.register
def _(a: int):
    return 1


@sd.register(str)
def _(a):
    return 2


@sd.register(torch.Tensor)
def _(a):
    return a + 3


@case()
def ft_cmp_to_key(x):
    return x + 1, sorted([3, 1, 2], key=functools.cmp_to_key(lambda a, b: a - b))


@case()
def it_tensors(x):
    a = list(itertools.accumulate([x, x, x]))
    return (
        a[-1],
        [p + q for p, q in itertools.product([x], [1, 2])],
        [y for y in itertools.chain([x], [x + 1])],
        list(itertools.starmap(torch.add, [(x, 1)])),
    )


@case()
def it_step(x):
    c = itertools.count(1, 2)
    next(c)
    r = itertools.repeat(x)
    g = itertools.cycle([1, 2])
    next(g)
    return next(r) + next(c) + next(g), next(g)


@case()
def it_tee_lazy(x):
    log = []

    def gen():
        for i in range(3):
            log.append(i)
            yield i

    a, b = itertools.tee(gen())
    next(a)
    n = len(log)
    next(b)
    return x + n, log


@case()
def it_pairwise_lazy(x):
    it = itertools.pairwise(itertools.count())
    a = next(it)
    z = itertools.zip_longest(itertools.count(), [1])
    b = next(z)
    return x + a[1], b, list(itertools.islice(itertools.combinations(range(4), 3), 2))


@case()
def it_chain_next(x):
    it = itertools.chain([1], [2, 3])
    next(it)
    return x + next(it), list(it), next(it, None)


@case()
def op_tensors(x):
    o = operator
    return (
        o.add(x, 1),
        o.matmul(x, x),
        o.lt(x, 2),
        o.neg(x),
        o.getitem(x, slice(1, 2)),
        o.abs(x),
        o.pow(x, 2),
        o.truediv(1, x),
        o.is_(x, x),
        o.eq(x, x),
    )


def sigfn(a, b=2, *c, d, e=5, **f):
    pass


@case()
def sig_bind(x):
    s = inspect.signature(sigfn)
    b = s.bind(1, d=4)
    b.apply_defaults()
    return x + b.arguments["b"], list(s.parameters)


@case()
def sig_param_names(x):
    kw = {"a": 1, "zz": 2, "d": 3}
    ok = {k: v for k, v in kw.items() if k in inspect.signature(sigfn).parameters}
    return x + len(ok), ok


class CP:
    def __init__(self, a):
        self.a = a
        self.l = [1]


class CP2:
    def __init__(self, a):
        self.a = a

    def __copy__(self):
        return CP2(self.a + 1)

    def __deepcopy__(self, memo):
        return CP2(self.a + 2)


@case()
def copy_objects(x):
    p = CP(3)
    q = copy.copy(p)
    r = copy.deepcopy(p)
    q.l.append(5)
    return x + q.a + r.a, p.l, r.l, copy.copy(CP2(1)).a, copy.deepcopy(CP2(1)).a


@case()
def warn_(x):
    warnings.warn("hey")
    return x + 1


@case()
def time_(x):
    t = time.time()
    y = x + 1
    d = time.perf_counter() - t
    return y + (1 if t > 0 else 0)


@case()
def heap_bisect(x):
    import heapq, bisect

    h = [3, 1, 2]
    heapq.heapify(h)
    heapq.heappush(h, 0)
    a = heapq.heappop(h)
    l = [1, 3]
    bisect.insort(l, 2)
    return x + a, h, bisect.bisect_left([1, 2, 3], 2), l, heapq.nlargest(2, [1, 5, 3])


@case()
def vars_dir(x):
    p = CP(1)
    return x + 1, sorted(vars(p)), "a" in dir(p)


@case()
def print_(x):
    y = x + 1
    print("hi", 3)
    return y * 2


@case()
def threading_(x):
    import threading

    l = threading.Lock()
    with l:
        y = x + 1
    return y


@case()
def mod_attr_write(x):
    mod = types.ModuleType("m")
    mod.X = 3
    return x + mod.X


@case()
def fn_attr(x):
    def g(y):
        g.n += 1
        return y + g.n

    g.n = 1
    return g(x), g.n


@case()
def closures_shared(x):
    n = 0

    def inc():
        nonlocal n
        n += 1

    def get():
        return n

    inc()
    inc()
    return x + get()


def mk():
    n = 1

    def inc():
        nonlocal n
        n += 1
        return n

    def get():
        return n

    return inc, get


INC, GET = mk()


@case((X(),), (X(),))
def closures_shared_outside(x):
    INC()
    return x + GET()


class Kept:
    """The object of a weak reference."""


KEPT = Kept()
KEPT.scale = 3
REFERENCE = weakref.ref(KEPT)
HAS = frozenset([1, 2]).__contains__


@case()
def weak_references(x):
    y = x + 1
    return y * REFERENCE().scale, REFERENCE() is KEPT, weakref.ref(y)() * 2


@case()
def weak_reference_to_what_is_made_inside(x):
    made = Kept()
    made.scale = x + 1
    reference = weakref.ref(made)
    return made, reference, reference().scale


@case()
def counters(x):
    many = collections.Counter("aab") + collections.Counter("ab")
    many.update("b")
    many.subtract("a")
    return x + many["b"], dict(many), sorted((many & collections.Counter("bb")).elements())


@case()
def packed_numbers(x):
    return x + struct.unpack("<i", struct.pack("<i", 3))[0]


@case()
def bound_method_of_a_set(x):
    return x + HAS(2), keyword.iskeyword("for"), "{a}-{b}".format_map({"a": 1, "b": [2]})


def plain(a):
    return a


@case()
def defaults_of_a_function(x):
    return plain(x) + plain.__code__.co_argcount + len(plain.__defaults__ or ()) + len(plain.__kwdefaults__ or ())


@case()
def checks_of_every_kind(x):
    torch._check_type(True)
    try:
        torch._check_value(x.shape[0] > 9, lambda: "too short")
    except ValueError as error:
        return x + 1, str(error)


@case()
def compiled_inside(x):
    return torch.compile(lambda a: a.sin() * 2, backend="eager")(x + 1)


@case()
def filled_with_a_computed_number(x):
    return torch.full((2,), x.sum()) + 1


@case()
def made_by_the_class_of_an_object(x):
    made = KEPT.__new__(type(KEPT))
    made.value = x * 2
    return made.value + 1
