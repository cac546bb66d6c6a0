"""The parts of ``make gpu``, each a function that yields rows: what is cut off keeps them, and goes on after them.

    doctor         driver, chip, versions, one launch
    launches       what a launch costs the CPU, beside Triton's own launcher
    checks         case pages and random programs, against eager mode and the simulator
    calibration    copy, read, launch: the figures that nbcompile/gpu/chip.py has from data sheets
    kernels        28 programs: eager mode, torch.compile, nbcompile
    models         6 models, forward and with a step of training
    predictions    predicted and measured time of kernels that the simulator can run

Read next: benchmarks/gpu/report.py
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import platform
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import torch

import nbcompile
from benchmarks.gpu import checks, launching
from benchmarks.gpu.machine import Gpu, on_device
from benchmarks.gpu.programs import KERNELS, MODELS, SMALL, GpuProgram
from nbcompile.gpu import predict
from nbcompile.gpu.chip import CHIPS
from nbcompile.runtime import gpu_launcher, toolchain
from tests.gpu import generated

Row = dict[str, Any]
Done = Collection[tuple[str, bool]]
"""Programs of an earlier run, with whether they were trained."""
Part = Callable[[Gpu, float, Done], Iterator[Row]]
"""Of the GPU, the moment (``time.monotonic``) at which to stop, and what is not to be done again."""
TIME_WAS_UP = "the time was up"


class TimeIsUp(Exception):
    """The limit of a part, which came before its end."""


def what_is_left(row: Row) -> bool:
    """Return whether the time was up before this row had all its numbers."""
    return TIME_WAS_UP in row.get("modes", {}).values()


def _within(until: float, programs: Iterable[Any]) -> Iterator[Any]:
    for program in programs:
        if time.monotonic() > until:
            raise TimeIsUp
        yield program


def doctor(gpu: Gpu, until: float, done: Done) -> Iterator[Row]:
    """What is here; a function of one kernel gives eager mode's result."""
    compiler = toolchain.find()
    launcher = gpu_launcher.open_launcher(compiler)
    if isinstance(launcher, gpu_launcher.NoGpu):
        raise RuntimeError(launcher.reason)  # noqa: TRY004 - it is the machine that is wrong
    try:
        triton = importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        triton = "none"
    x = torch.randn(1000).to("cuda")
    found = nbcompile.explain(lambda x: torch.relu(x) + 1)(x)
    assert torch.equal(found.result.cpu(), (torch.relu(x) + 1).cpu()), "the first kernel computes something else"
    yield {
        "gpu": gpu.name, "chip": gpu.chip, "driver": launcher.driver, "devices": launcher.devices,
        "torch": torch.__version__, "triton": triton, "python": platform.python_version(),
        "compiler": getattr(compiler, "version", "none"), "kernels": ", ".join(kernel.name for kernel in found.kernels),
    }  # fmt: skip


def launches(gpu: Gpu, until: float, done: Done) -> Iterator[Row]:
    """What the CPU spends on a launch, and on a graph of 100 kernels."""
    yield from launching.measured(gpu)


def check_results(gpu: Gpu, until: float, done: Done) -> Iterator[Row]:
    """Each case page, then random programs until the time is up: there is always another one."""
    pages = (page for page in checks.pages() if (page[0], False) not in done)
    for name, function, inputs, dynamic in _within(until, pages):
        yield dataclasses.asdict(checks.checked(gpu, name, function, inputs, dynamic))
        nbcompile.reset()
    seed = 0
    while time.monotonic() < until and seed < (12 if gpu.standin else 400):
        program = generated.program(seed)
        yield dataclasses.asdict(checks.checked(gpu, f"random {seed}", program.function(), program.inputs))
        nbcompile.reset()
        seed += 1


def calibration(gpu: Gpu, until: float, done: Done) -> Iterator[Row]:
    """Rates that this GPU reaches, beside those of the data sheet."""
    chip = CHIPS.get(gpu.chip)
    sheet = chip.bytes_per_second if chip else None
    source, target = (torch.empty(gpu.size * 4, device="cuda") for _ in range(2))
    moved = source.untyped_storage().nbytes()
    for name, call, count in (
        ("copy", lambda: target.copy_(source), 2 * moved),
        ("read", lambda: source.sum(), moved),
        ("write", lambda: target.zero_(), moved),
    ):
        took = gpu.microseconds(call)
        rate = None if took is None else count / took * 1e6
        yield {"name": name, "us": took, "bytes_per_second": rate, "of_sheet": rate / sheet if rate and sheet else None}
    small = torch.zeros(1, device="cuda")
    took = gpu.microseconds(lambda: [small.add_(1) for _ in range(200)])
    yield {"name": "launch of a small kernel, 200 in a row", "us": None if took is None else took / 200,
           "assumed_us": predict.LAUNCH_SECONDS * 1e6}  # fmt: skip
    if not gpu.standin:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(200):
                small.add_(1)
        took = gpu.microseconds(graph.replay)
        yield {"name": "the same, replayed as a CUDA graph", "us": None if took is None else took / 200}


