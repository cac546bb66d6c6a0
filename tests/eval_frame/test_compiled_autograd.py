"""Compiled autograd: backward passes as one compiled function, with torch's recorder and eager mode's results."""

from __future__ import annotations

import textwrap

import pytest
import torch
import torch._dynamo
from torch import nn
from torch._dynamo import compiled_autograd

import nbcompile
import nbcompile.config
from tests.support.processes import python


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 2 * x * gradient + gradient.sin()


def layers(run):
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    run(model)(torch.ones(3, 4)).sum().backward()
    return [parameter.grad for parameter in model.parameters()]


def hooks(run):
    model, seen = nn.Linear(4, 4), []
    model.weight.register_hook(lambda gradient: gradient * 2)
    model.bias.register_post_accumulate_grad_hook(lambda parameter: seen.append(parameter.grad.sum() > 0))
    run(model)(torch.ones(3, 4)).sum().backward()
    return [model.weight.grad, model.bias.grad, *seen]


def hooks_of_modules(run):
    model = nn.Linear(4, 4)
    model.register_full_backward_hook(lambda module, inputs, outputs: None)
    model.register_full_backward_pre_hook(lambda module, outputs: (outputs[0] * 2,))
    x = torch.ones(3, 4, requires_grad=True)
    run(model)(x).sum().backward()
    return [x.grad, model.weight.grad]


def own_derivative(run):
    x = torch.ones(3, requires_grad=True)
    Doubled.apply(x).sum().backward()
    return [x.grad]


def gradients_accumulate(run):
    x = torch.ones(3, requires_grad=True)
    for _ in range(3):
        x.sin().sum().backward()
    return [x.grad]


def gradients_alone(run):
    x = torch.ones(3, requires_grad=True)
    return list(torch.autograd.grad((x.sin() * 2).sum(), x))


def sizes_that_change(run):
    model = nn.Linear(4, 4)
    for rows in (3, 5, 7):
        run(model)(torch.ones(rows, 4)).sin().sum().backward()
    return [model.weight.grad]


PROGRAMS = [
    layers, hooks, hooks_of_modules, own_derivative, gradients_accumulate, gradients_alone, sizes_that_change,
]  # fmt: skip


def counting(graphs):
    """A backend that counts its graphs."""

    def backend(module, _examples):
        graphs.append(sum(node.op.startswith("call") for node in module.graph.nodes))
        return module.forward

    return backend


def recorded(program, compile_backward, run):
    torch.manual_seed(0)
    with compiled_autograd._enable(compile_backward):
        return program(run)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_torchs_recorder_with_our_compiler(program):
    """``_enable(nbcompile.compile)``: one graph for each backward pass, with eager mode's gradients."""
    torch.manual_seed(0)
    expected = program(lambda model: model)
    counts = []
    for compiler in (nbcompile.compile, torch.compile):
        torch.compiler.reset()
        graphs = []
        backend = counting(graphs)
        got = recorded(
            program,
            lambda module, compiler=compiler, backend=backend: compiler(module, backend=backend, fullgraph=True),
            lambda model, compiler=compiler, backend=backend: compiler(model, backend=backend),
        )
        assert all(torch.equal(ours, eagers) for ours, eagers in zip(got, expected, strict=True))
        counts.append(len(graphs))
    ours, torchs = counts
    assert ours <= torchs


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("program", [layers, hooks, own_derivative], ids=lambda program: program.__name__)
def test_the_backward_of_a_compiled_graph_is_a_part_of_it(program, backend):
    """AOTAutograd's backward graph is copied into the recorded one, which does not break."""
    torch.manual_seed(0)
    expected = program(lambda model: model)
    compile_backward = lambda module: nbcompile.compile(module, backend=backend, fullgraph=True)  # noqa: E731
    got = recorded(program, compile_backward, lambda model: nbcompile.compile(model, backend=backend))
    assert all(torch.allclose(ours, eagers) for ours, eagers in zip(got, expected, strict=True))


@pytest.mark.parametrize("settings", [nbcompile.config, torch._dynamo.config], ids=["ours", "torch's"])
def test_the_setting_compiles_the_backward_inside_of_a_compiled_call(settings):
    """The setting of either module has the effect; the hook of a parameter is traced."""
    nbcompile.reset()  # the engine stores compiled functions for such nodes
    weight = torch.randn(4, 4, requires_grad=True)
    weight.register_hook(lambda gradient: gradient * 3)
    graphs = []

    def step(x):
        loss = (x @ weight).relu().sum()
        loss.backward()
        return loss

    x = torch.randn(2, 4)
    step(x)
    expected, weight.grad = weight.grad, None
    with settings.patch(compiled_autograd=True):
        run = nbcompile.compile(step, backend=counting(graphs))
        run(x)
    assert torch.equal(weight.grad, expected)
    assert len(graphs) == 2
    assert not torch_records()


def torch_records():
    return compiled_autograd.compiled_autograd_enabled


@pytest.mark.fast_path  # the reference path imports torch's packages, whose functions it calls
def test_without_torchs_recorder_the_setting_says_so():
    """The package is not imported: there is one warning at the compilation, and backward runs in eager mode."""
    script = textwrap.dedent("""
        import warnings, sys, torch, nbcompile
        nbcompile.config.compiled_autograd = True
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            run = nbcompile.compile(lambda x: (x * 2).sum(), backend="eager")
        x = torch.ones(3, requires_grad=True)
        run(x).backward()
        assert x.grad.tolist() == [2, 2, 2]
        assert "torch._dynamo.compiled_autograd" not in sys.modules
        print([str(each.message) for each in said])
    """)
    assert python(script).count("is not loaded. Import it before compiling") == 1
