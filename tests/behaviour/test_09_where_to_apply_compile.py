"""Sections 3, 8 and 9: where to apply compile (GB, FF, WA)."""

import copy
import inspect
import pickle

import pytest
import torch

import nbcompile
from tests.support.watched import Graphs, same, watch

x = torch.ones(2, 3)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)

    def forward(self, x):
        return self.layer(x).relu()


def test_GB_2_and_3_count_and_place():
    """The report of a graph break has its count and its position."""

    def g(x):
        x = x + 1
        torch._dynamo.graph_break()
        return x + 1

    told = nbcompile.explain(g, backend="eager")(x)
    assert told.graph_count == 2
    assert told.graph_break_count == 1
    ((cause, met),) = told.breaks
    assert met == 1
    assert (cause.stack[-1].function, cause.stack[-1].line) == ("g", g.__code__.co_firstlineno + 2)
    assert told.operators == (("operator.add",), ("operator.add",)) or len(told.operators) == 2
    assert told.guards
    assert told.seconds["tracing"] > 0


def test_WA_3_in_place():
    """compile_module_ returns None; class and state_dict keys do not change; `_compiled_call_impl` is set."""
    model, backend = Model(), Graphs()
    keys = list(model.state_dict())
    assert nbcompile.compile_module_(model, backend=backend) is None
    assert type(model) is Model
    assert list(model.state_dict()) == keys
    assert model._compiled_call_impl is not None
    same(model(x), Model.forward(model, x))
    assert len(backend) == 1
    with pytest.raises(TypeError, match="nn.Module"):
        nbcompile.compile_module_(lambda x: x)


def test_WA_4_wrapper():
    """The wrapper is a module with `_orig_mod`, and with the prefix `_orig_mod.` in its state_dict."""
    model = Model()
    compiled = nbcompile.compile(model, backend="eager")
    assert isinstance(compiled, torch.nn.Module)
    assert compiled._orig_mod is model
    assert list(compiled.state_dict()) == ["_orig_mod.layer.weight", "_orig_mod.layer.bias"]
    assert compiled.layer is model.layer
    same(compiled(x), model(x))


def test_WA_4_copies_and_pickles():
    """Copies of the wrapper, and of a model compiled in place, are independent; the model itself can be pickled."""
    model = Model()
    compiled = nbcompile.compile(model, backend="eager")
    compiled(x)
    other = copy.deepcopy(compiled)
    with torch.no_grad():
        other._orig_mod.layer.weight.zero_()
    same(other(x), other._orig_mod(x))
    same(compiled(x), model(x))
    assert not torch.equal(other(x), compiled(x))
    same(pickle.loads(pickle.dumps(model))(x), model(x))
    again = pickle.loads(pickle.dumps(compiled))
    same(again(x), model(x))
    nbcompile.compile_module_(model, backend="eager")
    model(x)
    same(copy.deepcopy(model)(x), model(x))
    same(pickle.loads(pickle.dumps(model))(x), model(x))


def test_WA_5_second_instance():
    """Child modules are traced; a second module with equal shapes causes no recompile."""
    f = watch(lambda model, x: model(x))
    first, second = Model(), Model()
    same(f(first, x), first(x))
    same(f(second, x), second(x))
    assert len(f.graphs) == 1


def test_WA_7_train_step():
    """A whole training step breaks at backward and in the optimizer, and trains the model."""
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        return loss

    f = watch(step)
    before = model.layer.weight.detach().clone()
    losses = [f(x).item() for _ in range(3)]
    assert ("Unsupported Tensor.backward() call", "GB0123") in zip(f.titles, f.gb_ids, strict=True)
    assert not torch.equal(before, model.layer.weight)
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("in_place", [False, True])
def test_WA_8_hooks(in_place):
    """A forward hook of a compiled module is a separate frame; with wrap_top_frame both are one graph."""
    for wrapped, count in ((False, 2), (True, 1)):
        model = Model()
        seen = []
        model.register_forward_hook(lambda module, given, result: seen.append(tuple(result.shape)) or result * 2)
        expected = model(x)
        backend = Graphs()
        nbcompile.reset()
        with nbcompile.config.patch(wrap_top_frame=wrapped):
            compiled = model
            if in_place:
                nbcompile.compile_module_(model, backend=backend)
            else:
                compiled = nbcompile.compile(model, backend=backend)
            same(compiled(x), expected)
        assert len(backend) == count
        assert seen == [(2, 3)] * 2


