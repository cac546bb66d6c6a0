"""Each change of a value on which a program depends has an effect on the next call.

    call, change X, call again: the second result is eager's

There is one scenario for each kind of Python state that code can read. These tests
check that no result is old; those of tests/peer check the number of recompiles.

In torch: test/dynamo/test_guard_manager.py and test_recompiles.py. Read next:
tests/tracing/test_random_programs.py
"""

from __future__ import annotations

import builtins
import collections
import copy
import dataclasses
import enum
import functools
import gc
import math
import operator
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import pytest
import torch
from torch import nn, ones, zeros

from nbcompile import config
from tests.support.oracle import Compiler, Scenario, disagreement, tried

SCENARIOS: dict[str, Scenario] = {}


def scenario(function: Scenario) -> Scenario:
    assert function.__name__ not in SCENARIOS
    SCENARIOS[function.__name__] = function
    return function


@pytest.mark.parametrize("name", SCENARIOS)
def test_no_answer_is_old(name: str) -> None:
    """A program that is called, changed and called again gives eager mode's results."""
    found = disagreement(SCENARIOS[name])
    assert not found, found


def module_of(source: str, name: str = "nbcompile_scenario") -> types.ModuleType:
    """A new module with these globals."""
    module = types.ModuleType(name)
    exec(compile(source, f"<{name}>", "exec"), module.__dict__)
    return module


x = ones(3)

# -- attributes whose values are not read ------------------------------------------------------------


def plain_function() -> None:
    """A function with attributes."""


class Slotted:
    __slots__ = ("tag",)


HOLDERS: dict[str, Any] = {
    "object": lambda: type("Holder", (), {})(),
    "slots": Slotted,
    "namespace": types.SimpleNamespace,
    "function": lambda: types.FunctionType(plain_function.__code__, {}),
    "module": lambda: types.ModuleType("holder"),
    "nn_module": lambda: nn.Linear(1, 1),
    "partial": lambda: functools.partial(torch.sin),
    "class": lambda: type("Holder", (), {}),
    "tensor": lambda: ones(2),
    "cached": lambda: functools.lru_cache(lambda: 1),
    "list": lambda: type("Items", (list,), {})([1]),
    "int": lambda: type("Number", (int,), {})(4),
}


def read_or_default(x: torch.Tensor, holder: Any) -> object:
    return x * 2, [getattr(holder, "tag", None)]


def read_or_except(x: torch.Tensor, holder: Any) -> object:
    try:
        holder.tag  # noqa: B018 - the test checks if it exists
    except AttributeError:
        return x * 2
    return x * 3


@pytest.mark.parametrize("read", [read_or_default, read_or_except])
@pytest.mark.parametrize("kind", HOLDERS)
def test_an_attribute_that_comes_or_goes(kind: str, read: Any) -> None:
    """The existence of the attribute changes the result, although its value is not read."""
    for first in (True, False):

        def changed(compiled: Compiler, first: bool = first) -> Iterator[object]:
            holder, g = HOLDERS[kind](), compiled(read)
            for is_there in (first, not first, first, not first):
                if is_there:
                    holder.tag = "yes"
                elif hasattr(holder, "tag"):
                    del holder.tag
                yield tried(g, x, holder)

        found = disagreement(changed)
        assert not found, found


# -- members of libraries ---------------------------------------------------------------------------


def of_a_module(x: torch.Tensor) -> torch.Tensor:
    return x * math.sqrt(4.0)


def after_a_break(x: torch.Tensor) -> torch.Tensor:
    y = torch.sin(x)
    print(end="")
    return torch.sin(y) * math.sqrt(4.0)


LINEAR = nn.Linear(3, 3)


def within_a_module(x: torch.Tensor) -> torch.Tensor:
    return LINEAR(x)


