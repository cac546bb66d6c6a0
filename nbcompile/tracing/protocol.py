"""Protocol between variable trackers and the interpreter: the methods that a tracker may call.

Handlers use trackers, and trackers use the interpreter (a list's ``sort`` may
call a user's function). Both import this protocol, and neither imports the other.

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
"""Mutations that fill a value which was created empty, since it may contain itself."""


@dataclass(slots=True)
class Change:
    """A changed object, and the user's code that changed it first."""

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
    """A change of a global: the stored value (None: deleted)."""

    scope: dict[str, object]
    name: str
    value: VariableTracker | None
    stack: tuple[StackLine, ...]
    moved: bool = False
    """True if it was deleted before it was stored again."""
    owner: VariableTracker | None = None
    """The module whose class has a data descriptor of the name: it takes the value, and the dict does not."""


class ObjectDicts(Protocol):
    """Objects from outside, by the dict of their attributes (effects/attribute_dicts.py); only what a tracker needs."""

    plain: set[int]
    unread: list[Any]
    owners: dict[int, Any]
    shared: set[int]

    def look_at_owners(self) -> list[Any]:
        """Read the dicts of the objects that were found since the last call, and return these objects."""


class Effects(Protocol):
    """The changes that the traced code makes to objects, seen from a tracker (effects/side_effects.py)."""

    order: list[Change | GlobalChange]
    deferred: list[VariableTracker]
    before_graph: list[Callable[[Reconstructor], Recipe]]

    @property
    def attribute_dicts(self) -> ObjectDicts:
        """Objects that the trace has found, by the dict of their attributes."""

    def any(self) -> bool:
        """True if any change must be replayed."""

    def count(self) -> int:
        """Number of changes so far."""

    def changes_outside(self, since: int, created_at: int) -> bool:
        """True if a change after the first ``since`` ones was of an outside object or one older than ``created_at``."""

    def known(self, value: object) -> VariableTracker | None:
        """The tracker of a real object that has one."""

    def remember(self, value: object, tracker: VariableTracker) -> VariableTracker:
        """Register the tracker of a real object."""

    def keep_distinct(self, real: object, tracker: VariableTracker) -> None:
        """Note that an object is the key of a dict or set: two such keys have to stay two objects."""

    def forget(self, value: object) -> None:
        """Remove the tracker of a real object."""

    def call_before_graph(self, recipe: Callable[[Reconstructor], Recipe]) -> int:
        """Record a call that the residual program makes before the graph; return its position among these calls."""

    def attribute(self, owner: VariableTracker, name: str) -> VariableTracker | None:
        """Value that the traced code stored under a name, or None."""

    def attribute_of(self, real: object, name: str) -> VariableTracker | None:
        """Value that the traced code stored under a name of a real class, function or module, or None."""

    def moved_attributes(self, owner: VariableTracker) -> set[str]:
        """Names of attributes that the traced code deleted and stored again."""

    def stored_attributes(self, owner: VariableTracker) -> dict[str, VariableTracker | None]:
        """All attributes that the traced code stored on an object; None: deleted."""

    def load_global(self, scope: dict[str, object], name: str) -> GlobalChange | None:
        """Value that the traced code stored in a global, or None."""

    def stored_globals(self, scope: dict[str, object]) -> dict[str, VariableTracker | None]:
        """All globals of a module that the traced code stored; None: deleted."""

    def changed(self, owner: VariableTracker) -> VariableTracker | None:
        """The tracker on which attributes of the same object were stored, or None."""

    def is_deleted(self, owner: VariableTracker, name: str) -> bool:
        """True if the traced code deleted the attribute."""

    def is_deleted_of(self, real: object, name: str) -> bool:
        """True if the traced code deleted the attribute of a real class, function or module."""

    def store_attribute(self, tracer: Tracer, owner: VariableTracker, name: str, value: VariableTracker) -> None:
        """``owner.name = value``."""

    def delete_attribute(self, tracer: Tracer, owner: VariableTracker, name: str) -> None:
        """``del owner.name``."""

    def mark_mutated(self, tracer: Tracer, owner: VariableTracker) -> None:
        """Record that the items of a container, or the content of a cell, will change."""

    def store_global(
        self, tracer: Tracer, scope: dict[str, object], name: str, value: VariableTracker | None,
        owner: VariableTracker | None = None,
    ) -> None:  # fmt: skip
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
        """Recipe of a value that is created once, also if it is used more than once."""

    def first_of(self, tracker: VariableTracker) -> VariableTracker:
        """The tracker whose recipe was requested first, of all trackers of one object."""

    def shows(self, tracker: VariableTracker) -> bool:
        """True if code that runs after the graph may change a container."""

    def shows_class(self, tracker: VariableTracker) -> bool:
        """True if code that runs after the graph may read the class of an iterator."""

    def graph_output(self, node: torch.fx.Node) -> Recipe:
        """The result of a node, which becomes an output of the graph."""

    def attribute(self, base: Recipe, name: str) -> Recipe:
        """``base.name``."""

    def attributes(self, tracker: VariableTracker) -> tuple[Mutation, ...]:
        """Mutations that complete a new object: its items, and the attributes stored on it."""

    def iterator(self, items: Sequence[VariableTracker], cls: type = ...) -> Recipe:
        """An iterator over known items; the class is that of iterators over lists or over tuples."""

    def bound_method(self, function: VariableTracker, owner: VariableTracker) -> Recipe:
        """A function bound to its first argument."""

    def globals_of(self, scope: dict[str, object]) -> Recipe:
        """The dict of globals of a module."""


