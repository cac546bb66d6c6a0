"""An OrderedDict whose keys were moved before the call: its two orders are preserved.

    d.move_to_end("a"); f(d)    list(d) has it last, list(dict.keys(d)) still first

The order of the insertions is not guarded, so no graph may depend on it: changes are replayed key by key.
"""

from __future__ import annotations

import collections
import copy

import pytest
import torch

import nbcompile
from tests.support.processes import python


class Ordered(collections.OrderedDict):
    def __setitem__(self, key, value):
        super().__setitem__(key, value)


def programs():
    def deletes(x, d):
        del d["b"]
        return x + 1

    def pops_first(x, d):
        return x + d.popitem(last=False)[1]

    def pops_last(x, d):
        return x + d.popitem()[1]

    def pops(x, d):
        return x + d.pop("d"), d.setdefault("n", 3), d

    def stores_again(x, d):
        value = d.pop("b")
        d["b"] = value
        return x, d

    def moves_new_keys(x, d):
        d["e"], d["f"], d["g"] = 1, 2, 3
        d.move_to_end("e")
        d["h"] = 4
        d.move_to_end("f", last=False)
        d.move_to_end("h", last=False)
        return x, d.copy()

    def removes_moved_keys(x, d):
        d.move_to_end("b", last=False)
        d["e"] = d.pop("b")
        d["b"] = d.pop("c")
        del d["e"]
        d["e"] = x
        return x + d.popitem(last=False)[1]

    def clears(x, d):
        d.clear()
        d["q"], d["a"] = 1, 2
        d.move_to_end("q")
        return x

    def swaps(x, d):
        d["a"], d["b"] = d["b"], d.pop("a")
        return x, copy.copy(d), d == collections.OrderedDict(d), list(reversed(d))

    def updates(x, d):
        d.update(z=1, a=5)
        d |= {"m": 2}
        return x + 1

    def after_a_break(x, d):
        d["w"] = d.pop("a")
        print(end="")
        d.move_to_end("c")
        del d["b"]
        return x, d

    def new(x, d):
        e = collections.OrderedDict(a=1, b=2)
        e.move_to_end("a")
        e["c"], e["d"] = 3, 4
        e.move_to_end("c")
        return x, e, d

    def adds_with_tensors(x, d):
        y = x * 2
        d["t"] = d.pop("c") + y
        d["c"] = y
        return y

    return {name: program for name, program in locals().items() if callable(program)}


def shown(value):
    match value:
        case collections.OrderedDict():
            return shown(list(value.items())), shown(list(dict.items(value)))
        case tuple() | list():
            return tuple(map(shown, value))
        case torch.Tensor():
            return value.tolist()
    return value


def results(function, cls):
    found = []
    for call in range(4):
        given = cls((key, number) for number, key in enumerate("abcd"))
        for key in ("a", "b")[:call]:
            given.move_to_end(key)
        if call == 2:
            given.move_to_end("c", last=False)
        found.append((shown(function(torch.ones(1), given)), shown(given)))
    return found


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("cls", [collections.OrderedDict, Ordered])
@pytest.mark.parametrize("name", programs())
def test_both_orders(name, cls):
    """Both orders equal eager mode's, in the argument and in the result."""
    program = programs()[name]
    assert results(nbcompile.compile(program, backend="eager"), cls) == results(program, cls)


IN_ANOTHER_PROCESS = """
import collections, torch, nbcompile
@nbcompile.compile(backend="eager")
def f(x, d):
    d["e"] = d.pop("b")
    return x + 1
for call in range(3):
    d = collections.OrderedDict(a=0, b=1, c=2)
    d.move_to_end("a")
    f(torch.ones(1), d)
    print(*d, *dict.keys(d))
"""


def test_a_store_keeps_the_order(tmp_path):
    """Code loaded by another process preserves the order, too."""
    where = {"NBCOMPILE_CACHE_DIR": tmp_path, "NBCOMPILE_WARM_START": "1"}
    for _ in range(2):
        assert python(IN_ANOTHER_PROCESS, **where).split("\n")[:3] == ["c a e a c e"] * 3
