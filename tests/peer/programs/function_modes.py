"""Function modes: entered in the function, active around the call, stacked; also the mode of the default device."""

import contextlib

import torch
from torch import nn
from torch.overrides import BaseTorchFunctionMode, TorchFunctionMode

from tests.peer.program import program

ones, arange = torch.ones, torch.arange


class AddsOne(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if func is torch.sin:
            return out + 1
        return out


class Scales(TorchFunctionMode):
    def __init__(self, k):
        super().__init__()
        self.k = k

    def __torch_function__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if func in (torch.add, torch.Tensor.add):
            return out * self.k
        return out


class Counts(TorchFunctionMode):
    def __init__(self):
        self.calls = 0
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls += 1
        self.seen.append(func.__name__)
        return func(*args, **(kwargs or {}))


class Replaces(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.cos:
            return torch.sin(*args)
        return func(*args, **(kwargs or {}))


@program()
def mode_entered_inside():
    def f(x):
        with AddsOne():
            y = torch.sin(x)
        return y + torch.sin(x)

    return f, [(ones(3),)]


@program(torch_differs="torch asks the mode once more when the graph runs")
def mode_around():
    def f(x):
        return torch.sin(x) + 1

    def call(g):
        with AddsOne():
            return g(ones(3))

    return f, [call, (ones(3),), call]


@program(torch_differs="torch asks the mode once more when the graph runs")
def mode_around_stack():
    def f(x):
        return torch.add(torch.sin(x), 1)

    def call(g):
        with AddsOne(), Scales(3):
            return g(ones(3))

    def other(g):
        with Scales(3), AddsOne():
            return g(ones(3))

    def k4(g):
        with Scales(4), AddsOne():
            return g(ones(3))

    return f, [call, other, k4]


@program()
def mode_stack_inside():
    def f(x):
        with Scales(2.0):
            with AddsOne():
                return torch.add(torch.sin(x), 1)

    return f, [(ones(3),)]


@program(torch_differs="torch does not ask modes about attributes")
def mode_counts_around():
    mode = Counts()

    def f(x):
        return torch.sin(x).cos() + x.T[0]

    def call(g):
        with mode:
            out = g(ones(3, 3))
        return out, mode.calls, list(mode.seen)

    return f, [call, call]


@program(torch_differs="torch does not ask modes about attributes")
def mode_counts_inside():
    mode = Counts()

    def f(x):
        with mode:
            y = torch.sin(x).cos() + x.shape[0]
        return y

    def call(g):
        out = g(ones(3))
        return out, mode.calls, list(mode.seen)

    return f, [call, call]


@program()
def mode_replaces():
    def f(x):
        with Replaces():
            return torch.cos(x) + x.cos()

    return f, [(ones(3),)]


@program()
def base_mode_inside():
    def f(x):
        with BaseTorchFunctionMode():
            return torch.sin(x) + 1

    return f, [(ones(3),)]


@program()
def base_mode_around():
    def f(x):
        return torch.sin(x) + 1

    def call(g):
        with BaseTorchFunctionMode():
            return g(ones(3))

    return f, [call, (ones(3),)]


@program()
def mode_as_argument():
    def f(m, x):
        with m:
            return torch.sin(x)

    return f, [(AddsOne(), ones(3)), (AddsOne(), ones(3))]


@program()
def device_context_inside():
    def f(x):
        with torch.device("cpu"):
            return x + torch.ones(3)

    return f, [(ones(3),)]


@program()
def device_context_meta_inside():
    def f(x):
        with torch.device("meta"):
            y = torch.ones(3)
        return x + 1, y.device.type, torch.zeros(2)

    return f, [(ones(3),)]


@program()
def device_context_around():
    def f(x):
        return x + torch.ones(3)

    def call(g):
        with torch.device("cpu"):
            return g(ones(3))

    return f, [call, (ones(3),)]


@program(torch_differs="torch asks the mode once more when the graph runs")
def device_and_mode_around():
    def f(x):
        return torch.sin(x) + torch.zeros(3)

    def call(g):
        with torch.device("cpu"), AddsOne():
            return g(ones(3))

    return f, [call, (ones(3),)]


@program()
def default_device_inside():
    def f(x):
        torch.set_default_device("cpu")
        y = torch.ones(3)
        return x + y

    def call(g):
        try:
            return g(ones(3))
        finally:
            torch.set_default_device(None)

    return f, [call]


@program()
def default_device_around():
    def f(x):
        return torch.ones(3).device.type, x + 1

    def call(g):
        torch.set_default_device("meta")
        try:
            return g(torch.ones(3, device="cpu"))
        finally:
            torch.set_default_device(None)

    return f, [call, (ones(3),)]


@program(torch_differs="torch asks the mode once more when the graph runs")
def mode_break_inside():
    def f(x):
        with AddsOne():
            y = torch.sin(x)
            torch._dynamo.graph_break()
            z = torch.sin(y)
        return z + 1

    return f, [(ones(3),)]


@program(torch_differs="torch asks the mode once more when the graph runs")
def mode_around_break():
    def f(x):
        y = torch.sin(x)
        torch._dynamo.graph_break()
        return torch.sin(y)

    def call(g):
        with AddsOne():
            return g(ones(3))

    return f, [call, (ones(3),)]


@program()
def disable_torch_function():
    def f(x):
        with AddsOne():
            with torch._C.DisableTorchFunction():
                y = torch.sin(x)
            return y, torch.sin(x)

    return f, [(ones(3),)]


@program()
def disable_torch_function_subclass_in_mode():
    def f(x):
        with AddsOne():
            with torch._C.DisableTorchFunctionSubclass():
                y = torch.sin(x)
            return y, torch.sin(x)

    return f, [(ones(3),)]


@program()
def skip_one_hop():
    class Inner(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            with self:
                pass
            return func(*args, **(kwargs or {}))

    def f(x):
        with Inner():
            return torch.sin(x)

    return f, [(ones(3),)]


@program()
def mode_returns_constant():
    class Answers(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            if func is torch.numel:
                return 42
            return func(*args, **(kwargs or {}))

    def f(x):
        with Answers():
            n = torch.numel(x)
        return x + n

    return f, [(ones(3),)]


@program()
def mode_sees_factories():
    seen = []

    class Sees(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            if func is torch.ones:
                return torch.zeros(*args, **(kwargs or {}))
            return func(*args, **(kwargs or {}))

    def f(x):
        with Sees():
            return x + torch.ones(3)

    return f, [(ones(3),)]


@program(torch_differs="torch asks the mode once more when the graph runs")
def mode_with_module():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.Linear(3, 3)

        def forward(self, x):
            return torch.sin(self.l(x))

    torch.manual_seed(0)
    net = Net()

    def call(g):
        with AddsOne():
            return g(ones(2, 3))

    return net, [call, (ones(2, 3),)]


@program()
def mode_and_subclass():
    class Sub(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return super().__torch_function__(func, types, args, kwargs or {})

    def f(x):
        with AddsOne():
            return torch.sin(x)

    return f, [(ones(3).as_subclass(Sub),)]


@program()
def mode_with_exception():
    def f(x):
        try:
            with AddsOne():
                y = torch.sin(x)
                raise ValueError("no")
        except ValueError:
            return torch.sin(x)

    return f, [(ones(3),)]


@program()
def mode_contextlib():
    @contextlib.contextmanager
    def around():
        with AddsOne():
            yield

    def f(x):
        with around():
            y = torch.sin(x)
        return y + torch.sin(x)

    return f, [(ones(3),)]


@program()
def mode_with_state_changes():
    class Last(TorchFunctionMode):
        last = None

        def __torch_function__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            self.last = out
            return out

    m = Last()

    def f(x):
        with m:
            y = torch.sin(x)
            z = torch.cos(y)
        return z + m.last

    return f, [(ones(3),)]


@program()
def get_default_device_inside():
    def f(x):
        return x + 1, torch.get_default_device().type

    def call(g):
        with torch.device("meta"):
            return g(torch.ones(3, device="cpu"))

    return f, [(ones(3),), call]


@program()
def mode_method_and_operator():
    class Neg(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            if func in (torch.Tensor.add, torch.Tensor.__add__):
                func = torch.Tensor.sub
            return func(*args, **(kwargs or {}))

    def f(x):
        with Neg():
            return x + 1, x.add(2), 1 + x, x - 1

    return f, [(ones(3),)]


@program()
def mode_fullgraph_kwargs():
    class Kw(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            kwargs = dict(kwargs or {})
            if func is torch.sum:
                kwargs["keepdim"] = True
            return func(*args, **kwargs)

    def f(x):
        with Kw():
            return torch.sum(x, dim=0) + 1

    return f, [(ones(3, 2),)]


@program(torch_differs="torch does not ask modes about attributes")
def mode_attributes():
    seen = []

    class Sees(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(str(getattr(func, "__name__", func)))
            return func(*args, **(kwargs or {}))

    def f(x):
        with Sees():
            y = x.T
            z = x.shape
            d = x.dtype
            w = x.grad
            k = x[0]
            x[0] = 3
            n = len(x)
            v = x.size(0)
        return y + 1

    def call(g):
        out = g(ones(3, 3))
        got = list(seen)
        seen.clear()
        return out, got

    return f, [call, call]


@program(torch_differs="torch loses an attribute that the mode stores as it is left")
def mode_user_enter():
    class WithEnter(TorchFunctionMode):
        def __enter__(self):
            self.entered = True
            return super().__enter__()

        def __exit__(self, *a):
            self.entered = False
            return super().__exit__(*a)

        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    m = WithEnter()

    def f(x):
        with m:
            y = torch.sin(x)
        return y

    return f, [(ones(3),)]
