"""The result of tracing one frame.

    Trace = graph + inputs + guards + recipes of results and side effects

In torch: torch/_dynamo/output_graph.py (OutputGraph) holds all this as it
grows. Read next: nbcompile/tracing/frame/translator.py, which makes it, and
nbcompile/rewriting/residual.py, which turns it into a program.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Literal

import torch.fx

from nbcompile.capture.guard import Guard
from nbcompile.capture.recipe import Mutation, Recipe
from nbcompile.capture.source import Source
from nbcompile.record.model import Break, Symbol


@dataclass(frozen=True, slots=True)
class GraphInput:
    """A placeholder of the captured graph and where its value is read from."""

    name: str
    """``l_x_``, as in the graph."""
    source: Source
    example: object
    """FakeTensor, or a torch.SymInt for a dynamic int."""
    as_tensor: bool = False
    """True for a dynamic float or a number that is drawn: the graph takes it as a tensor."""


@dataclass(frozen=True, slots=True)
class CapturedGraph:
    """The FX graph of one frame, ready for a backend."""

    module: torch.fx.GraphModule
    inputs: tuple[GraphInput, ...]
    fake_mode: object
    """The FakeTensorMode (with its ShapeEnv) that the examples live in."""
    name: str
    """``__compiled_fn_1``."""
    symbolic: bool = False
    """True if some size or number in it is a symbol: a backend must get the examples, not the real inputs."""


@dataclass(frozen=True, slots=True)
class Return:
    """The frame ran to its end."""

    value: Recipe


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """The instruction and the values with which a resume function continues."""

    offset: int
    """Byte offset of the instruction in the frame's own code."""
    stack: tuple[StackSlot, ...]
    """The operand stack there, bottom first, without what the broken instruction pushes."""
    pushes: int
    """Number of values that the broken instruction pushes (0 or 1)."""
    live: tuple[tuple[str, Recipe], ...]
    """The locals that may still be read, in order of name."""
    cells: tuple[tuple[str, Recipe], ...]
    """The cell variables that may still be used: recipes for the cells themselves."""
    line: int
    callee: Callee | None = None
    """The inlined frame that is resumed; None if it is the traced frame itself."""


@dataclass(frozen=True, slots=True)
class Callee:
    """The state of an inlined frame that is needed to continue it."""

    code: CodeType
    scope: dict[str, object]
    """Globals of the function."""
    free: tuple[tuple[str, Recipe], ...]
    """The cells of its free variables."""


@dataclass(frozen=True, slots=True)
class StackSlot:
    """One slot of the operand stack at a break."""

    kind: Literal["value", "null", "exit"]
    """``exit``: the exit slot of an active ``with``; the recipe reconstructs its manager."""
    recipe: Recipe | None = None


@dataclass(frozen=True, slots=True)
class BrokenCall:
    """``function(*arguments, **keywords)`` is left to Python; its result is pushed."""

    function: Recipe
    arguments: tuple[Recipe, ...]
    keywords: tuple[tuple[str, Recipe], ...] = ()
    star: Recipe | None = None
    double_star: Recipe | None = None


@dataclass(frozen=True, slots=True)
class BrokenOperation:
    """An operator or a store is left to Python: ``operation`` says which."""

    operation: Literal["compare", "binary", "getitem", "setattr", "setitem", "delitem"]
    operands: tuple[Recipe, ...]
    symbol: str = ""
    """``<``, ``+`` ..., or the attribute's name."""
    as_bool: bool = False
    """True if the result's truth value is pushed (3.13: the jump after it accepts only a bool)."""


@dataclass(frozen=True, slots=True)
class BrokenJump:
    """A branch on a value that is known at run time only."""

    condition: Recipe
    test: Literal["truth", "none"]
    """``if condition`` or ``if condition is None``."""


