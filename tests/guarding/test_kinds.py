"""Every kind of torch's guards: our kind and a program that needs it, or the reason why we have none."""

import enum
import types
import weakref
from collections.abc import Hashable

import pytest
import torch
from torch._dynamo.guards import GuardBuilder

import nbcompile
from nbcompile.capture.guard import GuardKind as K
from nbcompile.dispatch import cache
from tests.peer.programs.wrapper_tensors import Scaled

ONES = torch.ones(2)
NET = torch.nn.Linear(2, 2)


class Color(enum.Enum):
    RED = 1


class Number(int):
    """A constant of a user's class."""


class Point:
    def __init__(self):
        self.x = 1


def plain(x):
    return x + 1


def helper(x):
    return x + 1


def closed_over(factor):
    return lambda x: x * factor


def marked():
    tensor = torch.ones(3)
    torch._dynamo.mark_dynamic(tensor, 0)
    return tensor


def with_gradient():
    tensor = torch.ones(3, requires_grad=True)
    tensor.sum().backward()
    return tensor


def two_lists(x, a, b):
    a.append(x)
    return x + len(b)


PROGRAMS = {
    "AUTOGRAD_SAVED_TENSORS_HOOKS": (plain, (ONES,), K.SAVED_TENSORS_HOOKS),
    "BOOL_MATCH": (lambda x, flag: x + 1 if flag else x, (ONES, True), K.BOOL_MATCH),
    "BUILTIN_MATCH": (lambda x: x + len([1]), (ONES,), K.ID_MATCH),
    "CLASS_MATCH": (lambda x: x + 1 if isinstance(x, torch.Tensor) and Color else x, (ONES,), K.ID_MATCH),
    "CLOSURE_MATCH": (lambda x, f: f(x), (ONES, closed_over(ONES)), K.FUNCTION_MATCH),
    "CONSTANT_SUBCLASS_MATCH": (lambda x, k: x + k, (ONES, Number(3)), K.EQUALS_MATCH),
    "WEAKREF_ALIVE": (lambda x, w: x + 1 if w() is None else x - 1, (ONES, weakref.ref(NET)), K.TYPE_MATCH),
    "NOT_NONE_MATCH": (lambda x: x if x.grad is None else x.grad + 1, (with_gradient(),), K.TENSOR_MATCH),
    "CONSTANT_MATCH": (lambda x, k: x + k, (ONES, 3), K.EQUALS_MATCH),
    "DEFAULT_DEVICE": (plain, (ONES,), K.DEFAULT_DEVICE),
    "DETERMINISTIC_ALGORITHMS": (plain, (ONES,), K.GLOBAL_STATE),
    "DICT_CONTAINS": (lambda x, d: x + 1 if "a" in d else x, (ONES, {"a": 1}), K.DICT_CONTAINS),
    "DICT_NOT_CONTAINS": (lambda x, d: x + 1 if "b" in d else x - 1, (ONES, {"a": 1}), K.DICT_CONTAINS),
    "DICT_KEYS_MATCH": (lambda x, d: x + sum(d.keys()), (ONES, {1: 1}), K.DICT_KEYS),
    "MAPPING_KEYS_CHECK": (lambda x, d: x + sum(d.values()), (ONES, types.MappingProxyType({"a": 1})), K.DICT_KEYS),
    "DUPLICATE_INPUT": (lambda x, y: x + y, (ONES, ONES), K.OBJECT_ALIASING),
    "EMPTY_NN_MODULE_HOOKS_DICT": (NET, (torch.ones(1, 2),), K.DICT_LENGTH),
    "EQUALS_MATCH": (lambda x, d: x.to(d), (ONES, torch.float64), K.EQUALS_MATCH),
    "FUNCTION_MATCH": (lambda x: helper(x), (ONES,), K.FUNCTION_MATCH),
    "FUNCTORCH_STACK_MATCH": (lambda x: torch.func.functionalize(plain)(x), (ONES,), K.TRANSFORMS),
    "GLOBAL_STATE": (plain, (ONES,), K.GLOBAL_STATE),
    "GRAD_MODE": (plain, (ONES,), K.GLOBAL_STATE),
    "HASATTR": (lambda x, o: x + 1 if hasattr(o, "y") else x - 1, (ONES, Point()), K.HASATTR),
    "ID_MATCH": (lambda x, c: x + 1 if c is Color.RED else x, (ONES, Color.RED), K.ID_MATCH),
    "MODULE_MATCH": (lambda x: torch.sin(x), (ONES,), K.ID_MATCH),
    "NN_MODULE": (NET, (torch.ones(1, 2),), K.TYPE_MATCH),
    "NONE_MATCH": (lambda x, y: x + 1 if y is None else y, (ONES, None), K.NONE_MATCH),
    "NOT_PRESENT_IN_GENERIC_DICT": (NET, (torch.ones(1, 2),), K.NOT_IN_GENERIC_DICT),
    "RANGE_ITERATOR_MATCH": (lambda x, i: x + sum(i), (ONES, iter(range(3))), K.RANGE_ITERATOR_MATCH),
    "SEQUENCE_LENGTH": (lambda x, v: x + len(v), (ONES, [1]), K.SEQUENCE_LENGTH),
    "SET_CONTAINS": (lambda x, s: x + 1 if 1 in s else x, (ONES, {1}), K.SET_CONTAINS),
    "items of a large set": (lambda x, s: x + 1 if 1 in s else x, (ONES, set(range(20))), K.SET_MEMBERS),
    "order of a set": (lambda x, s: x + next(iter(s)), (ONES, {8, 0}), K.SET_ORDER),
    "SET_NOT_CONTAINS": (lambda x, s: x + 1 if 2 in s else x - 1, (ONES, {1}), K.SET_CONTAINS),
    "SHAPE_ENV": (plain, (marked(),), K.SHAPE_ENV),
    "TENSOR_MATCH": (plain, (ONES,), K.TENSOR_MATCH),
    "DISPATCH_KEY_SET_MATCH": (plain, (ONES,), K.TENSOR_MATCH),
    "TENSOR_SUBCLASS_METADATA_MATCH": (plain, (Scaled(ONES, 2.0),), K.TENSOR_SUBCLASS_METADATA_MATCH),
    "TORCH_FUNCTION_STATE": (plain, (ONES,), K.TORCH_FUNCTION_MODE_STACK),
    "TUPLE_ITERATOR_LEN": (lambda x, i: x + sum(i), (ONES, iter((1, 2))), K.TUPLE_ITERATOR_LEN),
    "TYPE_MATCH": (lambda x, p: x + p.x, (ONES, Point()), K.TYPE_MATCH),
    # Kinds of leaf guards that torch has no builder for.
    "NO_TENSOR_ALIASING": (lambda x, y: x + y, (ONES, torch.ones(2)), K.NO_TENSOR_ALIASING),
    "NO_OBJECT_ALIASING": (two_lists, (ONES, [], [1]), K.NO_OBJECT_ALIASING),
    "DIMENSION_DYNAMIC_MARKING_GUARD": (plain, (ONES,), K.DIMENSION_MARKING),
    "tensor property": (lambda x: x.detach() + x.is_leaf, (ONES,), K.TENSOR_PROPERTY),
    "answers of abstract classes": (lambda x, v: x + isinstance(v, Hashable), (ONES, Point()), K.SUBCLASSES),
    "float nan": (lambda x, k: x * k, (ONES, float("nan")), K.NAN_MATCH),
}  # fmt: skip
"""A program, its arguments and our kind, by torch's name."""

