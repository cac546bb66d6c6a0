"""Conditions of guards as trees that any program can evaluate: in Python here, in a page by views/static/trees.js.

    2 <= L['x'].size()[0]      {"op": "<=", "of": [{"int": "2"}, {"read": "L['x'].size()[0]"}]}

Numbers follow Python in both: ints have no bounds (they travel as text), ``//`` and
``%`` round down, ``1`` and ``1.0`` are equal, nan equals nothing. A value of the call (``L['x'].size()[0]``) is looked
up in an environment by its text. ``same`` is equality that distinguishes types and signs of zero, as guards on
constants do.

In torch: ShapeEnv.produce_guards writes Python and C++ texts. Read next:
nbcompile/record/model.py
"""

from __future__ import annotations

import ast
import json
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Tree = Mapping[str, Any]
Value = int | float | bool | str | None


def _of_numbers(function: Callable[..., Any]) -> Callable[..., Any]:
    """Evaluate arithmetic alone: guards contain no ``"a" % x`` and no ``[] * 3``."""

    def checked(*values: Value) -> Any:
        if not all(isinstance(each, int | float) for each in values):
            raise TypeError(f"expected numbers, got {values!r}")
        return function(*values)

    return checked


def _is_the_same(left: Value, right: Value) -> bool:
    """Evaluate ``is``, which guards use with None, True and False only."""
    # True == 1 in Python; a guard distinguishes them.
    return type(left) is type(right) and left == right


def same_value(left: Value, right: Value) -> bool:
    """Equality that distinguishes types and signs: ``1``, ``True`` and ``1.0`` differ, as do ``0.0`` and ``-0.0``."""
    signs = isinstance(left, float) and isinstance(right, float) and math.copysign(1, left) != math.copysign(1, right)
    return _is_the_same(left, right) and not signs


def _power(base: float, exponent: float) -> Any:
    power = base**exponent
    if isinstance(power, complex):
        raise ArithmeticError("a root of a negative number")  # noqa: TRY004 - Python knows such roots, guards do not
    return power


