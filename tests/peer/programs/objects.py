"""Objects: attributes, properties, all kinds of classes, and mutations that are replayed."""

# ruff: noqa: B905, PYI024, PLE0643  (programs use what users use)

import abc
import dataclasses
import enum
import functools
import types
import typing

import torch

from tests.peer.program import program

ones, arange = torch.ones, torch.arange
COUNT = 0
TABLE = {"a": 1}
LAST = None


@dataclasses.dataclass
class Config:
    scale: float = 2.0
    shift: torch.Tensor = dataclasses.field(default_factory=lambda: ones(2))
    names: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Fixed:
    k: int
    m: int = 3


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Pair(typing.NamedTuple):
    left: torch.Tensor
    right: int = 5


class Memoised:
    def __init__(self, k):
        self.k = k

    @functools.lru_cache(maxsize=8)
    def scaled(self, n):
        return self.k * n


class Account:
    kind = "plain"
    instances = 0

    def __init__(self, value):
        self.value = value
        self.log = []

    def add(self, x):
        self.value = self.value + x
        self.log.append("add")
        return self

    @property
    def doubled(self):
        return self.value * 2

    @doubled.setter
    def doubled(self, new):
        self.value = new / 2

    @classmethod
    def zero(cls, like):
        return cls(torch.zeros_like(like))

    @staticmethod
    def scaled(x, k):
        return x * k


class Savings(Account):
    kind = "savings"

    def __init__(self, value, rate):
        super().__init__(value)
        self.rate = rate

    def add(self, x):
        return super().add(x * self.rate)


class Vector:
    def __init__(self, items):
        self.items = items

    def __add__(self, other):
        return Vector([a + b for a, b in zip(self.items, other.items)])

    def __radd__(self, other):
        return Vector([a + other for a in self.items])

    def __getitem__(self, index):
        return self.items[index]

    def __setitem__(self, index, value):
        self.items[index] = value

    def __len__(self):
        return len(self.items)

    def __iter__(self):
        return iter(self.items)

    def __contains__(self, item):
        return item in (1, 2)

    def __call__(self, x):
        return x * len(self)

    def __eq__(self, other):
        return len(self) == len(other)

    def __bool__(self):
        return len(self) > 1

    __hash__ = None


class Dynamic:
    def __init__(self):
        self.known = 2

    def __getattr__(self, name):
        if name.startswith("size_"):
            return int(name[5:])
        raise AttributeError(name)


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


@program()
def attributes_are_read():
    account = Account(ones(2))

    def f(x):
        return x * account.value + len(account.kind)

    return f, [(ones(2),)]


@program()
def object_as_an_argument():
    def f(account, x):
        return account.doubled + x, account.kind, account.scaled(x, 3)

    return f, [(Account(ones(2)), ones(2)), (Savings(ones(2), 2), ones(2))]


@program()
def attribute_is_written():
    account = Account(ones(2))

    def f(x):
        account.value = x + 1
        account.fresh = "new"
        return account.value * 2

    return f, [(ones(2),), (ones(2) * 2,)]


@program()
def method_changes_the_object():
    account = Savings(ones(2), 3)

    def f(x):
        return account.add(x).add(x).value

    return f, [(ones(2),), (ones(2),)]


@program()
def property_is_set():
    def f(account, x):
        account.doubled = x + 1
        return account.value

    return f, [(Account(ones(2)), ones(2))]


@program()
def object_is_made_and_returned():
    def f(x):
        account = Account.zero(x)
        account.add(x)
        return account, Savings(x, 2)

    return f, [(ones(2),)]


@program()
def object_is_made_and_dropped():
    def f(x):
        return Vector([x, x + 1])[1] + Account(x).doubled

    return f, [(ones(2),)]


@program()
def operators_of_a_class():
    def f(x):
        v = Vector([x, x * 2])
        w = v + v
        w[0] = x - 1
        total = sum(item for item in w)
        return total, len(w), w(x), 1 in w, v == w, (1 + v).items, x if w else None, [*v]

    return f, [(ones(2),)]


@program()
def attribute_is_deleted():
    def f(account, x):
        del account.log
        return x + 1, hasattr(account, "log")

    return f, [(Account(ones(2)), ones(2))]


@program()
def getattr_hasattr_isinstance():
    def f(account, x):
        if isinstance(account, Savings) and hasattr(account, "rate") and not hasattr(account, "nothing"):
            setattr(account, "seen", True)
            return x * getattr(account, "rate") + getattr(account, "missing", 1)
        return x, type(account) is Account, type(account).__name__, issubclass(Savings, Account), callable(account)

    return f, [(Savings(ones(2), 2), ones(2)), (Account(1), ones(2))]


