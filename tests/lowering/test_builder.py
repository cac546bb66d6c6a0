"""The builder of a program: when a value is stored, in which layout, and how ATen gets it as an argument."""

from __future__ import annotations

import pytest
import torch
from torch import fx

from nbcompile.ir import buffer as ir
from nbcompile.ir.expr import IndexOf, Load, UnsupportedDtype, apply, cast, constant
from nbcompile.ir.index import ONE, ZERO, index, indices, loop_variable, reduction_variable
from nbcompile.ir.layout import Layout, channels_last, contiguous
from nbcompile.lowering import graph  # noqa: F401  (fills the table of lowerings)
from nbcompile.lowering.builder import CHEAP_COST, Builder
from nbcompile.lowering.registry import NoLowering
from nbcompile.lowering.value import Value, load, reindexed

CPU, F32 = torch.device("cpu"), torch.float32
i0, i1 = loop_variable(0), loop_variable(1)
r0 = reduction_variable(0)
aten = torch.ops.aten


def build(*size, stride=None, dtype=F32, name="x"):
    """A builder with one input, and the value that loads it."""
    builder = Builder()
    layout = contiguous(indices(size)) if stride is None else Layout(indices(size), indices(stride))
    builder.add(ir.GraphInput(name, dtype, CPU, layout, 0))
    return builder, builder.whole(name)


def plus_one(value):
    """The sum of a value and one."""
    return Value(value.dtype, value.device, value.size, apply("add", value.body, constant(1.0, value.dtype)))


def made(builder):
    """The buffers after the input."""
    return builder.buffers[1:]


def result_node(builder, example):
    """A node with this result; from now on the builder lowers it."""
    node = fx.Graph().placeholder("node")
    node.meta["val"] = example
    builder.node = node
    return node


def test_names_are_counted_and_differ_from_inputs():
    """Each prefix has a separate counter; the name of an input is skipped."""
    builder, _ = build(2, name="buf1")
    assert [builder.fresh("buf") for _ in range(3)] == ["buf0", "buf2", "buf3"]
    assert builder.fresh("extern") == "extern0"
    assert builder.fresh_gather() != builder.fresh_gather()


def test_a_whole_buffer_is_not_stored_again():
    """A buffer is stored again only as a copy, or in another layout; a part of it, or work on it, is a new buffer."""
    builder, x = build(2, 3)
    assert builder.realize(x) is x and made(builder) == []
    assert builder.realize(x, contiguous(indices((2, 3)))) is x
    copied = builder.realize(x, copy=True)
    turned = builder.realize(x, Layout(indices((2, 3)), indices((1, 2))))
    first_row = builder.realize(reindexed(x, indices((3,)), (ZERO, i0)))
    worked = builder.realize(plus_one(x))
    assert [each.name for each in made(builder)] == ["buf0", "buf1", "buf2", "buf3"]
    for value, name in zip((copied, turned, first_row, worked), ("buf0", "buf1", "buf2", "buf3"), strict=True):
        assert value.body.buffer == name


def test_what_is_stored_reads_dimensions_of_one_element_at_zero():
    """A dimension of size 1 is indexed with zero, as fusion compares indices; an empty value loads nothing."""
    builder, x = build(1, 3)
    builder.realize(x, copy=True)
    assert made(builder)[-1].body == Load("x", (ZERO, i1), F32)
    empty, x = build(0, 3)
    empty.realize(plus_one(x))
    assert made(empty)[-1].body == constant(0, F32)


def test_complex_numbers_are_not_stored():
    """A complex value raises an error, because no kernel supports it: the caller falls back to ATen."""
    builder, x = build(2, dtype=torch.complex64)
    with pytest.raises(UnsupportedDtype):
        builder.realize(x, copy=True)


def test_a_value_is_stored_into_the_input_that_it_mutates():
    """The buffer has a new name; later loads read the input."""
    builder, x = build(2)
    written = builder.realize(plus_one(x), writes_to="x")
    assert (made(builder)[-1].name, made(builder)[-1].writes_to, written.body.buffer) == ("buf0", "x", "x")


def test_only_costly_values_are_stored_before_several_uses():
    """A few additions and loads are recomputed for each use; a value above CHEAP_COST, or three loads, are stored."""
    builder, x = build(4)
    assert builder.realize_if_costly(plus_one(x)).body == plus_one(x).body and made(builder) == []
    deep = x.body
    for _ in range(CHEAP_COST + 1):
        deep = apply("add", deep, constant(1.0, F32))
    other = [apply("add", apply("add", load(name, F32, CPU, x.size).body, x.body), x.body) for name in ("x",)]
    for body in (deep, *other):
        before = len(made(builder))
        builder.realize_if_costly(Value(F32, CPU, x.size, body))
        assert len(made(builder)) == before + 1


