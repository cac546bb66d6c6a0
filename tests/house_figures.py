"""The figures of docs/design/house.md, of the tree as it is or of another one.

    python -m tests.house_figures                this tree
    git worktree add /tmp/old 320df64
    python -m tests.house_figures /tmp/old       that one, without the import graph

In torch: nothing. Read next: tests/test_house.py, which holds the tree to most of them.
"""

from __future__ import annotations

import ast
import collections
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

import networkx as nx

from tests import test_house as house

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
FIELD = (
    "prefetch", "memoi[sz]e", "remateriali[sz]e", "hoist", "topological", "live range|liveness", "transpos", "tile", "unroll",
    "fallback", "lru", "accumulator", "epilogue", "canonical",
)  # fmt: skip
"""Words of the field of which the first review found few in the prose of the package, as regular expressions."""
PRIVATE = ("told", "place", "stands", "beside", "made", "goes on", "turned", "lies")
"""Words of which it found many."""


def at(part: float, ordered: list[int]) -> int:
    """The value at this fraction of the sorted values."""
    return ordered[min(int(len(ordered) * part), len(ordered) - 1)]


def spread(sizes: Iterable[int], *parts: float) -> str:
    """Count; median, percentiles, maximum; mean."""
    ordered = sorted(sizes)
    figures = [at(0.5, ordered), *(at(part, ordered) for part in parts), ordered[-1]]
    return f"{len(ordered)}; {', '.join(map(str, figures))}; mean {sum(ordered) / len(ordered):.1f}"


def above(sizes: Iterable[int], *limits: int) -> str:
    """The number of values above each limit."""
    found = list(sizes)
    return ", ".join(str(sum(size > limit for size in found)) for limit in limits)


def share(part: int, whole: int) -> str:
    """A part of a total in percent."""
    return f"{100 * part / whole:.0f} %"


def rooms() -> str:
    """Folders and loose modules of the package, the imports between them, layers, and cycles of more than one."""
    between = nx.DiGraph(house.arrows())
    circles = [sorted(part) for part in nx.strongly_connected_components(between) if len(part) > 1]
    floors = nx.dag_longest_path_length(nx.condensation(between)) + 1
    ground, data = (sum(imported in part for _, imported in between.edges) for part in (house.GROUND, house.DATA))
    doors = sum(
        importer in house.DOORS and imported not in house.GROUND | house.DATA for importer, imported in between.edges
    )
    return (
        f"{between.number_of_nodes()} rooms, {between.number_of_edges()} arrows ({ground} to the ground, {data} to data, "
        f"{doors} others of doors, {sum(map(len, house.WORK.values()))} between rooms that work), {floors} floors, "
        f"circles: {circles}"
    )


def uses(word: str, text: str) -> int:
    """The number of words with this beginning, except torch's own: placeholder, in place; and ulp."""
    return len(re.findall(rf"\b(?!placeholder)(?:{word})", house.NOT_PRIVATE.sub("", text)))


def nodes() -> Iterator[ast.AST]:
    """All nodes of all syntax trees of the package."""
    for path in house.modules():
        yield from ast.walk(house.tree_of(path))


def docstrings() -> list[str]:
    """Strings that are statements: of modules, classes and functions, and below fields."""
    return [text for text in map(house._docstring, nodes()) if text]


def prose() -> str:
    """All docstrings and comments of the package, in small letters."""
    comments = [
        token.string
        for path in house.modules()
        for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline)
        if token.type == tokenize.COMMENT
    ]
    return "\n".join((*docstrings(), *comments)).lower()


def loop_variables() -> list[str]:
    """Names that loops and comprehensions bind."""
    targets = [node.target for node in nodes() if isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension))]
    return [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]


def twice(names: Iterable[str]) -> int:
    """The number of names that appear more than once."""
    return sum(count > 1 for count in collections.Counter(names).values())


def calls(name: str) -> int:
    """The number of calls of a function by its name."""
    return sum(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name for node in nodes()
    )


def dataclasses() -> tuple[int, int]:
    """The number of dataclasses that are frozen, and of all."""
    marks = [
        ast.unparse(mark)
        for node in nodes()
        if isinstance(node, ast.ClassDef)
        for mark in node.decorator_list
        if re.match(r"(dataclasses\.)?dataclass\b", ast.unparse(mark))
    ]
    return sum("frozen=True" in mark for mark in marks), len(marks)


