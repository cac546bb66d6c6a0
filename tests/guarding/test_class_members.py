"""The guard on the members of an object's class (``class_members.Members``)."""

from __future__ import annotations

import torch

from nbcompile.capture.resolution import kind_of_member
from nbcompile.guarding.class_members import Members


class Base:
    """A class with one value."""

    rate = 2


class Account(Base):
    """A class with one method."""

    def total(self) -> int:
        return self.rate


def seen(*names: str) -> Members:
    return Members(tuple((name, kind_of_member(Account, name)) for name in names))


def test_a_member_of_another_kind_is_rejected_until_it_is_gone() -> None:
    """A property that replaces a missing name, a value or a method fails the guard, on the class or on its base."""
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
    """An unused name may be added; another value of the same kind is guarded where it is used."""
    unchanged = seen("rate", "own")
    Account.more = property(lambda self: 1)  # type: ignore[attr-defined]
    Base.rate = 5
    assert unchanged(Account)
    Base.rate = 2
    del Account.more  # type: ignore[attr-defined]
    assert unchanged(Account)


def test_functions_of_torch_have_names() -> None:
    """A function of torch is identified by its name, because tracing uses that; a user's function is not."""
    assert kind_of_member(torch.nn.Linear, "forward") == "builtins.function torch.nn.modules.linear.Linear.forward"
    assert kind_of_member(Account, "total") == "builtins.function"
    assert kind_of_member(Account, "none") == ""
