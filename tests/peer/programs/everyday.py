"""Python's standard library and torch's, together in small programs like those of applications."""

# ruff: noqa  (programs use what users use, and say it in one line)

import abc
import bisect
import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import heapq
import inspect
import itertools
import math
import numbers
import operator
import statistics
import string
import textwrap
import types
import typing
import weakref

import numpy as np
import torch
import torch.nn.functional as F
import torch.utils._pytree as pytree
from torch import nn

from tests.peer.program import case, program

ones = torch.ones


def X():
    return torch.arange(4.0) + 1


def M():
    return torch.arange(12.0).reshape(3, 4) / 7


# -- registries, plug-ins, configuration -------------------------------------------------


class Registry:
    def __init__(self):
        self.known = {}

    def register(self, name=None):
        def add(function):
            self.known[name or function.__name__] = function
            return function

        return add

    def __getitem__(self, name):
        try:
            return self.known[name]
        except KeyError:
            raise LookupError(f"no {name!r}; known are {sorted(self.known)}") from None


ACTIVATIONS = Registry()


@ACTIVATIONS.register()
def squared(x):
    return x.relu() ** 2


@ACTIVATIONS.register("swish")
def _swish(x):
    return x * x.sigmoid()


@case((X(), "squared"), (X(), "swish"), (X(), "missing"))
def registry_of_functions(x, name):
    try:
        return ACTIVATIONS[name](x)
    except LookupError as error:
        return x, str(error)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    width: int = 4
    scales: tuple = (1.0, 2.0)
    name: str = dataclasses.field(default="s", compare=False)

    def wider(self, **changes):
        return dataclasses.replace(self, width=self.width * 2, **changes)


@case((X(), Settings()), (X(), Settings(width=3)), (X(), Settings(width=3, name="t")))
def settings_are_replaced(x, settings):
    wide = settings.wider(scales=(3.0,))
    return x * wide.width + sum(wide.scales), wide == settings, dataclasses.asdict(wide)["name"]


@case()
def fields_of_a_data_class_are_listed(x):
    made = Settings(width=2)
    values = {each.name: getattr(made, each.name) for each in dataclasses.fields(made)}
    return x * values["width"], list(values), dataclasses.is_dataclass(made), dataclasses.astuple(made)


class Reduction(enum.StrEnum):
    MEAN = enum.auto()
    SUM = enum.auto()

    def __call__(self, x):
        return getattr(torch, self.value)(x)


@case((X(), "mean"), (X(), "sum"))
def enumeration_from_a_text(x, name):
    try:
        kind = Reduction(name)
    except ValueError:
        return x
    return kind(x), kind.name, kind is Reduction.MEAN, [each.value for each in Reduction]


class Options(enum.Flag):
    NONE = 0
    CENTER = enum.auto()
    SCALE = enum.auto()
    BOTH = CENTER | SCALE


@case((X(), Options.BOTH), (X(), Options.CENTER), (X(), Options.NONE))
def flags_decide(x, options):
    if Options.CENTER in options:
        x = x - x.mean()
    if options & Options.SCALE:
        x = x / x.std()
    return x, bool(options), options == Options.BOTH


# -- objects -----------------------------------------------------------------------------


class Lazy:
    """A descriptor that computes its value once."""

    def __init__(self, function):
        self.function = function

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        value = instance.__dict__[self.name] = self.function(instance)
        return value


class Kernel:
    def __init__(self, n):
        self.n, self.asked = n, 0

    @Lazy
    def window(self):
        self.asked += 1
        return torch.hann_window(self.n)


@case((X(), Kernel(4)), (X(), Kernel(4)))
def descriptor_computes_once(x, kernel):
    return x * kernel.window + kernel.window, kernel.asked


