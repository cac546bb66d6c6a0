"""Conditions on sizes and numbers as a program for conditions.c.

    2 <= L['x'].size()[0] and L['x'].size()[0] == L['k']

    objects     L['x'], L['k']
    numbers     size 0 of L['x'], the value of L['k']
    program     CONSTANT 2, NUMBER 0, LESS_EQUAL, HOLDS, NUMBER 0, NUMBER 1, EQUAL, HOLDS

The text is Python, and Python is what it means: it is read here as Python reads
it, and whatever conditions.c has no word for stays a Python function.

In torch: torch/_dynamo/guards.py (SHAPE_ENV), where this text is compiled as C++ or run as Python.
Read next: nbcompile/guarding/encodings/ambient.py, which builds the guard
"""

from __future__ import annotations

import ast
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from nbcompile.runtime import extension, launcher, toolchain
from nbcompile.runtime.compiler_processes import BuildError

SOURCE = Path(__file__).with_name("conditions.c")
Check = Callable[[dict[str, object]], bool]
Conditions = Callable[[Sequence[str], dict[str, Any], Check], Check]
"""Compiler of conditions: takes texts over ``L`` and ``G``, the globals, and the same in Python."""

OPERATIONS = (
    "CONSTANT", "NUMBER", "Add", "Sub", "Mult", "FloorDiv", "Mod", "Div", "USub", "Lt", "LtE", "Eq", "NotEq", "Gt",
    "GtE", "And", "Or", "Not", "max", "min", "HOLDS",
)  # fmt: skip
"""Operation codes, in the order of conditions.c; those that are classes of ``ast`` have their names."""
STEPS = ("item", "attribute")
PROPERTIES = ("value", "size", "stride", "storage_offset")
ROOTS = {"L": -1, "G": -2}
MANY = 60


@functools.cache
@extension.first_call_in_its_own_thread
def maker() -> Conditions | None:
    """C function that evaluates conditions; None where the extension cannot be built."""
    compiler = toolchain.find()
    if not isinstance(compiler, toolchain.Compiler):
        return None
    try:
        module = extension.built("nbcompile_conditions", SOURCE, compiler)
    except (BuildError, OSError, ImportError):
        return None
    offset = launcher.tensor_offset()
    if offset is None:
        return None
    module.setup(offset, torch.nn.Parameter)

    def make(texts: Sequence[str], names: dict[str, Any], otherwise: Check) -> Check:
        try:
            program = Program(texts).parts()
        except Unknown:
            # One word that C lacks, and all of the texts are Python's: they are one guard.
            return otherwise
        check: Check = module.conditions(*program, names, otherwise)
        return check

    # The C code reads tensors of this build of torch by an offset: it is tried out before it is relied on.
    return make if self_test(make) else None


class Unknown(Exception):
    """Signal for a condition that conditions.c has no instruction for."""


