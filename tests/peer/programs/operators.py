"""Special cases of torch's namespaces that torch's operator database contains."""

import torch
import torch.nn.functional as F

from tests.peer.program import case, program

arange = torch.arange
SPARSE = arange(4.0).to_sparse()


@program()
def windows_of_signals():
    def f(x):
        return x * torch.signal.windows.hann(4) + torch.signal.windows.kaiser(4, beta=2.0)

    return f, [(arange(4.0),)]


@program()
def masked_reductions():
    def f(x):
        mask = x > 1
        return torch.masked.sum(x, 0, mask=mask), torch.masked.softmax(x, 0, mask=mask)

    return f, [(arange(4.0),)]


@program()
def operator_with_a_module_as_argument():
    distance = torch.nn.PairwiseDistance()

    def f(x):
        return F.triplet_margin_with_distance_loss(x, x + 1, x - 1, distance_function=distance)

    return f, [(arange(8.0).view(2, 4),)]


@program()
def operators_by_their_inner_name():
    def f(x):
        return torch._C._VariableFunctions.rsub(x, 2)

    return f, [(arange(4.0),)]


@program()
def sparse_tensor_on_the_way():
    def f(x):
        return (x + 1).to_sparse().to_dense() * 2

    return f, [(arange(4.0),)]


@program()
def sparse_tensor_from_outside():
    def f(x):
        return SPARSE.to_dense() * 2 + x

    return f, [(arange(4.0),)]


@program()
def split_at_places_that_are_data():
    def f(x, places):
        first, *rest = torch.tensor_split(x + 1, places)
        return first * 2, rest

    return f, [(arange(8.0), torch.tensor([2, 5]))]


@case((torch.ones(1, 1, 4, 4),))
def what_eager_rejects_as_not_implemented(x):
    y = x + 1
    return F.pad(y, (1, 1), mode="reflect")


@program()
def an_operator_without_fake_kernel():
    if not hasattr(torch.ops.peer_programs, "thrice"):
        library = torch.library.Library("peer_programs", "FRAGMENT")
        library.define("thrice(Tensor x) -> Tensor")
        library.impl("thrice", lambda x: x * 3, "CPU")
        torch.ops.peer_programs.library = library  # without a reference the library is deleted

    def f(x):
        y = x + 1
        return torch.ops.peer_programs.thrice(y) + 1

    return f, [(torch.ones(3),)]


@program()
def a_quantized_tensor_is_made_and_read():
    def f(x):
        return torch.quantize_per_tensor(x * 2, 0.1, 0, torch.qint8).dequantize() + 1

    return f, [(torch.arange(6.0),), (torch.arange(6.0) + 1,)]


@program()
def quantized_per_channel():
    scales, zeros = torch.tensor([0.1, 0.2]), torch.tensor([0, 3])

    def f(x):
        y = torch.quantize_per_channel(x * 2, scales, zeros, 0, torch.qint8)
        return y.dequantize() + 1

    return f, [(torch.arange(6.0).reshape(2, 3),)]


@program()
def a_quantized_argument():
    def f(q, x):
        y = x * 2
        return q.dequantize() + y, q.int_repr() * 2

    return f, [(torch.quantize_per_tensor(torch.arange(3.0), 0.1, 0, torch.quint8), torch.ones(3))]


@program()
def a_tensor_through_dlpack():
    def f(x):
        y = x * 2
        return torch.from_dlpack(y) + 1

    return f, [(torch.arange(3.0),), (torch.arange(4.0),)]
