"""``torch._dynamo.comptime``: functions of the program that are called while it is traced, and inspect the trace.

    comptime.print(y)                Tensor(shape=(4,), dtype=torch.float32), once, when the frame is compiled
    @comptime
    def _(ctx):                      ctx is a ComptimeContext, ctx.get_local("y") a ComptimeValue
        assert ctx.get_local("n").is_python_constant()

The calls add no nodes. Without a compiler they do nothing, or print the computed values.

In torch: torch/_dynamo/comptime.py. Read next: nbcompile/tracing/frame/translator.py
"""

from __future__ import annotations

import dis
import linecache
import sys
import time
import traceback
from collections.abc import Callable
from types import FunctionType
from typing import IO, TYPE_CHECKING, Any, NoReturn, cast

import torch
import torch.fx

from nbcompile.capture.source import expression
from nbcompile.record.model import StackLine
from nbcompile.support.error_handler import ErrorReplacement
from nbcompile.tracing import breaks
from nbcompile.tracing.calls.registry import handles_named
from nbcompile.tracing.exceptions import ComptimeError
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.cells import CellVariable
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.functions import FunctionVariable, NestedFunctionVariable
from nbcompile.tracing.variables.mappings import DictVariable
from nbcompile.tracing.variables.observed import ObservedException
from nbcompile.tracing.variables.sequences import ListVariable, TupleVariable
from nbcompile.tracing.variables.symbolic import SymbolicVariable
from nbcompile.tracing.variables.tensor import TensorVariable

if TYPE_CHECKING:
    from nbcompile.tracing.frame.protocol import FrameInterpreter
    from nbcompile.tracing.frame.translator import Translator

MODULE = "torch._dynamo.comptime"
_RUNS = "a function of comptime, which runs while the frame is compiled"
"""Reason not to store a frame on disk: a process that loads it would not run the function."""


class ComptimeValue:
    """A value of the traced program, for functions that inspect the trace."""

    def __init__(self, tracer: Tracer, tracker: VariableTracker) -> None:
        self._tracer = tracer
        self._tracker = realise(tracer, tracker)

    def as_proxy(self) -> object:
        """The node of the graph; for a list or tuple those of its items."""
        if isinstance(self._tracker, (ListVariable, TupleVariable)):
            return [ComptimeValue(self._tracer, each).as_proxy() for each in self._tracker.unpack(self._tracer)]
        return self._tracker.proxy()

    def is_proxy(self) -> bool:
        """True if it may be an argument of a node: computed by the graph, or a constant."""
        return self._tracker.fits_a_node()

    def as_fake(self) -> Any:
        """The fake tensor, or the symbolic number."""
        assert isinstance(self._tracker, (TensorVariable, SymbolicVariable)), f"{self!r} has no example"
        return self._tracker.example

    def size(self, dim: int | None = None) -> Any:
        """The sizes of a tensor, or one of them."""
        return self.as_fake().size() if dim is None else self.as_fake().size(dim)

    def python_type(self) -> type:
        """The class of the value."""
        return self._tracker.python_type()

    def is_python_constant(self) -> bool:
        """True if the whole value is known while tracing."""
        return self._tracker.is_constant()

    def as_python_constant(self) -> object:
        """The value, if all of it is known while tracing."""
        return self._tracker.constant()

    def is_dynamic(self) -> bool:
        """True for a number that is a symbol."""
        return isinstance(self._tracker, SymbolicVariable) and not _is_known(self._tracker)

    def force_static(self) -> None:
        """Make a number (or all sizes of a tensor) a constant of the compiled code."""
        match self._tracker:
            case SymbolicVariable():
                self._tracker.specialise()
            case TensorVariable():
                sizes = realise(self._tracer, self._tracker.get_attribute(self._tracer, "shape"))
                for size in sizes.unpack(self._tracer):
                    ComptimeValue(self._tracer, size).force_static()
            case known if not known.is_constant():
                raise AssertionError(f"cannot force {known.describe()} static")

    def _i_will_not_complain_if_bc_breaks_VariableTracker(self) -> VariableTracker:
        return self._tracker

    def __repr__(self) -> str:
        return _shown(self._tracer, self._tracker)


def _is_known(number: SymbolicVariable) -> bool:
    return getattr(number.example.node.expr, "is_number", False)