class Node:
    def __init__(self, value, parent=None):
        self.value = value
        self.children = []
        self._parent = weakref.ref(parent) if parent is not None else None
        if parent is not None:
            parent.children.append(self)

    @property
    def parent(self):
        return self._parent() if self._parent is not None else None

    def __iter__(self):
        yield self
        for child in self.children:
            yield from child


@case()
def tree_with_weak_parents(x):
    root = Node(x)
    left = Node(x + 1, root)
    Node(x + 2, left)
    return sum(each.value for each in root), left.parent is root, root.parent


@case()
def weak_dictionary_in_the_region(x):
    class Key:
        pass

    key = Key()
    known = weakref.WeakKeyDictionary()
    known[key] = x + 1
    return known[key] * 2, len(known), key in known


class Vector:
    __slots__ = ("parts",)

    def __init__(self, *parts):
        self.parts = parts

    def __add__(self, other):
        return Vector(*(a + b for a, b in zip(self.parts, other.parts, strict=True)))

    def __radd__(self, other):
        return self if other == 0 else NotImplemented

    def __mul__(self, k):
        return Vector(*(part * k for part in self.parts))

    __rmul__ = __mul__

    def __matmul__(self, other):
        return sum(a * b for a, b in zip(self.parts, other.parts))

    def __neg__(self):
        return self * -1

    def __abs__(self):
        return (self @ self) ** 0.5

    def __len__(self):
        return len(self.parts)

    def __getitem__(self, key):
        return Vector(*self.parts[key]) if isinstance(key, slice) else self.parts[key]

    def __eq__(self, other):
        return isinstance(other, Vector) and len(self) == len(other)

    def __hash__(self):
        return hash(len(self.parts))


@case()
def vectors_of_tensors(x):
    v, w = Vector(x, x + 1), Vector(x * 2, x)
    total = sum([v, w, 2 * v])
    return abs(-total), v @ w, total[0], len(total[:1]), v == w, {v: 1}[w]


class Shape(abc.ABC):
    kinds: typing.ClassVar[dict] = {}

    def __init_subclass__(cls, kind=None, **rest):
        super().__init_subclass__(**rest)
        Shape.kinds[kind or cls.__name__.lower()] = cls

    @abc.abstractmethod
    def area(self): ...

    @classmethod
    def make(cls, kind, *args):
        return cls.kinds[kind](*args)


class Square(Shape):
    def __init__(self, side):
        self.side = side

    def area(self):
        return self.side**2


class Disc(Shape, kind="round"):
    def __init__(self, r):
        self.r = r

    def area(self):
        return math.pi * self.r**2


@case((X(), "square"), (X(), "round"))
def factory_of_subclasses(x, kind):
    made = Shape.make(kind, x)
    return made.area(), isinstance(made, Shape), type(made).__name__


@case()
def abstract_class_is_not_made(x):
    try:
        Shape()
    except TypeError as error:
        return x + 1, "abstract" in str(error)


class Ordered:
    def __init__(self, k):
        self.k = k

    def __lt__(self, other):
        return self.k < other.k

    def __eq__(self, other):
        return self.k == other.k


Ordered = functools.total_ordering(Ordered)


@case()
def objects_are_sorted(x):
    made = [Ordered(3), Ordered(1), Ordered(2)]
    first, *_, last = sorted(made)
    return x * last.k + first.k, min(made).k, made[0] >= made[1], max(made, key=lambda o: -o.k).k


class Chain:
    def __init__(self, x):
        self.x = x

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)

        def apply(*args, **kwargs):
            return Chain(getattr(torch, name)(self.x, *args, **kwargs))

        return apply


@case()
def fluent_calls(x):
    made = Chain(x).sin().add(1).clamp(min=0.5)
    return made.x, hasattr(made, "_private"), hasattr(made, "anything")


class Recorder:
    def __init__(self):
        self.events = []

    @contextlib.contextmanager
    def span(self, name):
        self.events.append(("begin", name))
        try:
            yield len(self.events)
        except ZeroDivisionError:
            self.events.append(("failed", name))
        finally:
            self.events.append(("end", name))


