"""Fixtures for this folder: each test starts without compiled code and with torch's default settings."""

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
