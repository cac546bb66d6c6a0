"""Campaigns: a sequence of units, and their stored results."""

from __future__ import annotations

import itertools
import json
import os
import signal
import types

from nbcompile.tools.fuzz import campaign


def test_a_campaign_goes_on(tmp_path):
    """Counts and causes are stored; a cause is new only once."""

    plan = campaign.Plan(1000.0, 1, ("python",), 1, tmp_path, compare_with_peer=False)
    run = campaign.Campaign(plan, campaign.State())
    (tmp_path / "causes").mkdir()
    run.count(
        "python",
        {"programs": 3, "value_sets": 0, "eager_errors": 1, "seconds": 1.0, "found": [{"cause": "c", "text": "x"}] * 2},
    )
    kept = json.loads((tmp_path / "state-1.json").read_text())
    assert kept["programs"] == {"python": 3}
    assert kept["causes"]["c"]["count"] == 2
    assert run.new == 1
    assert len(list((tmp_path / "causes").iterdir())) == 1


def test_a_unit_that_ends_its_process(tmp_path, monkeypatch, capsys):
    """A crash is a finding, its unit is not repeated, and the campaign continues."""
    played = {"programs": 2, "value_sets": 0, "eager_errors": 0, "seconds": 1.0, "found": []}
    monkeypatch.setattr(campaign.units, "warm_up", lambda kinds: None)
    monkeypatch.setattr(
        campaign.units,
        "play_unit",
        lambda kind, seed, unit, *_: os.kill(os.getpid(), signal.SIGKILL) if unit == 1 else played,
    )
    looks = itertools.count()  # a counting clock: the machine's speed does not matter
    monkeypatch.setattr(campaign, "time", types.SimpleNamespace(monotonic=lambda: float(next(looks))))
    plan = campaign.Plan(60.0, 1, ("python", "nn"), 2, tmp_path, compare_with_peer=False)
    assert campaign.run(plan) == 2  # one of each kind
    kept = campaign.State.read(tmp_path / "state-1.json")
    assert min(kept.programs["python"], kept.programs["nn"]) >= 2
    assert "python ends the process (SIGKILL): unit 1" in capsys.readouterr().out
