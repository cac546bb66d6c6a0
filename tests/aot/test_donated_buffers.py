"""Donated buffers: which saved tensors are donated, and when their memory is freed."""

from __future__ import annotations

import pytest
import torch
import torch.fx
from torch.multiprocessing.reductions import StorageWeakRef

import nbcompile
from nbcompile.aot import donated_buffers
from nbcompile.capture.node_meta import DONATED

pytestmark = pytest.mark.usefixtures("nothing_compiled")


def donated(saved, gradient="tangents_1"):
    """Names of the donated inputs of a backward graph; ``inner`` is a view's base, ``part`` the view."""
    forward, backward = torch.fx.Graph(), torch.fx.Graph()
    values = {name: torch.empty(2) for name in ("x", "product", "inner", "tangents_1")}
    values |= {"part": values["product"][1:], "other": values["inner"][1:]}
    nodes = {"x": forward.placeholder("x")}
    for name in ("product", "inner", "part", "other"):
        nodes[name] = forward.create_node("call_function", torch.sin, (nodes["x"],), name=name)
    forward.output(tuple(nodes[name] for name in ("product", *saved)))
    inputs = {name: backward.placeholder(name) for name in (*saved, "tangents_1")}
    backward.output((inputs[gradient], None))
    for node in (*forward.nodes, *backward.nodes):
        node.meta["val"] = values.get(node.name)
    found = donated_buffers.mark(forward, backward, 1)
    marked = [name for name, node in inputs.items() if node.meta.get(DONATED)]
    assert found == bool(marked)
    return marked


def test_what_is_saved_and_shares_memory_with_nothing_else_is_donated():
    """Intermediates and views of them are donated; inputs, results, gradients, tangents, and views of these are not."""
    assert donated(["x", "product", "part"]) == []
    assert donated(["x", "inner", "other", "part"]) == ["inner", "other"]
    assert donated(["inner", "other"], gradient="inner") == []


seen: list[StorageWeakRef] = []
expired: list[list[bool]] = []


@pytest.fixture(autouse=True)
def nothing_is_watched():
    """A StorageWeakRef must not outlive torch: it would fail when it is deleted."""
    yield
    seen.clear()
    expired.clear()


@torch.library.custom_op("nbcompile_tests::looked_at", mutates_args=())
def looked_at(x: torch.Tensor) -> torch.Tensor:
    """The identity; its derivative records which of the storages in ``seen`` are freed by then."""
    return x.clone()


@torch.library.custom_op("nbcompile_tests::look", mutates_args=())
def look(x: torch.Tensor) -> torch.Tensor:
    """The identity, in the backward graph; it records which storages are freed."""
    expired.append([each.expired() for each in seen])
    return x.clone()


looked_at.register_fake(torch.empty_like)
look.register_fake(torch.empty_like)
looked_at.register_autograd(lambda ctx, gradient: look(gradient))


def chain(x, w, v):
    """A chain whose first operator has the last derivative: by then all other saved tensors have been read."""
    return ((looked_at(x).sin() @ w).tanh() @ v).square().sum()


def through_aot_autograd(x, w, v):
    """A chain behind a mutation: AOTAutograd traces and partitions this graph."""
    y = x * 1
    y.mul_(2)
    return chain(y, w, v)


def inputs():
    torch.manual_seed(0)
    return [torch.randn(4, 4, requires_grad=True) for _ in range(3)]


@pytest.mark.parametrize("function", [chain, through_aot_autograd])
@pytest.mark.parametrize("dynamic", [False, True])
def test_saved_tensors_are_freed_within_the_backward_pass(function, dynamic):
    """Saved tensors are freed after their last use; a retained graph keeps them, and gives the same gradients twice."""
    given = inputs()
    wanted = torch.autograd.grad(function(*given), given)
    loss = nbcompile.compile(function, dynamic=dynamic)(*given)
    expired.clear()
    seen[:] = [StorageWeakRef(saved.untyped_storage()) for saved in loss.grad_fn.saved_tensors]
    own = {each.untyped_storage().data_ptr() for each in given}
    count = sum(saved.untyped_storage().data_ptr() not in own for saved in loss.grad_fn.saved_tensors)
    kept = torch.autograd.grad(loss, given, retain_graph=True)
    assert expired == [[False] * len(seen)]
    last = torch.autograd.grad(loss, given)
    assert count >= 3
    assert sum(expired[-1]) == count
    torch.testing.assert_close(kept, wanted)
    assert all(map(torch.equal, kept, last))


def test_a_second_pass_through_a_freed_graph_is_eagers_error():
    """A second backward pass raises eager's error, and so does a read of the saved tensors."""

    def rejected(function):
        given = inputs()
        loss = function(*given)
        torch.autograd.grad(loss, given)
        with pytest.raises(RuntimeError) as found:
            torch.autograd.grad(loss, given)
        return str(found.value)

    compiled = nbcompile.compile(chain)
    assert rejected(compiled) == rejected(chain)
    loss = compiled(*inputs())
    loss.backward()
    with pytest.raises(RuntimeError, match="already been freed"):
        _ = loss.grad_fn.saved_tensors


def test_a_tensor_that_the_user_holds_stays():
    """The backward pass frees only the graph's own references."""
    given = inputs()
    loss = nbcompile.compile(chain)(*given)
    held = [saved for saved in loss.grad_fn.saved_tensors if saved.grad_fn is None]
    before = [each.clone() for each in held]
    loss.backward()
    assert all(map(torch.equal, held, before))


def test_a_donated_buffer_is_freed_in_the_text():
    """The text of the wrapper frees a donated buffer after the last launch that reads it."""
    (frame,) = nbcompile.explain(lambda x, w, v: ((x.sin() @ w).tanh() @ v).sum())(*inputs()).record.frames
    _, backward = frame.compiled_graph.wrapper.split("# backward")
    lines = [line.strip() for line in backward.splitlines()]
    reading = [line for line in lines if line.startswith("kernel") and "tanh" in line]
    assert lines[lines.index("del tanh") - 1] == reading[-1]
    assert "del primals_1" not in lines
    lives = {each.buffer: each for each in frame.compiled_graph.lifetimes}
    assert lives["backward.tanh"].saved
    assert 0 < lives["backward.tanh"].last < max(each.last for each in lives.values())
