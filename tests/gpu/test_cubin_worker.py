"""The worker that compiles Triton kernels: the passes that it skips do not change the machine code."""

from __future__ import annotations

import importlib.metadata
import json

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")

from nbcompile.codegen import triton
from nbcompile.gpu import cubins
from nbcompile.gpu.cubins import Request
from nbcompile.lowering import lower
from nbcompile.scheduling import schedule
from tests.support.processes import python

# A separate process, because the worker patches Triton.
COMPILE = """
import contextlib, json, sys
sys.path.insert(0, sys.argv[1])
import cubin_worker

requests = json.load(open(sys.argv[2]))
if sys.argv[3] == "short":
    cubin_worker.link_from_short_library()
    cubin_worker.skip_loop_passes()
else:
    cubin_worker.only_needed_passes = lambda text: contextlib.nullcontext()
linked = cubin_worker.libtriton.llvm.link_extern_libs
paths = []
cubin_worker.libtriton.llvm.link_extern_libs = lambda module, given: (paths.append(given), linked(module, given))
print(json.dumps([cubin_worker.compile_kernel(request) for request in requests] + [len(paths)]))
"""
FUNCTIONS = {
    "no function of libdevice": lambda x: (x * 2).sum(-1),
    "functions of the short part": lambda x: torch.sin(x) + torch.erf(x) * torch.tanh(x).floor() - torch.atan(x).log(),
    "a function that it lacks": lambda x: torch.lgamma(x) + torch.cos(x),
    "a row in memory": lambda x: torch.softmax(x, -1),
    "a transposed tensor": lambda x: (x.t() + 1.0).contiguous(),
    "float64": lambda x: torch.sin(x.double()),
}
PRODUCT = """
@triton.jit
def product(a, b, c):
    at = tl.arange(0, 32)
    tile = at[:, None] * 32 + at[None, :]
    tl.store(c + tile, tl.dot(tl.load(a + tile), tl.load(b + tile)))
"""


LOOP = """
@triton.jit
def loop(a, b, n):
    at = tl.arange(0, 256)
    total = tl.zeros((256,), tl.float32)
    for step in range(n):
        total += tl.load(a + step * 256 + at)
    tl.store(b + at, total)
"""
BRANCH = """
@triton.jit
def branch(a, b, n):
    at = tl.arange(0, 256)
    x = tl.load(a + at)
    if n > 3:
        x = x * 2
    tl.store(b + at, x)
"""


def messages() -> list[dict]:
    """The requests to the processes, with one kernel or more for each function."""
    asked = []
    for function in FUNCTIONS.values():
        x = torch.ones(64, 96)
        graph = make_fx(function, tracing_mode="fake")(x)
        example = next(node.meta["val"] for node in graph.graph.nodes if node.op == "placeholder")
        emitted = triton.emit(schedule(lower(graph))).kernels
        asked += [Request(kernel, "sm_90").message(kernel.warps) for kernel in emitted]
    pointers = {"a": "*bf16", "b": "*bf16", "c": "*fp32"}
    asked.append({**asked[0], "key": "product", "source": PRODUCT, "name": "product", "signature": pointers})
    counted = {"a": "*fp32", "b": "*fp32", "n": "i32"}
    return asked + [
        {**asked[0], "key": name, "source": text, "name": name, "signature": counted}
        for name, text in (("loop", LOOP), ("branch", BRANCH))
    ]


def test_what_is_left_out_changes_no_byte(tmp_path):
    """Without passes for products and loops, and with a part of libdevice, the machine code is the same."""
    requests = tmp_path / "requests.json"
    requests.write_text(json.dumps(messages()))
    folder = cubins.WORKER.parent
    whole, short = (json.loads(python(COMPILE, folder, requests, how)) for how in ("whole", "short"))
    assert len(whole) == len(FUNCTIONS) + 4
    assert whole == short
    assert whole[-1] == 3, "three kernels call functions of libdevice"


SHORT = """
import sys
sys.path.insert(0, sys.argv[1])
import cubin_worker
path, names = cubin_worker.short_library()
print(sorted(set(f"__nv_{name}f" for name in cubin_worker.SHORT_MATHEMATICS) - names), len(open(path).read()))
"""


def test_the_short_library_has_each_function_that_is_named():
    """The short library has each function that kernels name, and at most a quarter of libdevice."""
    missing, size = python(SHORT, cubins.WORKER.parent).rsplit(maxsplit=1)
    assert missing == "[]"
    assert 0 < int(size) < 120_000


PASSES = """
import sys
sys.path.insert(0, sys.argv[1])
import cubin_worker
of_triton = cubin_worker.nvidia.passes.ttgpuir
before = of_triton.add_accelerate_matmul
compared = cubin_worker.COMPARED
here = cubin_worker.triton.__version__.startswith(compared)
for text, version in (("tl.dot(a, b)", compared), ("a descriptor", compared), ("tl.sum(a)", compared), ("tl.sum(a)", "0.")):
    cubin_worker.COMPARED = version
    with cubin_worker.only_needed_passes(text):
        print((of_triton.add_accelerate_matmul is before) is (not here or text != "tl.sum(a)" or version == "0."))
assert of_triton.add_accelerate_matmul is before
"""


LOOPS = """
import json, sys
sys.path.insert(0, sys.argv[1])
import cubin_worker
cubin_worker.COMPARED = sys.argv[3]
cubin_worker.skip_loop_passes()
before, left_out = cubin_worker.without, []
cubin_worker.without = lambda names: (left_out.append(names is cubin_worker.PASSES_OF_LOOPS), before(names))[1]
for request in json.load(open(sys.argv[2])):
    left_out.clear()
    cubin_worker.compile_kernel(request)
    print(request["name"], any(left_out))
"""


@pytest.mark.parametrize("compared", ["3.9.", "0."])
def test_a_loop_or_a_branch_has_all_passes(tmp_path, compared):
    """A kernel with a loop or a branch, or another version of Triton, gets all passes."""
    requests = tmp_path / "requests.json"
    asked = messages()
    requests.write_text(json.dumps([asked[0], *asked[-2:]]))
    words = python(LOOPS, cubins.WORKER.parent, requests, compared).split()
    here = importlib.metadata.version("triton").startswith(compared)
    assert words == [asked[0]["name"], str(here), "loop", "False", "branch", "False"]


def test_a_product_or_a_descriptor_has_all_passes():
    """A kernel with a product or a descriptor, or another version of Triton, gets all passes."""
    assert python(PASSES, cubins.WORKER.parent).split() == ["True"] * 4
