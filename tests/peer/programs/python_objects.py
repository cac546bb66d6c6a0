"""Python's objects in small programs: attributes, descriptors, metaclasses, operators, dataclasses, enums."""

# ruff: noqa  (programs use what users use, and say it in one line)

import sys

import torch
import functools
import collections
import dataclasses
import enum
import typing
import types
import abc

from tests.peer.program import case, program

ones, arange = torch.ones, torch.arange
LEVEL = 2


def X():
    return torch.arange(4.0) + 1


class Prop:
    def __init__(self, v):
        self._v = v

    @property
    def v(self):
        return self._v

    @v.setter
    def v(self, n):
        self._v = n

    @v.deleter
    def v(self):
        self._v = None


@case()
def property_full(x):
    p = Prop(1)
    p.v = x
    y = p.v + 1
    del p.v
    return y, p.v


@case((Prop(3), X()))
def property_arg(p, x):
    p.v = p.v + 1
    return x + p.v


class Desc:
    def __set_name__(self, o, n):
        self.n = "_" + n

    def __get__(self, o, t=None):
        return self if o is None else getattr(o, self.n, 0)

    def __set__(self, o, v):
        setattr(o, self.n, v * 2)


class HasDesc:
    d = Desc()


@case()
def descriptor(x):
    h = HasDesc()
    h.d = x
    return h.d + 1, HasDesc.d.n


@case((HasDesc(), X()))
def descriptor_arg(h, x):
    h.d = 4
    return x + h.d


class NonData:
    def __get__(self, o, t):
        return 5


class HasNonData:
    nd = NonData()


@case((HasNonData(), X()))
def nondata_desc(h, x):
    a = h.nd
    h.nd = 7
    return x + a + h.nd


class GA:
    def __init__(self):
        self.a = 1

    def __getattr__(self, n):
        if n.startswith("z"):
            return 9
        raise AttributeError(n)


@case((GA(), X()))
def getattr_hook(g, x):
    return x + g.a + g.zed + getattr(g, "q", 3), hasattr(g, "q")


class GAB:
    def __getattribute__(self, n):
        if n == "magic":
            return 8
        return object.__getattribute__(self, n)


@case((GAB(), X()))
def getattribute(g, x):
    g.b = 2
    return x + g.magic + g.b


class SA:
    def __setattr__(self, n, v):
        object.__setattr__(self, n, v + 1)

    def __delattr__(self, n):
        object.__setattr__(self, n, -5)


@case((SA(), X()))
def setattr_hook(g, x):
    g.a = 2
    r = g.a
    del g.a
    return x + r, g.a


class Meta(type):
    def __call__(cls, *a):
        o = super().__call__(*a)
        o.meta = 3
        return o

    def __getitem__(cls, k):
        return k + 1

    def __len__(cls):
        return 4

    def __iter__(cls):
        return iter([1, 2])

    def __contains__(cls, k):
        return k == 1

    @property
    def mp(cls):
        return 6

    def mm(cls):
        return cls.__name__


class WM(metaclass=Meta):
    def __init__(self, a):
        self.a = a


@case()
def metaclass_item(x):
    return x + WM[3]


@case()
def metaclass_proto(x):
    return x + len(WM), list(WM), 1 in WM, 3 in WM


@case()
def metaclass_prop(x):
    return x + WM.mp, WM.mm()