@program()
def spans_around_code():
    def f(x, recorder):
        with recorder.span("a") as n, recorder.span("b"):
            x = x * n
            1 / (x.dim() - 1)
            x = x + 100
        return x, recorder.events

    return f, [(X(), Recorder()), (M(), Recorder())]


@case()
def exit_stack_unwinds(x):
    log = []
    with contextlib.ExitStack() as stack:
        for k in range(3):
            stack.callback(log.append, k)
        stack.enter_context(contextlib.nullcontext(5))
        stack.push(lambda *error: log.append("pushed"))
        y = x + len(log)
    return y * 2, log


@case()
def suppressing_and_closing(x):
    class Thing:
        closed = False

        def close(self):
            self.closed = True

    thing = Thing()
    with contextlib.suppress(KeyError, IndexError), contextlib.closing(thing):
        x = x + 1
        [][3]
    return x * 2, thing.closed


# -- the library: iteration, order, text -------------------------------------------------


@case()
def heaps_and_bisection(x):
    heap = [5, 1, 4]
    heapq.heapify(heap)
    heapq.heappush(heap, 0)
    place = bisect.bisect_left([1, 3, 5], heap[-1])
    return x * heapq.heappop(heap) + place, heapq.nlargest(2, heap), heap


@case()
def counting_and_grouping(x):
    words = "a bb a ccc bb a".split()
    counts = collections.Counter(words)
    groups = {k: list(g) for k, g in itertools.groupby(sorted(words, key=len), key=len)}
    total = counts + collections.Counter(a=1)
    return x * counts["a"] + total.total(), counts.most_common(1), groups, list((counts - total).elements())


@case()
def chained_maps(x):
    defaults, given = {"k": 2, "b": 1}, {"k": 3}
    both = collections.ChainMap(given, defaults)
    inner = both.new_child({"b": x})
    return inner["b"] * both["k"], len(inner), sorted(both), inner.get("zz", 7)


@case()
def windows_of_items(x):
    parts = [x + k for k in range(4)]
    pairs = [a * b for a, b in itertools.pairwise(parts)]
    batches = list(itertools.zip_longest(*[iter(parts)] * 3, fillvalue=None))
    return (
        sum(pairs),
        [sum(p is not None for p in b) for b in batches],
        list(itertools.accumulate([1, 2, 3], operator.mul)),
    )


@case()
def products_and_permutations(x):
    total = x * 0
    for (a, b), c in zip(itertools.product((1, 2), (3, 4)), itertools.cycle("xy")):
        total = total + (a * b if c == "x" else -a)
    return total, len(list(itertools.permutations(range(3)))), list(itertools.combinations("abc", 2))[-1]


@case()
def islices_takewhile_and_tee(x):
    first, second = itertools.tee(itertools.count(2, 3))
    taken = list(itertools.takewhile(lambda k: k < 12, first))
    rest = list(itertools.islice(second, 1, 5, 2))
    return (
        x * sum(taken) - sum(rest),
        list(itertools.dropwhile(lambda k: k < 3, [1, 3, 2])),
        list(itertools.compress("abc", [1, 0, 1])),
    )


@case()
def statistics_of_numbers(x):
    data = [1.0, 2.0, 4.0]
    return x * statistics.mean(data) + statistics.median(data), math.prod(data), math.isclose(math.fsum(data), 7.0)


@case((X(), 3), (X(), 12), (X(), 5))
def numbers_in_texts(x, n):
    label = f"{n:>5d}|{n:05}|{n / 7:.3f}|{n:#x}|{n!r:^7}|{1234567:,}|{0.25:.1%}"
    return x + n, label, "{:<4}{name:>{w}}".format(n, name="ab", w=6), "%03d %-5s|" % (n, "x")


