"""Errors for combinations of dtypes: the compiled function raises an error exactly where eager mode does."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import nbcompile
from nbcompile import config, errors
from nbcompile.tracing.graph import dtypes

ONE, TWO = torch.ones(3, 3), torch.ones(3, 3, dtype=torch.float64)
PROGRAMS = {
    "two dtypes": lambda a, b: a @ b,
    "mm": torch.mm,
    "mv": lambda a, b: a.mv(b[0]),
    "linear": F.linear,
    "bias": lambda a, b: F.linear(a, a, b[0]),
    "addmm": lambda a, b: torch.addmm(b, a, a),
    "converted": lambda a, b: a.double() @ b,
    "int32 classes": lambda a, b: F.cross_entropy(a, b[0].int()),
    "int64 classes": lambda a, b: F.cross_entropy(a, b[0].long()),
    "probabilities": lambda a, b: F.cross_entropy(a, b.float()),
}
REJECTED = {
    "softmax of bools": lambda a, b: torch.softmax(a > 0, -1),
    "log_softmax": lambda a, b: torch.log_softmax(b.long(), -1),
    "gelu": lambda a, b: F.gelu(b.long()),
    "silu": lambda a, b: F.silu(b.long()),
    "softplus": lambda a, b: F.softplus(b.long()),
    "layer_norm": lambda a, b: F.layer_norm(a, (3,), b[0], b[0]),
    "layer_norm of a half": lambda a, b: F.layer_norm(a.half(), (3,), b[0], b[0]),
    "batch_norm": lambda a, b: F.batch_norm(a, b[0], b[0]),
    "group_norm": lambda a, b: F.group_norm(a, 3, b[0], b[0]),
    "index_put": lambda a, b: torch.index_put(a, (torch.tensor([0]),), b[:1]),
    "written items": lambda a, b: a.clone().__setitem__(torch.tensor([0]), b[:1]),
    "index_add": lambda a, b: a.index_add(0, torch.tensor([0]), b[:1]),
    "index_copy": lambda a, b: a.index_copy(0, torch.tensor([0]), b[:1]),
    "binary_cross_entropy": lambda a, b: F.binary_cross_entropy(a, b.long()),
    "smooth_l1_loss": lambda a, b: F.smooth_l1_loss(a.long(), b.long()),
    "std": lambda a, b: b.long().std(),
    "mean": lambda a, b: b.long().mean(),
    "cdist": lambda a, b: torch.cdist(a, b.long()),
    "index_select": lambda a, b: torch.index_select(a, 0, b[0]),
    "gather": lambda a, b: a.gather(0, b),
    "gather of int16": lambda a, b: a.gather(0, b.short()),
    "scatter": lambda a, b: a.scatter(0, b, a),
    "and": lambda a, b: a & b,
    "xor": lambda a, b: a ^ b,
    "shift": lambda a, b: a << b,
    "interpolate": lambda a, b: F.interpolate(b.long()[None], scale_factor=2, mode="linear"),
    "grid_sample": lambda a, b: F.grid_sample(a[None, None], b[None, None, :, :2]),
    "multinomial": lambda a, b: torch.multinomial(b.long(), 1),
    "large": lambda a, b: F.gelu(b.long().repeat(100, 10)),
    "large norm": lambda a, b: F.layer_norm(a.repeat(100, 20), (60,), b[0].repeat(20), b[0].repeat(20)),
    "convolution": lambda a, b: F.conv2d(a[None, None], b[None, None]),
    "complex number added in place": lambda a, b: a.clone().add_(1 + 2j),
    "complex number multiplied in place": lambda a, b: a.clone().mul_(1j),
    "complex number subtracted in place": lambda a, b: a.clone().__isub__(1j),
    "complex divisor in place": lambda a, b: a.clone().div_(1j),
    "complex number added to doubles in place": lambda a, b: b.clone().add_(1j),
    "complex number for many": lambda a, b: torch._foreach_add_([a.clone()], 1j),
}
PROGRAMS |= REJECTED


def outcome(function):
    with config.patch(suppress_errors=True):
        try:
            return function(ONE, TWO)
        except RuntimeError as error:
            return str(error)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_rejection_is_eagers(name):
    """The result equals eager mode's, or the error has the same text."""
    nbcompile.reset()
    wanted, got = outcome(PROGRAMS[name]), outcome(nbcompile.compile(PROGRAMS[name], backend="eager"))
    assert type(wanted) is type(got)
    assert wanted == got if isinstance(wanted, str) else torch.equal(wanted, got)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", REJECTED)
def test_a_rejection_is_known_before_the_graph_runs(name):
    """The backend does not run an operator that eager mode rejects, because its kernel might accept it."""
    nbcompile.reset()
    with pytest.raises(errors.NbcompileError):
        nbcompile.compile(REJECTED[name], backend="eager", fullgraph=True)(ONE, TWO)


def test_a_trial_draws_nothing():
    """A trial run of an operator takes no random numbers from the program's generator."""
    nbcompile.reset()
    dtypes.DtypeTrial.messages.clear()
    results = []
    for function in (draw, nbcompile.compile(draw, backend="eager", fullgraph=True)):
        torch.manual_seed(0)
        results.append((function(ONE.half()), torch.rand(3)))
    assert all(torch.equal(*pair) for pair in zip(*results, strict=True))


def test_a_trial_allocates_little():
    """A trial run creates no large result, although a number among the arguments may be a size."""
    dtypes.DtypeTrial.messages.clear()
    one = torch.ones(3, dtype=torch.int64)
    peaks = []
    for size in (10, 100_000):
        with torch.profiler.profile(profile_memory=True) as profile:
            dtypes._try(torch.ops.aten.new_full.default, (one, (size, size), 1), {})
        peaks.append(max(event.cpu_memory_usage for event in profile.events()))
    assert max(peaks) <= 8 * dtypes._LARGE_RESULT


def draw(probabilities):
    return torch.bernoulli(probabilities / 2) + torch.rand_like(probabilities)


def test_what_is_about_values_or_sizes_is_no_rejection():
    """A singular matrix or a wrong size in a trial run, which uses zeros and small tensors, breaks no graph."""
    nbcompile.reset()
    compiled = nbcompile.compile(lambda a: torch.linalg.inv(a), backend="eager", fullgraph=True)
    matrix = torch.eye(3, dtype=torch.complex64)
    assert torch.equal(compiled(matrix), matrix)
    grouped = nbcompile.compile(lambda a, b: F.group_norm(a, 32, b, b), backend="eager", fullgraph=True)
    values = torch.rand(4, 96, 20).bfloat16(), torch.rand(96)
    assert torch.equal(grouped(*values), F.group_norm(values[0], 32, values[1], values[1]))


def test_autocast_converts_first():
    """Autocast converts the operands first, so a product of two dtypes is no error."""
    nbcompile.reset()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        compiled = nbcompile.compile(lambda a, b: F.linear(a, b), backend="eager", fullgraph=True)
        assert torch.equal(compiled(ONE, ONE.bfloat16()), F.linear(ONE, ONE.bfloat16()))
