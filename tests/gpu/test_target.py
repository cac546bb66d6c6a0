"""``options={"target": "sm_90"}``: CPU tensors, simulated code for a GPU, and eager's results."""

from __future__ import annotations

import warnings

import pytest
import torch

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
pytest.importorskip("numpy", reason="the simulator computes with NumPy")

import nbcompile
from nbcompile import errors
from nbcompile.backends import aten_graph, gpu as gpu_backend
from nbcompile.gpu import cubins, simulator
from nbcompile.gpu.chip import CHIPS
from nbcompile.lowering import split_reduction
from tests.support.processes import python

pytestmark = pytest.mark.usefixtures("nothing_compiled")

ON_SM_90 = {"target": "sm_90"}


def explained(function, *inputs, options=ON_SM_90, **how):
    """Run the compiled function; assert that the result is eager's."""
    torch.manual_seed(0)
    found = nbcompile.explain(function, options=options, **how)(*inputs)
    torch.manual_seed(0)
    torch.testing.assert_close(found.result, function(*inputs), equal_nan=True)
    return found


def compiled_graph(explanation):
    return explanation.record.frames[0].compiled_graph


def languages(explanation) -> list[str]:
    return [each.language for each in explanation.kernels]


def softmax(x):
    return torch.softmax(x * 2, -1)


@pytest.mark.parametrize("chip", CHIPS)
def test_the_code_of_a_chip_gives_eagers_result(chip):
    """The record has the GPU's name, and each kernel's figures."""
    found = explained(softmax, torch.randn(6, 1000), options={"target": chip})
    assert compiled_graph(found).target == chip
    (kernel,) = found.kernels
    gpu = kernel.gpu
    assert (kernel.language, gpu.chip, gpu.blocks) == ("triton", chip, 6)
    assert (gpu.spills, gpu.occupancy) == (0, 1.0)
    assert 8 <= gpu.registers <= 64
    assert gpu.coalescing > 0.95
    assert gpu.least == 2 * 6 * 1000 * 4 <= gpu.moved
    assert gpu.roofline_us <= gpu.predicted_us <= 3 * gpu.roofline_us


def test_the_wrapper_allocates_on_the_gpu():
    """The text of the wrapper allocates on the GPU; the simulation uses the CPU's memory."""
    found = explained(softmax, torch.randn(6, 1000))
    assert "device='cuda:0'" in compiled_graph(found).wrapper
    assert found.result.device.type == "cpu"


def test_each_line_of_triton_has_its_ptx_and_its_costs():
    """PTX loads and stores of global memory are at the lines that cause them."""
    (kernel,) = explained(softmax, torch.randn(6, 1000)).kernels
    lines = kernel.source.split("\n")
    moving = {lines[each.line - 1].strip() for each in kernel.gpu.lines if each.moved}
    assert len(moving) == 2
    assert all("tl.load(" in line or "tl.store(" in line for line in moving)
    for each in kernel.gpu.lines:
        accesses = any("ld.global" in text or "st.global" in text for text in each.ptx)
        assert accesses == bool(each.moved)
        assert not accesses or each.instructions > 0
    assert sum(each.moved for each in kernel.gpu.lines) == kernel.gpu.moved


def test_training():
    """Forward and backward are compiled for the GPU; gradients are eager's, and both have figures."""

    def loss(x, w):
        return (torch.layer_norm(x, (64,)) * w).tanh().sum()

    inputs = [torch.randn(5, 64, requires_grad=True), torch.randn(64, requires_grad=True)]
    eager = torch.autograd.grad(loss(*inputs), inputs)
    made = nbcompile.explain(loss, options=ON_SM_90)
    explanation = made(*inputs)
    assert [each.gpu is not None for each in explanation.kernels if each.language == "triton"]
    torch.testing.assert_close(torch.autograd.grad(explanation.result, inputs), eager)
    names = {each.name.partition(".")[0] for each in explanation.kernels if each.language == "triton"}
    assert names == {"forward", "backward"}
    figures = [each.gpu for each in explanation.kernels if each.language == "triton"]
    assert all(each.predicted_us >= each.roofline_us > 0 and each.coalescing > 0 for each in figures)


