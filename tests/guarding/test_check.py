"""Guards at run time: the C++ tree agrees with the predicates in Python, and every guard has an effect."""

from __future__ import annotations

import builtins
import collections
import gc
import math
import types
import weakref
from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings, strategies as st

from nbcompile.capture.frame import Frame
from nbcompile.capture.guard import Guard, GuardKind, ShapeGuards, TensorFacts, TensorMarks
from nbcompile.capture.resolution import Scope, resolve
from nbcompile.capture.source import (
    AttrSource,
    BuiltinSource,
    CellSource,
    ClassMemberSource,
    ConstantSource,
    GlobalSource,
    ItemSource,
    KeySource,
    LocalSource,
    MethodFunctionSource,
    ModuleSource,
    SizeSource,
    Source,
    TypeSource,
    ValueSource,
)
from nbcompile.guarding.check import FrameCheck, GuardsDoNotHold, build_check
from nbcompile.guarding.explain import describe
from tests.guarding import in_c

K = GuardKind
V = LocalSource("v")
W = LocalSource("w")


def function(v=None, w=None):
    return v, w


def frame_of(v=None, w=None, names=None) -> Frame:
    return Frame(function.__code__, {"v": v, "w": w}, {} if names is None else names, vars(builtins))


def marks_of(tensor: torch.Tensor) -> TensorMarks:
    """The dynamic and static marks of a tensor, as the guard expects them."""
    names = [f"_dynamo_{kind}_indices" for kind in ("dynamic", "weak_dynamic", "unbacked", "strict_unbacked", "static")]
    present = tuple((name, frozenset(getattr(tensor, name))) for name in names if hasattr(tensor, name))
    return TensorMarks(present, tuple(name for name in names if not hasattr(tensor, name)))


def agree(check: FrameCheck, scope: Scope) -> bool:
    """The result of the check, after an assertion that C++, Python and the explanation agree."""
    fast, slow, failure = check.holds(scope), check.holds_slowly(scope), check.failure(scope, "0/0")
    assert fast == slow == (failure is None), (fast, slow, failure)
    assert in_c.agrees(check, scope, fast), "the instructions for fast_call.c say another thing"
    return fast


class Point:
    def __init__(self, x: object) -> None:
        self.x = x

    def length(self) -> object:
        return self.x


class FarPoint(Point):
    pass


class Touchy:
    """An object that raises an error for every access."""

    def __getattr__(self, name: str) -> object:
        raise RuntimeError("do not look")

    def __len__(self) -> int:
        raise RuntimeError("do not measure")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("do not compare")

    __hash__ = None  # type: ignore[assignment]


class Table(dict):
    pass


def adder(n):
    return lambda x: x + n


def marked(dims):
    tensor = torch.ones(3, 3)
    torch._dynamo.mark_dynamic(tensor, dims)
    return tensor


def retaining():
    tensor = LINEAR.weight * 1
    tensor.retain_grad()
    return tensor


ONES = torch.ones(2, 3)
LINEAR = torch.nn.Linear(2, 2)


# kind, expected, the traced value, values for which it still holds, values for which it does not
class Flattened:
    """A class that flattens like a wrapper tensor, with metadata besides its tensors."""

    def __init__(self, beside):
        self.beside = beside

    def __tensor_flatten__(self):
        return [], self.beside


class Asked:
    """A class that defines ``__getattribute__``."""

    def __getattribute__(self, name):
        return super().__getattribute__(name)


class Maker(type):
    y = 1


class MadeByHand(metaclass=Maker):
    """A class whose metaclass has an attribute."""


def with_own(value, name):
    """A value with one more attribute."""
    setattr(value, name, 1)
    return value


