"""The names of kernels: they contain operators if a GPU's profiler prints them."""

from __future__ import annotations

import pytest
import torch

from nbcompile.scheduling.kernel_names import kernel_name

CUDA = torch.device("cuda", 0)


@pytest.mark.parametrize(
    ("nodes", "name"),
    [
        (("softmax",), "triton_softmax_3"),
        (("_softmax_2",), "triton_softmax_3"),
        (("mul", "add_1", "add_2", "relu"), "triton_mul_add_relu_3"),
        (("sub", "exp", "sum_1", "log", "neg", "div"), "triton_sub_exp_neg_div_3"),
        (("a.b", "_to_copy"), "triton_a_b_to_copy_3"),
        ((), "triton_3"),
    ],
)
def test_a_kernel_of_a_gpu_is_named_by_its_operators(nodes, name):
    """A name has each operator once, without its overload; of many the first and the last; it is an identifier."""
    assert kernel_name(3, CUDA, nodes) == name
    assert name.isidentifier()


def test_a_kernel_of_the_cpu_has_a_number():
    """A CPU kernel has a number: its range in a profile names the operators."""
    assert kernel_name(3, torch.device("cpu"), ("softmax",)) == "kernel3"
