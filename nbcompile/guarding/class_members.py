"""Guards on the members of a class: an inlined method is still a method, and no descriptor hides an instance attribute.

    TYPE_MATCH L['self']  with members (("total", "method"),)     ___check_members(type(L['self']), total)

In torch: nothing; a class that is changed after a compile goes unnoticed. Read next: nbcompile/guarding/prepared.py
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from nbcompile.capture.guard import GuardKind
from nbcompile.capture.resolution import kind_of_member
from nbcompile.guarding.prepared import Leaf
from nbcompile.torch_internals import members


def with_members(leaf: Leaf, name: str) -> Leaf:
    """The same guard with a check that the class still has members of the kinds that were looked up."""
    unchanged, is_class = Members(leaf.guard.members), leaf.guard.kind is GuardKind.ID_MATCH
    names = ", ".join(name for name, _ in leaf.guard.members)
    text = f"___check_members({name if is_class else f'type({name})'}, {names:.80})"

    def holds(value: object) -> bool:
        return leaf.holds(value) and (unchanged(cast("type", value)) if is_class else unchanged.of_instance(value))

    def install(manager: Any) -> None:
        leaf.install(manager)
        manager.add_lambda_guard(unchanged if is_class else unchanged.of_instance, [text], None)

    return replace(leaf, holds=holds, install=install, of_class=unchanged)


class Members:
    """Predicate that a class has members of these kinds; evaluated once per version of the class."""

    __slots__ = ("_address", "_kinds", "_now", "_seen")

    def __init__(self, kinds: tuple[tuple[str, str], ...]) -> None:
        self._kinds = kinds
        self._address = self._seen = 0
        self._now: Any = None
        """The version tag of the class at that address, read in place; valid only while the class is this one."""

    def of_instance(self, value: object) -> bool:
        """Return whether the members of a value's class are of these kinds now."""
        # Inlined from __call__: past the recompile limit a call checks every entry, and a frame for each is slow.
        cls = type(value)
        return (id(cls) == self._address and self._now.value == self._seen) or self(cls)

    def __call__(self, cls: type) -> bool:
        """Return whether the members are of these kinds now."""
        # CPython gives a class another version tag when it or one of its bases changes.
        if id(cls) == self._address and self._now.value == self._seen:
            return True
        now = members.version_field(cls)
        # Read before the members: a change during the look-up leaves an old tag, and the next call looks again.
        seen = now.value
        if any(kind_of_member(cls, name) != kind for name, kind in self._kinds):
            return False
        # Tag 0 means that CPython tracks no version of this class at present, so the result cannot be cached.
        self._address, self._now, self._seen = (id(cls), now, seen) if seen else (0, None, 0)
        return True