class Tracer(Protocol):
    """The interpreter, seen from a tracker."""

    output: OutputGraph
    overrides: OverrideState[VariableTracker]
    represented: list[VariableTracker]
    """The containers and objects whose ``repr`` is being found: one that is found again is ``...``."""

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
        """Record that a call of ``callee`` only calls ``function`` and returns its result."""

    def guard(self, source: Source | None, kind: GuardKind, expected: object = None) -> None:
        """Add a guard on an input."""

    def note_member(self, source: Source | None, cls: type, name: str) -> None:
        """Add a guard on a member of a class, or its absence: it was looked up for the object at the source."""

    def assume(self, source: Source | None, value: object) -> None:
        """Assume, without a guard, that a member of a trusted module does not change."""

    def assume_subclass(self, subject: Source | type, cls: Source | type, answer: bool) -> None:
        """Assume, without a guard, the result of a subclass check or instance check."""

    def assume_constant_result(
        self, function: object, arguments: Sequence[object], keywords: Mapping[str, object], answer: object
    ) -> None:
        """Assume that a result of a library function is constant in this process: later processes compare it, later
        calls do not. A result that can change while the process runs needs a guard instead (``calls/folding.py``).
        """

    def note_initialiser(self, function: FunctionType, owner: Source, group: Source, lists: int) -> None:
        """Record that the real state of an optimiser was created: what is read of it exists only in later calls."""

    def note_launch(self, kernel: int, constants: int, source: Source, values: dict[str, object]) -> None:
        """Record the indices of a Triton kernel and its constants in torch's table, which another process lacks."""

    def depend_on_process(self, what: str) -> None:
        """Record that the trace depends on something that another process cannot check."""

    def stack(self) -> tuple[StackLine, ...]:
        """The user's current stack, outermost first."""

    def evaluate(
        self, function: object, arguments: Sequence[object], keywords: Mapping[str, object] | None = None
    ) -> object:
        """Run a pure function on real constants; what it raises is raised in the traced program."""

    def constant_or_wrap(self, value: object) -> VariableTracker:
        """The tracker of a value that tracing itself created: containers of constants become containers."""

    def list_of(self, items: Sequence[VariableTracker]) -> VariableTracker:
        """A new list."""

    def iterator(self, items: Sequence[VariableTracker], text: str | bytes | None = None) -> VariableTracker:
        """An iterator over known items."""

    def format_string(
        self, template: str, arguments: Sequence[VariableTracker], keywords: Mapping[str, VariableTracker]
    ) -> VariableTracker:
        """``template.format(...)`` of values that are not all known."""

    def join_texts(self, separator: str | bytes, parts: Sequence[VariableTracker]) -> VariableTracker | None:
        """``separator.join(parts)``, some of which are written after the graph; None if none is."""

    def raise_exception(self, kind: type[BaseException], *arguments: object) -> NoReturn:
        """Raise in the traced program."""

    def apply(
        self,
        target: object,
        arguments: Sequence[VariableTracker],
        keywords: Mapping[str, VariableTracker] | None = None,
    ) -> VariableTracker:
        """A node ``call_function`` of the graph and the tracker of its result."""

    def call_override(
        self, function: object, arguments: Sequence[VariableTracker], keywords: Mapping[str, VariableTracker]
    ) -> VariableTracker | None:
        """Result of a function of torch that a function mode or an argument's class overrides; None if none does."""

    def tuple_of(self, items: Sequence[VariableTracker]) -> VariableTracker:
        """A new tuple."""

    def bound(self, function: VariableTracker, owner: VariableTracker) -> VariableTracker:
        """A function bound to its first argument."""

    def may_catch(self) -> bool:
        """True if the program may catch an exception that is raised here."""

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
        """True for one object (also a NaN) and for equal objects, as containers compare their items."""

    def sizes(self, tensor: VariableTracker, property: str) -> VariableTracker:
        """The sizes (``size``) or strides (``stride``) of a tensor, as a torch.Size or tuple."""

    def real_value(self, source: Source) -> object:
        """The value that an input had when the frame was called."""

    def handled_exception(self) -> VariableTracker | None:
        """The exception that the traced program is handling right now."""

    def local_variables(self) -> VariableTracker:
        """``locals()`` of the current frame."""

    def module_name(self) -> str:
        """Name of the module of the code that is traced."""

    def class_and_self(self) -> tuple[VariableTracker, VariableTracker]:
        """Class and object that ``super()`` without arguments uses in the current frame."""

    def bind(self, owner: VariableTracker, cls: type, name: str) -> VariableTracker:
        """Attribute ``name`` of the class, bound to the owner."""

    def binary(self, symbol: str, left: VariableTracker, right: VariableTracker) -> VariableTracker:
        """``left symbol right``."""

    def has_attribute(self, value: VariableTracker, name: str) -> bool:
        """``hasattr(value, name)``."""

    def guard_order(self, source: Source, derived: bool) -> None:
        """Add a guard on the order of the set at the source; ``derived``: another set's order is derived from it."""

    def guard_keys(self, mapping: VariableTracker) -> None:
        """Add a guard that a dict from outside has exactly these keys, in this order."""

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
        """``type.__call__(cls, ...)``: calls ``__new__`` and ``__init__``, without the ``__call__`` of a metaclass."""

    def new_object(self, cls: type, arguments: Sequence[VariableTracker] = ()) -> VariableTracker:
        """``object.__new__(cls)``; of a subclass of tuple ``tuple.__new__(cls, items)``."""

    def iterate_by_index(self, owner: VariableTracker) -> VariableTracker:
        """The old iteration protocol: ``owner[0]``, ``owner[1]``... until IndexError."""

    def until_stop(self, iterator: VariableTracker, step: Callable[[], VariableTracker]) -> VariableTracker | None:
        """The result of an iterator's step; None if it raised StopIteration."""

    def stop(self, iterator: VariableTracker) -> NoReturn:
        """Raise the StopIteration of an exhausted iterator."""

    def keep(self, value: object, name: str) -> Source:
        """A source for a value that has no other: the residual program stores the value itself."""

    def format_value(self, value: VariableTracker, specification: VariableTracker) -> VariableTracker:
        """``format(value, specification)``."""
