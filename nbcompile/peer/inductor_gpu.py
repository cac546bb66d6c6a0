"""Inductor's CUDA code for a graph, generated without a GPU and run in the simulator, to compare it with ours.

    launches, results = simulate(graph_module, inputs, CHIPS["sm_90"])
    sum(launch.times.predicted for launch in launches)       by the same model as for our own kernels

Inductor reads the device's properties from torch; while it generates code here, they are those of the chip
(:func:`pretended`). The graph is decomposed by Inductor's tables with CPU tensors, which are treated as ``cuda:0``'s.
Its wrapper then runs over CPU tensors, and each launch goes to the simulator. Of the configurations that Inductor
would measure on a GPU, the one with the lowest predicted time is chosen.

In torch: torch/_inductor/graph.py (GraphLowering), torch/_inductor/runtime/triton_heuristics.py. Read next:
nbcompile/gpu/predict.py
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
import torch._inductor.config as inductor_config
import triton
from torch._dynamo import device_interface
from torch._inductor import async_compile, scheduler
from torch._inductor.debug import DebugContext
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.fx_passes.post_grad import post_grad_passes
from torch._inductor.fx_passes.replace_random import replace_random_passes
from torch._inductor.graph import GraphLowering
from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._inductor.virtualized import V
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from nbcompile.gpu import build, costs, predict, ptx, simulator
from nbcompile.gpu.chip import Chip
from nbcompile.gpu.machine_code import MachineCode
from nbcompile.gpu.memory import GlobalMemory
from nbcompile.runtime.triton import load_source

aten = torch.ops.aten
MOST_CONFIGURATIONS = 4
"""Maximum number of configurations of a kernel that are tried."""


class NoCodeError(RuntimeError):
    """Error if Inductor's code for a graph cannot be generated or run here."""


@dataclass(frozen=True, slots=True)
class PeerLaunch:
    """One launch of one of Inductor's kernels."""

    name: str
    built: MachineCode
    blocks: int
    costs: costs.Costs
    times: predict.Times


def simulate(
    graph_module: torch.fx.GraphModule, inputs: Sequence[Any], chip: Chip
) -> tuple[list[PeerLaunch], tuple[Any, ...]]:
    """Generate Inductor's code for a graph and run it in the simulator.

    Raises:
        NoCodeError: with torch's reason.
    """
    launches: list[PeerLaunch] = []
    with pretended(chip):
        try:
            text = generate(graph_module, inputs)
            results = _run(text, inputs, chip, launches)
        except Exception as error:
            first = next(iter(str(error).strip().splitlines()), "")
            raise NoCodeError(f"{type(error).__name__}: {first}") from error
    return launches, results


# --- generation --------------------------------------------------------------------------------


def generate(graph_module: torch.fx.GraphModule, inputs: Sequence[Any]) -> str:
    """The module that Inductor generates for a graph of ATen operators; call it within :func:`pretended`."""
    # As in our backend: sizes are numbers, unless the graph has sizes among its inputs.
    static = not any(isinstance(value, int) for value in inputs)
    mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True, static_shapes=static)

    def flat(*arguments: Any) -> list[Any]:
        result = graph_module(*arguments)
        return list(result) if isinstance(result, (tuple, list)) else [result]

    with torch.no_grad(), mode:
        fakes = [mode.from_tensor(value) if isinstance(value, torch.Tensor) else value for value in inputs]
        traced = make_fx(flat, decomposition_table=_decompositions(), tracing_mode="real")(*fakes)
    with V.set_fake_mode(mode):
        replace_random_passes(traced)
    _move(traced, mode)
    examples = [node.meta.get("val") for node in traced.graph.nodes if node.op == "placeholder"]
    with V.set_fake_mode(mode), V.set_debug_handler(DebugContext()), inductor_config.patch(fallback_random=False):
        post_grad_passes(traced, is_inference=True)
        lowering = GraphLowering(traced, shape_env=mode.shape_env, example_inputs=examples)
        with V.set_graph_handler(lowering):
            lowering.run(*examples)
            return str(lowering.codegen()[0].value)


def _decompositions() -> dict[Any, Callable[..., Any]]:
    """Inductor's decompositions, with those that it has only for a GPU, or for another overload of the operator."""
    table = dict(select_decomp_table())
    bilinear = table[aten.upsample_bilinear2d.vec]

    def upsample(x: Any, size: Any, align_corners: bool, height: Any = None, width: Any = None) -> Any:
        scales = None if height is None else [height, width]
        return bilinear(x, size if scales is None else None, align_corners, scales)

    def bernoulli(x: Any, p: float = 0.5, *, generator: Any = None) -> Any:
        return NotImplemented if generator is not None else torch.rand_like(x, dtype=torch.float32) < p

    return {**table, aten.upsample_bilinear2d.default: upsample, aten.bernoulli.p: bernoulli}


