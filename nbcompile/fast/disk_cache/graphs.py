"""A graph's callable as data: the generated texts, and the runtime wrapper around them.

    programs   [{source: C++, wrapper: Python, kernels: [...], plan: [...]}]      as codegen emitted them
    wrapper    "direct": one program, called as it is; "inference", "training": as aot/runtime_wrapper.py does
    captured   the graph itself, where "wrapper" says so, or where inputs that it writes to are watched
    parts      of a graph that was split: each as above, and "calls", the graph that calls them

The shared objects themselves are in the kernels' own store (runtime/store.py), found by their source; one that
was thrown away there is built again.

In torch: torch/_inductor/output_code.py (CompiledFxGraph, pickled). Read next: nbcompile/fast/disk_cache/storage.py
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import astuple, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from nbcompile import torch_internals
from nbcompile.aot import input_aliasing, leaf_views, runtime_wrapper
from nbcompile.aot.runtime_metadata import AliasedOutput, RuntimeMetadata, TangentLayout, TrainingMetadata
from nbcompile.capture.literals import NotStorable, Unreadable, decode, encode
from nbcompile.fast.disk_cache import captured, tensors
from nbcompile.fast.disk_cache.kernel_table import KernelTable
from nbcompile.fast.disk_cache.object_lookup import find, findable
from nbcompile.ir.compiled_artifact import ArtifactBuilder, CapturedConstants, Runnable, StoredTarget
from nbcompile.ir.emitted import (
    AllocateSlot,
    AtSlot,
    Call,
    CaptureFacts,
    Convolve,
    EmittedKernel,
    ExternResult,
    FreeSlot,
    Launch,
    LaunchPlan,
    Multiply,
    PlanOutput,
    RuntimeSize,
    TensorShape,
    Value,
    ViewSlot,
)
from nbcompile.ir.profiler_ranges import ProfilerRange
from nbcompile.runtime import compiler_processes, program, toolchain
from nbcompile.support import lazy_import

if TYPE_CHECKING:
    from nbcompile.gpu import loading
else:  # only graphs on a GPU need it
    loading = lazy_import.module("nbcompile.gpu.loading")

_ROLES = {
    "direct": ("inference",),
    "inference": ("inference",),
    "training": ("forward", "backward"),
    "captured": (),
}
"""The programs of each way to join them, in the order of their making."""
_HELD = re.compile(r"\battribute\('([^']*)'\)")
"""The expression by which a wrapper reads the constants of its graph."""
KEPT_OF_KERNELS = ("name", "function", "arguments", "sizes", "lengthy", "complaints", "language")
"""The fields that running a kernel needs; the others are for the record."""
KEPT_FOR_A_GPU = ("source", "header", "types", "warps", "stages", "grid", "gpu", "parameters")
"""More fields of a kernel for a GPU: its machine code is found by them, or compiled again."""


@dataclass(frozen=True, slots=True)
class StoredProgram:
    """An emitted program without what it was emitted from (``ir.compiled_artifact.Runnable``)."""

    source: str
    wrapper: str
    kernels: tuple[EmittedKernel, ...]
    externs: tuple[OperatorReference, ...]
    plan: LaunchPlan | None
    no_plan: str
    ranges: tuple[tuple[str, ProfilerRange], ...]
    capture: CaptureFacts | None = None


@dataclass(frozen=True, slots=True)
class OperatorReference:
    """An operator that a wrapper calls."""

    name: str
    target: Any


def write(artifact: ArtifactBuilder) -> dict[str, Any]:
    """A callable's parts as JSON.

    Raises:
        NotStorable: a part was compiled by another backend, or refers to an object of this process.
    """
    if artifact.obstacle:
        raise NotStorable(artifact.obstacle)
    if artifact.parts:
        # A graph of calls, and each part as if it were its own graph.
        functions = [part.function for part in artifact.parts]
        return {
            "calls": captured.write(artifact.captured, functions),
            "parts": [write(part.artifact) for part in artifact.parts],
        }
    # Only graphs whose every part is generated code or plain data can be rebuilt: anything else may hold objects.
    roles = tuple(role for role in artifact.roles if role != "views")
    if roles != _ROLES.get(artifact.wrapper_kind) or len(artifact.programs) != len(artifact.roles):
        raise NotStorable("the graph is not only generated code")
    _expect_views(artifact)
    return {
        "wrapper": artifact.wrapper_kind,
        "metadata": None if artifact.runtime_metadata is None else _write_metadata(artifact.runtime_metadata),
        "programs": [
            _write(program, held)
            for program, held in zip(artifact.programs, artifact.constants_of_programs, strict=True)
        ],
        "gpu": None if artifact.gpu is None else [artifact.gpu.chips, artifact.gpu.triton, artifact.gpu.debug],
        "captured": None if artifact.captured is None else captured.write(artifact.captured),
        "watch": None
        if artifact.alias_check is None
        else [encode(artifact.alias_check.written), encode(artifact.alias_check.read)],
        "leaf_views": [list(each) for each in artifact.leaf_views],
    }


def _expect_views(artifact: ArtifactBuilder) -> None:
    """Outputs that are views of inputs are looks at the memory of these, which a later process repeats."""
    metadata: RuntimeMetadata | None = artifact.runtime_metadata
    if "views" in artifact.roles:
        return  # its operators make them
    for at, base, is_input, _ in metadata.aliased_outputs if metadata is not None else ():
        # A view of an input is created by the plan's view steps from the input's slot. Follow them back to that slot.
        plan = artifact.programs[0].plan
        if is_input:
            continue
        if plan is None:
            raise NotStorable(f"an output is a view of an input, and there is no plan: {artifact.programs[0].no_plan}")
        slot = plan.outputs[at].slot
        sources = {step.slot: step.source for step in plan.steps if isinstance(step, ViewSlot)}
        while slot in sources:
            slot = sources[slot]
        if slot != base:
            raise NotStorable("an output is a view of an input in another way than by sizes and strides")


def _write(emitted: Runnable, constants: CapturedConstants) -> dict[str, Any]:
    # The wrapper reads constants of the graph (tensors) by name: those are stored by value.
    paths = sorted(set(_HELD.findall(emitted.wrapper)))
    return {
        "held": [[path, tensors.encode(constants.attribute(path) if constants.attribute else None)] for path in paths],
        "constants": [[number, findable(value)] for number, value in constants.constants.items()],
        "source": emitted.source,
        "wrapper": emitted.wrapper,
        "kernels": [_kernel(each) for each in emitted.kernels],
        "externs": [[each.name, _called(each.target)] for each in emitted.externs],
        "plan": None if emitted.plan is None else _plan(emitted.plan),
        "no_plan": emitted.no_plan,
        "capture": None if emitted.capture is None else astuple(emitted.capture),
        "ranges": [[name, known.name, known.operators, known.lines] for name, known in emitted.ranges],
    }


def _called(target: Any) -> list[Any]:
    """An operator, or a launch of a Triton kernel, whose operator a later process does without."""
    return ["launch"] if torch_internals.is_kernel_launch(target) else findable(target)


def _kernel(kernel: EmittedKernel) -> dict[str, Any]:
    names = KEPT_OF_KERNELS if kernel.language == "cpp" else (*KEPT_OF_KERNELS, *KEPT_FOR_A_GPU)
    return {name: encode(getattr(kernel, name)) for name in names}


def _plan(plan: LaunchPlan) -> dict[str, Any]:
    return {
        "inputs": [_step(each) for each in plan.inputs],
        "slots": plan.slots,
        "steps": [_step(each) for each in plan.steps],
        "outputs": [_step(each) for each in plan.outputs],
        "values": [_step(each) for each in plan.values],
        "attributes": [_step(each) for each in plan.attributes],
        "single": plan.single,
        "gpu": plan.gpu,
    }


_STEPS: dict[str, type[Any]] = {
    cls.__name__: cls
    for cls in (
        AllocateSlot, Launch, FreeSlot, ViewSlot, Call, Multiply, Convolve, TensorShape,
        ExternResult, AtSlot, PlanOutput, Value, RuntimeSize,
    )
}  # fmt: skip


def _step(part: Any) -> Any:
    """A step, or a part of one: ``[name of its class, its fields]``."""
    if type(part).__name__ in _STEPS:
        return [type(part).__name__, [_step(getattr(part, each.name)) for each in fields(part)]]
    if type(part) in (list, tuple):
        return [type(part).__name__, [_step(each) for each in part]]
    try:
        return ["value", encode(part)]
    except NotStorable:
        return ["object", findable(part)]  # an operator that is given to another one


def _read_step(data: Any) -> Any:
    match data:
        case ["value", value]:
            return decode(value)
        case ["object", list(description)]:
            return find(description)
        case ["list", list(parts)]:
            return [_read_step(each) for each in parts]
        case ["tuple", list(parts)]:
            return tuple(_read_step(each) for each in parts)
        case [str(name), list(parts)] if name in _STEPS:
            return _STEPS[name](*map(_read_step, parts))
    raise Unreadable(f"malformed step: {str(data)[:80]}")


def read(data: dict[str, Any], kernels: KernelTable) -> Callable[..., Any]:
    """Read a callable.

    Args:
        data: What :func:`write` returned.
        kernels: The user's Triton kernels by the numbers that they had.

    Raises:
        Unreadable: there is no compiler to build what is missing, or an operator that it calls.
    """
    if "parts" in data:
        return captured.read(data["calls"], kernels, [_named(read(part, kernels)) for part in data["parts"]])
    leaves = [leaf_views.LeafView(*each) for each in data["leaf_views"]]
    compiled = _read_compiled(data, kernels)
    return leaf_views.as_leaves(compiled, leaves) if leaves else compiled


def _read_compiled(data: dict[str, Any], kernels: KernelTable) -> Callable[..., Any]:
    as_captured = None if data["captured"] is None else captured.read(data["captured"], kernels)
    if as_captured is None:
        return _wrapped(data, kernels)
    # With an alias check, eager's graph is part of the entry: it runs for calls whose inputs overlap.
    if data["wrapper"] == "captured":
        return as_captured
    written, seen = map(decode, data["watch"])
    return input_aliasing.with_alias_check(
        _wrapped(data, kernels), as_captured, input_aliasing.AliasCheck(written, seen)
    )


def _named(part: Callable[..., Any]) -> Callable[..., Any]:
    """A function that the text of a graph can name."""

    def compiled_part(*arguments: Any) -> Any:
        return part(*arguments)

    torch_internals.hide_from_hook(compiled_part.__code__)
    return compiled_part


def _wrapped(data: dict[str, Any], kernels: KernelTable) -> Callable[..., Any]:
    compiler = toolchain.find()
    if isinstance(compiler, toolchain.NoCompiler):
        raise Unreadable(compiler.reason)
    # Kernels are built again only if the kernel cache lacks them: mostly this loads shared libraries.
    try:
        loaded = [_load(each, compiler, data["gpu"], kernels) for each in data["programs"]]
    except compiler_processes.BuildError as error:
        raise Unreadable(str(error)) from error
    if data["wrapper"] == "direct":
        return loaded[0].positional
    metadata = _read_metadata(data["metadata"])
    # The program of the views comes last.
    count = len(_ROLES[data["wrapper"]])
    views = loaded[count] if len(loaded) > count else None
    if data["wrapper"] == "inference":
        return runtime_wrapper.wrap_inference(loaded[0], metadata, views)
    return runtime_wrapper.wrap_training(loaded[0], loaded[1], metadata, views)


def _write_metadata(metadata: RuntimeMetadata) -> dict[str, Any]:
    """Runtime metadata as JSON; named tuples are stored as tuples."""
    aliases: Any = [tuple(each) for each in metadata.aliased_outputs]
    # Named tuples are stored as plain tuples, and rebuilt by their classes.
    data = _encoded_fields(replace(metadata, aliased_outputs=aliases, training=None))
    if metadata.training is not None:
        layouts: Any = [tuple(each) for each in metadata.training.tangent_layouts]
        data["training"] = _encoded_fields(replace(metadata.training, tangent_layouts=layouts))
    return data


def _encoded_fields(metadata: Any) -> dict[str, Any]:
    return {field.name: encode(getattr(metadata, field.name)) for field in fields(metadata)}


def _read_metadata(data: dict[str, Any]) -> RuntimeMetadata:
    decoded = {name: decode(value) for name, value in data.items() if name != "training"}
    decoded["aliased_outputs"] = [AliasedOutput(*each) for each in decoded["aliased_outputs"]]
    if data["training"] is None:
        return RuntimeMetadata(**decoded)
    training = {name: decode(value) for name, value in data["training"].items()}
    training["tangent_layouts"] = [TangentLayout(*each) for each in training["tangent_layouts"]]
    return RuntimeMetadata(**decoded, training=TrainingMetadata(**training))


def _read(data: dict[str, Any]) -> StoredProgram:
    kernels = []
    for kernel in data["kernels"]:
        given = {name: decode(value) for name, value in kernel.items()}
        kernels.append(EmittedKernel(**{"source": "", **given}))
    launch = torch_internals.STORED_LAUNCH
    externs = tuple(
        OperatorReference(name, launch if row == ["launch"] else find(row)) for name, row in data["externs"]
    )
    plan = None if data["plan"] is None else _read_plan(data["plan"])
    ranges = tuple(
        (name, ProfilerRange(range_name, operators, tuple((file, line) for file, line in lines)))
        for name, range_name, operators, lines in data["ranges"]
    )
    facts = data["capture"] and CaptureFacts(*map(_as_tuples, data["capture"]))
    return StoredProgram(data["source"], data["wrapper"], tuple(kernels), externs, plan, data["no_plan"], ranges, facts)


def _as_tuples(value: Any) -> Any:
    """JSON's lists as the tuples that they were."""
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


def _load(
    data: dict[str, Any], compiler: toolchain.Compiler, gpu: list[Any] | None, kernels: KernelTable
) -> program.LoadedGraph:
    # Constants by value, operators by name.
    held = {path: tensors.decode(encoded) for path, encoded in data["held"]}
    constants = {number: find(encoded) for number, encoded in data["constants"]}
    if gpu is None:
        return program.load(_read(data), compiler, held.__getitem__, constants)
    chips, triton, debug = gpu
    target = StoredTarget(tuple(map(tuple, chips)), triton, debug)
    try:
        return loading.load_stored(_read(data), target, compiler, held.__getitem__, constants, kernels)
    except loading.OtherTarget as reason:
        raise Unreadable(str(reason)) from reason


def _read_plan(data: dict[str, Any]) -> LaunchPlan:
    return LaunchPlan(
        tuple(map(_read_step, data["inputs"])),
        data["slots"],
        tuple(map(_read_step, data["steps"])),
        tuple(map(_read_step, data["outputs"])),
        single=data["single"],
        attributes=tuple(map(_read_step, data["attributes"])),
        values=tuple(map(_read_step, data["values"])),
        gpu=data["gpu"],
    )
