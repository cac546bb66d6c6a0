"""Compiled graphs as JSON: they are read as they were written; objects of this process are not written."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch

from nbcompile.aot.runtime_metadata import AliasedOutput, RuntimeMetadata, TangentLayout, TrainingMetadata
from nbcompile.capture.literals import NotStorable, Unreadable
from nbcompile.codegen import cpp
from nbcompile.fast.disk_cache import graphs
from nbcompile.fast.disk_cache.kernel_table import KernelTable
from nbcompile.ir.compiled_artifact import ArtifactBuilder, CapturedConstants
from nbcompile.ir.emitted import PlanOutput, ViewSlot
from tests.support.lowered import programs

NO_KERNELS = KernelTable({}, {})
PROGRAMS = {
    "kernels": (lambda x, y: ((x + y).relu(), x.sum(1)), [(3, 4), (3, 4)], {}),
    "a product and a view": (lambda x, y: (torch.mm(x, y.t()).sin(), x.t() + 1), [(3, 4), (3, 4)], {}),
    "an operator": (lambda x, y: torch.linalg.inv(x) + y, [(3, 3), (3, 3)], {}),
    "sizes of a call": (lambda x, y: (x * x.shape[0], y.shape[1] * 2), [(3, 4), (3, 4)], {"dynamic": True}),
}


def artifact(name="kernels", *, roles=("inference",), wrapper="direct", metadata=None):
    """An artifact of one graph, and its inputs."""
    function, sizes, how = PROGRAMS[name]
    inputs = [torch.randn(size) + 3 * torch.eye(*size) for size in sizes]
    emitted = cpp.emit(programs(function, *inputs, **how)[1])
    builder = ArtifactBuilder()
    for role in roles:
        builder.programs.append(emitted)
        builder.constants_of_programs.append(CapturedConstants(None, {}))
        builder.roles.append(role)
    builder.wrapper_kind, builder.runtime_metadata = wrapper, metadata
    return builder, inputs


def through_json(data):
    return json.loads(json.dumps(data))


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "sizes of a call"])
def test_what_was_written_runs_as_what_was_compiled(name):
    """The results are eager mode's, from JSON alone."""
    builder, inputs = artifact(name)
    run = graphs.read(through_json(graphs.write(builder)), NO_KERNELS)
    expected = PROGRAMS[name][0](*inputs)
    torch.testing.assert_close(tuple(run(*inputs)), expected if isinstance(expected, tuple) else (expected,))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_plan_is_the_same_after_it_was_read(name):
    """The steps, shapes, values and operators of a plan are equal after it was read."""
    plan = artifact(name)[0].programs[0].plan
    assert plan is not None
    assert graphs._read_plan(through_json(graphs._plan(plan))) == plan


def test_of_a_kernel_what_it_needs_to_run_is_kept():
    """The text of a CPU kernel is in the library; the machine code of a GPU kernel is found by its text."""
    (kernel, *_) = artifact()[0].programs[0].kernels
    assert set(graphs._kernel(kernel)) == set(graphs.KEPT_OF_KERNELS)
    on_gpu = dataclasses.replace(kernel, language="triton", grid="4")
    assert set(graphs._kernel(on_gpu)) == {*graphs.KEPT_OF_KERNELS, *graphs.KEPT_FOR_A_GPU}


TRAINING = TrainingMetadata(
    (1,), (0,), (), slice(1, 3), slice(3, 3), slice(3, 4), 1, (0,),
    (TangentLayout((2, 3), (3, 1), None), TangentLayout(None, None, torch.channels_last)), False, True,
)  # fmt: skip


@pytest.mark.parametrize("training", [None, TRAINING], ids=["inference", "training"])
def test_runtime_metadata_is_the_same_after_it_was_read(training):
    """Named tuples, slices and memory formats are equal, too."""
    metadata = RuntimeMetadata([[0], None], (1,), (AliasedOutput(0, 1, True, False),), training)
    found = graphs._read_metadata(through_json(graphs._write_metadata(metadata)))
    assert found == dataclasses.replace(
        metadata, aliased_outputs=list(metadata.aliased_outputs),
        training=training and dataclasses.replace(training, tangent_layouts=list(training.tangent_layouts)),
    )  # fmt: skip


@pytest.mark.parametrize("how", [
    {"roles": ()}, {"roles": ("forward",)}, {"wrapper": "training"}, {"wrapper": "unheard of"}, {"wrapper": ""},
])  # fmt: skip
def test_what_is_not_only_generated_code_is_not_written(how):
    """Other artifacts may contain objects of this process."""
    with pytest.raises(NotStorable, match="not only generated code"):
        graphs.write(artifact(**how)[0])


def test_an_obstacle_is_the_reason():
    """The error contains the reason that the builder recorded."""
    builder, _ = artifact()
    builder.obstacle = "a subclass flattens itself"
    with pytest.raises(NotStorable, match="a subclass flattens itself"):
        graphs.write(builder)


def aliased(output, steps):
    """An artifact whose first output is a view of its second input, by some steps of the plan."""
    metadata = RuntimeMetadata([None, None], (), (AliasedOutput(0, 1, False, False),))
    builder, _ = artifact(wrapper="inference", metadata=metadata)
    plan = dataclasses.replace(builder.programs[0].plan, outputs=(PlanOutput(output),) * 2, steps=steps)
    builder.programs[0] = dataclasses.replace(builder.programs[0], plan=plan)
    return builder


SIZES = ((2,), (1,), 0)


@pytest.mark.parametrize(("output", "steps", "storable"), [
    (1, (), True), (5, (ViewSlot(5, 1, SIZES),), True), (6, (ViewSlot(5, 1, SIZES), ViewSlot(6, 5, SIZES)), True),
    (0, (), False), (5, (ViewSlot(5, 0, SIZES),), False),
])  # fmt: skip
def test_an_output_that_is_a_view_leads_back_to_its_input(output, steps, storable):
    """The output is stored if the plan creates it from the input with view steps only."""
    if storable:
        graphs._expect_views(aliased(output, steps))
    else:
        with pytest.raises(NotStorable, match="in another way"):
            graphs._expect_views(aliased(output, steps))


def test_a_view_without_a_plan_is_not_written():
    """The error contains the reason for the missing plan."""
    builder = aliased(1, ())
    builder.programs[0] = dataclasses.replace(builder.programs[0], plan=None, no_plan="it slices")
    with pytest.raises(NotStorable, match="there is no plan: it slices"):
        graphs._expect_views(builder)


@pytest.mark.parametrize("data", [["Unheard", []], ["tuple", 3], 3, None, []])
def test_a_damaged_step_is_unreadable(data):
    """A damaged step raises an error, so the graph is compiled again."""
    with pytest.raises(Unreadable):
        graphs._read_step(data)
