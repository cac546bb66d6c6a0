"""Inlining of calls: a frame for the body of a function or generator.

    def h(a, *rest, k=1): ...         a frame of its own: locals a, rest, k
    h(x, y, k=2)                      {a: x, rest: (y,), k: 2}

The callee's translator runs to its end before the caller continues; a generator's runs to its next ``yield`` for each
item.

In torch: torch/_dynamo/symbolic_convert.py (InliningInstructionTranslator) and
variables/functions.py (bind_args). Read next: nbcompile/tracing/effects/reconstruction.py
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from nbcompile.bytecode.instruction import Instruction
from nbcompile.capture.recipe import Recipe
from nbcompile.tracing import breaks, rules
from nbcompile.tracing.frame.handlers.control import end_yield_from
from nbcompile.tracing.frame.reconstruct_iterators import class_of, remade
from nbcompile.tracing.frame.step_description import first_line
from nbcompile.tracing.frame.translator import Translator
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise, realise_unless_deferred
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.containers import BuiltinMethodVariable
from nbcompile.tracing.variables.exceptions import (
    ExceptionVariable,
    call_exception_class,
    exception_to_raise,
    is_exception_class,
    set_context,
)
from nbcompile.tracing.variables.functions import BaseFunctionVariable
from nbcompile.tracing.variables.iterators import IteratorVariable
from nbcompile.tracing.variables.mappings import DictVariable
from nbcompile.tracing.variables.objects import ObjectVariable
from nbcompile.tracing.variables.observed import ObservedException
from nbcompile.tracing.variables.representations import RECURSIVE_REPR, represented
from nbcompile.tracing.variables.sequences import TupleVariable

if TYPE_CHECKING:
    from nbcompile.tracing.frame.protocol import FrameInterpreter

CLOSE_RETURNS = sys.version_info >= (3, 13)
"""``generator.close()`` returns what the generator returned."""

RESUMED_IN_YIELD_FROM = 2
"""The argument of a RESUME, its low two bits, where a frame continues inside of ``yield from``."""


def inline(
    interpreter: FrameInterpreter, function: BaseFunctionVariable, arguments: Arguments, keywords: Keywords
) -> VariableTracker:
    """The result of a Python function, by running its body symbolically."""
    # A coroutine runs when something awaits it, which no frame of the trace does.
    code = function.code
    if code in RECURSIVE_REPR and len(arguments) == 1 and not keywords:
        return represented(interpreter, function, arguments[0])
    if code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        broken = breaks.unsupported(breaks.GENERATOR, function.describe())
        if interpreter.frames[-1].code.co_filename.startswith(rules.NBCOMPILE):  # it is what the user compiles
            broken.stack = (first_line(code),)
        raise broken
    frame = Translator(
        interpreter,
        code,
        function.global_scope(),
        bind(interpreter, function, arguments, keywords),
        dict(zip(code.co_freevars, function.closure_cells(interpreter), strict=True)),
        function.source,
        function,
    )
    # False for a function that the callee calls in turn without its own frame: the ``key`` of ``sorted``.
    frame.returns_to_call = interpreter.frames[-1].calling is function
    # A generator's frame is created now, and runs only when an item is requested, as in CPython.
    interpreter.note_inlined(frame)
    if code.co_flags & inspect.CO_GENERATOR:
        generator = GeneratorVariable(interpreter, frame)
        interpreter.note_generator(generator)
        return generator
    return interpreter.run_frame(frame).value


def bind(
    tracer: Tracer, function: BaseFunctionVariable, arguments: Arguments, keywords: Keywords
) -> dict[str, VariableTracker]:
    """Arguments to parameters, as CPython does it; a break if they do not fit: the call then raises its own error."""
    code = function.code
    # Order of a code object's ``co_varnames``:
    #     positional only | positional | keyword only | *args | **kwargs | other locals
    positional = list(code.co_varnames[: code.co_argcount])
    keyword_only = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    rest = code.co_argcount + code.co_kwonlyargcount
    bound = dict(zip(positional, arguments, strict=False))
    if code.co_flags & inspect.CO_VARARGS:
        bound[code.co_varnames[rest]] = TupleVariable(list(arguments[len(positional) :]))
        rest += 1
    elif len(arguments) > len(positional):
        raise _misfit(function, _too_many(tracer, function, arguments, keywords))
    # A name that is positional only may be repeated in ``**kwargs``: ``def f(a, /, **kw)`` takes ``f(1, a=2)``.
    extra: dict[str, VariableTracker] = {}
    by_keyword = {*positional[code.co_posonlyargcount :], *keyword_only}
    for name, value in keywords.items():
        if name in by_keyword and name not in bound:
            bound[name] = value
        elif name in by_keyword:
            raise _misfit(function, f"{function.qualname}() got multiple values for argument '{name}'")
        elif code.co_flags & inspect.CO_VARKEYWORDS:
            extra[name] = value
        else:
            raise _misfit(function, f"{function.qualname}() got an unexpected keyword argument '{name}'")
    if code.co_flags & inspect.CO_VARKEYWORDS:
        bound[code.co_varnames[rest]] = DictVariable(
            tracer, [(ConstantVariable(name), value) for name, value in extra.items()]
        )
    _fill_defaults(tracer, function, bound, positional, keyword_only)
    return bound


def _fill_defaults(
    tracer: Tracer,
    function: BaseFunctionVariable,
    bound: dict[str, VariableTracker],
    positional: Sequence[str],
    keyword_only: Sequence[str],
) -> None:
    # Defaults are read where an argument is missing, and only there: reading them adds guards.
    if missing := [name for name in positional if name not in bound]:
        defaults = function.default_values(tracer)  # those of the last positional parameters
        known = dict(zip(positional[len(positional) - len(defaults) :], defaults, strict=True))
        _fill(function, bound, missing, known, "positional")
    if missing := [name for name in keyword_only if name not in bound]:
        _fill(function, bound, missing, function.keyword_defaults(tracer), "keyword-only")


def _fill(
    function: BaseFunctionVariable,
    bound: dict[str, VariableTracker],
    missing: Sequence[str],
    defaults: Mapping[str, VariableTracker],
    kind: str,
) -> None:
    bound.update({name: defaults[name] for name in missing if name in defaults})
    if absent := [name for name in missing if name not in defaults]:
        raise _misfit(function, _missing(function, absent, kind))


def _misfit(function: BaseFunctionVariable, text: str) -> breaks.Unsupported:
    return breaks.unsupported(breaks.ARGUMENTS, f"func='{function.qualname}'", name=function.name, error=text)


def _too_many(tracer: Tracer, function: BaseFunctionVariable, arguments: Arguments, keywords: Keywords) -> str:
    takes, given = function.code.co_argcount, len(arguments)
    optional = len(function.default_values(tracer))
    names = function.code.co_varnames[takes : takes + function.code.co_kwonlyargcount]
    by_keyword = sum(name in keywords for name in names)
    accepted = f"from {takes - optional} to {takes}" if optional else str(takes)
    also = ""
    if by_keyword:
        also = f" positional argument{_s(given)} (and {by_keyword} keyword-only argument{_s(by_keyword)})"
    return (
        f"{function.qualname}() takes {accepted} positional argument{'s' if optional else _s(takes)} but {given}{also} "
        f"{'was' if given == 1 and not by_keyword else 'were'} given"
    )


def _s(count: int) -> str:
    return "" if count == 1 else "s"


def _missing(function: BaseFunctionVariable, names: Sequence[str], kind: str) -> str:
    quoted = [f"'{name}'" for name in names]
    listed = (
        quoted[0]
        if len(quoted) == 1
        else " and ".join(quoted)
        if len(quoted) == 2
        else f"{', '.join(quoted[:-1])}, and {quoted[-1]}"
    )
    return (
        f"{function.qualname}() missing {len(names)} required {kind} argument{'' if len(names) == 1 else 's'}: {listed}"
    )


def _stopped(error: VariableTracker) -> VariableTracker:
    """A generator's own StopIteration would look like its end to the loop that iterates (PEP 479)."""
    stopped = ExceptionVariable(RuntimeError, [ConstantVariable("generator raised StopIteration")])
    stopped.cause = stopped.context = error
    stopped.suppresses_context = True
    return stopped