@case()
def texts_are_taken_apart(x):
    head, _, tail = "layer.12.weight".partition(".")
    number, name = tail.split(".", 1)
    table = str.maketrans("wt", "WT")
    return (
        x * int(number),
        head.upper(),
        name.translate(table),
        "-".join(reversed(name)),
        name.removesuffix("ght"),
        "a,b;c".replace(";", ",").split(","),
    )


@case()
def templates_and_paragraphs(x):
    text = string.Template("$a and ${b}").substitute(a=1, b="two")
    return x + len(text), textwrap.dedent("  a\n   b"), textwrap.shorten("hello world again", 12)


@case()
def simple_namespaces(x):
    made = types.SimpleNamespace(k=2, y=x)
    made.z = made.y * made.k
    return made.z, vars(made)["k"], hasattr(made, "missing")


@case(torch_differs="torch lets the mapping behind a window be changed through it")
def mapping_proxies(x):
    fixed = types.MappingProxyType({"k": 3})
    try:
        fixed["k"] = 4
    except TypeError:
        x = x + 1
    return x * fixed["k"], list(fixed.items())


@case()
def getters_of_operator(x):
    pick = operator.itemgetter(1, 0)
    shape = operator.attrgetter("shape", "dtype")(x)
    call = operator.methodcaller("clamp", min=2)
    return call(x), pick([x, 5])[0], shape[0][0], functools.reduce(operator.or_, [{1}, {2}])


# -- functions ---------------------------------------------------------------------------


def typed(function):
    signature = inspect.signature(function)

    @functools.wraps(function)
    def checked(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            expected = function.__annotations__.get(name)
            if expected is not None and not isinstance(value, expected):
                raise TypeError(f"{name} is no {expected.__name__}")
        return function(*bound.args, **bound.kwargs)

    return checked


@typed
def scaled(x: torch.Tensor, k: int = 2, *, shift: float = 0.5):
    return x * k + shift


@case((X(), 3), (X(), 4), (X(), "a"))
def arguments_are_checked_by_signature(x, k):
    try:
        return scaled(x, k) + scaled(x, shift=1.0), scaled.__name__
    except TypeError as error:
        return x, str(error)


def retried(times):
    def around(function):
        @functools.wraps(function)
        def tried(*args):
            for attempt in range(times):
                try:
                    return function(*args, attempt=attempt)
                except ArithmeticError as error:
                    last = error
            raise RuntimeError("gave up") from last

        return tried

    return around


@retried(3)
def fragile(x, k, attempt):
    if attempt < k:
        raise OverflowError(attempt)
    return x + attempt


@case((X(), 0), (X(), 2), (X(), 9))
def calls_are_retried(x, k):
    try:
        return fragile(x, k)
    except RuntimeError as error:
        return x, repr(error.__cause__)


class Memo:
    def __init__(self, function):
        functools.update_wrapper(self, function)
        self.function, self.known = function, {}

    def __call__(self, n):
        if n not in self.known:
            self.known[n] = self.function(n)
        return self.known[n]

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)


@program()
def memo_of_numbers():
    @Memo
    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    def f(x, n):
        return x + fib(n), len(fib.known), fib.__name__

    return f, [(X(), 6), (X(), 8)]


@functools.singledispatch
def describe(value, scale):
    raise NotImplementedError(type(value))


@describe.register
def _(value: torch.Tensor, scale):
    return value * scale


@describe.register(list)
@describe.register(tuple)
def _(value, scale):
    return type(value)(describe(each, scale) for each in value)


@describe.register
def _(value: dict, scale):
    return {key: describe(each, scale) for key, each in value.items()}


@case(({"a": [X(), (X(),)], "b": X()},))
def dispatch_on_the_kind_of_a_value(tree):
    return describe(tree, 3)


class Formats:
    @functools.singledispatchmethod
    def show(self, value):
        return "?"

    @show.register
    def _(self, value: int):
        return value + 1

    @show.register
    def _(self, value: torch.Tensor):
        return value + 2


