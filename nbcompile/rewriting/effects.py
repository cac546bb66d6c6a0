"""Replay of side effects: mutations as statements.

    SetAttribute(o, "y", value)        o.y = value
    AppendItems(xs, (3,))              xs.extend([3])

All their values are assigned to locals before the first of them is replayed.

In torch: torch/_dynamo/side_effects.py (codegen_update_mutated). Read next:
nbcompile/rewriting/graph_break.py
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace

from nbcompile.capture import recipe as recipes
from nbcompile.capture.recipe import Mutation, Recipe
from nbcompile.rewriting.syntax import assign, located
from nbcompile.rewriting.values import ValueBuilder


def fill_container(values: ValueBuilder, mutation: Mutation) -> None:
    """Append the statements that fill a container that was just built."""
    EffectReplay(values).mutate(mutation)


class EffectReplay:
    """Writer of the statements that replay side effects."""

    def __init__(self, values: ValueBuilder) -> None:
        self.body = values.body
        self.values = values
        self.replayed: list[tuple[str, str]] = []
        """Mutated object and replaying statements of each side effect."""

    def replay(self, mutations: Sequence[Mutation]) -> None:
        """Replay all side effects in order; their values are assigned to locals before the first of them."""
        # Values first, as the traced code computed them: ``a, b = b, a`` on attributes must not read
        # what was just replaced.
        settled = [_with_values(mutation, self.settle_values) for mutation in mutations]
        for mutation in settled:
            began = len(self.body.statements)
            self.mutate(mutation)
            replaying = "\n".join(
                ast.unparse(located(statement, self.body.code.co_firstlineno))
                for statement in self.body.statements[began:]
            )
            self.replayed.append((_target_text(self.values, mutation), replaying))

    def settle_values(self, recipe: Recipe) -> Recipe:
        """Settle a value now, and return a recipe that refers to it."""
        # Negative keys, which the recipes of the trace do not use.
        key = -1 - len(self.values.shared_locals)
        built = self.values.settled(recipe)
        if isinstance(built, ast.Constant):
            return recipe
        if isinstance(built, ast.Name):
            self.values.shared_locals[key] = built.id
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
                    target, "extend", ast.List([self.values.make(each) for each in items], ast.Load()), plain=plain
                )
            case recipes.ChangeSet(target, method, items, _, plain):
                self.call_method(
                    target, method, ast.List([self.values.make(each) for each in items], ast.Load()), plain=plain
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
                self.body.statements.append(ast.Expr(self.values.make(value)))

    def set_attribute(self, target: Recipe, name: str, value: Recipe, plain: type | None) -> None:
        # With ``plain``, the built-in class's method: the class's own method is user code and has run while tracing.
        if plain is not None:
            setter = self.body.constant(plain.__setattr__, "plain_setattr")
            self.body.statements.append(
                ast.Expr(ast.Call(setter, [self.values.make(target), ast.Constant(name), self.values.make(value)], []))
            )
        else:
            self.body.statements.append(
                ast.Assign([ast.Attribute(self.values.make(target), name, ast.Store())], self.values.make(value))
            )

    def delete_attribute(self, target: Recipe, name: str, plain: type | None) -> None:
        if plain is not None:
            deleter = self.body.constant(plain.__delattr__, "plain_delattr")
            self.body.statements.append(ast.Expr(ast.Call(deleter, [self.values.make(target), ast.Constant(name)], [])))
        else:
            self.body.statements.append(ast.Delete([ast.Attribute(self.values.make(target), name, ast.Del())]))

    def store_items(self, mutation: recipes.StoreItems) -> None:
        owner = self.values.settled(mutation.target)
        for key in mutation.removed:
            self.call_method(mutation.target, "__delitem__", self.values.make(key), plain=mutation.plain)
        for key, value in mutation.pairs:
            if mutation.plain is not None:
                setter = ast.Attribute(
                    self.body.constant(mutation.plain, mutation.plain.__name__), "__setitem__", ast.Load()
                )
                self.body.statements.append(
                    ast.Expr(ast.Call(setter, [owner, self.values.make(key), self.values.make(value)], []))
                )
                continue
            position = ast.Subscript(owner, self.values.make(key), ast.Store())
            self.body.statements.append(ast.Assign([position], self.values.make(value)))

    def call_method(self, target: Recipe, name: str, *arguments: ast.expr, plain: type | None = None) -> None:
        owner = self.values.make(target)
        if plain is not None:
            method = ast.Attribute(self.body.constant(plain, plain.__name__), name, ast.Load())
            self.body.statements.append(ast.Expr(ast.Call(method, [owner, *arguments], [])))
            return
        self.body.statements.append(ast.Expr(ast.Call(ast.Attribute(owner, name, ast.Load()), list(arguments), [])))

    def replace_items(self, mutation: recipes.ReplaceItems) -> None:
        # All items are computed before the container is cleared, since some are read from it.
        items = [self.values.make(each) for each in mutation.items]
        if mutation.kind == "list" and mutation.plain is None:
            # xs[:] = [...] keeps the list's identity, as every owner of it has to see the change.
            position = ast.Subscript(self.values.make(mutation.target), ast.Slice(), ast.Store())
            self.body.statements.append(ast.Assign([position], ast.List(items, ast.Load())))
            return
        #     items = {...}; d.clear(); d.update(items)
        name = self.body.fresh("items")
        content: ast.expr = (
            ast.Dict(list(items[::2]), items[1::2]) if mutation.kind == "dict" else ast.List(items, ast.Load())
        )
        self.body.statements.append(assign(name, content))
        self.call_method(mutation.target, "clear", plain=mutation.plain)
        filling = "extend" if mutation.kind in ("deque", "list") else "update"
        self.call_method(mutation.target, filling, ast.Name(name, ast.Load()), plain=mutation.plain)

    def set_global(self, mutation: recipes.SetGlobal) -> None:
        # By the dict: a global may be hidden by a local of the same name, or belong to another module.
        scope = (
            self.body.constant(self.body.frame.globals, "globals")
            if mutation.globals_of is None
            else self.values.make(mutation.globals_of)
        )
        position: ast.expr
        if mutation.value is None:
            dropped = ast.Attribute(scope, "pop", ast.Load())  # it may have existed only for a while
            self.body.statements.append(
                ast.Expr(ast.Call(dropped, [ast.Constant(mutation.name), ast.Constant(None)], []))
            )
            return
        position = ast.Subscript(scope, ast.Constant(mutation.name), ast.Store())
        self.body.statements.append(ast.Assign([position], self.values.make(mutation.value)))

    def set_cell(self, mutation: recipes.SetCell) -> None:
        # A free variable of the function itself is assigned by its name; another cell through its content.
        own = mutation.cell.name if isinstance(mutation.cell, recipes.CellOf) else None
        position: ast.expr = (
            ast.Name(own, ast.Store())
            if own
            else ast.Attribute(self.values.make(mutation.cell), "cell_contents", ast.Store())
        )
        self.body.statements.append(ast.Assign([position], self.values.make(mutation.value or recipes.Constant(None))))
        if mutation.value is not None:
            return
        gone: ast.expr = (
            ast.Name(own, ast.Del())
            if own
            else ast.Attribute(self.values.make(mutation.cell), "cell_contents", ast.Del())
        )  # it was filled just now: ``del`` of an empty cell would raise
        self.body.statements.append(ast.Delete([gone]))


def _target_text(values: ValueBuilder, mutation: Mutation) -> str:
    match mutation:
        case recipes.SetGlobal(name, _, _, _):
            return name
        case recipes.SetCell(_, _, name, _):
            return name
        case recipes.Evaluate():
            return ""
    return ast.unparse(values.make(mutation.target))


def _with_values(mutation: Mutation, settle: Callable[[Recipe], Recipe]) -> Mutation:
    """Settle the values of a side effect."""
    match mutation:
        case recipes.SetAttribute(target, name, value, plain, stack):
            return recipes.SetAttribute(settle(target), name, settle(value), plain, stack)
        case recipes.AppendItems(target, items) | recipes.ChangeSet(target, _, items):
            return replace(mutation, target=settle(target), items=tuple(map(settle, items)))
        case recipes.ReplaceItems(target, _, items):
            return replace(mutation, target=settle(target), items=tuple(map(settle, items)))
        case recipes.StoreItems(target, pairs):
            removed = tuple(map(settle, mutation.removed))
            settled = tuple((settle(key), settle(value)) for key, value in pairs)
            return replace(mutation, target=settle(target), pairs=settled, removed=removed)
        case recipes.SetGlobal(name, value, globals_of, stack):
            return recipes.SetGlobal(name, None if value is None else settle(value), globals_of, stack)
        case recipes.SetCell(cell, value, name, stack):
            return recipes.SetCell(cell, None if value is None else settle(value), name, stack)
    return mutation
