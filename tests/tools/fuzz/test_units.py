"""Units of a campaign: the programs of a batch that differ."""

from __future__ import annotations

from nbcompile.tools.fuzz import batches, oracle, program, tensors, units


def test_programs_that_differ_are_taken_out_of_a_batch(monkeypatch):
    """Of a batch all programs that differ are found, each by itself; what takes several is found whole."""
    functions = [(f"def p(a):\n    return a + {number}\n", "[(1,)]") for number in range(5)]
    batch = program.Program("tensor", "test", batches.module(functions, tensors.PRELUDE), size=5)
    wrong = oracle.Difference("bits", "", "", "")

    def differs_with(*needed):
        return lambda played: oracle.Verdict(difference=wrong if any(map(played.source.count, needed)) else None)

    def sizes(outcome):
        return [found.size for found, _ in units.apart(batch, outcome)]

    unknown, known = oracle.Verdict(difference=wrong), oracle.Verdict(difference=wrong, members=(1, 2, 4))
    monkeypatch.setattr(oracle, "examine", differs_with("a + 1", "a + 4"))
    assert sizes(unknown) == sizes(known) == [1, 1]
    monkeypatch.setattr(oracle, "examine", differs_with("nothing"))
    assert sizes(unknown) == sizes(known) == [5]
    rounded = oracle.Verdict(difference=oracle.Difference("value", "", "", ""), members=(3,))
    assert sizes(rounded) == []