CASES: list[tuple[GuardKind, object, object, list[object], list[object]]] = [
    (K.TENSOR_SUBCLASS_METADATA_MATCH, {"a": 1}, Flattened({"a": 1}), [Flattened({"a": 1})], [Flattened({"a": 2}), 1]),
    (K.TYPE_MATCH, int, 3, [4, -1], [True, 3.0, "3", None, [3]]),
    (K.TYPE_MATCH, list, [1], [[], [2, 3]], [(1,), {1}, {1: 1}]),
    (K.TYPE_MATCH, Point, Point(1), [Point(2)], [FarPoint(1), Point]),
    (K.ID_MATCH, LINEAR, LINEAR, [], [torch.nn.Linear(2, 2), None]),
    (K.ID_MATCH, torch.float32, torch.float32, [torch.float], [torch.float64, torch.int64]),
    (K.ID_MATCH, len, len, [], [max, None]),
    (K.NONE_MATCH, None, None, [], [0, False, [], "", ONES]),
    (K.BOOL_MATCH, True, True, [], [False, 1, "x"]),
    (K.BOOL_MATCH, False, False, [], [True, 0, None]),
    (K.EQUALS_MATCH, 3, 3, [int("3")], [4, 3.0, True, "3"]),
    (K.EQUALS_MATCH, 1, 1, [], [True, 1.0]),
    (K.EQUALS_MATCH, 10**30, 10**30, [10**29 * 10], [10**30 + 1]),
    (K.EQUALS_MATCH, "abc", "abc", ["ab" + "c"], ["abd", b"abc"]),
    (K.EQUALS_MATCH, 0.5, 0.5, [1 / 2], [0.25, math.nan, 1]),
    (K.EQUALS_MATCH, 0.0, 0.0, [0 * 1.0], [-0.0, 0, False]),
    (K.EQUALS_MATCH, 1 + 0j, 1 + 0j, [complex(1)], [1.0, complex(1, -0.0), 1 + 2j]),
    (K.EQUALS_MATCH, torch.float32, torch.float32, [], [torch.float64]),
    (K.EQUALS_MATCH, torch.device("cpu"), torch.device("cpu"), [torch.device("cpu")], [torch.device("meta"), "cpu"]),
    (K.EQUALS_MATCH, torch.Size([2, 3]), torch.Size([2, 3]), [ONES.shape], [(2, 3), torch.Size([3, 2])]),
    (K.EQUALS_MATCH, (1, "a", None), (1, "a", None), [(1, "a", None)], [(True, "a", None), (1, "a"), [1, "a", None]]),
    (K.EQUALS_MATCH, ((1,), 2), ((1,), 2), [((1,), 2)], [((1.0,), 2), ((1, 1), 2)]),
    (K.EQUALS_MATCH, (0.0,), (0.0,), [(0.0,)], [(-0.0,), (0,), (False,)]),
    (K.EQUALS_MATCH, (1, (2.0, "a")), (1, (2.0, "a")), [(1, (2.0, "a"))], [(True, (2.0, "a")), (1, (2, "a")), (1,)]),
    (K.EQUALS_MATCH, slice(0, 2), slice(0, 2), [slice(0, 2, None)], [slice(0, 3), slice(0, 2, 1), slice(False, 2)]),
    (K.EQUALS_MATCH, frozenset({1}), frozenset({1}), [frozenset([1])], [frozenset({True}), frozenset({2}), {1}]),
    (K.FUNCTION_MATCH, adder, adder, [], [len, None, 3]),
    (K.FUNCTION_MATCH, adder(1), adder(1), [adder(2)], [adder, lambda x: x]),
    (K.FUNCTION_MATCH, len, len, [], [adder, max]),
    (K.FUNCTION_MATCH, Point(1).length, Point(1).length, [Point(2).length], [Point(1).__init__]),
    (K.NAN_MATCH, math.nan, math.nan, [float("nan"), -math.nan], [0.0, 1, None, complex("nan")]),
    (K.NAN_MATCH, complex("nan"), complex("nan"), [complex("-nan")], [math.nan, 1j, complex("nanj"), complex(math.nan, 2)]),
    (K.SEQUENCE_LENGTH, 2, [1, 2], [[3, 4]], [[], [1], (1, 2), {1: 1, 2: 2}, "ab", Touchy()]),
    (K.SEQUENCE_LENGTH, 0, (), [()], [(1,), [], ""]),
    (K.SEQUENCE_LENGTH, 2, {1, 2}, [{3, 4}], [{1}, [1, 2], frozenset({1, 2})]),
    (K.SEQUENCE_LENGTH, 1, collections.deque([1]), [collections.deque([2])], [collections.deque(), [1]]),
    (K.SEQUENCE_LENGTH, 3, range(3), [range(1, 4)], [range(4), [0, 1, 2]]),
    (K.SEQUENCE_LENGTH, 1, {"a": 1}, [{"b": 1}, Table(a=1)], [{}, ["a"]]),
    (K.DICT_LENGTH, 1, {"a": 1}, [{"b": 1}], [{}, {"a": 1, "b": 2}, ["a"], Touchy()]),
    (K.DICT_LENGTH, 0, Table(), [{}], [Table(a=1), []]),
    (K.DICT_KEYS, ("a", "b"), {"a": 1, "b": 2}, [{"a": 3, "b": 4}], [{"b": 1, "a": 2}, {"a": 1}, ["a", "b"], ONES]),
    (K.DICT_KEYS, (1,), {1: 0}, [{1: 5}], [{True: 0}, {1.0: 0}, {}, Touchy()]),
    (K.DICT_KEYS, (), {}, [Table()], [{"a": 1}, [], None]),
    (K.DICT_KEYS, ("a",), Table(a=1), [Table(a=2)], [Table(b=2), 3]),
    (K.DICT_CONTAINS, ("a", True), {"a": 1}, [{"a": 2, "b": 3}], [{}, {"b": 1}, [], ["a"], Touchy()]),
    (K.DICT_CONTAINS, ("a", False), {}, [{"b": 1}], [{"a": 1}, ["b"], Touchy()]),
    (
        K.DICT_CONTAINS, ("a", True), types.MappingProxyType({"a": 1}), [types.MappingProxyType({"a": 2})],
        [types.MappingProxyType({}), 3, Touchy()],
    ),
    (K.SET_CONTAINS, (1, True), {1, 2}, [{1}], [set(), {2}, [1], {1: 1}, frozenset({1})]),
    (K.SET_CONTAINS, ("a", False), frozenset(), [frozenset({"b"})], [frozenset({"a"}), {"a"}, ["b"]]),
    (
        K.SET_MEMBERS, frozenset((1, 2)), {1, 2}, [{2, 1}],
        [set(), {1}, {1, 3}, {True, 2}, {1.0, 2}, frozenset((1, 2)), [1, 2], {1, 2, 3}],
    ),
    (
        K.SET_MEMBERS, frozenset((1, "a", None)), frozenset((1, "a", None)), [frozenset((None, "a", 1))],
        [frozenset((True, "a", None)), {1, "a", None}, frozenset((1, "a"))],
    ),
    (K.SET_ORDER, (8, 0), {8, 0}, [{8, 0}], [{0, 8}, {8}, {8, False}, frozenset((8, 0)), [8, 0]]),
    (K.SUBCLASSES, ((dict, Mapping, True), (int, Mapping, False)), 5, [6, None], []),
    (K.HASATTR, ("x", True), Point(1), [Point(2), FarPoint(1)], [3, Point, Touchy()]),
    (K.HASATTR, ("y", False), Point(1), [3, Point], []),
    (K.HASATTR, ("y", False), Point(1), [Point(2)], [with_own(Point(1), "y")]),
    (K.HASATTR, ("weight", False), torch.nn.ReLU(), [torch.nn.ReLU()], [LINEAR, with_own(torch.nn.ReLU(), "weight")]),
    (K.HASATTR, ("nothing", False), torch.ones(2), [torch.ones(3)], [with_own(torch.ones(2), "nothing")]),
    (K.HASATTR, ("y", False), Point, [FarPoint], [type("Y", (Point,), {"y": 1}), MadeByHand]),
    (K.HASATTR, ("z", False), Asked(), [Asked()], [type("Z", (Asked,), {"z": 1})()]),
    (K.SET_CONTAINS, (dict, True), {dict, list}, [{dict}], [set(), {list}, [dict], {dict: 1}, frozenset({dict})]),
    (K.DICT_CONTAINS, (dict, True), {dict: 1}, [{dict: 2}], [{}, {list: 1}, [dict], {dict}]),
    (K.NOT_IN_GENERIC_DICT, "forward", LINEAR, [torch.nn.ReLU()], [3, None]),
    (K.TUPLE_ITERATOR_LEN, 2, iter((1, 2)), [iter((3, 4))], [iter(()), iter([1, 2]), (1, 2), iter((1, 2, 3))]),
    (K.RANGE_ITERATOR_MATCH, (0, 3, 1), iter(range(3)), [iter(range(3))], [iter(range(1, 3)), iter(()), range(3)]),
    (
        K.TENSOR_MATCH, TensorFacts((2, 3), (3, 1)), ONES, [torch.zeros(2, 3)],
        [
            torch.ones(3, 3), torch.ones(2, 4), torch.ones(3, 2).t(), ONES.double(),
            torch.ones(2, 3, requires_grad=True), ONES.to("meta"), torch.nn.Parameter(ONES), torch.ones(6),
            3, None, ONES.to_sparse(), torch.ones(2, 3, 1),
        ],
    ),
    (
        K.TENSOR_MATCH, TensorFacts((None, 3), (3, 1)), ONES, [torch.ones(5, 3), torch.ones(1, 3)],
        [torch.ones(2, 4), torch.ones(3)],
    ),
    (K.TENSOR_MATCH, TensorFacts((2, 3), None), ONES, [torch.ones(3, 2).t()], [torch.ones(2, 4)]),
    (
        K.TENSOR_MATCH, TensorFacts((), ()), torch.tensor(1.0), [torch.tensor(2.0)],
        [torch.ones(1), torch.tensor(1), torch.ones(3), torch.ones(2, 3), torch.ones(0)],
    ),
    (K.TENSOR_MATCH, TensorFacts((), None), torch.tensor(1.0), [torch.tensor(2.0)], [torch.ones(1), torch.ones(0)]),
    (K.TENSOR_MATCH, TensorFacts((0,), (1,)), torch.ones(0), [torch.zeros(0)], [torch.tensor(1.0), torch.ones(0, 1)]),
    (K.TENSOR_PROPERTY, ("is_leaf", True), ONES, [LINEAR.weight], [LINEAR.weight * 1, 3, None]),
    (K.TENSOR_PROPERTY, ("is_leaf", False), LINEAR.weight * 1, [LINEAR.weight.view(-1)], [LINEAR.weight, ONES, "x"]),
    (K.TENSOR_PROPERTY, ("retains_grad", False), ONES, [LINEAR.weight * 1], [retaining(), 3]),
    (K.TENSOR_PROPERTY, ("is_shared", False), torch.ones(2), [ONES], [torch.ones(2).share_memory_(), None]),
    (K.TENSOR_PROPERTY, ("_is_view", True), ONES[:1], [ONES.view(-1)], [ONES.clone(), 3]),
    (K.DIMENSION_MARKING, marks_of(ONES), torch.ones(3, 3), [torch.zeros(1)], [marked([0]), marked([0, 1])]),
    (
        K.DIMENSION_MARKING, marks_of(marked([0])), marked([0]), [torch.ones(3, 3), marked([0])],
        [marked([0, 1]), marked([1])],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "expected", "traced", "good", "bad"), CASES)
