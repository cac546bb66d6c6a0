"""Context managers that change settings of the compiler for the code inside.

    with torch._dynamo.error_on_graph_break(True):        a break inside is an error
    with torch._dynamo.patch_dynamo_config(...):          a setting holds while the block is traced

A residual program enters ``Settings``, which changes torch's settings and those of this compiler.

In torch: ErrorOnGraphBreakVariable of torch/_dynamo/variables/ctx_manager.py. Read next:
nbcompile/config.py
"""

from __future__ import annotations

from typing import Any

from nbcompile import annotations as marks, config
from nbcompile.capture.recipe import Call, Constant, Recipe
from nbcompile.capture.source import Source
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import (
    VariableTracker,
)
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.contexts import ContextVariable, DecoratedVariable


class Settings:
    """``patch_dynamo_config(...)`` for a residual program: it changes both torch's settings and ours."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.prior: list[dict[str, object]] = []

    def __enter__(self) -> None:
        # Settings that only torch has are changed by torch.
        changes = {name: each for name, each in self.value.changes.items() if name in config.DEFAULTS}
        self.prior.append({name: getattr(config, name) for name in changes})
        self.value.__enter__()
        _set(changes)

    def __exit__(self, *error: object) -> None:
        _set(self.prior.pop())
        self.value.__exit__(*error)

    def __call__(self, function: Any) -> Any:
        return marks.inside(self, function)


class SettingVariable(ContextVariable):
    """``torch._dynamo.error_on_graph_break(True)``, ``patch_dynamo_config(...)``: how the code inside is traced."""

    keeps_state = False

    def __init__(self, value: object, source: Source | None = None) -> None:
        super().__init__(source)
        self.cls = type(value)
        self.value = value
        self.prior: list[tuple[bool, dict[str, object]]] = []

    def describe(self) -> str:
        return f"{self.cls.__name__}()"

    def enter(self, tracer: Tracer) -> VariableTracker:
        output = tracer.output
        changes = {name: each for name, each in getattr(self.value, "changes", {}).items() if name in config.DEFAULTS}
        self.prior.append((output.errors_on_break, {name: getattr(config, name) for name in changes}))
        output.errors_on_break = getattr(self.value, "error_on_graph_break", output.errors_on_break)
        _set(changes)
        return ConstantVariable(None)

    def exit(self, tracer: Tracer) -> None:
        tracer.output.errors_on_break, changed = self.prior.pop()
        _set(changed)

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        value = super().recipe(reconstruction) if self.source is not None else Constant(self.value, self.cls.__name__)
        return Call(Constant(Settings, "Settings"), (value,)) if hasattr(self.value, "changes") else value


def _set(changes: dict[str, object]) -> None:
    for name, value in changes.items():
        setattr(config, name, value)


def strict(function: VariableTracker) -> VariableTracker:
    """A function in which a break is an error."""
    return DecoratedVariable(SettingVariable(marks.error_on_graph_break(True)), function)
