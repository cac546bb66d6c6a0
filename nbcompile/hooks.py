"""Hooks by which ``fast/`` is plugged in, with the reference path as their defaults.

    hooks.active().load_frame(frame, options, key)      the default: None, so the frame is compiled
                                                        with fast/: a frame of an earlier process, from the disk cache

The compiler imports nothing of ``fast/``. ``import nbcompile`` installs the hooks of ``fast/hook_table.py``;
``nbcompile.config.reference`` selects the defaults, and then each stage runs as its own module says, and nothing else.

In torch: nothing; its caches are called where they are used. Read next: nbcompile/fast/hook_table.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from nbcompile import config
from nbcompile.support.process_state import STATE, Lifetime

if TYPE_CHECKING:
    from nbcompile.aot.traced_graphs import InferenceGraph, JointGraph
    from nbcompile.capture.compiled import CompiledFrame
    from nbcompile.capture.frame import Frame
    from nbcompile.capture.guard import Guard
    from nbcompile.capture.trace import CapturedGraph, Trace
    from nbcompile.dispatch.hook import BackendKey, FrameCallback, SkipFrame
    from nbcompile.guarding.group import GroupGuards
    from nbcompile.guarding.prepared import Conditions
    from nbcompile.ir.compiled_artifact import ArtifactBuilder
    from nbcompile.options import Options
    from nbcompile.rewriting.residual import Residual

Tree = TypeVar("Tree")
GraphFunction = Callable[..., Any]
Path = Callable[[Any, Any], Any]
"""A way to make a call: (arguments, keywords) -> its result."""
Backend = Callable[[Any, Sequence[Any]], GraphFunction]


def nothing(*_arguments: Any, **_keywords: Any) -> None:
    """Do nothing: the default of most hooks."""


def compile_now(backend: Backend, graph: CapturedGraph, inputs: Sequence[Any]) -> GraphFunction:
    """Compile a captured graph before the call continues."""
    return backend(graph.module, inputs)


def build_now(build: Callable[[], Tree]) -> Tree:
    """Build a guard tree as torch does."""
    return build()


class CallInstaller(Protocol):
    """An object that sees each call on the slow path, and may replace that path."""

    def note(self, arguments: tuple[object, ...], keywords: dict[str, object]) -> None:
        """Count a call that takes the slow path."""

    def knows_every_entry(self) -> bool:
        """Return whether a call on the slow path is one that all entries reject, and none will be added."""


@dataclass(frozen=True, slots=True)
class CompiledParts:
    """The results of the stages for one frame, of which a later process makes a compiled frame again."""

    trace: Trace
    guards: tuple[Guard, ...]
    residual: Residual
    function: GraphFunction | None
    """The compiled graph; None for a frame without a graph."""
    artifact: ArtifactBuilder


@dataclass(frozen=True, slots=True)
class Hooks:
    """The functions that ``fast/`` may replace, in the order in which a call reaches them."""

    call_installer: Callable[[Any, FrameCallback, Path, Callable[[Path], None]], CallInstaller | None] = nothing
    """Make the installer of fast calls for a compiled function: of the function, its hook, the slow path, and a
    function that replaces this path."""
    load_frame: Callable[[Frame, Options, BackendKey], CompiledFrame | SkipFrame | None] = nothing
    """Load a frame that an earlier process compiled, or in which it found nothing to compile."""
    before_compile: Callable[[Options], None] = nothing
    """Prepare, before the first stage, what the stages need later."""
    before_backend: Callable[[Trace], None] = nothing
    """Observe a trace before the backend gets it."""
    compile_graph: Callable[[Backend, CapturedGraph, Sequence[Any]], GraphFunction] = compile_now
    """Compile a captured graph: now, or in the background."""
    trace_inference: Callable[..., InferenceGraph | None] = nothing
    """Trace a graph without gradients in one pass; None: AOTAutograd traces it."""
    trace_joint: Callable[..., JointGraph | None] = nothing
    """Trace a graph with gradients in one pass; None: AOTAutograd traces it."""
    group_guards: Callable[[Sequence[Guard]], GroupGuards | None] = nothing
    """Group guards below modules, so that a group is evaluated only after something changed."""
    size_conditions: Callable[[Sequence[Guard]], Conditions | None] = nothing
    """The evaluator of conditions on sizes; None: Python."""
    build_guard_tree: Callable[[Callable[[], Any]], Any] = build_now
    """Build torch's guard tree, without the modules that torch would import for it."""
    store_frame: Callable[[Frame, Options, CompiledParts], None] = nothing
    """Store a compiled frame for later processes."""
    store_skipped: Callable[..., None] = nothing
    """Store that there is nothing to compile in a frame."""
    launcher_loaded: Callable[[Any], object] = nothing
    """Receive the extension module that launches kernels."""


REFERENCE = Hooks()
_installed = STATE.add("hooks._installed", [REFERENCE], Lifetime.PROCESS)


def install(hooks: Hooks) -> None:
    """Use these hooks from now on."""
    _installed[0] = hooks


def installed() -> Hooks:
    """The hooks of ``fast/``, whatever the settings say: for what is set up once in a process."""
    return _installed[0]


def active() -> Hooks:
    """The hooks that apply now: those of ``fast/``, or the defaults on the reference path."""
    # With the reference path each hook is its default: the compiler without ``fast/``, to compare with.
    return REFERENCE if config.reference else _installed[0]
