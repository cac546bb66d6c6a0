"""A separate store with copies of the built C++ libraries: to build them takes longer than most tests."""

from __future__ import annotations

import shutil
from pathlib import Path

from nbcompile.fast import fast_call, guard_cache
from nbcompile.gpu.standin import device
from nbcompile.runtime import extension, gpu_launcher, launcher, toolchain


def copy_libraries(folder: Path) -> Path:
    """Copy the launchers and the stand-in device into a folder, and return it. Missing libraries are built."""
    compiler = toolchain.find()
    assert isinstance(compiler, toolchain.Compiler)
    for module in (launcher, gpu_launcher, device, fast_call, guard_cache):
        path = extension.file(module.SOURCE, compiler)
        there = folder / path.parent.name
        there.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name in (path.name, f"{path.name}.sha256"):
            shutil.copy2(path.with_name(name), there / name)
    return folder
