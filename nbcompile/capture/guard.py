"""A guard: a condition on the value of a source.

The tracer emits guards as data; guarding/check.py compiles that very list into
torch's C++ guard tree, guarding/explain.py prints it, the record keeps it.
So the guards that are displayed are those that are evaluated.

    Guard(LocalSource("k"), GuardKind.EQUALS_MATCH, 3)      L['k'] == 3

In torch: torch/_guards.py (Guard), torch/_dynamo/guards.py (GuardBuilder).
Read next: nbcompile/guarding/check.py
"""

from __future__ import annotations

import abc
import contextlib
import enum
from collections.abc import Iterable
from dataclasses import dataclass, field

import torch

from nbcompile.capture.source import Source
from nbcompile.record.model import StackLine


class GuardKind(enum.StrEnum):
    """The kind of a guard; the value of its ``expected`` is documented here."""

    TYPE_MATCH = "TYPE_MATCH"  # expected: the class; type(value) is expected
    ID_MATCH = "ID_MATCH"  # expected: the object; value is expected
    NONE_MATCH = "NONE_MATCH"  # expected: None
    BOOL_MATCH = "BOOL_MATCH"  # expected: True or False
    EQUALS_MATCH = "EQUALS_MATCH"  # expected: an int, str, dtype, tuple of these...; same type and ==
    FUNCTION_MATCH = "FUNCTION_MATCH"  # expected: the function; its __code__ is the same object
    NAN_MATCH = "NAN_MATCH"  # expected: nan (float or complex)
    SEQUENCE_LENGTH = "SEQUENCE_LENGTH"  # expected: int; len(value)
    DICT_LENGTH = "DICT_LENGTH"  # expected: int; len(dict)
    DICT_KEYS = "DICT_KEYS"  # expected: tuple of keys, in order
    DICT_CONTAINS = "DICT_CONTAINS"  # expected: (key, bool)
    SET_CONTAINS = "SET_CONTAINS"  # expected: (item, bool)
    SET_MEMBERS = "SET_MEMBERS"  # expected: frozenset of constants of DISTINCT; used for sets of many items
    SET_ORDER = "SET_ORDER"  # expected: tuple of constants of DISTINCT, the items of a set in order
    SUBCLASSES = "SUBCLASSES"  # expected: tuple of (class, abstract class, bool); value is ``abc.get_cache_token()``
    HASATTR = "HASATTR"  # expected: (name, bool)
    NOT_IN_GENERIC_DICT = "NOT_PRESENT_IN_GENERIC_DICT"  # expected: name; not in value.__dict__
    TUPLE_ITERATOR_LEN = "TUPLE_ITERATOR_LEN"  # expected: int
    RANGE_ITERATOR_MATCH = "RANGE_ITERATOR_MATCH"  # expected: (start, stop, step)
    TENSOR_MATCH = "TENSOR_MATCH"  # expected: TensorFacts
    TENSOR_SUBCLASS_METADATA_MATCH = "TENSOR_SUBCLASS_METADATA_MATCH"  # expected: the context of __tensor_flatten__
    TENSOR_PROPERTY = "TENSOR_PROPERTY_MATCH"  # expected: (name, bool); result of ``tensor_property``
    DIMENSION_MARKING = "DIMENSION_DYNAMIC_MARKING_GUARD"  # expected: TensorMarks
    OBJECT_ALIASING = "OBJECT_ALIASING"  # expected: another Source; value is that value
    # No source: about several values, or about the state of the process.
    NO_OBJECT_ALIASING = "NO_OBJECT_ALIASING"  # expected: tuple of Sources, all different objects
    NO_TENSOR_ALIASING = "NO_TENSOR_ALIASING"  # expected: tuple of Sources, all different tensors
    SHAPE_ENV = "SHAPE_ENV"  # expected: ShapeGuards
    GLOBAL_STATE = "GLOBAL_STATE"  # expected: None; grad mode, autocast, default dtype, threads, ...
    TORCH_FUNCTION_MODE_STACK = "TORCH_FUNCTION_MODE_STACK"  # expected: tuple of modes
    DEFAULT_DEVICE = "DEFAULT_DEVICE"  # expected: None
    TRANSFORMS = "FUNCTORCH_STACK_MATCH"  # expected: tuple of (name, level); the active transforms of torch.func
    SAVED_TENSORS_HOOKS = "AUTOGRAD_SAVED_TENSORS_HOOKS"  # expected: None; hooks that are graphs are the same


