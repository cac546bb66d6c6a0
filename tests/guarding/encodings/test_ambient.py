"""Ambient guards, which belong to no single value: conditions on sizes are Python with some names of torch."""

from __future__ import annotations

import builtins

import torch

from nbcompile.capture.resolution import Scope
from nbcompile.guarding.encodings.ambient import shape_names
from nbcompile.torch_internals import shape_guard_names
from tests.support.processes import python

SCOPE = Scope((lambda: None).__code__, {}, {}, vars(builtins))


def test_conditions_on_sizes_use_all_names_of_torchs():
    """The names are those that torch gives to the expressions of ShapeEnv, with equal values and functions."""
    from torch.fx.experimental.symbolic_shapes import SYMPY_INTERP

    names = shape_guard_names()
    assert names.keys() == SYMPY_INTERP.keys()
    assert names["math"] is SYMPY_INTERP["math"]
    assert names["torch"] is torch
    for sizes, strides in (([2, 3], [3, 1]), ([2, 3], [1, 2]), ([2, 3], [4, 1])):
        name = "IsNonOverlappingAndDenseIndicator"
        assert names[name](*sizes, *strides) == SYMPY_INTERP[name](*sizes, *strides)
    assert names["cast_symbool_to_symint_guardless"](True) == 1


def test_conditions_on_sizes_may_use_functions_of_math():
    """Expressions over sizes use the functions of ``math`` by bare names, as ShapeEnv prints them."""
    assert eval("floor(2.5) + sqrt(9.0)", shape_names(SCOPE)) == 5


def test_names_for_conditions_import_no_sympy():
    """A process that only loads compiled code does not import sympy."""
    program = (
        "import sys, nbcompile; from nbcompile.torch_internals import shape_guard_names; "
        "shape_guard_names(); print('sympy' in sys.modules)"
    )
    assert python(program).split() == ["False"]
