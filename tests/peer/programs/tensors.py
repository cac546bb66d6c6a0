"""Functions, methods and operators of tensors (also reflected and in-place ones), facts about tensors."""

import torch
import torch.nn.functional as F

from tests.peer.program import program

ones, arange = torch.ones, torch.arange
SCALE = torch.full((3,), 2.0)


@program()
def classes_as_dtypes():
    def f(x):
        return x + torch.zeros(3, dtype=int), x.to(float), torch.ones(2, dtype=bool)

    return f, [(ones(3),)]


@program()
def functions_in_a_row():
    def f(x):
        return torch.relu(torch.sin(x) + torch.cos(x))

    return f, [(arange(4.0),)]


@program()
def methods_in_a_row():
    def f(x):
        return x.abs().clamp(max=2).sum(dim=0, keepdim=True)

    return f, [(arange(4.0),)]


@program()
def operators_of_every_arity():
    def f(x, y):
        return (-x + y * 2 - y / 3) ** 2 % 5 // 1, ~(x > y), x @ y, (x >= 1) & (y < 2) | (x == y) ^ (x != y)

    return f, [(arange(3.0), ones(3))]


@program()
def reflected_operators():
    def f(x):
        return 1 - x, 2 / (x + 1), 3**x, 2.0 * x, 7 + x, 5 > x, 1 // (x + 1), 3 % (x + 1)

    return f, [(arange(3.0),)]


@program()
def integer_operators():
    def f(x):
        return x << 1, x >> 1, x & 3, x | 4, x ^ 1, 1 << x, -x, +x, abs(x)

    return f, [(arange(4),)]


@program()
def in_place_operators_on_a_temporary():
    def f(x):
        y = x.clone()
        y += 1
        y *= x
        y -= 2
        y /= 4
        y **= 2
        return y

    return f, [(arange(3.0),)]


@program()
def in_place_operator_on_an_argument():
    def f(x):
        x += 1
        return x * 2

    return f, [(arange(3.0),)]


@program()
def in_place_method_on_an_argument():
    def f(x):
        x.add_(1)
        x.mul_(2)

    return f, [(arange(3.0),)]


@program()
def rebinding_a_name_is_not_mutation():
    def f(x):
        x = x + 1
        x = x * x
        return x

    return f, [(arange(3.0),)]


@program()
def item_read_and_written():
    def f(x):
        y = x.clone()
        y[0] = 7
        y[1:] += x[:-1]
        return y[..., None], y[x > 0.5] if False else y[[0, 1]], x[-1]

    return f, [(arange(3.0),)]


@program()
def views_share_memory_with_the_argument():
    def f(x):
        return x.view(-1), x.t(), x[0], x.unsqueeze(0)

    return f, [(ones(2, 3),)]


@program()
def argument_returned_as_it_is():
    def f(x, y):
        return x, y + 1, x

    return f, [(ones(2), ones(2))]


@program()
def result_returned_twice_is_one_tensor():
    def f(x):
        y = x * 2
        return y, [y, y]

    return f, [(ones(2),)]


@program()
def one_tensor_for_two_arguments():
    def f(x, y):
        return x + y

    def twice(compiled):
        x = ones(3)
        return compiled(x, x)

    return f, [(ones(3), ones(3)), twice, (ones(3), ones(3))]


@program()
def global_tensor_is_an_input():
    def f(x):
        return x * SCALE

    return f, [(ones(3),)]


@program()
def creation_functions():
    def f(x):
        return torch.zeros(3), torch.ones_like(x), torch.arange(4), torch.full((2,), 3.0), torch.eye(2), x.new_zeros(2)

    return f, [(ones(3),)]


@program()
def tensor_from_a_list():
    def f(x):
        return x + torch.tensor([1.0, 2.0, 3.0]), torch.tensor(5) + x

    return f, [(ones(3),)]


@program()
def facts_of_a_tensor():
    def f(x):
        if x.dtype is torch.float32 and x.device.type == "cpu" and x.ndim == 2 and x.dim() == 2:
            return x * x.numel() + x.size(0) - x.shape[1] + x.element_size()
        return x

    return f, [(ones(2, 3),), (ones(2, 3).double(),)]


