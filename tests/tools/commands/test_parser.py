"""Unknown options are named first, whatever else is missing."""

from __future__ import annotations

import pytest

from nbcompile.tools.commands.command_line import main


@pytest.mark.parametrize(
    "words",
    ["explain", "teach", "teach show", "teach check", "run", "report", "open", "ablate", "bisect", "minify", "compare"],
)
def test_an_unknown_option_comes_before_what_is_missing(words, capsys):
    """`explain --bad` is told of --bad, and not that an argument is missing; without it, of the argument."""
    with pytest.raises(SystemExit):
        main([*words.split(), "--bad"])
    assert "unrecognized arguments: --bad" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(words.split())
    assert "required" in capsys.readouterr().err


def test_a_misspelt_option_before_what_is_missing(capsys):
    """The option that was meant is named; values of options are no options."""
    with pytest.raises(SystemExit):
        main(["explain", "--jsno"])
    assert "--jsno: did you mean --json?" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["minify", "-osmall.py", "--seconds", "-5"])
    assert "required: script" in capsys.readouterr().err
