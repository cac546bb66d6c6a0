r"""The smallest program text for which something still holds: delta debugging over statements.

    reduce("a = 1\nb = 2\nfail()\n", lambda text: "fail" in text)       "fail()\n"

Statements of every block are removed in halves, quarters, ... down to one (Zeller's ddmin); an empty block becomes
``pass``; then compound statements are replaced by their bodies. Comments are lost, as the text is unparsed from a tree.

In torch: nothing reduces source; torch/_functorch/fx_minifier.py reduces graphs. Read next:
nbcompile/tools/diagnose/minify.py
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator

BLOCKS = ("body", "orelse", "finalbody")
Predicate = Callable[[str], bool]


def reduce(text: str, holds: Predicate) -> str:
    """A program for which the predicate holds, and from which no single statement can be removed.

    Raises:
        SyntaxError: the text is no program.
    """
    tree = ast.parse(text)
    reduction = _SourceReduction(tree, holds)
    while reduction.round():
        pass
    return ast.unparse(reduction.tree) + "\n"


class _SourceReduction:
    def __init__(self, tree: ast.Module, holds: Predicate) -> None:
        self.tree, self.holds = tree, holds

    def round(self) -> bool:
        """Try all cuts once; return whether the program became smaller."""
        before = ast.unparse(self.tree)
        for position in range(len(list(_blocks(self.tree)))):
            self._shorten(position)
            self._unwrap(position)
        return ast.unparse(self.tree) != before

    def _shorten(self, position: int) -> None:
        """Remove chunks of one block."""
        block = self._block(self.tree, position)
        size = len(block)
        #     8 statements in chunks of    8 | 4 4 | 2 2 2 2 | 1 1 1 1 1 1 1 1
        # A chunk that can be removed is removed at once.
        while size >= 1:
            first = 0
            while first < len(block):
                if not self._take(position, first, first + size, []):
                    first += size
                block = self._block(self.tree, position)
            size //= 2

    def _unwrap(self, position: int) -> None:
        """Replace a statement that holds others (``if``, ``for``, ``with``, ``try``) by one of its blocks."""
        for at, statement in enumerate(self._block(self.tree, position)):
            if isinstance(statement, (ast.If, ast.For, ast.While, ast.With, ast.Try)):
                inner = [block for name in BLOCKS if (block := getattr(statement, name, None))]
                if any(self._take(position, at, at + 1, block) for block in inner):
                    return  # positions have changed; the next round continues

    def _take(self, position: int, begin: int, end: int, replacement: list[ast.stmt]) -> bool:
        """Continue with a smaller program, if the predicate holds for it."""
        # By position, as the nodes of a copy are others.
        tree = copy.deepcopy(self.tree)
        block = self._block(tree, position)
        if not block[begin:end] or (not replacement and _is_pass(block)):
            return False
        block[begin:end] = copy.deepcopy(replacement)
        # Only the module itself may be empty.
        if not block and position:
            block.append(ast.Pass())
        if not self.holds(ast.unparse(ast.fix_missing_locations(tree)) + "\n"):
            return False
        self.tree = tree
        return True

    @staticmethod
    def _block(tree: ast.Module, position: int) -> list[ast.stmt]:
        return next((block for at, block in enumerate(_blocks(tree)) if at == position), [])


def _is_pass(block: list[ast.stmt]) -> bool:
    return len(block) == 1 and isinstance(block[0], ast.Pass)


def _blocks(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    """The lists of statements, outermost first; the first is the module's own."""
    for node in ast.walk(tree):
        for name in BLOCKS:
            block = getattr(node, name, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                yield block
