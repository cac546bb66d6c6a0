"""Tests for nbcompile.rewriting.resume: a resume function continues like the original.

The main test stops every function of CASES before each instruction that it
runs, captures the stack, the locals and the cells of the frame, and continues
in a resume function. Result, exception and log must equal the original's.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from nbcompile.bytecode.dialects import local_slots
from nbcompile.bytecode.disassemble import disassemble
from nbcompile.bytecode.flow import handled_slots, live_locals, stack_depth
from nbcompile.bytecode.instruction import Instruction
from nbcompile.rewriting.resume import resume_function_code, resume_info
from nbcompile.rewriting.resume_layout import CannotResume, ResumeTarget, Slot

# -- the contents of a running frame ------------------------------------------------------------------------

NULL = object()
"""The value of an empty slot."""


def frame_slots(frame: types.FrameType, depth: int) -> tuple[list[object], list[object]]:
    """The raw contents of a frame's variables and of its operand stack.

    ``PyFrameObject.f_frame`` is its fourth word; the slots follow nine words of
    ``_PyInterpreterFrame``, on 3.11, 3.12 and 3.13.
    """
    word = ctypes.sizeof(ctypes.c_void_p)
    interpreter_frame = ctypes.c_void_p.from_address(id(frame) + 3 * word).value
    assert interpreter_frame is not None
    code = frame.f_code
    variables = len(local_slots(code.co_varnames, code.co_cellvars, code.co_freevars))
    slots = [slot_value(interpreter_frame + (9 + index) * word) for index in range(variables + depth)]
    return slots[:variables], slots[variables:]


def slot_value(address: int) -> object:
    if ctypes.c_void_p.from_address(address).value is None:
        return NULL
    return ctypes.py_object.from_address(address).value


class Analysed:
    """A code object and the results of its analysis."""

    def __init__(self, code: types.CodeType) -> None:
        self.code = code
        self.read = disassemble(code)
        self.depths = stack_depth(self.read)
        self.handled = handled_slots(self.read)
        self.live = [live_locals(self.read, index, code.co_varnames) for index in range(len(self.read))]


@dataclass(slots=True)
class Captured:
    """A frame before one of its instructions."""

    code: types.CodeType
    instruction: Instruction
    needed: frozenset[str]
    handled: tuple[int, ...]
    variables: dict[str, object]
    frees: dict[str, object]
    stack: list[object]
    handling: BaseException | None


def capture(frame: types.FrameType, analysed: Analysed) -> Captured:
    code = analysed.code
    index = max(index for index, each in enumerate(analysed.read) if each.offset <= frame.f_lasti)
    depth = analysed.depths[index]
    assert depth is not None
    slots, stack = frame_slots(frame, depth)
    names = local_slots(code.co_varnames, code.co_cellvars, code.co_freevars)
    own = len(names) - len(code.co_freevars)
    return Captured(
        code,
        analysed.read[index],
        analysed.live[index],
        analysed.handled[index],
        dict(zip(names[:own], slots[:own], strict=True)),
        dict(zip(names[own:], slots[own:], strict=True)),
        stack,
        sys.exc_info()[1],
    )


# -- continuation in a resume function --------------------------------------------------------------------


def go_on(at: Captured, scope: dict[str, Any], enter: bool) -> object:
    """The result of a captured frame that continues in a resume function."""
    layout, passed = stack_layout(at, enter)
    bound = {name: value for name, value in at.variables.items() if value is not NULL and name in at.needed}
    cells = tuple(name for name in at.code.co_cellvars if isinstance(bound.get(name), types.CellType))
    live = tuple(name for name in bound if name not in cells)
    code = resume_function_code(ResumeTarget(at.code, at.instruction.offset, layout, live, cells))
    outer = {**at.frees, **{name: bound[name] for name in cells}}
    info = resume_info(code)
    closure = tuple(outer[name] for name in (code.co_freevars if info is None else info.closure))
    assert all(isinstance(cell, types.CellType) for cell in closure)
    function = types.FunctionType(code, scope, code.co_name, None, closure)  # type: ignore[arg-type]
    return function(*passed, *(bound[name] for name in live))


def stack_layout(at: Captured, enter: bool) -> tuple[tuple[Slot, ...], list[object]]:
    """The kind of each slot on a stack, and the arguments for it."""
    layout: list[Slot] = []
    passed: list[object] = []
    # Each saved exception was current until the next handler began.
    current = dict(zip(at.handled, [*(at.stack[slot] for slot in at.handled[1:]), at.handling], strict=False))
    for slot, value in enumerate(at.stack):
        if slot in current:
            layout.append(Slot.HANDLED)
            passed.append(current[slot])
        elif value is NULL:
            layout.append(Slot.NULL)
        elif enter and isinstance(value, types.MethodType) and value.__name__ == "__exit__":
            layout.append(Slot.EXIT)
            passed.append(value.__self__)
        else:
            layout.append(Slot.VALUE)
            passed.append(value)
    return tuple(layout), passed


@dataclass(slots=True)
class Outcome:
    """The outcome of a call."""

    result: str
    error: str
    log: list[object]


def outcome(run: Callable[[], object], log: list[object]) -> Outcome:
    try:
        result, error = repr(run()), ""
    except Exception as raised:  # noqa: BLE001
        result, error = "", f"{type(raised).__name__}: {raised} <- {type(raised.__context__).__name__}"
    return Outcome(result, error, [entry for entry in log if entry not in REPEATED])


def elsewhere(run: Callable[[], Outcome]) -> Outcome:
    """The outcome of a call in another thread, where no exception is being handled."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run).result()