REPLACED: dict[str, tuple[Any, Any, str, Any]] = {
    "torch": (lambda x: torch.sin(x) + 1, torch, "sin", torch.cos),
    "torch, by Python": (lambda x: torch.sin(x) + 1, torch, "sin", lambda x: x * 7),
    "functional": (lambda x: nn.functional.relu(x) + 1, nn.functional, "relu", lambda x: x * 7),
    "functional, by a module": (within_a_module, nn.functional, "linear", lambda x, weight, bias: x * 7),
    "math": (of_a_module, math, "sqrt", lambda value: 100.0),
    "operator": (lambda x: operator.add(x, 1), operator, "add", lambda x, y: x * 7),
    "a question": (lambda x: x * 2 if torch.is_tensor(x) else x + 1, torch, "is_tensor", lambda value: False),
    "state": (lambda x: x * torch.is_grad_enabled(), torch, "is_grad_enabled", lambda: 11),
    "copy": (lambda x: x * copy.copy([1, 2])[1], copy, "copy", lambda value: [11, 12]),
    "a class": (lambda x: nn.ReLU()(x) * 2, nn, "ReLU", nn.Tanh),
    "a whole module": (lambda x: nn.functional.relu(x) + 1, nn, "functional", types.SimpleNamespace(relu=torch.cos)),
    "after a break": (after_a_break, torch, "sin", torch.cos),
    "a constant after a break": (after_a_break, math, "sqrt", lambda value: 100.0),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", REPLACED)
def test_a_member_of_a_library_is_replaced(name: str, backend: str) -> None:
    """``unittest.mock.patch`` between calls has an effect, and so has its end, also on the fast call path."""
    function, owner, attribute, other = REPLACED[name]

    def scenario(compiled: Compiler) -> Iterator[object]:
        g = compiled(function)
        for _ in range(5):
            yield g(x)
        with mock.patch.object(owner, attribute, other):
            for _ in range(3):
                yield g(x)
        for _ in range(3):
            yield g(x)

    found = disagreement(scenario, backend=backend)
    assert not found, found


# -- functions -------------------------------------------------------------------------------------


@scenario
def defaults_of_the_compiled(compiled: Compiler) -> Iterator[object]:
    def f(x, k=2, *, scale=3):
        return x * k * scale

    g = compiled(f)
    yield g(x)
    f.__defaults__ = (5,)
    yield g(x)
    f.__kwdefaults__ = {"scale": 7}
    yield g(x)
    f.__kwdefaults__["scale"] = 8
    yield g(x)
    f.__defaults__ = None
    yield tried(g, x)


@scenario
def defaults_of_a_callee(compiled: Compiler) -> Iterator[object]:
    def callee(x, k=2, *, scale=3):
        return x * k * scale

    g = compiled(lambda x: callee(x))
    yield g(x)
    callee.__defaults__ = (5,)
    yield g(x)
    callee.__defaults__ = (1, 5)
    yield g(x)
    callee.__kwdefaults__ = {"scale": 7}
    yield g(x)
    callee.__kwdefaults__["scale"] = 8
    yield g(x)
    callee.__defaults__ = None
    yield tried(g, x)


@scenario
def more_defaults_of_a_callee(compiled: Compiler) -> Iterator[object]:
    def callee(x, k=2, m=3):
        return x * k + m

    g = compiled(lambda x: callee(x))
    yield g(x)
    callee.__defaults__ = (10, 2, 3)
    yield g(x)
    callee.__defaults__ = (7,)
    yield tried(g, x)


@scenario
def mutable_default_of_a_callee(compiled: Compiler) -> Iterator[object]:
    def callee(x, seen=[]):  # noqa: B006 - the default is mutated
        seen.append(len(seen))
        return x + len(seen), seen

    g = compiled(lambda x: callee(x))
    yield g(x)
    yield g(x)
    callee.__defaults__[0].clear()
    yield g(x)


@scenario
def code_of_a_callee(compiled: Compiler) -> Iterator[object]:
    def callee(x):
        return x + 1

    def other(x):
        return x - 1

    g = compiled(lambda x: callee(x))
    yield g(x)
    callee.__code__ = other.__code__
    yield g(x)


@scenario
def callee_is_another_function(compiled: Compiler) -> Iterator[object]:
    g = compiled(lambda x, h: h(x))
    for h in (
        torch.sin,
        torch.cos,
        lambda x: x + 1,
        lambda x: x + 2,
        len,
        list,
        sum,
        max,
        functools.partial(torch.mul, 3),
    ):
        yield g(x, h)


@scenario
def builtin_in_an_argument(compiled: Compiler) -> Iterator[object]:
    g = compiled(lambda x, h: x * h([1, 2, 3]))
    for h in (len, sum, max, min, any, all):
        yield g(x, h)


@scenario
def polyfilled_in_an_argument(compiled: Compiler) -> Iterator[object]:
    g = compiled(lambda x, h: x * sum(h([1, 2, 0])))
    for h in (
        list,
        tuple,
        sorted,
        set,
        reversed,
        enumerate_firsts,
        functools.partial(map, abs),
        functools.partial(filter, None),
    ):
        yield g(x, h)


def enumerate_firsts(items: Any) -> list[Any]:
    return [index for index, _ in enumerate(items)]


@scenario
def class_in_an_argument(compiled: Compiler) -> Iterator[object]:
    g = compiled(lambda x, c: (x * 2, isinstance(3, c), c is int))
    for c in (int, float, str, (int, str), object, bool):
        yield g(x, c)


@scenario
def operator_function_in_a_list(compiled: Compiler) -> Iterator[object]:
    tools = [operator.add]
    g = compiled(lambda x: tools[0](x, 2))
    yield g(x)
    tools[0] = operator.mul
    yield g(x)
    tools[0] = operator.sub
    yield g(x)


@scenario
def torch_function_in_a_dict(compiled: Compiler) -> Iterator[object]:
    table = {"act": torch.relu}
    g = compiled(lambda x: table["act"](x))
    yield g(x)
    table["act"] = torch.neg
    yield g(x)
    table["act"] = torch.nn.functional.silu
    yield g(x)


@scenario
def function_attribute(compiled: Compiler) -> Iterator[object]:
    def callee(x):
        return x * callee.k

    callee.k = 2
    g = compiled(lambda x: callee(x))
    yield g(x)
    callee.k = 3
    yield g(x)
    del callee.k
    yield tried(g, x)


@scenario
def hasattr_of_a_function(compiled: Compiler) -> Iterator[object]:
    def callee(x):
        return x

    g = compiled(lambda x: x + 1 if hasattr(callee, "flag") else x - 1)
    yield g(x)
    callee.flag = True
    yield g(x)


@scenario
def closure_cell_of_the_compiled(compiled: Compiler) -> Iterator[object]:
    k = 2

    def f(x):
        return x * k

    g = compiled(f)
    for k in (2, 3, 2.5, "a", [1], None):
        yield tried(g, x)


@scenario
def closure_cell_of_a_callee(compiled: Compiler) -> Iterator[object]:
    k = 2

    def callee(x):
        return x * k

    g = compiled(lambda x: callee(x))
    for k in (2, 3, 2.5):
        yield g(x)


@scenario
def closure_cell_of_a_method(compiled: Compiler) -> Iterator[object]:
    k = 2

    class C:
        def f(self, x):
            return x * k

    c = C()
    g = compiled(lambda x: c.f(x))
    for k in (2, 3):
        yield g(x)


@scenario
def closure_cell_of_a_base_method_called_by_super(compiled: Compiler) -> Iterator[object]:
    k = 2

    class Base:
        def f(self, x):
            return x * k

    class C(Base):
        def f(self, x):
            return super().f(x) + 1

    c = C()
    g = compiled(lambda x: c.f(x))
    for k in (2, 3):
        yield g(x)
    Base.f = lambda self, x: x * 100
    yield g(x)


@scenario
def closure_cell_of_a_property(compiled: Compiler) -> Iterator[object]:
    k = 2

    class C:
        @property
        def p(self):
            return k

    c = C()
    g = compiled(lambda x: x * c.p)
    for k in (2, 3):
        yield g(x)


@scenario
def closure_cell_of_a_descriptor(compiled: Compiler) -> Iterator[object]:
    k = 2

    class D:
        def __get__(self, owner, cls):
            return k + self.more

    class C:
        d = D()

    C.__dict__["d"].more = 1
    c = C()
    g = compiled(lambda x: x * c.d)
    for k in (2, 3):
        yield g(x)
    C.__dict__["d"].more = 5
    yield g(x)
    D.__get__ = lambda self, owner, cls: 100
    yield g(x)


@scenario
def closure_cell_of_an_operator_method(compiled: Compiler) -> Iterator[object]:
    k = 2

    class C:
        def __add__(self, other):
            return other * k

        def __len__(self):
            return k

        def __getitem__(self, key):
            return key + k

        def __call__(self, x):
            return x - k

        def __contains__(self, item):
            return item == k

        def __eq__(self, other):
            return k == 3

        def __bool__(self):
            return k == 2

        def __iter__(self):
            return iter([k, k])

        def __hash__(self):
            return 1

    c = C()
    g = compiled(
        lambda x: (c + x, x * len(c), x + c[1], c(x), x + (3 in c), x + (c == 1), x + (1 if c else 2), x + sum(c))
    )
    for k in (2, 3):
        yield g(x)
    C.__add__ = lambda self, other: other + 50
    C.__len__ = lambda self: 7
    C.__getitem__ = lambda self, key: 8
    C.__call__ = lambda self, x: x * 9
    C.__contains__ = lambda self, item: True
    C.__eq__ = lambda self, other: True
    C.__bool__ = lambda self: False
    C.__iter__ = lambda self: iter([1])
    yield g(x)


@scenario
def closure_cell_of_a_classmethod_and_a_staticmethod(compiled: Compiler) -> Iterator[object]:
    k = 2

    class C:
        @classmethod
        def a(cls, x):
            return x * k

        @staticmethod
        def b(x):
            return x + k

    c = C()
    g = compiled(lambda x: (c.a(x), c.b(x), C.a(x), C.b(x)))
    for k in (2, 3):
        yield g(x)
    C.a = classmethod(lambda cls, x: x - 1)
    C.b = staticmethod(lambda x: x - 2)
    yield g(x)


@scenario
def closure_cell_of_a_new_objects_methods(compiled: Compiler) -> Iterator[object]:
    k = 2

    class C:
        def __init__(self):
            self.a = k

        def f(self, x):
            return x * k + self.a

    g = compiled(lambda x: C().f(x))
    for k in (2, 3):
        yield g(x)
    C.f = lambda self, x: x - self.a
    yield g(x)
    C.__init__ = lambda self: setattr(self, "a", 10)
    yield g(x)


@scenario
def closure_cell_of_a_metaclass(compiled: Compiler) -> Iterator[object]:
    k = 2

    class Meta(type):
        def __call__(cls, *arguments):
            made = super().__call__(*arguments)
            made.k = k
            return made

    class C(metaclass=Meta):
        pass

    g = compiled(lambda x: x * C().k)
    for k in (2, 3):
        yield g(x)


@scenario
def closure_cell_of_new(compiled: Compiler) -> Iterator[object]:
    k = 2

    class C:
        def __new__(cls):
            made = super().__new__(cls)
            made.k = k
            return made

    g = compiled(lambda x: x * C().k)
    for k in (2, 3):
        yield g(x)


@scenario
def empty_cell(compiled: Compiler) -> Iterator[object]:
    def f(x):
        return x * k  # noqa: F821 - assigned and deleted below

    g = compiled(f)
    yield tried(g, x)
    k = 2
    yield tried(g, x)
    del k
    yield tried(g, x)


@scenario
def partial_contents(compiled: Compiler) -> Iterator[object]:
    def f(x, a, b=1):
        return x * a + b

    class Box:
        pass

    box = Box()
    g = compiled(lambda x: box.p(x))
    for p in (functools.partial(f, a=2), functools.partial(f, a=3), functools.partial(f, a=3, b=4), functools.partial(f, b=4, a=3),
              functools.partial(lambda *a, **k: f(*a[1:], **k), 1, a=2), functools.partial(torch.add, 2)):  # fmt: skip
        box.p = p
        yield g(x)
    box.p = functools.partial(f, a=2)
    yield g(x)
    box.p.keywords["a"] = 20
    yield g(x)
    box.p.keywords["b"] = 30
    yield g(x)


@scenario
def wrapped_by_functools_wraps(compiled: Compiler) -> Iterator[object]:
    k = 1

    def deco(h):
        @functools.wraps(h)
        def inner(*a, **kw):
            return h(*a, **kw) + k

        return inner

    @deco
    def f(x):
        return x * 2

    g = compiled(f)
    for k in (1, 2):
        yield g(x)
    h = compiled(lambda x: f(x))
    for k in (1, 2):
        yield h(x)


@scenario
def lru_cached_callee(compiled: Compiler) -> Iterator[object]:
    # Its body is traced, as in torch: a function that depends on more than its arguments has no old results.
    @functools.lru_cache
    def table(n, k):
        return n * k

    g = compiled(lambda x, k: x * table(3, k))
    for k in (1, 2, 1):
        yield g(x, k)


# -- globals and builtins ----------------------------------------------------------------------------


@scenario
def global_of_the_frame(compiled: Compiler) -> Iterator[object]:
    module = module_of("k = 2\ndef f(x): return x * k")
    g = compiled(module.f)
    for module.k in (2, 3, 2.5, True, None):
        yield tried(g, x)
    del module.k
    yield tried(g, x)


@scenario
def global_of_another_function(compiled: Compiler) -> Iterator[object]:
    module = module_of("k = 2\ndef f(x): return x * k")
    f = module.f
    g = compiled(lambda x: f(x))
    for module.k in (2, 3, 2.5, True):
        yield tried(g, x)
    del module.k
    yield tried(g, x)


@scenario
def global_of_a_method(compiled: Compiler) -> Iterator[object]:
    module = module_of(
        "k = 2\nclass C:\n def f(self, x): return x * k\n @property\n def p(self): return k\n @staticmethod\n def s(): return k"
    )
    c = module.C()
    g = compiled(lambda x: (c.f(x), x * c.p, x * c.s()))
    for module.k in (2, 3):
        yield tried(g, x)
    h = compiled(lambda x: module.C().f(x))
    for module.k in (2, 3):
        yield tried(h, x)


@scenario
def attribute_of_a_module(compiled: Compiler) -> Iterator[object]:
    module = module_of("k = 2\ndef f(x): return x * 2")
    g = compiled(lambda x: module.f(x) * module.k)
    yield g(x)
    module.k = 3
    yield g(x)
    module.f = lambda x: x - 10
    yield g(x)
    del module.k
    yield tried(g, x)


@scenario
def hasattr_of_a_module(compiled: Compiler) -> Iterator[object]:
    module = module_of("")
    g = compiled(lambda x: x + (1 if hasattr(module, "k") else 2) + getattr(module, "m", 0))
    yield g(x)
    module.k = 3
    yield g(x)
    module.m = 30
    yield g(x)


@scenario
def builtin_shadowed_by_a_global(compiled: Compiler) -> Iterator[object]:
    module = module_of("def f(x): return x * len([1, 2]) + max(1, 2)")
    g = compiled(module.f)
    yield g(x)
    module.len = lambda _: 10
    yield g(x)
    module.max = min
    yield g(x)
    del module.len
    yield g(x)


@scenario
def builtin_shadowed_in_a_callees_module(compiled: Compiler) -> Iterator[object]:
    module = module_of("def f(x): return x * len([1, 2])")
    f = module.f
    g = compiled(lambda x: f(x))
    yield g(x)
    module.len = lambda _: 10
    yield g(x)


@scenario
def builtin_replaced(compiled: Compiler) -> Iterator[object]:
    module = module_of("def f(x): return x * added_builtin")
    g = compiled(module.f)
    try:
        builtins.added_builtin = 2
        yield g(x)
        builtins.added_builtin = 3
        yield g(x)
        module.added_builtin = 4
        yield g(x)
    finally:
        del builtins.added_builtin


@scenario
def global_rebound_to_another_kind(compiled: Compiler) -> Iterator[object]:
    module = module_of("h = len\ndef f(x): return x * h([1, 2])")
    g = compiled(module.f)
    for module.h in (len, sum, max, lambda _: 9, list.__len__, functools.partial(sum, start=1)):
        yield g(x)


@scenario
def torch_function_in_a_global(compiled: Compiler) -> Iterator[object]:
    module = module_of("import torch\nact = torch.relu\ndef f(x): return act(x)")
    g = compiled(module.f)
    for module.act in (torch.relu, torch.neg, torch.nn.functional.gelu, torch.nn.ReLU(), abs):
        yield g(x)


@scenario
def module_in_a_global(compiled: Compiler) -> Iterator[object]:
    module = module_of("import math as m\ndef f(x): return x * m.e")
    g = compiled(module.f)
    yield g(x)
    module.m = types.SimpleNamespace(e=3)
    yield g(x)
    module.m = module_of("e = 5")
    yield g(x)


@scenario
def name_missing_then_defined(compiled: Compiler) -> Iterator[object]:
    module = module_of("def f(x):\n try:\n  return x * missing\n except NameError:\n  return x - 1")
    g = compiled(module.f)
    yield g(x)
    module.missing = 4
    yield g(x)


# -- classes and objects -----------------------------------------------------------------------------


def _point() -> type:
    class Point:
        scale = 2

        def __init__(self, k):
            self.k = k

        def f(self, x):
            return x * self.k * self.scale

        @property
        def doubled(self):
            return self.k * 2

    return Point


@scenario
def instance_attribute(compiled: Compiler) -> Iterator[object]:
    c = _point()(2)
    g = compiled(lambda x: c.f(x) + c.doubled)
    for c.k in (2, 3, 2.5, True):
        yield g(x)
    del c.k
    yield tried(g, x)


@scenario
def class_attribute(compiled: Compiler) -> Iterator[object]:
    cls = _point()
    c = cls(2)
    g = compiled(lambda x: c.f(x) + cls.scale)
    for cls.scale in (2, 3):
        yield g(x)
    c.scale = 10
    yield g(x)
    del c.scale
    yield g(x)
    del cls.scale
    yield tried(g, x)


@scenario
def class_attribute_added_in_a_subclass(compiled: Compiler) -> Iterator[object]:
    cls = _point()

    class Sub(cls):
        pass

    c = Sub(2)
    g = compiled(lambda x: c.f(x) + Sub.scale)
    yield g(x)
    Sub.scale = 7
    yield g(x)
    Sub.f = lambda self, x: x - 1
    yield g(x)
    del Sub.f
    yield g(x)


@scenario
def method_replaced_on_the_class(compiled: Compiler) -> Iterator[object]:
    cls = _point()
    c = cls(2)
    g = compiled(lambda x: c.f(x))
    h = compiled(cls.f)
    m = compiled(c.f)
    yield g(x), h(c, x), m(x)
    cls.f = lambda self, x: x - self.k
    yield g(x), h(c, x), m(x)


@scenario
def method_replaced_on_the_instance(compiled: Compiler) -> Iterator[object]:
    c = _point()(2)
    g = compiled(lambda x: c.f(x))
    yield g(x)
    c.f = lambda x: x - 1
    yield g(x)
    c.f = torch.neg
    yield g(x)
    del c.f
    yield g(x)


@scenario
def property_replaced(compiled: Compiler) -> Iterator[object]:
    cls = _point()
    c = cls(2)
    g = compiled(lambda x: x * c.doubled)
    yield g(x)
    cls.doubled = property(lambda self: self.k * 10)
    yield g(x)
    cls.doubled = 4
    yield g(x)
    del cls.doubled
    c.__dict__["doubled"] = 9
    yield g(x)
    cls.doubled = property(lambda self: 1)
    yield g(x)


@scenario
def property_added_over_an_instance_attribute(compiled: Compiler) -> Iterator[object]:
    cls = _point()
    c = cls(2)
    g = compiled(lambda x: x * c.k)
    yield g(x)
    cls.k = property(lambda self: 30)
    yield g(x)


@scenario
def class_of_an_instance(compiled: Compiler) -> Iterator[object]:
    cls = _point()

    class Other:
        def f(self, x):
            return x - self.k

    c = cls(2)
    g = compiled(lambda x: c.f(x))
    yield g(x)
    c.__class__ = Other
    yield g(x)


@scenario
def bases_of_a_class(compiled: Compiler) -> Iterator[object]:
    class A:
        def f(self, x):
            return x + 1

    class B:
        def f(self, x):
            return x - 1

    class C(A):
        pass

    c = C()
    g = compiled(lambda x: (c.f(x), isinstance(c, B)))
    yield g(x)
    C.__bases__ = (B,)
    yield g(x)


@scenario
def getattr_hook_changes(compiled: Compiler) -> Iterator[object]:
    class C:
        def __getattr__(self, name):
            return 3

    c = C()
    g = compiled(lambda x: x * c.k)
    yield g(x)
    c.k = 5
    yield g(x)
    del c.k
    C.__getattr__ = lambda self, name: 7
    yield g(x)
    C.k = 11
    yield g(x)


@scenario
def hasattr_of_an_object(compiled: Compiler) -> Iterator[object]:
    cls = _point()
    c = cls(2)
    g = compiled(lambda x: x + (1 if hasattr(c, "extra") else 2) + getattr(c, "more", 10))
    yield g(x)
    c.extra = 1
    yield g(x)
    c.more = 3
    yield g(x)
    del c.extra
    cls.extra = 1
    yield g(x)


@scenario
def dict_of_an_object(compiled: Compiler) -> Iterator[object]:
    c = _point()(2)
    g = compiled(lambda x: (x + len(c.__dict__), sorted(vars(c)), "z" in c.__dict__))
    yield g(x)
    c.z = 1
    yield g(x)
    c.__dict__ = {"q": 1}
    yield g(x)


@scenario
def slots(compiled: Compiler) -> Iterator[object]:
    class C:
        __slots__ = ("a", "b")

    c = C()
    c.a = 2
    g = compiled(lambda x: x * c.a + (1 if hasattr(c, "b") else 5))
    yield g(x)
    c.a = 3
    yield g(x)
    c.b = 3
    yield g(x)
    del c.a
    yield tried(g, x)


@scenario
def object_in_an_argument_of_another_class(compiled: Compiler) -> Iterator[object]:
    class A:
        k = 1

    class B:
        k = 2

    class Sub(A):
        k = 3

    g = compiled(lambda x, o: (x * o.k, isinstance(o, A), type(o) is A))
    for o in (A(), B(), Sub(), A()):
        yield g(x, o)


@scenario
def object_passed_unlooked_at(compiled: Compiler) -> Iterator[object]:
    g = compiled(lambda x, o: (x + 1, o, [o, o], {"o": o}))
    for o in (1, "a", x, [1], (), None, ones(2, 2), len, int, torch):
        yield g(x, o)


@scenario
def dataclass_fields(compiled: Compiler) -> Iterator[object]:
    @dataclasses.dataclass
    class D:
        a: int
        b: list = dataclasses.field(default_factory=list)

    @dataclasses.dataclass(frozen=True)
    class F:
        a: int

    d, box = D(2), [F(1)]
    g = compiled(lambda x: (x * d.a + len(d.b) + box[0].a, d == D(2), D(d.a, [x]), F(3)))
    yield g(x)
    d.a = 3
    yield g(x)
    d.b.append(1)
    yield g(x)
    box[0] = F(10)
    yield g(x)
    d.a, d.b = 2, []
    yield g(x)


@scenario
def enums(compiled: Compiler) -> Iterator[object]:
    class Color(enum.Enum):
        RED = 1
        BLUE = 2

    class Level(enum.IntEnum):
        LOW = 1
        HIGH = 5

    g = compiled(lambda x, c, l: (x * c.value + l, c is Color.RED, c.name, l == 5, c))
    for c, l in (
        (Color.RED, Level.LOW),
        (Color.BLUE, Level.LOW),
        (Color.BLUE, Level.HIGH),
        (Level.HIGH, 5),
        (Level.HIGH, 1),
    ):
        yield g(x, c, l)


@scenario
def namedtuple_fields(compiled: Compiler) -> Iterator[object]:
    P = collections.namedtuple("P", "a b")  # noqa: PYI024
    Q = collections.namedtuple("Q", "b a")  # noqa: PYI024
    g = compiled(lambda x, p: (x * p.a + p.b, p._replace(a=1), type(p).__name__, p))
    for p in (P(1, 2), P(3, 2), Q(1, 2), P(x, 2), P(1, b=x), types.SimpleNamespace(a=1, b=2, _replace=dict)):
        yield g(x, p)


@scenario
def class_replaced_in_a_global(compiled: Compiler) -> Iterator[object]:
    module = module_of(
        "class C:\n def f(self, x): return x + 1\ndef g(x): return C().f(x)\ndef h(x, c): return isinstance(c, C)"
    )
    old = module.C()
    g, h = compiled(module.g), compiled(module.h)
    yield g(x), h(x, old)
    module.C = type("C", (), {"f": lambda self, x: x - 1})
    yield g(x), h(x, old)


@scenario
def class_variable_through_self_class(compiled: Compiler) -> Iterator[object]:
    class C:
        k = 1

        def f(self, x):
            return x * type(self).k + self.__class__.k

        @classmethod
        def make(cls, x):
            return x + cls.k

    c = C()
    g = compiled(lambda x: (c.f(x), c.make(x), C.make(x)))
    yield g(x)
    C.k = 5
    yield g(x)


@scenario
def class_variable_mutated(compiled: Compiler) -> Iterator[object]:
    class C:
        registry = {"a": 1}
        items = [1]

        def f(self, x):
            return x * self.registry["a"] + len(self.items)

    c = C()
    g = compiled(lambda x: c.f(x))
    h = compiled(lambda x: C.f(C(), x))
    yield g(x), h(x)
    C.registry["a"] = 2
    yield g(x), h(x)
    C.items.append(3)
    yield g(x), h(x)
    C.registry = {"a": 50}
    yield g(x), h(x)


@scenario
def class_variable_of_a_base_read_by_super(compiled: Compiler) -> Iterator[object]:
    class Base:
        k = 1
        names = ["a"]

        @property
        def p(self):
            return self.k

        @classmethod
        def c(cls):
            return cls.k

        @staticmethod
        def s():
            return 1

    class C(Base):
        k = 10

        def f(self, x):
            return x * super().k + super().p + super().c() + super().s() + len(super().names)

    c = C()
    g = compiled(lambda x: c.f(x))
    yield g(x)
    Base.k = 2
    yield g(x)
    Base.names.append("b")
    yield g(x)
    Base.p = property(lambda self: 100)
    yield g(x)
    Base.c = classmethod(lambda cls: 1000)
    yield g(x)
    Base.s = staticmethod(lambda: 10000)
    yield g(x)


@scenario
def class_of_a_wrapper_that_is_not_traced(compiled: Compiler) -> Iterator[object]:
    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls, inner: torch.Tensor) -> Any:
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

        def __init__(self, inner: torch.Tensor) -> None:
            self.inner = inner

        @classmethod
        def __torch_dispatch__(cls, *_: object) -> object:
            return NotImplemented

    class Other(Wrapper):
        pass

    g = compiled(lambda x, w: (x * 2, isinstance(w, Other), hasattr(w, "inner") and w.inner + 1))
    yield g(x, Wrapper(ones(3)))
    yield g(x, Other(zeros(3)))
    yield g(x, 3)