def test_each_kind(kind, expected, traced, good, bad):
    """The guard holds for the traced value and similar ones, and fails for all others; C++ and Python agree."""
    check = build_check((Guard(V, kind, expected),), frame_of(traced))
    for value in (traced, *good):
        assert agree(check, frame_of(value).scope()), value
    for value in bad:
        assert not agree(check, frame_of(value).scope()), value
    missing = Scope(function.__code__, {}, {}, {})
    assert not agree(check, missing), "an address that leads nowhere does not hold"


PROMISES_NO_CLASS = {
    K.HASATTR, K.NOT_IN_GENERIC_DICT, K.DIMENSION_MARKING, K.DICT_LENGTH, K.DICT_KEYS, K.FUNCTION_MATCH,
    K.TENSOR_PROPERTY, K.SUBCLASSES,
}  # fmt: skip
KINDS_THAT_READ_THE_VALUE = {
    K.SEQUENCE_LENGTH, K.DICT_CONTAINS, K.SET_CONTAINS, K.SET_MEMBERS, K.SET_ORDER, K.TUPLE_ITERATOR_LEN, K.RANGE_ITERATOR_MATCH, K.TENSOR_MATCH,
    K.FUNCTION_MATCH,
}  # fmt: skip
"""These guards include the class of the value, which the store compares before (fast/disk_cache/addresses.py)."""


