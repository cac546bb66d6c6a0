"""Functions that change the state of the process."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import nbcompile


@pytest.fixture(autouse=True)
def as_before():
    """A fixture that restores the default dtype, the default device and the determinism setting."""
    dtype = torch.get_default_dtype()
    yield
    torch.set_default_dtype(dtype)
    torch.set_default_device(None)
    torch.use_deterministic_algorithms(False)


def state():
    return (
        torch.get_default_dtype(), torch.get_default_device(), torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(), torch.is_grad_enabled(),
    )  # fmt: skip


def both(function):
    """The results of eager mode and of compiled code, each with the state of the process afterwards."""
    seen = []
    for called in (function, nbcompile.compile(function, backend="eager", fullgraph=True)):
        for _ in range(2):
            torch.set_default_dtype(torch.float32)
            torch.set_default_device(None)
            torch.use_deterministic_algorithms(False)
            with torch.enable_grad():
                result = called(torch.ones(2))
                seen.append((str(result), state()))
    return seen


def default_dtype(x):
    torch.set_default_dtype(torch.float64)
    return x + 1, torch.ones(1), torch.get_default_dtype()


def default_device(x):
    torch.set_default_device("meta")
    return x + 1, torch.ones(1).device, torch.get_default_device()


def no_default_device(x):
    torch.set_default_device("meta")
    torch.set_default_device(None)
    return x + 1, torch.ones(1).device, torch.get_default_device()


def deterministic(x):
    torch.use_deterministic_algorithms(True, warn_only=True)
    return x + 1


def grad_mode(x):
    torch._C._set_grad_enabled(False)
    return x + 1, torch.is_grad_enabled()


@pytest.mark.parametrize("function", [default_dtype, default_device, no_default_device, deterministic, grad_mode])
def test_results_and_state_are_eagers(function):
    """One graph serves both calls, and code after the change sees the new state."""
    first, second, compiled, again = both(function)
    assert compiled == first
    assert again == second


def test_attention_backends_are_those_of_the_block():
    """The setting is active inside the block; afterwards all backends are allowed as before."""

    def f(q):
        with sdpa_kernel(SDPBackend.MATH):
            inside = torch.nn.attention._cur_sdpa_kernel_backends()
            y = torch.nn.functional.scaled_dot_product_attention(q, q, q)
        return y, inside

    q = torch.randn(1, 2, 4, 8)
    before = torch.nn.attention._cur_sdpa_kernel_backends()
    found, inside = nbcompile.compile(f, backend="eager", fullgraph=True)(q)
    torch.testing.assert_close(found, f(q)[0])
    assert inside == [SDPBackend.MATH]
    assert torch.nn.attention._cur_sdpa_kernel_backends() == before
