"""The globals of a module: names, attributes of the module, and entries of its dict are the same."""

from __future__ import annotations

import sys
import types

import pytest
import torch

import nbcompile

TEXT = """
import sys
G = 2
def read(): return G
def write(value):
    global G
    G = value
def item_then_name(x, d): globals()["G"] = 1; return x + 1, G
def argument_then_name(x, d): d["G"] = 4; return x + 1, G, read()
def name_then_item(x, d):
    global G
    G = 6
    return x + 1, d["G"], "G" in d, d.get("G"), globals()["G"]
def attribute_then_item(x, d): sys.modules[__name__].G = 8; return x + 1, read(), d["G"], vars(sys.modules[__name__])["G"]
def written_by_a_callee(x, d): write(9); return x + 1, d["G"], G
def updated(x, d): d.update(G=11, NEW=12); return x + 1, G, NEW, len(d), "NEW" in d
def again_and_again(x, d):
    before = G
    d["G"] = before + 1
    first = G
    d["G"] = first + 1
    return x * G, before, first
def deleted(x, d):
    del d["G"]
    return x + 1, "G" in d, d.get("G", "none"), "G" in list(d), hasattr(sys.modules[__name__], "G")
def popped(x, d): return x + 1, d.pop("G"), "G" in d, d.setdefault("G", 5), G
def missing(x, d):
    try:
        return d["MISSING"]
    except KeyError as error:
        return x + 1, repr(error)
def handed_back(x, d): d["G"] = 3; return x + 1, d is globals(), d
def over_a_break(x, d):
    d["G"] = 4
    y = x * G
    print("broken")
    d["G"] = G + 1
    return y + G
"""
FUNCTIONS = [line.partition("(")[0].removeprefix("def ") for line in TEXT.splitlines() if line.startswith("def ")][2:]


def played(name: str, compiler) -> list[object]:
    module = types.ModuleType("namespace_of_a_test")
    sys.modules[module.__name__] = module
    exec(TEXT, vars(module))
    function = compiler(getattr(module, name))
    seen: list[object] = []
    for start in (2, 5, 2):
        module.G = start
        vars(module).pop("NEW", None)
        result, *others = function(torch.ones(2), vars(module))
        facts = [len(each) if isinstance(each, dict) else each for each in others]
        seen.append((result.tolist(), facts, vars(module).get("G"), vars(module).get("NEW")))
    return seen


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_thing_under_three_names(name):
    """A value that is stored in one way is found in the other ways, also after the call."""
    eager = played(name, lambda function: function)
    assert played(name, lambda function: nbcompile.compile(function, backend="eager")) == eager


def _store_again(x):
    global later_1, later_2
    later_1, later_2 = 1, 2
    del later_1
    later_1 = 3
    return x + 1


def test_a_global_that_is_deleted_and_stored_again_comes_last():
    """The global is the last one of the module afterwards."""

    def order():
        return [name for name in globals() if name.startswith("later_")]

    nbcompile.compile(_store_again, backend="eager", fullgraph=True)(torch.ones(2))
    assert order() == ["later_2", "later_1"]
    assert globals()["later_1"] == 3
    del globals()["later_1"], globals()["later_2"]
