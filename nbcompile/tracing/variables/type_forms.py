"""Types as annotations write them: ``list[int]``, ``Optional[Tensor]``, ``int | None``.

They consist only of constants, so the real ones are created while tracing.

    parts: list[Any] = []      list[Any] is evaluated, as Python does in a function's signature
    list[int]()                calls list

In torch: torch/_dynamo/variables/misc.py (TypingVariable). Read next: objects.py
"""

from __future__ import annotations

import contextlib
import types
import typing

from nbcompile.capture.recipe import Constant, FromSource, Recipe
from nbcompile.support.real_class import is_instance
from nbcompile.tracing import breaks
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, UnknownVariable, VariableTracker, realise
from nbcompile.tracing.variables.observed import ObservedException

if typing.TYPE_CHECKING:
    from collections.abc import Hashable


def is_type_form(value: object) -> bool:
    """True if a real value is a type expression that is no class."""
    return is_instance(value, (types.GenericAlias, types.UnionType)) or (
        type(value).__module__ == "typing" and not is_instance(value, type)
    )


class TypeFormVariable(UnknownVariable):
    """``list[int]``, ``typing.Any``, a ``TypeVar``..."""

    def describe(self) -> str:
        return f"TypingVariable({self.value})"

    def hash_key(self, tracer: Tracer) -> Hashable:
        return self.value

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        return tracer.constant_or_wrap(tracer.evaluate(getattr, (self.value, name)))

    def get_item(self, tracer: Tracer, key: VariableTracker) -> VariableTracker:
        return subscripted(tracer, self.value, key)

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        if isinstance(self.value, typing.NewType):  # UserId(5) is 5
            return arguments[0]
        instance = realise(tracer, tracer.call(tracer.wrap(typing.get_origin(self.value), None), arguments, keywords))
        if instance.python_type().__dictoffset__ and instance.is_created_here():
            with contextlib.suppress(ObservedException):  # typing ignores errors, too
                instance.set_attribute(tracer, "__orig_class__", self)
        return instance

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        return FromSource(self.source) if self.source is not None else Constant(self.value, "form")


def subscripted(tracer: Tracer, generic: object, key: VariableTracker) -> VariableTracker:
    """``generic[key]``."""
    form = tracer.evaluate(lambda: generic[_real(tracer, key)], ())  # type: ignore[index]
    return tracer.wrap(form, None)


def _real(tracer: Tracer, part: VariableTracker) -> object:
    """A class, a type expression, a constant, or a tuple or list of these."""
    if part.is_constant():
        return part.constant()
    if part.python_type() in (tuple, list):
        return part.python_type()(_real(tracer, each) for each in part.unpack(tracer))
    value = getattr(part, "value", None)
    if isinstance(value, type) or is_type_form(value):
        return value
    raise breaks.unsupported(breaks.UNSUPPORTED_CALL, f"a type form of {part.describe()}", name="a type form")
