"""The residual program: what runs in a frame's place, as Python that one can read.

    def f(x, xs):
        graph_out = __compiled_fn_1(x)       the graph
        xs.extend([3])                       its side effects
        return graph_out[0]

It is built as a syntax tree from recipes (capture/recipe.py). What has no name
in the user's code (compiled graphs, resume functions, kept objects) is written
as a name and bound as a constant of the code object, so that no global of the
user's module is touched and what is shown is what runs.

In torch: torch/_dynamo/codegen.py and output_graph.py (bytecode, not source).
Read next: nbcompile/rewriting/resume.py
"""

from __future__ import annotations

import ast
import builtins
import cmath
import keyword
import re
import sys
import types
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from types import CodeType, FunctionType
from typing import Any, TypeVar

from nbcompile import torch_internals
from nbcompile.capture import recipe as recipes
from nbcompile.capture.arrays import from_array
from nbcompile.capture.frame import Frame
from nbcompile.capture.recipe import Mutation, Recipe
from nbcompile.capture.source import (
    ArraySource,
    AttrSource,
    BuiltinSource,
    CellSource,
    ClassMemberSource,
    ConstantSource,
    GlobalSource,
    ItemSource,
    IteratorItemSource,
    KeySource,
    LocalSource,
    MethodFunctionSource,
    ModuleSource,
    SizeSource,
    Source,
    TypeSource,
    ValueSource,
    class_attribute,
    expression,
    iterator_item,
    resolve,
    value_at,
)
from nbcompile.capture.trace import (
    BrokenCall,
    BrokenComprehension,
    BrokenJump,
    BrokenOperation,
    Continue,
    GraphBreak,
    GraphInput,
    ResumePoint,
    Return,
    Trace,
)
from nbcompile.rewriting import resume

LITERALS = (int, float, str, bytes, bool, type(None), complex)


@dataclass(frozen=True, slots=True)
class Residual:
    """A residual program, to run and to read."""

    code: CodeType
    source: str
    resume_codes: tuple[CodeType, ...] = ()
    """In the order of the resume points of the break, then those of the callers, innermost first."""
    python_codes: tuple[CodeType, ...] = ()
    """Functions of ours that run as they are: what they call may be compiled, they are not."""
    effects: tuple[tuple[str, str], ...] = ()
    """For each side effect: the changed object, and the statement(s) that replay it."""
    carried: tuple[tuple[tuple[str, str, str], ...], ...] = ()
    """For each resume function: name, expression and kind of what it is given."""


def residual_program(frame: Frame, trace: Trace, compiled_graph: Callable[..., object] | None) -> Residual:
    """The program for one trace of one frame.

    Args:
        frame: the frame that it replaces: same arguments, same free variables.
        trace: what is to be done.
        compiled_graph: takes the graph's inputs, returns its outputs as a sequence.
    """
    program = _Program(frame, trace)
    program.call_graph(compiled_graph)
    program.finish()
    return program.residual()


@dataclass(frozen=True, slots=True)
class _Carried:
    """A resume function, what it gets from the operand stack, and its locals."""

    function: ast.expr
    stack: list[ast.expr]
    live: list[ast.expr]


