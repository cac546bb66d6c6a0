"""The self-test of the C files succeeds in any state of torch at the first call, and runs once in a process."""

import pytest

from tests.support.processes import python

STATES = (
    "torch.no_grad()", "torch.inference_mode()", "torch.device('meta')", "torch.autocast('cpu')",
    "torch.autograd.graph.saved_tensors_hooks(id, id)", "torch.overrides.BaseTorchFunctionMode()",
)  # fmt: skip
TRIED = """
import torch
from nbcompile.fast import fast_call, guard_cache, output_pool
from nbcompile.runtime import conditions, launcher, toolchain
assert isinstance(toolchain.find(), toolchain.Compiler), "no compiler"
{before}
with {state}:
    found = {{
        "guard cache": guard_cache.maker(), "fast call": fast_call.tools(), "conditions": conditions.maker(),
        "launcher": None if isinstance(launcher.extension_module(toolchain.find()), launcher.NoLauncher) else 1,
        "pool": output_pool._switched_on or None,
    }}
    grad, inference = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
lacking = [name for name, each in found.items() if each is None]
assert not lacking, lacking
"""


@pytest.mark.rotates(3)
@pytest.mark.parametrize("state", STATES)
def test_tools_are_had_whatever_the_state_of_the_first_call(state):
    """A first call without gradients, in inference mode, under another device or a mode does not cost the process its
    guard cache, fast calls, conditions and memory.
    """
    _tried(state, "")


def test_the_default_dtype_does_not_matter():
    """A default dtype of float64 does not matter either."""
    _tried("torch.no_grad()", "torch.set_default_dtype(torch.float64)")


def _tried(state: str, before: str) -> None:
    python(TRIED.format(state=state, before=before))
