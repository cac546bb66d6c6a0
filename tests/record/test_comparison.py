"""A comparison of two compilers as JSON."""

from __future__ import annotations

import json

from nbcompile.record.comparison import Comparison, Difference, EngineRun, Fact
from nbcompile.record.model import Record
from tests.views import sample_records


def test_both_records_are_in_the_json_whole():
    """The JSON has both records and each compiler's missing facts, and is deterministic."""
    ours, theirs = sample_records.simple(), Record("f")
    facts = (Fact("graph breaks", 1, 0), Fact("first call", 0.5, None, "s", is_time=True))
    differences = (Difference("graph", "f (0/0)", "aten.mul", "", "known"),)
    made = Comparison("f", ours, theirs, EngineRun(), EngineRun(failure="a time limit"), facts, differences)
    plain = json.loads(made.to_json())
    assert plain["ours"]["frames"][0]["graph"]["nodes"][0]["id"] == ours.frames[0].graph.nodes[0].id
    assert plain["theirs"]["frames"] == [] and plain["their_run"]["failure"] == "a time limit"
    assert plain["facts"][1] == {"name": "first call", "ours": 0.5, "theirs": None, "unit": "s", "is_time": True}
    assert plain["differences"][0]["known"] == "known"
    assert made.to_json(indent=1) == made.to_json(indent=1) and json.loads(made.to_json(indent=1)) == plain
