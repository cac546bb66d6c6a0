"""An exception object of the traced program: an object with fields of its C struct.

    e.args, e.__cause__     fields of the tracker
    e.code                  an attribute, as of every object
    str(e)                  computed by the built-in base class

In torch: torch/_dynamo/variables/misc.py (ExceptionVariable). Read next:
nbcompile/tracing/frame/handlers/control.py
"""

from __future__ import annotations

import types
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeGuard

from nbcompile.capture.recipe import Build, Call, Constant, Mutation, Recipe, SetAttribute
from nbcompile.support.class_flags import HEAP_TYPE
from nbcompile.tracing import breaks
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, LazyVariable, VariableTracker, realise
from nbcompile.tracing.variables.classes import ClassVariable
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.lookup import class_lookup
from nbcompile.tracing.variables.objects import ObjectVariable
from nbcompile.tracing.variables.observed import ObservedException
from nbcompile.tracing.variables.sequences import TupleVariable

TAKES_ANYTHING = tuple({cls.__init__ for cls in (BaseException, ImportError, NameError, AttributeError, StopIteration)})
"""Initialisers in C that accept positional arguments of every number and type."""
IN_C = (types.MemberDescriptorType, types.GetSetDescriptorType)


class TracebackVariable(VariableTracker):
    """A traceback: it is only known to exist, and only Python can create it."""

    def python_type(self) -> type:
        return types.TracebackType

    def describe(self) -> str:
        return "TracebackVariable()"

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        raise breaks.unsupported(
            breaks.UNSUPPORTED_ATTRIBUTE, f"{self.describe()}.{name}", attribute=name, name=self.type_name()
        )


