"""Instructions that load, store and delete names, attributes and items."""

from __future__ import annotations

import torch

import nbcompile
from tests.support.answers import check


class Holder:
    pass


def test_names_that_have_no_value():
    """A local variable or a cell without a value raises Python's error, with its name."""
    check(
        "del n\nn = 1", "n = 1\ndel n\nreturn n", "def f(): return n\nn = 1\ndel n\nreturn f()",
        "n = 1\ndef f():\n  nonlocal n\n  del n\nf()\nreturn n", "for i in []: pass\nreturn i",
    )  # fmt: skip


def test_attributes_and_items():
    """Loads, stores and deletions, of existing and of missing attributes and items."""
    check(
        "o = S()\no.a = 1\no.b = 2\ndel o.a\nreturn vars(o)", "o = S()\ndel o.a", "S().a", "d = {1: 2}\ndel d[1]\nreturn d",
        "d = {}\ndel d[1]", "d = {}\nd[1] = d.get(1, 0) + 1\nreturn d", "x = [1, 2, 3]\ndel x[0]\nreturn x", "x = [1]\ndel x[3]",
        S=lambda: Holder,
    )  # fmt: skip


def test_imports():
    """An import gives a module, a submodule or a name; a missing name raises Python's ImportError."""
    check(
        "import math\nreturn math.pi", "import os.path as p\nreturn p.join('a', 'b')", "from math import tau\nreturn tau",
        "from math import no_such_name",
    )  # fmt: skip


def test_a_comprehension_has_names_of_its_own():
    """A variable of a comprehension does not change a variable of the function with the same name."""
    check(
        "i = 5\nx = [i for i in range(3)]\nreturn i, x",
        "i = 5\nreturn {i: i for i in 'ab'}, i",
    )


def test_a_global_is_stored_after_the_graph():
    """The traced code reads the new value, and the module has it after the call."""
    scope = {"n": 1}
    exec("def f(x):\n  global n\n  n = n + 1\n  return x * n\n", scope)
    compiled = nbcompile.compile(scope["f"], backend="eager", fullgraph=True)
    assert [compiled(torch.ones(1)).item(), compiled(torch.ones(1)).item(), scope["n"]] == [2, 3, 3]