def test_a_result_has_the_strides_that_the_fake_tensor_has():
    """A result has the strides of the fake tensor if that is dense and of equal size; otherwise it is row-major."""
    builder, x = build(2, 3)
    assert builder.default_layout(x) == contiguous(indices((2, 3)))
    for example, stride in (
        (torch.empty(3, 2).t(), (1, 2)), (torch.empty(2, 6)[:, ::2], (3, 1)), (torch.empty(6), (3, 1)),
    ):  # fmt: skip
        result_node(builder, example)
        assert builder.default_layout(x).stride == indices(stride)


def test_channels_last_is_inherited_by_what_is_computed_from_it():
    """An intermediate that is computed from a channels-last buffer is channels-last; a result of the graph is not."""
    builder, x = build(2, 3, 4, 5)
    node = result_node(builder, torch.empty(2, 3, 4, 5))
    builder.channels_last.add("x")
    assert builder.default_layout(plus_one(x)) == channels_last(indices((2, 3, 4, 5)))
    builder.realize(plus_one(x))
    assert builder.channels_last == {"x", "buf0"}
    node.graph.output((node,))
    assert builder.default_layout(plus_one(x)) == contiguous(indices((2, 3, 4, 5)))


@pytest.mark.parametrize(
    ("dims", "keepdim", "size", "reduced", "body_index"),
    [
        ([1], False, (2, 4), (3,), (loop_variable(0), r0, loop_variable(1))),
        ([1], True, (2, 1, 4), (3,), (loop_variable(0), r0, loop_variable(1))),
        ([0, 2], False, (3,), (2, 4), (r0, loop_variable(0), reduction_variable(1))),
        ([0, 1, 2], False, (), (2, 3, 4), (r0, reduction_variable(1), reduction_variable(2))),
    ],
)
def test_kept_dimensions_are_numbered_anew(dims, keepdim, size, reduced, body_index):
    """``sum(1)`` of ``x[i0, i1, i2]`` is the sum over ``r0`` of ``x[i0, r0, i1]``; keepdim leaves a size of 1."""
    builder, x = build(2, 3, 4)
    result = builder.reduce(x, dims, keepdim, "sum", F32, F32)
    (buffer,) = made(builder)
    assert (result.size, buffer.reduced, buffer.body) == (indices(size), indices(reduced), Load("x", body_index, F32))
    assert buffer.layout.size == indices([each for at, each in enumerate((2, 3, 4)) if at not in dims])


def test_a_reduction_over_single_elements_is_none():
    """A reduction over one element needs no loop and no buffer; it has the result's dtype, and argmax is 0."""
    builder, x = build(2, 1)
    element = cast(Load("x", (i0, ZERO), F32), torch.float64)
    assert builder.reduce(x, [1], False, "max", torch.float64, torch.float64).body == element
    summed = builder.reduce(x, [1], False, "sum", torch.float64, torch.float64)
    assert made(builder) == [] and summed.body == element + 0.0
    assert builder.reduce(x, [1], False, "argmax", torch.int64, F32).body == constant(0, torch.int64)


def test_a_scan_keeps_the_size():
    """A scan is one buffer along one dimension, and is computed in the wider dtype."""
    builder, x = build(2, 3, dtype=torch.bfloat16)
    result = builder.scan(x, 1, "sum", torch.bfloat16, F32)
    (buffer,) = made(builder)
    assert (result.size, buffer.dim, buffer.body.dtype, buffer.dtype) == (x.size, 1, F32, torch.bfloat16)


def test_a_scatter_writes_to_a_copy():
    """A functional scatter does not mutate its target; a sum in bfloat16 is accumulated in float32."""
    builder, x = build(4, dtype=torch.bfloat16)
    source = Value(torch.bfloat16, CPU, indices((2,)), constant(1.0, torch.bfloat16))
    result = builder.scatter(x, source, [IndexOf(i0, torch.int64, ())], "sum")
    copy, scatter = made(builder)
    assert (scatter.into, copy.dtype, scatter.dtype, result.dtype) == (copy.name, F32, F32, torch.bfloat16)
    stored, x = build(4, dtype=torch.bfloat16)
    stored.scatter(x, source, [IndexOf(i0, torch.int64, ())], "store")
    assert [each.dtype for each in made(stored)] == [torch.bfloat16, torch.bfloat16]