def subclass_checks(checked: Iterable[tuple[object, object, bool]]) -> tuple[tuple[type, type, bool], ...]:
    """Results of ``issubclass`` for abstract classes, if they alone decided the ``isinstance`` checks of a trace."""
    answers: dict[tuple[type, type, bool], None] = {}
    for value, expected, answer in checked:
        subject = value if isinstance(value, type) else type(value)
        if isinstance(expected, abc.ABCMeta):
            # A protocol with data members raises here: its check reads the object, and other guards cover what it
            # reads.
            with contextlib.suppress(Exception):
                if issubclass(subject, expected) is answer:
                    answers[subject, expected, answer] = None
    return tuple(answers)


DISTINCT = frozenset((int, str, bytes, bool, type(None)))
"""Types whose equal values of one type are indistinguishable to a program; they are compared in C."""


def are_distinct(members: Iterable[object]) -> bool:
    """Return whether members are constants that a set compares at once."""
    return DISTINCT.issuperset(map(type, members))


def tensor_property(tensor: torch.Tensor, name: str) -> bool:
    """Value of an attribute, or of a method without arguments, of a tensor; overrides of its class are not called."""
    with torch._C.DisableTorchFunction():
        answer = getattr(tensor, name)
        return bool(answer() if callable(answer) else answer)


@dataclass(frozen=True, slots=True)
class TensorFacts:
    """Facts that TENSOR_MATCH checks besides class, dispatch keys, dtype, device and requires_grad.

    A ``None`` among sizes or strides is a dynamic one: not checked here (a
    SHAPE_ENV guard may still bound it).
    """

    sizes: tuple[int | None, ...]
    strides: tuple[int | None, ...] | None
    """None: strides are not checked (subclasses, sparse layouts)."""


@dataclass(frozen=True, slots=True)
class TensorMarks:
    """The dims that the user had marked dynamic, static or unbacked when the frame was traced."""

    present: tuple[tuple[str, frozenset[int]], ...] = ()
    """(``"_dynamo_dynamic_indices"``, dims) for each mark that was there."""
    absent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ShapeGuards:
    """Relations between sizes, as torch's ShapeEnv produced them.

    ``expressions`` are Python texts over ``L[...]``/``G[...]`` expressions, such
    as ``2 <= L['x'].size()[0]``; ``sources`` are all sources in them.
    """

    expressions: tuple[str, ...]
    sources: tuple[Source, ...]
    stacks: tuple[tuple[StackLine, ...], ...] = field(default=(), compare=False)
    """User's code that required each expression; () if the framework required it."""
    notes: tuple[str, ...] = field(default=(), compare=False)
    """Reason why the framework required each expression; "" if the user's code did."""


@dataclass(frozen=True, slots=True)
class Guard:
    """One condition. ``stack`` is the user's code that required it, outermost first."""

    source: Source | None
    kind: GuardKind
    expected: object = None
    stack: tuple[StackLine, ...] = ()
    members: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    """Names that were looked up on the class (for TYPE_MATCH, and ID_MATCH on a class), each with what kind of member
    it had then (``capture.resolution.kind_of_member``). The member's own behaviour is guarded where it was used."""

    def key(self) -> tuple[object, ...]:
        """Guards with equal keys are the same condition: one of them is enough."""
        # The expected value may be unhashable, for example a list: then its identity is the key.
        try:
            hash(self.expected)
        except TypeError:
            return (self.source, self.kind, id(self.expected))
        # With the type: 1 and True are equal, and other guards.
        return (self.source, self.kind, type(self.expected), self.expected)