@case()
def dispatching_methods(x):
    made = Formats()
    return made.show(x), made.show(3), made.show("a")


@case()
def composed_functions(x):
    compose = lambda *fs: functools.reduce(lambda f, g: lambda x: g(f(x)), fs)
    f = compose(torch.sin, functools.partial(torch.mul, other=3), lambda y: y.clamp(-1, 1))
    return f(x)


@case()
def closures_in_a_loop(x):
    late = [lambda y: y * k for k in range(3)]
    early = [lambda y, k=k: y * k for k in range(3)]
    return sum(f(x) for f in late), sum(f(x) for f in early)


@case()
def generators_as_pipelines(x):
    def source(n):
        for k in range(n):
            yield x + k

    def smooth(items, weight=0.5):
        state = None
        for item in items:
            state = item if state is None else weight * state + (1 - weight) * item
            yield state

    return list(smooth(each * 2 for each in source(3)))


@case()
def accumulating_generator(x):
    def running():
        total, n = 0.0, 0
        while True:
            value = yield total / max(n, 1)
            total, n = total + value, n + 1

    mean = running()
    next(mean)
    return [mean.send(x + k) for k in range(3)][-1]


# -- tensors and numpy -------------------------------------------------------------------


@case((M(), 1, 3), (M(), 0, 2), (M(), 1, 4))
def slices_with_bounds_from_arguments(x, a, b):
    return x[:, a:b] + 1, x[..., -b:], x[::2, slice(a, None)].sum(), x[:, a:b].shape[1]


@case((M(), 2), (M(), 3), (M(), 1))
def sizes_are_computed_with(x, k):
    n, m = x.shape
    return x.reshape(m // 2, -1)[: m // k], F.pad(x, (0, k)).shape, (n * m) % k, x.new_zeros(n + k, m).size()


@case(
    (torch.randn(5, 3, generator=torch.Generator().manual_seed(0)),),
    (torch.randn(7, 3, generator=torch.Generator().manual_seed(1)),),
    (torch.randn(9, 3, generator=torch.Generator().manual_seed(2)),),
)
def batches_of_different_sizes(x):
    half = x.shape[0] // 2
    a, b = x[:half], x[half : 2 * half]
    return torch.cat([a, b], 1), a.shape, x.unfold(0, 2, 1).size(0), torch.arange(x.size(0))[-1]


@case()
def complex_numbers_inside(x):
    z = torch.complex(x, x + 1)
    w = z * (2 + 1j) + 1j
    return w.real, w.imag, abs(3 + 4j) * x, torch.view_as_real(w.conj()).sum(), complex("1+2j").conjugate()


@case(((M() * 7).numpy(),), ((M() * 7).numpy() + 1,))
def arrays_in_a_region(a):
    b = np.where(a > 1, a, -a)
    c = np.concatenate([b, a[::1] * 2], axis=0)
    return c, b.max(axis=0), np.cumsum(a, 1)[-1], a.T[1], np.stack([a, b]).shape, a.astype(np.int64)


@case((X(),))
def tensor_to_array_and_back(x):
    a = x.numpy() * 2
    a = np.concatenate([a, np.zeros(2, dtype=a.dtype)])
    return torch.from_numpy(a) + 1, a.sum(), np.argsort(-a)


@case((M(),))
def indexing_in_every_way(x):
    rows = torch.tensor([2, 0])
    y = x.clone()
    y[rows, 1] = -1
    y[y > 1] = 0
    y[None, ..., -1] += 3
    return y, x[rows][:, [0, 2]], x[[True, False, True]], x[1, ...], x[:, None].shape, y.index_select(1, rows)


@case((M(),))
def einops_in_small(x):
    def rearrange(t, pattern, **sizes):
        left, right = (side.split() for side in pattern.split("->"))
        order = [left.index(each) for each in right if each in left]
        return t.permute(order)

    return rearrange(x, "h w -> w h") + 1, rearrange(x.unsqueeze(0), "b h w -> w b h").shape


# -- modules -----------------------------------------------------------------------------


class Block(nn.Module):
    def __init__(self, n, depth=2):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(n, n) for _ in range(depth))
        self.gates = nn.ParameterDict({"a": nn.Parameter(torch.ones(n)), "b": nn.Parameter(torch.zeros(n))})
        self.register_buffer("calls", torch.zeros(()), persistent=False)
        with torch.no_grad():
            for k, p in enumerate(self.parameters()):
                p.copy_(torch.linspace(-1, 1, p.numel()).reshape(p.shape) / (k + 1))

    def forward(self, x, *, skip=()):
        self.calls += 1
        for k, layer in enumerate(self.layers):
            if k in skip:
                continue
            x = x + self.gates["a"] * layer(x).tanh() + self.gates["b"]
        return x


