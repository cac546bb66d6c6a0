"""Attributes of modules, ``hasattr``, and the source of a module.

    math.pi              3.14..., guarded at math.pi
    math.no_such_name    AttributeError, and a guard that it is missing

In torch: torch/_dynamo/variables/misc.py (PythonModuleVariable). Read next: nbcompile/tracing/variables/classes.py
"""

from __future__ import annotations

import sys
from types import ModuleType

from nbcompile.capture.guard import GuardKind
from nbcompile.capture.source import AttrSource, ModuleSource, Source
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import VariableTracker, realise
from nbcompile.tracing.variables.observed import ObservedException


def module_attribute(tracer: Tracer, module: ModuleType, name: str, source: Source | None) -> VariableTracker:
    """``module.name``."""
    # Attributes that the traced code stored come first: the real module is changed only after the graph.
    stored = tracer.side_effects.load_global(getattr(module, "__dict__", {}), name)
    if stored is not None and stored.value is not None:
        return stored.value
    if stored is not None:
        tracer.raise_exception(AttributeError, f"module '{module.__name__}' has no attribute '{name}'")
    base = source if source is not None else module_source(module)
    # The program may depend on the AttributeError (``except AttributeError``, ``hasattr``), so it is guarded.
    if base is not None and not hasattr(module, name):
        tracer.guard(base, GuardKind.HASATTR, (name, False))
    value = tracer.evaluate(getattr, (module, name))
    return tracer.wrap(value, None if base is None else AttrSource(base, name))


def module_source(module: ModuleType) -> Source | None:
    """The source of a module, by the module's name."""
    return ModuleSource(module.__name__) if sys.modules.get(module.__name__) is module else None


def is_module_scope(name: str, scope: dict[str, object]) -> bool:
    """True if the dict contains the globals of an imported module."""
    # A module of the same name that was loaded again has other globals, to which the source would resolve.
    module = sys.modules.get(name)
    return module is not None and module.__dict__ is scope


def has_attribute(tracer: Tracer, value: VariableTracker, name: str) -> bool:
    """``hasattr(value, name)``."""
    try:
        realise(tracer, value.get_attribute(tracer, name))
    # ``hasattr`` catches only AttributeError; it propagates other exceptions of a property.
    except ObservedException as error:
        if issubclass(error.value.python_type(), AttributeError):
            return False
        raise
    return True