class ExceptionVariable(ObjectVariable):
    """An exception, by its class and arguments."""

    has_fixed_class = True

    def __init__(self, cls: type[BaseException], arguments: Sequence[VariableTracker]) -> None:
        super().__init__(cls)
        self.arguments = list(arguments)
        self.cause: VariableTracker | None = None
        self.context: VariableTracker | None = None
        self.suppresses_context = False
        self.failed_lookup: tuple[str, VariableTracker] | None = None
        """Name and object of the look-up that raised an AttributeError."""
        self.traceback: VariableTracker | None = None
        """The traceback that ``raise`` or the traced code has set."""
        self.file_names: list[VariableTracker] = []
        """Arguments of an OSError after ``args`` in the call that created it."""
        self.members: tuple[VariableTracker, ...] | None = None
        """Exceptions of a group, which a later change of the list in ``args`` does not change."""
        self.of_assertion = False
        """True if an ``assert`` statement raised it."""

    def describe(self) -> str:
        return f"ExceptionVariable({self.cls})"

    def hash_key(self, tracer: Tracer) -> Hashable:
        return ("object", id(self))

    # -- attributes ----------------------------------------------------------------------

    def generic_attribute(self, tracer: Tracer, name: str) -> VariableTracker | None:
        known: dict[str, VariableTracker | None] = {
            "__cause__": self.cause,
            "__context__": self.context,
            "__traceback__": self.traceback,
        }
        if name in known:
            return known[name] or ConstantVariable(None)
        if name == "args":
            return TupleVariable(self.arguments)
        if name == "__suppress_context__":
            return ConstantVariable(self.suppresses_context)
        # Fields of C structs (``errno``, ``name``): the built-in class derives them from its arguments,
        # and so does ``_real``.
        found = class_lookup(self.cls, name)
        if _is_in_c(found) and name != "__dict__":
            return self._kept_in_c(tracer, name)
        return super().generic_attribute(tracer, name)

    def _kept_in_c(self, tracer: Tracer, name: str) -> VariableTracker:
        """Attribute that a built-in class computes from its arguments: ``errno``, ``name``, ``value``."""
        stored = tracer.side_effects.attribute(self, name)
        if stored is not None:
            return stored
        if name in ("name", "obj") and self.failed_lookup is not None:
            missing, owner = self.failed_lookup
            return ConstantVariable(missing) if name == "name" else owner
        if name == "value" and issubclass(self.cls, StopIteration):
            return self.arguments[0] if self.arguments else ConstantVariable(None)
        return tracer.constant_or_wrap(getattr(self._real(), name, None))

    def _real(self) -> BaseException:
        """An exception of the built-in base class, with the arguments."""
        builtin: Any = builtin_base(self.cls)  # the user's ``__init__`` was traced already and must not run
        arguments = [*self.arguments, *self.file_names]
        if not all(each.is_constant() for each in arguments):
            self.no_method("__str__")
        exception: BaseException = builtin(*(each.constant() for each in arguments))
        return exception

    def set_attribute(self, tracer: Tracer, name: str, value: VariableTracker) -> None:
        if isinstance(class_lookup(self.cls, "__setattr__"), types.FunctionType):
            super().set_attribute(tracer, name, value)
        else:
            self.plain_set_attribute(tracer, name, value)

    def plain_set_attribute(self, tracer: Tracer, name: str, value: VariableTracker) -> None:
        is_none = value.is_constant() and value.constant() is None
        match name:
            case "__cause__" | "__context__" if not is_none and not issubclass(value.python_type(), BaseException):
                kind = name.strip("_")
                tracer.raise_exception(TypeError, f"exception {kind} must be None or derive from BaseException")
            case "__traceback__" if not is_none and not issubclass(value.python_type(), types.TracebackType):
                tracer.raise_exception(TypeError, "__traceback__ must be a traceback or None")
            case "__suppress_context__" if value.python_type() is not bool:
                tracer.raise_exception(TypeError, "attribute value type must be bool")
            case "__cause__":
                self.set_cause(tracer, value)
            case "__context__":
                self.context = None if value.is_constant() else value
            case "__suppress_context__":
                self.suppresses_context = value.truth(tracer)
            case "args":
                self.arguments = value.unpack(tracer)
            case "__traceback__":
                self.traceback = None if value.is_constant() else value
            case _:  # CPython stores it in the exception's dict; torch breaks the graph, too
                raise breaks.unsupported(breaks.EXCEPTION_ATTRIBUTE, f"{self.describe()}.{name} = ...", attribute=name)

    def plain_delete_attribute(self, tracer: Tracer, name: str) -> None:
        if name == "__suppress_context__":
            tracer.raise_exception(TypeError, "can't delete numeric/char attribute")
        if name in ("args", "__cause__", "__context__", "__traceback__"):
            tracer.raise_exception(TypeError, f"{name} may not be deleted")
        super().plain_delete_attribute(tracer, name)

    def set_cause(self, _tracer: Tracer, cause: VariableTracker) -> None:
        """``raise ... from cause``."""
        self.cause = None if cause.is_constant() else cause
        self.suppresses_context = True

    # -- methods in C --------------------------------------------------------------------

    def builtin_method(
        self, tracer: Tracer, cls: type, name: str, arguments: Arguments, keywords: Keywords
    ) -> VariableTracker:
        match name:
            case "__init__" if cls is not object:
                self._initialise(tracer, [realise(tracer, each) for each in arguments], keywords)
                return ConstantVariable(None)
            case "with_traceback" if len(arguments) == 1:
                self.plain_set_attribute(tracer, "__traceback__", realise(tracer, arguments[0]))
                return self
            case "add_note" if len(arguments) == 1 and not keywords:
                return self._add_note(tracer, realise(tracer, arguments[0]))
            case "__str__":
                return ConstantVariable(str(self._real()))
            case "__repr__":
                args = self._real().args
                return ConstantVariable(f"{self.cls.__name__}{args if len(args) != 1 else f'({args[0]!r})'}")
        return super().builtin_method(tracer, cls, name, arguments, keywords)

    def _initialise(self, tracer: Tracer, arguments: list[VariableTracker], keywords: Keywords) -> None:
        """Check and store arguments as ``__init__`` of the built-in class does."""
        builtin: Any = builtin_base(self.cls)
        if keywords or builtin.__init__ not in TAKES_ANYTHING:
            # A class of this name raises Python's own message. Values that are unknown while tracing are accepted.
            given = {key: _value_or_none(tracer, value) for key, value in keywords.items()}
            known = all(each.is_constant() for each in arguments)
            if known or builtin.__init__ in TAKES_ANYTHING:
                values = [each.constant() if each.is_constant() else None for each in arguments]
                tracer.evaluate(type(self.cls.__name__, (builtin,), {}), values, given)
        self.arguments = arguments
        if issubclass(builtin, OSError) and not issubclass(builtin, BlockingIOError) and 3 <= len(arguments) <= 5:
            self._keep_file_names(tracer, arguments)
        if issubclass(builtin, ImportError):  # a second call resets the fields of the first one
            keywords = {**{key: ConstantVariable(None) for key in ("name", "path")}, **keywords}
        for key, value in keywords.items():  # ImportError(text, name="os")
            tracer.side_effects.store_attribute(tracer, self, key, realise(tracer, value))

    def _keep_file_names(self, tracer: Tracer, arguments: list[VariableTracker]) -> None:
        # OSError(errno, text, filename, winerror, filename2): with a file name, ``args`` are the first two.
        if arguments[2].is_constant() and arguments[2].constant() is None:
            return
        self.arguments, self.file_names = arguments[:2], arguments[2:]
        for key, value in zip(("filename", "filename2"), arguments[2::2], strict=False):
            tracer.side_effects.store_attribute(tracer, self, key, value)

    def _add_note(self, tracer: Tracer, note: VariableTracker) -> VariableTracker:
        if not issubclass(note.python_type(), str):
            tracer.raise_exception(TypeError, f"note must be a str, not '{note.type_name()}'")
        notes = tracer.side_effects.attribute(self, "__notes__")
        if notes is None:
            notes = tracer.list_of([])
            tracer.side_effects.store_attribute(tracer, self, "__notes__", notes)
        return notes.call_method(tracer, "append", [note], {})

    # -- reconstruction ------------------------------------------------------------------

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        return reconstruction.shared(
            self, lambda: self._make(reconstruction), fill=lambda: self._completed(reconstruction)
        )

    def _make(self, reconstruction: Reconstructor) -> Recipe:
        cls, arguments = Constant(self.cls, self.cls.__name__), tuple(map(reconstruction.recipe, self.arguments))
        if self.members is not None:  # ``args`` follow
            arguments = (arguments[0], Build("tuple", tuple(map(reconstruction.recipe, self.members))))
        # Without code of the program, the class itself creates it: some classes in C store more than ``args``.
        own = (types.FunctionType, staticmethod)
        if not any(isinstance(class_lookup(self.cls, name), own) for name in ("__new__", "__init__")):
            return Call(cls, arguments)
        return Call(Constant(without_initialising, "without_initialising"), (cls, *arguments))

    def _completed(self, reconstruction: Reconstructor) -> tuple[Mutation, ...]:
        # ``raise ... from ...`` and nested handlers link exceptions, which may form a cycle, so these are
        # linked after they are created.
        target = self.recipe(reconstruction)
        links = {"__cause__": self.cause, "__context__": self.context}
        known = {name: value for name, value in links.items() if value is not None}
        if self.failed_lookup is not None:
            known |= {"name": ConstantVariable(self.failed_lookup[0]), "obj": self.failed_lookup[1]}
        linked = tuple(SetAttribute(target, name, reconstruction.recipe(value)) for name, value in known.items())
        if self.members is not None:
            arguments = Build("tuple", tuple(map(reconstruction.recipe, self.arguments)))
            linked = (*linked, SetAttribute(target, "args", arguments))
        suppressed = SetAttribute(target, "__suppress_context__", Constant(self.suppresses_context))
        return (*reconstruction.attributes(self), *linked, *((suppressed,) if self.suppresses_context else ()))


