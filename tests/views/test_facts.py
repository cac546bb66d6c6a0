"""Facts about a record, independent of text or HTML."""

from __future__ import annotations

import pytest
import torch

import nbcompile
from nbcompile.views import facts, sections
from tests.views import sample_records as sample


def test_sections_come_in_page_order():
    """Sections have one order, each appears once."""
    assert sections.chosen(["guards", "summary", "guards"]) == ("summary", "guards")
    assert sections.chosen("graph") == ("graph",)
    assert sections.chosen(None) == tuple(sections.SECTIONS)[1:]


def test_an_unknown_section_is_rejected_by_name():
    """The error lists the known sections."""
    with pytest.raises(ValueError, match="no section is named 'grpah'; there are predict, summary, .*timings"):
        sections.chosen(["graph", "grpah"])


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
    """Sources of locals, globals and modules are written as the user writes them; other texts are unchanged."""
    assert facts.readable(expression) == plain


@pytest.mark.parametrize(
    ("target", "short"),
    [("aten.add.Tensor", "add"), ("torch.ops.aten.sum.default", "sum"), ("operator.mul", "mul"), ("relu", "relu"),
     ("torch.nn.functional.linear", "linear"), ("", "")],
)  # fmt: skip
def test_operators_have_short_names(target, short):
    """Operators are written without namespace and overload."""
    assert facts.short_target(target) == short


def test_numbers_that_should_be_zero_are_marked():
    """Breaks, recompiles, skipped and failed frames are marked if there are any."""
    tones = {tile.noun: (tile.number, tile.tone) for tile in facts.tiles(sample.skipped())}
    assert tones["graph break"] == (2, "warn")
    assert tones["failed frame"] == (1, "bad")
    assert tones["recompile"] == (0, "")


def test_guards_are_grouped_by_what_they_are_about():
    """Relations between values are no process state; unbounded ranges are written as inequalities."""
    nbcompile.reset()
    record = nbcompile.explain(lambda x, y: x + y, backend="eager", dynamic=True)(torch.ones(3), torch.ones(3)).record
    (frame,) = record.frames
    groups = {about: {each.kind for each in guards} for about, guards in facts.guard_groups(frame)}
    assert list(groups) == ["x", "y", "(several values)", "(sizes and numbers)", "(state of the process)"]
    assert groups["(several values)"] == {"NO_TENSOR_ALIASING"}
    assert groups["(sizes and numbers)"] == {"SHAPE_ENV"}
    assert "GLOBAL_STATE" in groups["(state of the process)"]
    assert [known for _, _, known, _ in facts.symbol_rows(frame)] == ["3 in [2, ∞]"]
