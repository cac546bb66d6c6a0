"""Tensors that wrap other tensors, with ``__torch_function__`` and ``__torch_dispatch__``, as in torchao."""

import torch
import torch.utils._pytree as pytree

from tests.peer.program import program

T = torch.arange(4.0) + 1


class Scaled(torch.Tensor):
    @staticmethod
    def __new__(cls, inner, scale):
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, dtype=torch.float32, requires_grad=inner.requires_grad
        )

    def __init__(self, inner, scale):
        self.inner = inner
        self.scale = scale

    def __tensor_flatten__(self):
        return ["inner"], (self.scale,)

    @staticmethod
    def __tensor_unflatten__(parts, context, size, stride):
        return Scaled(parts["inner"], *context)

    def value(self):
        return self.inner * self.scale

    def __repr__(self):
        return "Scaled"

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch.nn.functional.linear:
            x, w, b = args[0], args[1], (args[2] if len(args) > 2 else None)
            return torch.nn.functional.linear(x, w.value(), b)
        if func is torch.add:
            return Scaled(args[0].inner + args[1], args[0].scale)
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch.ops.aten.detach.default:
            return Scaled(args[0].inner.detach(), args[0].scale)
        flat = pytree.tree_map_only(Scaled, lambda t: t.value(), (args, kwargs))
        return func(*flat[0], **flat[1])


@program()
def overriding_wrapper_linear():
    def f(x, w):
        return torch.nn.functional.linear(x, w) + 1

    def call(fn):
        return fn(torch.ones(2, 4), Scaled(torch.ones(3, 4), 2.0))

    def other(fn):
        return fn(torch.ones(2, 4), Scaled(torch.ones(3, 4), 3.0))

    return f, [call, call, other]


@program()
def overriding_wrapper_module():
    m = torch.nn.Linear(4, 3)
    torch.manual_seed(0)
    m.weight = torch.nn.Parameter(Scaled(torch.ones(3, 4), 2.0), requires_grad=False)
    return m, [lambda fn: fn(torch.ones(2, 4)), lambda fn: fn(torch.ones(2, 4))]


@program()
def overriding_wrapper_other_op():
    def f(w):
        return torch.sin(w) + w.sum()

    return f, [lambda fn: fn(Scaled(torch.ones(3, 4), 2.0))]


@program()
def overriding_wrapper_attr():
    def f(w, x):
        return w.value() + w.scale + x, w.shape, w.inner

    return f, [lambda fn: fn(Scaled(T.clone(), 2.0), T)]


@program()
def overriding_wrapper_makes():
    def f(w, x):
        y = torch.add(w, x)
        return torch.sin(y)

    return f, [lambda fn: fn(Scaled(T.clone(), 2.0), T)]


@program()
def overriding_wrapper_binary():
    def f(w, x):
        return w * x + x * w, w @ x

    return f, [lambda fn: fn(Scaled(T.clone(), 2.0), T)]