class GivenExceptionVariable(ObjectVariable):
    """An exception from outside, such as one caught before a graph break. Fields of its C struct are read."""

    has_fixed_class = True

    def _descriptor(self, tracer: Tracer, name: str, found: object) -> VariableTracker | None:
        if not _is_in_c(found) or name == "__dict__":
            return super()._descriptor(tracer, name, found)
        try:
            value = getattr(self.value, name)
        except Exception:  # noqa: BLE001  # C raises for an unset field, and not only AttributeError
            is_read = False
        else:
            is_read = not (self.was_raised and name == "__traceback__")  # ``raise`` changes the traceback of the object
        stored = tracer.side_effects.attribute(self, name)
        if stored is not None:
            return stored
        if not is_read:
            raise breaks.unsupported(
                breaks.UNSUPPORTED_ATTRIBUTE, f"{self.describe()}.{name}", attribute=name, name=self.type_name()
            )
        return self._lazy(tracer, name, value)

    def set_cause(self, tracer: Tracer, cause: VariableTracker) -> None:
        """``raise ... from cause``, which is stored on the object."""
        tracer.side_effects.store_attribute(tracer, self, "__cause__", cause)
        tracer.side_effects.store_attribute(tracer, self, "__suppress_context__", ConstantVariable(True))

    def set_attribute(self, tracer: Tracer, name: str, value: VariableTracker) -> None:
        found = self.on_class(tracer, name)
        if _is_in_c(found):
            raise breaks.unsupported(breaks.EXCEPTION_ATTRIBUTE, f"{self.describe()}.{name} = ...", attribute=name)
        if isinstance(class_lookup(self.cls, "__setattr__"), types.FunctionType):
            super().set_attribute(tracer, name, value)
        else:
            self.plain_set_attribute(tracer, name, value)

    def builtin_method(
        self, tracer: Tracer, cls: type, name: str, arguments: Arguments, keywords: Keywords
    ) -> VariableTracker:
        # The classes whose text depends only on ``args``.
        if name in ("__str__", "__repr__") and cls in (BaseException, KeyError):
            args = realise(tracer, self.get_attribute(tracer, "args"))
            alike = ExceptionVariable(self.cls, args.unpack(tracer))
            return alike.builtin_method(tracer, cls, name, arguments, keywords)
        return super().builtin_method(tracer, cls, name, arguments, keywords)


