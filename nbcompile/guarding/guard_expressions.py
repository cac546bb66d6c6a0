"""Guards as expression trees over values of a call, which a page can evaluate without a kernel.

    L['x']  TENSOR_MATCH      type(L['x']) same 'Tensor' and L['x'].dtype same 'torch.float32' and ...
    L['f']  FUNCTION_MATCH    id(L['f'].__code__) same 'f (cell_1.py:3)'
    L['s']  SET_CONTAINS      whether "set.__contains__(L['s'], 3)" holds, a value of its own

    expressions.test(guard)  ->  the tree       expressions.take(call)  ->  {"L['x'].dtype": "torch.float32", ...}

A tree is true for the values of a call exactly if the guard holds for the call: that is tested. An object
that a guard compares by identity gets a name instead of its address.

In torch: nothing. Read next: nbcompile/recording/guard_explorer.py
"""

from __future__ import annotations

import itertools

import torch

from nbcompile.capture.resolution import Scope
from nbcompile.guarding.accessors import fetch
from nbcompile.guarding.encodings.table import AMBIENT, LEAVES
from nbcompile.guarding.page_values import PageValues, Reader
from nbcompile.guarding.prepared import Ambient, Leaf, evaluate_leaf
from nbcompile.record import trees
from nbcompile.record.trees import Tree


class GuardExpressions(PageValues):
    """Trees of the guards of one code object, over the values that they read."""

    def __init__(self) -> None:
        super().__init__()
        self._wholes: dict[str, tuple[object, ...]] = {}
        """Guards that no tree expresses, by name: whether one holds is a value itself."""

    def test(self, prepared: Leaf | Ambient, scope: Scope) -> Tree:
        """Build the tree of one guard; ``scope`` is the call for which the guard was created."""
        kind = prepared.guard.kind
        try:
            if isinstance(prepared, Ambient):
                build = AMBIENT[kind].page_tree
                return self._as_it_is(prepared) if isinstance(build, str) else build(self, prepared, scope)
            write = LEAVES[kind].page_tree
            if isinstance(write, str):
                return self._as_it_is(prepared)
            with torch._C.DisableTorchFunction():  # no subclass or mode may observe the access
                return write(self, prepared, scope)
        # A guard without a tree is evaluated by its predicate, and is one value of the page: true or false.
        except Exception:  # noqa: BLE001 - no tree expresses it, or a tensor lacks a property (sparse, nested)
            return self._as_it_is(prepared)

    def _as_it_is(self, item: Leaf | Ambient) -> Tree:
        """Build the tree of a guard that has no expression: whether it holds is the value."""
        # Two different guards may have one text: the second gets a number. A guard of another entry
        # that is the same one (equal keys) keeps its name, so that both entries read one value.
        name = next(
            name
            for number in itertools.count(1)
            if self._wholes.setdefault(name := item.text if number == 1 else f"{item.text} #{number}", item.guard.key())
            == item.guard.key()
        )
        return trees.same(self.read(name, item.holds if isinstance(item, Ambient) else _holds_of(item)), True)


def _holds_of(leaf: Leaf) -> Reader:
    return lambda scope: evaluate_leaf(leaf, lambda source: fetch(source, scope))