_ARITHMETIC: Mapping[str, Callable[..., Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod,
    "/": operator.truediv, "**": _power, "neg": operator.neg, "abs": abs, "isnan": math.isnan,
}  # fmt: skip
OPERATORS: Mapping[str, Callable[..., Any]] = {
    **{name: _of_numbers(function) for name, function in _ARITHMETIC.items()},
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "is": _is_the_same, "is not": lambda left, right: not _is_the_same(left, right),
    "same": same_value, "min": min, "max": max, "not": operator.not_,
}  # fmt: skip
"""Operations of a tree; ``and`` and ``or`` short-circuit, and are in :func:`evaluate`."""

DEEPEST = 200
"""Maximal depth of a tree that is loaded: less than Python's recursion limit, for functions that traverse it."""

_BINARY: Mapping[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%", ast.Div: "/", ast.Pow: "**",
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.Is: "is", ast.IsNot: "is not",
}  # fmt: skip
_CALLS = {"min": "min", "max": "max", "Min": "min", "Max": "max", "abs": "abs", "math.isnan": "isnan"}
_DIVISIONS = {"FloorDiv": "//", "Mod": "%", "PythonMod": "%", "CleanDiv": "//"}


def read(name: str) -> Tree:
    """A value of the call."""
    return {"read": name}


def same(name: str, value: Value) -> Tree:
    """Tree for a comparison with a constant, by value and type."""
    return {"op": "same", "of": [read(name), constant(value)]}


def every(trees: Sequence[Tree]) -> Tree:
    """Tree for the conjunction of several trees."""
    return trees[0] if len(trees) == 1 else {"op": "and", "of": list(trees)}


def reads(tree: Tree) -> Iterator[str]:
    """Iterate over the names that a tree reads."""
    if "read" in tree:
        yield tree["read"]
    for child in tree.get("of", ()):
        yield from reads(child)


def parse(condition: str) -> Tree | None:
    """Parse a condition into a tree; None if it contains anything else (``check_tensor(...)``)."""
    try:
        return _tree(ast.parse(condition, mode="eval").body)
    except (SyntaxError, _NoTree):
        return None


class _NoTree(Exception):
    """The condition has no tree."""


def _tree(node: ast.expr) -> Tree:
    match node:
        case ast.Constant(value):
            return constant(value)
        case ast.BoolOp(op, values):
            return _join("and" if isinstance(op, ast.And) else "or", [_tree(each) for each in values])
        case ast.UnaryOp(ast.Not(), operand):
            return {"op": "not", "of": [_tree(operand)]}
        case ast.UnaryOp(ast.USub(), operand):
            return {"op": "neg", "of": [_tree(operand)]}
        case ast.BinOp(left, op, right):
            return {"op": _name(op), "of": [_tree(left), _tree(right)]}
        case ast.Compare(left, ops, rights):
            return _chain(left, ops, rights)
        case ast.Call(function, arguments, []) if (name := ast.unparse(function)) in _CALLS | _DIVISIONS:
            return {"op": (_CALLS | _DIVISIONS)[name], "of": [_tree(each) for each in arguments]}
        case ast.Call(ast.Name("len"), [_], []):
            return {"read": ast.unparse(node)}
        case ast.Subscript() | ast.Attribute() if _is_address(node):
            return {"read": ast.unparse(node)}
    raise _NoTree


def constant(value: object) -> Tree:
    """A number, a text, a truth value or None as a tree."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return {"value": value}
    if isinstance(value, int):
        # As text: JavaScript reads a number of JSON as a double, which holds no more than 53 bits.
        return {"int": str(value)}
    if isinstance(value, float):
        return {"float": repr(value)}
    raise _NoTree


def _join(name: str, of: Sequence[Tree]) -> Tree:
    return {"op": name, "of": list(of)}


def _chain(left: ast.expr, ops: list[ast.cmpop], rights: list[ast.expr]) -> Tree:
    #     a < b < c      operators <, <;  operands a, b, c      ->      a < b and b < c
    parts = [
        {"op": _name(op), "of": [_tree(first), _tree(second)]}
        for first, op, second in zip([left, *rights], ops, rights, strict=False)
    ]
    return parts[0] if len(parts) == 1 else _join("and", parts)


def _name(op: ast.operator | ast.cmpop) -> str:
    if type(op) not in _BINARY:
        raise _NoTree
    return _BINARY[type(op)]


def _is_address(node: ast.expr) -> bool:
    """Return whether an expression only follows attributes, constant items and ``size()`` from ``L`` or ``G``."""
    match node:
        case ast.Name(name):
            return name in ("L", "G")
        case ast.Attribute(value, _) | ast.Subscript(value, ast.Constant()):
            return _is_address(value)
        case ast.Call(ast.Attribute(value, "size" | "stride" | "storage_offset" | "item"), [], []):
            return _is_address(value)
    return False


def load(text: str) -> Tree | None:
    """Load a tree that a record holds as JSON; None if there is none, as in a damaged file."""
    try:
        tree = json.loads(text)
        return tree if _is_tree(tree, DEEPEST) else None
    except (ValueError, RecursionError):  # no JSON, a text that is no number, thousands of brackets
        return None


def _is_tree(tree: object, levels: int) -> bool:
    match tree:
        case {"op": str(name), "of": [_, *_] as operands, **others} if not others and levels:
            known = name in OPERATORS or name in ("and", "or")
            return known and all(_is_tree(operand, levels - 1) for operand in operands)
        case {"read": str(), **others} | {"value": str() | bool() | None, **others}:
            return not others
        case {"int": str(number), **others}:
            return not others and int(number) is not None
        case {"float": str(number), **others}:
            return not others and float(number) is not None
    return False


def evaluate(tree: Tree, environment: Mapping[str, Value]) -> Value:
    """Evaluate a tree with the values of an environment.

    Raises:
        KeyError: the environment lacks a value that the tree reads.
        ArithmeticError: as Python (division by zero, overflow).
    """
    if "int" in tree:
        return int(tree["int"])
    if "float" in tree:
        return float(tree["float"])
    if "read" in tree:
        return environment[tree["read"]]
    if "value" in tree:
        return tree["value"]
    if tree["op"] in ("and", "or"):
        return _first(tree["of"], environment, stop=tree["op"] == "or")
    return OPERATORS[tree["op"]](*(evaluate(each, environment) for each in tree["of"]))


def _first(trees: Sequence[Tree], environment: Mapping[str, Value], stop: bool) -> Value:
    value: Value = None
    for tree in trees:
        value = evaluate(tree, environment)
        # As in Python, ``and`` and ``or`` return one of their operands, and stop at the first that decides.
        if bool(value) is stop:
            return value
    return value