@pytest.mark.parametrize(("kind", "expected", "traced", "good", "bad"), CASES)
def test_each_kind_built_from_another_value(kind, expected, traced, good, bad):
    """A tree that is built from another value, as by the store, has the same meaning, or is not built."""
    for other in good:
        check = build_check((Guard(V, kind, expected),), frame_of(other))
        of_class = [value for value in (traced, *good) if type(value) is type(other) or kind in PROMISES_NO_CLASS]
        for value in of_class:
            assert agree(check, frame_of(value).scope()), (other, value)
        for value in bad:
            assert not agree(check, frame_of(value).scope()), (other, value)
    for other in bad:
        if kind in KINDS_THAT_READ_THE_VALUE and not has_promised_kind(other, traced):
            continue
        with pytest.raises((GuardsDoNotHold, TypeError)):  # TypeError: torch cannot build the guard
            build_check((Guard(V, kind, expected),), frame_of(other))


def has_promised_kind(value, traced):
    """True if two values are equal in the properties that a guard reads from the current value."""
    if type(value) is not type(traced):
        return False
    if isinstance(value, torch.Tensor):
        keys = [torch._C._dispatch_keys(each).raw_repr() for each in (value, traced)]
        like = [(each.dtype, each.device, each.requires_grad, each.layout) for each in (value, traced)]
        return keys[0] == keys[1] and like[0] == like[1]
    return True


def test_every_kind_is_tested():
    """The cases above and the ambient guards below cover all kinds."""
    ambient = {
        K.OBJECT_ALIASING, K.NO_OBJECT_ALIASING, K.NO_TENSOR_ALIASING, K.SHAPE_ENV, K.GLOBAL_STATE,
        K.TORCH_FUNCTION_MODE_STACK, K.DEFAULT_DEVICE, K.SAVED_TENSORS_HOOKS, K.TRANSFORMS,
    }  # fmt: skip
    assert {case[0] for case in CASES} | ambient == set(GuardKind)


def nested(tensor):
    return {"list": [1, [2, tensor]], "tuple": (3, "x"), "point": Point(Point(7)), "module": torch.nn.Linear(2, 2)}


NAMES = {"scale": 5, "point": Point(3), "add": adder(4)}
SOURCES: list[tuple[Source, GuardKind]] = [
    (V, K.TYPE_MATCH),
    (ItemSource(ItemSource(V, "list"), 0), K.EQUALS_MATCH),
    (ItemSource(ItemSource(V, "list"), -2), K.EQUALS_MATCH),
    (ItemSource(ItemSource(ItemSource(V, "list"), 1), 1), K.TENSOR_MATCH),
    (ItemSource(ItemSource(V, "tuple"), 1), K.EQUALS_MATCH),
    (ItemSource(ItemSource(V, "tuple"), -1), K.EQUALS_MATCH),
    (AttrSource(AttrSource(ItemSource(V, "point"), "x"), "x"), K.EQUALS_MATCH),
    (AttrSource(ItemSource(V, "module"), "weight"), K.TENSOR_MATCH),
    (AttrSource(ItemSource(V, "module"), "training"), K.BOOL_MATCH),
    (ItemSource(AttrSource(ItemSource(V, "module"), "_parameters"), "bias"), K.TENSOR_MATCH),
    (AttrSource(ItemSource(V, "module"), "in_features"), K.EQUALS_MATCH),
    (AttrSource(ItemSource(V, "module"), "forward"), K.FUNCTION_MATCH),
    (MethodFunctionSource(ItemSource(V, "module"), "forward"), K.FUNCTION_MATCH),
    (MethodFunctionSource(ItemSource(V, "point"), "length"), K.FUNCTION_MATCH),
    (ClassMemberSource(TypeSource(ItemSource(V, "module")), "__call__"), K.FUNCTION_MATCH),
    (ClassMemberSource(TypeSource(ItemSource(V, "module")), "forward", 1), K.FUNCTION_MATCH),
    (TypeSource(ItemSource(V, "point")), K.ID_MATCH),
    (KeySource(V, 1), K.EQUALS_MATCH),
    (GlobalSource("scale"), K.EQUALS_MATCH),
    (AttrSource(GlobalSource("point"), "x"), K.EQUALS_MATCH),
    (CellSource(GlobalSource("add"), "n", 0), K.EQUALS_MATCH),
    (AttrSource(GlobalSource("add"), "__code__"), K.ID_MATCH),
    (BuiltinSource("len"), K.ID_MATCH),
    (ModuleSource("math"), K.ID_MATCH),
    (AttrSource(ModuleSource("math"), "pi"), K.EQUALS_MATCH),
    (ConstantSource("seven", 7), K.EQUALS_MATCH),
    (SizeSource(ItemSource(ItemSource(ItemSource(V, "list"), 1), 1), "size", 1), K.EQUALS_MATCH),
    (SizeSource(ItemSource(ItemSource(ItemSource(V, "list"), 1), 1), "stride", 0), K.EQUALS_MATCH),
    (SizeSource(ItemSource(ItemSource(ItemSource(V, "list"), 1), 1), "storage_offset"), K.EQUALS_MATCH),
]


