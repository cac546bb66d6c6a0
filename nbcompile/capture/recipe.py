"""Recipes by which the residual program reconstructs values, and the side effects that it replays.

While tracing, values are symbolic. A value that is needed after the graph has run is described by a recipe: plain data
from which rewriting/residual.py generates Python:

    FromSource(LocalSource("x"))                        x
    GraphOutput(0)                                      graph_out_0
    Build("list", (GraphOutput(0), Constant(3)))        [graph_out_0, 3]

A value with an identity of its own (a new list that is stored twice) is wrapped
in :class:`SharedValue`; it is created once and referred to afterwards.

In torch: VariableTracker.reconstruct and PyCodegen (torch/_dynamo/codegen.py).
Read next: nbcompile/rewriting/residual.py
"""

from __future__ import annotations

from dataclasses import dataclass
from types import CodeType
from typing import Literal

from nbcompile.capture.source import Source
from nbcompile.record.model import StackLine


@dataclass(frozen=True, slots=True)
class FromSource:
    """Read the value from its source again."""

    source: Source


# Compared by identity: of values, 1 == True would be one constant, and ``==`` may be the user's own
# code, or a tensor's.
@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """A value of the residual program: a literal if it has one, else an object in ``co_consts``."""

    value: object
    name: str = "constant"


@dataclass(frozen=True, slots=True)
class GraphOutput:
    """The n-th output of the compiled graph."""

    index: int


@dataclass(frozen=True, slots=True)
class Build:
    """A new container of the built-in kinds."""

    kind: Literal["list", "tuple", "set", "dict"]
    items: tuple[Recipe, ...]
    """Recipes of the items; of a dict: key, value, key, value..."""


@dataclass(frozen=True, slots=True)
class Call:
    """The result of a repeated call: ``slice(a, b)``, ``torch.no_grad()``."""

    function: Recipe
    arguments: tuple[Recipe, ...] = ()
    keywords: tuple[tuple[str, Recipe], ...] = ()


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of a reconstructed value."""

    base: Recipe
    name: str


@dataclass(frozen=True, slots=True)
class Function:
    """A function (or lambda) that the traced code defined."""

    code: CodeType
    name: str
    globals_of: Recipe
    """A recipe for the dict of globals."""
    defaults: tuple[Recipe, ...] | None = None
    keyword_defaults: tuple[tuple[str, Recipe], ...] = ()
    closure: tuple[Recipe, ...] = ()
    """Recipes for its cells."""


@dataclass(frozen=True, slots=True)
class WaitingGenerator:
    """A generator that is suspended at a ``yield``: created by a function that begins there."""

    code: CodeType
    """The code of the function that created it."""
    offset: int
    """Byte offset of its YIELD_VALUE."""
    stack: tuple[Recipe, ...]
    """The operand stack there, without the yielded value."""
    live: tuple[tuple[str, Recipe], ...]
    cells: tuple[tuple[str, Recipe], ...]
    free: tuple[tuple[str, Recipe], ...]
    globals_of: Recipe
    line: int


@dataclass(frozen=True, slots=True)
class Cell:
    """A new cell with a content (None: still empty)."""

    content: Recipe | None


@dataclass(frozen=True, slots=True)
class CellOf:
    """The real cell behind a free variable of the frame."""

    name: str


@dataclass(frozen=True, slots=True)
class Unbound:
    """A local that has no value."""


@dataclass(frozen=True, slots=True)
class SharedValue:
    """A value with an identity: created where it is first needed, then referred to."""

    key: int
    recipe: Recipe
    fill: tuple[Mutation, ...] = ()
    """Side effects that complete the object right after it is created (attributes of a new object)."""


@dataclass(frozen=True, slots=True)
class SharedReference:
    """A shared value that was created before, by its key."""

    key: int


Recipe = (
    SharedReference
    | FromSource
    | Constant
    | GraphOutput
    | Build
    | Call
    | Attribute
    | Function
    | WaitingGenerator
    | Cell
    | CellOf
    | Unbound
    | SharedValue
)


@dataclass(frozen=True, slots=True)
class SetAttribute:
    """``target.name = value``."""

    target: Recipe
    name: str
    value: Recipe
    plain: type | None = None
    """Use this class's own ``__setattr__``: that of the target's class was traced through."""
    stack: tuple[StackLine, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteAttribute:
    """``del target.name``."""

    target: Recipe
    name: str
    plain: type | None = None
    """Use this class's own ``__delattr__``: that of the target's class was traced through."""
    stack: tuple[StackLine, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplaceItems:
    """Replace the whole content of an existing container.

    list and deque: ``target[:] = items`` in effect; set and dict: cleared and filled.
    """

    target: Recipe
    kind: Literal["list", "deque", "set", "dict"]
    items: tuple[Recipe, ...]
    stack: tuple[StackLine, ...] = ()
    plain: type | None = None
    """Use this class's own methods: the target's class overrides them, and they were traced through."""


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """``target.update(items)`` or ``target.difference_update(items)``: other members of the set keep their order."""

    target: Recipe
    method: str
    items: tuple[Recipe, ...]
    stack: tuple[StackLine, ...] = ()
    plain: type | None = None
    """Use this class's own methods: the target's class overrides them, and they were traced through."""


@dataclass(frozen=True, slots=True)
class AppendItems:
    """``target.extend(items)``: a list that only grew."""

    target: Recipe
    items: tuple[Recipe, ...]
    stack: tuple[StackLine, ...] = ()
    plain: type | None = None
    """Use this class's own methods: the target's class overrides them, and they were traced through."""


@dataclass(frozen=True, slots=True)
class StoreItems:
    """``target[key] = value`` for a dict where keys were only set (old keys kept their position)."""

    target: Recipe
    pairs: tuple[tuple[Recipe, Recipe], ...]
    stack: tuple[StackLine, ...] = ()
    plain: type | None = None
    """Use this class's own methods: the target's class overrides them, and they were traced through."""
    removed: tuple[Recipe, ...] = ()
    """Keys that are deleted first, of an OrderedDict."""


@dataclass(frozen=True, slots=True)
class SetGlobal:
    """A global of the frame's module (``module`` "") or of another one."""

    name: str
    value: Recipe | None
    """None: the global is deleted."""
    globals_of: Recipe | None = None
    stack: tuple[StackLine, ...] = ()


@dataclass(frozen=True, slots=True)
class SetCell:
    """The content of an existing cell."""

    cell: Recipe
    value: Recipe | None
    name: str = ""
    stack: tuple[StackLine, ...] = ()


@dataclass(frozen=True, slots=True)
class Evaluate:
    """An expression evaluated for its effect (a deferred print, ``random.setstate``)."""

    value: Recipe
    stack: tuple[StackLine, ...] = ()


Mutation = (
    SetAttribute
    | DeleteAttribute
    | ReplaceItems
    | ChangeSet
    | AppendItems
    | StoreItems
    | SetGlobal
    | SetCell
    | Evaluate
)