@program()
def facts_are_returned():
    def f(x):
        return x + 1, x.shape, x.dtype, x.device, x.ndim, x.requires_grad, x.is_floating_point(), x.stride()

    return f, [(ones(2, 3),)]


@program()
def shape_unpacked():
    def f(x):
        rows, columns = x.shape
        return x.reshape(columns, rows) * rows + len(x)

    return f, [(ones(2, 3),)]


@program()
def reshaping_by_sizes():
    def f(x):
        b, *rest = x.shape
        return (
            x.view(b, -1),
            x.view(-1, x.size(-1)),
            x.permute(0, 2, 1).reshape(b, -1),
            x.flatten(1),
            x.expand(4, *x.shape),
        )

    return f, [(arange(24.0).view(2, 3, 4),)]


@program()
def several_results_of_one_operator():
    def f(x):
        values, indices = x.max(dim=1)
        a, b = x.chunk(2)
        best = torch.topk(x, 2)
        return values + indices, a - b, best.values, best[1]

    return f, [(arange(8.0).view(2, 4),)]


@program()
def named_result_returned_whole():
    def f(x):
        return torch.max(x, dim=0), x.split(1)

    return f, [(arange(4.0).view(2, 2),)]


@program()
def concatenating_lists_of_tensors():
    def f(xs):
        return torch.cat(xs), torch.stack([x + 1 for x in xs]), torch.cat([*xs, xs[0]], dim=-1)

    return f, [([ones(2), arange(2.0)],)]


@program()
def functional_operators():
    def f(x, w):
        return (
            F.softmax(F.linear(x, w), dim=-1),
            F.gelu(x),
            F.layer_norm(x, (3,)),
            F.pad(x, (1, 1)),
            F.relu(x, inplace=False),
        )

    return f, [(ones(2, 3), ones(4, 3))]


@program()
def einsum_where_and_masks():
    def f(x):
        return torch.einsum("ij,kj->ik", x, x), torch.where(x > 1, x, 0.0), x.masked_fill(x > 1, -1), x.tril()

    return f, [(arange(4.0).view(2, 2),)]


@program()
def out_argument():
    def f(x):
        y = torch.empty(3)
        torch.add(x, 1, out=y)
        return y

    return f, [(ones(3),)]


@program()
def conversions():
    def f(x):
        return x.to(torch.float64), x.half(), x.to("cpu"), x.int(), x.type_as(x), x.float(), x.bool()

    return f, [(ones(3),)]


@program()
def random_numbers():
    def f(x):
        return x + torch.rand(3), F.dropout(x, 0.5), torch.randn_like(x)

    return f, [(ones(3),), (ones(3),)]


@program()
def detach_and_requires_grad():
    def f(x):
        return (x * 2).detach(), (x * 3).sum(), x.data

    return f, [(ones(3, requires_grad=True),), (ones(3),)]


@program()
def backward_outside_of_the_function():
    def f(x):
        return (x * x).sum()

    def step(compiled):
        x = arange(3.0).requires_grad_()
        compiled(x).backward()
        return x

    return f, [step, step]


@program()
def gradient_inside_the_function():
    def f(x):
        y = (x * x).sum()
        (g,) = torch.autograd.grad(y, x)
        return g

    return f, [(arange(3.0).requires_grad_(),)]


@program()
def numpy_and_back():
    def f(x):
        return torch.from_numpy(x.numpy() * 2) + 1

    return f, [(arange(3.0),)]


@program()
def tensor_used_as_a_truth_value_of_its_shape():
    def f(x, xs):
        return x + len(xs) if xs and x.shape else x

    return f, [(ones(2), [1]), (ones(2), [])]


@program()
def no_operator_at_all():
    def f(x, n):
        return n + 1

    return f, [(ones(2), 1), (ones(2), 2)]


@program()
def nothing_but_the_argument():
    def f(x):
        return x

    return f, [(ones(2),)]


@program()
def iterating_over_a_tensor():
    def f(x):
        total = 0
        for row in x:
            total = total + row.sum()
        a, b = x
        return total, a * b

    return f, [(arange(6.0).view(2, 3),)]


@program()
def operator_that_does_not_exist():
    def f(x):
        return x.no_such_method()

    return f, [(ones(2),)]


@program()
def wrong_number_of_arguments():
    def f(x):
        y = x + 1
        return torch.sin(y, y)

    return f, [(ones(2),)]
