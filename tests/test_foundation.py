"""The package's metadata, pins, and make targets."""

from __future__ import annotations

import importlib.metadata
import re
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.support.processes import command

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def required() -> list[Requirement]:
    extras = PROJECT["optional-dependencies"].values()
    return [Requirement(line) for lines in (PROJECT["dependencies"], *extras) for line in lines]


def pinned() -> dict[str, Version]:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")]
    return {canonicalize_name(name): Version(version) for name, version in (line.split("==") for line in lines)}


@pytest.mark.parametrize("requirement", required(), ids=str)
def test_what_is_required_is_pinned(requirement):
    """constraints.txt pins each dependency within its bounds, except triton, which torch chooses."""
    name = canonicalize_name(requirement.name)
    assert name == "triton" or requirement.specifier.contains(pinned()[name])


@pytest.mark.parametrize("requirement", required(), ids=str)
def test_dependencies_have_a_reason(requirement):
    """docs/design/dependencies.md names each dependency."""
    text = (ROOT / "docs/design/dependencies.md").read_text().lower()
    assert f"`{requirement.name.lower()}`" in text


def test_one_version():
    """The installed version is that of pyproject.toml."""
    assert importlib.metadata.version("nbcompile") == PROJECT["version"]


@pytest.mark.parametrize("group", PROJECT["entry-points"])
def test_entry_points_load(group):
    """Each entry point is callable."""
    ours = [point for point in importlib.metadata.entry_points(group=group) if point.value.startswith("nbcompile")]
    assert len(ours) == len(PROJECT["entry-points"][group])
    for point in ours:
        assert callable(point.load())


def test_help_lists_the_targets():
    """`make` without a target lists each target that the README names."""
    listed = command("make", "-s", folder=ROOT).stdout
    told = set(re.findall(r"\bmake (\w+)", (ROOT / "README.md").read_text()))
    assert {"tour", "test", "docs", "lint", "bench"} <= told
    assert told <= set(re.findall(r"make (\w+)", listed))


def test_importing_is_quiet_and_leaves_no_hook():
    """`import nbcompile` prints nothing, and imports no Python of torch's own compiler."""
    code = (
        "import sys, nbcompile; print([m for m in sys.modules if m.startswith(('torch._dynamo', 'torch._inductor'))])"
    )
    done = command(sys.executable, "-c", code, folder=ROOT)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_the_storeys_hold():
    """The import-linter contracts of pyproject.toml hold."""
    command(Path(sys.executable).with_name("lint-imports"), "--no-logo", folder=ROOT)
