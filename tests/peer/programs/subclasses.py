"""Tensor subclasses, __torch_function__ and function modes."""

import torch
from torch import nn
from torch.overrides import TorchFunctionMode, has_torch_function

from tests.peer.program import program

ones, arange = torch.ones, torch.arange


class Plain(torch.Tensor):
    pass


class Logged(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        out = super().__torch_function__(func, types, args, kwargs or {})
        if func is torch.sin or func is torch.Tensor.sin:
            return out + 1
        return out


class Wrapper:
    def __init__(self, value, name):
        self.value, self.name = value, name

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        args = [a.value if isinstance(a, Wrapper) else a for a in args]
        return Wrapper(func(*args, **(kwargs or {})), "made")


class WithMethod(torch.Tensor):
    def doubled(self):
        return self * 2

    @property
    def first(self):
        return self[0]


class Disabled(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl


class AddsOne(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if func is torch.sin:
            return out + 1
        return out


@program()
def plain_subclass_argument():
    def f(x):
        return x * 2 + torch.sin(x)

    return f, [(ones(3).as_subclass(Plain),), (ones(3),)]


@program(torch_differs="torch makes plain tensors of the results")
def subclass_with_torch_function():
    def f(x):
        return torch.sin(x) * 2

    return f, [(ones(3).as_subclass(Logged),)]


@program()
def subclass_method_and_property():
    def f(x):
        return x.doubled() + x.first

    return f, [(ones(3).as_subclass(WithMethod),)]


@program()
def subclass_made_inside():
    def f(x):
        y = x.as_subclass(Logged)
        return torch.sin(y).as_subclass(torch.Tensor) + 1

    return f, [(ones(3),)]


@program()
def subclass_with_disabled_torch_function():
    def f(x):
        return x + 1

    return f, [(ones(3).as_subclass(Disabled),)]


@program()
def object_with_torch_function():
    w = Wrapper(ones(3), "w")

    def f(x):
        out = torch.add(w, x)
        return out.value * 2, out.name

    return f, [(ones(3),)]


@program()
def object_with_torch_function_as_an_argument():
    def f(w, x):
        return torch.mul(x, w).value

    return f, [(Wrapper(ones(3), "w"), ones(3))]


@program(torch_differs="torch makes plain tensors of the results")
def disable_torch_function_inside():
    def f(x):
        with torch._C.DisableTorchFunctionSubclass():
            return torch.sin(x)

    return f, [(ones(3).as_subclass(Logged),)]


@program()
def has_torch_function_asked():
    def f(x, y):
        if has_torch_function((x, y)):
            return x + 1
        return x + y

    return f, [(ones(3), ones(3)), (ones(3).as_subclass(Logged), ones(3))]


@program()
def parameter_subclass():
    class Special(nn.Parameter):
        pass

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = Special(ones(3))

        def forward(self, x):
            return x * self.weight

    return Net(), [(ones(3),)]


@program()
def isinstance_of_subclasses():
    def f(x):
        if isinstance(x, Logged):
            return x + 1
        return x + 2

    return f, [(ones(3),), (ones(3).as_subclass(Logged),)]


@program()
def subclass_with_an_attribute():
    class Tagged(torch.Tensor):
        pass

    x = ones(3).as_subclass(Tagged)
    x.tag = 4

    def f(x):
        return x * x.tag

    return f, [(x,)]


@program()
def subclass_in_a_container():
    def f(d):
        return d["x"] + d["y"]

    return f, [({"x": ones(3).as_subclass(Plain), "y": ones(3)},)]


@program()
def subclass_made_of_data():
    def f(x):
        tensor = torch.Tensor._make_subclass(Plain, x + 1)
        return tensor, torch.Tensor._make_subclass(Plain, x * 2) + 1, type(tensor) is Plain, tensor.requires_grad

    return f, [(ones(3),), (ones(3, requires_grad=True),)]


@program()
def subclass_with_its_own_new():
    class Tagged(torch.Tensor):
        @staticmethod
        def __new__(cls, data, tag):
            made = torch.Tensor._make_subclass(cls, data)
            made.tag = tag
            return made

        def scaled(self):
            return self * self.tag

    def f(x):
        return Tagged(x, 3).scaled()

    return f, [(ones(3),)]
