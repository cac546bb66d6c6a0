"""Guards that one process wrote and another one reads with another value: the same meaning, or no entry."""

from __future__ import annotations

import json
from contextlib import nullcontext

import pytest
import torch

from nbcompile.capture.guard import Guard, GuardKind, ShapeGuards, TensorFacts
from nbcompile.capture.literals import NotStorable, Unreadable
from nbcompile.fast.disk_cache import addresses, stored_guards
from nbcompile.guarding.accessors import SourceCache
from nbcompile.guarding.check import FrameCheck, GuardsDoNotHold, build_check
from nbcompile.record.model import StackLine
from tests.guarding.test_check import CASES, V, W, agree, frame_of

K = GuardKind


def written(guards, frame) -> str:
    """The text of an entry with these guards."""
    table = addresses.SourceWriter(SourceCache(frame.scope()))
    told = stored_guards.write(guards, table)
    return json.dumps([told, table.data()])


def read(text, frame) -> FrameCheck | None:
    """The guards at the first call of a later process, or None if it ignores the entry."""
    told, table = json.loads(text)
    known = SourceCache(frame.scope())
    try:
        return build_check(stored_guards.read(told, addresses.read(table, known), known), frame)
    except (Unreadable, NotStorable, GuardsDoNotHold):
        return None


@pytest.mark.parametrize(("kind", "expected", "traced", "good", "bad"), CASES)
def test_each_kind_is_read_at_another_value(kind, expected, traced, good, bad):
    """A guard of each kind that is loaded at one value rejects all values that the compiled guard rejects."""
    guards = (Guard(V, kind, expected),)
    try:
        text = written(guards, frame_of(traced))
    except NotStorable:
        return
    for other in (traced, *good, *bad):
        check = read(text, frame_of(other))
        assert check is None or not any(other is value for value in bad), other
        if check is not None:
            for value in bad:
                assert not agree(check, frame_of(value).scope()), (other, value)
    assert read(text, frame_of(traced)) is not None


TENSORS = [
    torch.tensor(1.0),
    torch.ones(1),
    torch.ones(3),
    torch.ones(0),
    torch.ones(2, 3),
    torch.ones(3, 2).t(),
    torch.ones(2, 3, 1),
    torch.ones(2, 3).double(),
    torch.ones(2, 3, requires_grad=True),
    torch.nn.Parameter(torch.ones(2, 3), requires_grad=False),
    torch.ones(2, 3).to_sparse(),
    torch.ones(2, 3, device="meta"),
    torch.ones(2, 3, dtype=torch.complex64).conj(),
    torch.ones(2, 3, dtype=torch.complex64),
]


@pytest.mark.parametrize("traced", TENSORS, ids=str)
@pytest.mark.parametrize("strided", [True, False])
def test_a_tensor_differs_from_every_other(traced, strided):
    """A tensor with another rank, size, stride, dtype, class, gradient, layout, device or conjugation is rejected."""
    strides = tuple(traced.stride()) if strided and traced.layout is torch.strided else None
    guards = (Guard(V, K.TENSOR_MATCH, TensorFacts(tuple(traced.shape), strides)),)
    text, compiled = written(guards, frame_of(traced)), build_check(guards, frame_of(traced))
    for other in TENSORS:
        check, wanted = read(text, frame_of(other)), compiled.holds(frame_of(other).scope())
        assert (check is not None) == wanted, other
        if check is not None:
            for value in TENSORS:
                scope = frame_of(value).scope()
                assert check.holds(scope) == compiled.holds(scope)


def hooks_of_graphs():
    """Hooks that AOTAutograd traces into the graph."""
    graph = torch.fx.symbolic_trace(lambda x: x.clone())
    return torch.autograd.graph.saved_tensors_hooks(graph, graph)


STATES = {
    "as ever": nullcontext,
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu"),
    "autocast to float16": lambda: torch.autocast("cpu", dtype=torch.float16),
    "autocast without cache": lambda: torch.autocast("cpu", cache_enabled=False),
    "no torch function": torch._C.DisableTorchFunctionSubclass,
    "default device": lambda: torch.device("meta"),
    "hooks of graphs": hooks_of_graphs,
    "multithreading off": lambda: torch.autograd.set_multithreading_enabled(False),
}
OF_STATE = (
    Guard(None, K.GLOBAL_STATE),
    Guard(None, K.TORCH_FUNCTION_MODE_STACK, ()),
    Guard(None, K.DEFAULT_DEVICE),
    Guard(None, K.SAVED_TENSORS_HOOKS),
    Guard(None, K.TRANSFORMS, ()),
    Guard(V, K.TENSOR_MATCH, TensorFacts((2,), (1,))),
)


@pytest.mark.parametrize("traced", STATES)
def test_each_state_of_the_process_differs_from_every_other(traced):
    """An entry is not loaded in a state in which the compiled one would not be used."""
    x = torch.ones(2)
    with STATES[traced]():
        try:
            compiled = build_check(OF_STATE, frame_of(x))
            text = written(OF_STATE, frame_of(x))
        except (NotStorable, GuardsDoNotHold):
            return
    for name, state in STATES.items():
        with state():
            frame = frame_of(x)
            check = read(text, frame)
            assert check is None or compiled.holds(frame.scope()), f"compiled under {traced}, loaded under {name}"
            assert check is not None or name != traced, f"not loaded under {name}, under which it was compiled"


def test_relations_are_read_at_other_values():
    """Relations between objects, and conditions on sizes, are checked after a load, too."""
    x, y = torch.ones(2), torch.ones(3)
    sizes = tuple(Guard(each, K.TENSOR_MATCH, TensorFacts((None,), (1,))) for each in (V, W))
    relations = {
        K.OBJECT_ALIASING: (Guard(V, K.OBJECT_ALIASING, W), (x, x), (x, y)),
        K.NO_TENSOR_ALIASING: (Guard(None, K.NO_TENSOR_ALIASING, (V, W)), (x, y), (x, x)),
        K.NO_OBJECT_ALIASING: (Guard(None, K.NO_OBJECT_ALIASING, (V, W)), (x, y), (y, y)),
        K.SHAPE_ENV: (
            Guard(None, K.SHAPE_ENV, ShapeGuards(("L['v'].size()[0] < L['w'].size()[0]",), (V, W))),
            (x, y),
            (y, x),
        ),
    }
    for guard, good, bad in relations.values():
        text = written((*sizes, guard), frame_of(*good))
        check = read(text, frame_of(*good))
        assert check is not None
        assert not agree(check, frame_of(*bad).scope())
        assert read(text, frame_of(*bad)) is None


def test_conditions_on_sizes_keep_their_lines():
    """A failed condition in a later process has the line that needed it."""
    line = StackLine("model.py", 3, "f", "for i in range(n):", 9, 17, 20)
    shapes = ShapeGuards(("L['v'] == 2",), (V,), ((line,),), ("",))
    frame = frame_of(2)
    table = addresses.SourceWriter(SourceCache(frame.scope()))
    text = json.loads(json.dumps([stored_guards.write([Guard(None, K.SHAPE_ENV, shapes)], table), table.data()]))
    known = SourceCache(frame.scope())
    [read_again] = stored_guards.read(text[0], addresses.read(text[1], known), known)
    assert read_again.expected.stacks == ((line,),)