@scenario
def methods_of_tensors_as_arguments(compiled: Compiler) -> Iterator[object]:
    same, other = ones(3).add, zeros(3).add
    g = compiled(lambda x, m, n: (m(x) + 1, m.__name__, m is n, m == n, m.__self__ + 1))
    yield g(x, same, same)
    yield g(x, same, other)
    yield g(x, other, other)
    yield g(x, zeros(3).mul, same)
    yield g(x, same, same)


@scenario
def isinstance_hook(compiled: Compiler) -> Iterator[object]:
    k = 1

    class Meta(type):
        def __instancecheck__(cls, value):
            return k == 1

    class C(metaclass=Meta):
        pass

    g = compiled(lambda x, o: x + (1 if isinstance(o, C) else 2))
    o = _point()(1)
    for k in (1, 2):
        yield g(x, o), g(x, 3)


# -- containers ---------------------------------------------------------------------------------------


@scenario
def list_items_and_length(compiled: Compiler) -> Iterator[object]:
    items = [1, 2]
    g = compiled(lambda x: (x * items[0] + len(items), sum(items), items[-1]))
    yield g(x)
    items[0] = 5
    yield g(x)
    items.append(7)
    yield g(x)
    items.reverse()
    yield g(x)
    items.clear()
    yield tried(g, x)


