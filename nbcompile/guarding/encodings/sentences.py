"""Parts of the sentences about guards; the sentences themselves are in the table.

    shortened("L['x'].size()[0] == 3")     x.size()[0] == 3

In torch: nothing. Read next: nbcompile/guarding/encodings/table.py
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from types import ModuleType
from typing import cast

from nbcompile.capture.guard import TensorFacts
from nbcompile.capture.source import Source, expression
from nbcompile.guarding.values import describe_value


def shortened(text: str) -> str:
    """``L['x']`` as a user writes it: ``x``."""
    return re.sub(r"L\[\s*['\"](.*?)['\"]\s*\]", r"\1", text)


def tensor(name: str, expected: object) -> str:
    facts = cast("TensorFacts", expected)
    sizes = ", ".join("any" if size is None else str(size) for size in facts.sizes)
    return f"{name} is a tensor of the same kind with sizes ({sizes})"


def described(value: object) -> str:
    """An object, without the file that a module came from."""
    return f"<module '{value.__name__}'>" if isinstance(value, ModuleType) else describe_value(value)


def presence(what: str) -> dict[bool, str]:
    return {True: f"has {what}", False: f"has no {what}"}


def sources(found: Iterable[Source]) -> str:
    """Sources as a user writes them, one after another."""
    return ", ".join(shortened(expression(source)) for source in found)


def subclasses(answers: tuple[tuple[type, type, bool], ...]) -> str:
    """Answers of abstract classes, in words."""
    word = {True: "is", False: "is not"}
    return " and ".join(
        f"{subject.__qualname__} {word[answer]} a subclass of {cls.__qualname__}" for subject, cls, answer in answers
    )
