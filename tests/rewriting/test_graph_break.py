"""The end of a program that breaks the graph: the instruction that breaks it, then the rest of the function."""

from __future__ import annotations

import dis

import pytest

from nbcompile.capture import recipe as recipes
from nbcompile.capture.recipe import Attribute, Build, Call, Cell, Constant, FromSource
from nbcompile.capture.source import LocalSource
from nbcompile.capture.trace import (
    BrokenCall,
    BrokenJump,
    BrokenOperation,
    Callee,
    Continue,
    GraphBreak,
    ResumePoint,
    StackSlot,
)
from tests.rewriting.written import Written

X = FromSource(LocalSource("x"))
LOG = FromSource(LocalSource("log"))


def offset(function, opname, argval=None, *, after=False, number=0):
    """The byte offset of an instruction, or of the next one."""
    instructions = list(dis.get_instructions(function))
    found = [at for at, each in enumerate(instructions) if each.opname == opname and argval in (None, each.argval)]
    return instructions[found[number] + after].offset


def rest(function, at, pushes, *live, stack=(), callee=None, cells=()):
    """The point where a function resumes, with recipes of its live locals."""
    line = function.__code__.co_firstlineno
    return ResumePoint(at, tuple(stack), pushes, tuple(live), tuple(cells), line, callee)


def after(function, opname, *live, number=0):
    """The point after a call or an operation, whose result is pushed."""
    return rest(function, offset(function, opname, after=True, number=number), 1, *live)


def ending(function, arguments, action, *resume, mutations=(), **more):
    """The writer of a program's end, which a test then runs."""
    written = Written(function, *arguments)
    end = GraphBreak(action, resume, more.pop("contexts", ()), None, **more)
    written.end.end_with_graph_break(end, mutations)
    return written


def calling(x, log):
    """A function with a call that cannot be traced."""
    y = log.append(x)
    return y, x, "rest"


def test_the_call_runs_and_the_rest_gets_its_result():
    """The call runs once, and the resume function gets its result and the live locals."""
    log = []
    action = BrokenCall(Attribute(LOG, "append"), (X,))
    written = ending(calling, (5, log), action, after(calling, "CALL", ("x", X)))
    assert written.run() == (None, 5, "rest")
    assert log == [5]
    assert written.end.carried == [(("x", "x", "input"),)]
    assert [code.co_name for code in written.end.resume_codes] == [
        f"torch_dynamo_resume_in_calling_at_{calling.__code__.co_firstlineno}"
    ]


def gathering(x, log):
    """A call with positional, keyword, star and double-star arguments."""
    y = log(x, *x, k=1, **{"m": 2})
    return y


def test_a_call_has_its_stars_and_keywords():
    """Positional arguments come before those of the star, keywords before those of the double star."""
    action = BrokenCall(LOG, (X,), (("k", Constant(1)),), X, Build("dict", (Constant("m"), Constant(2))))
    point = after(gathering, "CALL_FUNCTION_EX")
    got = ending(gathering, ((7, 8), lambda *given, **named: (given, named)), action, point).run()
    assert got == (((7, 8), 7, 8), {"k": 1, "m": 2})


def test_effects_run_between_the_live_values_and_the_broken_call():
    """Live values are read before the side effects, and the call sees the effects."""
    log = []
    live = ("x", Call(Constant(len, "len"), (LOG,)))
    seen = BrokenCall(Call(Constant(lambda log: log.copy, "copier"), (LOG,)), ())
    written = ending(
        calling, (5, log), seen, after(calling, "CALL", live), mutations=(recipes.AppendItems(LOG, (Constant(1),)),)
    )
    assert written.run() == ([1], 0, "rest")


COMPARED = {"<": (True, False), "<=": (True, True), ">": (False, False), ">=": (False, True), "==": (False, True)}


def comparing(x, log):
    """A comparison of two objects."""
    y = x < log
    return y


