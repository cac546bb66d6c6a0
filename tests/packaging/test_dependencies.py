"""The package imports only what pyproject.toml declares: no extra, and nothing that happens to be installed."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import torch
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.processes import command

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]

# A finder that finds only the allowed modules, as in an environment without the others.
BLOCKER = """
import sys
from importlib.machinery import PathFinder

class Finder(PathFinder):
    absent = frozenset({absent!r})

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in cls.absent else super().find_spec(name, path, target)

sys.meta_path[:] = [Finder if finder is PathFinder else finder for finder in sys.meta_path]
for name in [name for name in sys.modules if name.partition(".")[0] in Finder.absent]:
    del sys.modules[name]
"""

WHOLE_PATH = """
import warnings
warnings.filterwarnings("ignore", "Failed to initialize NumPy")  # torch's, when it is imported
import torch, nbcompile
from nbcompile.views import report, text

def f(x, y):
    z = torch.sin(x) + y
    if z.sum() > 0:
        return z * 2
    return z - 1

g = nbcompile.compile(f)
x, y = torch.ones(8), torch.ones(8)
assert torch.equal(g(x, y), f(x, y))
assert torch.equal(g(-x, -y), f(-x, -y))

explained = nbcompile.explain(f)(x, y)
assert "torch.sin" in text.render(explained.record)
assert "<svg" in report.of_record(explained.record)

model = torch.nn.Linear(8, 4)
loss = nbcompile.compile(lambda given: model(given).relu().sum())(x)
loss.backward()
assert model.weight.grad.shape == (4, 8)
"""


def closure(lines: list[str]) -> set[str]:
    """The installed distributions of some requirements, with all that they require."""
    found: set[str] = set()
    wanted = [(Requirement(line), "") for line in lines]
    while wanted:
        requirement, extra = wanted.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        try:
            needs = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        known = name in found
        found.add(name)
        for asked in requirement.extras or ({""} if not known else ()):
            wanted += [(Requirement(line), asked) for line in needs]
    return found


def absent(lines: list[str]) -> list[str]:
    """The installed modules that would be missing with only these requirements."""
    there = closure(lines)
    owners = importlib.metadata.packages_distributions()
    return sorted(
        module
        for module, names in owners.items()
        if module != "nbcompile" and not any(canonicalize_name(name) in there for name in names)
    )


def run(program: str, lines: list[str], tmp_path: Path) -> subprocess.CompletedProcess[str]:
    code = BLOCKER.format(absent=absent(lines)) + program
    script = tmp_path / "program.py"
    script.write_text(code)
    where = {"NBCOMPILE_CACHE_DIR": tmp_path / "cache", "NBCOMPILE_WARM_START": "1"}
    return command(sys.executable, script, folder=tmp_path, status=None, **where)


BARE = """
import sys
for name in ("platformdirs", "graphviz", "pygraphviz", "IPython", "ipykernel"):
    sys.modules[name] = None
import torch
import nbcompile
from nbcompile.__main__ import main

x = torch.randn(3, 4)
function = lambda x: x.sin().sum()
assert torch.allclose(nbcompile.compile(function)(x), function(x))
found = nbcompile.explain(function)(x)
assert found.kernels and "sin" in found._repr_mimebundle_()["text/html"] and "sin" in str(found)
try:
    main(["doctor"])
except SystemExit as ended:
    assert not ended.code, ended.code
"""


def test_a_checkout_beside_nothing_but_torch(tmp_path):
    """With torch alone, and without a network, functions are compiled, explained and listed.

    That is where `make gpu` runs: platformdirs, Graphviz and IPython are missing there.
    """
    script = tmp_path / "program.py"
    script.write_text(BARE)
    done = command(sys.executable, script, folder=tmp_path, NBCOMPILE_CACHE_DIR=tmp_path / "cache")
    assert done.stderr == ""
    assert "no layout engine" in done.stdout


def test_what_is_absent_without_extras():
    """Without extras NumPy, Triton and the notebook's tools are missing, so that the test below is meaningful."""
    expected = {"numpy", "triton", "jupytext", "anywidget", "pytest", "sphinx"}
    if torch.version.cuda is not None:  # which requires Triton itself
        expected.remove("triton")
    assert expected <= set(absent(PROJECT["dependencies"]))
    assert "jupytext" not in absent([*PROJECT["dependencies"], *EXTRAS["notebook"]])


def test_the_whole_path_without_extras(tmp_path):
    """Without extras, and so without NumPy, functions are compiled, trained, stored, loaded and drawn."""
    for _ in range(2):  # the second process loads what the first one stored
        done = run(WHOLE_PATH, PROJECT["dependencies"], tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


OPTIONAL = {
    "nbcompile.codegen.triton_functions": "cuda",
    "nbcompile.runtime.triton": "cuda",
    "nbcompile.gpu": "cuda",
    "nbcompile.gpu.standin": "cuda",
    "nbcompile.teach.classroom": "notebook",
    "nbcompile.teach.colab": "notebook",
    "nbcompile.tools.slides": "docs",
    "nbcompile.tools.slide_parts": "docs",
    "nbcompile.jupyter.widget": "widget",
    "nbcompile.views.live": "widget",
    "nbcompile.tools.page": "notebook",
    "nbcompile.tools.tour": "notebook",
    **dict.fromkeys((f"nbcompile.sphinx_ext{each}" for each in ("", ".behaviours", ".break_pages")), "docs"),
}
"""Modules that an extra is for, and packages of which some modules are."""

EVERY_MODULE = """
import importlib, json, pkgutil, nbcompile
def rejected():
    found = {{}}
    for module in pkgutil.walk_packages(nbcompile.__path__, "nbcompile.", onerror=lambda name: None):
        if module.name.startswith("nbcompile.peer"):
            continue
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            found[module.name] = error.name
    return found
alone = rejected()
Finder.absent = frozenset({with_notebook!r})  # what could be imported stays: the others are tried again
print(json.dumps({{"": alone, "notebook": rejected()}}))
"""


def test_every_module_without_extras(tmp_path):
    """Each module can be imported without extras, or with one extra, except for modules of another extra."""
    dependencies = PROJECT["dependencies"]
    program = EVERY_MODULE.format(with_notebook=absent([*dependencies, *EXTRAS["notebook"]]))
    done = run(program, dependencies, tmp_path)
    assert done.returncode == 0, done.stderr
    for extra, rejected in json.loads(done.stdout).items():
        excused = {name for name, needs in OPTIONAL.items() if needs != extra}
        assert {name for name in rejected if not {name, name.rpartition(".")[0]} & excused} == set(), extra
