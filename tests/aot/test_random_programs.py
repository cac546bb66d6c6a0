"""Random programs with mutation and aliasing give eager's results through the whole compiler.

Inputs of every layout (strided, overlapping, channels-last, empty, without dimensions), views of views, in-place
operators on them, ``out=`` (contiguous: others break the graph, as in torch), and results that are views of inputs: the
values, the strides, what shares memory with what, the inputs afterwards, and the gradients.
"""

from __future__ import annotations

import warnings

import pytest
import torch
from hypothesis import HealthCheck, given, settings, strategies as st

import nbcompile
from nbcompile.errors import GeneratedCodeWarning

SHAPES = [(), (0,), (1,), (7,), (3, 5), (2, 0), (4, 1), (2, 3, 4), (2, 3, 4, 5)]
LAYOUTS = ["contiguous", "transposed", "every second", "overlapping", "channels last", "shifted"]
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool]


def number(x):
    return x.int() if x.dtype == torch.bool else x


POINTWISE = {
    "plus one": lambda x: number(x) + 1, "doubled": lambda x: number(x) * 2, "float": lambda x: x.float(),
    "positive": lambda x: x > 0, "clone": lambda x: x.clone(), "minus": lambda x: -number(x),
    "contiguous": lambda x: x.contiguous(), "sigmoid": lambda x: x.float().sigmoid(),
    "zeros": lambda x: torch.zeros_like(x), "sum": lambda x: number(x).sum(), "running": lambda x: number(x).cumsum(-1),
    "stacked": lambda x: torch.stack([x, x]), "joined": lambda x: torch.cat([x.flatten(), x.flatten()]),
    "largest": lambda x: x.amax() if x.numel() else x.sum(), "added out": lambda x: torch.add(number(x), 2, out=number(x).new_empty(x.shape)),
    "where": lambda x: torch.where(x > 0, x, torch.ones_like(x)), "mean": lambda x: x.float().mean(-1, keepdim=True),
}  # fmt: skip
VIEWS = {
    "itself": lambda x: x, "turned": lambda x: x.mT if x.dim() > 1 else x, "tail": lambda x: x[1:] if x.dim() else x,
    "every second": lambda x: x[..., ::2] if x.dim() else x, "first": lambda x: x[0] if x.dim() and x.shape[0] else x,
    "new axis": lambda x: x.unsqueeze(0), "flat": lambda x: x.reshape(-1), "wide": lambda x: x.expand(2, *x.shape),
    "alike": lambda x: x.view_as(x), "ends": lambda x: x.narrow(0, 0, min(2, x.shape[0])) if x.dim() else x,
    "split": lambda x: x.chunk(2)[0] if x.dim() and x.shape[0] else x, "detached": lambda x: x.detach(),
    "diagonal": lambda x: x.diagonal() if x.dim() > 1 else x, "squeezed": lambda x: x.squeeze(),
}  # fmt: skip
CHANGES = {
    "add_": lambda x: x.add_(1), "mul_": lambda x: x.mul_(2), "zero_": lambda x: x.zero_(), "fill_": lambda x: x.fill_(1),
    "copy_": lambda x: x.copy_(torch.ones_like(x)), "set item": lambda x: x.__setitem__(..., 1),
    "set first": lambda x: x.__setitem__(0, 0) if x.dim() and x.shape[0] else None, "masked_fill_": lambda x: x.masked_fill_(x > 0, 0),
    "relu out": lambda x: torch.neg(x, out=x) if x.dtype != torch.bool and x.is_contiguous() else None,
}  # fmt: skip


