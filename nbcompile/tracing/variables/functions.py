"""Python functions, from outside and defined by the traced code, and their bound methods.

A Python function is inlined: its body is run symbolically in a frame of its own
(inlining.py). The call of one that must not be traced breaks the graph, with the
reason of rules.py.

In torch: torch/_dynamo/variables/functions.py. Read next: known_callables.py
"""

from __future__ import annotations

import types
from collections.abc import Hashable, Mapping, Sequence
from types import CodeType, FunctionType

from nbcompile.capture.guard import GuardKind
from nbcompile.capture.recipe import Constant, FromSource, Function, Mutation, Recipe, SetAttribute
from nbcompile.capture.source import AttrSource, CellSource, ItemSource, Source
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables import function_members
from nbcompile.tracing.variables.base import (
    Arguments,
    Keywords,
    LazyVariable,
    UntracedMethodVariable,
    VariableTracker,
)
from nbcompile.tracing.variables.cells import CellVariable, cell_tracker
from nbcompile.tracing.variables.class_facts import is_method_in_c
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.instance_dict import InstanceDictVariable, dict_view_of
from nbcompile.tracing.variables.mappings import DictVariable
from nbcompile.tracing.variables.sequences import TupleVariable


class BaseFunctionVariable(VariableTracker):
    """A function that can be inlined."""

    def python_type(self) -> type:
        return FunctionType

    # Needed to bind arguments and run the body; implemented by each kind of function.
    code: CodeType
    name: str
    qualname: str

    def default_values(self, tracer: Tracer) -> Sequence[VariableTracker]:
        """Defaults of the last positional parameters."""
        replaced = function_members.replaced_defaults(tracer, self)
        return self.created_defaults(tracer) if replaced is None else replaced

    def keyword_defaults(self, tracer: Tracer) -> Mapping[str, VariableTracker]:
        """Defaults of keyword-only parameters."""
        replaced = function_members.replaced_keyword_defaults(tracer, self)
        return self.created_keyword_defaults(tracer) if replaced is None else replaced

    def created_defaults(self, tracer: Tracer) -> Sequence[VariableTracker]:
        """Defaults of the last positional parameters, before the traced code replaces them."""
        raise NotImplementedError

    def created_keyword_defaults(self, tracer: Tracer) -> Mapping[str, VariableTracker]:
        """Defaults of keyword-only parameters, before the traced code replaces them."""
        raise NotImplementedError

    def closure_cells(self, tracer: Tracer) -> Sequence[CellVariable]:
        """Cells, in the order of ``co_freevars``."""
        raise NotImplementedError

    def global_scope(self) -> dict[str, object]:
        """The real globals that its body reads."""
        raise NotImplementedError

    def set_attribute(self, tracer: Tracer, name: str, value: VariableTracker) -> None:
        function_members.check_member(tracer, name, value)
        tracer.side_effects.store_attribute(tracer, self, name, value)

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        return tracer.inline(self, arguments, keywords)


