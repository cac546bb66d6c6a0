"""Programs whose surroundings change between calls."""

from __future__ import annotations

import random
import re

from nbcompile.tools.fuzz import guards, oracle


def test_a_seed_is_a_program():
    """The same seed gives the same text, another seed another, and Python can read it."""
    assert guards.generate("1") == guards.generate("1")
    assert guards.generate("1").source != guards.generate("2").source
    compile(guards.generate("1").source, "<test>", "exec")


def test_no_program_of_a_group_raises_in_eager_mode():
    """What follows one that fails would not be compared: such programs are left out of their group."""
    sizes = []
    for seed in (3, 4, 8):
        found = guards.group(str(seed), random.Random(seed), size=6)
        played = oracle.play(found, lambda function: function)
        assert not any(map(guards._failed, played.seen))
        assert len(re.findall(r"^def p\d+\(", found.source, re.MULTILINE)) == found.size
        sizes.append(found.size)
    # Else no program of these seeds raises anything, and others have to be taken.
    assert 1 <= min(sizes) < max(sizes) == 6


def test_changes_come_between_calls():
    """A program calls its function several times; only the last call is followed by no change."""
    steps = list(guards._steps(random.Random(2)))
    assert 3 <= len(steps) <= 5
    assert steps[-1][2] == []
    text = "\n".join(guards.calls(random.Random(2)))
    assert text.count("yield [call(") == len(steps)
    assert text.startswith("    global G\n")