def made(shape, layout, dtype, generator):
    """A tensor of small integers with random strides."""
    if layout == "overlapping":
        shape = (*shape[:-1], 1) if shape else shape
    numbers = torch.randint(-4, 5, shape, generator=generator).to(dtype)
    match layout:
        case "transposed" if len(shape) > 1:
            return numbers.mT.contiguous().mT
        case "every second" if shape:
            return torch.stack([numbers, numbers], -1).flatten(-2)[..., ::2]
        case "overlapping" if shape:
            return numbers.expand(*shape[:-1], 3)
        case "channels last" if len(shape) == 4:
            return numbers.contiguous(memory_format=torch.channels_last)
        case "shifted":
            return torch.cat([numbers.new_zeros(3), numbers.flatten()])[3:].view(shape)
    return numbers


@st.composite
def programs(draw):
    """Inputs, steps, and the indices of the returned values."""
    inputs = [
        (
            draw(st.sampled_from(SHAPES)),
            draw(st.sampled_from(LAYOUTS)),
            draw(st.sampled_from(DTYPES)),
            draw(st.booleans()),
        )
        for _ in range(draw(st.integers(1, 2)))
    ]
    steps = []
    for known in range(len(inputs), len(inputs) + draw(st.integers(2, 7))):
        table = draw(st.sampled_from([POINTWISE, VIEWS, VIEWS, CHANGES]))
        steps.append((draw(st.sampled_from(sorted(table))), draw(st.integers(0, known - 1))))
    count = len(inputs) + len(steps)
    returned = draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=3, unique=True))
    return inputs, steps, returned, draw(st.integers(0, 1000)), draw(st.sampled_from([None, True]))


def observed(function, inputs):
    """All that a caller can see: results, aliasing, mutated inputs, gradients."""
    results = function(*inputs)
    tensors = [*results, *inputs]
    places = [each.untyped_storage().data_ptr() if each.numel() else None for each in tensors]
    shared = [[one is not None and one == two for two in places] for one in places]
    facts = [(each.dtype, each.shape, each.requires_grad, _strides(each)) for each in tensors]
    values = [each.detach().clone() for each in tensors]
    learning = [each for each in inputs if each.is_leaf and each.requires_grad]
    outputs = [each.float().sum() for each in results if each.requires_grad]
    gradients = torch.autograd.grad(sum(outputs), learning, allow_unused=True) if outputs and learning else ()
    return facts, shared, values, [torch.tensor(0.0) if each is None else each.float().sum() for each in gradients]


def _strides(tensor):
    return (
        [step for step, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1] if tensor.numel() else []
    )


def check(program):
    """Assert that compiled and eager runs agree, or that eager mode rejects the program."""
    kinds, steps, returned, seed, dynamic = program

    def function(*inputs):
        values = list(inputs)
        for name, at in steps:
            if name in CHANGES:
                CHANGES[name](values[at])
                values.append(values[at])
            else:
                values.append((POINTWISE | VIEWS)[name](values[at]))
        return [values[at] for at in returned]

    def inputs():
        generator = torch.Generator().manual_seed(seed)
        given_tensors = [made(*kind[:3], generator) for kind in kinds]
        return [
            each.requires_grad_() if learns and each.dtype.is_floating_point else each
            for each, (*_, learns) in zip(given_tensors, kinds, strict=True)
        ]

    try:
        expected = observed(function, inputs())
    except (RuntimeError, IndexError):
        return  # a leaf mutated in place, or a write to overlapping memory
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", GeneratedCodeWarning)  # an error of the compiler, though the result is right
            found = observed(nbcompile.compile(function, fullgraph=True, dynamic=dynamic), inputs())
    finally:
        nbcompile.reset()
    assert found[:2] == expected[:2]
    torch.testing.assert_close(found[2:], expected[2:], equal_nan=True)


QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large]


@settings(max_examples=6, suppress_health_check=QUIET)
@given(programs())
def test_random_programs(program):
    """A few random programs with a fixed seed."""
    check(program)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@settings(max_examples=200, derandomize=False, suppress_health_check=QUIET)
@given(programs())
def test_many_random_programs(program):
    """Many random programs with new seeds, for about three minutes."""
    check(program)