class FunctionVariable(BaseFunctionVariable):
    """A function that exists outside of the traced code."""

    def __init__(self, function: FunctionType, source: Source | None = None) -> None:
        self.function = function
        self.source = source
        self.code = function.__code__
        self.name = function.__name__
        self.qualname = function.__qualname__

    def describe(self) -> str:
        return f"UserFunctionVariable({self.name})"

    def hash_key(self, tracer: Tracer) -> Hashable:
        return self.function

    def created_defaults(self, tracer: Tracer) -> Sequence[VariableTracker]:
        # Defaults are part of the function object and may be replaced: each has a source below the function, and a
        # guard if it is used.
        return [
            self._part(tracer, "__defaults__", index, value)
            for index, value in enumerate(self.function.__defaults__ or ())
        ]

    def created_keyword_defaults(self, tracer: Tracer) -> Mapping[str, VariableTracker]:
        if isinstance(read := tracer.side_effects.known(self.function.__kwdefaults__), DictVariable):
            return function_members.named_values(tracer, read)  # the traced code may have changed the dict
        return {
            name: self._part(tracer, "__kwdefaults__", name, value)
            for name, value in (self.function.__kwdefaults__ or {}).items()
        }

    def _part(self, tracer: Tracer, attribute: str, key: object, value: object) -> VariableTracker:
        if self.source is None:
            return tracer.constant_or_wrap(value)
        return LazyVariable(value, ItemSource(AttrSource(self.source, attribute), key))

    def closure_cells(self, tracer: Tracer) -> Sequence[CellVariable]:
        cells = zip(self.code.co_freevars, self.function.__closure__ or (), strict=True)
        return [self._cell(tracer, name, index, cell) for index, (name, cell) in enumerate(cells)]

    def _cell(self, tracer: Tracer, name: str, index: int, cell: types.CellType) -> CellVariable:
        content = None if self.source is None else CellSource(self.source, name, index)
        found = cell_tracker(tracer, cell, name, content)
        # Both functions were traced with one cell. If the next call has two, an assignment through one function would
        # not be visible in the other: a guard compares the cells.
        address = found.address()
        if content is not None and address is not None and found.content_source != content:  # two functions share it
            tracer.guard(ItemSource(AttrSource(content.base, "__closure__"), index), GuardKind.OBJECT_ALIASING, address)
        return found

    def global_scope(self) -> dict[str, object]:
        return self.function.__globals__

    def identity(self) -> object:
        return self.function

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        overlay = tracer.side_effects.attribute(self, name)
        if overlay is not None:
            return overlay
        if name == "__dict__":
            return dict_view_of(tracer, self, self.function.__dict__, self._lazy)
        # ``hasattr(f, name)`` was false: the trace depends on the AttributeError.
        if self.source is not None and not hasattr(self.function, name):
            tracer.guard(self.source, GuardKind.HASATTR, (name, False))
        value = tracer.evaluate(getattr, (self.function, name))
        # The function itself is guarded by identity or by its code, so these need no guard of their own.
        if name in ("__name__", "__qualname__", "__module__", "__doc__", "__code__"):
            return ConstantVariable(value)
        if name == "__get__":
            return BuiltinGetVariable(self)
        return self._lazy(tracer, name, value)

    def _lazy(self, tracer: Tracer, name: str, value: object) -> VariableTracker:
        if self.source is None:
            return tracer.wrap(value, None)
        tracker = LazyVariable(value, AttrSource(self.source, name))
        tracer.output.left_unread.append(tracker)
        return tracker

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        return FromSource(self.source) if self.source is not None else Constant(self.function, self.name)