class Op:
    def __init__(self, v):
        self.v = v

    def __add__(self, o):
        return Op(self.v + (o.v if isinstance(o, Op) else o))

    __radd__ = __add__

    def __sub__(self, o):
        return NotImplemented

    def __rsub__(self, o):
        return Op(o - self.v)

    def __mul__(self, o):
        return Op(self.v * o)

    def __iadd__(self, o):
        self.v = self.v + o
        return self

    def __neg__(self):
        return Op(-self.v)

    def __pos__(self):
        return self

    def __invert__(self):
        return 3

    def __abs__(self):
        return abs(self.v)

    def __matmul__(self, o):
        return 11

    def __rmatmul__(self, o):
        return 12

    def __floordiv__(self, o):
        return 1

    def __mod__(self, o):
        return 2

    def __divmod__(self, o):
        return (3, 4)

    def __rdivmod__(self, o):
        return (5, 6)

    def __pow__(self, o, m=None):
        return (o, m)

    def __lshift__(self, o):
        return 20

    def __rrshift__(self, o):
        return 21

    def __and__(self, o):
        return 22

    def __ror__(self, o):
        return 23

    def __xor__(self, o):
        return 24

    def __eq__(self, o):
        return isinstance(o, Op) and o.v is self.v

    def __hash__(self):
        return 5

    def __lt__(self, o):
        return True

    def __le__(self, o):
        return False

    def __bool__(self):
        return False

    def __len__(self):
        return 3

    def __contains__(self, k):
        return k == 2

    def __iter__(self):
        yield 1
        yield 2

    def __getitem__(self, k):
        return k

    def __call__(self, *a, **k):
        return len(a) + len(k)

    def __format__(self, spec):
        return "<" + spec + ">"

    def __index__(self):
        return 2

    def __int__(self):
        return 7

    def __float__(self):
        return 7.5

    def __complex__(self):
        return 1j

    def __round__(self, n=None):
        return 13 if n is None else n

    def __floor__(self):
        return 14

    def __ceil__(self):
        return 15

    def __trunc__(self):
        return 16

    def __str__(self):
        return "op"

    def __repr__(self):
        return "Op()"

    def __reversed__(self):
        return iter([9, 8])

    def __bytes__(self):
        return b"q"

    def __length_hint__(self):
        return 2

    def __dir__(self):
        return ["x"]


@case()
def op_inplace(x):
    a = Op(x)
    b = a
    a += 1
    return a.v, a is b


@case()
def op_unsupported(x):
    try:
        Op(1) - 2
    except TypeError as e:
        return x + 1, str(e)


@case()
def op_container(x):
    a = Op(1)
    return (
        x + len(a),
        bool(a),
        2 in a,
        3 in a,
        list(a),
        a[5],
        a[1:2],
        a(1, 2, k=3),
        sorted(a),
        tuple(a),
        max(a),
        list(reversed(a)),
    )


class Missing(dict):
    def __missing__(self, k):
        return k + "!"


@case()
def dict_missing(x):
    m = Missing(a=1)
    return x + m["a"], m["b"], m.get("b"), len(m)


class Sub:
    subs = []

    def __init_subclass__(cls, tag=None, **kw):
        super().__init_subclass__(**kw)
        cls.tag = tag
        Sub.subs.append(cls.__name__)

    def __class_getitem__(cls, k):
        return (cls.__name__, k)


class SubA(Sub, tag=4):
    pass


@case()
def init_subclass(x):
    return x + SubA.tag, Sub[int], SubA[3], Sub.subs


class MA:
    def m(self):
        return ["MA"]


class MB(MA):
    def m(self):
        return ["MB"] + super().m()


class MC(MA):
    def m(self):
        return ["MC"] + super().m()


class MD(MB, MC):
    def m(self):
        return ["MD"] + super().m()

    @classmethod
    def cm(cls):
        return cls.__name__

    @staticmethod
    def sm(a):
        return a + 1


@case((MD(), X()))
def diamond(d, x):
    return MD.sm(x), d.m(), d.cm(), MD.cm(), d.sm(3), MD.m(d), [c.__name__ for c in MD.__mro__], super(MB, d).m()


@dataclasses.dataclass(frozen=True)
class Fz:
    a: int
    b: typing.Any = None


@dataclasses.dataclass(slots=True)
class DS:
    a: typing.Any
    b: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class DP:
    a: int
    c: dataclasses.InitVar[int] = 3

    def __post_init__(self, c):
        self.d = self.a + c


