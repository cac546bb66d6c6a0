"""THE OTHER page: one graph to one callable.

    lookup("inductor")(graph_module, example_inputs)     a callable over the graph's inputs

    captured graph ─ aot ─┬─ forward  ─┬─ lowering ─ scheduling ─ codegen ─ runtime ─ callable
                          └─ backward ─┘

A backend is any function ``(GraphModule, example_inputs) -> callable``, as in
torch. The four that come with nbcompile are rungs of a ladder: each does one
thing more than the one before, so that a wrong result can be pinned on a stage.

    eager                        the captured graph as it is
    aot_eager                    + AOTAutograd: functional ATen, with the backward graph
    aot_eager_decomp_partition   + decompositions and the min-cut partition
    inductor                     + our loop-level IR, fusion and generated code (the default)

In torch: torch/_dynamo/backends/, torch/_inductor/compile_fx.py. Read next:
nbcompile/aot/compile.py, then nbcompile/lowering/
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import operator
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from nbcompile import errors, later, narrate, torch_internals
from nbcompile.aot import checkpoints, input_aliasing, passes, runtime_wrapper, self_overlapping_writes, unused_rng
from nbcompile.aot.attention import fuse_attention
from nbcompile.aot.channels_last import mark_channels_last
from nbcompile.aot.compile import BoxedFunction, Compilers, NeedsEagerFallback, compile_graph
from nbcompile.aot.decompositions import default_table
from nbcompile.aot.traced_graphs import requires_grad
from nbcompile.codegen import cpp
from nbcompile.codegen.printers import UnprintableIndex
from nbcompile.codegen.wrapper import opaque_values
from nbcompile.gpu.chip import CHIPS, Chip
from nbcompile.ir import compiled_artifact
from nbcompile.ir.emitted import EmittedProgram
from nbcompile.lowering import UnsupportedGraph, lower
from nbcompile.record import recorder
from nbcompile.runtime import toolchain
from nbcompile.runtime.program import PythonWrapper, load
from nbcompile.scheduling import schedule

if TYPE_CHECKING:
    from nbcompile.gpu import figures, target as gpu
else:  # Triton is an extra
    figures, gpu = later.module("nbcompile.gpu.figures"), later.module("nbcompile.gpu.target")

Backend = Callable[..., Callable[..., Any]]
"""``(graph_module, example_inputs) -> callable``; may take ``mode=`` and ``options=`` as well."""

ENTRY_POINTS = "torch_dynamo_backends"
_registered: dict[str, Backend] = {}


CompileOne = Callable[[torch.fx.GraphModule, Sequence[Any], str], BoxedFunction]
"""Makes a callable of one ATen graph; the last argument is the graph's stage in the record."""


@dataclass(frozen=True, slots=True)
class BackendOptions:
    """``compile(f, options={...})``, for our own backend."""

    verify: bool = False
    """Run every compiled graph operator by operator as well, and compare (slow; for finding our mistakes)."""
    fallback_random: bool = True
    """Random numbers are those that eager draws. False: our own, as part of the loops (lowering/randomness.py)."""
    target: str = ""
    """A GPU (``sm_90``): CPU tensors are compiled for as if they lay there, and its code runs in a simulator."""
    simulation_seconds: float = 60.0
    """With a target: a call whose simulation would take longer runs through ATen."""


DEFAULTS = BackendOptions()
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
"""torch.compile's presets. They choose among ways to run matrix products and kernels on a GPU: on a CPU all are one."""


# --- finding a backend -----------------------------------------------------------------------------------------------