VIEWS = {
    "whole": ((4, 8), (i0, i1), (8, 1), 0),
    "transposed": ((8, 4), (i1, i0), (1, 8), 0),
    "sliced": ((3, 4), (i0 + 1, 2 * i1), (8, 2), 8),
    "expanded": ((4, 5), (i0, ZERO), (8, 0), 0),
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_plain_index_is_a_view(name):
    """The strides are the factors of the loop variables, and the offset is the constant."""
    size, position, stride, offset = VIEWS[name]
    builder, x = build(4, 8)
    view = builder.view_of(reindexed(x, indices(size), position))
    assert view == ir.BufferView("x", Layout(indices(size), indices(stride), index(offset)))


def test_what_no_tensor_can_be_is_no_view():
    """A flipped dimension has a negative stride, so it is no view; a computed value is not in memory."""
    builder, x = build(4)
    assert builder.view_of(reindexed(x, x.size, (3 - i0,))) is None
    assert builder.view_of(plus_one(x)) is None


def test_aten_gets_the_strides_that_its_graph_says():
    """A view with the expected strides is passed without a copy, also where any strides will do; others are copied."""
    builder, x = build(4, 8)
    turned = reindexed(x, indices((8, 4)), (i1, i0))
    as_is = builder.as_argument(turned, Layout(indices((8, 4)), indices((1, 8))), False)
    free = builder.as_argument(turned, contiguous(indices((8, 4))), True)
    assert as_is.buffer == free.buffer == "x" and made(builder) == []
    copied = builder.as_argument(turned, contiguous(indices((8, 4))), False)
    assert copied == ir.BufferView("buf0", contiguous(indices((8, 4))))


def test_an_expanded_argument_is_computed_once_along_its_zeros():
    """The buffer of an expanded argument has one element along the expanded dimension, and the view has stride 0."""
    builder, x = build(4)
    row = reindexed(plus_one(x), indices((4, 5)), (i0,))
    wanted = Layout(indices((4, 5)), indices((1, 0)))
    assert builder.as_argument(row, wanted, False) == ir.BufferView("buf0", wanted)
    assert made(builder)[-1].layout.size == (index(4), ONE)


def test_an_operator_that_mutates_says_which_buffers():
    """A call lists each mutated buffer once, as its schema says; the results are buffers that refer to the call."""
    builder, x = build(4)
    view = builder.view_of(x)
    result = torch.empty(4)
    builder.extern_call(aten.add_.Tensor, (view, view), {}, result, "a reason")
    builder.extern_call(aten.aminmax.default, (view,), {}, (torch.empty(()), torch.empty(())), "")
    calls = [each for each in made(builder) if isinstance(each, ir.Extern)]
    assert [each.mutates for each in calls] == [("x",), ()] and calls[0].reason == "a reason"
    outputs = [each for each in made(builder) if isinstance(each, ir.ExternOutput)]
    assert [(each.extern, each.path) for each in outputs[-2:]] == [("extern1", (0,)), ("extern1", (1,))]


def test_arguments_of_a_call_are_buffers_wherever_they_are_nested():
    """A value in a nested list becomes a view of a buffer; numbers are unchanged."""
    builder, x = build(4, 8)
    example = fx.Graph().placeholder("x")
    example.meta["val"] = torch.empty(4, 8)
    builder.node = example.graph.call_function(aten.cat.default, ([example, example], 1))
    builder.extern(aten.cat.default, ([x, plus_one(x)], 1), {}, torch.empty(4, 16), "")
    (call,) = (each for each in made(builder) if isinstance(each, ir.Extern))
    assert [each.buffer for each in call.args[0]] == ["x", "buf0"] and call.args[1] == 1


def test_only_integers_are_indices():
    """A gathered index is int64 in the program; an index of floats or bools has no lowering."""
    builder, x = build(4, dtype=torch.int32)
    symbol, gather = builder.gather(x, index(9), True)
    assert (gather.symbol, gather.value.dtype, gather.wraps) == (symbol, torch.int64, True)
    for dtype in (F32, torch.bool):
        builder, x = build(4, dtype=dtype)
        with pytest.raises(NoLowering, match="index"):
            builder.gather(x, index(9), True)


def test_code_for_a_gpu_is_generated_for_tensors_of_the_cpu():
    """A target replaces the CPU and the meta device; any other device, or one without a target, is unchanged."""
    gpu, other = torch.device("cuda", 0), torch.device("cuda", 1)
    assert Builder(device=gpu).target_device(CPU) == Builder(device=gpu).target_device(torch.device("meta")) == gpu
    assert Builder(device=gpu).target_device(other) == other and Builder().target_device(CPU) == CPU


def test_a_condition_on_unknown_sizes_is_not_true():
    """A condition is true only if it is statically true; an unknown condition counts as false."""
    builder = Builder()
    assert builder.is_true(True) and not builder.is_true(False)
    assert builder.is_true(index(1) < index(2))
    assert not builder.is_true(loop_variable(0) < 3)


def test_new_buffers_belong_to_the_node_that_is_lowered():
    """A new buffer has the name of the current node as origin."""
    builder, x = build(4)
    result_node(builder, torch.empty(4))
    builder.realize(plus_one(x))
    assert made(builder)[-1].from_nodes == ("node",)


def test_a_lowering_can_call_another_one():
    """``build.call(aten.exp.default, x)`` is the value of that operator's lowering."""
    builder, x = build(4)
    assert builder.call(aten.exp.default, x).body == apply("exp", x.body)
