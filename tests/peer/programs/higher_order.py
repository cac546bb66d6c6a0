"""Higher-order operators: torch.cond and similar ones, torch.func, pytrees."""

import functools

import torch
import torch.utils._pytree as pytree
from torch import nn
from torch._higher_order_ops.hints_wrap import hints_wrapper
from torch._higher_order_ops.out_dtype import out_dtype
from torch._higher_order_ops.strict_mode import strict_mode
from torch._higher_order_ops.wrap import wrap
from torch.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from tests.peer.program import program

ones, arange = torch.ones, torch.arange


@program()
def cond_on_a_tensor():
    def f(x):
        return torch.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (x,)) * 2

    return f, [(ones(3),), (-ones(3),)]


@program()
def cond_with_closures():
    weight = torch.full((3,), 2.0)

    def f(x, y):
        z = x + 1

        def true_fn(a):
            return a * z + y, a - weight

        def false_fn(a):
            return a - z, a * y

        one, two = torch.cond(x.sum() > 0, true_fn, false_fn, (x,))
        return one + two

    return f, [(ones(3), ones(3)), (-ones(3), ones(3))]


@program()
def cond_on_a_constant():
    def f(x, flag):
        return torch.cond(flag, lambda a: a.sin(), lambda a: a.cos(), (x,))

    return f, [(ones(3), True), (ones(3), False)]


@program()
def cond_on_a_size():
    def f(x):
        return torch.cond(x.shape[0] > 4, lambda a: a.sin(), lambda a: a.cos(), (x,))

    return f, [(ones(3),), (ones(6),), (ones(2),)]


@program()
def cond_with_modules():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(3, 3)
            self.b = nn.Linear(3, 3)

        def forward(self, x):
            return torch.cond(x.sum() > 0, self.a, self.b, (x,))

    return Net(), [(ones(2, 3),), (-ones(2, 3),)]


@program()
def cond_with_a_pytree():
    def f(x):
        out = torch.cond(
            x.sum() > 0, lambda a: {"p": a.sin(), "q": (a, 1)[0] + 1}, lambda a: {"p": a.cos(), "q": a - 1}, (x,)
        )
        return out["p"] + out["q"]

    return f, [(ones(3),), (-ones(3),)]


@program()
def nested_cond():
    def f(x):
        def inner(a):
            return torch.cond(a[0] > 1, lambda b: b + 1, lambda b: b - x, (a,))

        return torch.cond(x.sum() > 0, inner, lambda a: a.cos(), (x,))

    return f, [(ones(3),), (ones(3) * 2,), (-ones(3),)]


@program()
def cond_with_a_side_effect():
    seen = []

    def f(x):
        def true_fn(a):
            seen.append(1)
            return a.sin()

        return torch.cond(x.sum() > 0, true_fn, lambda a: a.cos(), (x,))

    return f, [(ones(3),)]


@program()
def cond_with_mismatched_branches():
    def f(x):
        return torch.cond(x.sum() > 0, lambda a: (a.sin(), a), lambda a: a.cos(), (x,))

    return f, [(ones(3),)]


@program()
def while_loop():
    def f(x):
        def test(i, a):
            return i < 3

        def body(i, a):
            return i + 1, a * 2

        return torch.while_loop(test, body, (torch.tensor(0), x))

    return f, [(ones(3),)]


@program()
def while_loop_with_a_free_variable():
    weight = torch.full((3,), 1.5)

    def f(x, limit):
        return torch._higher_order_ops.while_loop(lambda a: a.sum() < limit, lambda a: (a * weight,), (x,))

    return f, [(ones(3), torch.tensor(9.0))]


@program()
def map_operator():
    def f(xs, y):
        return torch._higher_order_ops.map(lambda a, b: a.sin() + b, xs, y)

    return f, [(arange(6.0).reshape(2, 3), ones(3))]


@program()
def scan_operator():
    def f(init, xs):
        def step(carry, x):
            new = carry * 0.5 + x
            return new, new.clone()

        return torch._higher_order_ops.scan(step, init, xs, dim=0)

    return f, [(torch.zeros(3), arange(6.0).reshape(2, 3))]


@program()
def associative_scan_operator():
    def f(xs):
        return torch._higher_order_ops.associative_scan(lambda a, b: a + b, xs, dim=0, combine_mode="generic")

    return f, [(arange(6.0).reshape(2, 3),)]


# -- torch.func ------------------------------------------------------------------------------


@program()
def vmap_of_a_function():
    def f(x, y):
        return vmap(lambda a, b: a.sin() @ b)(x, y)

    return f, [(arange(6.0).reshape(2, 3), ones(2, 3))]


@program()
def vmap_with_dims():
    def f(x, y):
        return vmap(lambda a, b: a + b, in_dims=(1, None), out_dims=1)(x, y)

    return f, [(arange(6.0).reshape(2, 3), ones(2))]


@program()
def vmap_nested():
    def f(x, y):
        return vmap(lambda a: vmap(lambda b: (a * b).sum())(y))(x)

    return f, [(arange(6.0).reshape(2, 3), ones(4, 3))]


