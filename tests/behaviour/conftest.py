"""Each test of this folder starts with nothing compiled and torch's settings as they are by default."""

import pytest
import torch._dynamo

import nbcompile


@pytest.fixture(autouse=True)
def nothing_compiled_before():
    nbcompile.reset()
    torch.manual_seed(0)
    with nbcompile.config.patch():
        yield
    nbcompile.reset()
