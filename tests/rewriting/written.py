"""The writers of a residual program for one function, and the effect of the written statements."""

from __future__ import annotations

import ast
import builtins
from types import CellType, FunctionType
from typing import Any

from nbcompile.capture.frame import Frame
from nbcompile.capture.recipe import Mutation, Recipe
from nbcompile.rewriting.body import Body
from nbcompile.rewriting.code_object import compile_function
from nbcompile.rewriting.effects import EffectReplay, fill_container
from nbcompile.rewriting.graph_break import GraphBreakWriter
from nbcompile.rewriting.sources import SourceReader
from nbcompile.rewriting.values import ValueBuilder


class Written:
    """The body that replaces one call of a function, as far as it is written."""

    def __init__(self, function: FunctionType, *arguments: Any, single_use: frozenset[int] = frozenset()) -> None:
        code = function.__code__
        self.function, self.arguments = function, arguments
        cells: tuple[CellType, ...] = function.__closure__ or ()
        values = dict(zip(code.co_varnames, arguments, strict=False))
        self.frame = Frame(
            code, values, function.__globals__, vars(builtins), cells, dict(zip(code.co_freevars, cells, strict=True))
        )
        self.body = Body(self.frame)
        self.values = ValueBuilder(self.body, SourceReader(self.body), fill_container, single_use)
        self.effects = EffectReplay(self.values)
        self.end = GraphBreakWriter(self.values, self.effects)

    def text(self) -> str:
        """The statements so far, as Python."""
        return "\n".join(ast.unparse(statement) for statement in self.body.statements)

    def run(self, returned: ast.expr | None = None) -> Any:
        """Compile the written statements and the return value, and call the function with its arguments."""
        if returned is not None:
            self.body.statements.append(ast.Return(returned))
        code, _ = compile_function(self.frame.code, self.body.statements, self.body.constants)
        function = self.function
        return FunctionType(code, function.__globals__, closure=function.__closure__)(*self.arguments)

    def make(self, recipe: Recipe) -> Any:
        """The value that a recipe reconstructs."""
        return self.run(self.values.make(recipe))

    def replay(self, *mutations: Mutation) -> Any:
        """Replay side effects; None is returned."""
        self.effects.replay(mutations)
        return self.run(ast.Constant(None))
