"""``make package``: build wheel and sdist, install each into an empty environment, and use it as README says.

    build/dist/*.whl, *.tar.gz  ->  each file of the package is inside; the sdist builds the same wheel
    each Python, each of the two ->  venv/  ->  import, README's snippets in a kernel, a script, doctor, tour;
                                               then NumPy is removed, and the script runs without it

Environments, and the folders in which all of it runs, lie outside of the checkout: only what was installed can be
found there. With ``--latest`` pip takes the newest versions that the dependencies allow, as README's first command
does; without it, those of constraints.txt.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
DIST = ROOT / "build" / "dist"
CONSTRAINTS = ROOT / "constraints.txt"

IMPORT = """
import platform, sys, torch, nbcompile
assert nbcompile.__file__.startswith(sys.prefix), nbcompile.__file__
print(f"  Python {platform.python_version()}, torch {torch.__version__}")
"""
IN_A_KERNEL = """
import json, sys
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook
cells = [new_code_cell(snippet) for snippet in json.loads(sys.argv[1])]
NotebookClient(new_notebook(cells=cells), kernel_name="python3", timeout=300).execute()
"""
SCRIPT = """
import torch, nbcompile
compiled = nbcompile.compile(lambda x: torch.sin(x) + 1)
x = torch.linspace(0, 1, 8)  # near 0, as sin(-1.57) + 1 is, the last bit of sin alone would decide
assert torch.allclose(compiled(x), torch.sin(x) + 1)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pythons", nargs="*", default=[sys.executable], help="interpreters to install for")
    parser.add_argument("--latest", action="store_true", help="the newest versions that are allowed, not the pinned")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="nbcompile-package-") as scratch:
        distributions = build(Path(scratch))
        for python in asked.pythons:
            for distribution in distributions:
                try_out(python, distribution, latest=asked.latest)


def try_out(python: str, distribution: Path, *, latest: bool) -> None:
    """Install a distribution for one Python, and use it. The environment, up to 6 GB, is removed before the next."""
    with tempfile.TemporaryDirectory(prefix="nbcompile-package-") as scratch:
        began = time.monotonic()
        print(f"{distribution.name} with {python}, {'newest versions' if latest else 'constraints.txt'}:", flush=True)
        installed = environment(python, Path(scratch) / "venv", f"{distribution}[notebook]", latest=latest)
        print(f"✓ installed after {time.monotonic() - began:.0f} s", flush=True)
        folder = Path(scratch) / "work"
        folder.mkdir()
        use(installed, folder)
        use_without_numpy(installed, folder)
        print(f"✓ all of it after {time.monotonic() - began:.0f} s", flush=True)


def build(scratch: Path) -> tuple[Path, Path]:
    """Build wheel and sdist; the sdist builds a wheel with the same files."""
    for old in DIST.glob("nbcompile-*"):
        old.unlink()
    builder = environment(sys.executable, scratch / "builder", "hatchling", latest=False)
    run([builder, "-m", "hatchling", "build", "-d", DIST], ROOT)
    [wheel], [sdist] = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    missing = expected() - set(contents(wheel))
    assert not missing, f"not in the wheel: {sorted(missing)}"
    ours = {"nbcompile", f"{wheel.name.removesuffix('-py3-none-any.whl')}.dist-info"}
    strangers = {name.split("/")[0] for name in contents(wheel)} - ours
    assert not strangers, f"in the wheel, and not of the package: {sorted(strangers)}"
    with tarfile.open(sdist) as archive:
        archive.extractall(scratch / "sdist", filter="data")
    [source] = (scratch / "sdist").iterdir()
    run([builder, "-m", "hatchling", "build", "-t", "wheel", "-d", scratch / "again"], source)
    [again] = (scratch / "again").glob("*.whl")
    assert contents(again) == contents(wheel), f"other files: {contents(again).items() ^ contents(wheel).items()}"
    print(f"✓ {len(contents(wheel))} files in the wheel; the sdist builds the same ones", flush=True)
    return wheel, sdist


def expected() -> set[str]:
    """The required contents of the wheel: each file of the package, and the notebooks."""
    package = (path for path in (ROOT / "nbcompile").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    notebooks = {f"nbcompile/notebooks/{path.name}" for path in (ROOT / "notebooks").glob("*.md")}
    notebooks |= {f"nbcompile/notebooks/course/{path.name}" for path in (ROOT / "notebooks/course").glob("*.md")}
    data = {"nbcompile/py.typed", "nbcompile/teach/minicompiler.md"}
    return {str(path.relative_to(ROOT)) for path in package} | notebooks | data


def contents(wheel: Path) -> dict[str, int]:
    """The checksum of each file in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {info.filename: info.CRC for info in archive.infolist()}


def environment(python: str, folder: Path, wanted: str, *, latest: bool) -> Path:
    """The Python of a new environment with only these requirements and their dependencies."""
    run([python, "-m", "venv", folder], ROOT)
    installed = folder / "bin" / "python"
    pins = [] if latest else ["-c", CONSTRAINTS]
    pip = [installed, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-compile"]
    run([*pip, *pins, wanted], folder)
    return installed


def use(python: Path, folder: Path) -> None:
    """Run what README shows, in the environment."""
    (folder / "train.py").write_text(SCRIPT)
    steps = {
        "import": ["-c", IMPORT],
        "python -m nbcompile doctor": ["-m", "nbcompile", "doctor"],
        "README's snippets in a kernel": ["-c", IN_A_KERNEL, json.dumps(snippets())],
        "python -m nbcompile train.py --html out.html": ["-m", "nbcompile", "train.py", "--html", "out.html"],
        "python -m nbcompile tour": ["-m", "nbcompile", "tour"],
    }
    for name, arguments in steps.items():
        run([python, *arguments], folder)
        print(f"✓ {name}", flush=True)
    assert (folder / "out.html").stat().st_size > 10_000
    assert (folder / "tour.html").stat().st_size > 100_000


def use_without_numpy(python: Path, folder: Path) -> None:
    """Run the script in the same environment without NumPy, which the package itself does not need."""
    run([python, "-m", "pip", "uninstall", "-qq", "--yes", "numpy"], folder)
    run([python, "-W", "ignore:Failed to initialize NumPy", "train.py"], folder)  # torch's warning, when imported
    print("✓ python train.py, without NumPy", flush=True)


def snippets() -> list[str]:
    """README's Python, without the snippet that needs the extra `widget`, which is not installed here."""
    found = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), flags=re.DOTALL | re.MULTILINE)
    kept = [snippet for snippet in found if "nbcompile.jupyter.widget" not in snippet]
    assert len(kept) == len(found) - 1 >= 3
    print("  left out: README's snippet on LiveWhatIf, which needs the extra `widget`")
    return kept


def run(command: list[str | Path], folder: Path) -> None:
    """Run a command in a folder, without the variables with which it could find the checkout."""
    hidden = ("PYTHONPATH", "VIRTUAL_ENV", "JUPYTER_PATH", "IPYTHONDIR")
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    store = {"NBCOMPILE_CACHE_DIR": str(folder / "cache")} if folder != ROOT else {}
    subprocess.run(list(map(str, command)), cwd=folder, env={**kept, **store}, check=True)


if __name__ == "__main__":
    sys.exit(main())