def lookup(
    backend: str | Backend, *, mode: str | None = None, options: Mapping[str, object] | None = None
) -> Callable[[torch.fx.GraphModule, Sequence[Any]], Callable[..., Any]]:
    """The backend of this name (or the given one), with its failures told as ``BackendCompilerFailed``.

    Raises:
        errors.InvalidBackend: no backend has this name.
    """
    function = _by_name(backend) if isinstance(backend, str) else backend
    keywords = {key: value for key, value in (("mode", mode), ("options", options)) if value}

    @functools.wraps(function, updated=())
    def compile_with(graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        page = recorder.draft()
        if page is not None:
            page.write_graph(backend=backend_name(backend))
        try:
            compiled = function(graph_module, example_inputs, **keywords)
        except Exception as error:
            raise errors.BackendCompilerFailed(backend_name(backend), error) from error
        if not callable(compiled):
            wrong = TypeError(f"the backend returned {compiled!r}, which cannot be called")
            raise errors.BackendCompilerFailed(backend_name(backend), wrong)
        return hidden(compiled)

    return compile_with


def hidden(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """The frame hook looks at no Python that runs inside a compiled graph (the graph's own code, say)."""
    owner = getattr(compiled, "__self__", None)
    if isinstance(compiled, BuiltinFunctionType) or isinstance(owner, PythonWrapper):
        return compiled  # C, or Python that is hidden already
    if getattr(compiled, "__code__", None) in runtime_wrapper.HIDDEN_FROM_HOOK:
        return compiled

    def call(*arguments: Any) -> Any:
        return compiled(*arguments)

    torch_internals.hide_from_hook(call.__code__)
    return call


def specialised(
    general: Callable[..., Any],
    wished: Sequence[tuple[int, Callable[[int], bool]]],
    compile_for: Callable[..., Callable[..., Any]],
) -> Callable[..., Any]:
    """A compiled graph that is compiled again, for the inputs as they are, where a size is one of those wished for.

    Args:
        general: for any size.
        wished: positions of inputs that are sizes, each with a question; a size for which it says yes is wished for.
        compile_for: compiles the graph for given inputs. It is asked once for each question, at the first such call.
    """
    special: dict[int, Callable[..., Any]] = {}

    def choose(*inputs: Any) -> Any:
        for number, (position, condition) in enumerate(wished):
            if condition(inputs[position]):
                if number not in special:
                    special[number] = compile_for(*inputs)
                return special[number](*inputs)
        return general(*inputs)

    return hidden(choose)


def compiler_name() -> str:
    """The C++ compiler's own name for itself; "" where there is none."""
    compiler = toolchain.find()
    return compiler.version if isinstance(compiler, toolchain.Compiler) else ""


def backend_name(backend: str | Backend) -> str:
    """How messages and the record call a backend."""
    if isinstance(backend, str):
        return backend
    if isinstance(backend, functools.partial):
        return backend_name(backend.func)
    return str(getattr(backend, "__name__", type(backend).__name__))


def register(function: Backend | None = None, name: str | None = None) -> Any:
    """Make a backend known by name: ``@register`` or ``register(function, name="mine")``.

    Raises:
        ValueError: another backend has this name.
    """
    if function is None:
        return functools.partial(register, name=name)
    key = name or backend_name(function)
    if _registered.get(key, function) is not function:
        raise ValueError(f"there is a backend named {key!r} already")
    _registered[key] = function
    return function


def names() -> tuple[str, ...]:
    """Every backend that ``lookup`` knows, those of installed packages included."""
    return tuple(sorted({*_registered, *_entry_points()}))


def _by_name(name: str) -> Backend:
    if name not in _registered:
        found = _entry_points().get(name)
        if found is None:
            raise errors.InvalidBackend(name, names())
        _registered[name] = found.load()
    return _registered[name]


def _entry_points() -> dict[str, importlib.metadata.EntryPoint]:
    return {point.name: point for point in importlib.metadata.entry_points(group=ENTRY_POINTS)}


# --- the ladder ------------------------------------------------------------------------------------------------------


@register
def eager(graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """The captured graph as it is: what is wrong here is wrong in capture."""
    return checkpoints.with_eager_checkpoints(graph_module).forward


@register
def aot_eager(graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """AOTAutograd, and then ATen operator by operator."""
    compilers = _compilers(run_through_aten, graph_module)
    return _through_aot(graph_module, example_inputs, compilers, recompute=False)


@register
def aot_eager_decomp_partition(graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """As ``inductor``, with ATen in the place of generated code."""
    compilers = _compilers(run_through_aten, graph_module)
    return _through_aot(graph_module, example_inputs, compilers, decompositions=default_table())


@register
def inductor(
    graph_module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, object] | None = None,
) -> Callable[..., Any]:
    """Our code generator: fused loops in C++, matrix products and the like through ATen."""
    chosen = read_settings(mode, options or {})
    improve = None if chosen.target else _improve  # what it does pays on a CPU
    compilers = _compilers(functools.partial(compile_aten_graph, options=chosen), graph_module, improve)
    return _through_aot(graph_module, example_inputs, compilers, decompositions=default_table())


def _through_aot(
    graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any], compilers: Compilers, **more: Any
) -> Callable[..., Any]:
    """Through AOTAutograd and the compilers, or as captured, with a reason, where AOTAutograd has no way."""
    if input_aliasing.has_aliased_wrapper(example_inputs):
        return as_captured(graph_module, input_aliasing.REASON)
    if unused_rng.has_unused_rng(graph_module):
        return as_captured(graph_module, unused_rng.REASON)
    if self_overlapping_writes.writes_to_self_overlapping_view(graph_module):
        return as_captured(graph_module, self_overlapping_writes.REASON)
    try:
        return compile_graph(graph_module, example_inputs, compilers, mutate_in_graph=True, **more)
    except NeedsEagerFallback as reason:
        return as_captured(graph_module, str(reason))
    except Exception as error:
        asked_by_torch = torch_internals.guards_context().TracingContext.try_get() is not None
        # Eager asks for derivatives one by one, and only for those that are wanted; here the whole one failed.
        of_derivative = (
            isinstance(error, RuntimeError) and torch.is_grad_enabled() and any(map(requires_grad, example_inputs))
        )
        asks_again = torch_internals.floats_to_be_constant(error) is not None
        if asked_by_torch or asks_again or not (of_derivative or torch_internals.is_limit_of_tracing(error)):
            raise
        text = f"AOTAutograd cannot trace the graph ({type(error).__name__}: {str(error).partition(chr(10))[0]})"
        warnings.warn(errors.GeneratedCodeWarning(f"{text}: it runs as it was captured"), stacklevel=2)
        return as_captured(graph_module, text)


def _improve(graph_module: torch.fx.GraphModule) -> tuple[str, ...]:
    return (*fuse_attention(graph_module), *mark_channels_last(graph_module))


def is_one_autograd_function(backend: str | Backend) -> bool:
    """Whether it is one of ours that make one node of the autograd graph of all the operators of a captured graph.

    Between two results of such a node there is no path: neither can be differentiated by the other.
    """
    return backend in ("aot_eager", "aot_eager_decomp_partition", "inductor")


def as_captured(graph_module: torch.fx.GraphModule, reason: str) -> Callable[..., Any]:
    """The captured graph operator by operator, in the place of what a backend would have made; the record says why."""
    note(f"{reason}: the graph runs as it was captured")
    runnable = checkpoints.with_eager_checkpoints(graph_module)
    compiled_artifact.fall_back_to_eager(runnable)
    return hidden(runnable.forward)


def nbcompile(graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any], **keywords: Any) -> Callable[..., Any]:
    """Our code generator under the real ``torch.compile(f, backend="nbcompile")``."""
    return inductor(graph_module, example_inputs, **keywords)


def read_settings(mode: str | None, options: Mapping[str, object]) -> BackendOptions:
    """``mode=...`` and ``options={...}`` of our own backend, as a dataclass.

    Raises:
        errors.InvalidMode, errors.InvalidBackendOption: a name that is not known.
    """
    if mode is not None and mode not in MODES:
        raise errors.InvalidMode(mode, MODES)
    known = tuple(each.name for each in fields(BackendOptions))
    for name in options:
        if name not in known:
            raise errors.InvalidBackendOption(name, known)
    return BackendOptions(**options)  # type: ignore[arg-type]


def _compilers(
    compile_one: CompileOne,
    captured: torch.fx.GraphModule,
    rewrite: Callable[[torch.fx.GraphModule], tuple[str, ...]] | None = None,
) -> Compilers:
    """The three compilers that AOTAutograd calls, each of which tells the record about its graph first.

    ``rewrite`` improves a graph for inference, and says what it did.
    """

    def compiler(stage: str) -> Callable[[torch.fx.GraphModule, Sequence[Any]], BoxedFunction]:
        def compile_and_tell(graph_module: torch.fx.GraphModule, examples: Sequence[Any]) -> BoxedFunction:
            if rewrite is not None and stage == "inference":
                _rewrite_and_tell(graph_module, rewrite, captured)
            _tell(graph_module, stage, captured)
            return compile_one(graph_module, examples, stage)

        return compile_and_tell

    return Compilers(
        forward=compiler("forward"),
        backward=compiler("backward"),
        inference=compiler("inference"),
        on_joint_graph=lambda joint: _tell(joint, "joint", captured),
        concurrently=toolchain.builds.doing,
    )


def _rewrite_and_tell(
    graph_module: torch.fx.GraphModule,
    rewrite: Callable[[torch.fx.GraphModule], tuple[str, ...]],
    captured: torch.fx.GraphModule,
) -> None:
    """Improve a graph; what it was is kept in the record if anything was done."""
    page = recorder.draft()
    if page is None:
        rewrite(graph_module)
        return
    before = narrate.graph(graph_module, page.compile_id, "traced", captured=captured.graph)
    done = rewrite(graph_module)
    if done:
        page.add_to_graph("graphs", before)
    for text in done:
        note(text)


def _tell(graph_module: torch.fx.GraphModule, stage: str, captured: torch.fx.GraphModule) -> None:
    page = recorder.draft()
    if page is not None:
        page.add_to_graph("graphs", narrate.graph(graph_module, page.compile_id, stage, captured=captured.graph))


# --- one ATen graph --------------------------------------------------------------------------------------------------


def run_through_aten(graph_module: torch.fx.GraphModule, _example_inputs: Sequence[Any], stage: str) -> BoxedFunction:
    """The graph operator by operator: what it means, and what runs where no code can be generated."""
    passes.make_complex_literals_exact(graph_module)
    forward = graph_module.forward
    learns = stage != "inference"  # an inference graph's inputs may learn, where nothing that it returns does

    def run(arguments: list[Any]) -> Sequence[Any]:
        values = tuple(arguments)
        arguments.clear()
        if learns or not torch.is_grad_enabled():
            results: Sequence[Any] = forward(*values)
            return results
        torch._C._set_grad_enabled(False)
        try:
            return forward(*values)
        finally:
            torch._C._set_grad_enabled(True)

    run._boxed_call = True  # type: ignore[attr-defined]  # AOTAutograd asks for it
    torch_internals.hide_from_hook(run.__code__)  # the autograd engine calls backward graphs from anywhere
    return run


def compile_aten_graph(
    graph_module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    stage: str = "inference",
    options: BackendOptions = DEFAULTS,
) -> BoxedFunction:
    """Generated code for one functional graph; what cannot be generated runs through ATen, and the record says why."""
    compiled = _generated_or_aten(graph_module, example_inputs, stage, options)
    if options.verify and (options.fallback_random or not _draws(graph_module)):
        compiled = verified(compiled, run_through_aten(graph_module, example_inputs, stage), stage)
    return compiled


def _draws(graph_module: torch.fx.GraphModule) -> bool:
    """Whether random numbers are drawn."""
    targets = (node.target for node in graph_module.graph.nodes)
    return any(torch.Tag.nondeterministic_seeded in getattr(target, "tags", ()) for target in targets)


def _generated_or_aten(
    graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any], stage: str, options: BackendOptions
) -> BoxedFunction:
    compiler = None if options.target else toolchain.find()
    obstacle = _obstacle_to(options.target)
    if obstacle:
        note(f"{obstacle}: the graph runs through ATen")
        _warn_once(f"{obstacle}: graphs run through ATen, operator by operator")
        return run_through_aten(graph_module, example_inputs, stage)
    if isinstance(compiler, toolchain.NoCompiler):
        note(f"{compiler.reason}: the graph runs through ATen")
        _warn_once(f"{compiler.reason}: graphs run through ATen, operator by operator")
        return run_through_aten(graph_module, example_inputs, stage)
    try:
        if compiler is None:
            return _generate_for_gpu(graph_module, example_inputs, stage, options)
        return generate(graph_module, example_inputs, stage, compiler, options)
    except (UnsupportedGraph, UnprintableIndex) as reason:
        note(f"{reason}: the graph runs through ATen")
    except Exception as error:  # noqa: BLE001  whatever our mistake is, the user's program goes on
        place = traceback.extract_tb(error.__traceback__)[-1]
        about = f"{type(error).__name__}: {error}, in {Path(place.filename).name}, {place.name}"
        text = f"code generation failed ({about}): the {stage} graph runs through ATen"
        note(text)
        warnings.warn(errors.GeneratedCodeWarning(text), stacklevel=2)
    return run_through_aten(graph_module, example_inputs, stage)


@functools.cache
def _warn_once(text: str) -> None:
    warnings.warn(errors.GeneratedCodeWarning(text), stacklevel=2)


def generate(
    graph_module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    stage: str,
    compiler: toolchain.Compiler,
    options: BackendOptions = DEFAULTS,
) -> BoxedFunction:
    """The four stages in a row: buffers, kernels in order, source text, a callable.

    Raises:
        UnsupportedGraph: this graph cannot be lowered (a sparse tensor, a device without a code generator).
    """
    with recorder.stage("lowering"):
        program = lower(
            graph_module, example_inputs, keep_sharing=stage == "inference", own_random=not options.fallback_random
        )
    with recorder.stage("scheduling"):
        planned = schedule(program)
    for kernel in planned.kernels():
        if kernel.device.type != "cpu":
            raise UnsupportedGraph(f"there is no code generator for the device {kernel.device}")
    with recorder.stage("codegen"):
        emitted = cpp.emit(planned)
    _tell_generated(graph_module, stage, emitted)
    with recorder.stage("build"), torch_internals.dispatch_modes()._disable_current_modes():
        return load(emitted, compiler, functools.partial(attribute_of, graph_module), opaque_values(planned))


def _obstacle_to(target: str) -> str:
    """Why nothing can be compiled for a GPU that is asked for; "" if it can, or none is."""
    if not target:
        return ""
    if target not in CHIPS:
        return f"target={target!r} is none of {', '.join(CHIPS)}"
    missing = [name for name in ("triton", "numpy") if importlib.util.find_spec(name) is None]
    return f"target={target!r} needs {' and '.join(missing)} (pip install nbcompile[cuda])" if missing else ""


def _generate_for_gpu(
    graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any], stage: str, options: BackendOptions
) -> BoxedFunction:
    """As :func:`generate`, for a GPU that is not here, whose code a simulator runs.

    Raises:
        UnsupportedGraph: this graph cannot be lowered, or Triton's tools are missing.
    """
    chip = CHIPS[options.target]
    try:
        made = gpu.compile_graph(
            graph_module, example_inputs, chip, attribute=functools.partial(attribute_of, graph_module),
            keep_sharing=stage == "inference", own_random=not options.fallback_random,
            seconds=options.simulation_seconds,
        )  # fmt: skip
    except gpu.NoTools as reason:
        raise UnsupportedGraph(str(reason)) from reason
    compiled_artifact.refuse(f"its code is for {chip.name}")
    page = recorder.draft()
    _tell_generated(graph_module, stage, made.emitted)
    told = None if page is None else _GpuPage(page, stage, made, chip)

    def tell(reason: str) -> None:
        text = f"{reason}: the call runs through ATen"
        warnings.warn(errors.GeneratedCodeWarning(text), stacklevel=2)
        if told is not None:
            told.note(text)

    reference = run_through_aten(graph_module, example_inputs, stage)
    return gpu.run_or_call(made.program, made.emitted.written, reference, tell, told.write if told else lambda: None)


