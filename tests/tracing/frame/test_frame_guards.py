"""Guards that are known only after the trace of the whole frame: process state, marks, aliasing."""

from __future__ import annotations

import builtins
from collections.abc import Callable

import pytest
import torch

from nbcompile.capture.frame import Frame
from nbcompile.capture.guard import Guard, GuardKind as K
from nbcompile.capture.resolution import Scope
from nbcompile.capture.source import AttrSource, GlobalSource, LocalSource, ModuleSource
from nbcompile.options import Options
from nbcompile.tracing.frame.frame_guards import registries_grew
from nbcompile.tracing.inputs.dynamism import Dynamism
from nbcompile.tracing.tracer import trace
from tests.support.processes import python

PROCESS = {K.GLOBAL_STATE, K.TORCH_FUNCTION_MODE_STACK, K.DEFAULT_DEVICE, K.SAVED_TENSORS_HOOKS}
PYTREES = """
from torch.utils import _pytree as pytree
def f(x):
    leaves, spec = pytree.tree_flatten({"a": x, "b": (x, x)})
    return pytree.tree_unflatten([leaf * 2 for leaf in leaves], spec)["b"][1].reshape(-1)[:3].sum()
"""
VMAP = """
def f(x):
    return torch.vmap(lambda row: row.relu() + 1)(x)
"""
FIRST_IN_PROCESS = """
import torch, nbcompile
{}
x = torch.arange(16.0).reshape(4, 4).requires_grad_()
explained = nbcompile.explain(f, fullgraph=True)(x)
assert torch.equal(explained.result, f(x))
(frame,) = explained.record.frames
assert frame.status == "compiled" and len(frame.compiled_graph.graphs) == len({{graph.stage for graph in frame.compiled_graph.graphs}})
"""
REGISTRY = {"a": 1, "b": 2}
SCOPE = Scope((lambda: None).__code__, {"d": {}}, {"REGISTRY": REGISTRY}, vars(builtins))


def guards_of(function: Callable, **values: object) -> list[Guard]:
    frame = Frame(function.__code__, values, globals(), vars(builtins))
    return list(trace(frame, Options(), Dynamism(False)).guards())


def kinds(function: Callable, **values: object) -> set[K]:
    return {guard.kind for guard in guards_of(function, **values)}


def test_process_state_is_guarded_in_every_frame():
    """Grad mode, modes, the default device and saved-tensor hooks are guarded, whatever the frame reads."""
    assert kinds(lambda x: x.sin(), x=torch.ones(2)) >= PROCESS


def test_two_tensors_stay_two():
    """One guard checks that two input tensors differ; a single input has no such guard."""
    (guard,) = [
        g for g in guards_of(lambda x, y: x + y, x=torch.ones(2), y=torch.ones(2)) if g.kind is K.NO_TENSOR_ALIASING
    ]
    assert len(guard.expected) == 2
    assert K.NO_TENSOR_ALIASING not in kinds(lambda x: x + 1, x=torch.ones(2))


def test_parameters_are_not_compared_with_inputs():
    """A parameter is read from its module, so no guard on aliasing contains it, as in torch."""
    assert K.NO_TENSOR_ALIASING not in kinds(lambda layer, x: layer(x), layer=torch.nn.Linear(2, 2), x=torch.ones(2))


def test_the_marks_of_a_tensor_stay_as_they_are():
    """The guard contains the marked dimensions of a tensor, and the marks that the tensor does not have."""
    x = torch.ones(4)
    torch._dynamo.maybe_mark_dynamic(x, 0)
    (guard,) = [g for g in guards_of(lambda x: x + 1, x=x) if g.kind is K.DIMENSION_MARKING]
    assert guard.expected.present == (("_dynamo_weak_dynamic_indices", frozenset({0})),)
    assert "_dynamo_dynamic_indices" in guard.expected.absent


class Holder:
    pass


@pytest.mark.parametrize(
    ("changes", "expected"), [(True, True), (False, False)], ids=["a list that is changed", "lists that are read"]
)
def test_a_changed_object_is_no_other_input(changes, expected):
    """A guard checks that two lists differ if the program mutates one of them."""

    def change(x, xs, ys):
        xs.append(1)
        return x + len(xs) + len(ys)

    def read(x, xs, ys):
        return x + len(xs) + len(ys)

    found = kinds(change if changes else read, x=torch.ones(2), xs=[1], ys=[2, 3])
    assert (K.NO_OBJECT_ALIASING in found) is expected


def test_what_is_passed_on_unread_is_there():
    """A guard checks that an attribute exists if the function returns it without reading its value."""
    holder = Holder()
    holder.tag = object()
    found = [g for g in guards_of(lambda x, h: (x + 1, getattr(h, "tag", None)), x=torch.ones(2), h=holder)]
    assert ("tag", True) in [g.expected for g in found if g.kind is K.HASATTR]


@pytest.mark.parametrize("program", [PYTREES, VMAP], ids=["pytrees", "vmap"])
def test_a_registry_may_grow_while_the_first_frame_of_a_process_is_compiled(program):
    """A new registration while the first frame is compiled causes a second compilation of the frame, not an error."""
    python(FIRST_IN_PROCESS.format(program))


@pytest.mark.parametrize(
    ("source", "kind", "expected", "grew"),
    [
        (GlobalSource("REGISTRY"), K.DICT_KEYS, ("a", "b"), False),
        (GlobalSource("REGISTRY"), K.DICT_KEYS, ("a",), True),
        (GlobalSource("REGISTRY"), K.DICT_LENGTH, 2, False),
        (GlobalSource("REGISTRY"), K.DICT_LENGTH, 1, True),
        (AttrSource(ModuleSource(__name__), "REGISTRY"), K.DICT_LENGTH, 1, True),
        (LocalSource("d"), K.DICT_LENGTH, 1, False),
        (GlobalSource("REGISTRY"), K.TYPE_MATCH, dict, False),
    ],
)
def test_only_dicts_of_modules_are_asked_again(source, kind, expected, grew):
    """Only guards on dicts of modules are checked again after tracing, because an argument cannot change meanwhile."""
    assert registries_grew([Guard(source, kind, expected)], SCOPE) is grew
