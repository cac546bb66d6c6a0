"""torch.autograd.Function and torch.utils.checkpoint: one node that contains graphs."""

import torch
import torch.utils.checkpoint
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.peer.program import program

ones, arange = torch.ones, torch.arange


def leaf(*shape):
    return torch.linspace(-1, 1, int(torch.tensor(shape).prod())).reshape(shape).requires_grad_()


class Square(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 2 * x


class Scaled(Function):
    @staticmethod
    def forward(ctx, x, factor, name="a"):
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor, None, None


class TwoOutputs(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y, x + y

    @staticmethod
    def backward(ctx, g0, g1):
        x, y = ctx.saved_tensors
        return g0 * y + g1, g0 * x + g1


class WithSetup(Function):
    @staticmethod
    def forward(x, weight):
        return x @ weight, x.sum()

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight = inputs
        product, _ = output
        ctx.save_for_backward(x, weight)
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, grad, _):
        x, weight = ctx.saved_tensors
        gx = gw = None
        if ctx.needs_input_grad[0]:
            gx = grad @ weight.t()
        if ctx.needs_input_grad[1]:
            gw = x.t() @ grad
        return gx, gw


class StraightThrough(Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, grad):
        return grad


class Reversal(Function):
    @staticmethod
    def forward(ctx, x, alpha):
        ctx.alpha = alpha
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return grad.neg() * ctx.alpha, None


class InPlace(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        x.add_(1)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad


class Once(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0]


class WithList(Function):
    @staticmethod
    def forward(ctx, shapes, *tensors):
        ctx.shapes = shapes
        ctx.count = len(tensors)
        return torch.stack([t * s for t, s in zip(tensors, shapes)]).sum(0)

    @staticmethod
    def backward(ctx, grad):
        return (None, *[grad * s for s in ctx.shapes])


scale = 3.0


class UsesGlobals(Function):
    @staticmethod
    def forward(ctx, x):
        return x * scale

    @staticmethod
    def backward(ctx, grad):
        return grad * scale


class Base(Function):
    @staticmethod
    def double(x):
        return x * 2

    @classmethod
    def forward(cls, ctx, x):
        return cls.double(x)

    @classmethod
    def backward(cls, ctx, grad):
        return cls.double(grad)


def with_backward(f):
    def call(compiled):
        xs = [leaf(3), leaf(3)]
        out = compiled(*xs[:f])
        out.sum().backward()
        return out.detach(), [x.grad for x in xs]

    return call


@program()
def square_function():
    def f(x):
        return Square.apply(x).sin()

    return f, [with_backward(1), with_backward(1), (ones(3),)]


@program()
def function_with_constants():
    def f(x):
        return Scaled.apply(x, 2.0) + Scaled.apply(x.cos(), 3, "b")

    return f, [with_backward(1), (ones(2),)]


@program()
def function_with_two_outputs():
    def f(x, y):
        a, b = TwoOutputs.apply(x, y)
        return a.sin() + b

    return f, [with_backward(2), (ones(2), ones(2))]


@program()
def function_with_setup_context():
    def f(x, w):
        y, s = WithSetup.apply(x, w)
        return y * s

    def call(compiled):
        x, w = leaf(2, 3), leaf(3, 2)
        out = compiled(x, w)
        out.sum().backward()
        return out.detach(), x.grad, w.grad

    def call_partial(compiled):
        x, w = ones(2, 3), leaf(3, 2)
        compiled(x, w).sum().backward()
        return x.grad, w.grad

    return f, [call, call_partial]


@program()
def straight_through():
    def f(x):
        return StraightThrough.apply(x * 3) * x

    return f, [with_backward(1)]


@program()
def gradient_reversal_in_a_module():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)
            self.alpha = 0.5

        def forward(self, x):
            return Reversal.apply(self.linear(x), self.alpha)

    net = Net()

    def call(compiled):
        compiled(ones(2, 3)).sum().backward()
        return [p.grad for p in net.parameters()]

    return net, [call]


@program()
def function_that_marks_dirty():
    def f(x):
        y = x.clone()
        return InPlace.apply(y) * 2

    return f, [with_backward(1)]


@program()
def once_differentiable_function():
    def f(x):
        return Once.apply(x).sin()

    return f, [with_backward(1)]


@program()
def function_with_many_tensors():
    def f(x, y):
        return WithList.apply([2, 3], x, y)

    return f, [with_backward(2)]


@program()
def function_that_reads_globals():
    def f(x):
        return UsesGlobals.apply(x)

    def change(compiled):
        global scale
        scale = 5.0
        return with_backward(1)(compiled)

    return f, [with_backward(1), change]


@program()
def function_through_a_helper():
    square = Square.apply

    def f(x):
        return square(x) + Square.apply(x)

    return f, [with_backward(1)]


@program()
def function_with_a_break_in_forward():
    class Breaks(Function):
        @staticmethod
        def forward(ctx, x):
            torch._dynamo.graph_break()
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    def f(x):
        return Breaks.apply(x.sin()).cos()

    return f, [with_backward(1)]


@program()
def function_saves_a_result_on_ctx():
    class Saves(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.kept = x.exp()
            ctx.shape = x.shape
            return ctx.kept * 2

        @staticmethod
        def backward(ctx, grad):
            return (grad * 2 * ctx.kept).reshape(ctx.shape)

    def f(x):
        return Saves.apply(x)

    return f, [with_backward(1)]


@program()
def function_under_no_grad():
    def f(x):
        with torch.no_grad():
            y = Square.apply(x)
        return y + x

    return f, [with_backward(1)]


@program()
def function_called_twice_with_dynamic_shapes():
    def f(x):
        return Square.apply(x).sum() * x.shape[0]

    def call(n):
        def run(compiled):
            x = leaf(n)
            compiled(x).backward()
            return x.grad

        return run

    return f, [call(3), call(4), call(5)]


@program()
def checkpointed():
    def block(x, y):
        return torch.sin(x) * y

    def f(x, y):
        return torch.utils.checkpoint.checkpoint(block, x, y, use_reentrant=False)

    return f, [with_backward(2), (ones(2), ones(2))]


@program()
def checkpointed_module():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(2))

        def forward(self, x):
            for layer in self.layers:
                x = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)
            return x

    net = Net()

    def call(compiled):
        compiled(leaf(2, 3)).sum().backward()
        return [p.grad for p in net.parameters()]

    return net, [call]