def compared(gpu: Gpu, name: str, program: GpuProgram, until: float, trains: bool) -> Row:
    """One program in eager mode, by torch.compile and by nbcompile: equal, times, bytes a second."""
    torch.manual_seed(0)
    function, inputs = program.make(gpu.size)
    function, inputs = on_device(function), on_device(inputs)
    leaves = [*(function.parameters() if isinstance(function, torch.nn.Module) else ()),
              *(leaf for leaf in inputs if isinstance(leaf, torch.Tensor) and leaf.requires_grad)]  # fmt: skip

    def call(compiled: Callable[..., Any]) -> Callable[[], Any]:
        if not trains:
            return lambda: compiled(*inputs)

        def step() -> list[torch.Tensor]:
            return list(torch.autograd.grad(compiled(*inputs).float().sum(), leaves))

        return step

    row: Row = {"name": name, "trains": trains}
    with torch.set_grad_enabled(trains):
        expected = call(function)()
        row["bytes"] = _bytes((inputs, expected))
        began = time.perf_counter()
        compiled = nbcompile.compile(function)
        found = call(compiled)()
        row["first_call_s"] = time.perf_counter() - began
        row["equal"] = _close(found, expected)
        candidates: dict[str, Callable[..., Any]] = {"eager": function, "nbcompile": compiled}
        if not gpu.standin:
            row["modes"] = _torch_modes(function, program, call, candidates, until)
        for label, candidate in candidates.items():
            row[f"{label}_us"] = gpu.microseconds(call(candidate))
            row[f"{label}_host_us"] = gpu.host_microseconds(call(candidate))
    return row


def _torch_modes(
    function: Callable[..., Any],
    program: GpuProgram,
    call: Any,
    candidates: dict[str, Callable[..., Any]],
    until: float,
) -> dict[str, str]:
    """Add torch.compile's candidates; the reason for each that is left out."""
    left: dict[str, str] = {}
    for mode in ("default", "max-autotune"):
        if mode == "max-autotune" and not program.products:
            left[mode] = "it has no choice here: the program has no matrix product"
        elif time.monotonic() > until:
            left[mode] = TIME_WAS_UP
        else:
            torch._dynamo.reset()
            candidate = torch.compile(function, mode=None if mode == "default" else mode)
            try:
                call(candidate)()
            except Exception as error:
                left[mode] = f"{type(error).__name__}: {str(error).strip().splitlines()[0][:120]}"
            else:
                candidates[f"torch_{mode.replace('-', '_')}"] = candidate
    return left


def kernels(gpu: Gpu, until: float, done: Done) -> Iterator[Row]:
    """Each kernel; products and sums of bfloat16 are compared within its precision."""
    for name, program in _within(until, [(name, of) for name, of in KERNELS.items() if (name, of.trains) not in done]):
        yield compared(gpu, name, program, until, program.trains)
        nbcompile.reset()


def models(gpu: Gpu, until: float, done: Done) -> Iterator[Row]:
    """Each model, then its step of training."""
    steps = [(name, trains) for name in MODELS for trains in (False, True) if (name, trains) not in done]
    for name, trains in _within(until, steps):
        yield compared(gpu, name, MODELS[name], until, trains)
        nbcompile.reset()


def predictions(gpu: Gpu, until: float, done: Done) -> Iterator[Row]:
    """Kernels at a size that the simulator can run: predicted by nbcompile/gpu/predict.py, and measured."""
    simple = [(name, of) for name, of in KERNELS.items() if not (of.trains or of.products or (name, False) in done)]
    for name, program in _within(until, simple):
        torch.manual_seed(0)
        function, inputs = program.make(SMALL)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = nbcompile.explain(function, options={"target": gpu.chip})(*inputs)
        simulated = [kernel.gpu for kernel in found.kernels if kernel.gpu is not None]
        if not simulated:
            yield {"name": name, "reason": "nothing of it was simulated"}
            continue
        compiled = nbcompile.compile(function)
        moved = on_device(inputs)
        compiled(*moved)
        measured = gpu.microseconds(functools.partial(compiled, *moved))
        predicted = sum(each.predicted_us for each in simulated)
        yield {"name": name, "predicted_us": predicted, "roofline_us": sum(each.roofline_us for each in simulated),
               "measured_us": measured, "error": None if measured is None else predicted / measured}  # fmt: skip
        nbcompile.reset()


PARTS: dict[str, Part] = {
    "doctor": doctor, "launches": launches, "checks": check_results, "calibration": calibration, "kernels": kernels,
    "models": models, "predictions": predictions,
}  # fmt: skip


def _bytes(values: Any) -> int:
    """Bytes of all tensors: what has to be read and written once."""
    if isinstance(values, torch.Tensor):
        return values.numel() * values.element_size()
    return sum(map(_bytes, values)) if isinstance(values, (tuple, list)) else 0


def _close(found: Any, expected: Any) -> bool:
    try:
        torch.testing.assert_close(_in_float32(found), _in_float32(expected), rtol=2e-2, atol=2e-2, equal_nan=True)
    except AssertionError:
        return False
    return True


def _in_float32(values: Any) -> Any:
    if isinstance(values, torch.Tensor):
        return values.detach().cpu().to(torch.float32 if values.is_floating_point() else values.dtype)
    return [_in_float32(value) for value in values] if isinstance(values, (tuple, list)) else values
