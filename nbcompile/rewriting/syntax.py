"""Small pieces of syntax trees that every part of a residual program is written with.

    assign("y", call)          y = call
    identifier("<lambda>")     "_lambda_"
    located(tree, 12)          every node is on line 12

In torch: nothing (torch writes bytecode). Read next: nbcompile/rewriting/body.py
"""

from __future__ import annotations

import ast
import re
from types import CodeType
from typing import TypeVar

Node = TypeVar("Node", bound=ast.AST)


def assign(name: str, value: ast.expr) -> ast.stmt:
    """``name = value``."""
    return ast.Assign([ast.Name(name, ast.Store())], value)


def identifier(name: str) -> str:
    """Identifier for a name: ``<lambda>`` and ``.0`` are not valid in Python's grammar."""
    return name if name.isidentifier() else re.sub(r"\W", "_", name)


def parameters_of(code: CodeType) -> ast.arguments:
    """The parameters of a code object, without defaults (the hook binds nothing)."""
    # In ``co_varnames``: positional parameters, keyword-only ones, ``*args``, ``**kwargs``, then the other locals.
    names = [ast.arg(identifier(name)) for name in code.co_varnames]
    count, named = code.co_argcount, code.co_kwonlyargcount
    rest = count + named
    vararg = kwarg = None
    if code.co_flags & 4:  # CO_VARARGS
        vararg, rest = names[rest], rest + 1
    if code.co_flags & 8:  # CO_VARKEYWORDS
        kwarg = names[rest]
    only = names[count : count + named]
    return ast.arguments(
        posonlyargs=names[: code.co_posonlyargcount],
        args=names[code.co_posonlyargcount : count],
        vararg=vararg,
        kwonlyargs=only,
        kw_defaults=[None] * len(only),  # None: no default
        kwarg=kwarg,
        defaults=[],
    )


def arguments_of(code: CodeType) -> tuple[list[ast.expr], list[ast.keyword]]:
    """Arguments for a call that passes a code object's parameters on."""
    taken = parameters_of(code)
    positional: list[ast.expr] = [ast.Name(each.arg, ast.Load()) for each in (*taken.posonlyargs, *taken.args)]
    if taken.vararg is not None:
        positional.append(ast.Starred(ast.Name(taken.vararg.arg, ast.Load()), ast.Load()))
    named = [ast.keyword(each.arg, ast.Name(each.arg, ast.Load())) for each in taken.kwonlyargs]
    if taken.kwarg is not None:
        named.append(ast.keyword(None, ast.Name(taken.kwarg.arg, ast.Load())))
    return positional, named


def parameters(names: list[str]) -> ast.arguments:
    """Plain parameters without defaults."""
    return ast.arguments(
        posonlyargs=[], args=[ast.arg(name) for name in names], kwonlyargs=[], kw_defaults=[], defaults=[]
    )


def located(tree: Node, line: int) -> Node:
    """Every node that has no line yet is on this one."""
    for node in ast.walk(tree):
        if "lineno" in node._attributes and not hasattr(node, "lineno"):
            node.lineno = node.end_lineno = line  # type: ignore[attr-defined]
            node.col_offset = node.end_col_offset = 0  # type: ignore[attr-defined]
    return tree


def set_line(statements: list[ast.stmt], line: int) -> None:
    """Put statements on a line, wherever they were."""
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, (ast.stmt, ast.expr, ast.keyword, ast.arg)):
                node.lineno = node.end_lineno = line
                node.col_offset = node.end_col_offset = 0