def promise(source: Source, kind: GuardKind, scope: Scope) -> Guard:
    """A guard of a kind that holds for the current value of a source."""
    value = resolve(source, scope)
    if kind is K.TENSOR_MATCH:
        return Guard(source, kind, TensorFacts(tuple(value.shape), tuple(value.stride())))
    return Guard(source, kind, type(value) if kind is K.TYPE_MATCH else value)


def changes():
    """Every change of the nested value, one at a time: a name, and a function that applies it."""

    def override(value, names):
        value["module"].forward = lambda x: x

    return {
        "nothing": lambda value, names: None,
        "list item": lambda value, names: value["list"].__setitem__(0, 9),
        "list gone": lambda value, names: value.pop("list"),
        "list becomes tuple": lambda value, names: value.__setitem__("list", tuple(value["list"])),
        "list shorter": lambda value, names: value["list"].pop(),
        "tensor": lambda value, names: value["list"][1].__setitem__(1, torch.ones(2, 4)),
        "tensor view": lambda value, names: value["list"][1].__setitem__(1, torch.ones(9)[3:].view(2, 3)),
        "tuple": lambda value, names: value.__setitem__("tuple", (3, "y")),
        "attribute": lambda value, names: setattr(value["point"].x, "x", 8),
        "attribute gone": lambda value, names: delattr(value["point"], "x"),
        "class": lambda value, names: value.__setitem__("point", FarPoint(Point(7))),
        "none": lambda value, names: value.__setitem__("point", None),
        "module": lambda value, names: value.__setitem__("module", torch.nn.Linear(2, 3)),
        "module is none": lambda value, names: value.__setitem__("module", None),
        "eval": lambda value, names: value["module"].eval(),
        "no bias": lambda value, names: setattr(value["module"], "bias", None),
        "weight gone": lambda value, names: delattr(value["module"], "weight"),
        "weight in __dict__": lambda value, names: vars(value["module"]).__setitem__("weight", 3),
        "forward": override,
        "frozen": lambda value, names: value["module"].requires_grad_(False),
        "order": lambda value, names: value.__setitem__("list", value.pop("list")),
        "global": lambda value, names: names.__setitem__("scale", 6),
        "global gone": lambda value, names: names.pop("scale"),
        "global object": lambda value, names: names.__setitem__("point", Point(4)),
        "closure": lambda value, names: names.__setitem__("add", adder(5)),
        "other function": lambda value, names: names.__setitem__("add", function),
        "no function": lambda value, names: names.__setitem__("add", 3),
        "builtin shadowed": lambda value, names: names.__setitem__("len", len),
    }


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_tree_means_what_resolve_means(data):
    """C++ agrees with the predicates in Python, for random sets of guards and random changes of nested values."""
    chosen = data.draw(st.lists(st.sampled_from(SOURCES), min_size=1, max_size=8, unique=True))
    what = data.draw(st.lists(st.sampled_from(sorted(changes())), min_size=1, max_size=3))
    value, names = nested(torch.ones(2, 3)), dict(NAMES)
    frame = frame_of(value, names=names)
    scope = frame.scope()
    check = build_check(tuple(promise(source, kind, scope) for source, kind in chosen), frame)
    assert agree(check, scope)
    for change in what:
        try:
            changes()[change](value, names)
        except (KeyError, AttributeError, TypeError, IndexError):
            continue  # an earlier change removed the object
        agree(check, scope)


@pytest.mark.parametrize("change", [change for change in changes() if change != "nothing"])
def test_every_change_is_noticed(change):
    """The check rejects each single change if every source has a guard."""
    value, names = nested(torch.ones(2, 3)), dict(NAMES)
    frame = frame_of(value, names=names)
    scope = frame.scope()
    check = build_check(tuple(promise(source, kind, scope) for source, kind in SOURCES), frame)
    assert agree(check, scope)
    changes()[change](value, names)
    assert not agree(check, scope)