@case()
def dc_frozen(x):
    f = Fz(1, x)
    try:
        f.a = 3
    except dataclasses.FrozenInstanceError as e:
        return f.b + f.a, str(e)


@case()
def dc_slots(x):
    d = DS(x)
    d.b.append(2)
    d.a = d.a + 1
    return d.a, d.b, d


@case()
def dc_post(x):
    d = DP(1, c=4)
    return x + d.d


@case()
def dc_functions(x):
    f = Fz(1, 2)
    return (
        x + 1,
        dataclasses.replace(f, a=4).a,
        dataclasses.asdict(f),
        dataclasses.astuple(f),
        [q.name for q in dataclasses.fields(f)],
        dataclasses.is_dataclass(f),
    )


@case((Fz(2, ones(2)), X()), (Fz(3, ones(2)), X()))
def dc_arg(f, x):
    return x * f.a, f.b + 1


class Col(enum.Enum):
    R = 1
    G = 2

    @property
    def twice(self):
        return self.value * 2

    @classmethod
    def default(cls):
        return cls.G


class Fl(enum.Flag):
    A = 1
    B = 2
    C = 4


@case()
def enum_lookup(x):
    return (
        x + Col["G"].value + Col(1).value,
        [m.name for m in Col],
        len(Col),
        Col.default().name,
        Col.R == Col.R,
        Col.R in Col,
        list(Col.__members__),
    )


@case()
def enum_flags(x):
    f = Fl.A | Fl.B
    return x + f.value, bool(f & Fl.C), Fl.A in f, (~Fl.A).value, f == Fl.A | Fl.B, (f ^ Fl.A).name, [m.name for m in f]


class Cached:
    n = 0

    @functools.cached_property
    def cp(self):
        self.n += 1
        return 5


@case((Cached(), X()))
def cached_prop(c, x):
    return x + c.cp + c.cp, c.n


@case()
def cached_prop_new(x):
    c = Cached()
    return x + c.cp + c.cp, c.n


class ListSub(list):
    def first(self):
        return self[0]


class TupSub(tuple):
    def first(self):
        return self[0]


class IntSub(int):
    def dbl(self):
        return self * 2


class StrSub(str):
    def sh(self):
        return self + "!"


class SetSub(set):
    def has(self, k):
        return k in self


@case()
def sub_containers(x):
    l = ListSub([1, 2])
    l.append(3)
    t = TupSub((4, 5))
    s = SetSub([1])
    s.add(2)
    return x + l.first() + t.first(), len(l), l[1:], t[1], s.has(2), list(l), l == [1, 2, 3], [*t]


@case((IntSub(3), StrSub("q"), X()))
def sub_scalars_arg(i, s, x):
    return x + i.dbl(), s.sh(), i + 1


class WithNew:
    def __new__(cls, a):
        o = super().__new__(cls)
        o.tag = a
        return o

    def __init__(self, a):
        self.a = a


@case()
def with_new(x):
    w = WithNew(3)
    return x + w.tag + w.a


class Singleton:
    inst = None

    def __new__(cls):
        if cls.inst is None:
            cls.inst = super().__new__(cls)
            cls.inst.n = 0
        cls.inst.n += 1
        return cls.inst


@case((X(),), (X(),))
def singleton(x):
    a, b = Singleton(), Singleton()
    return x + a.n, a is b


@case()
def obj_dict(x):
    p = Prop(3)
    p.q = 4
    p.__dict__["r"] = 5
    return x + p.r, sorted(p.__dict__), vars(p) == {"_v": 3, "q": 4, "r": 5}


@case((Prop(3), X()), torch_differs="the dict of an object comes in another order")
def obj_dict_arg(p, x):
    p.__dict__.update(k=4)
    return x + p.k, list(vars(p).items())


@case((types.SimpleNamespace(a=2, t=X()),))
def simple_namespace_arg(n):
    n.c = n.t + n.a
    return n.c * 2


