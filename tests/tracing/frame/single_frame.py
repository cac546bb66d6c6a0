"""One frame of a traced program: an interpreter, a translator, and constants as arguments."""

from __future__ import annotations

import builtins
from types import FunctionType

from nbcompile.capture.frame import Frame
from nbcompile.capture.trace import Assumptions
from nbcompile.options import Options
from nbcompile.tracing.frame.interpreter import Interpreter
from nbcompile.tracing.frame.translator import Translator
from nbcompile.tracing.graph.override_state import OverrideState
from nbcompile.tracing.inputs.dynamism import Dynamism
from nbcompile.tracing.variables.constant import ConstantVariable


def frame_of(function: FunctionType, *arguments: object) -> tuple[Translator, Interpreter]:
    """The frame of a call with constants as arguments, and the interpreter that runs it."""
    code = function.__code__
    locals_ = dict(zip(code.co_varnames, arguments, strict=False))
    frame = Frame(code, locals_, function.__globals__, vars(builtins))
    interpreter = Interpreter(frame, Options(), Dynamism(), Assumptions(), OverrideState(()))
    translator = Translator(
        interpreter, code, frame.globals, {name: ConstantVariable(value) for name, value in locals_.items()}, {}
    )
    interpreter.frames.append(translator)
    return translator, interpreter