def _thrown(tracer: Tracer, kind: VariableTracker, *rest: VariableTracker) -> VariableTracker:
    """The exception of ``throw(error)``, ``throw(ValueError)``, or the older ``throw(ValueError, value, trace)``."""
    given = [None if each.is_constant() and each.constant() is None else each for each in rest]
    value, trace = [*given, None, None][:2]
    if trace is not None and not issubclass(trace.python_type(), types.TracebackType):
        tracer.raise_exception(TypeError, "throw() third argument must be a traceback object")
    error = _instance(tracer, kind, value)
    if trace is not None:
        error.set_attribute(tracer, "__traceback__", trace)
    return error


def _instance(tracer: Tracer, kind: VariableTracker, value: VariableTracker | None) -> VariableTracker:
    if is_exception_class(kind):
        if value is not None and kind.value in value.python_type().__mro__:
            return value
        parts = [] if value is None else value.unpack(tracer) if value.python_type() is tuple else [value]
        return call_exception_class(tracer, kind, parts, lambda cls: cls.__name__)
    if value is not None and BaseException in kind.python_type().__mro__:
        tracer.raise_exception(TypeError, "instance exception may not have a separate value")
    wrong = f"exceptions must be classes or instances deriving from BaseException, not {kind.type_name()}"
    return exception_to_raise(tracer, kind, wrong)