AnyException = ExceptionVariable | GivenExceptionVariable


def set_context(tracer: Tracer, error: VariableTracker, handling: VariableTracker) -> None:
    """Set the context of a raised exception to the one being handled. The chain of contexts never becomes a cycle."""
    if not isinstance(error, AnyException):
        return
    if isinstance(handling, LazyVariable):  # an exception that a caller handles
        # Most exceptions are new and caught immediately: their context is not read, and no guard is needed.
        if isinstance(error, ExceptionVariable) and error.context is None and handling.realised is None:
            error.context = handling
            return
        handling = handling.realise(tracer)
    if handling is error or handling.is_constant():
        return
    passed: set[int] = set()
    above: VariableTracker | None = handling
    while isinstance(above, AnyException) and id(above) not in passed:
        passed.add(id(above))
        context = _context(tracer, above)
        if context is error:  # c -> b -> error -> a, raised while c is handled, becomes error -> c -> b, as in CPython
            _store_context(tracer, above, None)
        above = context
    _store_context(tracer, error, handling)


def _context(tracer: Tracer, error: AnyException) -> VariableTracker | None:
    context = realise(tracer, error.get_attribute(tracer, "__context__"))
    return None if context.is_constant() else context


def _store_context(tracer: Tracer, error: AnyException, context: VariableTracker | None) -> None:
    if isinstance(error, ExceptionVariable):
        error.context = context
    else:
        tracer.side_effects.store_attribute(tracer, error, "__context__", context or ConstantVariable(None))


def _is_in_c(found: object) -> bool:
    """True for an attribute that is a field of the C struct of a built-in class of exceptions."""
    return isinstance(found, IN_C) and not found.__objclass__.__flags__ & HEAP_TYPE


def without_initialising(cls: type[BaseException], *arguments: Any) -> BaseException:
    """An exception of the program's class, whose own ``__init__`` was traced: ``__new__`` in C sets ``args``."""
    base: type = cls
    while base.__flags__ & HEAP_TYPE:  # ``BaseException.__new__`` raises for classes with another layout
        base = base.__base__ or BaseException
    error: BaseException = base.__new__(cls, *arguments)
    return error


def builtin_base(cls: type[BaseException]) -> type:
    """The class in C whose layout the exceptions of a class have."""
    return next(base for base in cls.__mro__ if not base.__flags__ & HEAP_TYPE)


def _value_or_none(tracer: Tracer, value: VariableTracker) -> object:
    value = realise(tracer, value)
    return value.constant() if value.is_constant() else None


def look_up(tracer: Tracer, owner: VariableTracker, name: str) -> VariableTracker:
    """An attribute; an AttributeError has the object and the name, unless an inner look-up has set them.

    ``__getattr__`` and properties may raise one without them: the look-up that called them sets them, as in Python.
    """
    try:
        return owner.get_attribute(tracer, name)
    except ObservedException as error:
        raised = error.value
        if isinstance(raised, ExceptionVariable) and issubclass(raised.cls, AttributeError):
            is_set = any(tracer.side_effects.attribute(raised, field) is not None for field in ("name", "obj"))
            if raised.failed_lookup is None and not is_set:
                raised.failed_lookup = (name, owner)
        raise


def exception_to_raise(tracer: Tracer, given: VariableTracker, wrong: str) -> VariableTracker:
    """The exception of ``raise given``: a class is called; ``wrong`` is the message if ``given`` is no exception."""
    if not is_exception_class(given):
        if BaseException not in given.python_type().__mro__:
            tracer.raise_exception(TypeError, wrong)
        return given
    return call_exception_class(tracer, given, [], repr)


def is_exception_class(given: VariableTracker) -> TypeGuard[ClassVariable]:
    """True for a class of exceptions, by its ``__mro__``, as no metaclass is called."""
    return isinstance(given, ClassVariable) and BaseException in given.value.__mro__


def call_exception_class(
    tracer: Tracer, cls: ClassVariable, arguments: Arguments, type_text: Callable[[type], str]
) -> VariableTracker:
    """An exception of a class, whose ``__new__`` may return anything: ``type_text`` shows its type in the message."""
    error = realise(tracer, tracer.call(cls, arguments))
    if BaseException not in error.python_type().__mro__:
        found = type_text(error.python_type())
        text = f"calling {cls.value} should have returned an instance of BaseException, not {found}"
        tracer.raise_exception(TypeError, text)
    return error
