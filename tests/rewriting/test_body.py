"""Names and constants of a residual program."""

from __future__ import annotations

import ast

from nbcompile.capture.frame import Frame
from nbcompile.rewriting.body import Body


def body_of(**names):
    """The body for a function of ``x`` in a module with some globals."""

    def f(x):
        return x

    return Body(Frame(f.__code__, {"x": 1}, names, {}))


def test_fresh_names_differ_from_the_users_names():
    """A fresh name equals neither a local, nor a global, nor an earlier fresh name."""
    body = body_of(value=3)
    assert body.fresh("x") == "x_1"
    assert body.fresh("value") == "value_1"
    assert body.fresh("value") == "value_2"
    assert body.fresh("graph_out") == "graph_out"


def test_one_object_is_one_constant():
    """The same object under the same name is bound once; another object gets a number."""
    body = body_of()
    first, second = [], []
    names = [body.constant(value, "held").id for value in (first, first, second)]
    assert names == ["__held", "__held", "__held_1"]
    assert body.constants["__held"] is first and body.constants["__held_1"] is second


def test_names_of_constants_are_names_of_python():
    """The name of a constant is an identifier, whatever the object's own name is."""
    body = body_of()
    for name in ("f.<locals>.helper", "<lambda>", "", "__compiled_fn_1", "class"):
        made = body.constant(object(), name)
        assert made.id.isidentifier() and made.id.startswith("__")
        assert isinstance(ast.parse(made.id, mode="eval").body, ast.Name)