@program()
def grad_of_a_function():
    def f(x):
        return grad(lambda a: (a.sin() ** 2).sum())(x)

    return f, [(arange(3.0),)]


@program()
def grad_with_aux_and_argnums():
    def loss(w, x):
        y = (w * x).sum()
        return y, y.detach()

    def f(w, x):
        g, aux = grad(loss, argnums=(0, 1), has_aux=True)(w, x)
        return g, aux

    return f, [(arange(3.0), ones(3))]


@program()
def grad_and_value_of_a_function():
    def f(x):
        return grad_and_value(lambda a: a.pow(3).sum())(x)

    return f, [(arange(3.0),)]


@program()
def per_sample_gradients():
    net = nn.Linear(3, 1)
    params = {k: v.detach() for k, v in net.named_parameters()}

    def loss(p, x, y):
        return ((functional_call(net, p, (x.unsqueeze(0),)) - y) ** 2).sum()

    def f(p, xs, ys):
        return vmap(grad(loss), in_dims=(None, 0, 0))(p, xs, ys)

    return f, [(params, ones(4, 3), ones(4, 1))]


@program()
def functional_call_of_a_module():
    net = nn.Linear(3, 2)

    def f(params, x):
        return functional_call(net, params, (x,)) * 2

    return f, [({"weight": ones(2, 3), "bias": ones(2)}, ones(1, 3))]


@program()
def functional_call_with_keywords():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(3, 2)
            self.register_buffer("shift", ones(2))

        def forward(self, x, *, k=1):
            return self.inner(x) * k + self.shift

    net = Net()

    def f(params, x):
        return functional_call(net, params, x, {"k": 2}) + net(x)

    return f, [({"inner.weight": ones(2, 3), "shift": ones(2) * 3}, ones(1, 3))]


@program()
def ensemble_of_modules():
    nets = [nn.Linear(3, 2) for _ in range(3)]
    params, buffers = stack_module_state(nets)
    params = {k: v.detach() for k, v in params.items()}
    base = nets[0]

    def f(params, x):
        return vmap(lambda p, a: functional_call(base, p, (a,)), in_dims=(0, None))(params, x)

    return f, [(params, ones(1, 3))]


@program()
def vjp_of_a_function():
    def f(x, v):
        out, pull = vjp(lambda a: a.sin() * 2, x)
        return out, pull(v)[0]

    return f, [(arange(3.0), ones(3))]


@program()
def jvp_of_a_function():
    def f(x, v):
        return jvp(lambda a: a.sin() * 2, (x,), (v,))

    return f, [(arange(3.0), ones(3))]


@program()
def jacobians():
    def g(a):
        return a.sin() * a.sum()

    def f(x):
        return jacrev(g)(x), jacfwd(g)(x)

    return f, [(arange(3.0),)]


@program()
def hessian_of_a_function():
    def f(x):
        return hessian(lambda a: (a**3).sum())(x)

    return f, [(arange(3.0),)]


@program()
def vmap_breaks():
    def f(x):
        def g(a):
            torch._dynamo.graph_break()
            return a.sin()

        return vmap(g)(x) + 1

    return f, [(ones(2, 3),)]


@program()
def grad_with_a_closure():
    def f(x, y):
        return grad(lambda a: (a * y).sum())(x) + y

    return f, [(arange(3.0), ones(3).requires_grad_())]


@program()
def vmap_with_randomness():
    def f(x):
        return vmap(lambda a: a + torch.rand(3), randomness="different")(x)

    return f, [(ones(2, 3),)]


# -- pytrees ---------------------------------------------------------------------------------


@program()
def tree_map_over_containers():
    def f(tree):
        return pytree.tree_map(lambda t: t * 2, tree)

    return f, [({"a": ones(2), "b": [ones(3), (ones(1), 3)]},)]


@program()
def tree_flatten_and_unflatten():
    def f(tree):
        leaves, spec = pytree.tree_flatten(tree)
        return pytree.tree_unflatten([leaf + 1 for leaf in leaves], spec), len(leaves)

    return f, [([ones(2), {"k": ones(3)}],)]


@program()
def tree_leaves_and_map_only():
    def f(tree):
        total = sum(leaf.sum() for leaf in pytree.tree_leaves(tree))
        return pytree.tree_map_only(torch.Tensor, lambda t: t + total, tree)

    return f, [([ones(2), {"k": ones(3), "n": "text"}],)]


@program()
def registered_pytree_node():
    class Pair:
        def __init__(self, left, right):
            self.left, self.right = left, right

    pytree.register_pytree_node(Pair, lambda p: ([p.left, p.right], None), lambda children, _: Pair(*children))

    def f(x, y):
        doubled = pytree.tree_map(lambda t: t * 2, Pair(x, [y]))
        return doubled.left + doubled.right[0]

    return f, [(ones(2), ones(2))]


@program()
def tree_map_with_several_trees():
    def f(a, b):
        return pytree.tree_map(lambda x, y: x * y, a, b), pytree.tree_any(lambda t: t is None, a)

    return f, [([ones(2), ones(3)], [ones(2) * 2, ones(3)])]


