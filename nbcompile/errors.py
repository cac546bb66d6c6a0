"""All error messages for users, one class each.

    BackendCompilerFailed: backend='mine' raised:
    ValueError: no such operator

In torch: torch/_dynamo/exc.py. Read next: nbcompile/backends/registry.py
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from types import CodeType

from nbcompile.record.links import explaining, library, to_users_line
from nbcompile.record.model import Break, FailedGuard, StackLine


class NbcompileError(RuntimeError):
    """Base of the errors of nbcompile itself (never an error of the user's own code)."""


class NotCallable(NbcompileError, TypeError, AssertionError):
    """An argument that must be a function has another type; torch raises an AssertionError."""


class InvalidBackend(NbcompileError):
    """Error for an unknown name of a backend."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        close = difflib.get_close_matches(name, known, n=1)
        guess = f" Did you mean {close[0]!r}?" if close else ""
        super().__init__(f"Invalid backend: {name!r}.{guess} The backends are: {', '.join(known)}.")
        self.name = name


class BackendCompilerFailed(NbcompileError):
    """The backend raised while it compiled a graph, or returned what cannot be called."""

    def __init__(self, backend: str, inner: BaseException) -> None:
        super().__init__(f"backend={backend!r} raised:\n{type(inner).__name__}: {inner}")
        self.backend = backend
        self.inner_exception = inner


class GraphRaised(NbcompileError):
    """A graph raised under the backend ``eager_noexcept``; its cause is what it raised."""


class InvalidBackendOption(NbcompileError):
    """``options={...}`` names an option that the backend does not have."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        close = difflib.get_close_matches(name, known, n=1)
        guess = f" Did you mean {close[0]!r}?" if close else ""
        super().__init__(f"Unexpected optimization option {name!r}.{guess} The options are: {', '.join(known)}.")


class InvalidMode(NbcompileError):
    """``mode=...`` is not one of the presets."""

    def __init__(self, mode: str, known: Sequence[str]) -> None:
        super().__init__(f"Unrecognized mode={mode!r}. The modes are: {', '.join(known)}.")


class VerificationFailed(NbcompileError):
    """``options={"verify": True}``: the results of the compiled graph differ from ATen's."""

    def __init__(self, stage: str, detail: str) -> None:
        super().__init__(f"the compiled {stage} graph differs from the same graph run operator by operator:\n{detail}")


class GeneratedCodeWarning(UserWarning):
    """The code generator failed on a graph, which falls back to ATen: correct, but slower. Please report it."""


class OptionWarning(UserWarning):
    """A program that was written for torch.compile uses an option that nbcompile does not have; it is ignored."""


class Unsupported(NbcompileError):
    """``fullgraph=True``, and the function breaks. ``report`` has the reason, as data."""

    def __init__(self, report: Break, verbose: bool = False) -> None:
        super().__init__(break_text(report, verbose))
        self.report = report


def break_text(report: Break, verbose: bool = False) -> str:
    """A break as torch raises it: the report, and the user's stack with carets."""
    advice = [] if verbose else ["", ADVICE]
    return "\n".join([report_text(report), "", "from user code:", *stack_lines(report.stack), *advice])


def report_text(report: Break) -> str:
    """A break as torch prints it: title, explanation, hints, context, where to read on."""
    lines = [report.title, *_field("Explanation", report.explanation), *(f"  Hint: {hint}" for hint in report.hints)]
    lines += ["", *_field("Developer debug context", report.context), ""]
    return "\n".join([*lines, f" For more details about this graph break, run: {explaining(report.kind)}"])


ADVICE = "Set TORCHDYNAMO_VERBOSE=1 (or nbcompile.config.verbose) for the compiler's own stack trace."


def _field(name: str, text: str) -> list[str]:
    first, *rest = text.split("\n") if text else [""]
    return [f"  {name}: {first}", *(f"    {line}" for line in rest)]


def stack_lines(stack: tuple[StackLine, ...]) -> list[str]:
    """A user stack in the form of Python's tracebacks."""
    lines = []
    for line in stack:
        lines.append(f'  File "{line.file}", line {line.line}, in {line.function}')
        if line.code:
            lines.append(f"    {line.code}")
            if 0 <= line.column < line.end_column and (line.column > 0 or line.end_column < len(line.code)):
                lines.append("    " + " " * line.column + "^" * (line.end_column - line.column))
    return lines


class TorchRuntimeError(NbcompileError):
    """An operator fails on fake tensors like its inputs; in eager mode too, unless only a fake rule is missing."""

    def __init__(self, operator: str, inner: BaseException, stack: tuple[StackLine, ...]) -> None:
        lines = [
            "RuntimeError when making fake tensor call",
            f"  {operator}: {type(inner).__name__}: {inner}",
            "",
            "from user code:",
        ]
        others = tuple(each for each in stack if not library(each.file).startswith("nbcompile/"))
        super().__init__("\n".join([*lines, *stack_lines(to_users_line(stack) or others)]))
        self.inner_exception = inner
        self.stack = stack
        self.lacks_fake_rule = "no fake impl registered" in str(inner)
        """Error of tracing alone: a custom operator has no function that describes its result (``register_fake``)."""


class UncapturedHigherOrderOpError(NbcompileError):
    """An operator over functions (torch.cond and its like) whose function cannot be traced whole.

    ``obstacle`` is what would have broken the graph, if it was that.
    """

    def __init__(self, text: str, stack: tuple[StackLine, ...], obstacle: Exception | None = None) -> None:
        self.obstacle = obstacle
        head = (
            "This higher order operator doesn't work unless it is captured completely with torch.compile. "
            "Got graph break/error:"
        )
        super().__init__("\n".join([head, "", text, "", "from user code:", *stack_lines(stack)]))


class ForbiddenCallable(NbcompileError, AssertionError):
    """The traced code calls what the user (or torch) forbade with ``torch._dynamo.forbid_in_graph``."""

    def __init__(self, function: object, stack: tuple[StackLine, ...]) -> None:
        super().__init__(
            "\n".join([f"Attempt to trace forbidden callable {function}", "", "from user code:", *stack_lines(stack)])
        )


class InvalidStance(NbcompileError):
    """Error for an unknown name of a stance."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(f"invalid torch.compile stance {name!r}; the stances are: {', '.join(known)}")


def _failed_guards(code: CodeType, failed: tuple[FailedGuard, ...]) -> str:
    where = f"{code.co_name} ({code.co_filename}:{code.co_firstlineno})"
    reasons = [f"    - {each.compile_id}: {each.reason}" for each in failed] or ["    - nothing is compiled yet"]
    return "\n".join([where, *reasons])


class FailOnRecompile(NbcompileError):
    """The stance is fail_on_recompile, and no entry accepts the call."""

    def __init__(self, code: CodeType, failed: tuple[FailedGuard, ...]) -> None:
        super().__init__(
            f"Detected recompile when torch.compile stance is 'fail_on_recompile': {_failed_guards(code, failed)}"
        )


class NestedTrace(NbcompileError):
    """Another tracer called a compiled function, in which it finds no operators."""

    def __init__(self, tracer: str, name: str) -> None:
        if tracer == "torch.fx":
            detected = "Detected that you are using FX to symbolically trace a dynamo-optimized function."
        else:
            detected = f"Detected that you are using FX to {tracer} a dynamo-optimized function."
        super().__init__(
            f"{detected} This is not supported: {tracer} would find no operators in the compiled code of {name}. "
            f"Trace the function or module that was given to compile ({name}.__wrapped__ of a function)."
        )


class NotWarmedUp(NbcompileError):
    """``set_stance(skip_guard_eval_unsafe=True)``, and no entry accepts the call."""

    def __init__(self, code: CodeType, failed: tuple[FailedGuard, ...]) -> None:
        super().__init__(
            "Recompilation triggered with skip_guard_eval_unsafe stance. This usually means that you have not warmed "
            "up your model with enough inputs such that you can guarantee no more recompilations: "
            f"{_failed_guards(code, failed)}"
        )


class FailOnRecompileLimitHit(NbcompileError):
    """The recompile limit is reached where running eagerly is not allowed."""

    def __init__(self, text: str, *, fullgraph: bool) -> None:
        why = (
            "Hard failure due to fullgraph=True"
            if fullgraph
            else "Hard failure due to config.fail_on_recompile_limit_hit"
        )
        super().__init__(f"{why}\n{text}")


class InvalidMetadataGuard(NbcompileError):
    """``__metadata_guard__`` of a tensor subclass cannot compare two pieces of metadata."""


class InvalidArchive(NbcompileError, ValueError):
    """Bytes that are not an archive of compiled code, or a damaged archive."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"Invalid cache artifacts: {reason}. Nothing was installed. Expected an archive that"
            " `nbcompile.save_cache_artifacts()` or `python -m nbcompile cache save FILE` wrote."
        )