@scenario
def dict_order_keys_values(compiled: Compiler) -> Iterator[object]:
    table = {"a": 1, "b": 2}
    g = compiled(lambda x: ([x * v for v in table.values()], list(table), table.get("c", 9), "d" in table, len(table)))
    yield g(x)
    table["a"] = table.pop("a")
    yield g(x)
    table["c"] = 3
    yield g(x)
    del table["a"]
    yield g(x)
    table.clear()
    yield g(x)


@scenario
def dict_membership_only(compiled: Compiler) -> Iterator[object]:
    table: dict[object, object] = {"a": 1}
    g = compiled(lambda x: x + (1 if "b" in table else 2) + (1 if table else 2) + len(table))
    yield g(x)
    table["b"] = 2
    yield g(x)
    table.clear()
    yield g(x)


@scenario
def dict_iteration_over_an_argument(compiled: Compiler) -> Iterator[object]:
    g = compiled(lambda d: {k: v + 1 for k, v in d.items()})
    for d in (
        {"a": x},
        {"b": x},
        {"a": x, "b": x},
        {"b": x, "a": x},
        {1: x},
        {True: x},
        {1.0: x},
        {},
        collections.OrderedDict(a=x),
        collections.defaultdict(list, a=x),
    ):
        yield g(d)


@scenario
def keywords(compiled: Compiler) -> Iterator[object]:
    g = compiled(lambda *a, **k: ([each + 1 for each in a], {name: value * 2 for name, value in k.items()}, list(k)))
    yield g(x, a=x, b=x)
    yield g(x, b=x, a=x)
    yield g(x, x, a=1)
    yield g(a=x)
    yield g()


