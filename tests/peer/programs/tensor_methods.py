"""Methods and attributes of tensors, indexing with all kinds of values, gradients and NumPy in the function."""

import functools
import operator

import numpy as np
import torch

from tests.peer.program import program

ones, arange = torch.ones, torch.arange


@program()
def integer_operators_reflected():
    def f(x):
        return 5 >> x, 3 & x, 3 | x, 3 ^ x, 7 // (x + 1), 2**x, 7 % (x + 1), 1 + x, 2 - x, ~x, pow(x, 2)

    return f, [(arange(4),)]


@program()
def comparisons_reflected():
    def f(x):
        return 1 < x, 1 <= x, 1 > x, 1 >= x, 1 == x, 1 != x, x == None, x != None, None == x, x is None  # noqa: E711

    return f, [(arange(4),)]


@program()
def in_place_operators_of_every_kind():
    def f(x):
        y = x.clone()
        y //= 2
        y %= 3
        y <<= 1
        y >>= 1
        y &= 7
        y |= 8
        y ^= 1
        y @= torch.eye(2, dtype=torch.int64)
        return y

    return f, [(arange(4).view(2, 2),)]


@program()
def properties_of_a_matrix():
    def f(x):
        return x.T, x.mT, x.H, x.mH, x.real, x.is_leaf, x.itemsize, x.nbytes, x.data + 1, x.layout, x.is_sparse

    return f, [(arange(6.0).view(2, 3),)]


@program()
def complex_parts():
    def f(x):
        z = torch.complex(x, x * 2)
        return z.real, z.imag, z.abs(), z.conj(), z.is_complex(), torch.view_as_real(z)

    return f, [(arange(3.0),)]


@program()
def facts_by_method():
    def f(x):
        return (
            x.size(), x.size(-1), x.stride(0), x.numel(), x.nelement(), x.dim(), x.ndimension(), x.is_contiguous(), x.storage_offset(),
            x.get_device(), x.is_signed(), x.type(), x.element_size(), x.t().is_contiguous(), torch.numel(x),
        )  # fmt: skip

    return f, [(ones(2, 3),)]


@program()
def indexing_with_everything():
    def f(x, i, mask):
        return (
            x[0], x[-1], x[0, 1], x[:, 1], x[..., 0], x[None], x[1:, ::2], x[[0, 1]], x[i], x[:, i], x[i, i], x[[0, 1], [1, 2]],
            x[(slice(None), 0)], x[torch.tensor([0, 1])], x[True], x[mask.shape[0] - 2], x[..., None, :2],
        )  # fmt: skip

    return f, [(arange(12.0).view(3, 4), torch.tensor([0, 2]), torch.tensor([True, False, True]))]


@program()
def stores_with_everything():
    def f(x, i, mask):
        y = x.clone()
        y[0] = 1
        y[:, 1] = x[:, 2]
        y[..., -1] += 5
        y[i] = 7.0
        y[mask] = 0
        y[None, 0, 0] = 3
        y[1:, [0, 1]] = ones(2)
        return y

    return f, [(arange(12.0).view(3, 4), torch.tensor([0, 2]), torch.tensor([True, False, True]))]


@program()
def store_into_the_argument():
    def f(x, k):
        x[k] = 9
        x[-1] *= 2
        return x.sum()

    return f, [(arange(4.0), 1), (arange(4.0), 2)]


@program()
def out_arguments():
    def f(x, given):
        made = torch.empty(3)
        returned = torch.mul(x, 2, out=made)
        torch.add(x, 1, out=given)
        values, indices = torch.empty(0), torch.empty(0, dtype=torch.int64)
        torch.max(x.view(1, 3), 1, out=(values, indices))
        return made, returned is made, returned, values, indices

    return f, [(arange(3.0), ones(3))]


@program()
def out_argument_is_resized():
    def f(x):
        made = torch.empty(0)
        torch.add(x, 1, out=made)
        return made * 2

    return f, [(arange(3.0),)]


@program()
def in_place_methods_in_a_chain():
    def f(x):
        y = torch.zeros(3).add_(x).mul_(2).clamp_(min=1)
        z = y.fill_(3)
        return y, z, y is z

    return f, [(arange(3.0),)]


@program()
def requires_grad_of_a_new_tensor():
    def f(x):
        y = torch.zeros(3)
        return x + y.requires_grad_(False), y.requires_grad, x.requires_grad

    return f, [(arange(3.0),)]


@program()
def requires_grad_is_set():
    def f(x):
        y = x + 1
        z = y.detach().requires_grad_()
        return (z * 2).sum(), z.requires_grad

    return f, [(arange(3.0),)]