class RecompileError(NbcompileError):
    """``config.error_on_recompile``, and no entry accepts the call."""

    def __init__(self, code: CodeType, failed: tuple[FailedGuard, ...]) -> None:
        reasons = "\n".join(f"    - {each.compile_id}: {each.reason}" for each in failed)
        where = f"{code.co_name} in {code.co_filename}:{code.co_firstlineno}"
        super().__init__(f"Recompiling function {where}\n    triggered by the following guard failure(s):\n{reasons}")


class InternalError(NbcompileError):
    """An internal error of nbcompile; the function falls back to eager."""

    def __init__(self, code: CodeType, inner: BaseException) -> None:
        where = f"{code.co_name} ({code.co_filename}:{code.co_firstlineno})"
        super().__init__(
            f"nbcompile failed on {where}, which falls back to eager: "
            f"{type(inner).__name__}: {inner}. Please report it."
        )
        self.inner_exception = inner


class InternalErrorWarning(UserWarning):
    """See :class:`InternalError`."""


class ReplayedSideEffects(NbcompileError):
    """``config.side_effect_replay_policy`` is ``error``, and the function changes what others can see."""


class GraphBreakWarning(UserWarning):
    """A break of a kind that one better knows of (``BreakKind.warns``); once for each cause."""


class SideEffectWarning(UserWarning):
    """``config.side_effect_replay_policy`` is ``warn``: see :class:`ReplayedSideEffects`."""


class RecompileLimitWarning(UserWarning):
    """A function reached the recompile limit: other calls than the compiled ones fall back to eager."""


class SuppressedErrorWarning(UserWarning):
    """``config.suppress_errors``: a function falls back to eager because compiling it failed."""


class ReplacedMemberWarning(UserWarning):
    """A member of torch.Tensor, or a builtin, is replaced: functions run eagerly until it is restored."""


class StoreWarning(UserWarning):
    """The compile cache, or a part of it, cannot be read or written; everything is compiled as if it were empty."""