@program()
def checkpointed_reentrant():
    def block(x):
        return torch.sin(x) * 2

    def f(x):
        return torch.utils.checkpoint.checkpoint(block, x, use_reentrant=True)

    return f, [with_backward(1)]


@program()
def checkpoint_with_closure_and_keywords():
    weight = nn.Parameter(ones(3))

    def f(x):
        def block(a, *, k=1):
            return (a * weight).relu() * k, a

        y, z = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False, k=2)
        return y + z

    return f, [with_backward(1)]


@program()
def checkpoint_with_a_side_effect():
    seen = []

    def block(x):
        seen.append(1)
        return x.sin()

    def f(x):
        return torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)

    return f, [with_backward(1)]


@program()
def checkpoint_sequential():
    net = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3), nn.ReLU())

    def f(x):
        return torch.utils.checkpoint.checkpoint_sequential(net, 2, x, use_reentrant=False)

    return f, [(ones(2, 3),)]


@program()
def function_class_is_made_between_two_operators():
    def f(x):
        y = x + 1

        class Doubled(torch.autograd.Function):
            @staticmethod
            def forward(ctx, a):
                return a * 2

            @staticmethod
            @once_differentiable
            def backward(ctx, g):
                return g * 2

        return Doubled.apply(y)

    return f, [(ones(3).requires_grad_(),)]


class UnmaterialisedProduct(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.set_materialize_grads(False)
        return x * 2, y * 3

    @staticmethod
    def backward(ctx, first, second):
        return first * 2, second * 3


class UnmaterialisedOne(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return None if grad is None else grad * 2


class UnmaterialisedChoice(UnmaterialisedProduct):
    @staticmethod
    def backward(ctx, first, second):
        return (None if first is None else first * 2), (None if second is None else second * 3)


@program()
def gradients_that_are_not_materialised_are_all_there():
    def f(x, y):
        a, b = UnmaterialisedProduct.apply(x, y)
        return a.sum() + b.sum()

    def call(compiled):
        x, y = leaf(3), leaf(3)
        compiled(x, y).backward()
        return x.grad, y.grad

    return f, [call]


@program()
def the_one_gradient_is_not_materialised():
    def f(x):
        return UnmaterialisedOne.apply(x).sum()

    def call(compiled):
        x = leaf(3)
        compiled(x).backward()
        return x.grad

    return f, [call]


@program(torch_differs="a missing gradient is zeros in its graph, and x.grad zeros in place of None")
def a_gradient_that_is_not_materialised_is_missing():
    def f(x, y):
        return UnmaterialisedChoice.apply(x, y)[0].sum()

    def call(compiled):
        x, y = leaf(3), leaf(3)
        compiled(x, y).backward()
        return x.grad, y.grad

    return f, [call]
