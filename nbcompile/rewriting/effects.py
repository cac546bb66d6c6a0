"""Replay of side effects: mutations as statements.

    SetAttribute(o, "y", value)        o.y = value
    AppendItems(xs, (3,))              xs.extend([3])

All their values are settled before the first of them is replayed.

In torch: torch/_dynamo/side_effects.py (codegen_update_mutated). Read next:
nbcompile/rewriting/graph_break.py
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace

from nbcompile.capture import recipe as recipes
from nbcompile.capture.frame import Frame
from nbcompile.capture.recipe import Mutation, Recipe
from nbcompile.rewriting.syntax import assign, located
from nbcompile.rewriting.values import ValueBody


class EffectBody(ValueBody):
    """A body that can replay side effects."""

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        self.effects: list[tuple[str, str]] = []
        """Mutated object and replaying statements of each side effect."""

    def replay(self, mutations: Sequence[Mutation]) -> None:
        """Replay all side effects in order; their values are settled before the first of them."""
        settled = [_with_values(mutation, self.settle_values) for mutation in mutations]
        for mutation in settled:
            began = len(self.statements)
            self.mutate(mutation)
            replaying = "\n".join(
                ast.unparse(located(statement, self.code.co_firstlineno)) for statement in self.statements[began:]
            )
            self.effects.append((_target_text(self, mutation), replaying))

    def settle_values(self, recipe: Recipe) -> Recipe:
        """Settle a value now, and return a recipe that refers to it."""
        key = -1 - len(self.made)
        made = self.settled(recipe)
        if isinstance(made, ast.Constant):
            return recipe
        if isinstance(made, ast.Name):
            self.made[key] = made.id
            return recipes.SharedReference(key)
        return recipe

    def mutate(self, mutation: Mutation) -> None:
        """Append the statements of one side effect."""
        match mutation:
            case recipes.SetAttribute(target, name, value, plain):
                self.set_attribute(target, name, value, plain)
            case recipes.DeleteAttribute(target, name, plain):
                self.delete_attribute(target, name, plain)
            case recipes.AppendItems(target, items, _, plain):
                self.call_method(
                    target, "extend", ast.List([self.make(each) for each in items], ast.Load()), plain=plain
                )
            case recipes.ReplaceItems():
                self.replace_items(mutation)
            case recipes.StoreItems():
                self.store_items(mutation)
            case recipes.SetGlobal():
                self.set_global(mutation)
            case recipes.SetCell():
                self.set_cell(mutation)
            case recipes.Evaluate(value):
                self.statements.append(ast.Expr(self.make(value)))

    def set_attribute(self, target: Recipe, name: str, value: Recipe, plain: type | None) -> None:
        if plain is not None:
            setter = self.constant(plain.__setattr__, "plain_setattr")
            self.statements.append(
                ast.Expr(ast.Call(setter, [self.make(target), ast.Constant(name), self.make(value)], []))
            )
        else:
            self.statements.append(ast.Assign([ast.Attribute(self.make(target), name, ast.Store())], self.make(value)))

    def delete_attribute(self, target: Recipe, name: str, plain: type | None) -> None:
        if plain is not None:
            deleter = self.constant(plain.__delattr__, "plain_delattr")
            self.statements.append(ast.Expr(ast.Call(deleter, [self.make(target), ast.Constant(name)], [])))
        else:
            self.statements.append(ast.Delete([ast.Attribute(self.make(target), name, ast.Del())]))

    def store_items(self, mutation: recipes.StoreItems) -> None:
        owner = self.settled(mutation.target)
        for key, value in mutation.pairs:
            if mutation.plain is not None:
                setter = ast.Attribute(
                    self.constant(mutation.plain, mutation.plain.__name__), "__setitem__", ast.Load()
                )
                self.statements.append(ast.Expr(ast.Call(setter, [owner, self.make(key), self.make(value)], [])))
                continue
            position = ast.Subscript(owner, self.make(key), ast.Store())
            self.statements.append(ast.Assign([position], self.make(value)))

    def call_method(self, target: Recipe, name: str, *arguments: ast.expr, plain: type | None = None) -> None:
        owner = self.make(target)
        if plain is not None:
            method = ast.Attribute(self.constant(plain, plain.__name__), name, ast.Load())
            self.statements.append(ast.Expr(ast.Call(method, [owner, *arguments], [])))
            return
        self.statements.append(ast.Expr(ast.Call(ast.Attribute(owner, name, ast.Load()), list(arguments), [])))

    def replace_items(self, mutation: recipes.ReplaceItems) -> None:
        items = [self.make(each) for each in mutation.items]
        if mutation.kind == "list" and mutation.plain is None:
            position = ast.Subscript(self.make(mutation.target), ast.Slice(), ast.Store())
            self.statements.append(ast.Assign([position], ast.List(items, ast.Load())))
            return
        name = self.fresh("items")
        content: ast.expr = (
            ast.Dict(list(items[::2]), items[1::2]) if mutation.kind == "dict" else ast.List(items, ast.Load())
        )
        self.statements.append(assign(name, content))
        self.call_method(mutation.target, "clear", plain=mutation.plain)
        filling = "extend" if mutation.kind in ("deque", "list") else "update"
        self.call_method(mutation.target, filling, ast.Name(name, ast.Load()), plain=mutation.plain)

    def set_global(self, mutation: recipes.SetGlobal) -> None:
        scope = (
            self.constant(self.frame.globals, "globals")
            if mutation.globals_of is None
            else self.make(mutation.globals_of)
        )
        position: ast.expr
        if mutation.value is None:
            dropped = ast.Attribute(scope, "pop", ast.Load())  # it may have existed only for a while
            self.statements.append(ast.Expr(ast.Call(dropped, [ast.Constant(mutation.name), ast.Constant(None)], [])))
            return
        position = ast.Subscript(scope, ast.Constant(mutation.name), ast.Store())
        self.statements.append(ast.Assign([position], self.make(mutation.value)))

    def set_cell(self, mutation: recipes.SetCell) -> None:
        own = mutation.cell.name if isinstance(mutation.cell, recipes.CellOf) else None
        position: ast.expr = (
            ast.Name(own, ast.Store()) if own else ast.Attribute(self.make(mutation.cell), "cell_contents", ast.Store())
        )
        self.statements.append(ast.Assign([position], self.make(mutation.value or recipes.Constant(None))))
        if mutation.value is not None:
            return
        gone: ast.expr = (
            ast.Name(own, ast.Del()) if own else ast.Attribute(self.make(mutation.cell), "cell_contents", ast.Del())
        )  # it was filled just now: an empty one cannot be emptied
        self.statements.append(ast.Delete([gone]))


def _target_text(program: EffectBody, mutation: Mutation) -> str:
    match mutation:
        case recipes.SetGlobal(name, _, _, _):
            return name
        case recipes.SetCell(_, _, name, _):
            return name
        case recipes.Evaluate():
            return ""
    return ast.unparse(program.make(mutation.target))


def _with_values(mutation: Mutation, settle: Callable[[Recipe], Recipe]) -> Mutation:
    """Settle the values of a side effect."""
    match mutation:
        case recipes.SetAttribute(target, name, value, plain, stack):
            return recipes.SetAttribute(settle(target), name, settle(value), plain, stack)
        case recipes.AppendItems(target, items):
            return replace(mutation, target=settle(target), items=tuple(map(settle, items)))
        case recipes.ReplaceItems(target, _, items):
            return replace(mutation, target=settle(target), items=tuple(map(settle, items)))
        case recipes.StoreItems(target, pairs):
            return replace(
                mutation, target=settle(target), pairs=tuple((settle(key), settle(value)) for key, value in pairs)
            )
        case recipes.SetGlobal(name, value, globals_of, stack):
            return recipes.SetGlobal(name, None if value is None else settle(value), globals_of, stack)
        case recipes.SetCell(cell, value, name, stack):
            return recipes.SetCell(cell, None if value is None else settle(value), name, stack)
    return mutation
