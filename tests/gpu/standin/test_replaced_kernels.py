"""The stand-in device on a torch with CUDA: replaced kernels, and compositions of operators that the CPU lacks."""

from __future__ import annotations

import functools

import torch

from nbcompile.gpu.standin import replaced_kernels


def test_every_operator_with_a_kernel_for_cuda_gets_another_one(monkeypatch):
    """Each CUDA kernel is replaced by name and overload, except the stand-in's own, and unknown operators."""
    names = ["aten::sin", "aten::add.Tensor", "aten::copy_", "aten::no_such_operator"]
    registered = {}
    monkeypatch.setattr(torch._C, "_dispatch_get_registrations_for_dispatch_key", lambda key: names)

    class Library:
        def __init__(self, namespace, kind, key):
            self.about = namespace, kind, key

        def impl(self, name, function, allow_override):
            assert allow_override and self.about == ("aten", "IMPL", "CUDA")
            registered[name] = function

    monkeypatch.setattr(torch.library, "Library", Library)
    libraries = replaced_kernels.replace_cuda_kernels(lambda operator, *given: (operator, given), {"copy_"})
    assert len(libraries) == 1
    assert set(registered) == {"sin", "add.Tensor"}
    assert isinstance(registered["sin"], functools.partial)
    assert registered["add.Tensor"](1, 2) == (torch.ops.aten.add.Tensor, (1, 2))


def test_what_the_cpu_has_no_kernel_for_is_composed():
    """The backward of RMS norm may have no CPU kernel, and is composed; other operators are unchanged."""
    fused = torch.ops.aten._fused_rms_norm_backward.default
    form = replaced_kernels.with_cpu_kernel(fused)
    if form is not fused:
        x, weight, gradient = torch.randn(4, 8), torch.randn(8), torch.randn(4, 8)
        leaves = x.clone().requires_grad_(), weight.clone().requires_grad_()
        expected = torch.autograd.grad(torch.nn.functional.rms_norm(leaves[0], (8,), leaves[1], 1e-5), leaves, gradient)
        root = torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5)
        for mine, theirs in zip(form(gradient, x, [8], root, weight, [True, True]), expected, strict=True):
            torch.testing.assert_close(mine, theirs)
    assert replaced_kernels.with_cpu_kernel(torch.ops.aten.mm.default) is torch.ops.aten.mm.default
    assert replaced_kernels.with_cpu_kernel(torch.sin) is torch.sin
