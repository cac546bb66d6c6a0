"""Protocol between variable trackers and the interpreter: the methods that a tracker may call.

Handlers know trackers, and trackers need the interpreter (a list's ``sort``
may call a user's function): this small protocol is between them, so that
neither imports the other.

In torch: the argument ``tx`` of every VariableTracker method. Read next:
nbcompile/tracing/variables/base.py
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from nbcompile.capture.guard import GuardKind
from nbcompile.capture.recipe import Mutation, Recipe
from nbcompile.capture.source import Source
from nbcompile.record.model import StackLine

if TYPE_CHECKING:
    import torch.fx

    from nbcompile.tracing.graph.output_graph import OutputGraph
    from nbcompile.tracing.graph.override_state import OverrideState
    from nbcompile.tracing.variables.base import VariableTracker

Fill = Callable[[], tuple[Mutation, ...]]
"""Mutations that complete a value that was created empty, as it may contain itself."""


@dataclass(slots=True)
class Change:
    """One object that changed, with the user's code that changed it first."""

    tracker: VariableTracker
    stack: tuple[StackLine, ...]
    attributes: dict[str, VariableTracker | None] = field(default_factory=dict)
    """Stored attributes; None: deleted."""
    moved: set[str] = field(default_factory=set)
    """Names that were deleted before they were stored again: in a ``__dict__`` they come last."""
    items: bool = False
    """The items (of a list, dict or set) or the content (of a cell) changed."""


@dataclass(slots=True)
class GlobalChange:
    """A global that was stored (None: deleted)."""

    scope: dict[str, object]
    name: str
    value: VariableTracker | None
    stack: tuple[StackLine, ...]
    moved: bool = False
    """True if it was deleted before it was stored again."""


class ObjectDicts(Protocol):
    """Objects from outside by their dicts: what effects/attribute_dicts.py keeps, whose owners know more than this."""

    plain: set[int]
    unread: list[Any]
    owners: dict[int, Any]
    shared: set[int]

    def look_at_owners(self) -> list[Any]:
        """Look at the dicts of objects that were met since, and return those objects."""


class Effects(Protocol):
    """The changes that the traced code makes to objects, seen from a tracker (effects/side_effects.py)."""

    order: list[Change | GlobalChange]
    deferred: list[VariableTracker]
    before_graph: list[Callable[[Reconstructor], Recipe]]

    @property
    def attribute_dicts(self) -> ObjectDicts:
        """Objects that were met, by the dict of their attributes."""

    def any(self) -> bool:
        """True if there is anything to replay."""

    def count(self) -> int:
        """Number of changes so far."""

    def changes_outside(self, since: int, created_at: int) -> bool:
        """True if a change after the first ``since`` ones was of what is older than ``created_at``, or from outside."""

    def known(self, value: object) -> VariableTracker | None:
        """The tracker of a real object that has one."""

    def remember(self, value: object, tracker: VariableTracker) -> VariableTracker:
        """Make a tracker that of a real object."""

    def forget(self, value: object) -> None:
        """Take the tracker of a real object away."""

    def call_before_graph(self, recipe: Callable[[Reconstructor], Recipe]) -> int:
        """Note a call that the residual program makes before the graph; its position among them."""

    def attribute(self, owner: VariableTracker, name: str) -> VariableTracker | None:
        """Value that the traced code stored under a name, or None."""

    def attribute_of(self, real: object, name: str) -> VariableTracker | None:
        """Value that the traced code stored under a name of a real class, function or module, or None."""

    def moved_attributes(self, owner: VariableTracker) -> set[str]:
        """Names of attributes that it deleted and stored again."""

    def stored_attributes(self, owner: VariableTracker) -> dict[str, VariableTracker | None]:
        """All attributes that it stored on an object; None: deleted."""

    def load_global(self, scope: dict[str, object], name: str) -> GlobalChange | None:
        """Value that it stored in a global, or None."""

    def stored_globals(self, scope: dict[str, object]) -> dict[str, VariableTracker | None]:
        """All globals of a module that it stored; None: deleted."""

    def changed(self, owner: VariableTracker) -> VariableTracker | None:
        """The tracker on which attributes of the same object were stored, or None."""

    def is_deleted(self, owner: VariableTracker, name: str) -> bool:
        """True if it deleted the attribute."""

    def is_deleted_of(self, real: object, name: str) -> bool:
        """True if it deleted the attribute of a real class, function or module."""

    def store_attribute(self, tracer: Tracer, owner: VariableTracker, name: str, value: VariableTracker) -> None:
        """``owner.name = value``."""

    def delete_attribute(self, tracer: Tracer, owner: VariableTracker, name: str) -> None:
        """``del owner.name``."""

    def mark_mutated(self, tracer: Tracer, owner: VariableTracker) -> None:
        """The items of a container, or the content of a cell, are about to change."""

    def store_global(self, tracer: Tracer, scope: dict[str, object], name: str, value: VariableTracker | None) -> None:
        """``global name; name = value``."""