@program()
def isinstance_of_common_types():
    def f(x, n):
        if (
            isinstance(x, torch.Tensor)
            and isinstance(n, (int, str))
            and not isinstance(n, bool)
            and type(x) is torch.Tensor
        ):
            return x + 1
        return x - 1

    return f, [(ones(2), 3), (ones(2), "s"), (ones(2), 2.5)]


@program()
def dataclass_is_read_and_made():
    def f(config, x):
        local = Config(scale=3.0, names=["a"])
        return x * config.scale + config.shift + local.scale, local, dataclasses.replace(Fixed(1), m=5).m

    return f, [(Config(shift=ones(2)), ones(2)), (Config(scale=4.0), ones(2))]


@program()
def frozen_dataclass_and_equality():
    def f(fixed, x):
        return x * fixed.k if fixed == Fixed(2) else x * fixed.m

    return f, [(Fixed(2), ones(2)), (Fixed(2, 4), ones(2))]


@program()
def named_tuples():
    def f(pair, x):
        left, right = pair
        made = Pair(x + 1)
        return left * right, made, made.right, pair._asdict(), pair._fields

    return f, [(Pair(ones(2)), ones(2)), (Pair(ones(2), 6), ones(2))]


@program()
def enums():
    def f(x, colour):
        if colour is Colour.RED:
            return x + colour.value
        return x - (Colour["BLUE"].value + Level.HIGH), colour.name, colour == Colour.BLUE

    return f, [(ones(2), Colour.RED), (ones(2), Colour.BLUE)]


@program()
def attribute_hook():
    dynamic = Dynamic()

    def f(x):
        return x * dynamic.known + dynamic.size_3

    return f, [(ones(2),)]


@program()
def slots():
    def f(slotted, x):
        slotted.b = x + 1
        return slotted.a * 2

    return f, [(Slotted(3), ones(2))]


@program()
def simple_namespace():
    def f(space, x):
        space.y = x * space.k
        return space.y

    return f, [(types.SimpleNamespace(k=2), ones(2))]


@program()
def abstract_class():
    class Base(abc.ABC):
        @abc.abstractmethod
        def run(self, x): ...

        def twice(self, x):
            return self.run(self.run(x))

    class Derived(Base):
        def run(self, x):
            return x + 1

    derived = Derived()

    def f(x):
        return derived.twice(x)

    return f, [(ones(2),)]


@program()
def class_attribute_is_counted():
    def f(x):
        Account.instances += 1
        return x + 1

    return f, [(ones(2),), lambda compiled: (compiled(ones(2)), Account.instances)]


@program()
def global_is_counted():
    def f(x):
        global COUNT
        COUNT += 1
        return x + COUNT

    return f, [(ones(2),), (ones(2),), (ones(2),)]


@program()
def global_is_replaced_by_a_tensor():
    def f(x):
        global LAST
        LAST = x * 2
        return x + 1

    return f, [(ones(2),)]


@program()
def global_dict_is_changed():
    def f(x):
        TABLE["b"] = TABLE["a"] + 1
        TABLE["t"] = x + 1
        return x * TABLE["b"]

    return f, [(ones(2),)]


@program()
def mutations_keep_their_order():
    def f(xs, d, account, x):
        xs.append(x)
        d["k"] = xs
        account.value = d
        xs.append(x + 1)
        return xs

    return f, [([], {}, Account(1), ones(2))]


@program(torch_differs="2.13 does not guard that two list arguments are different lists")
def mutation_seen_through_an_alias():
    def f(a, b, x):
        a.append(x + 1)
        return len(b)

    def aliased(compiled):
        xs = [1]
        return compiled(xs, xs, ones(2)), xs

    return f, [([1], [1], ones(2)), aliased]


@program()
def cyclic_objects():
    def f(x):
        xs = [x + 1]
        xs.append(xs)
        account = Account(xs)
        account.me = account
        return account

    return f, [(ones(2),)]


@program()
def mutation_then_exception():
    def f(xs, x):
        y = x + 1
        xs.append(y)
        raise RuntimeError("after the append")

    return f, [([], ones(2))]


@program()
def dunder_dict_and_vars():
    def f(space, x):
        return x * len(vars(space)) + space.__dict__["k"]

    return f, [(types.SimpleNamespace(k=2), ones(2))]


