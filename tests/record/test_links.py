"""Links by id: lines to kernels and back, frames to resume functions, breaks to causes."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from nbcompile.record import links
from tests.views import sample_records as sample

KERNEL = "0/0.inference.kernel0"


def test_a_line_leads_to_the_kernel_and_back():
    """Source line -> captured nodes -> ATen nodes, buffers, kernel; and from each of them to the line."""
    found = links.frame_links(sample.simple_frame())
    assert found.by_line == {2: ("0/0.n1", "0/0.n2"), 3: ("0/0.n3", "0/0.n4"), 4: ("0/0.n5",)}
    assert found.derived_names("0/0.n5") == ("0/0.inference.n5", "0/0.inference.buf0", "buf0", KERNEL)
    assert found.captured("0/0.inference.n2") == ("0/0.n2",)
    assert set(found.captured(KERNEL)) == {"0/0.n1", "0/0.n2", "0/0.n3", "0/0.n4", "0/0.n5"}
    assert found.lines("buf0") == (2, 3, 4)
    assert found.lines(KERNEL) == (2, 3, 4)


def test_kernel_lines_lead_to_captured_nodes():
    """A kernel line names ATen nodes, and the link leads to their captured nodes."""
    frame = sample.simple_frame()
    kernel = frame.compiled_graph.kernels[0]
    lines = links.kernel_line_nodes(links.frame_links(frame), kernel)
    texts = dict(enumerate(kernel.source.splitlines(), 1))
    (load,), (store,) = ([at for at, text in texts.items() if word in text] for word in ("load<", "store("))
    assert (set(lines[load]), lines[store]) == ({"0/0.n1", "0/0.n4"}, ("0/0.n5",))


def test_ids_that_lead_nowhere_are_no_error():
    """An id without an object is no error: a record may end in the middle of a compile."""
    frame = sample.simple_frame()
    found = links.frame_links(replace(frame, graph=None))
    assert found.captured(KERNEL, "no such id") == ()
    assert found.lines(KERNEL) == ()


def test_operators_of_an_inlined_function_belong_to_the_calling_line():
    """A node belongs to the line of the frame's own source, and not to a line of an inlined callee."""
    frame = sample.simple_frame()
    inner = sample.StackLine("/elsewhere.py", 99, "g", "return x.cos()")
    own = sample.line(3, "f", "z = g(y)")
    assert links.own_line(frame, (own, inner)) == 3
    assert links.own_line(frame, (inner,)) is None
    assert links.own_line(frame, ()) is None
    assert links.own_line(frame, (sample.line(5, "after", "not f's any more"),)) is None


def shape(node: links.TreeNode) -> tuple:
    return (node.frame.id, node.role, *map(shape, node.children))


def test_nested_breaks_are_a_tree_of_six_frames():
    """f calls inner2, which calls inner1; each has a resume function."""
    (root,) = links.resume_tree(sample.nested())
    assert shape(root) == (
        "0/0", "",
        ("1/0", "called", ("2/0", "called", ("3/0", "resumes")), ("4/0", "resumes")),
        ("5/0", "resumes"),
    )  # fmt: skip


@pytest.mark.parametrize("name", sample.ALL)
def test_every_frame_is_in_the_tree_once(name):
    """Each frame of each record is in the tree exactly once."""
    record = sample.ALL[name]()

    def ids(nodes):
        return [each for node in nodes for each in (node.frame.id, *ids(node.children))]

    assert sorted(ids(links.resume_tree(record))) == sorted(frame.id for frame in record.frames)


def test_a_parent_that_is_missing_or_later_makes_a_root():
    """Frames with a missing parent, or with parents in a cycle, still form a tree."""
    record = sample.nested()
    assert [node.frame.id for node in links.resume_tree(replace(record, frames=record.frames[3:]))] == [
        "3/0",
        "4/0",
        "5/0",
    ]
    circle = tuple(replace(frame, called_from="0/0") for frame in record.frames[:1])
    assert [node.frame.id for node in links.resume_tree(replace(record, frames=circle))] == ["0/0"]


def test_a_nested_break_is_one_cause():
    """A break that ended three frames is one distinct break, with the id of the first one."""
    (only,) = links.distinct_breaks(sample.nested())
    assert only.frames == ("0/0", "1/0", "2/0")
    assert only.cause.id == "0/0.b0"
    assert only.breaks == ("0/0.b0", "1/0.b0", "2/0.b0")


def test_the_same_break_is_recognised_without_its_first_seen():
    """Breaks of one kind at one line are one cause, also after a recompile."""
    record = sample.nested()
    frames = tuple(replace(f, breaks=tuple(replace(b, first_seen="") for b in f.breaks)) for f in record.frames)
    assert links.distinct_breaks(replace(record, frames=frames)) == tuple(
        replace(each, cause=replace(each.cause, first_seen="")) for each in links.distinct_breaks(record)
    )


def test_different_lines_are_different_causes():
    """Two calls of the same unsupported function are two breaks."""
    record = sample.save_break()
    other = replace(record.frames[0].breaks[0], id="1/0.b0", stack=(sample.line(4, "f", "z"),))
    record = replace(record, frames=(record.frames[0], replace(record.frames[1], breaks=(other,))))
    distinct = links.distinct_breaks(record)
    assert [each.frames for each in distinct] == [("0/0",), ("1/0",)]
    assert [links.cause_of(each, distinct) for frame in record.frames for each in frame.breaks] == [0, 1]


def test_recompiles_are_grouped_by_code_object():
    """0/0, 0/1 and 0/2 are entries of one code object."""
    assert [[f.id for f in group] for group in links.entries(sample.recompiled())] == [["0/0", "0/1", "0/2"]]


def test_a_resume_function_knows_where_it_goes_on():
    """The link of a resume function has the frame that it resumes, and the line."""
    record = sample.save_break()
    assert links.resumed_function(record, record.frames[1]) == (record.frames[0], 3)
    assert links.resumed_function(record, record.frames[0]) is None
    assert re.match(r"torch_dynamo_resume_in_f_at_\d+", record.frames[1].function)
