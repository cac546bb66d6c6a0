"""What a guard on the type of an object promises of the members of its class (``class_members.Members``)."""

from __future__ import annotations

import torch

from nbcompile.capture.resolution import kind_of_member
from nbcompile.guarding.class_members import Members


class Base:
    """Has one value."""

    rate = 2


class Account(Base):
    """Has one method."""

    def total(self) -> int:
        return self.rate


def seen(*names: str) -> Members:
    return Members(tuple((name, kind_of_member(Account, name)) for name in names))


def test_a_member_of_another_kind_is_refused_until_it_is_gone() -> None:
    """A property in the place of nothing, of a value or of a method; on the class or on its base."""
    unchanged = seen("rate", "total", "own")
    assert unchanged(Account)
    for cls in (Account, Base):
        for name in ("rate", "own"):
            before = vars(cls).get(name)
            setattr(cls, name, property(lambda self: 3))
            assert not unchanged(Account), (cls, name)
            delattr(cls, name)
            if before is not None:
                setattr(cls, name, before)
            assert unchanged(Account), (cls, name)


def test_other_names_and_values_do_not_matter() -> None:
    """A name that nobody looked up may come, and a value of the same kind is guarded where it is used."""
    unchanged = seen("rate", "own")
    Account.more = property(lambda self: 1)  # type: ignore[attr-defined]
    Base.rate = 5
    assert unchanged(Account)
    Base.rate = 2
    del Account.more  # type: ignore[attr-defined]
    assert unchanged(Account)


def test_functions_of_torch_have_names() -> None:
    """What is traced by its name is another member once another function has its place; a user's function is not named."""
    assert kind_of_member(torch.nn.Linear, "forward") == "builtins.function torch.nn.modules.linear.Linear.forward"
    assert kind_of_member(Account, "total") == "builtins.function"
    assert kind_of_member(Account, "none") == ""
