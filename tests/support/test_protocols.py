"""The members of a protocol that a class lacks."""

from __future__ import annotations

from typing import Protocol

from tests.support.protocols import missing_members


class Shape(Protocol):
    sides: int

    def area(self) -> float: ...

    def scale(self, by: float) -> None: ...


class Square:
    def __init__(self) -> None:
        self.sides = 4

    def area(self) -> float:
        return 1.0


def test_what_a_class_lacks():
    """An attribute that ``__init__`` sets is present; a method that no class defines is missing."""
    assert missing_members(Shape, Square) == ["scale"]