@scenario
def set_members(compiled: Compiler) -> Iterator[object]:
    s = {1, 2}
    g = compiled(lambda x: (x * sum(s), 3 in s, len(s), s | {5}, s == {1, 2}))
    yield g(x)
    s.add(3)
    yield g(x)
    s.discard(1)
    yield g(x)
    s.clear()
    yield g(x)


@scenario
def frozenset_of_an_attribute(compiled: Compiler) -> Iterator[object]:
    box = types.SimpleNamespace(s=frozenset({1, 2}), r=range(3), t=(1, 2), sl=slice(0, 2), by=b"a")
    g = compiled(lambda x: (x * sum(box.s), x + len(box.r), x * box.t[1], x[box.sl], box.by))
    yield g(x)
    box.s = frozenset({1, 5})
    yield g(x)
    box.r = range(1, 3)
    yield g(x)
    box.t = (1, 3)
    yield g(x)
    box.sl = slice(0, 1)
    yield g(x)
    box.by = bytearray(b"a")
    yield g(x)


@scenario
def sets_of_objects(compiled: Compiler) -> Iterator[object]:
    cls = _point()
    a, b = cls(1), cls(2)
    s = {a}
    g = compiled(lambda x: (x + (1 if a in s else 2), x + sum(each.k for each in s)))
    yield g(x)
    s.clear()
    s.add(b)
    yield g(x)
    b.k = 10
    yield g(x)


@scenario
def dict_keys_that_are_objects(compiled: Compiler) -> Iterator[object]:
    cls = _point()
    a, b = cls(1), cls(2)
    d = {a: 10}
    g = compiled(lambda x: (x + d.get(a, 0), x + sum(each.k for each in d)))
    yield g(x)
    d[b] = 1
    yield g(x)
    b.k = 20
    yield g(x)
    del d[a]
    yield g(x)


