"""Symbolic sizes and numbers in ordinary programs: arithmetic, layers, containers, checks, marks."""

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch.fx.experimental.symbolic_shapes import (
    guard_or_false,
    guard_or_true,
    guard_size_oblivious,
    statically_known_true,
    sym_and,
    sym_or,
)

from tests.peer.program import case, program

ones, arange = torch.ones, torch.arange
SCALARS = {"capture_scalar_outputs": True}
DATA = {"capture_dynamic_output_shape_ops": True, "capture_scalar_outputs": True}
LIMIT = 4


def sizes(*many):
    return [(ones(*each) if isinstance(each, tuple) else ones(each),) for each in many]


def marked(mark, shape, *arguments, **keywords):
    """A call with a new tensor that has a mark."""

    def call(compiled):
        x = ones(*shape)
        getattr(torch._dynamo, mark, None)(x, *arguments, **keywords)
        return compiled(x)

    return call


def rejected(call):
    """The same call; an error of the compiler becomes its result as text. (Eager mode raises none.)"""

    def told(compiled):
        try:
            return call(compiled)
        except Exception as error:
            return type(error).__name__, str(error).splitlines()[0]

    return told


def unbacked(shape, *arguments, **keywords):
    def call(compiled):
        x = ones(*shape)
        torch._dynamo.decorators.mark_unbacked(x, *arguments, **keywords)
        return compiled(x)

    return call


# -- arithmetic of sizes ------------------------------------------------------------------------------------------