class _Program:
    """Statements under construction."""

    def __init__(self, frame: Frame, trace: Trace) -> None:
        self.frame = frame
        self.trace = trace
        self.code = frame.code
        self.statements: list[ast.stmt] = []
        self.constants: dict[str, object] = {}
        self.made: dict[int, str] = {}
        self.owners: dict[Source, str] = {}
        self.taken = {*self.code.co_varnames, *self.code.co_cellvars, *self.code.co_freevars}
        self.resume_codes: list[CodeType] = []
        self.python_codes: list[CodeType] = []
        self.effects: list[tuple[str, str]] = []
        self.carried: list[tuple[tuple[str, str, str], ...]] = []

    # -- the order of things -------------------------------------------------------------

    def call_graph(self, compiled_graph: Callable[..., object] | None) -> None:
        """``graph_out = __compiled_fn_1(inputs...)``."""
        graph = self.trace.graph
        if graph is None:
            return
        assert compiled_graph is not None
        function = self.constant(compiled_graph, graph.name)
        self.graph_out = self.fresh("graph_out")
        self.name_owners([each.source for each in graph.inputs])
        call = ast.Call(function, [self.graph_input(each) for each in graph.inputs], [])
        self.owners.clear()  # what follows may change them
        self.statements.append(_assign(self.graph_out, call))

    def name_owners(self, sources: Iterable[Source]) -> None:
        """Names for what several inputs are reached through, so that the way there is gone once."""
        below: dict[Source, set[Source]] = {}
        for source in sources:
            step = source
            while isinstance(step, AttrSource | ItemSource):
                below.setdefault(step.base, set()).add(step)
                step = step.base
        shared = [each for each, steps in below.items() if len(steps) > 1 and isinstance(each, AttrSource | ItemSource)]
        for owner in sorted(shared, key=lambda each: len(expression(each))):
            what = owner.attribute if isinstance(owner, AttrSource) else f"item_{owner.key}"
            fetched = self.fetch(owner)
            name = self.fresh(re.sub(r"\W+", "_", what).strip("_") or "owner")
            self.statements.append(_assign(name, fetched))
            self.owners[owner] = name

    def graph_input(self, each: GraphInput) -> ast.expr:
        """A value from where it came from; a number as a tensor, where the graph takes it as one."""
        value = self.fetch(each.source)
        return (
            ast.Call(self.constant(torch_internals.number_as_tensor, "as_tensor"), [value], [])
            if each.as_tensor
            else value
        )

    def finish(self) -> None:
        """Values first, then side effects, then the frame's end: no effect can change a value."""
        end = self.trace.exit
        if isinstance(end, Return):
            value = self.settled(end.value) if self.trace.mutations else self.make(end.value)
            self.replay()
            self.statements.append(ast.Return(value))
            return
        carried = [self.carry(point) for point in end.resume]
        callers = [self.carry(point, nested=True) for point in end.callers]
        action = self.prepare(end)
        self.replay()
        self.act(end, action, carried, callers)

    def settled(self, recipe: Recipe) -> ast.expr:
        """A value that later statements cannot change: held by a name, unless it is one already."""
        made = self.make(recipe)
        if self.is_settled(made) or _is_graph_output(made, getattr(self, "graph_out", "")):
            return made
        name = self.fresh("value")
        self.statements.append(_assign(name, made))
        return ast.Name(name, ast.Load())

    def is_settled(self, made: ast.expr) -> bool:
        """Whether it is a constant or a local name: globals and free variables can change."""
        if isinstance(made, ast.Name):
            shared = made.id in self.code.co_freevars or made.id in self.code.co_cellvars
            return made.id in self.constants or (made.id in self.taken and not shared)
        return isinstance(made, ast.Constant)

    def fresh(self, base: str) -> str:
        """A name that nothing else uses."""
        name, number = base, 0
        while name in self.taken or name in self.constants:
            number += 1
            name = f"{base}_{number}"
        self.taken.add(name)
        return name

    def constant(self, value: object, name: str) -> ast.expr:
        """An object that the program keeps, under a name."""
        wanted = re.sub(r"\W+", "_", name).strip("_") or "constant"
        wanted = f"__{wanted}" if not wanted.startswith("__") else wanted
        if keyword.iskeyword(wanted):
            wanted += "_"
        number = 0
        candidate = wanted
        while candidate in self.taken or (candidate in self.constants and self.constants[candidate] is not value):
            number += 1
            candidate = f"{wanted}_{number}"
        self.constants[candidate] = value
        return ast.Name(candidate, ast.Load())

    # -- values --------------------------------------------------------------------------

    def make(self, recipe: Recipe) -> ast.expr:
        """The expression that makes a value."""
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
            case recipes.Made(key):
                return ast.Name(self.made[key], ast.Load())
            case recipes.Shared(key, inner, fill):
                return self.shared(key, inner, fill)
            case recipes.Unbound():
                raise AssertionError("an unbound local has no value")
        raise AssertionError(recipe)

    def shared(self, key: int, inner: Recipe, fill: tuple[Mutation, ...]) -> ast.expr:
        if key not in self.made:
            value = self.make(inner)
            self.made[key] = self.fresh("made")
            self.statements.append(_assign(self.made[key], value))
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
        """A function that the traced code defined: made from its code object and its cells."""
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
        name = self.fresh(_identifier(recipe.name))
        named = ast.Dict(
            [ast.Constant(key) for key, _ in recipe.keyword_defaults],
            [self.make(value) for _, value in recipe.keyword_defaults],
        )
        self.statements.append(_assign(name, made))
        self.statements.append(
            ast.Assign([ast.Attribute(ast.Name(name, ast.Load()), "__kwdefaults__", ast.Store())], named)
        )
        return ast.Name(name, ast.Load())

    def own_cell(self, name: str) -> ast.expr:
        """The cell of one of the frame's own free variables."""
        nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        closure = ast.Attribute(ast.Lambda(nothing, ast.Name(name, ast.Load())), "__closure__", ast.Load())
        return ast.Subscript(closure, ast.Constant(0), ast.Load())

    def literal(self, value: Any, name: str) -> ast.expr:
        """A constant, spelled out where Python has a literal for it."""
        if type(value) in LITERALS and not _without_literal(value):
            return ast.Constant(value)
        if type(value) is tuple and all(type(each) in LITERALS for each in value):
            return ast.Tuple([self.literal(each, "item") for each in value], ast.Load())
        return self.constant(value, name)

    # -- addresses -----------------------------------------------------------------------

    def fetch(self, source: Source) -> ast.expr:
        """The expression that reads a value from where it came from."""
        if source in self.owners:
            return ast.Name(self.owners[source], ast.Load())
        match source:
            case LocalSource(name):
                return ast.Name(_identifier(name), ast.Load())
            case GlobalSource(name):
                if name in self.taken or not name.isidentifier():
                    scope = self.constant(self.frame.globals, "globals")
                    return ast.Subscript(scope, ast.Constant(name), ast.Load())
                return ast.Name(name, ast.Load())
            case BuiltinSource(name):
                return self.constant(getattr(builtins, name), name)
            case ModuleSource(name):
                return self.constant(sys.modules[name], name)
            case AttrSource(base, attribute):
                return ast.Attribute(self.fetch(base), attribute, ast.Load())
            case ItemSource(base, key):
                return ast.Subscript(self.fetch(base), self.literal(key, "key"), ast.Load())
            case KeySource(base, index):
                keys = ast.Call(self.constant(list, "list"), [self.fetch(base)], [])
                return ast.Subscript(keys, ast.Constant(index), ast.Load())
            case ValueSource(base, index):
                return ast.Call(self.constant(value_at, "value_at"), [self.fetch(base), ast.Constant(index)], [])
            case IteratorItemSource(base, index):
                return ast.Call(
                    self.constant(iterator_item, "iterator_item"), [self.fetch(base), ast.Constant(index)], []
                )
            case TypeSource(base):
                return ast.Call(self.constant(type, "type"), [self.fetch(base)], [])
            case CellSource(base, _, index):
                cell = ast.Subscript(
                    ast.Attribute(self.fetch(base), "__closure__", ast.Load()), ast.Constant(index), ast.Load()
                )
                return ast.Attribute(cell, "cell_contents", ast.Load())
            case MethodFunctionSource(base, name):
                return self.class_member(TypeSource(base), name, 0, resolve(source, self.frame.scope()))
            case ClassMemberSource(base, name, after):
                return self.class_member(base, name, after, resolve(source, self.frame.scope()))
            case ConstantSource(name, value):
                return self.constant(value, name)
            case SizeSource(base, property, dim):
                arguments: list[ast.expr] = [] if dim is None else [ast.Constant(dim)]
                return ast.Call(ast.Attribute(self.fetch(base), property, ast.Load()), arguments, [])
            case ArraySource(base):
                return ast.Call(self.constant(from_array, "from_array"), [self.fetch(base)], [])
        raise AssertionError(source)

    def class_member(self, cls: Source, name: str, after: int, found: object) -> ast.expr:
        """What a class holds under a name, unbound: ``cls.name`` where that binds nothing."""
        unbound = isinstance(found, (FunctionType, property, classmethod)) or not hasattr(type(found), "__get__")
        if unbound and not after:
            return ast.Attribute(self.fetch(cls), name, ast.Load())
        arguments: list[ast.expr] = [self.fetch(cls), ast.Constant(name), ast.Constant(after)]
        return ast.Call(self.constant(class_attribute, "class_attribute"), arguments, [])

    # -- side effects --------------------------------------------------------------------

    def replay(self) -> None:
        """All side effects, in order; their values are settled before the first of them."""
        settled = [_with_values(mutation, self.settle_values) for mutation in self.trace.mutations]
        for mutation in settled:
            began = len(self.statements)
            self.mutate(mutation)
            replaying = "\n".join(
                ast.unparse(_located(each, self.code.co_firstlineno)) for each in self.statements[began:]
            )
            self.effects.append((_target_text(self, mutation), replaying))

    def settle_values(self, recipe: Recipe) -> Recipe:
        """The same value, made now and referred to later."""
        key = -1 - len(self.made)
        made = self.settled(recipe)
        if isinstance(made, ast.Constant):
            return recipe
        if isinstance(made, ast.Name):
            self.made[key] = made.id
            return recipes.Made(key)
        return recipe

    def mutate(self, mutation: Mutation) -> None:
        """The statement(s) for one side effect."""
        match mutation:
            case recipes.SetAttribute(target, name, value, plain):
                self.set_attribute(target, name, value, plain)
            case recipes.DeleteAttribute(target, name):
                self.statements.append(ast.Delete([ast.Attribute(self.make(target), name, ast.Del())]))
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

    def set_attribute(self, target: Recipe, name: str, value: Recipe, plain: bool) -> None:
        if plain:
            setter = self.constant(object.__setattr__, "plain_setattr")
            self.statements.append(
                ast.Expr(ast.Call(setter, [self.make(target), ast.Constant(name), self.make(value)], []))
            )
        else:
            self.statements.append(ast.Assign([ast.Attribute(self.make(target), name, ast.Store())], self.make(value)))

    def store_items(self, mutation: recipes.StoreItems) -> None:
        owner = self.settled(mutation.target)
        for key, value in mutation.pairs:
            if mutation.plain is not None:
                setter = ast.Attribute(
                    self.constant(mutation.plain, mutation.plain.__name__), "__setitem__", ast.Load()
                )
                self.statements.append(ast.Expr(ast.Call(setter, [owner, self.make(key), self.make(value)], [])))
                continue
            place = ast.Subscript(owner, self.make(key), ast.Store())
            self.statements.append(ast.Assign([place], self.make(value)))

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
            place = ast.Subscript(self.make(mutation.target), ast.Slice(), ast.Store())
            self.statements.append(ast.Assign([place], ast.List(items, ast.Load())))
            return
        name = self.fresh("items")
        content: ast.expr = (
            ast.Dict(list(items[::2]), items[1::2]) if mutation.kind == "dict" else ast.List(items, ast.Load())
        )
        self.statements.append(_assign(name, content))
        self.call_method(mutation.target, "clear", plain=mutation.plain)
        filling = "extend" if mutation.kind in ("deque", "list") else "update"
        self.call_method(mutation.target, filling, ast.Name(name, ast.Load()), plain=mutation.plain)

    def set_global(self, mutation: recipes.SetGlobal) -> None:
        scope = (
            self.constant(self.frame.globals, "globals")
            if mutation.globals_of is None
            else self.make(mutation.globals_of)
        )
        place: ast.expr
        if mutation.value is None:
            self.statements.append(ast.Delete([ast.Subscript(scope, ast.Constant(mutation.name), ast.Del())]))
            return
        place = ast.Subscript(scope, ast.Constant(mutation.name), ast.Store())
        self.statements.append(ast.Assign([place], self.make(mutation.value)))

    def set_cell(self, mutation: recipes.SetCell) -> None:
        own = mutation.cell.name if isinstance(mutation.cell, recipes.CellOf) else None
        place: ast.expr = (
            ast.Name(own, ast.Store()) if own else ast.Attribute(self.make(mutation.cell), "cell_contents", ast.Store())
        )
        if mutation.value is not None:
            self.statements.append(ast.Assign([place], self.make(mutation.value)))
            return
        gone: ast.expr = (
            ast.Name(own, ast.Del()) if own else ast.Attribute(self.make(mutation.cell), "cell_contents", ast.Del())
        )
        self.statements.append(ast.Delete([gone]))

    # -- breaks --------------------------------------------------------------------------

    def carry(self, point: ResumePoint, *, nested: bool = False) -> _Carried:
        """The resume function and what it gets; all settled before the break.

        Args:
            point: where it goes on.
            nested: it calls the resume function of the function that it called, rather than being given its result.
        """
        code, carried = self.continuation(point, pushed=resume.Slot.CALL if nested else resume.Slot.VALUE)
        stack, live = carried.stack, carried.live
        self.resume_codes.append(code)
        passed = [slot.recipe for slot in point.stack if slot.recipe is not None]
        names = [*(f"___stack{number}" for number in range(len(passed))), *(name for name, _ in point.live)]
        kinds = map(_kind, (*passed, *(recipe for _, recipe in point.live)))
        texts = (ast.unparse(each) for each in (*stack, *live))
        self.carried.append(tuple(zip(names, texts, kinds, strict=True)))
        return carried

    def continuation(
        self, point: ResumePoint, *, pushed: resume.Slot = resume.Slot.VALUE, end: int | None = None
    ) -> tuple[CodeType, _Carried]:
        """The code of the function that goes on, and what it gets."""
        slots = [*(_SLOTS[slot.kind] for slot in point.stack), *([pushed] * point.pushes)]
        stack = [self.settled(slot.recipe) for slot in point.stack if slot.recipe is not None]
        live = [self.settled(recipe) for _, recipe in point.live]
        cells = {name: self.settled(recipe) for name, recipe in point.cells}
        original, scope = self.code, self.frame.globals
        if point.callee is not None:
            original, scope = point.callee.code, point.callee.scope
        names = tuple(name for name, _ in point.live)
        code = resume.resume_function_code(original, point.offset, tuple(slots), names, tuple(cells), point.line, end)
        if point.callee is not None:
            cells |= {name: self.settled(recipe) for name, recipe in point.callee.free}
        return code, _Carried(self.resume_function(code, scope, cells), stack, live)

    def resume_function(self, code: CodeType, scope: dict[str, object], cells: dict[str, ast.expr]) -> ast.expr:
        """The function object: kept where it has no closure, else made with the cells at hand."""
        if not code.co_freevars:
            return self.constant(FunctionType(code, scope, code.co_name), code.co_name)
        closure = [cells[name] if name in cells else self.own_cell(name) for name in code.co_freevars]
        arguments = [
            self.constant(code, f"code_of_{code.co_name}"),
            self.constant(scope, "globals"),
            ast.Constant(code.co_name),
            ast.Constant(None),
            ast.Tuple(closure, ast.Load()),
        ]
        name = self.fresh("resume")
        self.statements.append(_assign(name, ast.Call(self.constant(FunctionType, "function"), arguments, [])))
        return ast.Name(name, ast.Load())

    def prepare(self, end: GraphBreak) -> Callable[[], ast.expr | None]:
        """The broken instruction as an expression, its operands settled; None if it is a statement."""
        match end.action:
            case BrokenCall(function, arguments, keywords, star, double_star):
                callee = self.settled(function)
                positional: list[ast.expr] = [self.settled(each) for each in arguments]
                named = [ast.keyword(name, self.settled(each)) for name, each in keywords]
                if star is not None:
                    positional.append(ast.Starred(self.settled(star), ast.Load()))
                if double_star is not None:
                    named.append(ast.keyword(None, self.settled(double_star)))
                return lambda: ast.Call(callee, positional, named)
            case BrokenOperation(operation, operands, symbol, as_bool):
                values = [self.settled(each) for each in operands]
                if as_bool:
                    truth = self.constant(bool, "bool")
                    return lambda: ast.Call(truth, [_given(self.operation(operation, values, symbol))], [])
                return lambda: self.operation(operation, values, symbol)
            case BrokenJump(condition, test):
                value = self.settled(condition)
                if test == "none":
                    return lambda: ast.Compare(value, [ast.Is()], [ast.Constant(None)])
                return lambda: value
            case BrokenComprehension(begin, until):
                code, whole = self.continuation(begin, end=until)
                self.python_codes.append(code)
                return lambda: _resumed(whole, [], [])
            case Continue():
                self.python_codes += self.resume_codes
                return lambda: None
        raise AssertionError(end.action)

    def operation(self, operation: str, values: list[ast.expr], symbol: str) -> ast.expr | None:
        match operation:
            case "compare":
                return ast.Compare(values[0], [_COMPARISONS[symbol]()], [values[1]])
            case "getitem":
                return ast.Subscript(values[0], values[1], ast.Load())
            case "setattr":
                self.statements.append(ast.Assign([ast.Attribute(values[0], symbol, ast.Store())], values[1]))
            case "setitem":
                self.statements.append(ast.Assign([ast.Subscript(values[0], values[1], ast.Store())], values[2]))
        return None

    def act(
        self,
        end: GraphBreak,
        action: Callable[[], ast.expr | None],
        carried: list[_Carried],
        callers: list[_Carried],
    ) -> None:
        """Run the broken instruction and go on in a resume function; in a nested one's callers, too."""
        line = end.resume[0].line
        began = len(self.statements)
        value = action()
        if isinstance(end.action, BrokenJump):
            assert value is not None
            first, second = (ast.Return(_resumed(each, [], callers)) for each in carried)
            self.statements.append(ast.If(value, [first], []))
            self.statements.append(second)
            _set_line(self.statements[began:], line)
            return
        pushed: list[ast.expr] = []
        if end.resume[0].pushes:
            assert value is not None
            name = self.fresh("result")
            self.statements.append(_assign(name, value))
            pushed.append(ast.Name(name, ast.Load()))
        managers = [ast.withitem(self.make(each)) for each in end.contexts]
        broken = self.statements[began:]
        if managers and broken:
            del self.statements[began:]
            self.statements.append(ast.With(managers, broken))
        self.statements.append(ast.Return(_resumed(carried[0], pushed, callers)))
        _set_line(self.statements[began:], line)

    # -- the code object -----------------------------------------------------------------

    def residual(self) -> Residual:
        """Compile the statements into a code object with the frame's own signature."""
        free = list(self.code.co_freevars)
        body: list[ast.stmt] = [*([ast.Nonlocal(free)] if free else []), *self.statements]
        name = _identifier(self.code.co_name)
        function = ast.FunctionDef(name, _signature(self.code), body, [])
        shown = ast.unparse(_located(function, self.code.co_firstlineno))
        placeholders = {each: _PLACEHOLDER + number for number, each in enumerate(self.constants)}
        bound = _BindConstants(placeholders).visit(function)
        factory = ast.FunctionDef("factory", _arguments(free), [bound], [])
        module = ast.Module([_located(factory, self.code.co_firstlineno)], [])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # a placeholder is called: it stands for a function
            compiled = compile(module, self.code.co_filename, "exec", dont_inherit=True)
        values = {number: self.constants[each] for each, number in placeholders.items()}
        code = _with_constants(_nested(_nested(compiled)), values)
        code = code.replace(
            co_name=self.code.co_name, co_qualname=self.code.co_qualname, co_firstlineno=self.code.co_firstlineno
        )
        assert code.co_freevars == self.code.co_freevars, (code.co_freevars, self.code.co_freevars)
        return Residual(
            code,
            shown,
            tuple(self.resume_codes),
            tuple(self.python_codes),
            tuple(self.effects),
            tuple(self.carried),
        )


