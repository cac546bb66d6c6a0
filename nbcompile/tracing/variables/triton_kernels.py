"""Triton kernels that the program launches itself: ``kernel[grid](x, out, n, BLOCK=128)`` is one node of the graph.

    triton_kernel_wrapper_mutation(kernel_idx=0, constant_args_idx=0, grid=[(3, 1, 1)], kwargs={"x": l_x_, "out": out})

Tensors and symbolic numbers are the node's arguments; all others are stored in torch's table of kernels. The
functions of ``triton.heuristics`` and of the grid are traced. A kernel that is tuned has a grid for each configuration.

In torch: torch/_higher_order_ops/triton_kernel_wrap.py (TritonHOPifier), TritonKernelVariable in
torch/_dynamo/variables/functions.py. Read next: nbcompile/gpu/user_kernels.py
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nbcompile import torch_internals
from nbcompile.capture.recipe import Attribute, Call, Recipe
from nbcompile.capture.source import AttrSource, ItemSource, Source
from nbcompile.capture.triton_kernels import function_of, layers
from nbcompile.tracing import breaks
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.known_callables import BuiltinVariable
from nbcompile.tracing.variables.mappings import DictVariable
from nbcompile.tracing.variables.objects import ObjectVariable
from nbcompile.tracing.variables.sequences import SequenceVariable
from nbcompile.tracing.variables.symbolic import SymbolicVariable
from nbcompile.tracing.variables.tensor import TensorVariable

OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
"""Settings of a launch that are no arguments of the kernel."""
Given = dict[str, VariableTracker]


class TritonKernelVariable(VariableTracker):
    """A kernel; with a grid, its launcher."""

    def __init__(self, kernel: Any, source: Source | None = None, unbound: TritonKernelVariable | None = None) -> None:
        self.kernel = kernel
        self.source = source
        self.unbound = unbound
        """The kernel without a grid, of a launcher."""
        self.grid: VariableTracker | None = None

    def python_type(self) -> type:
        return type(self.kernel)

    def describe(self) -> str:
        return f"TritonKernelVariable({function_of(self.kernel).__name__})"

    def get_item(self, tracer: Tracer, key: VariableTracker) -> VariableTracker:
        if self.grid is not None:
            raise self._unsupported("it has a grid already")
        launcher = TritonKernelVariable(self.kernel, self.source, self)
        launcher.grid = key
        return launcher

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        if name == "run" and self.grid is None:
            return BuiltinVariable(self.kernel.run, self._run)
        if self.grid is None and self.source is not None and hasattr(self.kernel, name):
            return tracer.wrap(getattr(self.kernel, name), AttrSource(self.source, name))
        return super().get_attribute(tracer, name)

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        if self.grid is None or self.unbound is None:
            return super().recipe(reconstruction)
        item = Attribute(reconstruction.recipe(self.unbound), "__getitem__")
        return Call(item, (reconstruction.recipe(self.grid),))

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        if self.grid is None:
            raise self._unsupported("it is called without a grid")
        return self._launch(tracer, self.grid, arguments, dict(keywords))

    def _run(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        """``kernel.run(*arguments, grid=grid, warmup=False)``."""
        named = dict(keywords)
        grid, warmup = named.pop("grid", None), named.pop("warmup", None)
        if grid is None or (warmup is not None and warmup.constant()):
            raise self._unsupported("it is only prepared, and not launched")
        return self._launch(tracer, grid, arguments, named)

    def _launch(self, tracer: Tracer, grid: VariableTracker, arguments: Arguments, named: Given) -> VariableTracker:
        obstacle = _obstacle(self.kernel)
        if obstacle:
            raise self._unsupported(obstacle)
        names = list(self.kernel.arg_names)
        given = dict(zip(names, (realise(tracer, argument) for argument in arguments), strict=False))
        given |= {name: realise(tracer, each) for name, each in named.items()}
        kernel, source = self._apply_heuristics(tracer, given)
        function = function_of(kernel)
        defaults = {parameter.name: parameter.default for parameter in function.params if parameter.has_default}
        unknown = given.keys() - set(names) - set(OPTIONS)
        if unknown or len(arguments) > len(names):
            raise self._unsupported(f"it has no parameter {', '.join(sorted(unknown)) or 'for the last argument'}")
        # A default is used only if neither the call nor a heuristic sets the argument.
        given = {name: tracer.constant_or_wrap(value) for name, value in defaults.items()} | given
        # A grid may be a function of the constants (``lambda meta: ...``): with tuning it is called once for each
        # configuration.
        grids = [self._blocks(tracer, grid, given, config) for config in _configurations(kernel)]
        _specialise_constants(function, given)
        graph_arguments, constants = self._divided(given)
        kernels = torch_internals.triton_kernel_wrap()
        target: Any = kernels.triton_kernel_wrapper_mutation
        numbers = kernels.kernel_side_table.add_kernel(kernel), kernels.kernel_side_table.add_constant_args(constants)
        node_arguments = {
            "kernel_idx": numbers[0],
            "constant_args_idx": numbers[1],
            "grid": grids,
            "tma_descriptor_metadata": {},
            "kwargs": graph_arguments,
        }
        # The numbers in torch's table are valid only in this process. A kernel with
        # a source is looked up there again when another process loads the entry.
        if source is None:
            tracer.depend_on_process(f"it launches the Triton kernel {function.__name__}, which it created itself")
        else:
            tracer.note_launch(*numbers, source, constants)
        tracer.output.apply("call_function", target, (), node_arguments)
        return ConstantVariable(None)

    def _apply_heuristics(self, tracer: Tracer, given: Given) -> tuple[Any, Source | None]:
        """Compute the values of ``triton.heuristics`` around the kernel; return the inner kernel, and its source."""
        kernel, source = self.kernel, self.source
        while type(kernel).__name__ == "Heuristics":
            for name, function in kernel.values.items():
                origin = None if source is None else ItemSource(AttrSource(source, "values"), name)
                given[name] = realise(tracer, tracer.call(tracer.wrap(function, origin), [_dictionary(tracer, given)]))
            kernel, source = kernel.fn, None if source is None else AttrSource(source, "fn")
        return kernel, source

    def _blocks(
        self, tracer: Tracer, grid: VariableTracker, given: Given, config: Mapping[str, object]
    ) -> tuple[object, ...]:
        """The grid of a configuration, in three dimensions."""
        grid = realise(tracer, grid)
        if not isinstance(grid, SequenceVariable):
            chosen = {name: tracer.constant_or_wrap(value) for name, value in config.items()}
            grid = realise(tracer, tracer.call(grid, [_dictionary(tracer, given | chosen)]))
        if not isinstance(grid, SequenceVariable):
            raise self._unsupported("its grid is no tuple")
        numbers = [realise(tracer, number).proxy() for number in grid.unpack(tracer)]
        if not 1 <= len(numbers) <= 3:
            raise self._unsupported(f"its grid has {len(numbers)} dimensions")
        return (*numbers, *[1] * (3 - len(numbers)))

    def _divided(self, given: Given) -> tuple[dict[str, object], dict[str, object]]:
        """The arguments of the node, and constants."""
        of_graph: dict[str, object] = {}
        constants: dict[str, object] = {}
        for name, tracker in given.items():
            if isinstance(tracker, (TensorVariable, SymbolicVariable)):
                of_graph[name] = tracker.proxy()
            elif tracker.is_constant():
                constants[name] = tracker.constant()
            elif isinstance(tracker, ObjectVariable) and type(tracker.value).__module__.startswith("triton."):
                constants[name] = tracker.value  # tl.float32
            else:
                raise self._unsupported(f"its argument {name} is a {tracker.type_name()}")
        return of_graph, constants

    def _unsupported(self, problem: str) -> breaks.Unsupported:
        name = f"the Triton kernel {function_of(self.kernel).__name__}"
        return breaks.unsupported(breaks.BODY_MISUSE, self.describe(), name=name, problem=problem)


def _obstacle(kernel: Any) -> str:
    """The reason why a decorator is not supported; "" if all decorators are."""
    kinds = [type(layer).__name__ for layer in layers(kernel)]
    if kinds.count("Autotuner") > 1:
        return "it is tuned by two decorators"
    if kinds[-1] != "JITFunction":
        return f"there is a {kinds[-1]} around it"
    # Above the tuner the values are the same for all configurations, and are computed here, once.
    if "Autotuner" in kinds and "Heuristics" in kinds[kinds.index("Autotuner") :]:
        return "triton.heuristics below triton.autotune compute their values for each configuration"
    return next((reason for layer in layers(kernel) if (reason := _tuning_obstacle(layer))), "")


def _tuning_obstacle(kernel: Any) -> str:
    if type(kernel).__name__ != "Autotuner":
        return ""
    hooks = (getattr(kernel, f"user_defined_{when}_hook", False) for when in ("pre", "post"))
    if any(hooks) or any(config.pre_hook is not None for config in kernel.configs):
        return "its tuning calls a pre_hook or a post_hook"
    if kernel.early_config_prune is not None or kernel.perf_model is not None:
        return "its tuning has prune_configs_by"
    return ""


def _configurations(kernel: Any) -> list[Mapping[str, object]]:
    """The constants of each configuration of a tuner; one empty mapping for a kernel that is not tuned."""
    if type(kernel).__name__ != "Autotuner":
        return [{}]
    return [{**config.kwargs, "num_warps": config.num_warps} for config in kernel.configs]


def _specialise_constants(function: Any, given: Given) -> None:
    """Triton compiles for each value of a ``tl.constexpr``: a symbolic number is specialised."""
    for parameter in function.params:
        tracker = given.get(parameter.name)
        if parameter.is_constexpr and isinstance(tracker, SymbolicVariable):
            given[parameter.name] = ConstantVariable(tracker.specialise())


def _dictionary(tracer: Tracer, values: Given) -> VariableTracker:
    return DictVariable(tracer, [(ConstantVariable(name), value) for name, value in values.items()])