REPEATED = ("enter", "enter outer")
"""Log entries that a second entry into a context manager repeats."""


def boundaries(function: types.FunctionType, arguments: Callable[[], tuple[Any, ...]], enter: bool) -> Iterator[str]:
    """Continue before each instruction that a call runs; yield the differences from the original."""
    log: list[object] = []
    CURRENT[0] = log
    copy = in_scope(function, {**function.__globals__, "log": log})
    given = arguments()
    expected = outcome(lambda: copy(*given), log)
    code = Analysed(function.__code__)
    for step in steps(copy, arguments(), code):
        log.clear()
        captured: list[Captured] = []

        def stop(frame: types.FrameType, at: list[Captured] = captured) -> None:
            at.append(capture(frame, code))
            resumed.append(elsewhere(lambda: outcome(lambda: go_on(at[0], copy.__globals__, enter), log)))

        resumed: list[Outcome] = []
        stop_at(copy, arguments(), step, stop)
        assert resumed, f"step {step}: the harness failed"
        if resumed[0] != expected:
            yield f"step {step} {captured[0].instruction}: {resumed[0]} instead of {expected}"


def steps(function: types.FunctionType, arguments: tuple[Any, ...], code: Analysed) -> list[int]:
    """The steps of a call at which to stop: the first two executions of each instruction."""
    offsets: list[int] = []
    stop_at(function, arguments, 0, lambda frame: offsets.append(frame.f_lasti))
    assert len(offsets) > 3
    return [step for step, offset in enumerate(offsets, 1) if offsets[: step - 1].count(offset) < 2]


def stop_at(
    function: types.FunctionType, arguments: tuple[Any, ...], step: int, stop: Callable[[types.FrameType], None]
) -> None:
    """Call ``stop`` before the step-th instruction that a call of the function runs (0: before each).

    The call then continues with the iterators and lists as ``stop`` left them: an
    exception would leave handlers unfinished. The result of the call is ignored.
    """
    began = next(each.offset for each in disassemble(function.__code__) if each.opcode == "RESUME")
    steps = 0

    def trace(frame: types.FrameType, event: str, argument: object) -> Any:
        nonlocal steps
        if frame.f_code is not function.__code__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and frame.f_lasti > began:
            steps += 1
            if step in (0, steps):
                stop(frame)
        return trace

    sys._getframe().f_trace_opcodes = True  # 3.12 reads this flag of the calling frame when tracing begins
    sys.settrace(trace)
    try:
        function(*arguments)
    except Exception:  # noqa: BLE001, S110
        pass
    finally:
        sys.settrace(None)


