"""Reconstruction of values: recipes as expressions.

    GraphOutput(0)                                  graph_out[0]
    Build("list", (GraphOutput(0), Constant(3)))    [graph_out[0], 3]

A value that the program uses twice is built once and assigned to a local
(SharedValue). A value is "settled" if no later statement can change it.

In torch: torch/_dynamo/codegen.py and VariableTracker.reconstruct. Read next:
nbcompile/rewriting/effects.py
"""

from __future__ import annotations

import ast
import types
from abc import abstractmethod
from types import FunctionType

from nbcompile.capture import recipe as recipes
from nbcompile.capture.frame import Frame
from nbcompile.capture.recipe import Mutation, Recipe
from nbcompile.rewriting.addresses import SourceBody
from nbcompile.rewriting.syntax import assign, identifier


class ValueBody(SourceBody):
    """A body that can reconstruct values."""

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        self.made: dict[int, str] = {}
        """Locals that hold shared values, by key."""
        self.needed_once: frozenset[int] = frozenset()
        """Keys of tuples with a single use, which need no local."""

    @abstractmethod
    def mutate(self, mutation: Mutation) -> None:
        """Append the statements of one side effect: a container that contains itself is filled after it is built."""

    def settled(self, recipe: Recipe) -> ast.expr:
        """A value that later statements cannot change: assigned to a local, unless it is one already."""
        made = self.make(recipe)
        if self.is_settled(made) or _is_graph_output(made, self.graph_out):
            return made
        name = self.fresh("value")
        self.statements.append(assign(name, made))
        return ast.Name(name, ast.Load())

    def is_settled(self, made: ast.expr) -> bool:
        """Return whether an expression is a constant or a local: globals and free variables can change."""
        if isinstance(made, ast.Name):
            shared = made.id in self.code.co_freevars or made.id in self.code.co_cellvars
            return made.id in self.constants or (made.id in self.taken and not shared)
        return isinstance(made, ast.Constant)

    def make(self, recipe: Recipe) -> ast.expr:
        """The expression that reconstructs a value."""
        match recipe:
            case recipes.FromSource(source):
                return self.fetch(source)
            case recipes.Constant(value, name):
                return self.literal(value, name)
            case recipes.GraphOutput(index):
                return ast.Subscript(ast.Name(self.graph_out, ast.Load()), ast.Constant(index), ast.Load())
            case recipes.Build():
                return self.build(recipe)
            case recipes.Call(function, arguments, keywords):
                return ast.Call(
                    self.make(function),
                    [self.make(each) for each in arguments],
                    [ast.keyword(name, self.make(each)) for name, each in keywords],
                )
            case recipes.Attribute(base, name):
                return ast.Attribute(self.make(base), name, ast.Load())
            case recipes.Function():
                return self.function(recipe)
            case recipes.Cell(content):
                cell = self.constant(types.CellType, "cell")
                return ast.Call(cell, [] if content is None else [self.make(content)], [])
            case recipes.CellOf(name):
                return self.own_cell(name)
            case recipes.SharedReference(key):
                return ast.Name(self.made[key], ast.Load())
            case recipes.SharedValue(key, inner, fill):
                return self.shared(key, inner, fill)
            case recipes.Unbound():
                raise AssertionError("an unbound local has no value")
        raise AssertionError(recipe)

    def shared(self, key: int, inner: Recipe, fill: tuple[Mutation, ...]) -> ast.expr:
        if key in self.needed_once:
            return self.make(inner)
        if key not in self.made:
            value = self.make(inner)
            self.made[key] = self.fresh("made")
            self.statements.append(assign(self.made[key], value))
            for mutation in fill:
                self.mutate(mutation)
        return ast.Name(self.made[key], ast.Load())

    def build(self, recipe: recipes.Build) -> ast.expr:
        items = [self.make(each) for each in recipe.items]
        match recipe.kind:
            case "list":
                return ast.List(items, ast.Load())
            case "tuple":
                return ast.Tuple(items, ast.Load())
            case "set":
                return ast.Set(items)
            case "dict":
                return ast.Dict(list(items[::2]), items[1::2])

    def function(self, recipe: recipes.Function) -> ast.expr:
        """A function that the traced code defined: built from its code object and its cells."""
        closure = ast.Tuple([self.make(each) for each in recipe.closure], ast.Load())
        defaults: ast.expr = ast.Constant(None)
        if recipe.defaults is not None:
            defaults = ast.Tuple([self.make(each) for each in recipe.defaults], ast.Load())
        arguments = [
            self.constant(recipe.code, f"code_of_{recipe.name}"),
            self.make(recipe.globals_of),
            ast.Constant(recipe.name),
            defaults,
            closure if recipe.closure else ast.Constant(None),
        ]
        made = ast.Call(self.constant(FunctionType, "function"), arguments, [])
        if not recipe.keyword_defaults:
            return made
        name = self.fresh(identifier(recipe.name))
        named = ast.Dict(
            [ast.Constant(key) for key, _ in recipe.keyword_defaults],
            [self.make(value) for _, value in recipe.keyword_defaults],
        )
        self.statements.append(assign(name, made))
        self.statements.append(
            ast.Assign([ast.Attribute(ast.Name(name, ast.Load()), "__kwdefaults__", ast.Store())], named)
        )
        return ast.Name(name, ast.Load())

    def own_cell(self, name: str) -> ast.expr:
        """The cell of one of the frame's own free variables."""
        nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        closure = ast.Attribute(ast.Lambda(nothing, ast.Name(name, ast.Load())), "__closure__", ast.Load())
        return ast.Subscript(closure, ast.Constant(0), ast.Load())


def _is_graph_output(made: ast.expr, graph_out: str) -> bool:
    return isinstance(made, ast.Subscript) and isinstance(made.value, ast.Name) and made.value.id == graph_out