@case()
def bound_method_value(x):
    p = MD()
    m = p.m
    return x + len(m()), m.__self__ is p, m.__func__ is MD.m, m.__name__, m == p.m


@case()
def callable_obj(x):
    return x + 1, callable(Op(1)), callable(3), callable(MD), callable(len), callable(MD().m)


@case()
def isinstance_many(x):
    return (
        x + 1,
        isinstance(x, torch.Tensor),
        isinstance(3, (int, str)),
        isinstance(True, int),
        isinstance([], collections.abc.Sequence),
        isinstance({}, typing.Mapping),
        isinstance(3, int | str),
        issubclass(bool, int),
        type(x) is torch.Tensor,
        type(3) == int,
    )


@case((Prop(1), Prop(1), X()))
def object_identity_args(a, b, x):
    return x + 1, a is b, a == b, a in [b], a is not b


@case()
def iter_class(x):
    class It:
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            return self

        def __next__(self):
            if self.n == 0:
                raise StopIteration
            self.n -= 1
            return self.n

    return x + sum(It(3)), list(It(2)), [a for a in It(2)], dict(zip(It(2), It(2)))


class ItC:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if self.n == 0:
            raise StopIteration
        self.n -= 1
        return self.n


@case((ItC(4), X()))
def iter_class_arg(it, x):
    a = next(it)
    return x + a + sum(it), it.n


@case()
def getitem_iter(x):
    class S:
        def __getitem__(self, i):
            if i > 2:
                raise IndexError
            return i * 2

    return x + sum(S()), 4 in S(), list(S()), list(enumerate(S()))


class TD(typing.TypedDict):
    a: int


class NT(typing.NamedTuple):
    a: typing.Any
    b: int = 3

    def s(self):
        return self.a + self.b

    @property
    def p(self):
        return self.b * 2


@case()
def typed_dict_nt(x):
    t = TD(a=3)
    n = NT(x)
    a, b = n
    return (
        n.s(),
        t["a"],
        n.p,
        n._replace(b=5),
        n._asdict(),
        NT._fields,
        NT._make([1, 2]),
        n[1],
        len(n),
        n == (x, 3) if False else 0,
        isinstance(n, tuple),
    )


@typing.runtime_checkable
class Proto(typing.Protocol):
    def m(self): ...


@case()
def protocol(x):
    return x + 1, isinstance(MD(), Proto), isinstance(3, Proto)


# -- one object with two names, and changes between calls ------------------------------------------


def counting():
    n = 1

    def inc():
        nonlocal n
        n += 1

    def get():
        return n

    return inc, get


@program(torch_differs="torch does not see that two functions share a cell, or no longer do")
def cells_are_shared_and_then_not():
    def f(inc, get, x):
        inc()
        return x + get()

    first, second = counting(), counting()
    return f, [(*first, torch.ones(2)), (counting()[0], counting()[1], torch.ones(2)), (*second, torch.ones(2))]


@program(torch_differs="torch reads the old value")
def module_attribute_is_the_global():
    module = sys.modules[__name__]

    def f(x):
        module.LEVEL = 5
        return x + LEVEL

    return f, [(torch.ones(2),)]


@program(torch_differs="torch reads the old value")
def global_is_the_module_attribute():
    module = sys.modules[__name__]

    def f(x):
        global LEVEL
        LEVEL = 7
        return x + module.LEVEL

    return f, [(torch.ones(2),)]


@program()
def enum_member_attribute_changes():
    class Size(enum.Enum):
        SMALL = 1

        def __init__(self, value):
            self.extra = value

    def f(size, x):
        return x + size.extra

    def later(compiled):
        Size.SMALL.extra = 50
        return compiled(Size.SMALL, torch.ones(2))

    return f, [(Size.SMALL, torch.ones(2)), later]


