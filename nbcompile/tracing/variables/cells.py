"""Cells: variables that closures share.

    def f(x):
        count = 0            a cell, which g and f have in common
        def g(): nonlocal count; count += 1

In torch: torch/_dynamo/variables/misc.py (CellVariable). Read next: nbcompile/tracing/variables/functions.py
"""

from __future__ import annotations

import types

from nbcompile.capture.recipe import Cell, CellOf, Constant, FromSource, Mutation, Recipe, SetCell
from nbcompile.capture.source import AttrSource, CellSource, ConstantSource, ItemSource, Source
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import (
    LazyVariable,
    VariableTracker,
)


class CellVariable(VariableTracker):
    """A cell: the variable of an outer function that inner functions share."""

    def __init__(
        self,
        content: VariableTracker | None,
        name: str,
        cell: types.CellType | None = None,
        content_source: Source | None = None,
        frame_name: str | None = None,
    ) -> None:
        self.content = content
        self.name = name
        self.cell = cell
        """The real cell; None for one that the traced code created."""
        self.content_source = content_source
        """Source that the cell's content was read from."""
        #     frame f ── cell k ── inner g         one cell, one tracker: an assignment in g is visible in f
        self.frame_name = frame_name
        """Name of the compiled frame's own free variable that has this cell; None if it has none."""
        self.changed = False

    def python_type(self) -> type:
        return types.CellType

    def describe(self) -> str:
        return f"CellVariable({self.name})"

    def address(self) -> Source | None:
        """Source of the cell itself: in the closure of a function from outside."""
        content = self.content_source
        if self.cell is None or not isinstance(content, CellSource):
            return None
        return ItemSource(AttrSource(content.base, "__closure__"), content.index)

    def is_created_here(self) -> bool:
        return self.cell is None

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        if name == "cell_contents":
            if self.content is None:
                tracer.raise_exception(ValueError, "Cell is empty")
            return self.content
        return super().get_attribute(tracer, name)

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        # The frame's own free variable: the residual program, which has the same one, reads the cell from a closure.
        if self.frame_name is not None:
            return CellOf(self.frame_name)
        if self.cell is not None:
            address = self.address()
            if address is not None:
                return FromSource(address)
            # It has no source: the residual program has the cell itself as a constant.
            return Constant(self.cell, f"cell_{self.name}")
        return reconstruction.shared(
            self,
            lambda: Cell(None if self.content is None else reconstruction.recipe(self.content)),
            empty=(lambda: Cell(None), lambda: self._filled(reconstruction)),  # a function that refers to itself
        )

    def _filled(self, reconstruction: Reconstructor) -> tuple[Mutation, ...]:
        assert self.content is not None
        return (SetCell(self.recipe(reconstruction), reconstruction.recipe(self.content), self.name),)


def cell_tracker(
    tracer: Tracer, cell: types.CellType, name: str, source: Source | None, frame_name: str | None = None
) -> CellVariable:
    """The tracker of a real cell."""
    # One tracker for each real cell: functions that share a variable see each other's assignments.
    known = tracer.side_effects.known(cell)
    if isinstance(known, CellVariable):
        return known
    try:  # an empty cell: the variable is assigned later
        value = cell.cell_contents
    except ValueError:
        content: VariableTracker | None = None
    else:
        content = LazyVariable(value, source if source is not None else ConstantSource(name, value))
    tracker = CellVariable(content, name, cell, source, frame_name)
    tracer.side_effects.remember(cell, tracker)
    return tracker