def test_inputs_are_written():
    """In ``x.mul_(2)`` the simulated kernel writes to the caller's memory."""

    def change(x):
        x.mul_(2)
        return x + 1

    x = torch.arange(8.0)
    assert nbcompile.compile(change, options=ON_SM_90)(x).tolist() == [2 * n + 1.0 for n in range(8)]
    assert x.tolist() == [2.0 * n for n in range(8)]


@pytest.mark.parametrize("offset", [1, 3])
def test_an_input_that_is_not_aligned(offset):
    """An unaligned input is copied first, and copied back after a mutation."""

    def change(x):
        x.add_(1)
        return x * 2

    whole = torch.arange(40.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = nbcompile.compile(change, options=ON_SM_90)(whole[offset:])
    assert found.tolist() == [2.0 * (n + 1) for n in range(offset, 40)]
    assert whole.tolist() == [*range(offset), *(n + 1 for n in range(offset, 40))]


def test_numbers_that_are_far_from_zero():
    """The sine of a huge number needs products of several words, with carries."""
    explained(lambda x: torch.sin(x), torch.tensor([1e5, -3e7, 1e10, 4e20, 2e38, 0.5, float("inf")]))


def test_half_precision_is_saved_as_the_backward_wants_it():
    """The saved tensors of a layer norm have the dtypes of eager mode on the CPU."""
    x = torch.randn(4, 32, dtype=torch.bfloat16, requires_grad=True)
    w = torch.randn(32, dtype=torch.bfloat16, requires_grad=True)

    def f(x, w):
        return torch.nn.functional.layer_norm(x, (32,), w)

    found = nbcompile.compile(f, options=ON_SM_90)(x, w)
    torch.testing.assert_close(found, f(x, w), rtol=2e-2, atol=2e-2)
    found.sum().backward()
    mine, x.grad = x.grad, None
    f(x, w).sum().backward()
    torch.testing.assert_close(mine, x.grad, rtol=2e-2, atol=2e-2)


# --- rows --------------------------------------------------------------------------------------------------------------


def test_a_row_of_dynamic_length():
    """A row of symbolic length is loaded again for each pass, by one kernel, without scratch memory."""
    compiled = nbcompile.compile(softmax, options=ON_SM_90, dynamic=True)
    for columns in (700, 3001):
        x = torch.randn(4, columns)
        torch.testing.assert_close(compiled(x), softmax(x))
    assert languages(explained(softmax, torch.randn(3, 90), dynamic=True)) == ["triton"]


@pytest.fixture
def whole(monkeypatch):
    """Reductions are not split, as with enough programs."""
    monkeypatch.setattr(split_reduction, "ENOUGH_PROGRAMS", 1)


@pytest.mark.usefixtures("whole")
def test_a_row_that_is_too_long_for_registers():
    """A row that is too long for registers is loaded again for each pass."""
    assert languages(explained(softmax, torch.randn(2, 20_011))) == ["triton"]


@pytest.mark.usefixtures("whole")
def test_a_long_scan_is_read_back_from_memory():
    """A long scan cannot be recomputed: after a barrier, threads load the values that other threads stored."""

    def share(x):
        total = x.cumsum(-1)
        return total / total.amax(-1, keepdim=True)

    found = explained(share, torch.rand(2, 20_011))
    (kernel,) = found.kernels
    assert "tl.debug_barrier()" in kernel.source


# --- memory ----------------------------------------------------------------------------------------------------------


def test_what_two_results_need_is_loaded_once():
    """A value of two results is loaded once: the schedule knows that the store does not change it."""

    def gate(x):
        hidden = x * 2 + 1
        return hidden * torch.sigmoid(hidden), hidden

    (kernel,) = explained(gate, torch.randn(4096)).kernels
    assert kernel.source.count("tl.load(") == 1
    assert kernel.gpu.moved == kernel.gpu.least == 3 * 4 * 4096


def test_what_a_loop_loads_is_loaded_again_by_the_next_loop():
    """Each loop over a long row loads the row again, and does not use values of the last iteration."""
    explained(lambda x: torch.softmax(x * 2, -1), torch.randn(3, 3001), dynamic=True)
    explained(lambda x: (x - x.amax(0)).exp().sum(0), torch.randn(70, 33))


def test_few_elements_are_given_to_many_programs():
    """If blocks of 1024 would leave multiprocessors idle, blocks are smaller; long loops keep them."""
    (short,) = explained(lambda x: x.sin(), torch.randn(1 << 14)).kernels
    assert short.gpu.blocks == (1 << 14) // 128
    (long,) = explained(lambda x: x + 1, torch.randn(1 << 18)).kernels
    assert long.gpu.blocks == (1 << 18) // 1024


def test_a_transpose_of_dynamic_size_has_tiles():
    """Loads and stores of a transpose are coalesced for all sizes; masks handle the edges."""

    def turn(a, b):
        return a.t() + b

    for rows, columns, blocks in ((96, 128, 12), (100, 130, 20), (7, 3, 1)):
        found = explained(turn, torch.randn(columns, rows), torch.randn(rows, columns), dynamic=True)
        (kernel,) = found.kernels
        assert kernel.gpu.blocks == blocks
        assert kernel.gpu.coalescing > 0.6
    compiled = nbcompile.compile(turn, options=ON_SM_90, dynamic=True)
    for rows, columns in ((96, 128), (33, 40), (5, 70)):
        a, b = torch.randn(columns, rows), torch.randn(rows, columns)
        torch.testing.assert_close(compiled(a, b), turn(a, b))


# --- what has no code for a GPU --------------------------------------------------------------------------------------


def test_an_operator_without_a_triton_form_runs_through_aten_alone():
    """Only that operator runs through ATen, with a reason; the rest of the graph is compiled for the GPU."""
    found = explained(lambda x: (torch.digamma(x) * 2).softmax(-1) + x.cos(), torch.rand(4, 50) + 1)
    (called,) = [each for each in found.kernels if each.language == "aten"]
    assert called.name == "aten.digamma.default"
    assert called.reason == "no code for a GPU: the operation digamma"
    assert "triton" in languages(found)


def test_a_kernel_that_cannot_be_simulated_runs_through_aten_alone(monkeypatch):
    """Without shuffles in the simulator, the sum runs through ATen, and the sine does not."""
    monkeypatch.delitem(simulator.STEPS, "shfl")
    found = explained(lambda x, y: (x.sum(-1), y.sin()), torch.randn(4, 500), torch.randn(70))
    (called,) = [each for each in found.kernels if each.language == "aten"]
    assert called.name == "aten.sum.dim_IntList"
    assert "the simulator of GPU code lacks shfl.sync.bfly.b32" in called.reason
    assert languages(found).count("triton") == 1


def test_a_view_is_never_called_in_the_place_of_a_kernel(monkeypatch):
    """If the results of a kernel are only views, the whole graph runs through ATen."""
    monkeypatch.setattr(simulator, "expect_supported", reject)
    found = explained(lambda x: x.t().contiguous(), torch.randn(4, 5))
    assert not any(each.language == "triton" for each in found.kernels)


def reject(function):
    raise simulator.UnsupportedInstruction("the simulator of GPU code lacks it")


# --- bad input -------------------------------------------------------------------------------------------------------


def told(function, *inputs, options) -> str:
    """The only line of the warning; the result is eager's."""
    aten_graph._warn_once.cache_clear()
    with warnings.catch_warnings(record=True) as met:
        warnings.simplefilter("always")
        explained(function, *inputs, options=options)
    (line,) = [str(each.message) for each in met if each.category is errors.GeneratedCodeWarning]
    assert "\n" not in line
    return line


def test_an_unknown_chip():
    """The line lists the known chips."""
    line = told(softmax, torch.randn(2, 9), options={"target": "sm_91"})
    assert line.startswith("target: expected one of sm_80, sm_90, sm_100")


def test_no_triton(monkeypatch):
    """The line says how to install Triton."""
    find = gpu_backend.importlib.util.find_spec
    monkeypatch.setattr(gpu_backend.importlib.util, "find_spec", lambda name: None if name == "triton" else find(name))
    assert "needs triton (pip install nbcompile[cuda])" in told(softmax, torch.randn(2, 9), options=ON_SM_90)


@pytest.mark.parametrize(
    ("ptxas", "reason"),
    [
        ("raise RuntimeError('Cannot find ptxas')", "Cannot find ptxas, which comes with Triton"),
        (
            "raise PermissionError('[Errno 13] Permission denied: ptxas')",
            "the tools of CUDA that come with Triton cannot be run: [Errno 13] Permission denied: ptxas",
        ),
    ],
)
def test_no_ptxas(ptxas, reason, monkeypatch, tmp_path):
    """Without ptxas nothing is compiled: the record has one reason for all kernels."""
    worker = tmp_path / "worker.py"
    text = cubins.WORKER.read_text()
    worker.write_text(text.replace("    compiled = triton.compile(", f"    {ptxas}\n    compiled = triton.compile("))
    monkeypatch.setattr(cubins, "WORKER", worker)
    monkeypatch.setattr(cubins, "_workers", cubins._Workers())
    monkeypatch.setenv("NBCOMPILE_CACHE_DIR", str(tmp_path / "cache"))
    try:
        found = explained(softmax, torch.randn(2, 9))
    finally:
        cubins.end_workers()
    assert compiled_graph(found).notes == (f"{reason}: the graph runs through ATen",)


def test_a_graph_that_takes_too_long_to_simulate():
    """The line predicts the time, and mutations of kernels that ran already are undone."""

    def change(x):
        x.mul_(3)
        return x.sum(-1, keepdim=True).cos() + x.roll(1, 0).softmax(0)

    options = {**ON_SM_90, "simulation_seconds": 1e-9}
    aten_graph._warn_once.cache_clear()
    x = torch.arange(12.0).view(3, 4)
    expected = change(y := x.clone())
    with pytest.warns(
        errors.GeneratedCodeWarning,
        match=r"to simulate triton_\w+ would take [\d.e-]+ seconds .*simulated_programs.*, and 1e-09 are allowed",
    ):
        found = nbcompile.compile(change, options=options)(x)
    torch.testing.assert_close(found, expected)
    assert torch.equal(x, y)


def test_an_index_that_is_out_of_bounds_is_eagers_error():
    """The compiled check ends the simulation, and ATen raises the error."""
    with pytest.raises(IndexError, match="out of"):
        nbcompile.compile(lambda t, i: t[i] * 2, options=ON_SM_90)(torch.randn(5), torch.tensor([1, 7]))


def test_an_unknown_option_is_still_an_error():
    """An unknown option, ``taget``, raises an error."""
    with pytest.raises(errors.InvalidBackendOption, match="Did you mean 'target'"):
        nbcompile.compile(softmax, options={"taget": "sm_90"})


# --- entries ---------------------------------------------------------------------------------------------------------


def test_code_for_several_targets_is_kept_apart():
    """Each target has separate entries: code for one does not run for another."""
    x = torch.randn(3, 7)

    def f(x):
        return x.sin() + 1

    targets = []
    for options in (None, ON_SM_90, {"target": "sm_80"}, None, ON_SM_90):
        frame_recorder = nbcompile.api.new_recorder("f")
        with frame_recorder.listening():
            nbcompile.compile(f, options=options)(x)
        targets.append([each.compiled_graph.target for each in frame_recorder.record().frames])
    assert targets == [[""], ["sm_90"], ["sm_80"], [], []]


@pytest.mark.parametrize("function", [torch.tanh, torch.expm1, lambda x: torch.nn.functional.elu(-x.abs())])
def test_exponentials_of_large_numbers(function):
    """exp(-103) has one bit, and its logarithm is too small: tanh(51.5) was 1.003."""
    explained(function, torch.cat([torch.linspace(-120, 20, 1001), torch.linspace(-1, 1, 99)]))


COLD = """
import sys, torch, nbcompile
from nbcompile.runtime import toolchain
toolchain.find = lambda: print("C++ compiler")
found = nbcompile.explain(lambda x: torch.relu(x * 2 + 1), options={"target": "sm_90"})(torch.randn(64, 100))
print(found.kernels[0].gpu.moved, "triton" in sys.modules)
"""


@pytest.mark.fast_path  # AOTAutograd imports triton
def test_this_process_neither_imports_triton_nor_asks_for_a_compiler(tmp_path):
    """Triton runs in another process, and no C++ compiler is started."""
    assert python(COLD, NBCOMPILE_CACHE_DIR=tmp_path) == f"{2 * 64 * 100 * 4} False\n"
