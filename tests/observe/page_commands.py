"""The programs and commands of docs/design/observability.md, for its test and its pictures."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "design" / "observability.md"
_TABLE = PAGE.read_text(encoding="utf-8").partition("## tlparse")[0]
ROWS = [
    (command, name)
    for name, command in re.findall(
        r"^\| \[.*\]\(\.\./_static/observe/rows/(\w+)\.png\) \| .* \| `(.*)` \|$", _TABLE, re.MULTILINE
    )
]
"""Command and name of the picture, row by row."""
COMMANDS = [command for command, _ in ROWS]
PROGRAMS = {
    "program.py": """
import torch, nbcompile
@nbcompile.compile(dynamic=False)
def f(x):
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2
f(torch.ones(3))
f(torch.ones(4))
""",
    "right.py": """
import torch, nbcompile
print(nbcompile.compile(lambda x: (x + 1).sum())(torch.ones(3)).item())
""",
    "wrong.py": """
import torch, nbcompile
from nbcompile.lowering.registry import LOWERINGS
aten = torch.ops.aten
LOWERINGS[aten.exp.default] = LOWERINGS[aten.sin.default]  # a planted fault

@nbcompile.compile
def f(x):
    return ((x.cos() + 1).relu() * 2).exp().sum(-1)

assert f(torch.zeros(2, 4)).max() > 100
""",
    "with_torch.py": """
import torch
print(torch.compile(lambda x: (x + 1).sum(), backend="eager")(torch.ones(3)).item())
""",
}
BEFORE = {"open trace": "TORCH_TRACE=trace python program.py"}
"""What is run before a command that ends so."""


def write_programs(folder: Path) -> None:
    """Write all programs into a folder."""
    for name, text in PROGRAMS.items():
        (folder / name).write_text(text, encoding="utf-8")
