"""NVTX ranges of kernels, where torch was built with CUDA: neither a GPU nor a profiling tool is needed."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from tests.support.processes import command

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
pytestmark = [
    pytest.mark.skipif(torch.version.cuda is None, reason="a torch without CUDA has no NVTX ranges"),
    pytest.mark.skipif(torch.cuda.is_available(), reason="the stand-in device needs a machine without a GPU"),
]

# An NVTX tool, which gets each range that is pushed (table 1: callbacks; module 1, entry 9: nvtxRangePushA).
TOOL = r"""
#include <stddef.h>
#include <stdio.h>
typedef struct { size_t bytes; int (*table)(int module, void ***found, unsigned *count); } Callbacks;
static int push(const char *name) { printf("range %s\n", name); fflush(stdout); return 0; }
int InitializeInjectionNvtx2(const void *(*table_of)(unsigned id)) {
  const Callbacks *callbacks = table_of(1);
  void **functions;
  unsigned count;
  if (!callbacks || !callbacks->table(1, &functions, &count)) return 0;
  *(void **)functions[9] = (void *)push;
  return 1;
}
"""

PROGRAM = """
import torch, nbcompile
from nbcompile.gpu.standin import device
with device.standin():
    x = torch.randn(8, 8, device="cuda")
    compiled = nbcompile.compile(lambda x: torch.softmax(x, -1).exp())
    compiled(x)
    with torch.autograd.profiler.emit_nvtx():
        compiled(x)
"""


def test_each_launch_is_a_range_with_its_operators_and_line(tmp_path):
    """``emit_nvtx`` makes each launch a range with the kernel, the operators and the user's line."""
    tool = tmp_path / "tool.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", tool], input=TOOL, text=True, check=True)
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    ran = command(sys.executable, script, folder=tmp_path, NVTX_INJECTION64_PATH=tool)
    ranges = [line for line in ran.stdout.splitlines() if ".triton_" in line]
    assert len(ranges) == 1
    assert ranges[0].startswith("range 0/0.inference.triton_softmax_exp_0 _softmax, exp (program.py:6)")