class NestedFunctionVariable(BaseFunctionVariable):
    """A function (or lambda) that the traced code itself defines."""

    def __init__(
        self,
        code: CodeType,
        scope: dict[str, object],
        defaults: Sequence[VariableTracker],
        keyword_defaults: Mapping[str, VariableTracker],
        cells: Sequence[CellVariable],
        annotations: VariableTracker | None = None,
    ) -> None:
        self.code = code
        self.name = code.co_name
        self.qualname = code.co_qualname
        self.scope = scope
        self.defaults = defaults
        self.named_defaults = keyword_defaults
        self.cells = cells
        self.annotations = annotations
        self.wrapped: BaseFunctionVariable | None = None

    def describe(self) -> str:
        return f"NestedUserFunctionVariable({self.name})"

    def hash_key(self, tracer: Tracer) -> Hashable:
        return ("function", id(self))  # hashed by identity: each ``def`` that runs creates another function

    def created_defaults(self, tracer: Tracer) -> Sequence[VariableTracker]:
        return self.defaults

    def created_keyword_defaults(self, tracer: Tracer) -> Mapping[str, VariableTracker]:
        return self.named_defaults

    def closure_cells(self, tracer: Tracer) -> Sequence[CellVariable]:
        return self.cells

    def global_scope(self) -> dict[str, object]:
        return self.scope

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        overlay = tracer.side_effects.attribute(self, name)
        # ``f.__doc__ = ...`` in the traced code hides the original docstring.
        if overlay is not None:
            return overlay
        known: dict[str, object] = {
            "__name__": self.name,
            "__qualname__": self.code.co_qualname,
            "__doc__": documentation(self.code),
            "__module__": self.scope.get("__name__"),
            "__code__": self.code,
            "__text_signature__": None,
        }
        if name in known:
            return ConstantVariable(known[name])
        # No function object exists yet: each attribute is built from the operands of MAKE_FUNCTION.
        if name == "__defaults__":
            return TupleVariable(self.defaults) if self.defaults else ConstantVariable(None)
        if name == "__kwdefaults__":
            named = [(ConstantVariable(key), value) for key, value in self.named_defaults.items()]
            if not named:
                return ConstantVariable(None)
            # From here on the dict has the defaults: the traced code may change it, or return it.
            tracer.side_effects.store_attribute(tracer, self, name, DictVariable(tracer, named))
            return self.get_attribute(tracer, name)
        if name == "__closure__":
            return TupleVariable(self.cells) if self.cells else ConstantVariable(None)
        if name == "__get__":
            return BuiltinGetVariable(self)
        if name == "__annotations__":
            return self._annotations(tracer)
        if name == "__dict__":
            return InstanceDictVariable(tracer, self, {})
        if name == "__type_params__":
            return TupleVariable([])
        if hasattr(FunctionType, name):
            return super().get_attribute(tracer, name)
        tracer.raise_exception(AttributeError, f"'function' object has no attribute '{name}'")

    def _annotations(self, tracer: Tracer) -> VariableTracker:
        """Annotations as a dict; the operand of MAKE_FUNCTION is a tuple of alternating names and values."""
        if isinstance(self.annotations, DictVariable):
            return self.annotations
        # ``(name, value, name, value, ...)``: the compiler builds the tuple, and CPython converts it to a dict
        # when it is read.
        parts = self.annotations.items if isinstance(self.annotations, TupleVariable) else []
        self.annotations = DictVariable(tracer, zip(parts[::2], parts[1::2], strict=True))
        return self.annotations

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        return reconstruction.shared(self, lambda: self._make(reconstruction), lambda: self._complete(reconstruction))

    def _complete(self, reconstruction: Reconstructor) -> tuple[Mutation, ...]:
        stored = reconstruction.attributes(self)
        tracer = reconstruction.tracer
        if self.annotations is None or tracer.side_effects.attribute(self, "__annotations__") is not None:
            return stored
        # The function has been created: ``shared`` returns a reference to it, and does not call its argument.
        target = reconstruction.shared(self, lambda: Constant(None))
        annotations = reconstruction.recipe(self._annotations(tracer))
        return (SetAttribute(target, "__annotations__", annotations), *stored)

    def _make(self, reconstruction: Reconstructor) -> Recipe:
        return Function(
            self.code,
            self.name,
            reconstruction.globals_of(self.scope),
            tuple(map(reconstruction.recipe, self.defaults)) or None,
            tuple((name, reconstruction.recipe(value)) for name, value in self.named_defaults.items()),
            tuple(map(reconstruction.recipe, self.cells)),
        )


def documentation(code: CodeType) -> str | None:
    """The docstring of a function: its first constant, if that is a string."""
    first = code.co_consts[0] if code.co_consts else None
    return first if isinstance(first, str) else None


class MethodVariable(VariableTracker):
    """A function bound to an object, which is the first argument of a call."""

    def __init__(self, function: VariableTracker, owner: VariableTracker, source: Source | None = None) -> None:
        self.function = function
        self.owner = owner
        self.source = source

    def python_type(self) -> type:
        return types.MethodType

    def describe(self) -> str:
        return f"UserMethodVariable({self.function.describe()}, {self.owner.describe()})"

    def hash_key(self, tracer: Tracer) -> Hashable:
        return ("method", self.function.hash_key(tracer), self.owner.hash_key(tracer))

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        if name == "__func__":
            return self.function
        if name == "__self__":
            return self.owner
        if name == "__call__":
            return _CallOfMethodVariable(self, name)
        # An attribute that the class of methods lacks is looked up on the function.
        if name == "__class__" or is_method_in_c(types.MethodType, name):
            return super().get_attribute(tracer, name)
        return self.function.get_attribute(tracer, name)

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        tracer.hand_over(self, self.function)
        return tracer.call(self.function, [self.owner, *arguments], keywords)

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        if self.source is not None:
            return super().recipe(reconstruction)
        return reconstruction.shared(self, lambda: reconstruction.bound_method(self.function, self.owner))


class _CallOfMethodVariable(UntracedMethodVariable):
    """``method.__call__``."""

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        return self.owner.call(tracer, arguments, keywords)


class BuiltinGetVariable(VariableTracker):
    """``function.__get__``: a call binds the function to an object."""

    def __init__(self, function: VariableTracker) -> None:
        self.function = function

    def python_type(self) -> type:
        return types.MethodWrapperType

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        owner = arguments[0]
        if owner.is_constant() and owner.constant() is None:
            return self.function
        return MethodVariable(self.function, owner)