@program()
def detached_in_every_way():
    def f(x):
        y = x * 2
        return y.detach(), y.data, y.detach().clone(), y.detach_() if False else None, torch.detach(y), y.requires_grad

    return f, [(arange(3.0).requires_grad_(),)]


@program()
def gradient_of_an_argument():
    def f(x):
        return x * 2 if x.grad is None else x.grad * 3

    def after(compiled):
        x = arange(3.0).requires_grad_()
        (x * x).sum().backward()
        return compiled(x)

    return f, [(arange(3.0).requires_grad_(),), after]


@program()
def backward_of_an_argument_inside():
    def f(x):
        y = (x * x).sum()
        y.backward()
        return x.grad * 2

    return f, [(arange(3.0).requires_grad_(),)]


@program()
def grad_function_is_asked_for():
    def f(x):
        y = x * 2
        return y.grad_fn is None, y + 1

    return f, [(arange(3.0).requires_grad_(),), (arange(3.0),)]


@program()
def numpy_of_a_tensor():
    def f(x):
        return x.numpy() + 1, x * 2

    return f, [(arange(3.0),)]


@program(torch_differs="2.13 returns arrays in place of numpy scalars")
def numpy_array_as_an_argument():
    def f(a):
        return a * 2 + 1, a.shape, a.sum()

    return f, [(np.arange(3.0),)]


@program()
def numpy_functions():
    def f(a, x):
        b = np.sin(a) + np.ones(3)
        return torch.from_numpy(b) + x, b.T, b.dtype

    return f, [(np.arange(3.0), ones(3, dtype=torch.float64))]


@program()
def numpy_scalar_as_an_argument():
    def f(x, k):
        return x * k

    return f, [(arange(3.0), np.float64(2.0))]


@program()
def tensor_attributes_of_the_users_own():
    def f(x):
        x.note = "seen"
        x.times = x * 2
        return x.note, x.times + 1

    return f, [(arange(3.0),)]


@program()
def attributes_of_results():
    def f(x):
        y, z = x * 2, x + 1
        y.other = z
        y.notes = [x]
        return y, y.other is z, y.notes[0] is x

    return f, [(arange(3.0),)]


@program()
def tensor_attribute_is_asked_for():
    def f(x):
        return x * 2 if hasattr(x, "note") else x + getattr(x, "shift", 5)

    def noted(compiled):
        x = arange(3.0)
        x.note = 1
        return compiled(x)

    return f, [(arange(3.0),), noted]


@program()
def attributes_by_name():
    def f(x):
        return getattr(x, "shape"), getattr(x, "T"), getattr(x, "sum")(), getattr(torch, "sin")(x), hasattr(x, "sin")  # noqa: B009

    return f, [(arange(4.0).view(2, 2),)]


@program()
def methods_of_the_class():
    def f(x):
        return (
            torch.Tensor.add(x, 1),
            torch.Tensor.sum(x),
            [*map(torch.Tensor.sin, [x, x])],
            x.__add__(1),
            x.__radd__(1),
            x.__getitem__(0),
        )

    return f, [(arange(3.0),)]


@program()
def operator_module_on_tensors():
    def f(x):
        return (
            operator.add(x, 1), operator.sub(1, x), operator.iadd(x.clone(), 2), operator.getitem(x, 0), operator.lt(x, 1), operator.pow(x, 2),
            operator.and_(x > 0, x < 2), operator.invert(x > 0), operator.matmul(x, x), operator.truth([x]), operator.not_([x]),
            operator.abs(x), operator.pos(x), operator.inv(x > 0), operator.contains([1, 2], 2), operator.index(3), operator.is_(x, x),
        )  # fmt: skip

    return f, [(arange(3.0),)]


@program()
def getters_of_the_operator_module():
    class Pair:
        def __init__(self, a, b):
            self.a, self.b = a, b

    first, both, name = operator.itemgetter(0), operator.itemgetter(0, 1), operator.attrgetter("a")

    def f(x, pair):
        inner = operator.itemgetter(1)
        return (
            first([x, 2]), both([x, 2, 3]), name(pair), inner([x, x + 1]), operator.attrgetter("a", "b")(pair),
            operator.methodcaller("add", 1)(x), operator.methodcaller("sum", dim=0)(x), sorted([(2, "a"), (1, "b")], key=operator.itemgetter(0)),
        )  # fmt: skip

    return f, [(arange(3.0), Pair(1, ones(2)))]


@program()
def reduce_in_every_way():
    def f(xs):
        return (
            functools.reduce(lambda a, b: a * b, xs), functools.reduce(torch.add, xs, 1), functools.reduce(operator.mul, [2, 3]),
            functools.reduce(max, [1, 5, 3]),
        )  # fmt: skip

    return f, [([ones(2), arange(2.0)],)]