class GeneratorVariable(IteratorVariable):
    """A generator that the traced code created: a frame that is run piece by piece."""

    def __init__(self, interpreter: FrameInterpreter, frame: Translator) -> None:
        self.interpreter = interpreter
        self.frame = frame
        self.started = False
        self.finished = False
        self.failed = False
        """True if an exception left it and it represents an iterator of C, which continues with its next item."""
        self.given = 0
        """Number of items so far."""
        self.lives_on = False
        """True if it was replaced by a real generator, which continues."""

    def python_type(self) -> type:
        return class_of(self.frame.code)  # of a polyfill: that of the iterator in C

    def describe(self) -> str:
        return f"LocalGeneratorObjectVariable({self.frame.code.co_name})"

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        def make() -> Recipe:
            # Later items are not computed ahead: they may depend on what happens until then.
            recipe = remade(self, reconstruction)
            if recipe is None:
                raise breaks.unsupported(breaks.GENERATOR_RECIPE, self.describe(), name=self.frame.code.co_name)
            return recipe

        return reconstruction.shared(self, make)

    def next_item(self, tracer: Tracer) -> VariableTracker | None:
        return self.send(ConstantVariable(None))

    def send(self, value: VariableTracker) -> VariableTracker | None:
        """Continue with a value until the next ``yield``; None at the end."""
        self._expect_idle()
        if self.failed:
            raise breaks.unsupported(breaks.GENERATOR, f"next() after an exception in {self.describe()}")
        if not self.started and not (value.is_constant() and value.constant() is None):
            self.interpreter.raise_exception(TypeError, "can't send non-None value to a just-started generator")
        if self.finished:
            self.ending = None  # it was reported once
            return None
        # The value sent is what the ``yield`` expression pushes when the frame runs on. Before the first
        # yield there is none.
        if self.started:
            self.frame.push(value)
        self.started = True
        return self._go_on()

    def throw(self, error: VariableTracker) -> VariableTracker | None:
        """Raise an exception where the generator waits."""
        self._expect_idle()
        # Before its first instruction and after its last no ``try`` is active: the exception just leaves it.
        if self.finished or not self.started:
            self.finished = True
            raise ObservedException(error, has_context=True)
        # The delegation of ``yield from``: the exception goes to the inner generator first (PEP 380). It may
        # handle it and yield again, end (its value is the value of ``yield from``), or raise, and then this
        # generator sees what it raised.
        if (iterator := self._waits_for()) is not None:
            try:
                item = iterator.throw(error)
            except ObservedException as raised:
                error = raised.value
            else:
                if item is None:
                    end_yield_from(self.frame, self._send(), self.interpreter.returned_by(iterator))
                    item = self._go_on()
                return item
        return self._go_on(error)

    def _waits_for(self) -> GeneratorVariable | None:
        """The generator that a ``yield from`` of this one is inside of."""
        following = self.frame.view.instructions[self.frame.pc]
        # The low two bits of RESUME's argument say where the frame waits: 0 start, 1 yield, 2 ``yield from``, 3 await.
        if following.opcode != "RESUME" or (following.arg or 0) & 3 != RESUMED_IN_YIELD_FROM:
            return None
        iterator = self.frame.stack[-1]
        if isinstance(iterator, ObjectVariable) and self.interpreter.has_attribute(iterator, "throw"):
            raise breaks.unsupported(breaks.GENERATOR, f"throw() of {iterator.describe()}")
        return iterator if isinstance(iterator, GeneratorVariable) else None

    def _send(self) -> Instruction:
        """SEND instruction to which it returns while it is suspended there."""
        view = self.frame.view
        # The loop of ``yield from``; the jump back behind the RESUME leads to its SEND.
        #     SEND   (to the end when the iterator is exhausted)
        #     YIELD_VALUE
        #     RESUME 2
        #     JUMP_BACKWARD_NO_INTERRUPT  (to SEND)
        back = next(each for each in view.instructions[self.frame.pc :] if each.target is not None)
        assert back.target is not None
        return view.instructions[view.labels[back.target]]

    def close(self, tracer: Tracer) -> VariableTracker:
        """Raise GeneratorExit where it is suspended: its ``finally`` and ``with`` blocks run now."""
        try:
            item = self.throw(ExceptionVariable(GeneratorExit, []))
        except ObservedException as error:
            if not issubclass(error.value.python_type(), (GeneratorExit, StopIteration)):
                raise
            return ConstantVariable(None)
        if item is not None:
            tracer.raise_exception(RuntimeError, "generator ignored GeneratorExit")
        return self.interpreter.returned_by(self) if CLOSE_RETURNS else ConstantVariable(None)

    def waits_in_try(self) -> bool:
        """True if it is suspended where cleanup code is still to run: CPython runs it when the generator is freed."""
        return not self.lives_on and self.is_in_block()

    def is_in_block(self) -> bool:
        """True if it is suspended inside of a ``with`` or ``try`` block, whichever function resumes it."""
        protection = self.frame.current.protection
        if self.finished or not self.started or protection is None:
            return False
        handler = self.frame.view.instructions[self.frame.view.labels[protection.target]]
        return handler.opcode != "CALL_INTRINSIC_1"  # 3.12: around every generator, for StopIteration

    def _expect_idle(self) -> None:
        """Raise, in the traced program, if the generator is running: its own body resumes it."""
        if any(frame is self.frame for frame in self.interpreter.frames):
            self.interpreter.raise_exception(ValueError, "generator already executing")

    def _go_on(self, raised: VariableTracker | None = None) -> VariableTracker | None:
        try:
            if raised is not None:
                if self.frame.handled:  # it waits inside of an ``except``
                    set_context(self.interpreter, raised, self.frame.handled[-1])
                if not self.frame.unwind_to_handler(raised):
                    raise ObservedException(raised, has_context=True)
            outcome = self.interpreter.run_frame(self.frame)
        except ObservedException as error:
            self.finished = True
            self.failed = self.frame.is_polyfill
            # PEP 479: a StopIteration that leaves the body becomes a RuntimeError, or the caller's
            # loop would end silently.
            if issubclass(error.value.python_type(), StopIteration):
                if self.failed:  # an iterator in C passes it on unchanged: the loop sees an end
                    raise breaks.unsupported(breaks.GENERATOR, f"StopIteration in {self.describe()}") from None
                raise ObservedException(_stopped(error.value), has_context=True) from None
            raise
        if outcome.yielded:
            self.given += 1
            return realise_unless_deferred(self.interpreter, outcome.value)
        self.finished = True
        self.ending = outcome.value
        return None

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        if name in ("send", "throw", "close") and self.python_type() is types.GeneratorType:
            return BuiltinMethodVariable(self, name)
        return super().get_attribute(tracer, name)

    def call_method(self, tracer: Tracer, name: str, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        given = [realise(tracer, each) for each in arguments]
        if name in ("send", "throw") and not keywords and 1 <= len(given) <= (1 if name == "send" else 3):
            item = self.send(given[0]) if name == "send" else self.throw(_thrown(tracer, *given))
            if item is None:
                tracer.stop(self)
            return item
        if name == "close":
            return self.close(tracer)
        return super().call_method(tracer, name, arguments, keywords)