@scenario
def dict_keys_that_are_types_functions_tensors(compiled: Compiler) -> Iterator[object]:
    d = {int: 1, len: 2, x: 3, (1, 2): 4, None: 5}
    g = compiled(lambda x: x + d[int] + d[len] + d[(1, 2)] + d[None] + len(d))
    yield g(x)
    d[int] = 10
    yield g(x)
    d[len] = 20
    yield g(x)
    d[(1, 2)] = 40
    yield g(x)
    del d[x]
    yield g(x)


@scenario
def limit_of_a_deque(compiled: Compiler) -> Iterator[object]:
    def append(x: Any, q: collections.deque[int]) -> object:
        q.append(3)
        return x + sum(q), q.maxlen

    g = compiled(append)
    for limit in (2, None, 3, 2):
        yield g(x, collections.deque([1, 2], limit))


@scenario
def deque_and_defaultdict(compiled: Compiler) -> Iterator[object]:
    q = collections.deque([1, 2], maxlen=3)
    d: Any = collections.defaultdict(int, a=1)
    g = compiled(lambda x: (x * q[0] + len(q), x + d["a"], x + d["zz"], q.maxlen))
    yield g(x)
    yield dict(d)
    q.appendleft(9)
    yield g(x)
    d.default_factory = lambda: 50
    del d["zz"]
    yield g(x)
    q = collections.deque([1, 2], maxlen=5)
    yield g(x)


@scenario
def nested_containers(compiled: Compiler) -> Iterator[object]:
    tree: Any = {"a": [1, {"b": (2, [3])}]}
    g = compiled(lambda x: x * tree["a"][1]["b"][1][0] + tree["a"][0])
    yield g(x)
    tree["a"][1]["b"][1][0] = 5
    yield g(x)
    tree["a"][1]["b"] = (2, [6])
    yield g(x)
    tree["a"][0] = 7
    yield g(x)
    tree["a"][1] = {"b": [0, (8,)]}
    yield g(x)


@scenario
def list_aliasing_between_arguments(compiled: Compiler) -> Iterator[object]:
    def f(a, b, x):
        a.append(x + 1)
        return len(b), a is b, x * len(b)

    g = compiled(f)
    one: list[object] = []
    two: list[object] = []
    yield g(one, two, x), one, two
    yield g(one, one, x), one
    yield g(two, one, x), one, two
    yield g(one, one, x), one


@scenario
def list_aliasing_seen_first(compiled: Compiler) -> Iterator[object]:
    def f(a, b, x):
        a.append(x + 1)
        return len(b), a is b, x * len(b)

    g = compiled(f)
    one: list[object] = []
    yield g(one, one, x), one
    yield g([], [], x)
    yield g(one, [], x), one


@scenario
def equal_length_lists_aliased(compiled: Compiler) -> Iterator[object]:
    def f(a, b, x):
        a[0] = 10
        return x * b[0]

    g = compiled(f)
    yield g([1], [1], x)
    same = [1]
    yield g(same, same, x)


@scenario
def object_aliasing_between_arguments(compiled: Compiler) -> Iterator[object]:
    def f(a, b, x):
        a.k = 10
        return x * b.k, a is b

    cls = _point()
    g = compiled(f)
    yield g(cls(1), cls(1), x)
    same = cls(1)
    yield g(same, same, x), same.k
    yield g(cls(1), cls(1), x)


@scenario
def dict_aliasing_through_an_attribute(compiled: Compiler) -> Iterator[object]:
    def f(o, d, x):
        o.d["k"] = 10
        return x * d["k"]

    g = compiled(f)
    yield g(types.SimpleNamespace(d={"k": 1}), {"k": 1}, x)
    d = {"k": 1}
    yield g(types.SimpleNamespace(d=d), d, x)


@scenario
def is_between_inputs(compiled: Compiler) -> Iterator[object]:
    cls = _point()
    a, b = cls(1), cls(1)
    g = compiled(lambda x, p, q: (x + (1 if p is q else 2), p == q))
    for p, q in (
        (a, b),
        (a, a),
        (None, None),
        (a, None),
        (x, x),
        ([1], [1]),
        ((), ()),
        (1, True),
        (int, int),
        (len, len),
    ):
        yield g(x, p, q)


@scenario
def objects_aliased_in_a_list(compiled: Compiler) -> Iterator[object]:
    cls = _point()

    def f(x, items):
        items[0].k = 5
        return x * sum(each.k for each in items)

    g = compiled(f)
    yield g(x, [cls(1), cls(1)])
    same = cls(1)
    yield g(x, [same, same])


# -- tensors --------------------------------------------------------------------------------------------


@scenario
def tensor_attributes(compiled: Compiler) -> Iterator[object]:
    def f(x):
        return (x * 2, x.dtype, x.shape, x.stride(), x.device, x.requires_grad, isinstance(x, nn.Parameter), x.is_contiguous(),
                x.is_leaf, x.dim(), x.layout, x.numel(), x.storage_offset())  # fmt: skip

    g = compiled(f)
    for each in (x, x.double(), ones(3, 1), ones(3, requires_grad=True), nn.Parameter(ones(3)), ones(6)[::2], ones(4)[1:], ones(3, 2).t(), ones(2, 3),
                 ones(3, 1).expand(3, 3), ones(()), ones(0), ones(3, dtype=torch.int64), torch.ones(3, dtype=torch.bool), ones(1, 3)):  # fmt: skip
        yield g(each)


@scenario
def tensor_aliasing(compiled: Compiler) -> Iterator[object]:
    def f(a, b):
        a.add_(1)
        return a + b, a is b

    g = compiled(f)
    yield g(ones(3), ones(3))
    same = ones(3)
    yield g(same, same), same
    base = ones(3)
    yield g(base, base.view(3)), base
    yield g(ones(3), ones(3))


@scenario
def tensor_attribute_set_by_the_user(compiled: Compiler) -> Iterator[object]:
    t = ones(3)
    g = compiled(lambda t: t * (t.scale if hasattr(t, "scale") else 7))
    yield g(t)
    t.scale = 2
    yield g(t)
    t.scale = 3
    yield g(t)


@scenario
def tensor_grad(compiled: Compiler) -> Iterator[object]:
    t = ones(3, requires_grad=True)
    g = compiled(lambda t: t.detach() * 2 + (0 if t.grad is None else t.grad))
    yield g(t)
    t.sum().backward()
    yield g(t)
    t.grad.mul_(5)
    yield g(t)
    t.grad = None
    yield g(t)


@scenario
def tensor_in_a_global_replaced_and_changed(compiled: Compiler) -> Iterator[object]:
    module = module_of("import torch\nw = torch.ones(3)\ndef f(x): return x + w")
    g = compiled(module.f)
    yield g(x)
    module.w = ones(3) * 5
    yield g(x)
    module.w.add_(1)
    yield g(x)
    module.w = ones(1)
    yield g(x)
    module.w = 7
    yield g(x)


@scenario
def requires_grad_flips(compiled: Compiler) -> Iterator[object]:
    t = ones(3)
    g = compiled(lambda t: t * 2 if t.requires_grad else t * 3)
    yield g(t)
    t.requires_grad_(True)
    yield g(t)
    t.requires_grad_(False)
    yield g(t)