class _GpuPage:
    """What the record says of the kernels of one graph: what ptxas does, and what the first call moved."""

    def __init__(self, page: recorder.FrameDraft, stage: str, made: gpu.TargetGraph, chip: Chip) -> None:
        self.page: recorder.FrameDraft | None = page
        self.program = made.program
        self.prefix = f"{page.compile_id}.{stage}."
        self.kernels = {name: figures.built(each, chip) for name, each in made.program.kernels.items()}
        page.write_graph(target=chip.name)
        self._replace(page)

    def write(self) -> None:
        """After the first call."""
        page, self.page = self.page, None
        if page is None:
            return
        for each in self.program.launches:
            ready = self.program.kernels[each.kernel.name]
            self.kernels[each.kernel.name] = figures.launched(self.kernels[each.kernel.name], each, ready.first_line)
        self._replace(page)
        page.rewrite()

    def note(self, text: str) -> None:
        """A call ran otherwise."""
        if self.page is not None and text not in self.page.graph_fields.get("notes", ()):  # type: ignore[operator]
            self.page.add_to_graph("notes", text)
            self.page.rewrite()

    def _replace(self, page: recorder.FrameDraft) -> None:
        known: Any = page.graph_fields["kernels"]
        by_id = {self.prefix + name: each for name, each in self.kernels.items()}
        page.write_graph(kernels=tuple(replace(each, gpu=by_id.get(each.id, each.gpu)) for each in known))


