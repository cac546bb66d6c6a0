"""Type forms that are not classes."""

from __future__ import annotations

import typing

from tests.support.answers import check

UserId = typing.NewType("UserId", int)
T = typing.TypeVar("T")


class Box(typing.Generic[T]):
    def __init__(self, item=None):
        self.item = item


class Answering:
    def __class_getitem__(cls, key):
        return "item", key


NAMES = {"typing": typing, "UserId": UserId, "Box": Box, "Answering": Answering}


def test_forms_are_made_and_compared():
    """Subscripts create forms, whose arguments may be forms; a class may define its own subscript."""
    check(
        "list[int], dict[str, int]", "list[list[int]]", "typing.get_origin(list[int])",
        "list[int].__args__", "Answering[1], Answering[int, str]", "typing.Any", "{list[int]: 1}[list[int]]", **NAMES,
    )  # fmt: skip


def test_equal_forms_are_equal():
    """Each subscript creates a new form; a form can be compared with any value."""
    check(
        "list[int] == list[int]", "list[int] != list[int]", "list[int] == list[str]", "list[int] == list", "list == list[int]",
        "typing.Optional[int] == typing.Union[int, None]", "(int | str) == (str | int)", "typing.List[int] == list[int]",
        "list[int] == 3", "[list[int]] == [list[int]]", "list[int] in (list[str], list[int])", "typing.Any == typing.Any", **NAMES,
    )  # fmt: skip


def test_forms_are_called():
    """``list[int]`` creates a list; a new type returns its argument."""
    check(
        "list[int]([1, 2])",
        "dict[str, int](a=1)",
        "UserId(5)",
        "Box[int](3).item",
        "Box(4).item",
        "type(Box[int](3)) is Box",
        "int[str]",
        **NAMES,
    )
