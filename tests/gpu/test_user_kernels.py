"""A program's own Triton kernels, for a target: in the graph, and in the simulator."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
pytest.importorskip("numpy", reason="the simulator computes with NumPy")

import triton

import nbcompile
from nbcompile.gpu.build import CannotBuild
from nbcompile.gpu.user_kernels import bits
from tests.gpu import kernels
from tests.gpu.kernels import (
    ON_A_GPU,
    X,
    both,
    calls_on_the_cpu,
    doubled,
    explained,
    launched,
    scale,
    scale_by_bfloat16,
    scale_by_constant,
    scale_by_global,
    tripled_with_a_derivative,
    tripled_with_a_fake,
)


def test_a_launch_is_a_node_between_generated_kernels():
    """A launch is torch's higher-order operator; the record has the kernel's text, and the figures of the launch."""
    found = explained(lambda x: launched(scale, x + 1, 3.0, BLOCK=128) * 2, X)
    assert torch.equal(found.result, (X + 1) * 6)
    graph = found.record.frames[0].graph
    assert [node.target for node in graph.nodes if "triton" in node.target] == ["triton_kernel_wrapper_mutation"]
    (users,) = [kernel for kernel in found.kernels if kernel.name == "scale"]
    assert users.language == "triton"
    assert users.source.startswith("def scale(")
    assert users.gpu.coalescing == 1
    assert users.gpu.moved == 2 * 38 * 32  # sectors of 300 numbers, loaded and stored
    assert sum(line.moved for line in users.gpu.lines) == users.gpu.moved
    assert users.gpu.lines[-1].line == 4  # tl.store


def test_sizes_may_be_symbolic():
    """One graph serves all sizes; the kernel's arguments and grid follow them."""
    compiled = nbcompile.compile(lambda x: launched(scale, x, 3.0, BLOCK=128), options=ON_A_GPU, dynamic=True)
    for size in (300, 129, 1000):
        x = torch.randn(size)
        assert torch.equal(compiled(x), x * 3)


def test_gradients_flow_around_a_launch():
    """The kernel's result has no derivative, as in eager mode; a factor of it does."""

    def loss(x, w):
        y = x * w
        return (y * launched(scale, y.detach(), 3.0, BLOCK=128)).sum()

    w = torch.full((300,), 0.5, requires_grad=True)
    explained(loss, X, w).result.backward()
    torch.testing.assert_close(w.grad, X * X * 1.5)


def test_a_triton_op_with_a_derivative_is_launched_forward_and_backward():
    """Both graphs launch the kernel, and not the CPU function of the operator."""
    calls_on_the_cpu.clear()
    w = torch.full((300,), 0.5, requires_grad=True)
    found = explained(lambda x, w: (tripled_with_a_derivative(x * w) + 1).square().sum(), X, w)
    found.result.backward()
    expected = w.detach().requires_grad_()
    (X * expected * 3 + 1).square().sum().backward()
    torch.testing.assert_close(w.grad, expected.grad)
    assert calls_on_the_cpu == []
    launches = [
        kernel.id.split(".")[1] for kernel in found.kernels if "nbtest" in kernel.name or kernel.name == "scale"
    ]
    assert launches == ["forward", "backward"]


def test_a_triton_op_on_the_cpu_is_called_whoever_traces_the_graph():
    """A mutated view needs AOTAutograd, which would trace the launch; on the CPU the operator is called instead."""

    def function(x):
        y = tripled_with_a_derivative(x)
        y.view(-1).add_(1)
        return y

    for needs_grad in (False, True):
        x = X.clone().requires_grad_(needs_grad)
        assert torch.equal(nbcompile.compile(function, fullgraph=True)(x), X * 3 + 1)


def test_a_triton_op_is_what_it_runs_and_not_what_is_registered_for_fake_tensors():
    """The graph contains the kernel, and not the function for fake tensors."""
    assert torch.equal(explained(lambda x: tripled_with_a_fake(x) + 1, X).result, X * 3 + 1)