@scenario
def number_types(compiled: Compiler) -> Iterator[object]:
    g = compiled(lambda x, k: (x * k, k, type(k)))
    for k in (
        1,
        True,
        1.0,
        0,
        0.0,
        -0.0,
        False,
        1 + 0j,
        2,
        3,
        10**30,
        -1,
        float("inf"),
        float("nan"),
        -float("inf"),
        0.1,
        0.2,
    ):
        yield tried(g, x, k)


@scenario
def signs_of_zero(compiled: Compiler) -> Iterator[object]:
    g = compiled(lambda x, k: (x / k, str(k)))
    for k in (0.0, -0.0, 0.0, complex(0.0, -0.0), complex(0.0, 0.0), complex(-0.0, 0.0)):
        yield tried(g, x, k)
    h = compiled(lambda x, t: (x * t[0], str(t)))
    for t in ((0.0,), (-0.0,), (0,), (False,), (1,), (True,), (1.0,)):
        yield tried(h, x, t)


@scenario
def strings(compiled: Compiler) -> Iterator[object]:
    g = compiled(lambda x, s: (x + len(s), s.upper() if isinstance(s, str) else s, f"{s}!"))
    for s in ("a", "b", "", b"a", "ä", ("a",), "a"):
        yield g(x, s)


# -- modes --------------------------------------------------------------------------------------------------


@scenario
def grad_mode(compiled: Compiler) -> Iterator[object]:
    t = ones(3, requires_grad=True)
    g = compiled(lambda t: (t * 2, torch.is_grad_enabled()))
    yield g(t)
    with torch.no_grad():
        yield g(t)
    with torch.inference_mode():
        yield g(t)[0], g(t)[1], torch.is_inference_mode_enabled()
    yield g(t)


@scenario
def inference_mode_asked(compiled: Compiler) -> Iterator[object]:
    g = compiled(lambda x: (x * 2, torch.is_inference_mode_enabled()))
    yield g(x)
    with torch.inference_mode():
        yield g(x)
    with torch.no_grad():
        yield g(x)
    yield g(x)


@scenario
def default_dtype(compiled: Compiler) -> Iterator[object]:
    g = compiled(lambda x: (torch.ones(2) + 1, torch.get_default_dtype(), torch.tensor(1.5) * x))
    try:
        yield g(x)
        torch.set_default_dtype(torch.float64)
        yield g(x)
    finally:
        torch.set_default_dtype(torch.float32)
    yield g(x)


@scenario
def default_device(compiled: Compiler) -> Iterator[object]:
    g = compiled(lambda x: (torch.ones(2) + 1).device)
    yield g(x)
    with torch.device("meta"):
        yield g(x)
    try:
        torch.set_default_device("meta")
        yield g(x)
    finally:
        torch.set_default_device(None)
    yield g(x)


@scenario
def autocast(compiled: Compiler) -> Iterator[object]:
    w = ones(3, 3)
    g = compiled(lambda x: (x @ w, torch.is_autocast_enabled("cpu")))
    yield g(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        yield g(x)
    with torch.autocast("cpu", dtype=torch.float16):
        yield g(x)
    yield g(x)


@scenario
def deterministic_and_precision(compiled: Compiler) -> Iterator[object]:
    g = compiled(
        lambda x: (
            x + 1,
            torch.are_deterministic_algorithms_enabled(),
            torch.get_float32_matmul_precision(),
            torch.get_num_threads(),
        )
    )
    before = torch.get_num_threads()
    try:
        yield g(x)
        torch.use_deterministic_algorithms(True)
        yield g(x)
        torch.use_deterministic_algorithms(False)
        torch.set_float32_matmul_precision("high")
        yield g(x)
        torch.set_float32_matmul_precision("highest")
        torch.set_num_threads(before + 1)
        yield g(x)
    finally:
        torch.set_num_threads(before)
        torch.use_deterministic_algorithms(False)
        torch.set_float32_matmul_precision("highest")


@scenario
def answers_about_the_process(compiled: Compiler) -> Iterator[object]:
    """A function for each setting, whose guard (or, for "collects" and the "devices", a call after a break) detects the
    change.
    """
    functorch, autocast_to = torch._C._functorch, functools.partial(torch.set_autocast_dtype, "xla")
    asked: dict[str, tuple[Callable[[], Any], Callable[[Any], object], Any]] = {
        "recursion": (sys.getrecursionlimit, sys.setrecursionlimit, sys.getrecursionlimit() + 77),
        "digits": (sys.get_int_max_str_digits, sys.set_int_max_str_digits, 5000),
        "switches": (sys.getswitchinterval, sys.setswitchinterval, 0.25),
        "collects": (gc.isenabled, lambda on: gc.enable() if on else gc.disable(), not gc.isenabled()),
        "thresholds": (gc.get_threshold, lambda three: gc.set_threshold(*three), (701, 11, 12)),
        # The change begins at "high", because GLOBAL_STATE only distinguishes "highest" from the others.
        "precision": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "medium"),
        "anomalies": (torch.is_anomaly_enabled, lambda on: torch.autograd.set_detect_anomaly(on), True),
        "NaNs": (torch.is_anomaly_check_nan_enabled, lambda on: torch.autograd.set_detect_anomaly(False, on), False),
        "warnings": (torch.is_warn_always_enabled, torch.set_warn_always, True),
        "forward mode": (torch._C._is_fwd_grad_enabled, torch._C._set_fwd_grad_enabled, False),
        "leaves": (functorch.get_inplace_requires_grad_allowed, functorch.set_inplace_requires_grad_allowed, True),
        "other devices": (torch.get_autocast_xla_dtype, torch.set_autocast_xla_dtype, torch.float16),
        "such devices": (lambda: torch.get_autocast_dtype("xla"), autocast_to, torch.float16),
    }
    torch.set_float32_matmul_precision("high")
    try:
        for get, put, other in asked.values():
            g, before = compiled(lambda x, get=get: (x + 1, get())), get()
            for value in (before, before, before, other, before):
                put(value)
                try:
                    yield g(x)
                finally:
                    put(before)
    finally:
        torch.set_float32_matmul_precision("highest")


@scenario
def states_that_transforms_change(compiled: Compiler) -> Iterator[object]:
    """The guard compares the state at the entry, not the one that the function itself has set when it reads it."""
    forward, functorch = torch._C._is_fwd_grad_enabled, torch._C._functorch

    def reads(x: torch.Tensor) -> object:
        with torch.autograd.forward_ad._set_fwd_grad_enabled(not forward()):
            return x + 1, forward(), functorch.get_inplace_requires_grad_allowed()

    g = compiled(reads)
    try:
        for allowed, leaves in ((True, False), (True, False), (False, False), (False, True), (True, False)):
            torch._C._set_fwd_grad_enabled(allowed)
            functorch.set_inplace_requires_grad_allowed(leaves)
            yield g(x), forward(), functorch.get_inplace_requires_grad_allowed()
    finally:
        torch._C._set_fwd_grad_enabled(True)
        functorch.set_inplace_requires_grad_allowed(False)


