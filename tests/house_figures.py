"""The figures of docs/design/house.md, of the tree as it is.

python -m tests.house_figures
"""

from __future__ import annotations

import ast
import re

import networkx as nx

from tests import test_house as house


def spread(sizes: list[int]) -> str:
    """Count, median, 99th percentile and maximum."""
    ordered = sorted(sizes)
    return f"{len(ordered)}; {ordered[len(ordered) // 2]}, {ordered[int(len(ordered) * 0.99)]}, {ordered[-1]}"


def rooms() -> str:
    """Folders and loose modules of the package, the imports between them, floors, and circles of more than one."""
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
    """The number of words that begin so, but for torch's own: placeholder, in place; and the last place of a number."""
    return len(re.findall(rf"\b(?!placeholder){word}", house.NOT_PRIVATE.sub("", text)))


def main() -> None:
    """Print a line for each figure."""
    functions = [
        node
        for path in house.modules()
        for node in ast.walk(house.tree_of(path))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    texts = [path.read_text() for path in house.modules()]
    lines = [len(text.splitlines()) for text in texts]
    counted = [house.comments(text) for text in texts]
    print("modules:", spread(lines), "; above 400 lines:", sum(size > 400 for size in lines))
    print("functions:", spread([node.end_lineno - node.lineno + 1 for node in functions]))
    print("functions above 15 decisions:", sum(house.complexity(node) > house.COMPLEXITY for node in functions))
    print(f"prose comments for each line: {sum(one for one, _ in counted) / sum(two for _, two in counted):.4f}")
    for word in ("told", "stands", "place", "made", "prefetch", "topological"):
        print(f"{word}:", sum(uses(word, text) for text in texts))
    modules = [path for path in house.modules() if path.stem not in ("__init__", "__main__")]
    print("modules with a mirrored test:", sum(map(house.has_mirrored_test, modules)), "of", len(modules))
    print("the import graph:", rooms())


if __name__ == "__main__":
    main()
