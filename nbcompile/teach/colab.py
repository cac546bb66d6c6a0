"""Lectures as notebooks for Colab: a badge that opens each there, and a first cell that installs the right torch.

    python -m nbcompile teach colab https://github.com/you/nbcompile -o notebooks/colab

Colab opens notebooks in a repository on GitHub: commit the folder. In Colab the cell keeps the installed torch if
nbcompile supports it, and installs a tested version otherwise. Elsewhere it does nothing.

In torch: nothing. Read next: nbcompile/tools/commands/teach.py
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import jupytext
import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from nbcompile.support import versions
from nbcompile.tools import tour

BADGE = "[![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]({link})"
INSTALL = """# In Colab: install nbcompile, and torch {tested} unless a torch that it works with is there.
import importlib.metadata
import re
import subprocess
import sys

if "google.colab" in sys.modules:
    try:
        found = tuple(map(int, re.findall(r"\\d+", importlib.metadata.version("torch"))[:2]))
    except importlib.metadata.PackageNotFoundError:
        found = (0, 0)
    torch = [] if {first} <= found <= {last} else ["torch=={tested}.*"]
    source = "nbcompile[notebook] @ git+{address}@{branch}"
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", *torch, source], check=True)"""


class RepositoryRejected(ValueError):
    """Colab cannot open notebooks of this repository."""


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository on GitHub, and the folder of its notebooks."""

    address: str
    branch: str
    folder: PurePosixPath

    def __post_init__(self) -> None:
        if not re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+", self.address):
            raise RepositoryRejected(
                f"{self.address!r} is not a repository on GitHub, from which Colab opens notebooks: "
                "expected https://github.com/OWNER/NAME"
            )
        if self.folder.is_absolute() or ".." in self.folder.parts:
            raise RepositoryRejected(f"{str(self.folder)!r} is no folder in the repository: give a relative path")

    def link(self, name: str) -> str:
        """Address at which Colab opens a notebook."""
        owned = self.address.removeprefix("https://github.com/").removesuffix(".git")
        return f"https://colab.research.google.com/github/{owned}/blob/{self.branch}/{self.folder / name}"


def lectures() -> list[Path]:
    """Lectures of the course, in order."""
    return sorted((tour.packaged().parent / "course").glob("*.md"))


def notebook(lecture: Path, repository: Repository) -> NotebookNode:
    """A lecture that begins with the badge and the cell that installs."""
    notebook = jupytext.read(lecture, fmt="md:myst")
    first, last = versions.TORCH
    tested = ".".join(map(str, versions.TESTED[-1]))
    install = INSTALL.format(
        first=first, last=last, tested=tested, address=repository.address, branch=repository.branch
    )
    link = repository.link(f"{lecture.stem}.ipynb")
    notebook.cells = [new_markdown_cell(BADGE.format(link=link)), new_code_cell(install), *notebook.cells]
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
    nbformat.validate(notebook)
    return notebook


def write(repository: Repository) -> list[Path]:
    """Write every lecture into the repository's folder; return the files."""
    written = []
    for lecture in lectures():
        path = Path(repository.folder) / f"{lecture.stem}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(nbformat.writes(notebook(lecture, repository)), encoding="utf-8")
        written.append(path)
    return written
