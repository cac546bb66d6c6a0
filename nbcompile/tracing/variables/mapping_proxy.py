"""``types.MappingProxyType(d)``: a dict that is only looked at.

    signature.parameters["x"]     reads the dict behind it

In torch: torch/_dynamo/variables/dicts.py (MappingProxyVariable). Read next:
nbcompile/tracing/variables/instance_dict.py
"""

from __future__ import annotations

import types

from nbcompile.capture.recipe import Call, Constant, Recipe
from nbcompile.capture.source import Source
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import VariableTracker
from nbcompile.tracing.variables.containers import BuiltinMethodVariable
from nbcompile.tracing.variables.mappings import DictVariable

READS = ("get", "keys", "values", "items", "copy")


class MappingProxyVariable(VariableTracker):
    """A window on a dict."""

    def __init__(self, mapping: DictVariable, source: Source | None = None) -> None:
        self.mapping = mapping
        self.source = source

    def python_type(self) -> type:
        return types.MappingProxyType

    def describe(self) -> str:
        return f"MappingProxyVariable({self.mapping.describe()})"

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        if name in READS:
            return BuiltinMethodVariable(self.mapping, name)
        return super().get_attribute(tracer, name)

    def get_item(self, tracer: Tracer, key: VariableTracker) -> VariableTracker:
        return self.mapping.get_item(tracer, key)

    def contains(self, tracer: Tracer, item: VariableTracker) -> bool:
        return self.mapping.contains(tracer, item)

    def iterate(self, tracer: Tracer) -> VariableTracker:
        return self.mapping.iterate(tracer)

    def length(self, tracer: Tracer) -> VariableTracker:
        return self.mapping.length(tracer)

    def truth(self, tracer: Tracer) -> bool:
        return self.mapping.truth(tracer)

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        if self.source is not None:
            return super().recipe(reconstruction)
        return Call(Constant(types.MappingProxyType, "MappingProxyType"), (reconstruction.recipe(self.mapping),))