def _move(traced: torch.fx.GraphModule, mode: FakeTensorMode) -> None:
    """Treat every tensor of a graph as if it were on the GPU."""
    cuda = torch.device("cuda", 0)

    def moved(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=cuda)

    with mode:
        for node in traced.graph.nodes:
            if node.kwargs.get("device") is not None:
                node.kwargs = {**node.kwargs, "device": cuda}
            node.args = torch.fx.node.map_aggregate(
                node.args, lambda argument: cuda if isinstance(argument, torch.device) else argument
            )
            if "val" in node.meta:
                node.meta["val"] = torch.utils._pytree.tree_map(moved, node.meta["val"])


@contextlib.contextmanager
def pretended(chip: Chip) -> Iterator[None]:
    """Replace queries of the device by properties of the chip; restore them afterwards."""
    major, minor = divmod(chip.capability, 10)
    properties = types.SimpleNamespace(
        name=chip.product, major=major, minor=minor, multi_processor_count=chip.multiprocessors, warp_size=32,
        total_memory=80 << 30, max_threads_per_multi_processor=chip.threads, max_threads_per_block=1024,
        regs_per_multiprocessor=chip.registers, shared_memory_per_block=49152,
        shared_memory_per_block_optin=chip.shared_bytes - 1024, shared_memory_per_multiprocessor=chip.shared_bytes,
        L2_cache_size=50 << 20, gcnArchName="", uuid="", clock_rate=int(chip.cycles_per_second / 1e3),
    )  # fmt: skip
    answers: dict[str, Callable[..., Any]] = {
        "is_available": lambda: True, "device_count": lambda: 1, "current_device": lambda: 0,
        "get_device_properties": lambda *_: properties, "get_device_capability": lambda *_: (major, minor),
        "get_device_name": lambda *_: chip.product, "_lazy_init": lambda: None, "synchronize": lambda *_: None,
        "set_device": lambda *_: None, "_exchange_device": lambda *_: 0, "_maybe_exchange_device": lambda *_: 0,
        "is_bf16_supported": lambda *_, **__: True,
    }  # fmt: skip
    with contextlib.ExitStack() as stack:
        # Both queries: torch.cuda's functions, and Inductor's
        # interface for any kind of device.
        for name, answer in answers.items():
            stack.enter_context(mock.patch.object(torch.cuda, name, answer))
            of_interface = name.removeprefix("_") if name.endswith("exchange_device") else name
            if hasattr(device_interface.CudaInterface, of_interface):
                stack.enter_context(
                    mock.patch.object(device_interface.CudaInterface, of_interface, staticmethod(answer))
                )
        stack.enter_context(mock.patch.object(device_interface.CudaInterface, "get_raw_stream", staticmethod(int)))
        stack.enter_context(mock.patch.dict(device_interface.caching_worker_device_properties, {"cuda": [properties]}))
        stack.enter_context(mock.patch.dict(device_interface.caching_worker_current_devices, {"cuda": 0}))
        stack.enter_context(mock.patch.object(triton_helpers, "set_driver_to_gpu"))
        # The result is cached, and an earlier query of the process ran without a GPU.
        stack.enter_context(mock.patch.object(scheduler, "has_triton", return_value=True))
        stack.enter_context(_active_driver(chip))
        yield


@contextlib.contextmanager
def _active_driver(chip: Chip) -> Iterator[None]:
    """Triton's driver, with the methods that code generation calls."""
    driver = triton.runtime.driver
    before = driver.__dict__.get("_active")
    pretended_driver = types.SimpleNamespace(
        get_current_target=lambda: GPUTarget("cuda", chip.capability, 32), get_current_device=lambda: 0,
        get_active_torch_device=lambda: torch.device("cuda", 0), get_current_stream=lambda *_: 0,
    )  # fmt: skip
    driver.set_active(pretended_driver)
    try:
        yield
    finally:
        driver._active = before


# --- machine code ------------------------------------------------------------------------------


def kernels_of(text: str) -> list[tuple[str, str]]:
    """Name and source of each Triton kernel of a generated module."""
    found: list[tuple[str, str]] = []

    class CollectedCompile(async_compile.AsyncCompile):
        def triton(self, kernel_name: str, source_code: str, device_str: str = "cuda") -> Any:
            del device_str
            found.append((kernel_name, source_code))

        def wait(self, scope: dict[str, Any]) -> None:
            del scope

    scope: dict[str, Any] = {"__name__": "inductor_generated", "__file__": "<inductor>"}
    text = text.replace("from torch._C import _cuda_getCurrentRawStream as get_raw_stream", "get_raw_stream = int")
    with mock.patch.object(async_compile, "AsyncCompile", CollectedCompile):
        exec(compile(text, "<inductor>", "exec"), scope)
    return found


