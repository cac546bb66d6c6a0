"""Code objects whose constants are arbitrary objects."""

from __future__ import annotations

import ast
from types import FunctionType

from nbcompile.rewriting.code_object import compile_function


def statements(text):
    return ast.parse(text).body


def outer():
    """A function with a free variable."""
    held = [1]

    def f(x):
        return held, x

    return f


def test_constants_are_the_objects_themselves():
    """The constants are not copies, also inside a tuple, which Python folds."""
    first, second = object(), [2]
    code, shown = compile_function(
        outer().__code__, statements("return (__a, (__b, __a)), x"), {"__a": first, "__b": second}
    )
    found, x = FunctionType(code, {}, None, None, outer().__closure__)(5)
    assert found[0] is first and found[1][0] is second and found[1][1] is first and x == 5
    assert "__a" in shown and "def f(x):" in shown


def test_signature_free_variables_and_place_are_those_of_the_replaced_code():
    """The new code has these properties of the replaced code, because C does not compare them."""
    replaced = outer().__code__
    code, _ = compile_function(replaced, statements("return x"), {})
    for name in ("co_argcount", "co_freevars", "co_name", "co_qualname", "co_firstlineno", "co_filename"):
        assert getattr(code, name) == getattr(replaced, name), name
    assert FunctionType(code, {}, None, None, outer().__closure__)(7) == 7


def test_a_function_that_calls_itself_means_the_global():
    """The function's own name is a global, not the function that is being compiled."""

    def f(x):
        return x

    code, _ = compile_function(f.__code__, statements("return f(x)"), {})
    assert FunctionType(code, {"f": lambda x: x + 1})(1) == 2


def test_there_is_a_local_for_each_cell_of_the_replaced_frame():
    """C stores the frame's cells after the arguments, whether the new code has variables there or not."""

    def f(x):
        a, b = x, x
        return (lambda: (a, b)), x

    code, _ = compile_function(f.__code__, statements("return x"), {})
    assert len(code.co_varnames) - code.co_argcount >= len(f.__code__.co_cellvars) == 2
    assert FunctionType(code, {})(3) == 3
