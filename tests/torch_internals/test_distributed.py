"""What DistributedDataParallel says of its gradients."""

import torch

from nbcompile import torch_internals


def test_bytes_of_gradients():
    """A parameter's gradient is sent unless it needs none, or DDP ignores it; an input's is not."""
    parameter = torch.nn.Parameter(torch.ones(2, 3))
    assert torch_internals.sent_bytes(parameter) == 24
    assert torch_internals.sent_bytes(parameter.detach()) == 0
    assert torch_internals.sent_bytes(torch.nn.Parameter(torch.ones(2), requires_grad=False)) == 0
    parameter._ddp_ignored = True
    assert torch_internals.sent_bytes(parameter) == 0


def test_no_module_runs():
    """Outside of a DDP module's forward no bucket is to be filled."""
    assert torch_internals.bucket_bytes() == 0