def functions_table(texts: list[str]) -> Iterator[tuple[str, object]]:
    """Figures about modules and functions: names and values."""
    functions = [node for node in nodes() if isinstance(node, FUNCTIONS)]
    classes = [node for node in nodes() if isinstance(node, ast.ClassDef)]
    lines = [len(text.splitlines()) for text in texts]
    sizes = [node.end_lineno - node.lineno + 1 for node in functions]
    decisions = [house.complexity(node) for node in functions]
    counts = [len(house.parameters(node)) for node in functions]
    whole = "\n".join(texts)
    yield "modules; median, 90 %, 99 %, largest, in lines", spread(lines, 0.9, 0.99)
    yield "modules above 400 lines", above(lines, 400)
    yield "functions; median, 90 %, 99 %, largest, in lines", spread(sizes, 0.9, 0.99)
    yield "functions above 40, 60 lines", above(sizes, 40, 60)
    yield "decisions of a function; median, 90 %, 99 %, most", spread(decisions, 0.9, 0.99)
    yield "functions above 10, 15 decisions", above(decisions, 10, 15)
    yield "functions with more than 6 parameters; most", f"{above(counts, 6)}; {max(counts)}"
    yield (
        "imports inside of functions",
        sum(isinstance(node, (ast.Import, ast.ImportFrom)) for function in functions for node in ast.walk(function)),
    )
    yield (
        "Any, type: ignore, noqa, of it BLE001",
        ", ".join(
            str(len(re.findall(mark, whole))) for mark in (r"\bAny\b", r"# type: ignore", r"# noqa", r"# noqa: BLE001")
        ),
    )
    yield (
        "match, isinstance (for 1,000 lines), assert_never",
        (
            f"{sum(isinstance(node, ast.Match) for node in nodes())}, {calls('isinstance')} "
            f"({1000 * calls('isinstance') / sum(lines):.0f}), {calls('assert_never')}"
        ),
    )
    yield "dataclasses frozen, all", ", ".join(map(str, dataclasses()))
    yield (
        "docstrings of functions, of classes",
        ", ".join(
            share(sum(ast.get_docstring(node) is not None for node in part), len(part)) for part in (functions, classes)
        ),
    )
    yield "lines above 88, 100 columns", above(map(len, whole.splitlines()), 88, 100)


def prose_table(texts: list[str]) -> Iterator[tuple[str, object]]:
    """Figures about words and names: names and values."""
    written = prose()
    names = [node.name for node in nodes() if isinstance(node, ast.ClassDef)]
    inside = [found for path in house.PACKAGE.iterdir() if path.is_dir() for found in classes_of(path)]
    bound = loop_variables()
    counted = [house.comments(text) for text in texts]
    yield "words of docstrings and comments", len(re.findall(r"[a-z]+", written))
    yield "words of the field in them", ", ".join(f"{word} {uses(word, written)}" for word in FIELD)
    yield "other words in them", ", ".join(f"{word} {uses(word, written)}" for word in PRIVATE)
    yield "the same in the whole source", ", ".join(f"{word} {uses(word, chr(10).join(texts))}" for word in PRIVATE)
    yield (
        "docstrings that begin with neither a noun nor a verb, all",
        ", ".join(
            map(str, (sum(bool(house.HEADLESS.match(text.strip())) for text in docstrings()), len(docstrings())))
        ),
    )
    yield "loop variables called each, all", f"{bound.count('each')}, {len(bound)}"
    yield "parameters called each", sum(isinstance(node, ast.arg) and node.arg == "each" for node in nodes())
    yield "uses of each", sum(isinstance(node, ast.Name) and node.id == "each" for node in nodes())
    yield (
        "classes called by a participle",
        sum(bool(house.PARTICIPLE.search(name)) and name.lstrip("_") not in house.NOUNS for name in names),
    )
    yield "names of classes that are there twice, in one package", f"{twice(names)}, {twice(inside)}"
    yield "names of files that are there twice", twice(path.name for path in house.modules() if path.stem != "__init__")
    yield "terms of the glossary", len(house.glossary())
    yield (
        "prose comments; for each line",
        (f"{sum(one for one, _ in counted)}; {sum(one for one, _ in counted) / sum(two for _, two in counted):.4f}"),
    )


def classes_of(package: Path) -> Iterator[str]:
    """The names of classes, prefixed with their package."""
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(house.tree_of(path)):
            if isinstance(node, ast.ClassDef):
                yield f"{package.name} {node.name}"


def main(root: Path | None = None) -> None:
    """Print a line for each figure."""
    if root is not None:
        house.ROOT, house.PACKAGE = root, root / "nbcompile"
    texts = [path.read_text() for path in house.modules()]
    for name, figures in (*functions_table(texts), *prose_table(texts)):
        print(f"{name}: {figures}")
    modules = [path for path in house.modules() if path.stem not in ("__init__", "__main__")]
    print("modules with a mirrored test:", sum(map(house.has_mirrored_test, modules)), "of", len(modules))
    if root is None:
        print("the import graph:", rooms())


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else None)
