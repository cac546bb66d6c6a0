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
from collections.abc import Callable
from types import FunctionType

from nbcompile.capture import recipe as recipes
from nbcompile.capture.recipe import Mutation, Recipe
from nbcompile.rewriting import resume
from nbcompile.rewriting.body import Body
from nbcompile.rewriting.resume_layout import ResumeTarget, Slot
from nbcompile.rewriting.sources import SourceReader
from nbcompile.rewriting.syntax import assign, identifier


class ValueBuilder:
    """Writer of the expressions that reconstruct values."""

    def __init__(
        self,
        body: Body,
        sources: SourceReader,
        fill: Callable[[ValueBuilder, Mutation], None],
        single_use: frozenset[int] = frozenset(),
    ) -> None:
        self.body = body
        self.sources = sources
        self.fill = fill
        """Appends the statements that fill a container after it is built (rewriting/effects.py).

        A container may contain itself. It takes the builder as an argument. An object that held the builder would make
        a cycle, and the frame's arguments would live until the next garbage collection.
        """
        self.shared_locals: dict[int, str] = {}
        """Locals that hold shared values, by key."""
        self.single_use = single_use
        """Keys of tuples with a single use, which need no local."""

    def settled(self, recipe: Recipe) -> ast.expr:
        """A value that later statements cannot change: assigned to a local, unless it is one already."""
        built = self.make(recipe)
        # Outputs of the graph are a tuple in a local that nothing changes, so reading an item is as good as a local.
        if self.is_settled(built) or _is_graph_output(built, self.body.graph_out):
            return built
        name = self.body.fresh("value")
        self.body.statements.append(assign(name, built))
        return ast.Name(name, ast.Load())

    def is_settled(self, built: ast.expr) -> bool:
        """Return whether an expression is a constant or a local: globals and free variables can change."""
        # A variable of a closure may be assigned by any function that shares it.
        if isinstance(built, ast.Name):
            shared = built.id in self.body.code.co_freevars or built.id in self.body.code.co_cellvars
            return built.id in self.body.constants or (built.id in self.body.taken and not shared)
        return isinstance(built, ast.Constant)

    def make(self, recipe: Recipe) -> ast.expr:
        """The expression that reconstructs a value."""
        match recipe:
            case recipes.FromSource(source):
                return self.sources.fetch(source)
            case recipes.Constant(value, name):
                return self.sources.literal(value, name)
            case recipes.GraphOutput(index):
                return ast.Subscript(ast.Name(self.body.graph_out, ast.Load()), ast.Constant(index), ast.Load())
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
            case recipes.WaitingGenerator():
                return self.waiting_generator(recipe)
            case recipes.Cell(content):
                cell = self.body.constant(types.CellType, "cell")
                return ast.Call(cell, [] if content is None else [self.make(content)], [])
            case recipes.CellOf(name):
                return self.own_cell(name)
            case recipes.SharedReference(key):
                return ast.Name(self.shared_locals[key], ast.Load())
            case recipes.SharedValue(key, inner, fill):
                return self.shared(key, inner, fill)
            case recipes.Unbound():
                raise AssertionError("an unbound local has no value")
        raise AssertionError(recipe)

    def shared(self, key: int, inner: Recipe, fill: tuple[Mutation, ...]) -> ast.expr:
        # A tuple with one use is written where it is used. Lists and objects have an identity that is
        # seen, and a local.
        if key in self.single_use:
            return self.make(inner)
        if key not in self.shared_locals:
            value = self.make(inner)
            self.shared_locals[key] = self.body.fresh("built")
            self.body.statements.append(assign(self.shared_locals[key], value))
            # The local is known before the filling, which may refer to the value itself.
            for mutation in fill:
                self.fill(self, mutation)
        return ast.Name(self.shared_locals[key], ast.Load())

    def build(self, recipe: recipes.Build) -> ast.expr:
        items = [self.make(each) for each in recipe.items]
        match recipe.kind:
            case "list":
                return ast.List(items, ast.Load())
            case "tuple":
                return ast.Tuple(items, ast.Load())
            case "set":
                # Not a display: Python folds one of constants to a frozenset, whose items are in another order.
                return ast.Call(self.body.constant(set, "set"), [ast.Tuple(items, ast.Load())], [])
            case "dict":
                return ast.Dict(list(items[::2]), items[1::2])

    def function(self, recipe: recipes.Function) -> ast.expr:
        """A function that the traced code defined: built from its code object and its cells."""
        closure = ast.Tuple([self.make(each) for each in recipe.closure], ast.Load())
        defaults: ast.expr = ast.Constant(None)
        if recipe.defaults is not None:
            defaults = ast.Tuple([self.make(each) for each in recipe.defaults], ast.Load())
        # ``FunctionType`` makes the function without running the ``def``: defaults are not evaluated a second time.
        arguments = [
            self.body.constant(recipe.code, f"code_of_{recipe.name}"),
            self.make(recipe.globals_of),
            ast.Constant(recipe.name),
            defaults,
            closure if recipe.closure else ast.Constant(None),
        ]
        built = ast.Call(self.body.constant(FunctionType, "function"), arguments, [])
        if not recipe.keyword_defaults:
            return built
        # FunctionType takes no defaults of keyword-only arguments: they are set afterwards.
        name = self.body.fresh(identifier(recipe.name))
        named = ast.Dict(
            [ast.Constant(key) for key, _ in recipe.keyword_defaults],
            [self.make(value) for _, value in recipe.keyword_defaults],
        )
        self.body.statements.append(assign(name, built))
        self.body.statements.append(
            ast.Assign([ast.Attribute(ast.Name(name, ast.Load()), "__kwdefaults__", ast.Store())], named)
        )
        return ast.Name(name, ast.Load())

    def waiting_generator(self, recipe: recipes.WaitingGenerator) -> ast.expr:
        """A generator of the function that begins at a yield, moved on to that yield."""
        slots = (Slot.VALUE,) * (len(recipe.stack) + 1)
        names, own = (tuple(name for name, _ in each) for each in (recipe.live, recipe.cells))
        target = ResumeTarget(recipe.code, recipe.offset, slots, names, own, recipe.line)
        code = resume.resume_function_code(target)
        info = resume.resume_info(code)
        assert info is not None
        cells = dict((*recipe.cells, *recipe.free))
        function = recipes.Function(
            code, code.co_name, recipe.globals_of, closure=tuple(cells[name] for name in info.closure)
        )
        # The resume function yields its last operand first: that None is dropped by waiting's next().
        parts = (*recipe.stack, recipes.Constant(None), *(each for _, each in recipe.live))
        origin = (recipes.Constant(recipe.code.co_name), recipes.Constant(recipe.code.co_qualname))
        return self.make(recipes.Call(recipes.Constant(waiting, "waiting"), (recipes.Call(function, parts), *origin)))

    def own_cell(self, name: str) -> ast.expr:
        """The cell of one of the frame's own free variables."""
        # No syntax gives the cell of a variable, but a closure over it has the cell: ``(lambda: x).__closure__[0]``.
        nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        closure = ast.Attribute(ast.Lambda(nothing, ast.Name(name, ast.Load())), "__closure__", ast.Load())
        return ast.Subscript(closure, ast.Constant(0), ast.Load())


def waiting(generator: types.GeneratorType[object, object, object], name: str, qualified_name: str) -> object:
    """The generator at the yield that its function begins with, under the names of the user's function."""
    next(generator)
    generator.__name__, generator.__qualname__ = name, qualified_name
    return generator


def _is_graph_output(built: ast.expr, graph_out: str) -> bool:
    return isinstance(built, ast.Subscript) and isinstance(built.value, ast.Name) and built.value.id == graph_out