@dataclass(frozen=True, slots=True)
class BrokenComprehension:
    """An inlined comprehension is left to Python, as a function; its result is pushed."""

    begin: ResumePoint
    """The first instruction of the function, with only the iterator on its stack."""
    end: int
    """The offset where it ends."""


@dataclass(frozen=True, slots=True)
class Continue:
    """No action: the rest of the frame runs uncompiled."""


@dataclass(frozen=True, slots=True)
class GraphBreak:
    """The graph ended here; Python runs one instruction, and a resume function continues."""

    action: BrokenCall | BrokenOperation | BrokenJump | BrokenComprehension | Continue
    resume: tuple[ResumePoint, ...]
    """One; for a jump two: where the test is true, where it is false."""
    contexts: tuple[Recipe, ...]
    """The active context managers, outermost first: re-entered around the action."""
    report: Break
    earlier: tuple[Break, ...] = ()
    """First break of the trace, if ``report`` only gives the reason why no resume function could continue after it."""
    callers: tuple[ResumePoint, ...] = ()
    """A break in an inlined function (config.nested_graph_breaks): where each of its callers continues with the result
    of the one before, innermost first."""
    differentiates: bool = False
    """The action is ``torch.autograd.grad``: it may request the derivative of one result of the graph with respect to
    another."""


@dataclass(slots=True)
class Assumptions:
    """Assumptions of a trace about this process that no guard checks.

    The next call in this process need not check them; another process that loads the compiled code must
    (fast/disk_cache/).
    """

    members: dict[Source, object] = field(default_factory=dict)
    """Members of trusted modules (torch, Python's library), by their addresses."""
    codes: dict[int, tuple[CodeType, str]] = field(default_factory=dict)
    """Code objects that were traced, by address, each with the name of its module."""
    initialisers: list[tuple[FunctionType, Source, Source, int]] = field(default_factory=list)
    """State of optimisers that the trace created before it read it: by which function, for which optimiser and group of
    parameters, with how many empty lists for results."""
    subclasses: list[tuple[Source | type, Source | type, bool]] = field(default_factory=list)
    """Results of checks against abstract classes and protocols: the value, by its source, or a class; the class that
    was checked, by its source or itself; the result. Classes are registered, and hooks read what nothing guards."""
    constant_results: list[tuple[object, tuple[object, ...], dict[str, object], str]] = field(default_factory=list)
    """Results of library functions that are constant in this process: function, arguments, text of the result."""
    kernels: dict[int, Source] = field(default_factory=dict)
    """Sources of the user's Triton kernels that are launched, by the numbers that torch's table gave them here."""
    launch_constants: dict[int, dict[str, object]] = field(default_factory=dict)
    """Constant arguments of launches, by their numbers there."""
    obstacle: str = ""
    """Name of a fact of this process that the trace depends on and no other process can check; "" if there is none."""


@dataclass(frozen=True, slots=True)
class Trace:
    """The result of tracing one frame."""

    graph: CapturedGraph | None
    """Captured graph; None if no operator was traced."""
    guards: Callable[[], tuple[Guard, ...]]
    """Function to call when the backend has run, since a backend may specialise a size."""
    mutations: tuple[Mutation, ...]
    exit: Return | GraphBreak
    inlined: tuple[str, ...] = ()
    symbols: Callable[[], tuple[Symbol, ...]] = tuple
    """Function to call when the backend has run, like ``guards``."""
    assumed: Assumptions = field(default_factory=Assumptions)
    release: Callable[[], object] = tuple
    """Function to call when guards and symbols are known: it releases the call's values."""
    before_graph: tuple[Recipe, ...] = ()
    """Draws from random generators and calls of ``nn.Parameter``, in order: the residual program makes them before the
    graph runs."""
    reruns_on_error: bool = False
    """True if the frame's own code runs from its start when the graph raises: the graph changes nothing, and the frame
    has side effects (those before the operator that fails), or catches what is raised, or an operator of the graph may
    fail because of values, whose error has eager's text then."""
