"""The commands ``doctor`` and ``logs``."""

from __future__ import annotations

import argparse
import json

from nbcompile.support import log_names
from nbcompile.tools.commands import machine
from nbcompile.tools.doctor import Check


def run(*words):
    parser = argparse.ArgumentParser()
    machine.add(parser.add_subparsers())
    options = parser.parse_args(words)
    return options.run(options)


def test_logs_as_data_name_every_log(capsys):
    """The JSON has each log of the compiler's table, live ones included."""
    assert run("logs", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert set(printed["printed"]) == {*log_names.PRINTED, *log_names.LIVE}


def test_only_what_is_needed_makes_the_doctor_fail(monkeypatch, capsys):
    """A missing extra is marked, and does not fail; a missing requirement is marked and fails."""
    fields = {name: "" for name in Check.__dataclass_fields__}
    checks = [Check(**fields | {"what": "extra", "there": False, "needed": False})]
    monkeypatch.setattr(machine, "examine", lambda: tuple(checks))
    assert run("doctor", "--json") == 0
    checks.append(Check(**fields | {"what": "compiler", "there": False, "needed": True}))
    assert run("doctor", "--json") == 1
    assert "compiler" in capsys.readouterr().out
