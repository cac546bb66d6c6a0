"""Descriptions of the settings, for ``%compile_config --all`` and for the reference.

    verbose: bool = False        Meaning("verbose", False, "Error messages show the compiler's own stack as well.")
    "Error messages ..."

The text is the docstring below the setting in nbcompile/config.py; torch's
settings without an effect here have the reason instead (``NO_EFFECT``).

In torch: the comments of torch/_dynamo/config.py. Read next: nbcompile/config.py
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from nbcompile import config

SOURCE = Path(config.__file__ or "")


@dataclass(frozen=True, slots=True)
class Meaning:
    """A setting, its default, and its effect."""

    name: str
    default: object
    text: str


def meanings() -> Iterator[Meaning]:
    """Every setting, in the order of the module."""
    body = ast.parse(SOURCE.read_text(encoding="utf-8")).body
    texts = {
        one.target.id: re.sub(r"\s+", " ", following.value.value)
        for one, following in itertools.pairwise(body)
        if isinstance(one, ast.AnnAssign)
        and isinstance(one.target, ast.Name)
        and isinstance(following, ast.Expr)
        and isinstance(following.value, ast.Constant)
        and isinstance(following.value.value, str)
    }
    for name in config.names():
        no_effect = config.NO_EFFECT.get(name)
        yield Meaning(name, config.DEFAULTS[name], f"No effect: {no_effect}." if no_effect else texts[name])


def shown(value: object) -> str:
    """The ``repr`` of a value; that of a set also for a default, which is frozen."""
    return repr(value).replace("frozenset()", "set()")


@dataclass(frozen=True, eq=False)
class Listing(Mapping[str, object]):
    """Settings and their values; shown as lines, each with its effect."""

    values_by_name: dict[str, object]

    def __getitem__(self, name: str) -> object:
        return self.values_by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_by_name)

    def __len__(self) -> int:
        return len(self.values_by_name)

    def __repr__(self) -> str:
        if not self.values_by_name:
            return "Every setting has its default. %compile_config --all lists them, and what each does."
        known = {each.name: each for each in meanings()}
        lines = []
        for name, value in self.values_by_name.items():
            default = "" if value == known[name].default else f"  (default: {shown(known[name].default)})"
            lines += [f"{name} = {shown(value)}{default}", f"    {known[name].text.replace('``', '')}"]
        return "\n".join(lines)