ABSENT = {
    "COUNT_ITERATOR_MATCH": "next() of an argument that is itertools.count breaks the graph; what it gives is guarded",
    "CURRENT_STREAM_MATCH": "since torch 2.15; a comparison of streams breaks the graph",
    "COW_TENSOR_MATCH": "since torch 2.15; `torch._C._is_cow_tensor` breaks the graph",
    "LIST_REVERSEITERATOR_LEN": "since torch 2.15; next() of an argument that is a reversed list breaks the graph",
    "DICT_VERSION": "torch builds it no more",
    "DTENSOR_SPEC_MATCH": "distributed tensors run uncompiled",
    "FSDP_TRAINING_STATE": "wrappers for distributed training run uncompiled",
    "DUAL_LEVEL": "torch's is about forward_ad that is traced; here a frame that uses it breaks",
    "FAKE_SCRIPT_TYPE_MATCH": "about objects of torch.export",
    "OPAQUE_OBJ_GUARD_FN_MATCH": "about objects of torch.export",
}


@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_program_needs_it(kind):
    """The cache entry of the program has a guard of our kind."""
    function, arguments, ours = PROGRAMS[kind]
    nbcompile.reset()
    nbcompile.compile(function, backend="eager")(*arguments)
    entries = [entry for each in cache.known_codes() for entry in cache.entries(each)]
    assert ours in {guard.kind for entry in entries for guard in entry.check.guards}


def test_each_of_torchs_is_there():
    """The two tables contain all of torch's builders and all of our kinds."""
    builders = {name for name in vars(GuardBuilder) if name.isupper()}
    assert builders - set(PROGRAMS) == set(ABSENT) & builders
    assert {ours for _, _, ours in PROGRAMS.values()} == set(K)


def test_a_comparison_of_streams_breaks_the_graph():
    """Python compares the streams at each call, so the current stream needs no guard."""
    stream = torch.Stream(device="cpu")
    explained = nbcompile.explain(lambda x, other: x + 1 if stream == other else x - 1)(ONES, stream)
    assert torch.equal(explained.result, ONES + 1)
    [(found, _)] = explained.breaks
    assert "`==` is not traced for operands of types Stream, Stream" in found.explanation