def in_scope(function: types.FunctionType, scope: dict[str, Any]) -> types.FunctionType:
    copy = types.FunctionType(function.__code__, scope, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


# -- the functions ---------------------------------------------------------------------------------------

log: list[Any] = []


class Manager:
    """A context manager that can be entered several times."""

    def __init__(self, swallow: bool = False, name: str = "") -> None:
        self.swallow = swallow
        self.name = name

    def __enter__(self) -> str:
        LOG().append("enter" + self.name)
        return "entered"

    def __exit__(self, *error: object) -> bool:
        LOG().append(f"exit{self.name} {error[0]}")
        return self.swallow


CURRENT: list[list[Any]] = [[]]


def LOG() -> list[Any]:  # noqa: N802
    return CURRENT[0]


def straight(x: int, y: int) -> object:
    z = x * y
    log.append(z)
    w = [z, *range(z), max(x, y, key=abs)]
    return {"w": w, "x": x - y, **dict(a=1)}, f"{x!r:>4}|{y}"


def loops(items: list[int]) -> int:
    total = 0
    for i in items:
        for j in range(i):
            if j == 3:
                break
            if j % 2:
                continue
            total += j * i
        else:
            log.append(i)
        while total > 50:
            total -= 7
    return total


def keywords(a: int, /, b: int = 2, *rest: int, c: int, **more: int) -> object:
    d = sorted(more.items(), key=lambda pair: -pair[1])
    return a, b, rest, c, d, dict(more, e=c), max(rest, default=None)


def unpacking(items: list[int]) -> object:
    a, b, *c = items
    (d, e), f = (a, b), c
    d += (e := a * 2)
    items[0], items[-1] = items[-1], items[0]
    items[1:2] = [d]
    return a if d > e else b, e, f, items[::2], -a, not b, a < b < e, a and b or c


def handling(x: int) -> object:
    result = []
    for i in range(x):
        try:
            if i == 1:
                raise KeyError(i)
            result.append(10 // i)
        except ZeroDivisionError as error:
            result.append(str(error))
        except KeyError:
            try:
                raise ValueError("inner")
            except ValueError as error:
                result.append(repr(error.__context__))
        else:
            result.append("fine")
        finally:
            log.append(("finally", i))
    return result


def raising(x: int) -> object:
    try:
        try:
            raise KeyError(x)
        except KeyError:
            log.append("handled")
            raise
        finally:
            log.append("finally")
    except LookupError as error:
        raise RuntimeError("last") from error


def returning_from_finally(x: int) -> int:
    for i in range(x):
        try:
            if i == 2:
                return i
        finally:
            log.append(i)
    return -1


def contexts(swallow: bool) -> object:
    a = 1
    with Manager(swallow) as m:
        a += len(m)
        with Manager(name=" outer") as n, Manager():
            a += len(n)
        log.append(a)
        if a:
            raise ValueError(a)
    log.append("after")
    return a


def contexts_in_loops(n: int) -> int:
    a = 0
    for i in range(n):
        with Manager():
            if i == 1:
                continue
            try:
                with Manager(True):
                    a += 10 // (i - 2)
            finally:
                a += 1
        a += i
    return a


def closures(x: int) -> object:
    count = 0

    def step(by: int = x) -> int:
        nonlocal count
        count += by
        return count + x

    first = step()
    count = count * 2
    x += 1
    return first, step(5), count, x, (lambda: count)()


def comprehensions(n: int) -> object:
    a = [i * n for i in range(n)]
    b = {i: [j for j in range(i) if j] for i in a}
    c = {n + i for i in range(3)}
    return a, b, c, sum(i for i in a), [f() for f in [lambda k=k: k + n for k in range(3)]]


def shadowing(x: int, items: list[int]) -> object:
    g = lambda: x  # noqa: E731
    a = [x for x in items]
    x += 1
    b = [x + y for x in items for y in a]
    return a, b, g(), x


def shadowing_cells(items: list[int]) -> object:
    x = 5
    g = lambda: x  # noqa: E731
    a = [(lambda: x)() for x in items]
    x = 6
    return a, g(), x, [f() for f in [lambda: y for y in items]]


def deleting(x: int) -> object:
    y = x
    del x
    try:
        return x  # noqa: F821
    except UnboundLocalError:
        z = "unbound"
    if y > 100:
        unbound = 1
    try:
        return unbound
    except UnboundLocalError as error:
        return z, str(error)


def matching(value: object) -> object:
    match value:
        case {"a": [1, *rest], **more}:
            return rest, more
        case [x, y] if x == y:
            return x
        case _:
            return "other"


def groups(x: int) -> object:
    seen = []
    try:
        raise ExceptionGroup("g", [ValueError(x), KeyError(x), TypeError(x)])
    except* ValueError as error:
        seen.append(len(error.exceptions))
    except* (KeyError, TypeError) as error:
        seen.append(len(error.exceptions))
    return seen


def importing(x: int) -> object:
    import math as m
    from os.path import join

    assert x, "never"
    return m.floor(x + 0.5), join("a", "b")


def introspecting(x: int, y: int) -> object:
    z = 1
    x = 3
    return sorted(name for name in locals() if not name.startswith(("___", "."))), eval("x + y"), z


class Base:
    def value(self, x: int) -> int:
        return x + 1


class Derived(Base):
    def value(self, x: int) -> int:
        y = super().value(x)
        log.append(y)
        return super().value(y) + super(Derived, self).value(0)

    def captured(self, x: int) -> object:
        twice = lambda: self.value(x)  # noqa: E731
        s = super()
        return s.value(x), super().value(3), twice()


def free_variables() -> types.FunctionType:
    outer = 10

    def inner(x: int) -> object:
        nonlocal outer
        outer += x
        y = [outer for _ in range(2)]
        return y, outer, [outer for outer in range(3)] if x < 0 else None

    return inner


def free_and_local() -> types.FunctionType:
    x = 10

    def inner(items: list[int]) -> object:
        a = x
        b = [x for x in items]
        return a, b, x, (lambda: x)()

    return inner


CASES: list[tuple[types.FunctionType, Callable[[], tuple[Any, ...]]]] = [
    (straight, lambda: (3, 4)),
    (loops, lambda: ([1, 2, 5, 0, 7],)),
    (unpacking, lambda: ([4, 3, 2, 1],)),
    (handling, lambda: (3,)),
    (raising, lambda: (1,)),
    (returning_from_finally, lambda: (4,)),
    (returning_from_finally, lambda: (2,)),
    (contexts, lambda: (False,)),
    (contexts, lambda: (True,)),
    (contexts_in_loops, lambda: (4,)),
    (closures, lambda: (3,)),
    (comprehensions, lambda: (3,)),
    (shadowing, lambda: (7, [1, 2])),
    (shadowing_cells, lambda: ([1, 2],)),
    (deleting, lambda: (3,)),
    (matching, lambda: ({"a": [1, 2, 3], "b": 4},)),
    (matching, lambda: ([2, 2],)),
    (matching, lambda: ("text",)),
    (groups, lambda: (3,)),
    (importing, lambda: (3,)),
    (introspecting, lambda: (1, 2)),
    (Derived.value, lambda: (Derived(), 5)),
    (Derived.captured, lambda: (Derived(), 5)),
    (free_variables(), lambda: (1,)),
    (free_and_local(), lambda: ([1, 2],)),
]  # type: ignore[list-item]


RE_ENTERED = [case for case in CASES if case[0] in (contexts, contexts_in_loops)]


@pytest.mark.parametrize(
    ("function", "arguments", "enter"),
    [*((*case, False) for case in CASES), *((*case, True) for case in RE_ENTERED)],
    ids=lambda each: getattr(each, "__name__", str(each)),
)
def test_every_boundary(function: types.FunctionType, arguments: Callable[[], tuple[Any, ...]], enter: bool) -> None:
    """A resume function before any instruction gives the original's result."""
    cell_values = [cell.cell_contents for cell in function.__closure__ or ()]

    def fresh() -> tuple[Any, ...]:
        for cell, value in zip(function.__closure__ or (), cell_values, strict=True):
            cell.cell_contents = value
        return arguments()

    assert list(boundaries(function, fresh, enter)) == []


# -- single facts ----------------------------------------------------------------------------------------


def place(function: Callable[..., object], opcode: str, occurrence: int = 0) -> int:
    """The offset of an instruction, by its opcode."""
    return [each.offset for each in disassemble(function.__code__) if each.opcode == opcode][occurrence]


def two_lines(x: int, y: int) -> int:
    z = x * y
    return z + x


def go_on_in_two_lines() -> types.CodeType:
    return resume_function_code(ResumeTarget(two_lines.__code__, place(two_lines, "STORE_FAST"), (Slot.VALUE,), ("x",)))


def test_names_and_lines_are_those_of_the_user() -> None:
    """A resume function has the name of the user's function and line, and its traceback shows the user's lines."""
    line = two_lines.__code__.co_firstlineno + 1
    code = go_on_in_two_lines()
    assert code.co_name == f"torch_dynamo_resume_in_two_lines_at_{line}"
    assert code.co_filename == two_lines.__code__.co_filename
    function = types.FunctionType(code, {})
    assert function(12, 3) == 15
    with pytest.raises(TypeError) as raised:
        function(12, "text")
    assert raised.tb.tb_next is not None
    assert raised.tb.tb_next.tb_lineno == line + 1


def test_the_line_of_the_break_can_be_given() -> None:
    """Both resume functions of a branch are named after the line that broke."""
    code = resume_function_code(
        ResumeTarget(two_lines.__code__, place(two_lines, "STORE_FAST"), (Slot.VALUE,), ("x",), line=7)
    )
    assert code.co_name == "torch_dynamo_resume_in_two_lines_at_7"


def test_one_place_has_one_code_object() -> None:
    """A second request returns the same code object; another layout gives another one."""
    code = go_on_in_two_lines()
    assert go_on_in_two_lines() is code
    other = resume_function_code(
        ResumeTarget(two_lines.__code__, place(two_lines, "STORE_FAST"), (Slot.VALUE,), ("x", "y"))
    )
    assert other is not code


def test_equal_functions_of_two_files_do_not_share() -> None:
    """Code objects of two files compare equal, but each has its own resume function."""
    twin = two_lines.__code__.replace(co_filename="elsewhere.py")
    first = go_on_in_two_lines()
    second = resume_function_code(ResumeTarget(twin, place(two_lines, "STORE_FAST"), (Slot.VALUE,), ("x",)))
    assert (first.co_filename, second.co_filename) == (two_lines.__code__.co_filename, "elsewhere.py")


def test_info() -> None:
    """A resume function has information about its origin; other code has none."""
    info = resume_info(go_on_in_two_lines())
    assert info is not None
    assert info.original() is two_lines.__code__
    assert info.arguments == ("___stack0", "x")
    assert info.offset == place(two_lines, "STORE_FAST")
    assert info.parent is None
    assert resume_info(two_lines.__code__) is None


def three_steps(x: int) -> object:
    a = x + 1
    b = a * 2
    return a, b, (lambda: b)()


def test_resuming_a_resume_function_goes_back_to_the_original() -> None:
    """A resume function of a resume function is created from the user's code."""
    code = three_steps.__code__
    first = resume_function_code(ResumeTarget(code, place(three_steps, "STORE_FAST"), (Slot.VALUE,), (), ("b",)))
    assert first.co_freevars == ("b",)
    offset = next(each.offset for each in disassemble(first) if each.opcode == "STORE_DEREF")
    # In the first resume function, b is a free variable: its frame has no cell variable with that name.
    second = resume_function_code(ResumeTarget(first, offset, (Slot.VALUE,), ("a",)))
    direct = resume_function_code(ResumeTarget(code, place(three_steps, "STORE_DEREF"), (Slot.VALUE,), ("a",), ("b",)))
    assert second is direct
    assert second.co_name == f"torch_dynamo_resume_in_three_steps_at_{code.co_firstlineno + 2}"
    info = resume_info(second)
    assert info is not None
    assert info.original() is code
    assert info.parent is not None
    assert info.parent() is first
    assert types.FunctionType(second, {}, None, None, (types.CellType(),))(6, 3) == (3, 6, 6)


def test_a_break_inside_the_prologue() -> None:
    """A break during the entry into a context manager resumes the resume function itself, under the same name."""

    def f(x: int) -> int:
        with Manager():
            x += 1
        return x

    first = resume_function_code(ResumeTarget(f.__code__, place(f, "LOAD_FAST"), (Slot.EXIT,), ("x",)))
    offset = next(each.offset for each in disassemble(first) if each.opcode == "BEFORE_WITH")
    second = resume_function_code(ResumeTarget(first, offset, (Slot.VALUE,), ("x",)))
    assert second.co_name == first.co_name
    assert types.FunctionType(second, f.__globals__)(Manager(), 3) == 4


def test_a_context_manager_that_fails_to_be_entered_again_raises_in_its_place() -> None:
    """The handlers around the ``with`` statement and the outer managers receive the exception."""
    left = []

    class Outer(Manager):
        def __exit__(self, *error: object) -> bool:
            left.append(error[0])
            return False

    class Failing(Manager):
        def __enter__(self) -> str:
            raise KeyError("again")

    def f(x: int) -> object:
        try:
            with Manager(), Manager():
                x += 1
        except KeyError:
            return "handled"
        return x

    loads = [each for each in disassemble(f.__code__) if each.opcode == "LOAD_FAST"]
    code = resume_function_code(ResumeTarget(f.__code__, loads[0].offset, (Slot.EXIT, Slot.EXIT), ("x",)))
    assert types.FunctionType(code, f.__globals__)(Outer(), Failing(), 1) == "handled"
    assert left == [KeyError]


def test_arguments_leave_nothing_behind() -> None:
    """The arguments for the stack are not locals after the prologue, so they can be freed."""

    def f(x: object) -> object:
        y = x
        return sorted(locals()), y

    code = resume_function_code(ResumeTarget(f.__code__, place(f, "STORE_FAST"), (Slot.VALUE,), ("x",)))
    assert types.FunctionType(code, f.__globals__)(1, 2) == (["x", "y"], 1)


def test_code_that_cannot_run_again_is_dropped() -> None:
    """Unreachable code is not in the resume function; code that a loop reaches again is."""

    def f(n: int) -> int:
        print("before")
        total = 0
        for i in range(n):
            total += i
        return total

    stores = [each for each in disassemble(f.__code__) if "STORE_FAST" in each.opcode]
    code = resume_function_code(ResumeTarget(f.__code__, stores[0].offset, (Slot.VALUE,), ("n",)))
    assert "print" not in {each.argval for each in disassemble(code)}
    assert types.FunctionType(code, {"range": range})(100, 3) == 103


def suspended() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("code", "reason"),
    [(suspended.__code__, "generator"), (compile("x = 1", "", "exec"), "class or module")],
)
def test_what_cannot_be_resumed(code: types.CodeType, reason: str) -> None:
    """Generators and module bodies cannot be resumed, and the error has the reason."""
    offset = disassemble(code)[-1].offset
    with pytest.raises(CannotResume, match=reason):
        resume_function_code(ResumeTarget(code, offset, (Slot.VALUE,), ()))


def test_a_wrong_stack_is_rejected() -> None:
    """A layout whose depth differs from that of the code raises an error."""
    with pytest.raises(CannotResume, match="depth 1, not 2"):
        resume_function_code(
            ResumeTarget(two_lines.__code__, place(two_lines, "STORE_FAST"), (Slot.VALUE, Slot.NULL), ())
        )
    with pytest.raises(CannotResume, match="no instruction"):
        resume_function_code(ResumeTarget(two_lines.__code__, 99_999, (), ()))


def test_nothing_outlives_the_function() -> None:
    """The cache of resume functions keeps neither them nor the user's code alive."""
    scope: dict[str, Any] = {}
    exec("def f(x):\n    y = x + 1\n    return y", scope)
    function = scope.pop("f")
    code = resume_function_code(ResumeTarget(function.__code__, place(function, "STORE_FAST"), (Slot.VALUE,), ()))
    assert types.FunctionType(code, {})(5) == 5
    gone = [weakref.ref(code), weakref.ref(function.__code__)]
    del code, function
    gc.collect()
    assert [each() for each in gone] == [None, None]