def compile_kernel(name: str, source: str, chip: Chip) -> int:
    """Compile each configuration of a kernel by Triton, as Inductor's workers do; return their number."""
    tuner = getattr(load_source(source), name)
    for configuration in tuner.configs:
        _compiled(tuner, configuration, chip)
    return len(tuner.configs)


def _compiled(tuner: Any, configuration: Any, chip: Chip) -> Any:
    meta = tuner._create_compile_meta(configuration)
    source = ASTSource(tuner.fn, meta["signature"], meta["constants"], meta["configs"][0])
    options = tuner._create_compile_options(configuration, meta)
    return triton.compile(source, target=GPUTarget("cuda", chip.capability, 32), options=options)


# --- simulation --------------------------------------------------------------------------------


def _run(text: str, inputs: Sequence[Any], chip: Chip, launches: list[PeerLaunch]) -> tuple[Any, ...]:
    """Run the wrapper over CPU tensors; its kernels are simulated."""

    class SimulatedCompile(async_compile.AsyncCompile):
        def triton(self, kernel_name: str, source_code: str, device_str: str = "cuda") -> Any:
            del device_str
            module = load_source(source_code)
            return _Kernel(kernel_name, getattr(module, kernel_name), chip, launches)

        def wait(self, scope: dict[str, Any]) -> None:
            del scope

    # The wrapper's memory is the CPU's; the simulator copies it to the memory of its GPU.
    text = text.replace("torch._C._dynamo.guards._empty_strided_cuda", "torch._C._dynamo.guards._empty_strided_cpu")
    text = text.replace("from torch._C import _cuda_getCurrentRawStream as get_raw_stream", "get_raw_stream = int")
    text = text.replace("device='cuda:0'", "device='cpu'").replace("device='cuda'", "device='cpu'")
    scope: dict[str, Any] = {"__name__": "inductor_generated", "__file__": "<inductor>"}
    with mock.patch.object(async_compile, "AsyncCompile", SimulatedCompile):
        exec(compile(text, "<inductor>", "exec"), scope)
    with torch.no_grad():
        return tuple(scope["call"](list(inputs)))


class _Kernel:
    """One of Inductor's kernels, with the ``run`` that its wrapper calls."""

    def __init__(self, name: str, tuner: Any, chip: Chip, launches: list[PeerLaunch]) -> None:
        self.name, self.tuner, self.chip, self.launches = name, tuner, chip, launches

    def run(self, *arguments: Any, stream: object = None, **_: Any) -> None:
        """Simulate each configuration on copies; copy the results of the best one back."""
        del stream
        best: tuple[PeerLaunch, list[Any]] | None = None
        for configuration in self.tuner.configs[:MOST_CONFIGURATIONS]:
            copies = _copied(arguments)
            launch = self._simulated(configuration, copies)
            if best is None or launch.times.predicted < best[0].times.predicted:
                best = launch, copies
        assert best is not None
        self.launches.append(best[0])
        for original, copy in zip(arguments, best[1], strict=True):
            if isinstance(original, torch.Tensor):
                original.copy_(copy)

    def _simulated(self, configuration: Any, arguments: Sequence[Any]) -> PeerLaunch:
        meta = self.tuner._create_compile_meta(configuration)
        built = build.machine_code(_compiled(self.tuner, configuration, self.chip))
        names = [name for name in self.tuner.fn.arg_names if name not in configuration.kwargs]
        values = dict(zip(names, arguments, strict=False))
        grid = triton_heuristics.GridExpr.from_meta(self.tuner.inductor_meta, configuration)
        scope = {**values, **configuration.kwargs}
        for line in grid.prefix:
            exec(line, scope)
        width, height, depth = (int(eval(str(size), scope)) for size in (grid.x_grid, grid.y_grid, grid.z_grid))
        memory = GlobalMemory(check_races=False)
        given = [
            memory.copy_in(value, name) if isinstance(value, torch.Tensor) else int(value)
            for name, value in values.items()
            if meta["signature"].get(name) != "constexpr"
        ]
        function = ptx.parse(built.ptx)
        simulator.expect_supported(function)
        ran = simulator.run(function, width * height * depth, given, memory, built.shared_bytes, width=width)
        counted = costs.total(ran.lines.values())
        times = predict.times(built, width * height * depth, counted, ran.waits, memory.touched(), self.chip)
        return PeerLaunch(self.name, built, width * height * depth, counted, times)


def _copied(arguments: Sequence[Any]) -> list[Any]:
    """Copies of tensors that share memory where the originals do."""
    storages: dict[int, torch.UntypedStorage] = {}
    found: list[Any] = []
    for value in arguments:
        if isinstance(value, torch.Tensor):
            storage = value.untyped_storage()
            kept = storages.setdefault(storage.data_ptr(), storage.clone())
            empty = torch.empty(0, dtype=value.dtype)
            found.append(empty.set_(kept, value.storage_offset(), value.shape, value.stride()))
        else:
            found.append(value)
    return found