def test_a_patched_class_is_noticed():
    """A method that is patched on the class or a base, or newly defined in between, fails the guard."""

    class Base:
        def run(self):
            return 1

    class Middle(Base):
        pass

    class Derived(Middle):
        pass

    value = Derived()
    frame = frame_of(value)
    check = build_check((promise(MethodFunctionSource(V, "run"), K.FUNCTION_MATCH, frame.scope()),), frame)
    assert agree(check, frame_of(value).scope())
    Middle.run = lambda self: 2
    assert not agree(check, frame_of(value).scope())
    del Middle.run
    assert agree(check, frame_of(value).scope())
    original = Base.run
    Base.run = lambda self: 3
    assert not agree(check, frame_of(value).scope())
    Base.run = original
    assert agree(check, frame_of(value).scope())


def test_an_unchanged_dict_hides_no_change():
    """A change of a list inside an unchanged dict fails the next check."""
    value = {"a": [1], "b": 2}
    guards = (Guard(ItemSource(ItemSource(V, "a"), 0), K.EQUALS_MATCH, 1), Guard(ItemSource(V, "b"), K.EQUALS_MATCH, 2))
    check = build_check(guards, frame_of(value))
    for _ in range(3):
        assert agree(check, frame_of(value).scope())
    value["a"][0] = 5
    assert not agree(check, frame_of(value).scope())


def everything(frame: Frame) -> tuple[Guard, ...]:
    """One guard of every kind that fits a frame with ``v`` as a nested value and ``w`` as a tensor."""
    scope = frame.scope()
    tensor = ItemSource(ItemSource(ItemSource(V, "list"), 1), 1)
    return (
        *(promise(source, kind, scope) for source, kind in SOURCES),
        Guard(W, K.TENSOR_MATCH, TensorFacts((None, 3), (3, 1))),
        Guard(W, K.DIMENSION_MARKING, TensorMarks((), ("_dynamo_dynamic_indices",))),
        Guard(V, K.DICT_LENGTH, 4),
        Guard(V, K.DICT_KEYS, ("list", "tuple", "point", "module")),
        Guard(V, K.DICT_CONTAINS, ("list", True)),
        Guard(V, K.DICT_CONTAINS, ("nothing", False)),
        Guard(ItemSource(V, "list"), K.SEQUENCE_LENGTH, 2),
        Guard(ItemSource(V, "point"), K.HASATTR, ("x", True)),
        Guard(ItemSource(V, "point"), K.HASATTR, ("y", False)),
        Guard(ItemSource(V, "module"), K.NOT_IN_GENERIC_DICT, "forward"),
        Guard(None, K.NO_TENSOR_ALIASING, (W, tensor)),
        Guard(None, K.SHAPE_ENV, ShapeGuards(("2 <= L['w'].size()[0]", "L['w'].size()[0] <= 30"), (W,))),
        Guard(None, K.GLOBAL_STATE),
        Guard(None, K.TORCH_FUNCTION_MODE_STACK, ()),
        Guard(None, K.DEFAULT_DEVICE),
        Guard(None, K.SAVED_TENSORS_HOOKS),
        Guard(None, K.TRANSFORMS, ()),
    )


def promised(guard: Guard) -> tuple[object, ...]:
    """A guard as a key; that of a function contains its code."""
    if guard.kind is K.FUNCTION_MATCH:
        return guard.source, guard.kind, id(getattr(guard.expected, "__code__", guard.expected))
    return guard.key()


def negated(guard: Guard) -> Guard | None:
    """The same guard with an expectation that the traced values do not satisfy; None if its kind has none."""
    match guard.kind:
        case K.TYPE_MATCH:
            return replace(guard, expected=bytes)
        case K.ID_MATCH | K.EQUALS_MATCH | K.FUNCTION_MATCH:
            return replace(guard, expected=adder if guard.kind is K.FUNCTION_MATCH else "something else")
        case K.BOOL_MATCH:
            return replace(guard, expected=not guard.expected)
        case K.TENSOR_MATCH:
            facts = guard.expected
            return replace(guard, expected=TensorFacts(tuple(99 for _ in facts.sizes), facts.strides))
        case K.SEQUENCE_LENGTH | K.DICT_LENGTH:
            return replace(guard, expected=guard.expected + 1)
        case K.SET_ORDER:
            return replace(guard, expected=("something else",))
        case K.SET_MEMBERS:
            return replace(guard, expected=frozenset(["something else"]))
        case K.DICT_KEYS:
            return replace(guard, expected=tuple(reversed(guard.expected)))
        case K.DICT_CONTAINS | K.SET_CONTAINS | K.HASATTR:
            return replace(guard, expected=(guard.expected[0], not guard.expected[1]))
        case K.NOT_IN_GENERIC_DICT:
            return replace(guard, expected="training")
        case K.NO_TENSOR_ALIASING:
            return replace(guard, expected=(W, W))
        case K.SHAPE_ENV:
            return replace(guard, expected=ShapeGuards(("L['w'].size()[0] <= 1",), (W,)))
        case K.TORCH_FUNCTION_MODE_STACK:
            return replace(guard, expected=(object(),))
        case K.TRANSFORMS:
            return replace(guard, expected=(("Vmap", 1),))
        case _:
            return None


