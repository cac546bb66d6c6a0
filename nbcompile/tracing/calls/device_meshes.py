"""Slices of a device mesh: created while tracing, and reconstructed if the program returns one.

    mesh["dp"]             a guard on the mesh, the slice is known: no node
    mesh["dp"].size()      a constant
    return mesh["dp"]      a call of DeviceMesh.__getitem__ after the graph: a new object, as in eager mode

In torch: DeviceMeshVariable in torch/_dynamo/variables/distributed.py; its graph has a node for a slice. Read next:
collectives.py
"""

from __future__ import annotations

from typing import Any

from nbcompile import torch_internals
from nbcompile.capture.guard import GuardKind
from nbcompile.capture.recipe import Call, Constant, Recipe
from nbcompile.tracing.calls.registry import handles_named
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.functions import FunctionVariable
from nbcompile.tracing.variables.known_values import whole
from nbcompile.tracing.variables.objects import ObjectVariable


class MeshSliceVariable(ObjectVariable):
    """A slice of a mesh that exists outside of the traced code."""

    has_fixed_class = True

    def __init__(self, value: Any, mesh: VariableTracker, dimensions: VariableTracker) -> None:
        super().__init__(type(value), value)
        self.mesh = mesh
        self.dimensions = dimensions

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        function = Constant(self.cls.__getitem__, "__getitem__")  # type: ignore[index]
        given = (reconstruction.recipe(self.mesh), reconstruction.recipe(self.dimensions))
        return reconstruction.shared(self, lambda: Call(function, given), fill=lambda: reconstruction.attributes(self))


@handles_named("torch.distributed.device_mesh", "DeviceMesh.__getitem__")
def _slice(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    mesh, *others = (realise(tracer, each) for each in (*arguments, *keywords.values()))
    value = torch_internals.device_mesh(getattr(mesh, "value", None))
    known = whole(tracer, others[0]) if len(others) == 1 else None
    is_changed = tracer.side_effects.changed(mesh) is not None
    sliced = None if value is None or known is None or is_changed else _sliced(value, known[0])
    if sliced is None:  # it raises: values that it reads until then are guarded by the trace
        function = mesh.python_type().__getitem__  # type: ignore[index]
        return tracer.call(FunctionVariable(function), arguments, keywords)
    if mesh.source is not None:
        tracer.guard(mesh.source, GuardKind.ID_MATCH, value)
    if sliced is value:
        return mesh
    return tracer.side_effects.remember(sliced, MeshSliceVariable(sliced, mesh, others[0]))


def _sliced(mesh: Any, dimensions: object) -> Any:
    """The slice; None where eager mode raises."""
    try:
        return mesh[dimensions]
    except (KeyError, RuntimeError, ValueError, TypeError, AssertionError):
        return None