_PLACEHOLDER = 0x6E62_6370_0000_0000_0000
"""Numbers from here on stand for kept objects until the code object is made: no literal folds them."""

_SLOTS = {"value": resume.Slot.VALUE, "null": resume.Slot.NULL, "exit": resume.Slot.EXIT}
_COMPARISONS: dict[str, Callable[[], ast.cmpop]] = {
    "<": ast.Lt,
    "<=": ast.LtE,
    ">": ast.Gt,
    ">=": ast.GtE,
    "==": ast.Eq,
    "!=": ast.NotEq,
}


_Node = TypeVar("_Node", bound=ast.AST)


class _BindConstants(ast.NodeTransformer):
    def __init__(self, placeholders: dict[str, int]) -> None:
        self.placeholders = placeholders

    def visit_Name(self, node: ast.Name) -> ast.expr:
        number = self.placeholders.get(node.id)
        return node if number is None else ast.copy_location(ast.Constant(number), node)


def _with_constants(code: CodeType, values: dict[int, object]) -> CodeType:
    def bound(constant: object) -> object:
        if type(constant) is int and constant in values:
            return values[constant]
        if type(constant) is tuple:
            return tuple(map(bound, constant))
        return _with_constants(constant, values) if isinstance(constant, CodeType) else constant

    return code.replace(co_consts=tuple(map(bound, code.co_consts)))


