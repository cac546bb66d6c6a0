"""The command of the fuzzer."""

from __future__ import annotations

import json

import pytest

from nbcompile.tools.fuzz import __main__ as command, campaign


def test_counts_as_json(tmp_path, monkeypatch, capsys):
    """With --json the counts are on stdout, and findings on stderr."""

    def run(plan):
        campaign.State().write(plan.folder / f"state-{plan.seed}.json")
        print("new: something")
        return 3

    monkeypatch.setattr(campaign, "run", run)
    assert command.main(["--json", "--out", str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out)["new_causes"] == 3
    assert "new: something" in printed.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--kind", "nothing"], "no kind of program is called 'nothing'"),
        (["--seconds", "0"], "more than 0"),
        (["--replay", "/nowhere.py"], "No such file"),
        (["--unit", "python"], "KIND/NUMBER"),
    ],
)
def test_wrong_options(capsys, arguments, words):
    """A wrong option is one line, with status 2."""
    with pytest.raises(SystemExit) as ended:
        command.main(arguments)
    assert ended.value.code == 2
    assert words in capsys.readouterr().err.splitlines()[-1]


def test_one_unit_in_this_process(capsys):
    """One unit runs some programs of a kind, and counts them."""
    assert command.main(["--unit", "python/0", "--seed", "9"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["programs"] > 10
