"""Pieces of syntax trees of residual programs."""

from __future__ import annotations

import ast

import pytest

from nbcompile.rewriting import syntax


def f(a, b, /, c, *rest, d, **more):
    """A function with each kind of parameter."""
    local = a
    return local


@pytest.mark.parametrize("function", [f, lambda x: x, lambda *given: given, lambda *, only: only])
def test_parameters_are_those_of_the_code(function):
    """A function with the parameters of a code object can pass on its arguments."""
    code = function.__code__
    call = ast.Call(ast.Name("inner", ast.Load()), *syntax.arguments_of(code))
    passed = ast.FunctionDef("outer", syntax.parameters_of(code), [ast.Return(call)], [])
    names = {"inner": lambda *arguments, **keywords: (arguments, keywords)}
    exec(compile(syntax.located(ast.Module([passed], []), 7), "<test>", "exec"), names)
    outer = names["outer"]
    assert outer.__code__.co_firstlineno == 7
    count = code.co_argcount + code.co_kwonlyargcount
    assert outer.__code__.co_varnames[:count] == tuple(map(syntax.identifier, code.co_varnames[:count]))
    if function is f:
        assert outer(1, 2, 3, 4, d=5, e=6) == ((1, 2, 3, 4), {"d": 5, "e": 6})
        with pytest.raises(TypeError):
            outer(a=1, b=2, c=3, d=4)  # the first two have no name for a caller


def test_identifiers():
    """Python's names for lambdas and unnamed arguments are replaced; others are unchanged."""
    assert syntax.identifier("x") == "x"
    assert syntax.identifier("<lambda>").isidentifier() and syntax.identifier(".0").isidentifier()


def test_nodes_that_have_a_line_keep_it():
    """``located`` adds missing lines, and ``set_line`` replaces all lines."""
    tree = ast.parse("\n\ny = x")
    syntax.located(tree, 12)
    assert tree.body[0].lineno == 3
    syntax.set_line(tree.body, 12)
    assert {node.lineno for node in ast.walk(tree.body[0]) if hasattr(node, "lineno")} == {12}
