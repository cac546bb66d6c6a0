"""Values with an identity: each is created once, however many others hold it, and some hold themselves.

    def f(): return f               the function needs its cell, and the cell holds the function
    xs = []; xs.append(xs)          the list holds itself
    self.callback = self.step       the method needs the object, and the object holds the method

A cycle is broken at a part that can be created first and completed later.

In torch: PyCodegen's uses and SideEffects.codegen_save_tempvars (torch/_dynamo/codegen.py, side_effects.py).
Read next: nbcompile/tracing/effects/reconstruction.py
"""

from __future__ import annotations

from collections.abc import Callable

from nbcompile.capture import recipe as recipes
from nbcompile.capture.recipe import Mutation, Recipe, SharedValue
from nbcompile.tracing import breaks
from nbcompile.tracing.protocol import Fill
from nbcompile.tracing.variables.base import VariableTracker


class _SelfReference(breaks.Unsupported):
    """Cycle: creating a value needs the value itself."""

    def __init__(self, tracker: VariableTracker, key: int) -> None:
        super().__init__(breaks.UNSUPPORTED_VALUE, "a value that contains itself", {"name": tracker.type_name()})
        self.key = key
        self.through: tuple[VariableTracker, Callable[[], Recipe], Fill] | None = None
        """A part of the cycle that can be created first, and is completed after the whole is created."""


class SharedValues:
    """Recipes of the values that have an identity."""

    # A value is created before the parts that refer to it: after ``xs = []; xs.append(xs)``, xs is created empty
    # and then filled with itself.
    #     key not in _recipes      not begun
    #     _recipes[key] is None    ``make`` is running: a part that needs the value finds a cycle
    #     key in _filling          created, ``fill`` is running: a part may refer to it
    #     _recipes[key]            done

    def __init__(self) -> None:
        self._recipes: dict[int, SharedValue | None] = {}
        self._keys: dict[int, int] = {}
        self._filling: set[int] = set()
        self._fills_of_parts: dict[int, list[Fill]] = {}
        """Functions that complete parts which were created first, by the key of a value that is not created yet."""

    def shared(
        self,
        tracker: VariableTracker,
        make: Callable[[], Recipe],
        fill: Fill | None = None,
        empty: tuple[Callable[[], Recipe], Fill] | None = None,
    ) -> Recipe:
        """The recipe of a value with an identity: one recipe for all uses.

        Args:
            tracker: the tracker of the value.
            make: returns the recipe of the complete value.
            fill: returns the mutations that complete the created value; they may refer to the value itself.
            empty: for values that may contain themselves: the recipe of an empty value, and a function that fills it.
        """
        # Keys are small numbers in order of first use, not ids: the residual program must not depend on addresses.
        key = self._keys.setdefault(id(tracker), len(self._keys))
        if key in self._filling:
            return recipes.SharedReference(key)
        if key in self._recipes:
            found = self._recipes[key]
            if found is None:
                raise _SelfReference(tracker, key)
            return found
        self._recipes[key] = None
        try:
            recipe = make()
        # The cycle is broken at a part that can be created first and completed later: the value that closes the cycle,
        # or else a part of it that set ``through``. The exception passes all parts of the cycle.
        #     def f(): return f       f needs its cell, which needs f: an empty cell, f with it, then the cell is filled
        except _SelfReference as cycle:
            del self._recipes[key]  # to be created again, complete or empty
            if cycle.key != key:
                cycle.through = cycle.through or (None if empty is None else (tracker, *empty))
                raise
            if empty is not None:
                return self.shared(tracker, *empty)
            if cycle.through is None:
                raise
            return self._after(tracker, make, fill, *cycle.through)
        self._recipes[key] = SharedValue(key, recipe, self._completed(key, tracker, make, fill))
        return self._recipes[key]  # type: ignore[return-value]

    def _completed(
        self, key: int, tracker: VariableTracker, make: Callable[[], Recipe], fill: Fill | None
    ) -> tuple[Mutation, ...]:
        """Mutations that complete a value that is created, and the parts that were created before it."""
        fills = (*(() if fill is None else (fill,)), *self._fills_of_parts.pop(key, ()))

        def mutations() -> tuple[Mutation, ...]:
            return tuple(mutation for filling in fills for mutation in filling())

        self._filling.add(key)
        try:
            return mutations()
        # What completes it needs a value that is being created, and that needs this one: a method, of which the object
        # is created already, and which the object holds. The object is completed after the method is created.
        except _SelfReference as cycle:
            del self._recipes[key]
            cycle.through = cycle.through or (tracker, make, mutations)
            if cycle.through[0] is not tracker:
                self._fills_of_parts[key] = list(fills[0 if fill is None else 1 :])
            raise
        finally:
            self._filling.remove(key)

    def _after(
        self, whole: VariableTracker, make: Callable[[], Recipe], fill: Fill | None,
        part: VariableTracker, make_part: Callable[[], Recipe], fill_part: Fill,
    ) -> Recipe:  # fmt: skip
        """Create a value that cannot be created empty (a function), then complete its part (its cell)."""
        self.shared(part, make_part)
        # If another cycle interrupts this, the value is created later by another call, which then completes the part.
        self._fills_of_parts.setdefault(self._keys[id(whole)], []).append(fill_part)
        return self.shared(whole, make, fill)