@pytest.mark.parametrize("symbol", [*COMPARED, "!="])
def test_comparisons_are_those_of_their_symbol(symbol):
    """The comparison is that of the symbol, for a smaller and for an equal left operand."""
    for x, expected in zip((1, 2), COMPARED.get(symbol, (True, False)), strict=True):
        action = BrokenOperation("compare", (X, LOG), symbol)
        assert ending(comparing, (x, 2), action, after(comparing, "COMPARE_OP")).run() is expected


def test_a_comparison_can_be_asked_for_its_truth():
    """The result is a bool for a jump, from 3.13 on, and otherwise the object that the comparison returns."""

    class Odd:
        def __lt__(self, other):
            return [other]

    for as_bool, expected in ((True, True), (False, [2])):
        action = BrokenOperation("compare", (X, LOG), "<", as_bool)
        assert ending(comparing, (Odd(), 2), action, after(comparing, "COMPARE_OP")).run() == expected


def storing(x, log):
    """Operations that push no value, and one that does."""
    log[x] = 1
    log.note = x
    return log[x]


class Items(dict):
    """A dict with attributes."""


def test_items_and_attributes_are_stored_once():
    """A store pushes no value, so the resume function has an empty stack."""
    log = Items()
    live = (("log", LOG), ("x", X))
    stored = rest(storing, offset(storing, "STORE_SUBSCR", after=True), 0, *live)
    action = BrokenOperation("setitem", (LOG, X, Constant("item")))
    assert ending(storing, ("key", log), action, stored).run() == "item"
    assert log.note == "key"
    noted = rest(storing, offset(storing, "STORE_ATTR", after=True), 0, *live)
    action = BrokenOperation("setattr", (LOG, Constant("new")), "note")
    assert ending(storing, ("key", log), action, noted).run() == "item"
    assert log.note == "new"
    got = after(storing, "BINARY_SUBSCR")
    assert ending(storing, ("key", log), BrokenOperation("getitem", (LOG, X)), got).run() == "item"


def jumping(x, log):
    """A function with a branch."""
    if x:
        return "true", log
    return "false", log


def ways(function):
    """The points after a jump: for a true condition, and for a false one."""
    instructions = list(dis.get_instructions(function))
    at = next(at for at, each in enumerate(instructions) if "POP_JUMP" in each.opname)
    live = (("log", LOG),)
    return rest(function, instructions[at + 1].offset, 0, *live), rest(function, instructions[at].argval, 0, *live)


@pytest.mark.parametrize(("x", "expected"), [([], "false"), ([1], "true"), (None, "false")])
def test_a_jump_has_two_resume_functions(x, expected):
    """The first resume function is for a true condition; both receive the live locals."""
    written = ending(jumping, (x, "log"), BrokenJump(X, "truth"), *ways(jumping))
    assert written.run() == (expected, "log")
    assert len(written.end.resume_codes) == 2


def test_a_test_for_none_asks_no_truth():
    """``is None`` compares the identity: an empty list is not None, and ``__bool__`` is not called."""

    class Unasked:
        def __bool__(self):
            raise AssertionError

    for x, expected in ((None, "true"), (Unasked(), "false"), ([], "false")):
        assert ending(jumping, (x, 1), BrokenJump(X, "none"), *ways(jumping)).run()[0] == expected


class Manager:
    """A context manager that records its entry and its exit."""

    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("enter")

    def __exit__(self, *_):
        self.log.append("exit")


def test_active_blocks_are_entered_around_the_broken_call():
    """The graph has exited the blocks, so only the broken call runs inside them."""
    log = []
    written = ending(
        calling, (Manager(log), log), BrokenCall(Attribute(LOG, "append"), (Constant("call"),)),
        after(calling, "CALL", ("x", Constant(1))), contexts=(X,),
    )  # fmt: skip
    assert written.run() == (None, 1, "rest")
    assert log == ["enter", "call", "exit"]


