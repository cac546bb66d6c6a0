"""Messages of a compile about replayed side effects."""

import warnings

import pytest
import torch

import nbcompile
from nbcompile import config, errors

pytestmark = pytest.mark.usefixtures("nothing_compiled")


def noting(x, notes, counts):
    notes.append(1)
    counts["calls"] = 2
    return x + 1


def call(policy, function=noting):
    """The warnings of a first call under a policy."""
    with config.patch(side_effect_replay_policy=policy), warnings.catch_warnings(record=True) as met:
        warnings.simplefilter("always")
        nbcompile.compile(function, backend="eager")(torch.ones(2), [], {})
    return [str(each.message) for each in met if issubclass(each.category, errors.SideEffectWarning)]


def test_a_warning_names_all_that_is_changed():
    """The warning lists each mutated object once, in order."""
    (text,) = call("warn")
    assert text.endswith("Changed: notes, counts")


def test_nothing_is_said_of_what_changes_nothing():
    """Without side effects no policy has a message, and the silent policy has none in any case."""
    assert call("warn", lambda x, notes, counts: x + len(notes)) == []
    assert call("error", lambda x, notes, counts: x + len(notes)) == []
    assert call("silent") == []


def test_changes_can_be_an_error():
    """The exception, also under fullgraph, lists the side effects, and the call has none."""
    notes = []
    with config.patch(side_effect_replay_policy="error"), pytest.raises(errors.ReplayedSideEffects, match="notes"):
        nbcompile.compile(noting, backend="eager", fullgraph=True)(torch.ones(2), notes, {})
    assert notes == []


def test_the_record_has_each_change_in_words_and_as_code():
    """The record has the kind of each side effect, its object, and the statement that replays it."""
    frame = nbcompile.explain(noting, backend="eager")(torch.ones(2), [], {}).record.frames[0]
    assert [mutation.target for mutation in frame.mutations] == ["notes", "counts"]
    assert all(mutation.code for mutation in frame.mutations)
