"""One kernel as one C++ function: pointers, lanes, form, and the origins of its lines."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from nbcompile.codegen.kernels import emit_kernel, needs_64_bit_lanes
from nbcompile.codegen.machine_model import GIL_RELEASE_WORK
from nbcompile.ir.expr import Load
from nbcompile.ir.index import index, loop_variable, reduction_variable
from nbcompile.ir.kernel import Accumulate, Loop, Nest, Store
from tests.support.schedules import pointwise, reduction

i0, r0 = loop_variable(0), reduction_variable(0)


def emitted(schedule, **changed):
    """The C++ of a schedule's only kernel, with changes."""
    (kernel,) = schedule.kernels()
    return emit_kernel(replace(kernel, **changed), schedule)


def added(size=40, dtype=torch.float32):
    """``x0 + x1`` of two vectors."""
    return pointwise([torch.ones(size, dtype=dtype), torch.ones(size, dtype=dtype)], {"y": lambda x, y: x + y})


def test_pointers_are_named_by_what_is_done_with_them():
    """Pointers are in the order of the arguments, inputs first, with a number; a pointer that is only read is const."""
    found = emitted(added())
    assert found.arguments == ("x0", "x1", "y")
    for at, line in enumerate(
        (
            "const f32 *__restrict in0 = (const f32 *)pointers[0];  // x0",
            "const f32 *__restrict in1 = (const f32 *)pointers[1];  // x1",
            "f32 *__restrict out0 = (f32 *)pointers[2];  // y",
        )
    ):
        assert found.source.splitlines()[2 + at].strip() == line


def test_memory_that_is_read_and_written_is_not_restrict():
    """A buffer that is mutated in place is one pointer without restrict."""
    schedule = pointwise([torch.ones(40)], {"y": lambda x: x + 1.0})
    store = Store("x0", i0, Load("x0", (i0,), torch.float32) + 1.0)
    found = emitted(schedule, body=(store,), reads=("x0",), writes=("x0",))
    assert found.arguments == ("x0",) and "f32 *out0 = (f32 *)pointers[0];  // x0" in found.source


def test_the_function_is_called_as_the_launcher_calls_it():
    """The function takes pointers, sizes and the context, and returns 0 if no index is checked."""
    found = emitted(added())
    assert "EXPORT i64 kernel_y(void *const *pointers, const i64 *sizes, Context *context) {" in found.source
    assert found.source.rstrip().endswith("return 0;\n}") and found.complaints == ()
    assert (found.name, found.buffers, found.from_nodes, found.sizes) == ("kernel_y", ("y",), ("y",), ())


LANES = {
    "float32": (added, torch.float32, "LANES32"),
    "float64": (added, torch.float64, "LANES64"),
    "int64": (added, torch.int64, "LANES64"),
    "int32": (added, torch.int32, "LANES32"),
}


@pytest.mark.parametrize("name", LANES)
def test_lanes_are_as_many_as_the_widest_type_allows(name):
    """A 64-bit type halves the number of lanes for all types."""
    make, dtype, lanes = LANES[name]
    schedule = make(dtype=dtype)
    assert f"constexpr int W = {lanes};" in emitted(schedule).source
    (kernel,) = schedule.kernels()
    assert needs_64_bit_lanes(kernel) is (lanes == "LANES64")


def arg_kernel(count):
    """The argmax of a row with this many elements."""
    schedule = reduction(torch.ones(8, 100), "argmax")
    (kernel,) = schedule.kernels()
    nest, *rest = kernel.body
    assert isinstance(nest, Nest)
    return replace(kernel, body=(replace(nest, loops=(Loop(r0, index(count)),)), *rest))


@pytest.mark.parametrize(("count", "wide"), [(100, False), ((1 << 31) - 1, False), (1 << 31, True)])
def test_an_index_is_kept_in_32_bits_where_it_fits(count, wide):
    """The int64 result of ``argmax`` does not halve the lanes unless there are 2**31 elements or more."""
    assert needs_64_bit_lanes(arg_kernel(count)) is wide


def test_types_are_declared_that_the_body_uses():
    """The text has a typedef for each vector type that it uses, and for no other."""
    text = emitted(added()).source
    assert "typedef" not in text.split("constexpr int W")[0]
    summed = emitted(reduction(torch.ones(8, 100), "sum")).source
    assert "typedef Vec<f32, W> F32;" in summed and "F64" not in summed


FORMS = {
    "loop": (added, "step(All{}, i0)"),
    "rows": (lambda: reduction(torch.ones(8, 100), "sum"), "step(All{}, r0, 0)"),
    "column": (lambda: reduction(torch.ones(64, 100), "sum", columns=True), "for_each_part(parts"),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_kernel_has_the_form_that_its_memory_asks_for(form):
    """A kernel vectorises its loop, its rows, or adjacent columns: lanes are adjacent in memory."""
    make, sign = FORMS[form]
    text = emitted(make()).source
    assert [name for name, (_, other) in FORMS.items() if other in text] == [form] and sign in text


def test_long_kernels_release_the_interpreter():
    """A kernel with much work releases the GIL."""
    assert emitted(added(GIL_RELEASE_WORK + 16)).lengthy and not emitted(added(16)).lengthy


def test_each_line_says_which_nodes_it_is_for():
    """The store's role is `computes`, that of the loop is `surrounds`, and that of code for the launcher is `glue`."""
    found = emitted(added())
    lines = found.source.splitlines()
    role_of = {lines[line.line - 1].strip(): (line.role, line.nodes) for line in found.lines}
    (store,) = (text for text in role_of if text.startswith("store("))
    assert role_of[store] == ("computes", ("y",)) and role_of["return 0;"] == ("glue", ())
    assert role_of["constexpr int W = LANES32;"][0] == "surrounds"


def test_equal_kernels_have_equal_text():
    """The text of a kernel has no names of locals of the IR, so that equal kernels are compiled once."""
    schedule = reduction(torch.ones(8, 100), "sum")
    (kernel,) = schedule.kernels()
    nest, store = kernel.body
    (part,) = nest.body
    assert isinstance(part, Accumulate) and isinstance(store, Store)
    renamed = replace(part, name="another")
    value = replace(store.value, name="another") if hasattr(store.value, "name") else store.value
    other = emitted(schedule, body=(replace(nest, body=(renamed,)), replace(store, value=value)))
    strip = [line.partition("  //")[0] for line in other.source.splitlines()]
    assert strip == [line.partition("  //")[0] for line in emitted(schedule).source.splitlines()]