def _nested(code: CodeType) -> CodeType:
    return next(each for each in code.co_consts if isinstance(each, CodeType))


def _signature(code: CodeType) -> ast.arguments:
    """The parameters of a code object, without defaults (the hook binds nothing)."""
    names = [ast.arg(_identifier(name)) for name in code.co_varnames]
    count, named = code.co_argcount, code.co_kwonlyargcount
    rest = count + named
    vararg = kwarg = None
    if code.co_flags & 4:
        vararg, rest = names[rest], rest + 1
    if code.co_flags & 8:
        kwarg = names[rest]
    only = names[count : count + named]
    return ast.arguments(
        posonlyargs=names[: code.co_posonlyargcount],
        args=names[code.co_posonlyargcount : count],
        vararg=vararg,
        kwonlyargs=only,
        kw_defaults=[None] * len(only),
        kwarg=kwarg,
        defaults=[],
    )


def _arguments(names: list[str]) -> ast.arguments:
    return ast.arguments(
        posonlyargs=[], args=[ast.arg(name) for name in names], kwonlyargs=[], kw_defaults=[], defaults=[]
    )


def _given(value: ast.expr | None) -> ast.expr:
    assert value is not None
    return value


def _assign(name: str, value: ast.expr) -> ast.stmt:
    return ast.Assign([ast.Name(name, ast.Store())], value)


