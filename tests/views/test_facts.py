"""What is said of a record, independent of text or HTML."""

from __future__ import annotations

import pytest
import torch

import nbcompile
from nbcompile.record import links
from nbcompile.record.model import StackLine
from nbcompile.views import facts, sections
from tests.views import sample_records as sample


def test_sections_come_in_page_order():
    """However they are asked for, they are shown in one order, each once."""
    assert sections.chosen(["guards", "summary", "guards"]) == ("summary", "guards")
    assert sections.chosen("graph") == ("graph",)
    assert sections.chosen(None) == tuple(sections.SECTIONS)[1:]


def test_an_unknown_section_is_refused_by_name():
    """The message lists the sections that there are."""
    with pytest.raises(ValueError, match="no section is named 'grpah'; there are predict, summary, .*timings"):
        sections.chosen(["graph", "grpah"])


def test_carets_stand_below_the_expression():
    """The underline is as long as the expression; without columns there is none."""
    assert facts.carets(StackLine("f", 1, "f", "x = g(y)", 4, 8)) == "    ^^^^"
    assert facts.carets(StackLine("f", 1, "f", "x = g(y)")) == ""


@pytest.mark.parametrize(
    ("expression", "plain"),
    [
        ("L['self'].weight", "self.weight"),
        ("G['torch'].sin", "torch.sin"),
        ("L['x y']", "L['x y']"),
        ("L['d']['k']", "d['k']"),
        ("L['self']._modules['blocks']._modules['0']._parameters['weight']", "self.blocks[0].weight"),
        ("L['self']._modules['a b']._buffers['mean']", "self._modules['a b'].mean"),
    ],
)
def test_addresses_are_readable(expression, plain):
    """Locals, globals and parts of modules are written as the user writes them; nothing else is touched."""
    assert facts.readable(expression) == plain


@pytest.mark.parametrize(
    ("target", "short"),
    [("aten.add.Tensor", "add"), ("torch.ops.aten.sum.default", "sum"), ("operator.mul", "mul"), ("relu", "relu"),
     ("torch.nn.functional.linear", "linear"), ("", "")],
)  # fmt: skip
def test_operators_have_short_names(target, short):
    """The overload and the home of an operator are left out."""
    assert facts.short_target(target) == short


def test_every_line_tells_what_happened_to_it():
    """Operators, what they move, guards, the break and the point of resumption stand at their lines."""
    record = sample.save_break()

    def notes(frame):
        lines = facts.source_lines(record, frame, links.frame_links(frame))
        return {line.number: [note.kind for note in line.notes] for line in lines if line.notes}

    assert notes(record.frames[0]) == {2: ["operators", "cost", "guards"], 3: ["break"], 4: ["later"]}
    assert notes(record.frames[1]) == {3: ["resume"], 4: ["operators", "cost", "guards"]}


seen = []


def noting(x):
    seen.append(1)
    return x.sin()


def test_a_side_effect_goes_by_the_users_name():
    """The residual program names what it changes; the note beside the line says the user's name."""
    record = nbcompile.explain(noting, backend="eager")(torch.ones(3)).record
    frame = record.frames[0]
    assert [facts.replayed(frame, each) for each in frame.mutations] == [("seen", "seen.extend([1])")]
    lines = facts.source_lines(record, frame, links.frame_links(frame))
    assert "replayed: seen.extend([1])" in [note.text for line in lines for note in line.notes]


def test_every_line_tells_who_runs_it():
    """A generated kernel or an operator of ATen; and after a break, in which frame the line is compiled."""

    def told(record, kind):
        frame = record.frames[0]
        lines = facts.source_lines(record, frame, links.frame_links(frame))
        return {line.number: note.text for line in lines for note in line.notes if note.kind == kind}

    assert told(sample.simple(), "kernels") == {2: "in kernel0", 3: "in kernel0", 4: "in kernel0"}
    assert told(sample.mutating(), "fallback") == {3: "mm by ATen"}
    assert told(sample.save_break(), "later") == {4: "pow, truediv in 1/0"}


def test_numbers_that_should_be_zero_are_marked():
    """Breaks, recompiles, skipped and failed frames stand out; zero of them does not."""
    tones = {tile.noun: (tile.number, tile.tone) for tile in facts.tiles(sample.skipped())}
    assert tones["graph break"] == (1, "warn")
    assert tones["failed frame"] == (1, "bad")
    assert tones["recompile"] == (0, "")


def test_guards_are_grouped_by_what_they_are_about():
    """What holds between values or sizes is no state of the process; ranges without an end are written as people do."""
    nbcompile.reset()
    record = nbcompile.explain(lambda x, y: x + y, backend="eager", dynamic=True)(torch.ones(3), torch.ones(3)).record
    (frame,) = record.frames
    groups = {about: {each.kind for each in guards} for about, guards in facts.guard_groups(frame)}
    assert list(groups) == ["x", "y", "(several values)", "(sizes and numbers)", "(state of the process)"]
    assert groups["(several values)"] == {"NO_TENSOR_ALIASING"}
    assert groups["(sizes and numbers)"] == {"SHAPE_ENV"}
    assert "GLOBAL_STATE" in groups["(state of the process)"]
    assert [known for _, _, known, _ in facts.symbol_rows(frame)] == ["3 in [2, ∞]"]


def test_carets_end_with_the_line():
    """A record from a file may hold any number of columns: the underline is never longer than the line."""
    assert facts.carets(StackLine("f", 1, "f", "x = g(y)", 4, 10**30)) == "    ^^^^"


def innermost(x):
    x = x + 1
    nbcompile.graph_break()
    return x * 2


def middle(x):
    return innermost(x.sin()) + 1


def outermost(x):
    return middle(x.cos()) + 2


def twice(x):
    return innermost(x) + innermost(x.sin())


def said_of(function, *, nested):
    """What is said of the break, if it ended more than one frame."""
    nbcompile.reset()
    with nbcompile.config.patch(nested_graph_breaks=nested):
        record = nbcompile.explain(function, backend="eager")(torch.ones(3)).record
    (found,) = links.distinct_breaks(record)
    return facts.repeated(record, found), len(found.frames)


def test_a_break_is_met_by_every_caller_only_where_it_is():
    """Each frame is the callee of the one before: then nested graph breaks help, and the promise is kept when tried."""
    promise = "With config.nested_graph_breaks it is met once, in `outermost`"
    said, _ = said_of(outermost, nested=False)
    assert said == f"one cause, 3 frames ended by it, since every caller meets it again. {promise}"
    assert said_of(outermost, nested=True) == ("one cause, 1 frame ended by it", 1)
    for function, nested in ((twice, False), (twice, True)):
        said, frames = said_of(function, nested=nested)
        assert frames > 1 and "nested_graph_breaks" not in said, "it is called twice: it would be met twice"