def test_WA_9_replaced_submodule():
    """A submodule of equal shapes causes no recompile; one of other shapes does, and the reason names the parameter."""
    model = Model()
    f = watch(model)
    f(x)
    model.layer = torch.nn.Linear(3, 3)
    same(f(x), model(x))
    assert len(f.graphs) == 1
    model.layer = torch.nn.Linear(3, 4)
    same(f(x), model(x))
    assert len(f.graphs) == 2
    assert "layer" in f.record.frames[-1].failed_guards[0].reason


def test_WA_10_eval():
    """train() and eval() change the module; without a read of `training` there is no recompile."""
    model = Model()
    f = watch(model)
    f(x)
    f.function.eval()
    assert not model.training and not model.layer.training
    f(x)
    f.function.train()
    assert model.training
    f(x)
    assert len(f.graphs) == 1


def test_WA_4_the_wrapper_is_the_module():
    """Attributes and modes that are set on the wrapper are those of the module, and hooks of both run."""
    model = Model()
    compiled = nbcompile.compile(model, backend="eager")
    compiled.scale = 3
    compiled.weight = torch.nn.Parameter(torch.ones(3))
    assert model.scale == 3
    assert "weight" in dict(model.named_parameters())
    assert "scale" in dir(compiled)
    del compiled.scale
    assert not hasattr(model, "scale")
    model.eval()
    assert compiled.training is False
    compiled.train()
    assert model.training is True
    seen = []
    compiled.register_forward_hook(lambda module, given, result: seen.append("wrapper"))
    model.register_forward_hook(lambda module, given, result: seen.append("module"))
    same(compiled(x), model(x))
    assert seen == ["module", "wrapper", "module"]
    with pytest.raises(TypeError, match="len"):
        len(compiled)
    assert compiled
    assert len(nbcompile.compile(torch.nn.Sequential(torch.nn.ReLU()), backend="eager")) == 1


def test_WA_5_a_compiled_method_stays_bound():
    """A method that a decorator has already compiled is still bound when it is compiled again."""

    class Scaled:
        @nbcompile.compile(backend="eager")
        def forward(self, x):
            return x * 2

    same(nbcompile.compile(Scaled().forward, backend="eager")(x), x * 2)


def test_a_compiled_module_is_an_optimized_module():
    """The wrapper is an instance of torch's OptimizedModule, and has the signature of `forward`."""
    module = torch.nn.Sequential(torch.nn.Linear(3, 3))
    for compiled in (nbcompile.compile(module), copy.deepcopy(nbcompile.compile(module))):
        assert isinstance(compiled, torch._dynamo.OptimizedModule)
        assert not isinstance(module, torch._dynamo.OptimizedModule)
        assert str(inspect.signature(compiled.forward)) == str(inspect.signature(module.forward))
        again = pickle.loads(pickle.dumps(compiled))
        same(again(torch.ones(2, 3)), module(torch.ones(2, 3)))
        same(compiled.dynamo_ctx(module.forward)(torch.ones(2, 3)), module(torch.ones(2, 3)))
    twice = nbcompile.compile(compiled)
    same(twice(torch.ones(2, 3)), module(torch.ones(2, 3)))


def test_forward_of_a_compiled_module_can_be_replaced():
    """A new `forward` replaces that of the wrapper, not the module's: accelerate converts the results in it."""
    module = torch.nn.Linear(3, 3)
    compiled = nbcompile.compile(module)
    inner = compiled.forward
    compiled.forward = lambda x: inner(x).double()
    assert compiled(torch.ones(2, 3)).dtype == torch.float64
    assert module(torch.ones(2, 3)).dtype == torch.float32