def test_a_rest_without_a_broken_call_runs_as_python():
    """The rest of the function is a generated function that is not compiled."""
    log = []
    point = rest(calling, offset(calling, "RESUME", after=True), 0, ("log", LOG), ("x", X))
    written = ending(calling, (3, log), Continue(), point)
    assert written.run() == (None, 3, "rest")
    assert written.end.python_codes == written.end.resume_codes != []


def outer(x, log):
    """The caller of an inlined function."""
    y = calling(x, log)
    return "outer", y


def middle(x, log):
    """A caller between the two others."""
    y = calling(x, log)
    return "middle", y


def test_callers_go_on_with_what_the_inner_function_returns():
    """A break in a function that was inlined twice calls the resume functions from the inside out."""
    log = []
    inner, between = (Callee(each.__code__, globals(), ()) for each in (calling, middle))
    broken = rest(calling, offset(calling, "CALL", after=True), 1, ("x", X), callee=inner)
    second = rest(middle, offset(middle, "CALL", after=True), 1, callee=between)
    last = rest(outer, offset(outer, "CALL", after=True), 1)
    action = BrokenCall(Attribute(LOG, "append"), (X,))
    written = ending(outer, (5, log), action, broken, callers=(second, last))
    assert written.run() == ("outer", ("middle", (None, 5, "rest")))
    assert log == [5]
    assert [code.co_name.rpartition("_at_")[0] for code in written.end.resume_codes] == [
        f"torch_dynamo_resume_in_{name}" for name in ("calling", "middle", "outer")
    ]


def test_a_callers_argument_is_the_result_where_the_inner_rest_runs_as_python():
    """The innermost function runs first, and its result is the caller's argument."""
    log = []
    inner = Callee(calling.__code__, globals(), ())
    start = rest(calling, offset(calling, "RESUME", after=True), 0, ("log", LOG), ("x", X), callee=inner)
    last = rest(outer, offset(outer, "CALL", after=True), 1)
    assert ending(outer, (5, log), Continue(), start, callers=(last,)).run() == ("outer", (None, 5, "rest"))
    assert log == [5]


def closing(x, log):
    """A function whose cell is used after the break."""

    def inner():
        return x

    log.append(1)
    return inner, x


def test_cells_are_passed_on():
    """The resume function has the cell itself in its closure, and reads its contents."""
    log = []
    cell = recipes.SharedValue(1, Cell(Constant("content")))
    point = rest(closing, offset(closing, "CALL", after=True), 1, ("inner", Constant("function")), cells=(("x", cell),))
    written = ending(closing, (5, log), BrokenCall(Attribute(LOG, "append"), (Constant(1),)), point)
    assert written.run() == ("function", "content")
    assert log == [1]


def stacking(x, log):
    """A call while another operand is on the stack."""
    return [x, log.append(x)]


def test_operands_that_wait_are_carried_beneath_the_result():
    """The operands have names like ``___stack0``, and are below the result on the stack."""
    log = []
    point = rest(stacking, offset(stacking, "CALL", after=True), 1, stack=(StackSlot("value", Build("tuple", (X,))),))
    written = ending(stacking, (4, log), BrokenCall(Attribute(LOG, "append"), (X,)), point)
    assert written.run() == [(4,), None]
    assert written.end.carried == [(("___stack0", "value", "tuple"),)]


def test_kinds_of_carried_values_are_those_of_their_recipes():
    """The kinds in the record are tensor, input, constant, container, function and value."""
    kinds = {
        "tensor": recipes.GraphOutput(0), "input": X, "constant": Constant(1), "list": Build("list", ()),
        "set": recipes.SharedValue(7, Build("set", (Constant(1),))),
        "function": recipes.Function(calling.__code__, "calling", Constant(globals(), "globals")),
        "value": Attribute(X, "real"),
    }  # fmt: skip
    point = rest(calling, offset(calling, "RESUME", after=True), 0, *sorted(kinds.items()))
    written = Written(calling, 1, [])
    written.body.graph_out = "graph_out"
    written.end.carry(point)
    (carried,) = written.end.carried
    assert [(name, kind) for name, _, kind in carried] == [(kind, kind) for kind in sorted(kinds)]