def test_negating_any_one_guard_makes_the_lookup_miss():
    """A check with one negated guard rejects the call, and names that guard."""
    frame = frame_of(nested(torch.ones(2, 3)), torch.ones(2, 3), dict(NAMES))
    guards = everything(frame)
    assert agree(build_check(guards, frame), frame.scope())
    turned = 0
    for index, guard in enumerate(guards):
        opposite = negated(guard)
        if opposite is None:
            continue
        turned += 1
        with pytest.raises(GuardsDoNotHold):
            build_check((*guards[:index], opposite, *guards[index + 1 :]), frame)
    assert turned == len(guards) - 4, "all but three of the process and the marks have an opposite expectation"


def test_the_list_is_what_runs():
    """``check.guards`` has each given guard once; ``describe`` lists them in the same order."""
    frame = frame_of(nested(torch.ones(2, 3)), torch.ones(2, 3), dict(NAMES))
    guards = everything(frame)
    check = build_check((*guards, *guards), frame)
    assert {guard.kind for guard in check.guards} == {guard.kind for guard in guards}
    given, kept = ([promised(guard) for guard in each] for each in (guards, check.guards))
    assert set(given) <= set(kept)
    assert {kind for _, kind, *_ in set(kept) - set(given)} == {K.TYPE_MATCH}
    assert len(kept) == len(set(kept))
    entries = describe(check, "0/0")
    assert [entry.id for entry in entries] == [f"0/0.g{index}" for index in range(len(check.guards))]
    assert all(entry.condition and entry.words for entry in entries)
    assert entries == describe(build_check(guards, frame), "0/0")


class TestProcessState:
    """Guards on the process state: a check rejects a change while it lasts, and accepts the old state again."""

    @pytest.mark.parametrize(
        "inside",
        [torch.no_grad, torch.inference_mode, lambda: torch.autocast("cpu"), lambda: torch._C.DisableTorchFunction()],
        ids=["no_grad", "inference_mode", "autocast", "disable_torch_function"],
    )
    def test_modes_of_torch(self, inside):
        frame = frame_of()
        check = build_check((Guard(None, K.GLOBAL_STATE),), frame)
        assert agree(check, frame.scope())
        with inside():
            assert not agree(check, frame.scope())
            assert check.failure(frame.scope(), "0/0").reason.startswith("GLOBAL_STATE changed: ")
        assert agree(check, frame.scope())

    def test_default_dtype_and_threads(self):
        frame = frame_of()
        check = build_check((Guard(None, K.GLOBAL_STATE),), frame)
        threads = torch.get_num_threads()
        try:
            torch.set_default_dtype(torch.float64)
            assert not agree(check, frame.scope())
            torch.set_default_dtype(torch.float32)
            torch.set_num_threads(threads + 1)
            assert not agree(check, frame.scope())
        finally:
            torch.set_default_dtype(torch.float32)
            torch.set_num_threads(threads)
        assert agree(check, frame.scope())

    def test_function_modes_and_default_device(self):
        frame = frame_of()
        check = build_check((Guard(None, K.TORCH_FUNCTION_MODE_STACK, ()), Guard(None, K.DEFAULT_DEVICE)), frame)
        assert agree(check, frame.scope())
        mode = type("Mode", (torch.overrides.TorchFunctionMode,), {})()
        with mode:
            assert not agree(check, frame.scope())
            inside = build_check((Guard(None, K.TORCH_FUNCTION_MODE_STACK, (mode,)),), frame)
            assert agree(inside, frame.scope())
        assert not agree(inside, frame.scope())
        device = build_check((Guard(None, K.DEFAULT_DEVICE),), frame)
        try:
            torch.set_default_device("meta")
            assert not agree(device, frame.scope())
        finally:
            torch.set_default_device(None)
        assert agree(device, frame.scope())

    def test_saved_tensor_hooks(self):
        frame = frame_of()
        check = build_check((Guard(None, K.SAVED_TENSORS_HOOKS),), frame)
        assert agree(check, frame.scope())
        with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
            assert agree(check, frame.scope())  # autograd calls these, for every graph
        same = torch.fx.symbolic_trace(lambda x: x.clone())
        with torch.autograd.graph.saved_tensors_hooks(same, same):  # these would be traced into the graph
            assert not agree(check, frame.scope())
            inside = build_check((Guard(None, K.SAVED_TENSORS_HOOKS),), frame)
            assert agree(inside, frame.scope())
        assert agree(check, frame.scope())
        assert not agree(inside, frame.scope())


def test_transforms():
    """A cache entry is valid only with the transforms that were active while it was traced."""
    frame = frame_of()
    checks = [build_check((Guard(None, K.TRANSFORMS, ()),), frame)]
    seen = []

    def build(x):
        # A check can be built only where its guards hold.
        checks.append(build_check((Guard(None, K.TRANSFORMS, (("Functionalize", 1),)),), frame))
        return x

    def look(x):
        seen.append(tuple(agree(check, frame.scope()) for check in checks))
        return x

    torch.func.functionalize(build)(torch.ones(2))
    look(None)
    torch.func.functionalize(look)(torch.ones(2))
    torch.func.vmap(look)(torch.ones(2))
    assert seen == [(True, False), (False, True), (False, False)]


