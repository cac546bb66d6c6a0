"""A parser that reports unknown options before missing arguments.

    Parser(prog="explain")        `explain --jsno`: unrecognized argument --jsno: did you mean --json?

argparse reports missing arguments first, so a misspelled option would be reported as a missing argument.

In torch: nothing. Read next: nbcompile/tools/commands/command_line.py
"""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

ALIKE = 0.8
"""Ratio of equal characters (difflib) from which an unknown word is a misspelt one."""


def closest(word: str, names: Iterable[str]) -> str:
    """The name most similar to a misspelt word; "" if none is similar."""
    return next(iter(difflib.get_close_matches(word, list(names), n=1, cutoff=ALIKE)), "")


class Parser(argparse.ArgumentParser):
    """The parser of a command; those of its subcommands are of the same class."""

    given: Sequence[str] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Store the arguments for the error message."""
        self.given = list(args or ())
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """End with the message, or with one about unknown options."""
        unknown = [word for word in self.given if self._is_unknown(word)]
        # argparse stops at the first problem, which is the missing argument.
        if not unknown or "required" not in message:
            super().error(message)
        close = closest(unknown[0].partition("=")[0], self._option_string_actions)
        hint = f": did you mean {close}?" if close else ""
        super().error(f"unrecognized arguments: {' '.join(unknown)}{hint}")

    def _is_unknown(self, word: str) -> bool:
        known = self._option_string_actions
        if not word.startswith("-") or word in ("-", "--") or self._negative_number_matcher.match(word):
            return False
        attached = not word.startswith("--") and word[:2] in known  # -oFILE
        return word.partition("=")[0] not in known and not attached