@program()
def sizes_are_used_as_tuples():
    def f(x):
        size = x.shape
        return (
            x.new_zeros(size), torch.zeros(*size), size + (1,), size[:1], size == (2, 3), size.numel(), list(size), len(size), tuple(size),
            torch.Size([1, 2]), x.view(size[::-1]),
        )  # fmt: skip

    return f, [(ones(2, 3),)]


@program()
def tensor_constructors():
    def f(x):
        return (
            torch.tensor([[1, 2], [3, 4]]), torch.tensor(3.5), torch.as_tensor([1, 2]), torch.tensor(True), torch.Tensor([1.0, 2.0]),
            torch.empty(2).fill_(1), torch.linspace(0, 1, 3), x.new_tensor([1.0]), x.new_full((2,), 5), torch.zeros_like(x), torch.FloatTensor([1.0]),
        )  # fmt: skip

    return f, [(ones(2),)]


@program()
def tensor_of_tensors():
    def f(x):
        return torch.tensor([x[0], x[1]]) + 1, torch.stack([x[0], x[1]])

    return f, [(arange(2.0),)]


@program(torch_differs="2.13 answers `tensor in list` with a tensor")
def tensor_in_a_list():
    def f(x, xs):
        return x in [x], xs.index(1), x is xs[0]

    return f, [(arange(3.0), [ones(1), 1])]


@program()
def abs_round_and_their_like():
    def f(x):
        return (
            abs(x),
            x.__abs__(),
            -x,
            +x,
            x.round(decimals=1),
            pow(x, 2),
            pow(2, x),
            max(x.shape),
            sum([x, x]),
            min(1, 2),
        )

    return f, [(arange(3.0) - 1.5,)]


@program()
def maximum_of_tensors_by_python():
    def f(x):
        y = x + 1
        return y, max(x.sum(), y.sum())

    return f, [(arange(3.0),)]


@program()
def numbers_from_a_tensor():
    def f(x):
        y = x + 1
        return y, int(x.sum()), float(x[0])

    return f, [(arange(3.0),)]


@program()
def length_and_iteration():
    def f(x):
        first, *rest = x
        return (
            len(x),
            first,
            rest,
            [row for row in x],
            list(x),
            tuple(x),
            dict(enumerate(x)),
            [a + b for a, b in zip(x, x)],
        )  # noqa: B905, C416

    return f, [(arange(6.0).view(3, 2),)]


@program()
def split_results_unpacked():
    def f(x):
        a, b = x.split([1, 2])
        (c,) = x.unbind(1)[:1]
        q, r = torch.linalg.qr(x)
        return a + 1, b, c, q @ r, torch.meshgrid(x[0], x[1], indexing="ij")[0], x.unbind()

    return f, [(arange(6.0).view(3, 2) + torch.eye(3, 2),)]


@program()
def keyword_arguments_of_methods():
    def f(x):
        return (
            x.sum(dim=0, keepdim=True),
            x.mean(axis=1),
            x.to(dtype=torch.float64),
            x.transpose(dim0=0, dim1=1),
            x.argmax(dim=-1),
            x.std(0, unbiased=False),
        )

    return f, [(arange(6.0).view(2, 3),)]


@program()
def operator_fails_on_the_shapes():
    def f(x, y):
        z = x + 1
        return z @ y

    return f, [(ones(2, 3), ones(2, 3))]


@program()
def number_functions_that_tensors_lack():
    def f(x):
        y = x + 1
        try:
            return round(y)
        except TypeError:
            return y * 2

    return f, [(ones(3),)]


@program()
def divmod_of_a_tensor():
    def f(x):
        y = x + 1
        return divmod(y, 2)

    return f, [(arange(3),)]


@program(torch_differs="2.13 adds its report to the message of the IndexError")
def index_out_of_range_on_a_tensor():
    def f(x):
        y = x + 1
        return y[7]

    return f, [(ones(3),)]


@program()
def copies_of_a_tensor():
    def f(x):
        y = x.clone()
        z = x.contiguous()
        y.copy_(x * 2)
        return y, z, torch.clone(x), x.type(torch.float64), x.long(), x.cpu(), x.view_as(y), x.expand_as(y)

    return f, [(arange(3.0),)]


@program()
def sequence_of_in_place_changes_of_a_view():
    def f(x):
        y = x.view(2, 2)
        y[0].add_(10)
        y.t()[1] *= 2
        return y

    return f, [(arange(4.0),)]


@program()
def argument_is_resized_or_set():
    def f(x):
        y = torch.zeros(2)
        y.resize_(3)
        y.zero_()
        y.set_(x.clone())
        return y + 1

    return f, [(arange(3.0),)]
