"""C extension modules of nbcompile: built from source once per machine, then loaded from the store.

    built("nbcompile_launcher", Path("launcher.c"), compiler)      a module; BuildError where it cannot be built

It is linked with the installed torch, as the C files call functions that torch exports. What has to be C++ is in a file
of the same name (launcher.c, launcher.cpp).

In torch: torch/utils/cpp_extension.py. Read next: nbcompile/runtime/launcher.py
"""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import re
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import ParamSpec, TypeVar

import torch

from nbcompile.runtime import compiler_processes, store
from nbcompile.runtime.compiler_processes import BuildError
from nbcompile.runtime.toolchain import Compiler
from nbcompile.support import threads

Given = ParamSpec("Given")
Result = TypeVar("Result")
INCLUDE = re.compile(r'^#include "(\w+\.h)"$', re.MULTILINE)


def built(name: str, source: Path, compiler: Compiler) -> ModuleType:
    """Load the module ``name``, built from a C file, or from C++ that reads torch's headers; on a cache hit, as it is.

    Raises:
        BuildError: compilation fails, for example without the Python headers.
    """
    path = file(source, compiler)
    return loaded(name, path)


def loaded(name: str, path: Path) -> ModuleType:
    """Load a built module."""
    loader = importlib.machinery.ExtensionFileLoader(name, str(path))
    specification = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert specification is not None
    module = importlib.util.module_from_spec(specification)
    loader.exec_module(module)
    return module


def file(source: Path, compiler: Compiler) -> Path:
    """Path of the shared object; it is built if necessary, and not loaded.

    Raises:
        BuildError: as above.
    """
    text, more = _whole(source), _in_cpp(source)
    in_cpp = source.suffix == ".cpp"
    return store.obtain(
        _key(source, compiler), ".so", lambda draft: _compile(compiler, text, more, draft, _libraries(), in_cpp)
    )


def first_call_in_its_own_thread(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """A decorator for what tries a module out once in a process, whatever the first caller was about.

    Gradients off, inference mode, autocast, hooks on saved tensors, function modes and the default device are all a
    thread's own, so a new thread has none of them.
    """

    @functools.wraps(function)
    def checked(*arguments: Given.args, **keywords: Given.kwargs) -> Result:
        return threads.submit("nbcompile tries", functools.partial(function, *arguments, **keywords)).result()

    return checked


def is_built(source: Path, compiler: Compiler) -> bool:
    """Return whether the shared object is in the store."""
    return store.fetch(_key(source, compiler), ".so") is not None


def _key(source: Path, compiler: Compiler) -> str:
    # The layout of objects of CPython and torch is compiled in: another version of either is another build.
    texts = (_whole(source), *(each.read_text() for each in _in_cpp(source)))
    return store.key_of(*texts, compiler.identity, sys.version, torch.__version__, str(_libraries()))


def _in_cpp(source: Path) -> tuple[Path, ...]:
    return tuple(each for each in (source.with_suffix(".cpp"),) if each.exists() and each != source)


def _libraries() -> Path:
    return Path(torch.__file__).parent / "lib"


def _whole(source: Path) -> str:
    """Source with the included headers inlined, so that the cache key covers them."""
    return INCLUDE.sub(lambda found: (source.parent / found[1]).read_text(), source.read_text())


def _compile(
    compiler: Compiler, source: str, more: tuple[Path, ...], target: Path, libraries: Path, in_cpp: bool
) -> None:
    """Compile and link; linking one library of torch is enough, as it loads the others (saves 0.3 s of symbol reading).

    -O2 takes 1.5 times as long, at the time of the user's first kernels, and the calls are no faster.
    """
    headers = (f"-I{libraries.parent / 'include'}", "-std=gnu++20") if in_cpp else ()
    linked = ("-ltorch_python", "-ltorch_cpu", "-lc10") if in_cpp else ("-ltorch_python",)
    command = (
        *compiler.command, "-O1", "-fPIC", "-shared", "-w", "-pipe", f"-I{sysconfig.get_path('include')}", *headers,
        "-x", "c++" if in_cpp else "c", "-", *(word for each in more for word in ("-x", "c++", str(each))),
        "-x", "none", "-o", str(target), f"-L{libraries}", "-Wl,--no-as-needed", *linked, f"-Wl,-rpath,{libraries}",
    )  # fmt: skip
    if sys.platform == "darwin":
        # Its linker has no such option, and must leave the
        # interpreter's symbols to be found when the module is loaded.
        command = tuple(word for word in command if word != "-Wl,--no-as-needed") + ("-undefined", "dynamic_lookup")
    status, output = compiler_processes.run(command, source)
    if status:
        raise BuildError(output)