def test_aliasing():
    """Guards that two sources have one object, and that they have different objects."""
    x = torch.ones(2)
    same = build_check((Guard(V, K.OBJECT_ALIASING, W),), frame_of(x, x))
    different = build_check((Guard(None, K.NO_TENSOR_ALIASING, (V, W)),), frame_of(x, torch.ones(2)))
    apart = build_check((Guard(None, K.NO_OBJECT_ALIASING, (V, W)),), frame_of([1], [1]))
    same_list = [1]
    for _ in range(2):  # relational guards have state between two sources, which must be cleared
        assert agree(apart, frame_of([1], [1]).scope())
        assert not agree(apart, frame_of(same_list, same_list).scope())
        assert agree(same, frame_of(x, x).scope())
        assert not agree(same, frame_of(x, torch.ones(2)).scope())
        assert agree(different, frame_of(x, torch.ones(2)).scope())
        assert not agree(different, frame_of(x, x).scope())
    assert different.failure(frame_of(x, x).scope(), "0/0").reason == 'Duplicate tensors found: ["v", "w"]'
    both = build_check(
        (
            Guard(None, K.NO_TENSOR_ALIASING, (ItemSource(V, 0), ItemSource(W, 0))),
            Guard(None, K.NO_OBJECT_ALIASING, (V, W)),
        ),
        frame_of([x], [torch.ones(2)]),
    )
    same_list = [x]
    assert both.failure(frame_of([x], [x]).scope(), "").reason == 'Duplicate tensors found: ["v[0]", "w[0]"]'
    for each in (both, apart):
        assert not agree(each, frame_of(same_list, same_list).scope())
    guard = Guard(ItemSource(V, "a"), K.OBJECT_ALIASING, ItemSource(V, "b"))
    names = build_check((guard,), frame_of({"a": 5, "b": 5}))
    assert agree(names, frame_of({"a": 5, "b": 5}).scope())
    assert not agree(names, frame_of({"a": 5, "b": 6}).scope())


def test_shape_relations():
    """SHAPE_ENV expressions are evaluated together; the reason is the first that fails."""
    expressions = ("L['v'].size()[0] == L['w'].size()[1]", "2 <= L['v'].size()[0]", "L['w'].size()[1] % 2 == 0")
    guards = (
        Guard(V, K.TENSOR_MATCH, TensorFacts((None,), (1,))),
        Guard(W, K.TENSOR_MATCH, TensorFacts((1, None), (None, 1))),
        Guard(None, K.SHAPE_ENV, ShapeGuards(expressions, (V, W))),
    )
    check = build_check(guards, frame_of(torch.ones(4), torch.ones(1, 4)))
    for v, w, reason in [(6, 6, None), (6, 4, 0), (0, 0, 1), (3, 3, 2)]:
        scope = frame_of(torch.ones(v), torch.ones(1, w)).scope()
        assert agree(check, scope) == (reason is None)
        if reason is not None:
            text = expressions[reason].replace("L['v']", "v").replace("L['w']", "w")
            assert check.failure(scope, "0/0").reason == text
    assert not agree(check, frame_of(3, torch.ones(1, 4)).scope())


def test_a_guard_that_rejects_the_traced_values_is_an_error():
    """A guard that fails for the traced values is an error of the compiler, and is reported at once."""
    with pytest.raises(GuardsDoNotHold, match="v == 4"):
        build_check((Guard(V, K.EQUALS_MATCH, 4),), frame_of(3))


def test_a_check_keeps_nothing_alive():
    """A check does not refer to the traced values, or to the classes and functions that its guards expect."""

    class Local:
        pass

    def local(x):
        return x

    names = {"local": local}
    tensor, value = torch.ones(3), Local()
    frame = frame_of(value, tensor, names)
    guards = (
        Guard(V, K.TYPE_MATCH, Local),
        Guard(V, K.ID_MATCH, value),
        Guard(W, K.TENSOR_MATCH, TensorFacts((3,), (1,))),
        Guard(GlobalSource("local"), K.FUNCTION_MATCH, local),
        Guard(None, K.SHAPE_ENV, ShapeGuards(("L['w'].size()[0] == 3",), (W,))),
    )
    check = build_check(guards, frame)
    expired: list[str] = []
    check.watch(lambda failed: expired.append(failed.reason))
    watched = [weakref.ref(each) for each in (Local, value, tensor, local.__code__)]
    names.clear()
    del Local, value, tensor, local, frame, guards
    gc.collect()
    alive = [each() for each in watched]
    assert alive[1:3] == [None, None], "values"
    assert alive[0] is None, "classes"
    assert expired, "and the owner of the check is told"


@pytest.mark.parametrize(
    "source, value, other",
    [
        (KeySource(V, 1), {"a": 1, "b": 2}, {"b": 1, "a": 2}),
        (ValueSource(V, 1), {"a": "x", "b": "b"}, {"b": "b", "a": "x"}),
        (ConstantSource("kept", "b"), 1, None),
    ],
)
def test_places_of_a_dict_and_constants_have_instructions(source, value, other):
    """The key or the value at a position of a dict, and a stored constant, are read as in the tree."""
    check = build_check((Guard(source, K.EQUALS_MATCH, "b"),), frame_of(value))
    assert in_c.written(check, frame_of(value).scope()) is not None
    assert agree(check, frame_of(value).scope())
    if other is not None:
        assert not agree(check, frame_of(other).scope())