@program()
def cycles_live_on_over_a_break():
    def f(x):
        items = [x + 1]
        items.append(items)
        table = {"t": x + 2}
        table["self"] = table
        print("between")
        return items[1][0] * 2, items[1] is items, table["self"]["self"]["t"]

    return f, [(torch.ones(2),)]


@program()
def iterator_outlives_its_list():
    def f(items, x):
        iterator = iter(items)
        next(iterator)
        del items
        y = x + 1
        print("between")
        return y + next(iterator), list(iterator)

    return f, [([1, 2, 3, 4], torch.ones(2))]


import threading

LOCAL = threading.local()
LOCAL.scale, LOCAL.names = 2, ["a"]


class Settings(threading.local):
    shift = 7

    def __init__(self):
        self.scale = 5

    def total(self):
        return self.scale + self.shift


class Audited(threading.local):
    def __setattr__(self, n, v):
        super().__setattr__(n, v + 1)

    def __getattr__(self, n):
        if n.startswith("z"):
            return 9
        raise AttributeError(n)


@case()
def attribute_of_a_thread_local(x):
    return x * LOCAL.scale, hasattr(LOCAL, "absent"), getattr(LOCAL, "absent", 3)


@case()
def thread_local_is_changed(x):
    LOCAL.names.append("b")
    LOCAL.last = x + 1
    return LOCAL.last * len(LOCAL.names), sorted(LOCAL.__dict__)


@case((Settings(), X()), torch_differs="what is stored in a thread's local is lost")
def subclass_of_thread_local(s, x):
    s.scale = s.scale + 1
    s.extra = 3
    return x + s.total() + s.extra


@case((Settings(), X()), (Settings(), X()))
def method_of_a_thread_local(s, x):
    return x + s.total(), vars(s)


@case((Audited(), X()), torch_differs="a __setattr__ that stores another value is passed over")
def thread_local_with_its_own_setattr(s, x):
    s.a = 2
    return x + s.a + s.zed, hasattr(s, "b")


@case()
def absent_attribute_of_a_thread_local(x):
    try:
        return x + LOCAL.absent
    except AttributeError as error:
        return x - 1, type(error).__name__


@case()
def thread_local_made_inside(x):
    made = threading.local()
    made.a = 4
    return x.sin() + made.a


class Logged:
    def __init__(self):
        self.deleted = []

    def __delattr__(self, name):
        self.deleted.append(name)
        object.__delattr__(self, name)


class LoggedModule(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.k, self.deleted = 3, []

    def __delattr__(self, name):
        self.deleted.append(name)
        super().__delattr__(name)


@program()
def delattr_is_traced_once():
    def f(g, x):
        x = x + g.k
        del g.k
        return x, g.deleted, hasattr(g, "k")

    def made():
        g = Logged()
        g.k = 2
        return g

    return f, [(made(), X()), (made(), X())]


@program(torch_differs="the __delattr__ of a module runs once more after the graph")
def delattr_of_a_module_is_traced_once():
    def f(g, x):
        x = x + g.k
        del g.k
        return x, g.deleted, hasattr(g, "k")

    return f, [(LoggedModule(), X()), (LoggedModule(), X())]


class Doubled(dict):
    def __setitem__(self, key, value):
        dict.__setitem__(self, key, value * 2)


class Fives(Doubled):
    @classmethod
    def fromkeys(cls, keys):
        return super().fromkeys(keys, 5)


@case()
def fromkeys_of_subclasses(x):
    default = collections.defaultdict.fromkeys("ab", 3)
    ordered = collections.OrderedDict.fromkeys("ab", x)
    return x + default["a"] + ordered["b"], list(ordered), len(default)


@case(torch_differs="2.13 calls dict.__setitem__ for a subclass's own")
def fromkeys_through_super_and_instances(x):
    make = dict.fromkeys
    return x * Fives.fromkeys("q")["q"] + Doubled().fromkeys("z", 1)["z"], {}.fromkeys("ab"), make("ab", 2)
