"""Unknown options are reported before missing arguments."""

from __future__ import annotations

import argparse
import importlib
import inspect
from collections.abc import Iterator

import pytest

from nbcompile.tools.commands import command_line, guide
from nbcompile.tools.commands.command_line import main


@pytest.mark.parametrize(
    "words",
    ["explain", "teach", "teach show", "teach check", "run", "report", "open", "ablate", "bisect", "minify", "compare"],
)
def test_an_unknown_option_comes_before_what_is_missing(words, capsys):
    """`explain --bad` reports --bad; `explain` reports the missing argument."""
    with pytest.raises(SystemExit):
        main([*words.split(), "--bad"])
    assert "unrecognized arguments: --bad" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(words.split())
    assert "required" in capsys.readouterr().err


def test_a_misspelt_option_before_what_is_missing(capsys):
    """The error suggests the option that was meant; values of options are no options."""
    with pytest.raises(SystemExit):
        main(["explain", "--jsno"])
    assert "--jsno: did you mean --json?" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["minify", "-osmall.py", "--seconds", "-5"])
    assert "required: script" in capsys.readouterr().err


def leaves(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parsers of commands, and of their actions."""
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not groups:
        yield parser
    for group in groups:
        for name, child in group.choices.items():
            yield from leaves(child) if name not in command_line.PASSED_ON else ()


def test_every_command_prints_json():
    """Each command has --json, those with a separate parser, too."""
    parser, _ = command_line.build_parser()
    missing = [leaf.prog for leaf in leaves(parser) if "--json" not in leaf._option_string_actions]
    assert missing == []
    for name in command_line.PASSED_ON:
        module = importlib.import_module(guide.MODULES[name][0])
        assert "--json" in inspect.getsource(module)
