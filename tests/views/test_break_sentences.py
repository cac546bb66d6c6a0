"""Sentences about breaks: how many frames one ended, and which callers run into it."""

from __future__ import annotations

import torch

import nbcompile
from nbcompile.record import links
from nbcompile.views import break_sentences


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
    """The sentence about a break that ended several frames, and their number."""
    nbcompile.reset()
    with nbcompile.config.patch(nested_graph_breaks=nested):
        record = nbcompile.explain(function, backend="eager")(torch.ones(3)).record
    (found,) = links.distinct_breaks(record)
    return break_sentences.repeated(record, found), len(found.frames)


def test_a_break_is_met_by_every_caller_only_where_it_is():
    """The advice of nested graph breaks appears only if each frame is the callee of the last, and it is true."""
    promise = "With config.nested_graph_breaks it is encountered once, in `outermost`"
    said, _ = said_of(outermost, nested=False)
    assert said == f"one cause, 3 frames ended by it, since every caller encounters it again. {promise}"
    assert said_of(outermost, nested=True) == ("one cause, 1 frame ended by it", 1)
    for function, nested in ((twice, False), (twice, True)):
        said, frames = said_of(function, nested=nested)
        assert frames > 1 and "nested_graph_breaks" not in said, "it is called twice: it would be met twice"