def test_parameters_that_are_given_one_tensor_see_what_each_writes():
    """Two parameters may be one tensor, an input, an intermediate or new memory, also if one is only read."""

    def local(x):
        y = x + 0
        both[(1,)](y, y, 100, BLOCK=128)
        return y

    def given(x):
        both[(1,)](x, x, 100, BLOCK=128)
        return x

    def made(x):
        y = torch.zeros(100)
        both[(1,)](y, y, 100, BLOCK=128)
        return y

    def read(x):
        y = x + 0
        doubled[(1,)](y, y, 100, BLOCK=128)
        return y

    x = torch.arange(100.0)
    for function, expected in ((local, (x + 1) * 10), (made, torch.full((100,), 10.0)), (read, x * 2 + 1)):
        assert torch.equal(explained(function, x).result, expected)
    written = x.clone()
    assert torch.equal(explained(given, written).result, (x + 1) * 10)
    assert torch.equal(written, (x + 1) * 10)


def test_constants_that_are_equal_to_python_are_not_one():
    """0.0 and -0.0, an integer and an equal float, are separate constants with separate code."""
    x = torch.full((100,), 2**30, dtype=torch.int32)
    for factor, expected in ((4, torch.zeros(100)), (4.0, torch.full((100,), 2.0**32))):
        out = torch.zeros(100)

        def scaled(x, out, factor=factor):
            scale_by_constant[(1,)](x, out, 100, factor, BLOCK=128)
            return out

        assert torch.equal(explained(scaled, x, out).result, expected)
    for factor in (0.0, -0.0):
        found = explained(lambda x, by=factor: launched(scale_by_constant, x, by, BLOCK=128), torch.ones(100)).result
        assert torch.equal(torch.signbit(found), torch.signbit(torch.full((100,), factor)))


def test_numbers_are_passed_as_tritons_launch_passes_them():
    """A bfloat16 argument is truncated, and integers wrap to 64 signed bits."""
    by = explained(lambda x: launched(scale_by_bfloat16, x, 2.5, BLOCK=128), X[:100]).result
    assert torch.equal(by, X[:100] * 2.5)
    assert bits(1 + 3 / 256, "bf16") == 0x3F81
    assert bits(1e300, "fp32") == bits(float("inf"), "fp32") == 0x7F800000
    assert bits(-2.0, "fp64") == -(1 << 62)
    assert bits(2**63 + 1, "u64") == -(2**63) + 1
    assert bits(-3, "i32") == -3


def test_a_global_variable_that_changes_is_an_error_as_in_triton(monkeypatch):
    """The value of a global variable is in the code: after a change, old and new graphs raise, as in Triton."""
    compiled = nbcompile.compile(lambda x: launched(scale_by_global, x, BLOCK=128), options=ON_A_GPU)
    assert torch.equal(compiled(X[:100]), X[:100] * 3)
    monkeypatch.setattr(kernels, "FACTOR", triton.language.constexpr(5))
    for function in (
        compiled,
        nbcompile.compile(lambda x: launched(scale_by_global, x, BLOCK=128) + 1, options=ON_A_GPU),
    ):
        with pytest.raises(CannotBuild, match="the global variable FACTOR of scale_by_global has changed"):
            function(X[:100])


def test_parameters_that_are_given_views_of_one_tensor_see_what_each_writes():
    """Parameters may be overlapping views of a result or an input; elements outside of the views do not change."""

    def reshaped(x):
        y = x + 0
        both[(1,)](y, y.view(4, 25), 100, BLOCK=128)
        return y

    def transposed(x):
        y = x.view(10, 10) * 1
        both[(1,)](y.t(), y.view(-1), 100, BLOCK=128)
        return y.view(-1)

    def given(x):
        both[(1,)](x, x[0:], 100, BLOCK=128)
        return x

    def overlapping(x):
        y = x + 0
        both[(1,)](y[20:70], y[10:80], 50, BLOCK=128)
        return y

    x = torch.arange(100.0)
    for function in (reshaped, transposed, given):
        assert torch.equal(explained(function, x.clone()).result, (x + 1) * 10)
    expected = x.clone()
    expected[20:70] += 1
    expected[10:60] *= 10
    assert torch.equal(explained(overlapping, x).result, expected)
