"""Unbacked numbers and sizes: they are computed from data, so their values are unknown while tracing."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch.fx.experimental.symbolic_shapes import (
    guard_or_false,
    guard_or_true,
    statically_known_true,
    sym_and,
    sym_or,
)

from tests.peer.program import case, program

ones, arange = torch.ones, torch.arange
SCALARS = {"capture_scalar_outputs": True}
DATA = {"capture_dynamic_output_shape_ops": True, "capture_scalar_outputs": True}
NUMBERS = ((torch.tensor([1, 2]), ones(8)), (torch.tensor([2, 3]), ones(8)))
"""Tensors with the sums 3 and 5."""


@case(*NUMBERS, config=SCALARS)
def number_times_tensor(n, x):
    return x * n.sum().item() + 1


@case(*NUMBERS, config=SCALARS)
def branch_on_a_number(n, x):
    k = n.sum().item()
    x = x + 1
    return x * k if k > 4 else x


@case(*NUMBERS, config=SCALARS, fullgraph=True)
def number_as_a_size(n, x):
    k = n.sum().item()
    return torch.zeros(k) + 1, torch.arange(k), torch.full((k, 2), 3)


@case(*NUMBERS, config=SCALARS, fullgraph=True)
def number_in_a_slice(n, x):
    k = n.sum().item()
    return x[:k] + 1, x[k:], x[1:k]


@case(*NUMBERS, config=SCALARS)
def number_as_an_index(n, x):
    k = n.sum().item()
    return x[k] + 1


@case(*NUMBERS, config=SCALARS, fullgraph=True)
def number_checked_from_both_sides(n, x):
    k = n.sum().item()
    torch._check(k >= 2)
    torch._check(k <= 6)
    return x.narrow(0, 0, k), torch.ones(k - 1), 1 if k > 1 else 0


@case(*NUMBERS, config=SCALARS, fullgraph=True)
def number_checked_by_another(n, x):
    a, b = n[0].item(), n[1].item()
    torch._check(a >= 0)
    torch._check(a < b)
    return x[:a] if b > a else x[:b], torch.ones(b - a)


@case(*NUMBERS, config=SCALARS, fullgraph=True)
def number_asserted(n, x):
    k = n.sum().item()
    assert k < 10
    assert k > 1, "too small"
    return x * k


@program(config=SCALARS, fullgraph=True)
def number_asserted_in_vain():
    def f(n):
        k = n.sum().item()
        torch._check(k < 10)
        return torch.ones(2) * k

    def call(compiled):
        try:
            return compiled(torch.tensor([9, 9]))
        except RuntimeError:
            return "rejected"

    return f, [(torch.tensor([1, 2]),), call]


@case(*NUMBERS, config=SCALARS, fullgraph=True)
def size_of_a_number(n, x):
    k = n.sum().item()
    torch._check_is_size(k)
    y = torch.ones(k)
    return y.shape[0], y.numel() + 1, y.sum() / y.shape[0]


@case(*NUMBERS, config=SCALARS, fullgraph=True)
def arithmetic_of_a_number(n, x):
    k = n.sum().item()
    return x * (k // 2), x + k % 2, x - k**2, x * (k / 2), -k, abs(k)


@case(*NUMBERS, config=SCALARS, fullgraph=True)
def smallest_and_largest(n, x):
    k = n.sum().item()
    return x * min(k, 4), x * max(k, 4), torch.sym_min(k, 2)


# guard_or_false of an unbacked number is False, guard_or_true is True; eager mode has the real answer.
@case(*NUMBERS, config=SCALARS, fullgraph=True, oracle="torch.compile")
def asked_without_failing(n, x):
    k = n.sum().item()
    torch._check(k >= 0)
    answers = guard_or_false(k == 3), guard_or_true(k == 3), statically_known_true(k > 7)
    return x + sum(int(each) for each in answers)


@case(*NUMBERS, config=SCALARS, fullgraph=True)
def checks_in_one(n, x):
    k = n.sum().item()
    torch._check(sym_and(k >= 1, k <= 8))
    torch._check(sym_or(k == 3, k == 5))
    return x[:k]


@case(*NUMBERS, config=SCALARS, fullgraph=True)
def numbers_in_a_list(n, x):
    a, b = n.tolist()
    return x.split([a, b, 8 - a - b])


@case(*NUMBERS, config=SCALARS)
def truth_of_an_element(n, x):
    return x + 1 if (n > 1).any().item() else x


@case(*NUMBERS, config=SCALARS, fullgraph=True)
def cond_on_a_number(n, x):
    k = n.sum().item()
    return torch.cond(k > 3, lambda y: y + 1, lambda y: y - 1, (x,))


@case(*NUMBERS, config=SCALARS, fullgraph=True)
def float_from_data(n, x):
    k = x.mean().item()
    return x * k, x + (k + 1) * 2


@case(*NUMBERS, config=SCALARS)
def int_and_float_of_a_tensor(n, x):
    return x * int(n.sum()), x * float(n[0])


@case(*NUMBERS, config=SCALARS)
def number_after_a_break(n, x):
    k = n.sum().item()
    x = x * k
    torch._dynamo.graph_break()
    return x + k


@case(*NUMBERS)
def number_without_the_setting(n, x):
    x = x + 1
    return x * n.sum().item()


@case(*NUMBERS)
def nonzero_without_the_setting(n, x):
    x = x + 1
    return x.nonzero() + 1


@case(*NUMBERS, config=SCALARS, fullgraph=True)
def view_with_a_number(n, x):
    k = n[1].item()
    torch._check(k > 0)
    return torch.zeros(k * 2).view(k, 2), torch.zeros(k * 2).view(2, -1), torch.ones(1).expand(k)


@case(*NUMBERS, config=SCALARS, fullgraph=True)
def joined_numbers(n, x):
    a, b = n[0].item(), n[1].item()
    return torch.cat([x, torch.zeros(a), torch.zeros(b)]), F.pad(x, (0, a))


@case((arange(4.0),), (ones(4),), (torch.zeros(4),), config=DATA, fullgraph=True)
def reductions_of_nonzero(x):
    y = x.nonzero()
    return y.sum(0), y.float().mean(), y.shape[0] * 2, y.flatten()


@case((arange(4.0),), (ones(4),), config=DATA, fullgraph=True)
def indices_from_data(x):
    y = torch.where(x > 0)[0]
    return x[y] * 2, x.index_select(0, y), x.scatter(0, y, 1.0)


@case((arange(4.0),), (ones(4),), config=DATA)
def filter_and_normalise(x):
    y = x[x > 0]
    return (y - y.mean()) / (y.std() + 1), torch.cat([y, x])


@case((arange(4),), (ones(4, dtype=torch.long),), config=DATA)
def unique_with_inverse(x):
    y, inverse = torch.unique(x, return_inverse=True)
    return y[inverse] - x, y.shape[0]


@case((arange(6).view(2, 3),), (arange(6).view(2, 3) - 2,), config=DATA, fullgraph=True)
def masked_rows(x):
    y = torch.masked_select(x, x > 1)
    torch._check(y.shape[0] > 0)
    return y.view(-1, 1) + x[0, 0]


@case((arange(4.0),), (ones(4),), config=DATA)
def size_of_nonzero_is_compared(x):
    y = x.nonzero()
    if y.shape[0] == 0:
        return x
    return y + 1


@case((arange(4.0),), (ones(4),), config=DATA)
def nonzero_twice(x):
    a, b = x.nonzero(), (x + 1).nonzero()
    return a.sum() + b.sum(), a.shape[0] + b.shape[0]


@case((ones(3), arange(3)), (ones(4), arange(4)), (ones(5), arange(5)), config=SCALARS)
def backed_and_unbacked_together(x, n):
    k = n.sum().item()
    torch._check(k >= x.shape[0] - 1)
    return x * k + x.shape[0], k + x.shape[0]


@case((torch.tensor(4), ones(8)), (torch.tensor(2), ones(8)), config=SCALARS)
def a_number_that_is_changed_first(n, x):
    n = n + 1
    n.add_(1)
    return x * n.item()


@case((torch.tensor(4), ones(8)), (torch.tensor(2), ones(8)), (torch.tensor(2), ones(8)), config=SCALARS)
def an_input_that_is_changed_first(n, x):
    n.add_(1)
    return x * n.item() if n.item() > 4 else x


@case((torch.tensor(4), ones(8)), (torch.tensor(2), ones(8)), config=SCALARS)
def an_input_that_is_read_twice(n, x):
    return x[: n.item()].sum() + n.item() if n.item() > 1 else x


@case((torch.tensor(4), ones(8)), (torch.tensor(2), ones(8)))
def an_input_that_is_an_index(n, x):
    return x[n] + 1, x[:n] + 1


@case((torch.tensor(4), ones(8)), (torch.tensor(2), ones(8)))
def an_input_that_is_a_size(n, x):
    return torch.zeros(n) + 1, x.narrow(0, n, 1)


@case((torch.tensor(4, dtype=torch.int32), ones(8)), (torch.tensor(2, dtype=torch.int32), ones(8)), config=SCALARS)
def a_number_of_another_type(n, x):
    return x * n.item()


@case(
    (torch.tensor(2.5, dtype=torch.float64), ones(8)), (torch.tensor(0.5, dtype=torch.float64), ones(8)), config=SCALARS
)
def a_float_in_a_tensor(n, x):
    k = n.item()
    return x * k if k > 1 else x - k
