"""Which functions are results of ``compile`` and ``disable``, and which only have a copy of their attributes."""

from __future__ import annotations

import functools

import pytest
import torch

import nbcompile
from nbcompile.support import wrappers

COMPILERS = {
    "nbcompile": (lambda f: nbcompile.compile(f, backend="eager"), nbcompile.disable),
    "torch": (lambda f: torch.compile(f, backend="eager"), torch.compiler.disable),
}


def double(x):
    """Twice x."""
    return x * 2


@pytest.mark.parametrize("name", COMPILERS)
def test_a_wrapper_is_known_with_the_function_inside(name):
    """``compile`` and ``disable``, of nbcompile and of torch, wrap a function that is found again."""
    compile_function, disable = COMPILERS[name]
    compiled, disabled = compile_function(double), disable(double)
    assert wrappers.innermost(compiled) is wrappers.innermost(disabled) is wrappers.innermost(double) is double
    assert wrappers.is_compiled(compiled) and not wrappers.is_disabled(compiled)
    assert wrappers.is_disabled(disabled) and not wrappers.is_compiled(disabled)
    assert not wrappers.is_compiled(double) and wrappers.original(double) is None
    assert wrappers.is_compiled_here(compiled) == (name == "nbcompile")


@pytest.mark.parametrize("name", COMPILERS)
def test_a_function_with_a_copy_of_the_attributes_is_no_wrapper(name):
    """``functools.wraps`` copies all attributes: the function around the wrapper is another function."""
    compiled = COMPILERS[name][0](double)

    @functools.wraps(compiled)
    def again(x):
        return compiled(compiled(x))

    assert wrappers.original(again) is None and not wrappers.is_compiled(again)
    assert wrappers.innermost(again) is again


def test_a_method_of_a_compiled_function_is_compiled_and_stays_bound():
    """A method bound to an object has no function inside: its object would be lost."""

    class Scale:
        @nbcompile.compile
        def apply(self, x):
            return x * 2

    method = Scale().apply
    assert wrappers.is_compiled(method) and wrappers.is_compiled_here(method)
    assert wrappers.innermost(method) == method


@pytest.mark.parametrize(
    "value", [3, None, torch.nn.ReLU, len, [].append, torch.nn.Linear(2, 2)], ids=lambda v: type(v)
)
def test_other_values_are_no_wrappers(value):
    """Numbers, classes, functions in C and modules are not wrapped."""
    assert wrappers.original(value) is None and not wrappers.is_compiled(value) and not wrappers.is_disabled(value)