class Reconstructor(Protocol):
    """The source of recipes for the parts of a tracker (effects/reconstruction.py)."""

    tracer: Tracer
    at_last: list[Callable[[], Mutation]]
    visible: set[int] | None

    def recipe(self, tracker: VariableTracker) -> Recipe:
        """Recipe of one value."""

    def shared(
        self, tracker: VariableTracker, make: Callable[[], Recipe], fill: Fill | None = None,
        empty: tuple[Callable[[], Recipe], Fill] | None = None,
    ) -> Recipe:  # fmt: skip
        """Recipe of a value that is created once, however often it is used."""

    def first_of(self, tracker: VariableTracker) -> VariableTracker:
        """The tracker that was asked for first of all that represent one object."""

    def shows(self, tracker: VariableTracker) -> bool:
        """True if a container may be changed after the graph by somebody who has it."""

    def shows_class(self, tracker: VariableTracker) -> bool:
        """True if the class of an iterator may be asked for after the graph."""

    def graph_output(self, node: torch.fx.Node) -> Recipe:
        """The result of a node, which becomes an output of the graph."""

    def attribute(self, base: Recipe, name: str) -> Recipe:
        """``base.name``."""

    def attributes(self, tracker: VariableTracker) -> tuple[Mutation, ...]:
        """Mutations that complete a new object: its items, and the attributes stored on it."""

    def iterator(self, items: Sequence[VariableTracker], cls: type = ...) -> Recipe:
        """An iterator over known items, of a class of iterators over lists or tuples."""

    def bound_method(self, function: VariableTracker, owner: VariableTracker) -> Recipe:
        """A function bound to its first argument."""

    def globals_of(self, scope: dict[str, object]) -> Recipe:
        """The dict of globals of a module."""


