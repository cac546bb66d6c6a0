"""Every kind of guard, with all its encodings: one row for each kind.

    NONE_MATCH    check         text ``L['x'] is None``, the predicate, torch's leaf guard
                  sentence      "x is None"
                  page_tree     L['x'] same None
                  instructions  IS slot None
                  stored        None

A row is about one value (``LEAVES``), or about the process or several values (``AMBIENT``). A reason instead of a
function says why there is no such encoding.

In torch: the methods of GuardBuilder in torch/_dynamo/guards.py. Read next: nbcompile/guarding/check.py
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch.utils._device

from nbcompile.capture.guard import Guard, GuardKind
from nbcompile.capture.resolution import Scope
from nbcompile.capture.source import expression
from nbcompile.guarding.class_members import with_members
from nbcompile.guarding.encodings import (
    ambient,
    container_leaves,
    instructions,
    leaves,
    page_trees,
    sentences,
    stored_forms as stored,
    tensor_leaves,
)
from nbcompile.guarding.encodings.instructions import InstructionWriter
from nbcompile.guarding.encodings.stored_forms import Form
from nbcompile.guarding.page_values import PageValues
from nbcompile.guarding.prepared import Ambient, Conditions, Leaf
from nbcompile.guarding.values import describe_value, spelled_property
from nbcompile.record.trees import Tree

Reason = str
"""The reason why a kind has no such encoding."""


@dataclass(frozen=True, slots=True)
class LeafEncodings:
    """The encodings of a guard on one value."""

    check: Callable[[Guard, str, object], Leaf]
    sentence: Callable[[str, Any], str]
    """Function of the name of the value and of what the guard expects."""
    page_tree: Callable[[PageValues, Leaf, Scope], Tree] | Reason
    instructions: Callable[[InstructionWriter, Leaf, int, Any, object], bool] | Reason
    """Function of the slot of the value, what the guard expects, and the value at the call that is compiled."""
    stored: Form | Reason


@dataclass(frozen=True, slots=True)
class AmbientEncodings:
    """The encodings of a guard on the process, or on several values."""

    check: Callable[[Guard, Scope, Conditions | None], Ambient]
    sentence: Callable[[str, Any], str]
    page_tree: Callable[[PageValues, Ambient, Scope], Tree] | Reason
    instructions: Callable[[InstructionWriter, Ambient, Any], bool]
    stored: Form


K = GuardKind
BY_PREDICATE = "a page gets one value: whether the predicate holds"
CALLS_PREDICATE = "C calls the predicate in Python"
LEAVES: dict[GuardKind, LeafEncodings] = {
    K.TYPE_MATCH: LeafEncodings(
        leaves.type_match,
        lambda name, cls: f"{name} is exactly of type {getattr(cls, '__qualname__', '(gone)')}",
        page_trees.type_match,
        instructions.of_class,
        stored.of_value(type),
    ),
    K.ID_MATCH: LeafEncodings(
        leaves.id_match,
        lambda name, value: f"{name} is the very object {sentences.described(value)}",
        page_trees.id_match,
        instructions.identity,
        stored.VALUE,
    ),
    K.FUNCTION_MATCH: LeafEncodings(
        leaves.function_match,
        lambda name, _: f"{name} is still the same function (its code was not redefined)",
        page_trees.function_match,
        instructions.code,
        stored.VALUE,
    ),
    K.NONE_MATCH: LeafEncodings(
        leaves.none_match,
        lambda name, _: f"{name} is None",
        page_trees.constant_match,
        instructions.constant,
        stored.VALUE,
    ),
    K.BOOL_MATCH: LeafEncodings(
        leaves.bool_match,
        lambda name, value: f"{name} is {value}",
        page_trees.constant_match,
        instructions.constant,
        stored.VALUE,
    ),
    K.EQUALS_MATCH: LeafEncodings(
        leaves.equals_match,
        lambda name, value: f"{name} equals {describe_value(value)}",
        page_trees.constant_match,
        instructions.equal,
        stored.VALUE,
    ),
    K.NAN_MATCH: LeafEncodings(
        leaves.nan_match,
        lambda name, _: f"{name} is NaN",
        page_trees.nan_match,
        CALLS_PREDICATE,
        stored.VALUE,
    ),
    K.SEQUENCE_LENGTH: LeafEncodings(
        container_leaves.sequence_length,
        lambda name, length: f"{name} has {length} item{'' if length == 1 else 's'}",
        page_trees.length,
        instructions.length,
        stored.LITERAL,
    ),
    K.DICT_LENGTH: LeafEncodings(
        container_leaves.dict_length,
        lambda name, length: f"{name} has {length} key{'' if length == 1 else 's'}",
        page_trees.dict_length,
        instructions.length,
        stored.LITERAL,
    ),
    K.DICT_KEYS: LeafEncodings(
        container_leaves.dict_keys,
        lambda name, keys: f"{name} has exactly the keys {describe_value(list(keys))}, in this order",
        page_trees.dict_keys,
        instructions.keys,
        stored.KEYS,
    ),
    K.DICT_CONTAINS: LeafEncodings(
        container_leaves.dict_contains,
        lambda name, pair: f"{name} {sentences.presence(f'the key {pair[0]!r}')[pair[1]]}",
        page_trees.contains,
        instructions.contains,
        stored.KEY,
    ),
    K.SET_CONTAINS: LeafEncodings(
        container_leaves.set_contains,
        lambda name, pair: f"{name} {sentences.presence(f'the item {pair[0]!r}')[pair[1]]}",
        page_trees.contains,
        instructions.contains,
        stored.KEY,
    ),
    K.SET_MEMBERS: LeafEncodings(
        container_leaves.set_members,
        lambda name, members: f"{name} has exactly the {len(members)} items that it had",
        BY_PREDICATE,
        CALLS_PREDICATE,
        stored.of_value(frozenset),
    ),
    K.SET_ORDER: LeafEncodings(
        container_leaves.set_order,
        lambda name, items: f"{name} has exactly the items {describe_value(list(items))}, in this order",
        BY_PREDICATE,
        CALLS_PREDICATE,
        stored.KEYS,
    ),
    K.SUBCLASSES: LeafEncodings(
        leaves.subclasses,
        lambda _, answers: sentences.subclasses(answers),
        BY_PREDICATE,
        CALLS_PREDICATE,
        stored.SUBCLASSES,
    ),
    K.HASATTR: LeafEncodings(
        leaves.has_attribute,
        lambda name, pair: f"{name} {sentences.presence(f'an attribute {pair[0]!r}')[pair[1]]}",
        page_trees.has_attribute,
        instructions.absent_attribute,
        stored.LITERAL,
    ),
    K.NOT_IN_GENERIC_DICT: LeafEncodings(
        leaves.not_in_generic_dict,
        lambda name, key: f"{name} has no attribute {key!r} of its own",
        BY_PREDICATE,
        instructions.not_own,
        stored.LITERAL,
    ),
    K.TUPLE_ITERATOR_LEN: LeafEncodings(
        leaves.tuple_iterator_length,
        lambda name, length: f"{name} has {length} items left",
        BY_PREDICATE,
        CALLS_PREDICATE,
        stored.LITERAL,
    ),
    K.RANGE_ITERATOR_MATCH: LeafEncodings(
        leaves.range_iterator,
        lambda name, remaining: f"{name} still iterates over range{remaining}",
        BY_PREDICATE,
        CALLS_PREDICATE,
        stored.LITERAL,
    ),
    K.TENSOR_MATCH: LeafEncodings(
        tensor_leaves.tensor_match,
        sentences.tensor,
        page_trees.tensor_match,
        instructions.tensor,
        stored.TENSOR,
    ),
    K.TENSOR_SUBCLASS_METADATA_MATCH: LeafEncodings(
        tensor_leaves.metadata_match,
        lambda name, metadata: f"the metadata of the tensor subclass {name} is {describe_value(metadata)}",
        BY_PREDICATE,
        "a method of the tensor's class would run: such calls go through the frame hook",
        "no form for it",
    ),
    K.TENSOR_PROPERTY: LeafEncodings(
        tensor_leaves.tensor_property_match,
        lambda name, pair: f"{name}.{spelled_property(pair[0])} is {pair[1]}",
        page_trees.tensor_property_match,
        instructions.tensor_property,
        stored.LITERAL,
    ),
    K.DIMENSION_MARKING: LeafEncodings(
        tensor_leaves.dimension_marking,
        lambda name, _: f"{name} has no new dynamic or static marks",
        page_trees.dimension_marking,
        instructions.marking,
        stored.MARKS,
    ),
}
AMBIENT: dict[GuardKind, AmbientEncodings] = {
    K.GLOBAL_STATE: AmbientEncodings(
        ambient.global_state,
        lambda *_: "grad mode, autocast, default dtype, threads, ... are as they were",
        page_trees.global_state,
        instructions.global_state,
        stored.of_process(stored.global_state),
    ),
    K.TORCH_FUNCTION_MODE_STACK: AmbientEncodings(
        ambient.mode_stack,
        lambda *_: "the same torch function modes are active",
        page_trees.mode_stack,
        instructions.no_modes,
        stored.of_process(stored.function_modes, ()),
    ),
    K.DEFAULT_DEVICE: AmbientEncodings(
        ambient.default_device,
        lambda *_: "the default device is as it was",
        BY_PREDICATE,
        instructions.default_device,
        stored.of_process(lambda: str(torch.utils._device.CURRENT_DEVICE)),
    ),
    K.TRANSFORMS: AmbientEncodings(
        ambient.transforms,
        lambda *_: "the same transforms of torch.func are active",
        BY_PREDICATE,
        instructions.no_transforms,
        stored.of_process(stored.transforms, ()),
    ),
    K.SAVED_TENSORS_HOOKS: AmbientEncodings(
        ambient.saved_tensors_hooks,
        lambda *_: "no other graphs are hooks on saved tensors",
        BY_PREDICATE,
        instructions.no_hooks,
        stored.of_process(stored.saved_tensors_hooks),
    ),
    K.OBJECT_ALIASING: AmbientEncodings(
        ambient.object_aliasing,
        lambda name, other: f"{name} and {sentences.shortened(expression(other))} are one object",
        page_trees.aliasing,
        instructions.same,
        stored.SOURCE,
    ),
    K.NO_OBJECT_ALIASING: AmbientEncodings(
        ambient.no_aliasing,
        lambda _, found: f"{sentences.sources(found)} are different objects",
        page_trees.no_aliasing,
        instructions.distinct,
        stored.SOURCES,
    ),
    K.NO_TENSOR_ALIASING: AmbientEncodings(
        ambient.no_aliasing,
        lambda _, found: f"{sentences.sources(found)} are different tensors",
        page_trees.no_aliasing,
        instructions.distinct,
        stored.SOURCES,
    ),
    K.SHAPE_ENV: AmbientEncodings(
        ambient.shape_env,
        lambda _, shapes: "; ".join(sentences.shortened(part) for part in shapes.expressions),
        page_trees.shapes,
        instructions.conditions,
        stored.SHAPES,
    ),
}


def leaf(guard: Guard, name: str, value: object) -> Leaf:
    """Prepare a guard about one value: ``name`` is its source as an expression.

    ``value`` is the traced value, or the value at the first call of a process that loads the guard from the store. What
    a guard expects is read from ``guard.expected``. Where it expects a class (or a dtype, device, dispatch keys), these
    are read from ``value``: the disk cache has compared them with those of the traced value.

    Raises:
        KeyError: the kind is about several values (check.py installs those).
    """
    prepared = LEAVES[guard.kind].check(guard, name, value)
    return with_members(prepared, name) if guard.members else prepared