def _shown(tracer: Tracer, tracker: VariableTracker) -> str:
    """Text of a value; that of a tensor has only its metadata."""

    def shown(part: VariableTracker) -> str:
        return _shown(tracer, part)

    match realise(tracer, tracker):
        case TensorVariable(example=example):
            sizes = ", ".join(map(str, example.shape)) + ("," if example.dim() == 1 else "")
            return f"Tensor(shape=({sizes}), dtype={example.dtype})"
        case SymbolicVariable(example=example):
            return str(example)
        case ListVariable(cls=cls) as items if cls is list:
            return "[" + ", ".join(map(shown, items.unpack(tracer))) + "]"
        case TupleVariable(cls=cls) as items if cls is tuple and not items.is_constant():
            parts = [shown(each) for each in items.unpack(tracer)]
            return f"({parts[0]},)" if len(parts) == 1 else "(" + ", ".join(parts) + ")"
        case DictVariable() as mapping:
            pairs = zip(mapping.keys(tracer), mapping.values(tracer), strict=True)
            return "{" + ", ".join(f"{shown(key)}: {shown(value)}" for key, value in pairs) + "}"
        case FunctionVariable(function=function):
            return repr(function)
        case known if known.is_constant():
            return repr(known.constant())
        case CellVariable():
            return "CellVariable()"
        case other:
            return other.describe()


class ComptimeContext:
    """The trace so far: the argument of a function that ``comptime`` calls."""

    def __init__(self, tracer: Tracer, depth: int = 0) -> None:
        self._tracer = tracer
        self._depth = depth

    def _frame(self, stacklevel: int) -> Translator:
        # The frame that is traced at the moment is the last one; its callers are before it.
        return cast("FrameInterpreter", self._tracer).frames[-1 - self._depth - stacklevel]

    def get_local(self, name: str, *, stacklevel: int = 0) -> ComptimeValue:
        """A local variable of the frame that is traced, or of one of its callers; one in a cell, too."""
        frame = self._frame(stacklevel)
        found = frame.locals.get(name)
        if found is None and name in frame.cells:
            found = frame.cells[name].content
        assert found is not None, f"there is no local variable {name!r}"
        return ComptimeValue(self._tracer, found)

    def parent(self) -> ComptimeContext:
        """The context of the frame's caller."""
        return ComptimeContext(self._tracer, self._depth + 1)

    def graph_break(self, msg: str = "ComptimeContext.graph_break") -> None:
        """End the graph here."""
        raise breaks.unsupported(breaks.GRAPH_BREAK, f"user_msg: {msg}", message=msg)

    def graph(self) -> torch.fx.Graph:
        """The graph so far."""
        return self._tracer.output.root.graph

    def assert_static(self, val: ComptimeValue) -> None:
        """Fail if a number is a symbol."""
        assert not val.is_dynamic(), "expected static but got dynamic (run with TORCH_LOGS=dynamic for more info)"

    def print(self, val: object, *, file: IO[str] | None = None) -> None:
        """Print a value."""
        print(repr(val), file=file)

    def print_graph(self, *, verbose: bool = True, file: IO[str] | None = None) -> None:
        """Print the graph so far, as Python."""
        print(self.graph().python_code("self", verbose=verbose).src, file=file)

    def print_disas(self, *, file: IO[str] | None = None, stacklevel: int = 0) -> None:
        """Print the bytecode, with a mark at the instruction that runs."""
        frame = self._frame(stacklevel)
        print(dis.Bytecode(frame.code, current_offset=frame.current.offset).dis(), file=file)

    def print_value_stack(self, *, file: IO[str] | None = None, stacklevel: int = 0) -> None:
        """Print the operand stack."""
        for value in self._frame(stacklevel).stack:
            print(f"- {_shown(self._tracer, value)}", file=file)

    def print_locals(self, *, file: IO[str] | None = None, stacklevel: int = 0) -> None:
        """Print the local variables."""
        frame = self._frame(stacklevel)
        given = frame.code.co_varnames[: frame.code.co_argcount + frame.code.co_kwonlyargcount]
        for name in dict.fromkeys((*(each for each in given if each in frame.locals), *frame.cells, *frame.locals)):
            value = frame.cells.get(name) or frame.locals[name]
            print(f"{name} = {_shown(self._tracer, value)}", file=file)

    def print_bt(self, *, file: IO[str] | None = None, stacklevel: int = 0) -> None:
        """Print the stack of the traced program."""
        lines = self._tracer.stack()
        lines = lines[: len(lines) - self._depth - stacklevel]
        print("".join(traceback.format_list(list(map(_summary, lines)))), file=file)

    def print_guards(self, *, file: IO[str] | None = None) -> None:
        """Print the guards so far."""
        print("\n".join(_guard_lines(self._tracer)), file=file)

    def sleep(self, sec: float) -> None:
        """Wait."""
        time.sleep(sec)

    def _i_will_not_complain_if_bc_breaks_InstructionTranslator(self) -> Translator:
        return self._frame(0)


