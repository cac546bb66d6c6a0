"""Graphs of programs with collectives, compared with torch's, on two ranks."""

from tests.distributed.test_ranks import pytestmark  # noqa: F401 - skipped without gloo


def test_collectives_are_in_the_graph_as_in_torchs(first_pair):
    """Functional and mutating collectives, and queries of groups, have eager's results and torch's graphs."""
    for found in first_pair["captured"]:
        assert len(found) > 30
        for name, (right, ours, theirs) in found.items():
            assert right, name
            assert ours == theirs, name