def _tell_generated(graph_module: torch.fx.GraphModule, stage: str, emitted: EmittedProgram) -> None:
    page = recorder.draft()
    if page is None:
        return
    labels = narrate.labels(graph_module.graph, page.compile_id, stage)
    page.add_to_graph("buffers", *narrate.buffers(emitted.schedule.program, labels))
    page.add_to_graph("fusions", *narrate.fusions(emitted.schedule.decisions, labels))
    page.add_to_graph("lifetimes", *narrate.lifetimes(emitted.schedule, labels))
    page.add_to_graph("kernels", *narrate.kernels(cpp.describe(emitted), labels))
    earlier = str(page.graph_fields.get("wrapper", ""))
    page.write_graph(wrapper=earlier + narrate.wrapper(emitted.wrapper, labels))


def verified(compiled: BoxedFunction, reference: BoxedFunction, stage: str) -> BoxedFunction:
    """``compiled``, compared with ``reference`` at every call (same inputs, same random state).

    Raises, when called:
        errors.VerificationFailed: they differ by more than rounding.
    """

    def run(arguments: list[Any]) -> Sequence[Any]:
        copies = [each.clone() if isinstance(each, torch.Tensor) else each for each in arguments]
        with torch.random.fork_rng():
            expected = reference(copies)
        results = compiled(arguments)
        try:
            torch.testing.assert_close(tuple(results), tuple(expected), equal_nan=True, check_stride=True)
        except AssertionError as difference:
            raise errors.VerificationFailed(stage, str(difference)) from None
        return results

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def attribute_of(graph_module: torch.fx.GraphModule, path: str) -> torch.Tensor:
    """A tensor that a graph holds itself (a constant of the user's program)."""
    value: torch.Tensor = operator.attrgetter(path)(graph_module)
    return value


def note(text: str) -> None:
    """Tell the record what a reader of the pictures must know."""
    page = recorder.draft()
    if page is not None:
        page.add_to_graph("notes", text)