class Program:
    """Program of the stack machine in conditions.c: guards' conditions in postfix form."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.objects: dict[tuple[int, int, object], int] = {}
        # Each value is read once, however many conditions it is in: the stack machine has a slot for it.
        self.numbers: dict[tuple[int, int, int], int] = {}
        self.constants: dict[tuple[type, object], int] = {}
        #     a + b < c      NUMBER a, NUMBER b, Add, NUMBER c, Lt, HOLDS
        #     stack          a    a b    a+b    a+b c    truth    (empty: on to the next condition)
        self.code: list[tuple[int, int]] = []
        for text in texts:
            self._value(ast.parse(text, mode="eval").body)
            self._emit("HOLDS")

    def parts(self) -> tuple[tuple[Any, ...], ...]:
        """Objects, numbers, constants and code.

        Raises:
            Unknown: there are more than the stack machine in C can hold.
        """
        if max(len(self.objects), len(self.numbers), len(self.constants)) > MANY:
            raise Unknown
        return tuple(self.objects), tuple(self.numbers), tuple(value for _, value in self.constants), tuple(self.code)

    def _emit(self, operation: str, operand: int = 0) -> None:
        if operation not in OPERATIONS:
            raise Unknown
        self.code.append((OPERATIONS.index(operation), operand))

    def _value(self, node: ast.expr, depth: int = 0) -> None:
        if depth > MANY // 2:
            raise Unknown
        match node:
            case ast.Constant(bool() | int() | float() as value) if abs(value) < 1 << 62:
                # By type as well: 1, 1.0 and True are one key of a dict, and not one constant.
                self._emit("CONSTANT", self.constants.setdefault((type(value), value), len(self.constants)))
            case ast.UnaryOp(operator, operand):
                self._value(operand, depth + 1)
                self._emit(type(operator).__name__)
            case ast.BinOp(left, operator, right):
                self._all([left, right], type(operator).__name__, depth)
            case ast.BoolOp(operator, values):
                self._all(values, type(operator).__name__, depth)
            case ast.Call(ast.Name("max" | "min" as name), [_, _, *_] as values, []):
                self._all(values, name, depth)
            case ast.Compare(first, operators, others):
                pairs = zip(itertools.pairwise([first, *others]), operators, strict=True)
                for number, (pair, comparison) in enumerate(pairs):
                    self._all(pair, type(comparison).__name__, depth)
                    if number:
                        # a < b < c is a < b and b < c. b is evaluated twice, which has no side effect here.
                        self._emit("And")
            case _:
                self._emit("NUMBER", self._number(node))

    def _all(self, nodes: Sequence[ast.expr], operation: str, depth: int) -> None:
        # ``a + b + c`` is ``a, b, +, c, +``: an operation follows each operand but the first.
        for number, node in enumerate(nodes):
            self._value(node, depth + 1)
            if number:
                self._emit(operation)

    def _number(self, node: ast.expr) -> int:
        match node:
            case ast.Subscript(
                ast.Call(ast.Attribute(owner, "size" | "stride" as name), [], []), ast.Constant(int(dim))
            ):
                key = self._object(owner), PROPERTIES.index(name), dim
            case ast.Call(ast.Attribute(owner, "storage_offset" as name), [], []):
                key = self._object(owner), PROPERTIES.index(name), 0
            case _:
                key = self._object(node), PROPERTIES.index("value"), 0
        return self.numbers.setdefault(key, len(self.numbers))

    def _object(self, node: ast.expr) -> int:
        step: tuple[int, int, object]
        match node:
            case ast.Name(name) if name in ROOTS:
                return ROOTS[name]
            case ast.Subscript(owner, ast.Constant(key)):
                step = self._object(owner), STEPS.index("item"), key
            case ast.Attribute(owner, name):
                step = self._object(owner), STEPS.index("attribute"), name
            case _:
                raise Unknown
        return self.objects.setdefault(step, len(self.objects))


# -- the self-test -----------------------------------------------------------------------------------------------------

NUMBERS = (0, 1, 2, -1, 7, -7, 1 << 53, (1 << 62) - 1, -(1 << 62), 1 << 70, 0.5, -0.0, float("inf"), float("nan"), True)
EXPRESSIONS = (
    "{a} + {b} < {c}", "{a} * {b} == {c}", "{a} - {b} > {c}", "{a} // {b} >= {c}", "{a} % {b} != {c}",
    "{a} / {b} <= {c}", "{a} <= {b} <= {c}", "-{a} == {b} or not {b} < {c}", "max({a}, {b}) == min({b}, {c})",
    "{a} == 3 and {b}", "({a} and {b}) + ({b} or {c}) > 1",
)  # fmt: skip
ABOUT_TENSORS = (
    "L['x'].size()[1] == 3", "L['x'].stride()[0] == 1", "L['x'].storage_offset() == 3", "L['x'].size()[5] == 1",
    "L['y'].size()[0] == 2", "G['k'] == 7", "L['missing'] == 1", "L['more']['k'].real == 5",
)  # fmt: skip


def self_test(make: Conditions) -> bool:
    """Return whether conditions evaluated in C agree with Python."""
    # Limits of int64, halves, signed zeros, infinities: wherever C's arithmetic and Python's may part.
    numbers = zip(NUMBERS, NUMBERS[3:] + NUMBERS[:3], NUMBERS[7:] + NUMBERS[:7], strict=True)
    triples = [dict(zip("abc", each, strict=True)) for three in numbers for each in itertools.permutations(three)]
    base = torch.ones(5, 3)
    tensors = {"x": base[1:].t()[:, :3], "y": torch.nn.Parameter(torch.ones(2)), "more": {"k": 5}}
    return all(_agree(make, text.format_map(_LOCALS), triples) for text in EXPRESSIONS) and all(
        _agree(make, text, [tensors]) for text in ABOUT_TENSORS
    )


_LOCALS: Mapping[str, str] = {each: f"L['{each}']" for each in "abc"}


def _agree(make: Conditions, text: str, many: Sequence[dict[str, Any]]) -> bool:
    names = {"k": 7}
    function = eval(f"lambda L: {text}", {"G": names, "max": max, "min": min})

    def in_python(values: dict[str, object]) -> bool:
        try:
            return bool(function(values))
        except (ArithmeticError, LookupError):
            return False

    in_c = make([text], names, in_python)
    return all(in_c(values) is in_python(values) for values in many)