def causal(batch, head, row, column):
    return row >= column


BLOCKS = create_block_mask(causal, 1, 1, 16, 16, device="cpu")
BIAS = torch.ones(2)


def attended(**settings):
    return lambda q: flex_attention(q, q, q, **settings)


@program()
def attention_whose_scores_are_changed():
    return attended(score_mod=lambda score, b, h, i, j: score + BIAS[h] * (i - j)), [(torch.randn(1, 2, 16, 8),)]


@program()
def attention_under_a_mask_of_blocks():
    return attended(block_mask=BLOCKS, scale=0.3), [(torch.randn(1, 2, 16, 8),)]


@program()
def a_mask_of_blocks_is_made_inside():
    def f(q):
        return flex_attention(q, q, q, block_mask=create_block_mask(causal, 1, 1, 16, 16, device="cpu"))

    return f, [(torch.randn(1, 2, 16, 8),)]


@program()
def checkpoint_with_a_policy():
    def f(x):
        policy = functools.partial(create_selective_checkpoint_contexts, [torch.ops.aten.sin.default])
        return checkpoint(lambda a: a.sin().cos(), x, use_reentrant=False, context_fn=policy)

    def call(g):
        x = torch.arange(3.0).requires_grad_()
        g(x).sum().backward()
        return x.grad

    return f, [call]


# -- operators that call one function --------------------------------------------------------


@program(fullgraph=True)
def wrap_and_its_closures():
    scale = ones(3)

    def f(x, n):
        y = x.sin()

        def outer(a, b=2, *, c=None):
            def inner(d):
                return d * y + scale

            return {"one": wrap(inner, a) * b, "two": [a + c, n]}

        result = wrap(outer, x, c=y)
        return result["one"], result["two"][0] * result["two"][1], wrap(outer, x, 3, c=x)["one"]

    return f, [(ones(2, 3), 2), (ones(2, 3), 3), (ones(4, 3), 5)]


@program()
def wrap_that_breaks_or_has_effects():
    seen = []

    def f(x):
        def breaks(a):
            print("inside")
            return a + 1

        def effects(a):
            seen.append(2)
            return a * 2

        return wrap(breaks, x) + wrap(effects, x * 3)

    return f, [(ones(3),)]


@program(fullgraph=True)
def exception_of_a_wrapped_function_is_caught():
    def f(x):
        def fails(a):
            raise ValueError("wrong")

        try:
            return wrap(fails, x)
        except ValueError as error:
            return x - 1, str(error)

    return f, [(ones(3),)]


@program(fullgraph=True)
def strict_mode_hints_and_dtypes():
    def f(x, i):
        y = strict_mode(lambda a: (a.sin(), a + 1), (x,))
        z = hints_wrapper(lambda a, b: a * b + x, (x, 3), {}, hints={"fuse": True, "name": "z"})
        return y[0] * y[1], z, out_dtype(torch.ops.aten.mul.Tensor, torch.int32, i, 3)

    return f, [(ones(2, 3), ones(3, dtype=torch.int8))]


# -- regions that are compiled once ----------------------------------------------------------


@torch.compiler.nested_compile_region
def region(a, b=2):
    return torch.sin(a) * b, a.shape[0]


@torch.compiler.nested_compile_region
def region_around_regions(a):
    return region(a)[0] + region(a, 2)[0] + region(a, 3)[0]


@torch.compiler.nested_compile_region
def region_that_writes(a):
    a.mul_(2)
    return a + 1


@program(fullgraph=True)
def region_with_one_call():
    def f(x):
        y, rows = region(x + 1)
        return y * rows

    return f, [(ones(2, 3),), (ones(4, 3),)]


@program(fullgraph=True)
def regions_that_are_equal_and_others():
    def f(x):
        for _ in range(3):
            x = region(x)[0]
        return region(x, 5)[0], region(x.double())[0], region(x.double() + 1)[0], region(x[0])[0]

    return f, [(ones(2, 3),), (ones(4, 3),)]


@program(fullgraph=True)
def regions_inside_of_regions():
    def f(x):
        return region_around_regions(x) + region_around_regions(x + 1)

    return f, [(ones(2, 3),)]


@program(fullgraph=True)
def regions_that_write_to_what_they_are_given():
    def f(x):
        y = x.clone()
        return region_that_writes(y) + region_that_writes(y), y

    return f, [(ones(2, 3),)]


@program(fullgraph=True)
def layers_are_regions():
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)

        @torch.compiler.nested_compile_region
        def forward(self, x):
            return self.linear(x).relu()

    layers = nn.Sequential(*(Layer() for _ in range(3)))

    def f(x):
        return layers(x)

    return f, [(ones(2, 3),)]


@program(fullgraph=True)
def region_with_a_break():
    @torch.compiler.nested_compile_region
    def g(a):
        print("inside")
        return a + 1

    def f(x):
        return g(x)

    return f, [(ones(3),)]


@program(fullgraph=True)
def region_that_returns_its_input():
    @torch.compiler.nested_compile_region
    def g(a):
        return a.view(-1)

    def f(x):
        return g(x)

    return f, [(ones(3),)]