class Tracer(Protocol):
    """The interpreter, seen from a tracker."""

    output: OutputGraph
    overrides: OverrideState[VariableTracker]

    @property
    def side_effects(self) -> Effects:
        """The changes by the traced code so far."""

    def wrap(self, value: object, source: Source | None) -> VariableTracker:
        """A real value as a tracker; installs the guards that its kind needs."""

    def call(
        self, function: VariableTracker, arguments: Sequence[VariableTracker],
        keywords: Mapping[str, VariableTracker] | None = None,
    ) -> VariableTracker:  # fmt: skip
        """Call anything callable, tracing through it where possible."""

    def call_python(self, function: Callable[..., object], *arguments: VariableTracker) -> VariableTracker:
        """Trace through a polyfill: one of our own Python functions."""

    def inline(
        self, function: VariableTracker, arguments: Sequence[VariableTracker],
        keywords: Mapping[str, VariableTracker],
    ) -> VariableTracker:  # fmt: skip
        """Run the body of a Python function symbolically."""

    def hand_over(self, callee: VariableTracker, function: VariableTracker) -> None:
        """Calling ``callee`` is nothing but calling ``function``: what that returns, the call returns."""

    def guard(self, source: Source | None, kind: GuardKind, expected: object = None) -> None:
        """Promise something about an input."""

    def note_member(self, source: Source | None, cls: type, name: str) -> None:
        """Promise that a class has a member of that kind, or none: it was looked up for an object at the source."""

    def assume(self, source: Source | None, value: object) -> None:
        """Take a member of a trusted module for what it is, unguarded."""

    def assume_subclass(self, subject: Source | type, cls: Source | type, answer: bool) -> None:
        """Take what a class answers about a value or another class for what it is, unguarded."""

    def assume_answer(
        self, function: object, arguments: Sequence[object], keywords: Mapping[str, object], answer: object
    ) -> None:
        """Take what a function of a library says of this process for constant: later processes compare it, later calls
        do not. What can change while the process lives needs a guard instead (``calls/folding.py``).
        """

    def note_initialiser(self, function: FunctionType, owner: Source, group: Source, lists: int) -> None:
        """Record that state of an optimiser was created for real: what is read of it now exists in later calls only."""

    def note_launch(self, kernel: int, constants: int, source: Source, values: dict[str, object]) -> None:
        """Note the numbers of a Triton kernel and its constants in torch's table, which another process lacks."""

    def depend_on_process(self, what: str) -> None:
        """Something went into the trace that another process cannot check."""

    def stack(self) -> tuple[StackLine, ...]:
        """The user's stack at this moment, outermost first."""

    def evaluate(
        self, function: object, arguments: Sequence[object], keywords: Mapping[str, object] | None = None
    ) -> object:
        """Run a pure function on real constants; what it raises is raised in the traced program."""

    def constant_or_wrap(self, value: object) -> VariableTracker:
        """A value that tracing itself created (no input): containers of constants become containers."""

    def list_of(self, items: Sequence[VariableTracker]) -> VariableTracker:
        """A new list."""

    def iterator(self, items: Sequence[VariableTracker], text: str | bytes | None = None) -> VariableTracker:
        """An iterator over known items."""

    def format_string(
        self, template: str, arguments: Sequence[VariableTracker], keywords: Mapping[str, VariableTracker]
    ) -> VariableTracker:
        """``template.format(...)`` of values that are not all known."""

    def raise_exception(self, kind: type[BaseException], *arguments: object) -> NoReturn:
        """Raise in the traced program."""

    def apply(
        self,
        target: object,
        arguments: Sequence[VariableTracker],
        keywords: Mapping[str, VariableTracker] | None = None,
    ) -> VariableTracker:
        """A node ``call_function`` of the graph and the tracker of its result."""

    def ask(
        self, function: object, arguments: Sequence[VariableTracker], keywords: Mapping[str, VariableTracker]
    ) -> VariableTracker | None:
        """Result of a function of torch as function modes, or the classes of the arguments, override it; None if
        nothing does.
        """

    def tuple_of(self, items: Sequence[VariableTracker]) -> VariableTracker:
        """A new tuple."""

    def bound(self, function: VariableTracker, owner: VariableTracker) -> VariableTracker:
        """A function bound to its first argument."""

    def result(self, node: torch.fx.Node) -> VariableTracker:
        """The tracker of what a node computes."""

    def apply_method(
        self, name: str, arguments: Sequence[VariableTracker], keywords: Mapping[str, VariableTracker] | None = None
    ) -> VariableTracker:
        """A node ``call_method`` of the graph and the tracker of its result."""

    def index_of(self, key: VariableTracker) -> object:
        """Index of a sequence (the value between its brackets) as a number or slice."""

    def equal(self, left: VariableTracker, right: VariableTracker) -> bool:
        """``left == right`` where the answer is known while tracing."""

    def equal_items(self, left: VariableTracker, right: VariableTracker) -> bool:
        """True for one and the same object, even a NaN, and for equal ones: as containers compare their items."""

    def sizes(self, tensor: VariableTracker, property: str) -> VariableTracker:
        """The sizes (``size``) or strides (``stride``) of a tensor, as a torch.Size or tuple."""

    def real_value(self, source: Source) -> object:
        """The value that an input had when the frame was called."""

    def handled_exception(self) -> VariableTracker | None:
        """The exception that the traced program is handling right now."""

    def local_variables(self) -> VariableTracker:
        """``locals()`` of the frame that runs."""

    def module_name(self) -> str:
        """Name of the module whose code runs."""

    def class_and_self(self) -> tuple[VariableTracker, VariableTracker]:
        """Class and object that ``super()`` without arguments uses in the frame that runs."""

    def bind(self, owner: VariableTracker, cls: type, name: str) -> VariableTracker:
        """Attribute ``name`` of the class, bound to the owner."""

    def binary(self, symbol: str, left: VariableTracker, right: VariableTracker) -> VariableTracker:
        """``left symbol right``."""

    def has_attribute(self, value: VariableTracker, name: str) -> bool:
        """``hasattr(value, name)``."""

    def guard_order(self, source: Source, derived: bool) -> None:
        """The set there is iterated over in the order that it has now, or one that is derived from it."""

    def guard_keys(self, mapping: VariableTracker) -> None:
        """Promise that a dict from outside has just these keys, in this order."""

    def call_special(self, owner: VariableTracker, name: str, arguments: Sequence[VariableTracker]) -> VariableTracker:
        """Call a special method, looked up on the class."""

    def module_attribute(self, module: ModuleType, name: str, source: Source | None) -> VariableTracker:
        """``module.name``."""

    def class_attribute(self, owner: VariableTracker, cls: type, name: str) -> VariableTracker:
        """``cls.name``: unbound functions, class methods, values."""

    def instantiate(
        self, cls: VariableTracker, arguments: Sequence[VariableTracker], keywords: Mapping[str, VariableTracker]
    ) -> VariableTracker:
        """``cls(...)``."""

    def make(
        self, cls: VariableTracker, arguments: Sequence[VariableTracker], keywords: Mapping[str, VariableTracker]
    ) -> VariableTracker:
        """``type.__call__(cls, ...)``: its ``__new__`` and ``__init__``, whatever the metaclass makes of a call."""

    def new_object(self, cls: type, arguments: Sequence[VariableTracker] = ()) -> VariableTracker:
        """``object.__new__(cls)``; of a subclass of tuple ``tuple.__new__(cls, items)``."""

    def iterate_by_index(self, owner: VariableTracker) -> VariableTracker:
        """The old iteration protocol: ``owner[0]``, ``owner[1]``... until IndexError."""

    def until_stop(self, iterator: VariableTracker, step: Callable[[], VariableTracker]) -> VariableTracker | None:
        """The result of an iterator's step; None if it raised StopIteration."""

    def stop(self, iterator: VariableTracker) -> NoReturn:
        """Raise the StopIteration of an exhausted iterator."""

    def keep(self, value: object, name: str) -> Source:
        """A source for a value without an address: the program keeps the value itself."""

    def format_value(self, value: VariableTracker, specification: VariableTracker) -> VariableTracker:
        """``format(value, specification)``."""