@program()
def module_with_everything():
    block = Block(4)

    def f(x):
        return block(x), block(x, skip={1}), block.calls, sum(p.numel() for p in block.parameters())

    return f, [(M(),), (M(),)]


@program()
def module_is_copied_and_changed():
    block = Block(4, 1)

    def f(x):
        total = 0
        for name, parameter in block.named_parameters():
            if "weight" in name:
                total = total + parameter.square().sum()
        return block(x).sum() + total, [name for name, _ in block.named_children()], "gates.a" in block.state_dict()

    return f, [(M(),)]


class Adapter(nn.Module):
    """A wrapper of a module that passes unknown attributes on to it."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner
        self.extra = nn.Linear(4, 4)
        nn.init.constant_(self.extra.weight, 0.25)
        nn.init.zeros_(self.extra.bias)

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.inner, name)

    def forward(self, x):
        return self.inner(x) + self.extra(x) * self.gates["a"]


@program()
def adapter_passes_attributes_on():
    adapter = Adapter(Block(4))

    def f(x):
        return adapter(x), len(adapter.layers)

    return f, [(M(),), (M(),)]


@program()
def hooks_of_every_kind():
    block = Block(4, 1)
    seen = []
    block.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
    block.layers[0].register_forward_hook(lambda m, args, out: seen.append(out.shape[0]) or out * 2)
    block.register_forward_hook(lambda m, args, kwargs, out: out + len(kwargs), with_kwargs=True)

    def f(x):
        return block(x, skip=()), len(seen)

    return f, [(M(),), (M(),)]


@program()
def parametrised_weight():
    class Symmetric(nn.Module):
        def forward(self, w):
            return w.triu() + w.triu(1).transpose(-1, -2)

    layer = nn.Linear(4, 4, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.arange(16.0).reshape(4, 4) / 9)
    nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())

    def f(x):
        with nn.utils.parametrize.cached():
            return layer(x) + layer(x).sum(), nn.utils.parametrize.is_parametrized(layer)

    return f, [(M(),)]


@program()
def training_mode_decides():
    net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.BatchNorm1d(4))
    with torch.no_grad():
        net[0].weight.fill_(0.1), net[0].bias.zero_()

    def f(x):
        return net(x) if net.training else net(x) * 2

    def turned(f):
        net.eval()
        return f(M())

    net.eval()
    return f, [(M(),), turned]


# -- trees, functional transforms, higher order --------------------------------------------


class Pair(typing.NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


@case(({"a": X(), "b": [M(), Pair(X(), X() + 1)]},))
def trees_of_named_tuples(tree):
    doubled = pytree.tree_map(lambda t: t * 2, tree)
    leaves, spec = pytree.tree_flatten(doubled)
    back = pytree.tree_unflatten([leaf + 1 for leaf in leaves], spec)
    return back, len(leaves), pytree.tree_all(torch.is_tensor, tree)


@case((M(),))
def jacobian_of_a_function(x):
    # torch's fake tensors reject a vmapped hessian. When its objects are collected, dispatch keys
    # of the oracle's thread stay excluded, and every later program would fail.
    f = lambda row: (row.sin() * row.sum()).cumsum(0)
    return torch.func.vmap(torch.func.jacrev(f))(x), torch.func.hessian(lambda r: (r**3).sum())(x[0])


@case((M(),))
def values_and_gradients(x):
    grad, value = torch.func.grad_and_value(lambda y: (y * y).sum().sin())(x)
    out, pull = torch.func.vjp(torch.tanh, x)
    return grad, value, pull(ones(3, 4))[0], torch.func.jvp(torch.exp, (x,), (ones(3, 4),))[1]


@program()
def gradients_for_each_sample():
    block = Block(4, 1)

    def f(x, parameters):
        loss = lambda p, row: torch.func.functional_call(block, p, (row,)).sum()
        return torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, x)

    parameters = {name: p.detach() for name, p in block.named_parameters() if "layers" in name}
    return f, [(M(), parameters)]


@case((X(), True), (X(), False))
def cond_under_a_flag(x, flag):
    return torch.cond(x.sum() > 5, lambda y: y.sin(), lambda y: y.cos(), (x,)) if flag else x


@case((X(),))
def while_loop_of_tensors(x):
    from torch._higher_order_ops.while_loop import while_loop

    return while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), (torch.zeros((), dtype=torch.int64), x))


@case((M(),))
def scan_and_map(x):
    from torch._higher_order_ops.map import map as map_over
    from torch._higher_order_ops.scan import scan

    carried, stacked = scan(lambda c, row: (c + row, c * row), x[0], x)
    return carried, stacked, map_over(lambda row, k: row * k, x, X())


normal = torch.distributions.Normal(0.0, 1.0)
torch.distributions.kl_divergence(normal, normal)  # the formula is looked up once in a process


# -- distributions, optimisers, gradients -----------------------------------------------


@case((M(),))
def distributions_in_a_loss(x):
    normal = torch.distributions.Normal(x, 0.5 + x.abs())
    other = torch.distributions.Independent(torch.distributions.Normal(torch.zeros_like(x), 1.0), 1)
    mixture = torch.distributions.Categorical(logits=x)
    kl = torch.distributions.kl_divergence(normal, other.base_dist)
    return kl.sum(), other.log_prob(x), mixture.entropy(), mixture.log_prob(torch.tensor([0, 1, 2])), normal.cdf(x + 1)


@program()
def transformed_beta_and_bernoulli():
    def f(x):
        base = torch.distributions.Normal(torch.zeros(4), torch.ones(4))
        log_normal = torch.distributions.TransformedDistribution(base, [torch.distributions.transforms.ExpTransform()])
        return (
            log_normal.log_prob(x),
            torch.distributions.Beta(x, x + 1).mean,
            torch.distributions.Bernoulli(logits=x).variance,
        )

    return f, [(X(),)]


@program()
def gradient_with_a_custom_function():
    class Clipped(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, low):
            ctx.save_for_backward(x)
            ctx.low = low
            return x.clamp(min=low)

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * (x > ctx.low), None

    def f(x):
        return (Clipped.apply(x, 2.0) * x).sum()

    def run(f):
        x = X().requires_grad_()
        f(x).backward()
        return x.grad

    return f, [run, run]


@program()
def checkpointed_block():
    block = Block(4)

    def f(x):
        return torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False).sum()

    def run(f):
        x = M().requires_grad_()
        f(x).backward()
        return x.grad

    return f, [run]


@case((X(),))
def modes_are_nested(x):
    with torch.no_grad():
        a = x * 2
        with torch.enable_grad():
            b = torch.is_grad_enabled()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        c = torch.mm(M(), M().t())
    with torch.device("cpu"):
        d = torch.zeros(2)
    return a, b, c.dtype, c.float().sum(), d.device.type, torch.is_inference_mode_enabled()


@torch.no_grad()
def frozen(x):
    return x * 2, torch.is_grad_enabled()


@case((X(),))
def grad_mode_as_a_decorator(x):
    y, inside = frozen(x)
    return y + 1, inside, torch.is_grad_enabled()


class Output(collections.OrderedDict):
    """An output like those of models in libraries: a mapping with attributes that unpacks as its values."""

    def __init__(self, **values):
        super().__init__((k, v) for k, v in values.items() if v is not None)

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __getitem__(self, key):
        return super().__getitem__(key) if isinstance(key, str) else tuple(self.values())[key]

    def to_tuple(self):
        return tuple(self.values())


@case((X(), True), (X(), False))
def outputs_of_a_model(x, more):
    out = Output(logits=x * 2, loss=None, hidden=(x, x + 1) if more else None)
    first, *rest = out.to_tuple()
    return out, out.logits, out[0], "loss" in out, hasattr(out, "loss"), len(rest), out.get("hidden")


@case((X(),))
def copies_shallow_and_deep(x):
    tree = {"a": [x, 1], "k": Settings()}
    shallow, deep = copy.copy(tree), copy.deepcopy(tree)
    shallow["a"].append(2)
    deep["a"][0] += 1
    return tree, shallow["a"] is tree["a"], deep["a"][0], len(deep["a"])


@case((X(), {3, 1}, {1, 2}))
def sets_and_views(x, a, b):
    d = dict.fromkeys(sorted(a | b), 0)
    d.update(zip("ab", (1, 2)))
    both = d.keys() & {1, "a", 9}
    return (
        x * len(a ^ b) + len(both),
        a - b,
        frozenset(a) <= (a | b),
        a.isdisjoint({7}),
        d.keys() - {1},
        (1, 0) in d.items(),
        list(reversed(d)),
    )


@case((X(), 5), (X(), -3), (X(), 0))
def structural_patterns(x, n):
    match (n, x):
        case (int(k), torch.Tensor(shape=[4])) if k > 3:
            y = x * k
        case (0, _):
            y = x
        case (k, _):
            y = x - k
    match {"op": "add", "args": [n, 2], "more": 1}:
        case {"op": "add" | "sub" as op, "args": [a, *others], **rest}:
            return y, op, a, others, rest


@case((X(),))
def assignment_expressions(x):
    total, k = x, 0
    while (k := k + 1) < 3 and (y := total * k).dim():
        total = total + y
    return total, [last := v for v in range(3)], last, (a := 3, a + 1)


@case((X(),))
def numbers_of_every_kind(x):
    return (
        x * (7 // -2) + divmod(-7, 3)[1],
        round(2.567, 1),
        int("ff", 16),
        isinstance(True, numbers.Integral),
        (5).bit_length(),
        float("1e3"),
        0.1 + 0.2,
        7 ^ 2,
        pow(3, -1, 7),
        (2.5).as_integer_ratio(),
        math.gcd(12, 18),
        math.comb(5, 2),
        -7 % 3,
        ~5,
    )


@case((M(), 2), (M(), 3))
def tensors_made_like_another(x, n):
    return x.new(n, 3).zero_(), x.new(x.size()).fill_(2), x.new([1.0, 2.0]), x.new().numel(), x.new(*x.shape).shape


class Scale(enum.Enum):
    SMALL = 2
    LARGE = 3

    def __mul__(self, x):
        return x * self.value

    __rmul__ = __mul__

    def __call__(self, x):
        return x + self.value

    def __neg__(self):
        return -self.value


@case((X(), Scale.SMALL), (X(), Scale.LARGE))
def members_that_can_be_called(x, scale):
    return scale(x), scale * x, x * scale, -scale


@case()
def tuples_keep_their_identity(x):
    pair = (x, x + 1)
    made = Pair(*pair)
    return {"a": pair, "b": [pair, made]}, pair, (made, pair)
