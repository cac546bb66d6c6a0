"""Units of a campaign: the differing programs of a batch."""

from __future__ import annotations

from nbcompile.tools.fuzz import batches, oracle, program, reduction, tensors, units


def test_programs_that_differ_are_taken_out_of_a_batch(monkeypatch):
    """Each differing program of a batch is found separately; a difference of several programs is found whole."""
    functions = [(f"def p(a):\n    return a + {number}\n", "[(1,)]") for number in range(5)]
    batch = program.Program("tensor", "test", batches.module(functions, tensors.PRELUDE), size=5)
    wrong = oracle.Difference("bits", "", "", "")

    def differs_with(*needed):
        return lambda played: oracle.Verdict(difference=wrong if any(map(played.source.count, needed)) else None)

    def sizes(outcome):
        return [found.size for found, _ in units.split(batch, outcome)]

    unknown, known = oracle.Verdict(difference=wrong), oracle.Verdict(difference=wrong, members=(1, 2, 4))
    monkeypatch.setattr(oracle, "examine", differs_with("a + 1", "a + 4"))
    assert sizes(unknown) == sizes(known) == [1, 1]
    monkeypatch.setattr(oracle, "examine", differs_with("nothing"))
    assert sizes(unknown) == sizes(known) == [5]
    rounded = oracle.Verdict(difference=oracle.Difference("value", "", "", ""), members=(3,))
    assert sizes(rounded) == []


def test_a_unit_counts_what_it_plays(monkeypatch):
    """Rejected programs are counted separately; a known cause has no text and no reduced program."""
    drawn = [program.Program("python", str(number), f"text {number}", size=number + 1) for number in range(4)]
    wrong = oracle.Difference("internal", "", "1", "assertion 7")
    verdicts = {
        "text 0": oracle.Verdict(), "text 1": oracle.Verdict(eager_error="no"),
        "text 2": oracle.Verdict(), "text 3": oracle.Verdict(difference=wrong),
    }  # fmt: skip
    monkeypatch.setitem(units.GENERATORS, "python", (lambda seed: drawn[int(seed.rpartition("/")[2])], 4))
    monkeypatch.setattr(oracle, "examine", lambda played: verdicts[played.source])
    monkeypatch.setattr(units, "split", lambda played, verdict: [(played, verdict.difference)])
    cause = reduction.cause(drawn[3], wrong)
    found = units.play_unit("python", 1, 0, known={cause})
    assert (found["programs"], found["eager_errors"]) == (1 + 3 + 4, 2)
    assert found["found"] == [{"cause": cause, "text": ""}]
