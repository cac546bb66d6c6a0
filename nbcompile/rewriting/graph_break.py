"""Graph breaks: the instruction that was not traced, then a call of the resume function with the live values.

    value = save(y, path)                              the broken instruction
    return torch_dynamo_resume_in_f_at_3(value, y)     the rest of the function

For a chain of inlined calls the outermost resume function is called; its
arguments are the next one and that one's arguments, and it calls it.

In torch: torch/_dynamo/symbolic_convert.py (create_call_resume_at). Read next:
nbcompile/rewriting/resume.py
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FunctionType

from nbcompile.capture import recipe as recipes
from nbcompile.capture.recipe import Recipe
from nbcompile.capture.trace import (
    BrokenCall,
    BrokenComprehension,
    BrokenJump,
    BrokenOperation,
    Continue,
    GraphBreak,
    ResumePoint,
)
from nbcompile.rewriting import resume
from nbcompile.rewriting.effects import EffectReplay
from nbcompile.rewriting.resume_layout import ResumeTarget, Slot
from nbcompile.rewriting.syntax import assign, set_line
from nbcompile.rewriting.values import ValueBuilder

_SLOTS = {"value": Slot.VALUE, "null": Slot.NULL, "exit": Slot.EXIT}
_COMPARISONS: dict[str, Callable[[], ast.cmpop]] = {
    "<": ast.Lt,
    "<=": ast.LtE,
    ">": ast.Gt,
    ">=": ast.GtE,
    "==": ast.Eq,
    "!=": ast.NotEq,
}


@dataclass(frozen=True, slots=True)
class _ResumeCall:
    """A resume function and its arguments: operands of the stack, and live locals."""

    function: ast.expr
    stack: list[ast.expr]
    live: list[ast.expr]


class GraphBreakWriter:
    """Writer of the end of a program that breaks its graph; ``carried`` and the codes are for the record."""

    def __init__(self, values: ValueBuilder, effects: EffectReplay) -> None:
        self.body = values.body
        self.values = values
        self.effects = effects
        self.resume_codes: list[CodeType] = []
        self.python_codes: list[CodeType] = []
        self.carried: list[tuple[tuple[str, str, str], ...]] = []

    def end_with_graph_break(self, end: GraphBreak, mutations: tuple[recipes.Mutation, ...]) -> None:
        """Settle the live values, replay the side effects, run the broken instruction, and call the resume function."""
        #     graph_out_0 = ...                             live values, in locals
        #     self.calls = 3                                side effects
        #     result = save(graph_out_0, path)              the broken instruction
        #     return torch_dynamo_resume_in_f(result, ...)  the rest of the function
        # The order matters. Live values are assigned to locals first, then the side effects run, then the broken
        # instruction: neither of them can change a local, but both can change the objects that expressions read.
        carried = [self.carry(point) for point in end.resume]
        # Where the rest of the innermost frame runs as Python, its caller's argument is its result.
        stops = isinstance(end.action, Continue)
        # Chain of resume functions for a break in an inlined function: the innermost rest returns to its caller's rest,
        # which calls it and continues with its result.
        callers = [self.carry(point, nested=bool(index) or not stops) for index, point in enumerate(end.callers)]
        action = self.prepare(end)
        self.effects.replay(mutations)
        self.act(end, action, carried, callers)

    def carry(self, point: ResumePoint, *, nested: bool = False) -> _ResumeCall:
        """The resume function and its arguments, settled before the break.

        Args:
            point: where it resumes.
            nested: its argument is not the result of the function that it called, but that one's resume function.
        """
        code, carried = self.continuation(point, pushed=Slot.CALL if nested else Slot.VALUE)
        stack, live = carried.stack, carried.live
        self.resume_codes.append(code)
        # Names and texts of the live values, for the record: slots without a value (a null, an exit
        # of a with block) are created by the prologue.
        passed = [slot.recipe for slot in point.stack if slot.recipe is not None]
        names = [*(f"___stack{number}" for number in range(len(passed))), *(name for name, _ in point.live)]
        kinds = map(_kind, (*passed, *(recipe for _, recipe in point.live)))
        texts = (ast.unparse(each) for each in (*stack, *live))
        self.carried.append(tuple(zip(names, texts, kinds, strict=True)))
        return carried

    def continuation(
        self, point: ResumePoint, *, pushed: Slot = Slot.VALUE, end: int | None = None
    ) -> tuple[CodeType, _ResumeCall]:
        """The code of the resume function, and its arguments."""
        # One slot kind for each stack value, plus the slot of the result.
        slots = [*(_SLOTS[slot.kind] for slot in point.stack), *([pushed] * point.pushes)]
        stack = [self.values.settled(slot.recipe) for slot in point.stack if slot.recipe is not None]
        live = [self.values.settled(recipe) for _, recipe in point.live]
        cells = {name: self.values.settled(recipe) for name, recipe in point.cells}
        original, scope = self.body.code, self.body.frame.globals
        if point.callee is not None:
            original, scope = point.callee.code, point.callee.scope
        names = tuple(name for name, _ in point.live)
        target = ResumeTarget(original, point.offset, tuple(slots), names, tuple(cells), point.line, end)
        code = resume.resume_function_code(target)
        if point.callee is not None:
            cells |= {name: self.values.settled(recipe) for name, recipe in point.callee.free}
        return code, _ResumeCall(self.resume_function(code, scope, cells), stack, live)

    def resume_function(
        self, code: CodeType, scope: dict[str, object], cells: dict[str, ast.expr], called: str = ""
    ) -> ast.expr:
        """The function object: a constant where it has no closure, else built with the current cells."""
        called = called or code.co_name
        if not code.co_freevars:
            return self.body.constant(FunctionType(code, scope, code.co_name), called)
        info = resume.resume_info(code)
        names = code.co_freevars if info is None else info.closure
        # A free variable of the user's function is one of the residual program, so ``own_cell`` reads its cell. In what
        # replaces a resume function it may have the other name that the cell came in under.
        frame = resume.resume_info(self.body.code)
        own = {} if frame is None else dict(zip(frame.closure, self.body.code.co_freevars, strict=True))
        closure = [cells[name] if name in cells else self.values.own_cell(own.get(name, name)) for name in names]
        # FunctionType(code, globals, name, defaults, closure)
        arguments = [
            self.body.constant(code, f"code_of_{called}"),
            self.body.constant(scope, "globals"),
            ast.Constant(code.co_name),
            ast.Constant(None),
            ast.Tuple(closure, ast.Load()),
        ]
        name = self.body.fresh("resume")
        self.body.statements.append(assign(name, ast.Call(self.body.constant(FunctionType, "function"), arguments, [])))
        return ast.Name(name, ast.Load())

    def prepare(self, end: GraphBreak) -> Callable[[], ast.expr | None]:
        """The broken instruction as an expression, its operands settled; None if it is a statement."""
        match end.action:
            case BrokenCall(function, arguments, keywords, star, double_star):
                callee = self.values.settled(function)
                positional: list[ast.expr] = [self.values.settled(each) for each in arguments]
                named = [ast.keyword(name, self.values.settled(each)) for name, each in keywords]
                if star is not None:
                    positional.append(ast.Starred(self.values.settled(star), ast.Load()))
                if double_star is not None:
                    named.append(ast.keyword(None, self.values.settled(double_star)))
                return lambda: ast.Call(callee, positional, named)
            case BrokenOperation(operation, operands, symbol, as_bool):
                values = [self.values.settled(each) for each in operands]
                # From 3.13 on, COMPARE_OP may convert its result to a bool, as the jump after it takes nothing else.
                if as_bool:
                    truth = self.body.constant(bool, "bool")
                    return lambda: ast.Call(truth, [_not_none(self.operation(operation, values, symbol))], [])
                return lambda: self.operation(operation, values, symbol)
            case BrokenJump(condition, test):
                value = self.values.settled(condition)
                # POP_JUMP_IF_NONE tests the identity: truth would call __bool__.
                if test == "none":
                    return lambda: ast.Compare(value, [ast.Is()], [ast.Constant(None)])
                return lambda: value
            case BrokenComprehension(begin, until):
                code, whole = self.continuation(begin, end=until)
                # The loop is what cannot be traced: as a function of its own it runs uncompiled, and what
                # it calls is compiled.
                self.python_codes.append(code)
                return lambda: _resume_call(whole, [], [])
            case Continue():
                self.python_codes += self.resume_codes[: len(end.resume)]
                return lambda: None
        raise AssertionError(end.action)

    def operation(self, operation: str, values: list[ast.expr], symbol: str) -> ast.expr | None:
        match operation:
            case "compare":
                return ast.Compare(values[0], [_COMPARISONS[symbol]()], [values[1]])
            case "getitem":
                return ast.Subscript(values[0], values[1], ast.Load())
            case "setattr":
                self.body.statements.append(ast.Assign([ast.Attribute(values[0], symbol, ast.Store())], values[1]))
            case "setitem":
                self.body.statements.append(ast.Assign([ast.Subscript(values[0], values[1], ast.Store())], values[2]))
        return None

    def act(
        self,
        end: GraphBreak,
        action: Callable[[], ast.expr | None],
        carried: list[_ResumeCall],
        callers: list[_ResumeCall],
    ) -> None:
        """Run the broken instruction and call the resume function, and those of its callers."""
        line = end.resume[0].line
        began = len(self.body.statements)
        value = action()
        if isinstance(end.action, BrokenJump):
            assert value is not None
            # Both ways of the jump, as an ``if`` over two calls of resume functions.
            first, second = (ast.Return(_resume_call(each, [], callers)) for each in carried)
            self.body.statements.append(ast.If(value, [first], []))
            self.body.statements.append(second)
            set_line(self.body.statements[began:], line)
            return
        pushed: list[ast.expr] = []
        innermost = carried[0]
        # The innermost frame runs on as Python, and its result is its caller's argument.
        if isinstance(end.action, Continue) and callers:
            value = _resume_call(innermost, [], [])
            innermost, *callers = callers
        if value is not None and (end.resume[0].pushes or isinstance(end.action, Continue)):
            name = self.body.fresh("result")
            self.body.statements.append(assign(name, value))
            pushed.append(ast.Name(name, ast.Load()))
        # The active ``with`` blocks were left by the graph. The broken instruction runs inside of them again; the
        # resume function enters them itself.
        managers = [ast.withitem(self.values.make(each)) for each in end.contexts]
        broken = self.body.statements[began:]
        if managers and broken:
            del self.body.statements[began:]
            self.body.statements.append(ast.With(managers, broken))
        self.body.statements.append(ast.Return(_resume_call(innermost, pushed, callers)))
        set_line(self.body.statements[began:], line)


def _not_none(value: ast.expr | None) -> ast.expr:
    assert value is not None
    return value


def _resume_call(innermost: _ResumeCall, pushed: list[ast.expr], callers: list[_ResumeCall]) -> ast.expr:
    """The call of a resume function; for a chain the outermost one is called, and calls the next one itself."""
    current = innermost
    # Inside out: each caller gets the next resume function and its arguments as a pair, in the slot of the result.
    #     outer(..., inner, (inner's arguments), ...)
    for caller in callers:
        arguments = ast.Tuple([*current.stack, *pushed, *current.live], ast.Load())
        current, pushed = caller, [current.function, arguments]
    return ast.Call(current.function, [*current.stack, *pushed, *current.live], [])


def _kind(recipe: Recipe) -> str:
    """Kind of a carried value, for the record."""
    match recipe:
        case recipes.GraphOutput():
            return "tensor"
        case recipes.FromSource():
            return "input"
        case recipes.Constant():
            return "constant"
        case recipes.Build(kind, _):
            return kind
        case recipes.SharedValue(_, inner, _):
            return _kind(inner)
        case recipes.Function():
            return "function"
    return "value"
