"""Special methods of tensors, called by name, give eager mode's results."""

from __future__ import annotations

import linecache

import pytest
import torch

import nbcompile

MAKERS = {
    "a": lambda: torch.arange(12.0).reshape(3, 4),
    "i": lambda: torch.arange(6),
    "s": lambda: torch.tensor(3.0),
    "b": lambda: torch.tensor([True, False, True]),
    "e": lambda: torch.zeros(0),
    "o": lambda: torch.tensor([5]),
}
CAPTURED = """
a.__getitem__(a > 5).sum()    a.__getitem__(None)    a.__getitem__((None, 1))    a.__getitem__((slice(None), 1))    a.__getitem__(...)
a.__getitem__([0, 2])    a.__getitem__(i[:2])    a.__getitem__(True)    a.__getitem__((..., 0))
a.__setitem__(a > 5, 1.5)    a.__setitem__((slice(None), 1), b.float())    a.__setitem__(b, 0)    a.__setitem__(..., 2)
a.__setitem__(None, 3)    a.__setitem__((b, slice(0, 2)), 7.0)    a.__setitem__([0, 1], s)    a.__setitem__((0, 0), True)
a.__iadd__(1)    a.__iadd__(1) is a    i.__iand__(3)    b.__ior__(b)    i.__ixor__(i)    i.__ilshift__(1)    a.__ipow__(2)
a.__radd__(1)    a.__rsub__(1)    a.__rpow__(2)    a.__matmul__(a.t())    a.__rmatmul__(a.t())    a.__floordiv__(2)    a.__mod__(3)
i.__and__(3)    i.__rand__(3)    i.__rxor__(3)    i.__rlshift__(1)    b.__invert__()    a.__neg__()    a.__abs__()    b.__and__(True)
a.__eq__(1)    a.__eq__(None)    a.__ne__(None)    a.__eq__("x")    a.__add__("x")
a.__len__()    e.__len__()    [z.sum() for z in a.__iter__()]    i.__reversed__()    a.__hash__() == hash(a)
s.__bool__()    o.__bool__()    s.__int__()    o.__float__()    o.__int__()    s.__float__()    o.__index__()
bool(s)    int(s)    float(o)    int(b[0])    b[0].__int__()    float(b[1])    i[1].__bool__()
torch.Tensor.__getitem__(a, a > 5).sum()    torch.Tensor.__setitem__(a, a > 5, 0)    torch.Tensor.__bool__(s)    a.__class__
a.__getattribute__("shape")
"""
BREAKING = """
s.__index__()    s.__complex__()    complex(s)    a.__bool__()    e.__bool__()    a.__float__()    a.__setitem__(1)    a.__setitem__(9, 2)    a.__getitem__()    a.__getitem__(9)
o.__contains__(5)    a.__contains__(30.0)    a.__contains__(float("nan"))    a.__repr__()    a.__str__() == str(a)
a.__format__("") == format(a, "")    s.__format__(".2f")    a.__getstate__()    a.__delattr__("zz")    s.__len__()    s.__iter__()
a.__sizeof__() > 0    a.__reduce_ex__(2)[0] is not None    a.__setattr__("q", 3) or a.q
"""
PROGRAMS = {kind: [text for line in lines.splitlines() for text in line.split("    ") if text] for kind, lines in
            (("captured", CAPTURED), ("breaking", BREAKING))}  # fmt: skip


def function_of(text):
    """A program of all arguments, which also returns their values afterwards."""
    source = f"def f({', '.join(MAKERS)}):\n    a = a * 1\n    return ({text}), a, i, b\n"
    file = f"<special {text}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    scope = {"torch": torch}
    exec(compile(source, file, "exec"), scope)
    return scope["f"]


def outcome(function):
    try:
        results = function(*(make() for make in MAKERS.values()))
    except Exception as error:
        return type(error).__name__, str(error)
    return str(results)


@pytest.mark.parametrize("text", PROGRAMS["captured"])
def test_special_methods_in_one_graph(text):
    """Masks, None, tuples, lists and numbers as operands give eager mode's results, in one graph."""
    function = function_of(text)
    wanted = outcome(function)
    found = outcome(nbcompile.compile(function, backend="eager", fullgraph="Error" not in wanted[0]))
    assert found == wanted


@pytest.mark.parametrize("text", PROGRAMS["breaking"])
def test_special_methods_that_break_the_graph(text):
    """A method whose result a fake tensor cannot give breaks the graph, and so does an error."""
    function = function_of(text)
    assert outcome(nbcompile.compile(function, backend="eager")) == outcome(function)
