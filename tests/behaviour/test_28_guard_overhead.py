"""Sections 27 to 29: the cost of compiling and of guards (CT, GO, SG)."""

import pytest
import torch

import nbcompile
from tests.support.counts import counts
from tests.support.watched import differs, same, watch

x = torch.ones(3)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l = torch.nn.Linear(3, 3)

    def forward(self, x):
        return self.l(x) + G


G = torch.ones(3)


def test_CT_1_bounds_before_the_call():
    """mark_dynamic with bounds before the call avoids the recompile."""
    calls = []
    for size in (4, 5, 6):
        tensor = torch.ones(size)
        torch._dynamo.mark_dynamic(tensor, 0, min=2, max=100)
        calls.append(tensor)
    assert counts(lambda x: x + 1, calls) == [1, 1, 1]


@differs("the region is traced through each time: the same graph, without invoke_subgraph")
def test_CT_2_nested_compile_region():
    """A layer in a nested_compile_region gives eager's result in one graph."""

    @torch.compiler.nested_compile_region
    def layer(x):
        return torch.sin(x) + 1

    def f(x):
        for _ in range(4):
            x = layer(x)
        return x

    compiled = watch(f)
    same(compiled(x), f(x))


def test_CT_3_phases_are_timed():
    """The record has the duration of each stage."""
    compiled = watch(lambda x: x + 1)
    compiled(x)
    assert {"tracing", "backend", "guards", "residual program"} <= {each.stage for each in compiled.record.timings}


def test_GO_3_guard_filter():
    """options={"guard_filter_fn": f}: f receives every guard and selects those that are used.

    Guards on the types of the objects that lead to them remain.
    """
    seen = []

    def keep_tensors(entries):
        seen.extend(entries)
        return [each.guard_type == "TENSOR_MATCH" for each in entries]

    compiled = watch(Net(), options={"guard_filter_fn": keep_tensors})
    compiled(torch.ones(2, 3))
    assert {"TENSOR_MATCH", "GLOBAL_STATE"} <= {each.guard_type for each in seen}
    assert {each.kind for each in compiled.frames[0].guards} <= {"TENSOR_MATCH", "TYPE_MATCH"}


@pytest.mark.parametrize(
    "name",
    [
        "skip_guard_on_all_nn_modules_unsafe",
        "skip_guard_on_inbuilt_nn_modules_unsafe",
        "skip_guard_on_globals_unsafe",
        "keep_tensor_guards_unsafe",
        "skip_all_guards_unsafe",
    ],
)
def test_GO_4_ready_filters(name):
    """torch.compiler's filters drop guards; all but the last still recompile for a new shape."""
    everything = watch(Net())
    everything(torch.ones(2, 3))
    compiled = watch(Net(), options={"guard_filter_fn": getattr(torch.compiler, name)})
    for size in (2, 4):
        net = compiled.function._orig_mod
        if name == "skip_all_guards_unsafe" and size == 4:
            compiled(torch.ones(size, 3))
        else:
            same(compiled(torch.ones(size, 3)), net(torch.ones(size, 3)))
    assert len(compiled.frames[0].guards) < len(everything.frames[0].guards)
    assert len(compiled.backend) == (1 if name == "skip_all_guards_unsafe" else 2)


def test_GO_6_skip_guard_eval():
    """After warm-up, set_stance(skip_guard_eval_unsafe=True) finds the right entry; a new kind of call is an error."""
    compiled = watch(Net())
    for size in (2, 4):
        compiled(torch.ones(size, 3))
    with torch.compiler.set_stance(skip_guard_eval_unsafe=True):
        for size in (2, 4, 2):
            same(compiled(torch.ones(size, 3)), compiled.function._orig_mod(torch.ones(size, 3)))
    assert len(compiled.backend) == 2
    for stance in (torch.compiler.set_stance, nbcompile.set_stance):
        with stance(skip_guard_eval_unsafe=True), pytest.raises(RuntimeError, match="not warmed up"):
            compiled(torch.ones(2, 3).double())
