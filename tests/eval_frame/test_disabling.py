"""Functions that are never compiled."""

import copy
import functools

import pytest
import torch

import nbcompile
from tests.support.graphs import Graphs


def graphs_of(function, x):
    """The result of a call of a compiled function, and its graphs."""
    found = Graphs()

    return nbcompile.compile(function, backend=found)(x), found


@pytest.mark.parametrize(("recursive", "expected"), [(True, 0), (False, 1)])
def test_what_a_disabled_function_calls(recursive, expected):
    """``recursive=False`` disables only the function: its callees are compiled."""

    def inner(x):
        return x.sin()

    def outer(x):
        return inner(x)

    disabled = nbcompile.disable(outer, recursive=recursive)
    x = torch.ones(2)
    result, found = graphs_of(lambda x: disabled(x), x)
    assert torch.equal(result, x.sin())
    assert len(found) == expected


def test_a_disabled_function_of_a_compiled_one_is_the_original():
    """A compiled function is unwrapped before it is disabled, so it is not compiled."""
    found = Graphs()
    compiled = nbcompile.compile(lambda x: x + 1, backend=found)
    assert torch.equal(nbcompile.disable(compiled)(torch.ones(2)), torch.full((2,), 2.0))
    assert len(found) == 0


@pytest.mark.parametrize("disable", [nbcompile.disable, torch.compiler.disable], ids=["nbcompile", "torch"])
def test_compile_of_a_disabled_function_compiles_the_function_inside(disable):
    """The outermost of ``compile`` and ``disable`` decides, as in torch, for functions, methods and modules."""
    net = torch.nn.Linear(2, 2)
    function, method = (lambda x: x + 1), net.forward
    for callable_ in (function, method):
        result, found = graphs_of(disable(callable_), torch.ones(2))
        assert torch.equal(result, callable_(torch.ones(2)))
        assert len(found) == 1
    result, found = graphs_of(disable(function, recursive=False), torch.ones(2))
    assert torch.equal(result, function(torch.ones(2)))
    assert len(found) == 0  # in torch, too


def test_compile_of_a_disabled_module_compiles_the_module_inside():
    """The compiled module has the keys of a compiled module that was never disabled."""
    found = Graphs()
    compiled = nbcompile.compile(nbcompile.disable(torch.nn.Linear(2, 2)), backend=found)
    assert sorted(compiled.state_dict()) == ["_orig_mod.bias", "_orig_mod.weight"]
    assert compiled(torch.ones(2)).shape == (2,)
    assert len(found) == 1


def test_a_method_that_its_class_disables_stays_disabled():
    """``compile`` of a bound method does not look inside: the object would be lost."""

    class Logger:
        @nbcompile.disable
        def log(self, x):
            return x + 1

    result, found = graphs_of(Logger().log, torch.ones(2))
    assert torch.equal(result, torch.full((2,), 2.0))
    assert len(found) == 0


@pytest.mark.parametrize("compile_function", [nbcompile.compile, torch.compile], ids=["nbcompile", "torch"])
def test_a_function_that_wraps_a_compiled_one_is_compiled_itself(compile_function):
    """``functools.wraps`` copies the attributes of the compiled function, not what it does (torch calls the inner)."""
    compiled = compile_function(lambda x: x + 1, backend="eager")

    @functools.wraps(compiled)
    def twice(x):
        return 2 * compiled(x)

    for function in (twice, lambda x: twice(x) + 1):
        result, found = graphs_of(function, torch.ones(2))
        assert torch.equal(result, function(torch.ones(2)))
        assert len(found) == 1
    assert torch.equal(nbcompile.disable(twice)(torch.ones(2)), torch.full((2,), 4.0))


def test_disable_is_a_decorator_and_no_context_manager():
    """``disable`` with arguments returns a decorator; ``with`` and a value that is not callable raise errors."""

    @nbcompile.disable(reason="it logs")
    def log(x):
        """Write x."""
        return x

    assert (log.__name__, log.__doc__, log(3)) == ("log", "Write x.", 3)
    with pytest.raises(RuntimeError, match="disable is a decorator"), nbcompile.disable():
        pass
    with pytest.raises(nbcompile.exc.NotCallable):
        nbcompile.disable(3)


def test_the_reason_is_in_the_break():
    """A graph break at a disabled function has the reason for disabling it."""
    slow = nbcompile.disable(lambda x: x + 1, reason="it opens a file")
    (found,) = nbcompile.explain(lambda x: slow(x) * 2, backend="eager")(torch.ones(2)).record.frames[0].breaks
    assert "it opens a file" in found.explanation + found.title + str(found)


def test_a_disabled_module_is_a_module():
    """``disable(module)`` keeps parameters, modes and places in other modules, and only its calls are not compiled."""
    inner = nbcompile.disable(torch.nn.Linear(2, 2))
    net = torch.nn.Sequential(torch.nn.ReLU(), inner, torch.nn.Sigmoid())
    x = torch.ones(2)
    result, found = graphs_of(lambda x: net[2](net[1](net[0](x))), x)
    assert torch.equal(result, torch.sigmoid(torch.nn.functional.linear(x.relu(), inner.weight, inner.bias)))
    assert len(found) == 2
    assert inner.in_features == 2
    assert len(list(net.parameters())) == 2
    assert sorted(net.state_dict()) == ["1._orig_mod.bias", "1._orig_mod.weight"]
    assert torch.equal(copy.deepcopy(inner)(x), inner(x))
    assert type(inner.dynamo_ctx(torch.nn.ReLU())) is type(inner)


def test_a_compiled_module_that_is_disabled_is_not_compiled():
    """A compiled module is unwrapped before it is disabled."""
    found = Graphs()
    disabled = nbcompile.disable(nbcompile.compile(torch.nn.ReLU(), backend=found))
    assert torch.equal(disabled(-torch.ones(2)), torch.zeros(2))
    assert len(found) == 0


class Pair:
    """A class with a ``__new__`` that takes arguments, and no ``__init__``."""

    def __new__(cls, first, second):
        """Store both."""
        made = super().__new__(cls)
        made.stored = first + second
        return made


class Adding(Pair):
    """The same with a call."""

    def __call__(self, x):
        return x + self.stored


class AddingModule(torch.nn.Module):
    """A module whose calls are its class's."""

    def forward(self, x):
        return x + 1


@pytest.mark.parametrize("cls", [Pair, Adding, AddingModule])
def test_a_disabled_class_is_the_class(cls):
    """``disable(cls)`` returns the class: instances are created as before, and their calls are not compiled."""
    own = type(cls.__name__, (cls,), {})
    assert nbcompile.disable(own, reason="it logs") is own

    def called(x):
        made = own() if cls is AddingModule else own(1, 2)
        y = made(x * 2) if cls is not Pair else x * 2
        return y * 3 if isinstance(made, own) else y

    x = torch.ones(2)
    result, found = graphs_of(called, x)
    assert torch.equal(result, called(x))
    assert len(found) == (1 if cls is Pair else 2)