@case(*sizes(7, 8, 9), dynamic=True)
def floor_and_modulo(x):
    n = x.shape[0]
    return x * (n // 2) + n % 3 + (-n) // 2 + (-n) % 4


@case(*sizes(7, 8, 9), dynamic=True)
def true_division_of_a_size(x):
    return x * (x.shape[0] / 2), x.shape[0] / 4 > 2


@case(*sizes(7, 8, 12), dynamic=True)
def divisible_or_not(x):
    if x.shape[0] % 4 == 0:
        return x.view(4, -1)
    return x * 2


@case(*sizes(6, 8, 10), dynamic=True)
def half_of_a_size(x):
    half = x.shape[0] // 2
    return x[:half] + x[half : 2 * half]


@case(*sizes(5, 9, 30), dynamic=True)
def comparison_chains(x):
    if 4 < x.shape[0] < 10:
        return x + 1
    return x - 1


@case(*sizes(5, 9, 30), dynamic=True)
def powers_and_shifts(x):
    n = x.shape[0]
    return x * n**2 + (n << 1) - (n & 1)


@case(*sizes(5, 9, 30), dynamic=True)
def minimum_and_maximum(x):
    n = x.shape[0]
    return x[: min(n, 8)].sum() * max(n, 3), abs(-n)


@case(*sizes(5, 9, 30), dynamic=True)
def sums_of_sizes(x):
    return x * sum(x.shape), math.prod(x.shape)


@case(*sizes(5, 9, 30), dynamic=True)
def functions_of_math(x):
    n = x.shape[0]
    return x * math.sqrt(n), math.ceil(n / 2), math.floor(n / 4)


@case(*sizes(5, 9, 30), dynamic=True)
def conversions_of_a_size(x):
    n = x.shape[0]
    return x * float(n), int(n), round(n / 2)


@case(*sizes(5, 9, 30), dynamic=True)
def text_of_a_size(x):
    return x + 1, f"{x.shape[0]} rows", str(x.shape)


@case(*sizes(5, 9, 5), dynamic=True)
def a_size_as_a_key(x):
    return x + {5: 1, 9: 2}[x.shape[0]]


@case(*sizes((3, 4), (4, 3), (5, 5)), dynamic=True)
def numel_and_dim(x):
    return x * x.numel() + x.dim() * x.size(-1)


@case(*sizes((3, 4), (4, 3), (5, 5)), dynamic=True)
def sizes_unpacked(x):
    b, c = x.shape
    *_, last = x.size()
    return x.reshape(c, b) * last if x.shape == (b, c) and x.size() == x.shape else x


@case(*sizes((3, 4), (5, 4), (6, 4)), dynamic=True)
def a_size_compared_with_a_tuple(x):
    return x + 1 if tuple(x.shape[1:]) == (4,) else x


@case(*sizes((3, 4), (5, 4), (6, 7)), dynamic=True)
def assertions_on_sizes(x):
    assert x.shape[0] >= 3
    assert x.shape[1] == 4 or x.shape[0] > 5
    return x + 1


@case((ones(3), ones(3)), (ones(4), ones(4)), (ones(4), ones(5)), dynamic=True)
def either_of_two_sizes(x, y):
    if x.shape[0] > 3 and y.shape[0] > 4:
        return x.sum() + y
    return x + y.sum() if not x.shape[0] == y.shape[0] else x + y


@case((ones(3), ones(6)), (ones(4), ones(8)), (ones(4), ones(9)), dynamic=True)
def one_size_is_twice_another(x, y):
    return torch.cat([x, x]) + y if y.shape[0] == 2 * x.shape[0] else y


@case((ones(3), ones(5), ones(8)), (ones(4), ones(5), ones(9)), (ones(2), ones(2), ones(4)), dynamic=True)
def one_size_is_the_sum_of_two(x, y, z):
    return torch.cat([x, y]) + z


# -- operators with symbolic sizes ---------------------------------------------------------------------------------


@case(*sizes((4, 6), (8, 6), (4, 12)), dynamic=True)
def view_with_minus_one(x):
    return x.view(-1, 2), x.reshape(2, -1), x.flatten()


@case(*sizes((4, 6), (8, 6), (8, 10)))
def split_heads(x):
    b, c = x.shape
    return x.view(b, 2, c // 2).transpose(0, 1).reshape(-1, c // 2)


@case(*sizes((4, 6), (8, 6), (8, 10)), dynamic=True)
def concatenation_and_stack(x):
    return torch.cat([x, x * 2], 1), torch.stack([x, x]), torch.hstack([x, x[:, :1]])


@case(*sizes(4, 8, 5), dynamic=True)
def factories(x):
    n = x.shape[0]
    return torch.arange(n), torch.zeros(n, 2), torch.full((n,), 3), torch.eye(n), x.new_empty(n).fill_(1)


@case(*sizes((4, 1), (8, 1), (5, 1)), dynamic=True)
def expansion(x):
    return x.expand(-1, x.shape[0]), x.expand(3, *x.shape), x.repeat(1, x.shape[0])


@case(*sizes((4, 3, 8, 8), (5, 3, 8, 8), (5, 3, 12, 10)), dynamic=True)
def convolution(x):
    return F.conv2d(x, ones(2, 3, 3, 3), padding=1), F.max_pool2d(x, 2), F.avg_pool2d(x, 3, stride=2)


@case(*sizes((4, 3, 8, 8), (5, 3, 8, 8), (5, 3, 12, 10)))
def interpolation(x):
    return F.interpolate(x, scale_factor=2.0), F.interpolate(x, size=(x.shape[2] // 2, 5)), F.pad(x, (1, 1))


@program(dynamic=True)
def batch_norm_in_training_of_symbols():
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)), sizes((4, 3), (5, 3), (6, 3))


@program()
def convolution_and_batch_norm_of_symbols():
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.ReLU(), torch.nn.Flatten())
    return net, sizes((4, 1, 5, 5), (5, 1, 5, 5), (6, 1, 5, 5), (1, 1, 5, 5))


@program(dynamic=True)
def embedding_and_positions():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words = torch.nn.Embedding(10, 4)
            self.places = torch.nn.Embedding(16, 4)

        def forward(self, tokens):
            places = torch.arange(tokens.shape[1], device=tokens.device)
            return self.words(tokens) + self.places(places)[None]

    return Net(), [(torch.zeros(b, t, dtype=torch.long),) for b, t in ((2, 5), (3, 7), (3, 16))]


@program(dynamic=True)
def attention_with_a_mask():
    def f(q, k):
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
        return scores.masked_fill(~mask, -1e9).softmax(-1)

    return f, [(ones(2, t, 4), ones(2, s, 4)) for t, s in ((3, 3), (5, 5), (5, 6))]


@program(dynamic=True)
def recurrent_loop():
    cell = torch.nn.RNNCell(3, 4)

    def f(x):
        state = x.new_zeros(x.shape[0], 4)
        for t in range(x.shape[1]):
            state = cell(x[:, t], state)
        return state

    return f, sizes((2, 3, 3), (4, 3, 3), (4, 2, 3))


@case(*sizes((4, 6), (8, 6), (8, 10)), dynamic=True)
def chunks_and_splits(x):
    return x.chunk(2, 1), x.split(2, 0), x.split([2, x.shape[0] - 2]), x.unbind(1)[0]


@case(*sizes((4, 6), (8, 6), (8, 10)), dynamic=True)
def narrow_roll_and_flip(x):
    return x.narrow(0, 1, x.shape[0] - 2), x.roll(x.shape[1] // 2, 1), x.flip(0), x.unfold(0, 2, 1)


@case(*sizes((4, 6), (8, 6), (8, 10)), dynamic=True)
def negative_indices(x):
    return x[-1], x[:, -2:], x[:-1], x[..., x.shape[1] - 1], x[x.shape[0] // 2 :: 2]


@case(*sizes((4, 6), (8, 6), (8, 10)), dynamic=True)
def reductions(x):
    return x.mean(), x.var(0), x.sum(1, keepdim=True) / x.shape[1], torch.cumsum(x, 0), x.topk(2, 1)


@case((ones(4, 3), ones(3, 5)), (ones(6, 3), ones(3, 5)), (ones(6, 4), ones(4, 7)))
def products(x, y):
    return x @ y, torch.einsum("ij,jk->ik", x, y), torch.bmm(x[None], y[None])


@case(*sizes((4, 4), (6, 6), (6, 7)), dynamic=True)
def diagonal_and_triangle(x):
    return x.diagonal(), x.tril(), torch.diag(x[0]), x.t().contiguous().is_contiguous()


@case(*sizes((4, 6), (8, 6), (8, 10)), dynamic=True)
def strided_views(x):
    return x.as_strided((x.shape[0], 2), (x.stride(0), 1)), x.stride(), x.storage_offset()


@case((ones(8, 6)[2:],), (ones(8, 6)[3:],), (ones(9, 6)[4:],), (ones(9, 6),), dynamic=True)
def storage_offsets(x):
    return x + x.storage_offset()


@case(*[(ones(n, 4).t(),) for n in (3, 5, 6)], (ones(4, 6),), dynamic=True)
def contiguity_of_a_transpose(x):
    return x + 1 if x.is_contiguous() else x.contiguous() * 2


@case(*[(ones(n, 3, 4, 4).to(memory_format=torch.channels_last),) for n in (2, 3, 5)], dynamic=True)
def channels_last(x):
    return x * 2 if x.is_contiguous(memory_format=torch.channels_last) else x


# -- numbers ---------------------------------------------------------------------------------------------------------


@case(*[(ones(4), {"n": n, "more": [n + 1, (n, 2.5 * n)]}) for n in (3, 4, 5)])
def numbers_nested_in_containers(x, table):
    n, (m, f) = table["n"], table["more"][1]
    return x * n + table["more"][0] - m * f


@program()
def a_number_in_a_closure():
    count = 3

    def f(x):
        return x * count

    def set_to(value):
        def call(compiled):
            nonlocal count
            count = value
            return compiled(ones(3))

        return call

    return f, [set_to(each) for each in (3, 4, 5, 6)]


@program()
def a_float_in_a_closure():
    rate = 0.5

    def f(x):
        return x * rate

    def set_to(value):
        def call(compiled):
            nonlocal rate
            rate = value
            return compiled(ones(3))

        return call

    return f, [set_to(each) for each in (0.5, 0.25, 0.125, 1.0)]


@program()
def a_float_global():
    def f(x):
        return x * LIMIT

    def set_to(value):
        def call(compiled):
            global LIMIT
            LIMIT = value
            return compiled(ones(3))

        return call

    return f, [set_to(each) for each in (0.5, 0.25, 0.125, 4)]


@program()
def a_float_of_a_module():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.rate = 0.5

        def forward(self, x):
            return x * self.rate

    net = Net()

    def set_to(value):
        def call(compiled):
            net.rate = value
            return compiled(ones(3))

        return call

    return net, [set_to(each) for each in (0.5, 0.25, 0.125)]


@program(config={"allow_unspec_int_on_nn_module": True})
def integers_of_a_module_with_the_setting():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Module()
            self.inner.step = 1

        def forward(self, x):
            self.inner.step += 1
            return x * self.inner.step

    return Net(), [(ones(2),)] * 5


@case(*[(ones(4), k) for k in (2, 3, 4, -5, 0, 1)])
def integers_with_a_branch(x, k):
    return x * k if k > 0 else x - k


@case(*[(ones(4), k) for k in (2, 3.0, 4, True, 2.5)])
def numbers_of_different_types(x, k):
    return x * k


@case(*[(ones(4), k) for k in (0.5, float("inf"), 0.75, float("nan"), 0.25)])
def special_floats(x, k):
    return x * k


@case(*[(ones(4), k) for k in (0.5, 0.25, 4.0, 3.5)])
def arithmetic_of_a_float(x, k):
    return x * (k + 1) / 2, k * 2, -k, k**2


@case(*[(ones(4), k) for k in (0.5, 0.25, 4.0, 3.5)])
def a_float_with_a_branch(x, k):
    return x * k if k > 1 else x - k


@case(*[(ones(4), k) for k in (0.5, 0.25, 4.0, 3.5)])
def a_float_to_math(x, k):
    return x * math.sin(k), math.floor(k), int(k)


@case(*[(ones(12), n) for n in (2, 3, 4, 6)])
def an_integer_as_a_size(x, n):
    return x.view(n, -1).sum(0), torch.zeros(n), x[:n]


@case(*[(ones(12), n) for n in (2, 3, 4, 6)])
def an_integer_as_a_dim_or_count(x, n):
    return [x * i for i in range(n)], x.repeat(n)


@case(*[(ones(4), n) for n in (2, 3, 4)])
def an_integer_is_returned(x, n):
    return x + 1, n, n + 1, (n, [n])


@case(*[(ones(n), n) for n in (3, 4, 5)], (ones(4), 5), (ones(6), 2))
def an_integer_equal_to_a_size(x, n):
    return x * n if x.shape[0] == n else x


@case(*[(ones(4), n, m) for n, m in ((3, 3), (4, 4), (4, 5))])
def two_equal_integers(x, n, m):
    return x * n + m


@case(*[(n,) for n in (3, 4, 5)])
def an_integer_alone(n):
    return torch.ones(n) * n


@case(*[(ones(4), n) for n in (2**40, 2**41, 2**62, 7)])
def large_integers(x, n):
    return x * n


# -- marks -----------------------------------------------------------------------------------------------------------


@program(oracle="torch.compile")
def marked_with_bounds():
    def f(x):
        return x * 2

    return f, [rejected(marked("mark_dynamic", (n, 3), 0, min=3, max=6)) for n in (4, 5, 6, 7)]


@program()
def marked_with_bounds_and_a_branch():
    def f(x):
        return x * 2 if x.shape[0] < 10 else x

    return f, [marked("mark_dynamic", (n, 3), 0, min=2, max=8) for n in (4, 8, 2)] + sizes((9, 3))


@program()
def two_dims_marked():
    def f(x):
        return x.view(-1)

    return f, [marked("mark_dynamic", shape, [0, 1]) for shape in ((4, 4), (4, 5), (6, 7))]


@program(oracle="torch.compile")
def marked_and_made_constant():
    def f(x):
        return x + torch.ones(5)

    return f, [rejected(marked("mark_dynamic", (5,), 0))]


@program(oracle="torch.compile")
def marked_and_compared_with_a_constant():
    def f(x):
        if x.shape[0] == 5:
            return x
        return x + 1

    return f, [rejected(marked("mark_dynamic", (5,), 0))]


@program(oracle="torch.compile")
def bounds_that_the_code_narrows():
    def f(x):
        return x * 2 if x.shape[0] > 6 else x

    return f, [rejected(marked("mark_dynamic", (n,), 0, min=2, max=16)) for n in (8, 5)]


@program()
def perhaps_dynamic():
    def f(x):
        return x + torch.ones(5)

    return f, [marked("maybe_mark_dynamic", (5,), 0), marked("maybe_mark_dynamic", (5,), 0)]


@program(dynamic=True)
def static_in_part():
    def f(x):
        return x * 2

    return f, [marked("mark_static", shape, 1) for shape in ((4, 5), (6, 5), (6, 7))]


@program(dynamic=True)
def static_altogether():
    def f(x):
        return x * 2

    return f, [marked("mark_static", shape) for shape in ((4, 5), (6, 5), (6, 7))]


@program()
def marked_unbacked():
    def f(x):
        return x * 2 + x.shape[0]

    return f, [unbacked((n,), 0) for n in (5, 1, 0, 9)]


@program()
def marked_unbacked_with_a_branch():
    def f(x):
        return x * 2 if x.shape[0] > 3 else x

    return f, [unbacked((n,), 0) for n in (5, 2)]


@program()
def marked_unbacked_and_checked():
    def f(x):
        torch._check(x.shape[0] < 10)
        return x * 2 if x.shape[0] < 12 else x

    return f, [unbacked((n,), 0) for n in (5, 0, 1)]


@program()
def marked_unbacked_and_viewed():
    def f(x):
        return x.view(-1) + 1, x.sum(0), x.reshape(x.shape[0] * 3)

    return f, [unbacked((n, 3), 0) for n in (5, 1, 7)]


@program()
def marked_unbacked_with_bounds():
    def f(x):
        return x * 2

    return f, [unbacked((n,), 0, min=2, max=8) for n in (5, 8)]


@program()
def unbacked_sizes_that_are_one():
    def f(x, y):
        return x + y

    def call(n):
        def run(compiled):
            x, y = ones(n), ones(n)
            torch._dynamo.decorators.mark_unbacked(x, 0, shape_id="b")
            torch._dynamo.decorators.mark_unbacked(y, 0, shape_id="b")
            return compiled(x, y)

        return run

    return f, [call(n) for n in (5, 1, 0, 9)]


@program()
def specialised_for_some_sizes():
    def f(x):
        return x * 2

    return f, [
        marked("mark_dynamic", (n,), 0, specialize_on=[lambda n: n == 8, lambda n: n == 16]) for n in (5, 8, 16, 5)
    ]


# -- sources ---------------------------------------------------------------------------------------------------------


def named(arguments, **settings):
    """A call with settings of ``torch.compiler.config``."""

    def call(compiled):
        with torch.compiler.config.patch(**settings):
            return compiled(*arguments)

    return call


@program()
def dynamic_by_name():
    def f(x):
        return x * x.shape[0]

    return f, [named(each, dynamic_sources="L['x']") for each in sizes((3, 4), (4, 5), (6, 6))]


@program(dynamic=False)
def dynamic_by_pattern():
    def f(x, k1, k2):
        return x * k1 + k2

    return f, [named((ones(3), n, n + 1), dynamic_sources=r"L\['k.*'\]") for n in (3, 4, 5)]


@program()
def dynamic_by_name_after_a_break():
    def f(x):
        x = x + 1
        torch._dynamo.graph_break()
        return x * x.shape[0]

    return f, [named(each, dynamic_sources="L['x']") for each in sizes(3, 4, 5)]


@program()
def unbacked_by_name():
    def f(x):
        return x * 2

    return f, [named(each, unbacked_sources="L['x']") for each in sizes(5, 1, 0, 3)]


# -- data-dependent sizes ---------------------------------------------------------------------------------------------


@case((arange(4.0),), (ones(4),), (torch.zeros(4),), config=DATA, fullgraph=True)
def nonzero_and_its_size(x):
    y = x.nonzero()
    return y * 2, y.shape[0], torch.ones(y.shape[0]) + 1


@case((arange(4.0),), (ones(4),), (torch.zeros(4),), config=DATA)
def masked_select_and_sum(x):
    y = x[x > 0]
    return y.sum(), torch.masked_select(x, x > 1) * 2


@case((arange(4),), (ones(4, dtype=torch.long),), config=DATA)
def unique_values(x):
    y = torch.unique(x)
    return y + 1, y.numel()


@case((arange(4.0),), (ones(4),), config=DATA)
def branch_on_the_size_of_nonzero(x):
    y = x.nonzero()
    return y if y.shape[0] > 2 else y * 2


@case((arange(4.0),), (ones(4),), config=DATA)
def nonzero_as_a_tuple(x):
    (i,) = torch.nonzero(x, as_tuple=True)
    return x[i] + 1


@case((torch.tensor([2, 3]),), (torch.tensor([1, 4]),), config=SCALARS)
def repeats_from_data(x):
    return x.repeat_interleave(x), torch.repeat_interleave(x, 2)


@case((torch.tensor(3), ones(8)), (torch.tensor(5), ones(8)), config=SCALARS, fullgraph=True)
def item_as_a_size(n, x):
    k = n.item()
    torch._check(k >= 0)
    torch._check(k <= x.shape[0])
    return x[:k] * 2, torch.zeros(k), x.narrow(0, 0, k)


@case((torch.tensor(3), ones(8)), (torch.tensor(5), ones(8)), config=SCALARS, fullgraph=True)
def item_with_is_size(n, x):
    k = n.item()
    torch._check_is_size(k)
    torch._check(k < 7)
    return torch.zeros(k) + 1, x * k


@case((torch.tensor([2, 3]), ones(5)), (torch.tensor([1, 4]), ones(5)), config=SCALARS, fullgraph=True)
def split_by_data(n, x):
    return torch.split(x, n.tolist())


@case((torch.tensor(3),), (torch.tensor(7),), config=SCALARS)
def branch_on_an_item(n):
    k = n.item()
    return torch.ones(2) * k if k > 5 else torch.ones(2)


@case((torch.tensor(3),), (torch.tensor(7),), config=SCALARS)
def arithmetic_on_items(n):
    k = n.item()
    return torch.ones(2) * (k * 2 + 1), k // 2, k % 3, -k, k / 2


@case((torch.tensor(0.5),), (torch.tensor(1.5),), config=SCALARS)
def a_float_item(n):
    k = n.item()
    return torch.ones(2) * (k * 2 + 1), k + 1


@case((torch.tensor(True),), (torch.tensor(False),), config=SCALARS)
def a_bool_item(n):
    k = n.item()
    return torch.ones(2) * k


@case((torch.tensor(True),), (torch.tensor(False),), config=SCALARS)
def branch_on_a_bool_item(n):
    return torch.ones(2) + 1 if n.item() else torch.zeros(2)


@case((torch.tensor(3),), (torch.tensor(3),), config=SCALARS)
def a_check_of_equality(n):
    k = n.item()
    torch._check(k == 3)
    return torch.ones(k) + torch.ones(3)


@case((torch.tensor(3),), (torch.tensor(30),), config=SCALARS, fullgraph=True)
def a_check_that_fails(n):
    k = n.item()
    torch._check(k < 10)
    return torch.ones(2) * k


@case((torch.tensor(3),), (torch.tensor(30),), config=SCALARS, fullgraph=True)
def a_check_with_a_message(n):
    k = n.item()
    torch._check(k < 10, lambda: "too large")
    return torch.ones(2) * k


@case((torch.tensor(3),), (torch.tensor(30),), config=SCALARS)
def an_assertion_about_an_item(n):
    k = n.item()
    assert k < 10
    return torch.ones(2) * k


@case((torch.tensor(3), ones(8)), (torch.tensor(5), ones(8)), config=SCALARS, fullgraph=True)
def questions_without_guards(n, x):
    k = n.item()
    torch._check(k >= 0)
    one = guard_or_false(k == 3)
    two = guard_or_true(k == 3)
    return x * one + two, statically_known_true(k >= 0)


@case(*sizes(3, 4, 5), dynamic=True)
def questions_about_backed_sizes(x):
    n = x.shape[0]
    return x * guard_or_false(n == 3), statically_known_true(n > 1), guard_size_oblivious(n == 1), guard_or_true(n > 3)


@case((torch.tensor(3), ones(8)), (torch.tensor(5), ones(8)), config=SCALARS, fullgraph=True)
def checks_combined(n, x):
    k = n.item()
    torch._check(sym_and(k >= 0, k < 8))
    torch._check(sym_or(k > 1, k == 0))
    return x[:k]


@case(*sizes(3, 4, 5), dynamic=True)
def symbolic_functions(x):
    n = x.shape[0]
    return (
        x * torch.sym_min(n, 4) + torch.sym_max(n, 4),
        torch.sym_not(n == 4),
        torch.sym_ite(n == 4, 1, 2),
        torch.sym_int(n / 2),
        torch.sym_float(n),
        torch.sym_sqrt(n),
        torch.sym_sum([n, n, 1]),
    )


@case((torch.tensor(3), ones(8)), (torch.tensor(5), ones(8)), config=SCALARS, fullgraph=True)
def symbolic_functions_of_an_item(n, x):
    k = n.item()
    return x * torch.sym_min(k, 4) + torch.sym_max(k, 4), torch.sym_ite(k == 4, 1, 2), torch.sym_float(k)


@case((torch.tensor([1, 2]), ones(8)), (torch.tensor([2, 2]), ones(8)), config=SCALARS, fullgraph=True)
def two_items_that_are_added(n, x):
    a, b = n[0].item(), n[1].item()
    torch._check(a >= 0)
    torch._check(b >= 0)
    return torch.ones(a) @ torch.ones(a), torch.cat([torch.ones(a), torch.ones(b)])


@case((torch.tensor(3), ones(8)), (torch.tensor(5), ones(8)), config=SCALARS)
def an_item_in_a_loop(n, x):
    for _ in range(n.item()):
        x = x + 1
    return x


@case((torch.tensor(1), ones(8)), (torch.tensor(2), ones(8)), config=SCALARS)
def an_item_as_an_index(n, x):
    k = n.item()
    return x[k] + 1, [1, 2, 3][k]


@case((torch.tensor(3), ones(8)), (torch.tensor(5), ones(8)), config=SCALARS)
def an_item_is_returned(n, x):
    return x + 1, n.item(), n.item() + 1


@case((torch.tensor(3), ones(8)), (torch.tensor(5), ones(8)))
def an_item_that_breaks(n, x):
    k = n.item()
    return x * k


@case((torch.tensor([True, False, True]), ones(3)), (torch.tensor([True, True, True]), ones(3)), config=DATA)
def boolean_masks(mask, x):
    y = x[mask]
    return y.shape[0] * 2, torch.cat([y, x])


# -- several frames ----------------------------------------------------------------------------------------------------


@case(*sizes(3, 4, 5, 1))
def sizes_across_a_break(x):
    n = x.shape[0]
    x = x + 1
    torch._dynamo.graph_break()
    return x * n


@case(*sizes(3, 4, 5), dynamic=True)
def symbols_across_a_break(x):
    n = x.shape[0] * 2
    torch._dynamo.graph_break()
    return torch.ones(n) * n, n


@program(dynamic=True)
def sizes_kept_in_a_module():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.seen = None

        def forward(self, x):
            self.seen = x.shape[0]
            return x * self.seen

    return Net(), sizes(3, 4, 5)


@program(dynamic=True)
def sizes_kept_in_a_list():
    seen = []

    def f(x):
        y = x * len(x)
        seen.append(x.shape[0])
        return y

    return f, sizes(3, 4, 5)


@case(*[([ones(n), ones(m)],) for n, m in ((3, 4), (5, 6), (7, 7), (2, 9))])
def tensors_in_a_list(xs):
    return torch.cat(xs) * sum(x.shape[0] for x in xs)


@case(*[({"a": ones(n), "b": (ones(m),)},) for n, m in ((3, 4), (5, 6), (7, 7))], dynamic=True)
def tensors_in_a_dict(table):
    return table["a"].sum() + table["b"][0] * table["a"].shape[0]


@case(*sizes((3, 0), (4, 0), (0, 3), (1, 3)), dynamic=True)
def sizes_zero_and_one(x):
    return x.sum(0), x.numel()


@case(*sizes((1, 3), (2, 3), (3, 3), (0, 3)))
def sizes_from_one(x):
    return x * 2


@case(*[(ones(n, 3, requires_grad=True),) for n in (2, 4, 5)])
def gradients_of_changing_sizes(x):
    return (x * x.shape[0]).sum()


@program()
def backward_inside_a_changing_batch():
    net = torch.nn.Linear(3, 2)

    def f(x):
        loss = net(x).pow(2).mean()
        return loss

    def call(n):
        def run(compiled):
            loss = compiled(ones(n, 3))
            loss.backward()
            gradient = net.weight.grad.clone()
            net.zero_grad()
            return loss, gradient

        return run

    return f, [call(n) for n in (2, 3, 4)]