def _identifier(name: str) -> str:
    """A name that Python's grammar takes: ``<lambda>`` and ``.0`` are none."""
    return name if name.isidentifier() else re.sub(r"\W", "_", name)


def _resumed(innermost: _Carried, pushed: list[ast.expr], callers: list[_Carried]) -> ast.expr:
    """The call that goes on; of a chain the outermost resume function is called, and calls the next one itself."""
    current = innermost
    for caller in callers:
        arguments = ast.Tuple([*current.stack, *pushed, *current.live], ast.Load())
        current, pushed = caller, [current.function, arguments]
    return ast.Call(current.function, [*current.stack, *pushed, *current.live], [])


def _without_literal(value: Any) -> bool:
    """Inf and nan, and complex numbers of them, have no spelling of their own."""
    return isinstance(value, (float, complex)) and not cmath.isfinite(value)


def _is_graph_output(made: ast.expr, graph_out: str) -> bool:
    return isinstance(made, ast.Subscript) and isinstance(made.value, ast.Name) and made.value.id == graph_out


def _located(tree: _Node, line: int) -> _Node:
    """Every node that has no line yet is on this one."""
    for node in ast.walk(tree):
        if "lineno" in node._attributes and not hasattr(node, "lineno"):
            node.lineno = node.end_lineno = line  # type: ignore[attr-defined]
            node.col_offset = node.end_col_offset = 0  # type: ignore[attr-defined]
    return tree


def _set_line(statements: list[ast.stmt], line: int) -> None:
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, (ast.stmt, ast.expr, ast.keyword, ast.arg)):
                node.lineno = node.end_lineno = line
                node.col_offset = node.end_col_offset = 0


def _kind(recipe: Recipe) -> str:
    """What a carried value is, in words."""
    match recipe:
        case recipes.GraphOutput():
            return "tensor"
        case recipes.FromSource():
            return "input"
        case recipes.Constant():
            return "constant"
        case recipes.Build(kind, _):
            return kind
        case recipes.Shared(_, inner, _):
            return _kind(inner)
        case recipes.Function():
            return "function"
    return "value"


def _target_text(program: _Program, mutation: Mutation) -> str:
    match mutation:
        case recipes.SetGlobal(name, _, _, _):
            return name
        case recipes.SetCell(_, _, name, _):
            return name
        case recipes.Evaluate():
            return ""
    return ast.unparse(program.make(mutation.target))


def _with_values(mutation: Mutation, settle: Callable[[Recipe], Recipe]) -> Mutation:
    """The same side effect, with its values settled."""
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