def _summary(line: StackLine) -> traceback.FrameSummary:
    """A line of the user's stack as the standard library prints it, with the columns of the expression."""
    written = linecache.getline(line.file, line.line)
    indentation = len(written) - len(written.lstrip())
    columns = (line.column + indentation, line.end_column + indentation) if line.column >= 0 else (None, None)
    return traceback.FrameSummary(
        line.file, line.line, line.function, end_lineno=line.line, colno=columns[0], end_colno=columns[1]
    )


def _guard_lines(tracer: Tracer) -> list[str]:
    return [
        f"{guard.kind.value} {expression(guard.source) if guard.source is not None else ''}".strip()
        for guard in tracer.output.guards.values()
    ]


def _function(tracer: Tracer, tracker: VariableTracker) -> Callable[[ComptimeContext], object]:
    """The real function behind a tracker: it runs now, and may read only its globals and arguments."""
    match realise(tracer, tracker):
        case FunctionVariable(function=function):
            return function
        case NestedFunctionVariable(cells=cells) as nested if not cells:
            defaults = tuple(realise(tracer, each).constant() for each in nested.defaults)
            return FunctionType(nested.code, nested.scope, nested.name, defaults)
        case other:
            raise breaks.unsupported(
                breaks.UNSUPPORTED_CALL, f"comptime({other.describe()})", name="comptime of a function with a closure"
            )


@handles_named(MODULE, "_Comptime.__call__")
def _call(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    function = _function(tracer, (*arguments, *keywords.values())[0])
    tracer.depend_on_process(_RUNS)
    with _own_errors():
        function(ComptimeContext(tracer))
    return ConstantVariable(None)


def _own_errors() -> ErrorReplacement:
    """Raise an error of the function as the program's own, not as an internal error of the compiler."""

    def raise_as_own(error: Exception) -> NoReturn:
        raise ComptimeError(error) from error

    return ErrorReplacement(Exception, raise_as_own, excluded=(breaks.Unsupported, ObservedException, ComptimeError))


def _by_name(name: str, *, of_value: bool = False, returns: bool = False) -> None:
    """Register one of the short forms: ``comptime.print(y)`` for ``comptime(lambda ctx: ctx.print(...))``."""

    @handles_named(MODULE, f"_Comptime.{name}")
    def _short(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        given = {key: realise(tracer, each).constant() for key, each in keywords.items() if key == "stacklevel"}
        value = next((each for each in (*arguments, *(keywords[key] for key in ("e", "val") if key in keywords))), None)
        context: Any = ComptimeContext(tracer)
        if "print" in name:
            tracer.depend_on_process(_RUNS)
        with _own_errors():
            if not of_value:
                getattr(context, name.removesuffix("_and_return"))(**given)
            elif name == "force_static":
                ComptimeValue(tracer, cast(VariableTracker, value)).force_static()
            else:
                getattr(context, name)(ComptimeValue(tracer, cast(VariableTracker, value)))
        return value if returns and value is not None else ConstantVariable(None)


for _name in ("graph_break", "print_graph", "print_disas", "print_value_stack", "print_locals", "print_bt",
              "print_guards"):  # fmt: skip
    _by_name(_name)
for _name in ("print", "assert_static", "force_static"):
    _by_name(_name, of_value=True)
_by_name("print_value_stack_and_return", returns=True)


@handles_named(MODULE, "_Comptime.sleep")
def _sleep(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    seconds = realise(tracer, (*arguments, *keywords.values())[0]).constant()
    tracer.depend_on_process(_RUNS)
    ComptimeContext(tracer).sleep(cast(float, seconds))
    return ConstantVariable(None)


@handles_named(MODULE, "_Comptime.breakpoint")
def _breakpoint(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    """The debugger, in a frame with the trace: ``ctx.print_locals()``, ``ctx.get_local(name)``."""
    tracer.depend_on_process(_RUNS)
    ctx = ComptimeContext(tracer)
    sys.breakpointhook()  # noqa: T100  (what the program asked for)
    del ctx
    return ConstantVariable(None)