@program()
def subclasses_of_containers():
    class Stack(list):
        def top(self):
            return self[-1]

    class Defaults(dict):
        def __missing__(self, key):
            return 7

    def f(stack, d, x):
        stack.append(x + 1)
        return stack.top() * d["no"], len(stack)

    return f, [(Stack([1]), Defaults(), ones(2))]


@program()
def object_made_with_new_and_class_factory():
    def f(x):
        bare = Account.__new__(Account)
        bare.value = x + 1
        return bare.doubled, bare

    return f, [(ones(2),)]


@program()
def only_the_type_is_asked_for():
    def f(x, c):
        if isinstance(c, (str, float, bool)):
            return x + 1
        return x - 1

    return f, [(ones(2), each) for each in ("a", "b", 2.5, 3.5, True, False, None)]


@program()
def type_of_a_value_is_compared():
    def f(x, c):
        return x + 1 if type(c) is str else x - 1

    return f, [(ones(2), each) for each in ("a", "b", 2.5, 3.5, ("a",))]


@program(
    torch_differs="2.13 reads an instance's view of a class attribute that the traced code changed as it was before"
)
def class_attribute_is_counted_twice():
    def f(account, x):
        Account.instances += 1
        Account.instances += 1
        Savings.kind = "changed"
        try:
            return x + Account.instances, account.instances, account.kind, Savings.instances
        finally:
            Savings.kind = "savings"

    return f, [(Savings(ones(2), 2), ones(2)), (Account(ones(2)), ones(2))]


@program()
def dict_of_an_object_is_written():
    def f(account, x):
        members = account.__dict__
        members["fresh"] = x + 1
        account.other = 3
        del members["log"]
        members.update(value=x * 2)
        return account.fresh + members["other"], sorted(members), "log" in vars(account), account.value

    return f, [(Account(ones(2)), ones(2))]


@program()
def attribute_appears_between_calls():
    account = Account(ones(2))

    def f(x):
        return x * getattr(account, "rate", 2) + hasattr(account, "bonus")

    def given(name, value):
        def call(compiled):
            setattr(account, name, value)
            return compiled(ones(2))

        return call

    return f, [(ones(2),), given("rate", 5), given("bonus", 1), given("kind", "shadowed")]


@program()
def class_attribute_is_shadowed_between_calls():
    account = Account(ones(2))

    def f(x):
        return x + len(account.kind)

    def shadowed(compiled):
        account.kind = "of its own"
        return compiled(ones(2))

    return f, [(ones(2),), shadowed]


@program()
def global_is_the_argument():
    XS = [1, 2]  # noqa: N806

    def f(xs, x):
        xs.append(3)
        return x * len(XS)

    return f, [(XS, ones(2)), ([1, 2], ones(2)), (XS, ones(2))]


@program()
def containers_that_contain_themselves():
    def f(x):
        d = {"x": x + 1}
        d["me"] = d
        a, b = [], []
        a.append(b)
        b.append(a)
        a.append(x * 2)

        def again(n):
            return again(n - 1) + 1 if n else 0

        return d, a, again

    def used(compiled):
        d, a, again = compiled(ones(2))
        return d["me"] is d, a[0][0] is a, again(3), d["x"]

    return f, [used]


@program()
def slots_are_unset_and_deleted():
    def f(slotted, x):
        before = hasattr(slotted, "b")
        slotted.b = x + 1
        del slotted.a
        made = Slotted(x * 2)
        return before, hasattr(slotted, "a"), slotted.b + made.a, hasattr(made, "b"), made

    return f, [(Slotted(3), ones(2))]


@program()
def dataclass_with_inheritance_and_post_init():
    @dataclasses.dataclass
    class Base:
        a: int
        b: list = dataclasses.field(default_factory=list)

        def __post_init__(self):
            self.b.append(self.a)

    @dataclasses.dataclass(order=True)
    class Derived(Base):
        c: int = 5

        def __post_init__(self):
            super().__post_init__()
            self.total = self.a + self.c

    def f(x, given):
        made = Derived(2, c=3)
        return x * made.total + len(made.b), made == Derived(2, c=3), made < Derived(3), given == made, made

    return f, [(ones(2), Derived(2, c=3)), (ones(2), Derived(4))]


@program()
def named_tuple_is_replaced_and_compared():
    def f(pair, x):
        other = pair._replace(right=7)
        return other.left + x, other.right, other[0] is pair.left, len(pair), Pair(1, 2) == (1, 2)

    return f, [(Pair(ones(2)), ones(2))]


@program()
def cached_method():
    memoised = Memoised(3)

    def f(x):
        return x * memoised.scaled(2) + Memoised(4).scaled(n=1)

    return f, [(ones(2),), (ones(2),)]
