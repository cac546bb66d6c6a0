"""``torch.backends.cuda.SDPAParams``: the parameters of an attention kernel, created, passed on and read.

    params = SDPAParams(q, k, v, None, 0.0, False, False)      node torch._C._SDPAParams
    params.query                                               node getattr

In torch: torch/_dynamo/variables/sdpa.py. Read next: nbcompile/tracing/wrapping/table.py
"""

from __future__ import annotations

from typing import Any

import torch

from nbcompile.capture.guard import GuardKind
from nbcompile.capture.recipe import Call, Constant, FromSource, Recipe
from nbcompile.capture.source import AttrSource, Source
from nbcompile.tracing.calls.registry import handles
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise

CLASS: Any = torch._C._SDPAParams
FIELDS = ("query", "key", "value", "attn_mask", "dropout", "is_causal", "enable_gqa")


class AttentionParamsVariable(VariableTracker):
    """The parameters of an attention, by their trackers."""

    def __init__(self, fields: dict[str, VariableTracker], source: Source | None = None) -> None:
        self.fields = fields
        self.source = source

    def python_type(self) -> type:
        return CLASS

    def describe(self) -> str:
        return "SDPAParamsVariable()"

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        found = self.fields.get(name)
        return super().get_attribute(tracer, name) if found is None else realise(tracer, found)

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        if self.source is not None:
            return FromSource(self.source)
        fields = tuple(map(reconstruction.recipe, self.fields.values()))
        return reconstruction.shared(self, lambda: Call(Constant(CLASS, "SDPAParams"), fields))


@handles(CLASS)
def _make(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    given = dict(zip(FIELDS, arguments, strict=False)) | dict(keywords)
    if len(given) != len(FIELDS):
        tracer.raise_exception(TypeError, "__init__(): incompatible constructor arguments")
    return AttentionParamsVariable({name: given[name] for name in FIELDS})


def wrap_attention_params(tracer: Tracer, value: Any, source: Source | None) -> VariableTracker:
    """Parameters from outside: their fields are guarded when they are read."""
    if source is not None:
        tracer.guard(source, GuardKind.TYPE_MATCH, CLASS)
    parts = {name: getattr(value, name) for name in FIELDS}
    fields = {
        name: tracer.wrap(part, None if source is None else AttrSource(source, name)) for name, part in parts.items()
    }
    return AttentionParamsVariable(fields, source)
