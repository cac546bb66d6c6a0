"""Attributes of objects whose class defines ``__getattribute__`` in Python, which is traced.

In torch: GenericAttrSource in torch/_dynamo/source.py.
"""

import functools
import operator

import pytest
import torch

import nbcompile
from tests.support.answers import check
from tests.support.graphs import Graphs


class OneMore:
    """A class that adds one to two of its attributes."""

    def __init__(self, k):
        self.k = k
        self.weight = torch.ones(3)

    def __getattribute__(self, name):
        found = super().__getattribute__(name)
        return found + 1 if name in ("k", "weight") else found


class InSlots(OneMore):
    __slots__ = ("k", "weight")


class Renamed:
    """A class that finds an attribute under another name, as the configurations of Hugging Face do."""

    names = {"width": "hidden_size"}  # noqa: RUF012 - shared by all

    def __init__(self, hidden_size):
        self.hidden_size = hidden_size

    def __getattribute__(self, name):
        names = super().__getattribute__("names")
        return super().__getattribute__(names.get(name, name))


def number(x, held):
    return x * held.k


def tensor(x, held):
    return x * held.weight


def renamed(x, held):
    return x * held.width + getattr(held, "nothing", 2)


def stored(x, held):
    held.made = x + 1
    return held.made * 2


def compiled(function):
    graphs = Graphs()

    return nbcompile.compile(function, backend=graphs, fullgraph=True), graphs


@pytest.mark.parametrize("cls", [OneMore, InSlots])
@pytest.mark.parametrize("function", [number, tensor])
def test_what_it_makes_of_a_value_is_made_once(cls, function):
    """The guard and the graph's input use the stored value, not the result of ``__getattribute__``."""
    call, graphs = compiled(function)
    held = cls(3)
    for _ in range(4):
        assert torch.equal(call(torch.ones(3), held), function(torch.ones(3), held))
    assert len(graphs) == 1


def test_another_value_is_noticed():
    """The value in the object's ``__dict__`` is guarded."""
    call, graphs = compiled(number)
    held = OneMore(3)
    for value in (3, 7, 3, 7):
        vars_of(held)["k"] = value
        for _ in range(3):
            assert torch.equal(call(torch.ones(3), held), number(torch.ones(3), held))
    assert len(graphs) == 2


def vars_of(held):
    return object.__getattribute__(held, "__dict__")


def test_what_is_missing_is_noticed_once_it_is_there():
    """An attribute that appears later is found, in the object and in its class."""

    class Mine(Renamed):
        pass

    call, graphs = compiled(renamed)
    held, x = Mine(8), torch.ones(3)
    for _ in range(4):
        assert torch.equal(call(x, held), renamed(x, held))
    assert len(graphs) == 1
    held.nothing = 5
    assert torch.equal(call(x, held), renamed(x, held))
    del held.nothing
    assert torch.equal(call(x, held), renamed(x, held))
    Mine.nothing = 7
    assert torch.equal(call(x, held), renamed(x, held))


def test_what_is_stored_is_read_back():
    """A value that the program itself stores is read again."""
    call, _ = compiled(stored)
    held = Renamed(8)
    for _ in range(3):
        assert torch.equal(call(torch.ones(3), held), torch.ones(3) * 4)
        assert torch.equal(held.made, torch.ones(3) * 2)


class Holder:
    """A class with a table, and with ``__getattribute__`` in Python."""

    def __init__(self, size):
        self.table = torch.ones(size)

    def __getattribute__(self, name):
        return super().__getattribute__(name)


def test_sizes_are_remembered_from_process_to_process(tmp_path, monkeypatch):
    """A size that is dynamic in one process is dynamic in the next process of the job."""

    def f(x, held):
        return x.sum() + held.table * 2

    monkeypatch.setenv("TORCH_COMPILE_JOB_ID", "own attributes")
    monkeypatch.setenv("NBCOMPILE_CACHE_DIR", str(tmp_path))
    x, seen = torch.ones(3), []
    for sizes in ((5, 6, 7), (8, 9)):
        nbcompile.reset()
        call, graphs = compiled(f)
        for size in sizes:
            held = Holder(size)
            assert torch.equal(call(x, held), f(x, held))
        seen.append(len(graphs))
    assert seen == [2, 1]


class Described(torch.Tensor):
    """A tensor subclass with a descriptor in Python and one in C."""

    @functools.cached_property
    def rank(self):
        return self.ndim + 1

    length = operator.attrgetter("ndim")


@pytest.mark.usefixtures("nothing_compiled")
def test_descriptors_of_a_subclass():
    """The attribute is the result of the descriptor, not the descriptor itself."""

    def program(x):
        return x + 1, x.rank, x.rank, type(x.length).__name__

    x = torch.ones(2).as_subclass(Described)
    assert nbcompile.compile(program, backend="eager")(x)[1:] == program(torch.ones(2).as_subclass(Described))[1:]
    assert vars(x)["rank"] == 2


class TwoAttributes:
    """An object with two attributes in a fixed order."""

    def __init__(self):
        self.a = 1
        self.b = 2


def _stored_again(o, x):
    del o.a
    o.c = 4
    o.a = x + 1
    return list(o.__dict__), list(vars(o).values())[1]


def test_an_attribute_that_is_deleted_and_stored_again_comes_last():
    """``__dict__`` of an old and of a new object has this order, while tracing and afterwards."""
    check(
        "o = O()\ndel o.a\no.a = 3\nreturn list(o.__dict__.items())",
        "o = O()\ndel o.a\no.c = 1\ndel o.c\no.a = 3\no.c = 5\nreturn list(vars(o))",
        "o = O()\nd = o.__dict__\nd['a'] = d.pop('a')\nreturn list(d)",
        O=TwoAttributes,
    )
    theirs, mine = TwoAttributes(), TwoAttributes()
    compiled = nbcompile.compile(_stored_again, backend="eager", fullgraph=True)
    for _ in range(2):
        assert str(compiled(mine, torch.ones(2))) == str(_stored_again(theirs, torch.ones(2)))
        assert list(mine.__dict__) == list(theirs.__dict__)


def test_a_parameter_that_is_registered_again_comes_last():
    """``del m.weight; m.weight = w`` moves the parameter to the end."""

    def function(m, x):
        weight = m.weight
        del m.weight
        m.weight = weight
        return x + 1, [name for name, _ in m.named_parameters()]

    mine = torch.nn.Linear(2, 2)
    _, names = nbcompile.compile(function, backend="eager", fullgraph=True)(mine, torch.ones(2))
    assert names == ["bias", "weight"] == list(mine._parameters)
