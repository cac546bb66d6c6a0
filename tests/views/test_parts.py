"""The table of the parts of a graph that was split at gradient buckets."""

from nbcompile.record import links
from nbcompile.record.model import CompiledFrame, CompiledGraph, Graph, Node, Part
from nbcompile.views import parts
from nbcompile.views.markup import Limits

NODES = (
    Node("0/0.n0", "w", "placeholder", "w", "", source="L['self']._parameters['weight']"),
    Node("0/0.n1", "mm", "call_function", "torch.mm", "(w, w)", ("0/0.n0",)),
    Node("0/0.n2", "sin", "call_method", "sin", "(mm,)", ("0/0.n1",)),
)
FIRST = Part("submod_0", ("0/0.n1",), ("0/0.n0",), 2_000_000, 1_500_000)
SECOND = Part("submod_1", ("0/0.n2",), (), 0, 1_048_576, late=2)


def frame(*found: Part) -> CompiledFrame:
    graph = Graph("0/0.captured", "captured", NODES, "")
    return CompiledFrame("0/0", "f", "f.py", 1, "", "compiled", "", graph=graph,
                         compiled_graph=CompiledGraph("eager", parts=found))  # fmt: skip


def test_parts_as_text():
    """Each part is a line with its operators, its gradients, and the reason for its begin."""
    found = list(parts.as_text(frame(FIRST, SECOND)))
    assert found[1] == "  submod_0  1 operator  2000 kB of self.weight: the graph begins here"
    assert found[2].startswith("  submod_1  1 operator  0 B of no parameter: its bucket of 1049 kB is full, and 2 oper")


def test_one_part():
    """A graph that DDP does not split has a sentence that says so, and one row."""
    assert "the graph is not split" in next(parts.as_text(frame(FIRST)))
    assert list(parts.as_text(frame())) == []


def test_page():
    """The page has the same rows in a table."""
    shown = frame(FIRST, SECOND)
    drawn = str(parts.render(shown, links.frame_links(shown), Limits()))
    assert "Split into 2 parts" in drawn
    assert "self.weight" in drawn
    assert parts.render(frame(), links.frame_links(frame()), Limits()) is None
