"""Tensors that wrap other tensors (traceable wrapper subclasses), and modes of __torch_dispatch__."""

import torch
import torch.utils._pytree as pytree
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._python_dispatch import TorchDispatchMode

from tests.peer.program import program

ones, arange = torch.ones, torch.arange


class Scaled(torch.Tensor):
    @staticmethod
    def __new__(cls, inner, scale):
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, dtype=inner.dtype, device=inner.device, requires_grad=inner.requires_grad
        )

    def __init__(self, inner, scale):
        self.inner = inner
        self.scale = scale

    def __tensor_flatten__(self):
        return ["inner"], self.scale

    @staticmethod
    def __tensor_unflatten__(tensors, meta, size, stride):
        return Scaled(tensors["inner"], meta)

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        kwargs = kwargs or {}
        scale = next(a.scale for a in pytree.tree_leaves(args) if isinstance(a, Scaled))
        un = lambda t: t.inner * t.scale if isinstance(t, Scaled) else t
        out = func(*pytree.tree_map(un, args), **pytree.tree_map(un, kwargs))
        re = lambda t: Scaled(t / scale, scale) if isinstance(t, torch.Tensor) and t.is_floating_point() else t
        return pytree.tree_map(re, out)

    def dequantize(self):
        return self.inner * self.scale


def two(k=1.0):
    return TwoTensor(ones(3) * k, ones(3) * 2 * k)


@program()
def two_tensor_argument():
    def f(x):
        return x + 1

    return f, [(two(),), (two(2.0),)]


@program()
def two_tensor_chain():
    def f(x):
        return torch.sin(x).sum() * 2

    return f, [(two(),)]


@program()
def two_tensor_attribute():
    def f(x):
        return x.a + x.b

    return f, [(two(),)]


@program()
def two_tensor_with_plain():
    def f(x, y):
        return x * y + y

    return f, [(two(), ones(3))]


@program()
def two_tensor_made_inside():
    def f(x):
        t = TwoTensor(x, x + 1)
        return (t * 2).a

    return f, [(ones(3),)]


@program()
def two_tensor_made_and_returned():
    def f(x):
        return TwoTensor(x, x + 1) * 2

    return f, [(ones(3),)]


@program()
def two_tensor_mutated():
    def f(x):
        x.add_(1)
        return x * 2

    return f, [(two(),)]


@program()
def two_tensor_view():
    def f(x):
        return x.view(3, 1), x[0]

    return f, [(two(),)]


@program()
def two_tensor_shape_and_type():
    def f(x):
        if isinstance(x, TwoTensor) and type(x) is TwoTensor:
            return x + x.shape[0], x.dtype, x.requires_grad
        return x

    return f, [(two(),), (ones(3),)]


@program()
def scaled_argument():
    def f(x):
        return x + 1

    return f, [(Scaled(ones(3), 2.0),), (Scaled(ones(3), 4.0),)]


@program()
def scaled_method():
    def f(x):
        return x.dequantize() + x.scale

    return f, [(Scaled(ones(3), 2.0),)]


@program()
def scaled_matmul():
    def f(x, w):
        return torch.nn.functional.linear(x, w)

    return f, [(ones(2, 3), Scaled(ones(4, 3), 2.0))]


@program()
def wrapper_parameter():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(TwoTensor(ones(3), ones(3) * 2))

        def forward(self, x):
            return x * self.w

    return Net(), [(ones(3),)]


@program()
def wrapper_identity():
    def f(x):
        return x

    return f, [(two(),)]


@program()
def wrapper_in_list():
    def f(xs):
        return xs[0] + xs[1]

    return f, [([two(), two()],)]


@program()
def wrapper_break():
    def f(x):
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    return f, [(two(),)]


@program()
def wrapper_recompile_size():
    def f(x):
        return x * 2

    return f, [(TwoTensor(ones(3), ones(3)),), (TwoTensor(ones(4), ones(4)),), (TwoTensor(ones(5), ones(5)),)]


@program()
def wrapper_or_plain():
    def f(x):
        return x * 2

    return f, [(two(),), (ones(3),)]


@program()
def wrapper_dispatch_mode_around():
    class Counter(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.n = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.n += 1
            return func(*args, **(kwargs or {}))

    def f(x):
        return torch.sin(x) + 1

    def call(g):
        with Counter() as c:
            out = g(ones(3))
        return out, c.n

    return f, [call, (ones(3),)]


@program()
def wrapper_dispatch_mode_inside():
    class Doubles(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    def f(x):
        with Doubles():
            y = torch.sin(x)
        return y + 1

    return f, [(ones(3),)]


class LogsDispatch(torch.Tensor):
    @staticmethod
    def __new__(cls, x):
        return torch.Tensor._make_wrapper_subclass(cls, x.shape, dtype=x.dtype)

    def __init__(self, x):
        self.x = x

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        un = lambda t: t.x if isinstance(t, LogsDispatch) else t
        return func(*pytree.tree_map(un, args), **pytree.tree_map(un, kwargs or {}))


@program()
def not_traceable_wrapper():
    def f(x):
        return x + 1

    return f, [(LogsDispatch(ones(3)),)]


@program()
def not_traceable_wrapper_unused():
    def f(x, y):
        return y + 1, x

    return f, [(LogsDispatch(ones(3)), ones(3))]


@program()
def wrapper_detach_clone():
    def f(x):
        return x.detach().clone() * 2

    return f, [(two(),)]


@program()
def wrapper_isinstance_tensor():
    def f(x):
        return isinstance(x, torch.Tensor), isinstance(x, TwoTensor), x + 1

    return f, [(two(),)]


@program()
def wrapper_in_module_attribute():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.t = TwoTensor(ones(3), ones(3) * 2)

        def forward(self, x):
            return x + self.t

    return Net(), [(ones(3),)]


@program()
def wrapper_mutate_inner():
    def f(x):
        x.a.add_(1)
        return x * 2

    return f, [(two(),)]


@program()
def wrapper_gradient():
    def f(x):
        return (x * x).sum()

    def call(g):
        x = TwoTensor(ones(3), ones(3) * 2).requires_grad_()
        g(x).backward()
        return x.grad

    return f, [call]


class Masked(Scaled):
    @staticmethod
    def __tensor_unflatten__(tensors, meta, size, stride):
        return Masked(tensors["inner"], meta)

    def unscaled(self, k=1):
        return self.inner * self.scale * k

    @property
    def twice(self):
        return self.inner * 2

    @classmethod
    def make(cls, x):
        return cls(x, 3.0)


@program()
def wrapper_own_method():
    def f(x):
        return x.unscaled(2) + 1

    return f, [(Masked(ones(3), 2.0),)]


@program()
def wrapper_own_property():
    def f(x):
        return x.twice + 1

    return f, [(Masked(ones(3), 2.0),)]


@program()
def wrapper_classmethod_makes():
    def f(x):
        return (Masked.make(x) + 1).inner

    return f, [(ones(3),)]


@program()
def wrapper_scale_attribute_of_result():
    def f(x):
        y = x * 2
        return y.scale, y.inner + 1

    return f, [(Masked(ones(3), 2.0),)]


@program()
def wrapper_set_attribute():
    def f(x):
        x.note = "seen"
        return x + 1

    return f, [(Masked(ones(3), 2.0),)]


@program()
def wrapper_made_from_parameters():
    def f(x, k):
        return Masked(x, k) + 1

    return f, [(ones(3), 2.0)]
