"""Generated Triton computes what eager computes, and compiles for a GPU that is not here."""

import pytest

from tests.support.processes import python

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")

INTERPRET = """
import torch
from nbcompile.codegen import triton as generator, triton_values
from nbcompile.ir import evaluate
from nbcompile.ir.expr import OPERATIONS, Apply
from nbcompile.runtime import triton as runtime
from tests.support.schedules import pointwise, reduction

def check(planned, tensors, name):
    ours, = runtime.load(generator.emit(planned)).positional(*tensors)
    eager, = evaluate.run(planned, tensors)
    torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-4, equal_nan=True, msg=lambda text: f"{name}: {text}")

torch.manual_seed(0)
x, y = torch.randn(5, 100), torch.randn(5, 100)
checked = 0
for name, operation in OPERATIONS.items():
    text = triton_values.OPERATIONS.get(name, "libdevice")
    # libdevice is NVIDIA's binary: the interpreter has none. cast is checked by the reductions.
    if operation.kind in ("cast", "logical", "bitwise", "random") or "libdevice" in text or name in ("pow", "fmod", "remainder", "floor_div"):
        continue
    def body(a, b):
        if name == "where":
            return Apply("where", (Apply("lt", (a, b), torch.bool), a, b), a.dtype)
        return Apply(name, (a, b, a)[: operation.arity], torch.bool if operation.kind == "comparison" else a.dtype)
    check(pointwise([x, y], {"r": body}), [x, y], name)
    checked += 1
for columns in (False, True):
    for kind in ("sum", "prod", "max", "min", "argmax", "argmin"):
        for matrix in (torch.randn(7, 33), torch.randn(2, 20000) if kind != "prod" else torch.randn(2, 5), torch.randint(0, 5, (4, 9))):
            check(reduction(matrix, kind, columns), [matrix], f"{kind} {columns}")
            checked += 1
print("checked", checked)
"""

CUBIN = """
import torch, triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from nbcompile.codegen import triton as generator, triton_values
from nbcompile.ir.expr import OPERATIONS, Apply
from nbcompile.runtime import triton as runtime
from tests.support.schedules import pointwise, reduction

def build(planned):
    emitted = generator.emit(planned)
    module = runtime.load_source(emitted.source)
    for kernel in emitted.kernels:
        source = ASTSource(getattr(module, kernel.name), generator.signature(kernel), {})
        binary = triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["cubin"]
        assert binary[:4] == b"\\x7fELF", kernel.name
        print("cubin", kernel.name)

x = torch.randn(5, 100)
names = [name for name in OPERATIONS if name in triton_values.OPERATIONS and OPERATIONS[name].kind in ("float", "arithmetic")]
def chain(a, b):
    total = a
    for name in names:
        total = Apply("add", (total, Apply(name, (a, b, a)[: OPERATIONS[name].arity], a.dtype)), a.dtype)
    return total
build(pointwise([x, x], {"all_functions": chain}))
for columns in (False, True):
    for kind in ("sum", "max", "argmax"):
        build(reduction(torch.randn(7, 33), kind, columns))
build(reduction(torch.randn(3, 20000).bfloat16(), "sum", False, torch.float32))
"""

SCATTERS = """
import torch, triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from nbcompile.codegen import triton as generator, triton_values
from nbcompile.ir import evaluate
from nbcompile.runtime import triton as runtime
from tests.support.lowered import programs

torch.manual_seed(0)
x, ids, rows = torch.randn(8, 6), torch.tensor([3, 0, 3, 7, -1]), torch.randn(5, 6)
places, numbers = torch.randint(0, 6, (4, 5)), torch.arange(48).view(8, 6)
CASES = [
    (lambda x, i, v: x.index_put([i], v, True), (x, ids, rows)),
    (lambda x, i, v: x.index_put([i], v), (x, torch.tensor([3, 0, 1, 7, -2]), rows)),
    (lambda x, p, v: x.scatter_add(1, p, v), (x, places, torch.randn(4, 5))),
    (lambda n, p: n.scatter_reduce(1, p, n, "amax"), (numbers, places)),
    (lambda b, i, v: b.index_put([i], v, True), (x > 0, ids, rows > 0)),
]
for function, inputs in CASES:
    _, planned = programs(function, *inputs)
    emitted = generator.emit(planned)
    if triton.knobs.runtime.interpret:
        (ours,), (eager,) = runtime.load(emitted).positional(*inputs), evaluate.run(planned, inputs)
        torch.testing.assert_close(ours, eager)
        print("checked")
        continue
    module = runtime.load_source(emitted.source)
    for kernel in emitted.kernels:
        source = ASTSource(getattr(module, kernel.name), generator.signature(kernel), {})
        assert triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["cubin"][:4] == b"\\x7fELF", kernel.name
    print("compiled")
for function, inputs in [(CASES[0][0], (numbers.to(torch.int8), ids, numbers[:5].to(torch.int8)))]:
    try:
        generator.emit(programs(function, *inputs)[1])
    except generator.NoTriton as reason:
        print("rejected:", reason)
"""


def in_a_process(program, tmp_path, **environment):
    """The program in another process, because Triton reads TRITON_INTERPRET when it is imported."""
    return python(program, **{"NBCOMPILE_CACHE_DIR": tmp_path, **environment})


def test_numbers_in_the_interpreter(tmp_path):
    """Pointwise operations and each kind of reduction, over short and long rows, give eager's values."""
    assert "checked" in in_a_process(INTERPRET, tmp_path, TRITON_INTERPRET="1")


def test_every_kind_of_kernel_compiles_to_a_cubin(tmp_path):
    """All functions, and each form of reduction, compile to sm_90 machine code without a GPU."""
    assert in_a_process(CUBIN, tmp_path, TRITON_CACHE_DIR=str(tmp_path / "triton")).count("cubin") == 8


def test_scatters_in_the_interpreter_and_as_cubins(tmp_path):
    """Scatters use atomics: sum, store, maximum, any; an update without an atomic instruction is rejected."""
    told = in_a_process(SCATTERS, tmp_path, TRITON_INTERPRET="1")
    assert told.count("checked") == 5
    assert "rejected: an atomic sum of int8" in told
    assert in_a_process(SCATTERS, tmp_path, TRITON_CACHE_DIR=str(tmp_path / "triton")).count("compiled") == 5
