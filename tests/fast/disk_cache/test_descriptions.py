"""Descriptions of objects, which distinguish objects of the same name in every process."""

from __future__ import annotations

import collections
import dataclasses
import functools
import math
import types

import pytest
import torch
import torch.nn.utils.parametrize

from nbcompile.capture.literals import NotStorable
from nbcompile.fast.disk_cache import descriptions
from nbcompile.fast.disk_cache.descriptions import alike, describe

OF_TORCH = {"__name__": "torch.testing"}


def of_torch(text: str) -> types.FunctionType:
    """A function whose code, globals and name are those of a module of torch."""
    names = dict(OF_TORCH)
    exec(text, names)
    return names["made"]


def named_as(function, other):
    """A function with the name of another one."""
    return functools.update_wrapper(function, other, updated=())


def parametrized(scale):
    """A class that torch.nn.utils.parametrize derives from torch.nn.Linear."""
    linear = torch.nn.Linear(2, 2)

    class Scaled(torch.nn.Module):
        def forward(self, weight):
            return weight * scale

    torch.nn.utils.parametrize.register_parametrization(linear, "weight" if scale == 2 else "bias", Scaled())
    return type(linear)


PAIRS = {
    "lambdas of one module": lambda: (of_torch("made = lambda x: x.float()"), of_torch("made = lambda x: x.bool()")),
    "closures of one factory": lambda: tuple(
        of_torch(f"def f(n):\n  return lambda x: x + n\nmade = f({n})") for n in (1, 2)
    ),
    "closures over functions": lambda: (torch.nn.functional.max_pool1d, torch.nn.functional.max_pool2d),
    "defaults": lambda: tuple(of_torch(f"def made(x, k={k}): return x * k") for k in (1, True)),
    "keyword defaults": lambda: tuple(of_torch(f"def made(x, *, k={k}): return x * k") for k in (0.0, -0.0)),
    "a wrapper with a copied name": lambda: (named_as(lambda x: x, torch.einsum), torch.einsum),
    "classes of one factory": lambda: (parametrized(2), parametrized(3)),
    "dataclasses made by hand": lambda: tuple(
        dataclasses.make_dataclass("P", ["x"], namespace={"f": function}) for function in (lambda s: 1, lambda s: 2)
    ),
    "named tuples": lambda: (collections.namedtuple("P", "a b"), collections.namedtuple("P", "a c")),  # noqa: PYI024
    "a module of another's name": lambda: (types.ModuleType("torch.nn.functional"), torch.nn.functional),
    "functions with other globals": lambda: (
        types.FunctionType(named_as.__code__, {"__name__": "here"}, "f"),
        types.FunctionType(named_as.__code__, {"__name__": "there"}, "f"),
    ),
    "numbers": lambda: (1, True),
    "zeros": lambda: (0.0, -0.0),
    "a partial": lambda: (functools.partial(math.pow, 2), functools.partial(math.pow, 3)),
    "cached functions": lambda: tuple(map(functools.lru_cache, (lambda x: 1, lambda x: 2))),
    "methods of objects": lambda: ([1].append, [2].append),
    "bound methods": lambda: (torch.nn.Linear(1, 1).forward, torch.nn.Linear(2, 2).forward),
    "instances": lambda: (torch.nn.ReLU(), torch.nn.GELU()),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_two_objects_of_one_name_are_two(pair):
    """Two objects have different descriptions, or none, so that they are not stored."""
    told = []
    for one in PAIRS[pair]():
        try:
            told.append(describe(one))
        except NotStorable:
            told.append(object())
    assert not alike(*told)


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (torch.nn.Linear, "forward"),
        (torch.nn.Module, "__call__"),
        (torch.Tensor, "split"),
        (torch.Tensor, "relu"),
        (torch.optim.SGD, "step"),
        (torch.distributions.Normal, "log_prob"),
        (torch.nn.functional, "gelu"),
        (torch.nn.functional, "max_pool2d"),
        (torch, "relu"),
        (math, "sin"),
    ],
)
@pytest.mark.parametrize("patch", [lambda *given: None, torch.nn.Bilinear.forward, torch.nn.functional.max_pool1d])
def test_a_patched_member_of_torch_is_noticed(owner, name, patch, monkeypatch):
    """The description of a class or function differs while one of its members is replaced."""
    which = type("Mine", (owner,), {}) if isinstance(owner, type) else None

    def told():
        return [describe(owner if which else getattr(owner, name)), which and describe(which)]

    before = told()
    monkeypatch.setattr(owner, name, patch, raising=False)
    after = told()
    assert not alike(before[0], after[0])
    assert which is None or not alike(before[1], after[1])
    monkeypatch.undo()
    assert alike(before, told())


def test_a_class_is_described_once_in_a_block(monkeypatch):
    """A class is described once in a block, for all its objects, and again in the next block."""

    class Layer:
        size = 1

    looked, real = [], descriptions._class
    monkeypatch.setattr(descriptions, "_class", lambda value, depth: (looked.append(value), real(value, depth))[1])
    with descriptions.memoized():
        first = [descriptions.describe(Layer) for _ in range(3)]
        with descriptions.memoized():
            assert descriptions.describe(Layer) == first[0]
    assert looked.count(Layer) == 1
    Layer.size = 2
    assert descriptions.describe(Layer) != first[0]
    with descriptions.memoized():
        assert descriptions.describe(Layer) != first[0]


@pytest.mark.parametrize("slot", [type.__call__, type.__init__, type.__repr__])
def test_a_slot_bound_to_a_class_of_pybinds_has_no_description(slot):
    """A method wrapper of a pybind11 class has no module, so the entry is not stored, without a warning."""
    with pytest.raises(NotStorable):
        describe(slot.__get__(torch._C._SDPBackend))


def test_a_namespace_of_operators_is_described():
    """``torch.ops.aten`` has a description, although ``sys.modules`` does not contain it."""
    assert alike(describe(torch.ops.aten), describe(torch.ops.aten))
    assert not alike(describe(torch.ops.aten), describe(torch.ops.prims))
    with pytest.raises(NotStorable):
        describe(type(torch.ops.aten)("aten"))


def test_getters_of_pybind_are_described_by_class_and_property():
    """Such functions in C++ have no name, and two of them can have the same text."""
    for cls, names in (
        (torch._C._profiler._ExtraFields_TorchOp, ("scope", "name", "inputs")),
        (torch._C._SDPAParams, ("query", "key")),
    ):
        descriptions = [describe(vars(cls)[name].fget) for name in names]
        assert [each[-1] for each in descriptions] == list(names)