@scenario
def torch_function_mode(compiled: Compiler) -> Iterator[object]:
    class Doubled(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            return result * 2 if function is torch.add else result

    g = compiled(lambda x: torch.add(x, 1))
    yield g(x)
    with Doubled():
        yield g(x)
    yield g(x)


@scenario
def torch_dispatch_mode(compiled: Compiler) -> Iterator[object]:
    class Doubled(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            return result * 2 if function is torch.ops.aten.add.Tensor else result

    g = compiled(lambda x: torch.add(x, 1))
    yield g(x)
    with Doubled():
        yield g(x)
    yield g(x)


# -- modules --------------------------------------------------------------------------------------------------


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(3, 3)
        self.seq = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
        self.register_buffer("count", zeros(()))
        self.k = 2
        self.drop = nn.Dropout(0.5)
        for parameter in self.parameters():
            parameter.data.fill_(0.1)

    def forward(self, x):
        return self.drop(self.seq(self.a(x))) * self.k + self.count


def _net() -> Net:
    net = Net()
    net.eval()
    return net


@scenario
def module_attributes(compiled: Compiler) -> Iterator[object]:
    net = _net()
    g = compiled(net)
    yield g(x)
    net.k = 3
    yield g(x)
    net.count = ones(())
    yield g(x)
    net.count.add_(3)
    yield g(x)
    net.a.weight = nn.Parameter(ones(3, 3))
    yield g(x)
    net.a.weight.data = ones(3, 3) * 2
    yield g(x)
    net.a.bias = None
    yield g(x)
    net.a = nn.Identity()
    yield g(x)
    net.seq.append(nn.Softmax(0))
    yield g(x)
    net.seq[0] = nn.Identity()
    yield g(x)
    del net.seq[1]
    yield g(x)
    del net.k
    yield tried(g, x)


@scenario
def module_training_flag(compiled: Compiler) -> Iterator[object]:
    net = _net()
    net.drop.p = 1.0
    g = compiled(net)
    yield g(x)
    net.train()
    yield g(x)
    net.drop.training = False
    yield g(x)
    net.drop.p = 0.0
    net.train()
    yield g(x)


@scenario
def module_hooks(compiled: Compiler) -> Iterator[object]:
    with config.patch(skip_nnmodule_hook_guards=False):
        net = _net()
        g = compiled(lambda x: net(x))
        h = compiled(net)
        yield g(x), h(x)
        first = net.a.register_forward_hook(lambda module, args, out: out + 100)
        yield g(x), h(x)
        second = net.register_forward_hook(lambda module, args, out: out * 2)
        yield g(x), h(x)
        third = net.register_forward_pre_hook(lambda module, args: (args[0] * 3,))
        yield g(x), h(x)
        first.remove()
        yield g(x), h(x)
        second.remove()
        third.remove()
        yield g(x), h(x)


@scenario
def module_hook_replaced(compiled: Compiler) -> Iterator[object]:
    net = _net()
    k = 1
    handle = net.a.register_forward_hook(lambda module, args, out: out + k)
    g = compiled(lambda x: net(x))
    yield g(x)
    k = 2
    yield g(x)
    handle.remove()
    net.a.register_forward_hook(lambda module, args, out: out * 50)
    yield g(x)


@scenario
def global_module_hooks(compiled: Compiler) -> Iterator[object]:
    net = _net()
    g = compiled(lambda x: net(x))
    yield g(x)
    handle = nn.modules.module.register_module_forward_hook(lambda module, args, out: out + 1)
    try:
        yield g(x)
    finally:
        handle.remove()
    yield g(x)


@scenario
def module_forward_replaced(compiled: Compiler) -> Iterator[object]:
    net = _net()
    g = compiled(lambda x: net(x))
    h = compiled(net)
    yield g(x), h(x)
    net.a.forward = lambda x: x * 2
    yield g(x), h(x)
    net.forward = lambda x: x * 3
    yield g(x), h(x)
    del net.forward
    yield g(x), h(x)

    class Other(Net):
        def forward(self, x):
            return x - 1

    net.__class__ = Other
    yield g(x), h(x)


@scenario
def module_class_forward_replaced(compiled: Compiler) -> Iterator[object]:
    class Local(nn.Module):
        def forward(self, x):
            return x + 1

    net = Local()
    g = compiled(lambda x: net(x))
    yield g(x)
    Local.forward = lambda self, x: x - 1
    yield g(x)


@scenario
def module_list_and_dict(compiled: Compiler) -> Iterator[object]:
    class Local(nn.Module):
        def __init__(self):
            super().__init__()
            self.many = nn.ModuleList([nn.ReLU(), nn.Tanh()])
            self.named = nn.ModuleDict({"a": nn.ReLU()})
            self.weights = nn.ParameterList([nn.Parameter(ones(3))])

        def forward(self, x):
            for each in self.many:
                x = each(x)
            for name, each in self.named.items():
                x = each(x) + len(name)
            for weight in self.weights:
                x = x * weight
            return x

    net = Local()
    g = compiled(net)
    yield g(x)
    net.many.append(nn.Softmax(0))
    yield g(x)
    net.many[0] = nn.Hardtanh(0, 0.5)
    yield g(x)
    net.named["bb"] = nn.Identity()
    yield g(x)
    net.weights.append(nn.Parameter(ones(3) * 3))
    yield g(x)
    net.many[0].max_val = 0.25
    yield g(x)


@scenario
def module_parameters_iterated(compiled: Compiler) -> Iterator[object]:
    net = _net()
    g = compiled(
        lambda x: x + sum(p.sum() for p in net.parameters()) + len(list(net.named_buffers())) + len(list(net.modules()))
    )
    yield g(x)
    net.extra = nn.Parameter(ones(2))
    yield g(x)
    net.register_buffer("more", ones(1))
    yield g(x)
    net.child = nn.ReLU()
    yield g(x)


@scenario
def module_shared_parameters(compiled: Compiler) -> Iterator[object]:
    net = _net()
    g = compiled(lambda x: net.a(x) + net.seq[0].weight.sum())
    yield g(x)
    net.seq[0].weight = net.a.weight
    yield g(x)
    net.a.weight.data.fill_(3)
    yield g(x)


@scenario
def state_written_by_the_call_itself(compiled: Compiler) -> Iterator[object]:
    class Local(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0
            self.cache = None

        def forward(self, x):
            self.calls += 1
            if self.cache is None:
                self.cache = x * 2
            return self.cache + self.calls

    net = Local()
    g = compiled(net)
    for _ in range(4):
        yield g(x), net.calls
    net.cache = None
    yield g(x + 1), net.calls


@scenario
def implementations_by_class(compiled: Compiler) -> Iterator[object]:
    class Celsius(float):
        pass

    @functools.singledispatch
    def factor(value):
        return 1

    @factor.register
    def _(value: int):
        return 2

    @factor.register(list)
    def _(value):
        return factor(value[0]) * 10

    class Scales:
        @functools.singledispatchmethod
        def factor(self, value):
            return 3

        @factor.register
        def _(self, value: str):
            return 4

    scales = Scales()
    g = compiled(lambda x, value: x * factor(value) + scales.factor(value))
    for value in (3, True, "a", [5], [None], 2.5, None, Celsius(1)):
        yield g(x, value)
    factor.register(bool, lambda value: 5)
    yield g(x, True), g(x, 3)
    factor.register(str, lambda value: 6)
    Scales.factor.register(type(None), lambda self, value: 7)
    yield g(x, "a"), g(x, None), g(x, 2.5)
