"""C++ compiler: found, tested and identified once.

    find() -> Compiler("/usr/bin/g++", "g++ (Debian) 12.2.0", flags=("-O3", "-march=native", ...))
    find() -> NoCompiler("no C++ compiler: tried g++, clang++")     graphs then run through ATen

The result is a value, never an exception: a machine without a compiler is an
ordinary machine, on which graphs fall back to ATen. A candidate is tested by
building a shared object that this process can load; the result is in the kernel
store, so that the test costs its 50 ms once per compiler.

In torch: torch/_inductor/cpp_builder.py, torch/_inductor/cpu_vec_isa.py
Read next: nbcompile/runtime/store.py
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import json
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nbcompile import config
from nbcompile.runtime import processor, shared_object, store
from nbcompile.runtime.compiler_processes import BuildError, run, run_together

BASE_FLAGS = (
    "-std=gnu++17",
    "-O3",
    "-fPIC",
    "-shared",
    "-ffp-contract=off",  # a * b + c rounds twice, as it does in eager
    "-fwrapv",  # integers wrap, as tensors' do
    "-fno-math-errno",  # sqrt is one instruction
    "-fno-trapping-math",  # selects instead of branches
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-asynchronous-unwind-tables",  # nothing is ever unwound through a kernel
    "-fvisibility=hidden",
    "-w",
)
TUNING_FLAGS = ("-march=native", "-mcpu=native", "")
"""The first that the compiler takes is used: x86 and aarch64 spell it differently."""


@dataclass(frozen=True, slots=True)
class Compiler:
    """A compiler that was seen to work here."""

    command: tuple[str, ...]
    version: str
    """The first line of ``--version``, for the record and the store's key."""
    flags: tuple[str, ...]
    processor: str
    """Flags that ``-march=native`` expands to; a store may be shared by different machines."""

    @property
    def identity(self) -> str:
        """Part of the cache key: compilers with equal identity generate equal code from equal source."""
        return "\n".join((*self.command, self.version, *self.flags, self.processor))

    @property
    def openmp(self) -> bool:
        """True if the compiler supports OpenMP."""
        return "-fopenmp" in self.flags


@dataclass(frozen=True, slots=True)
class NoCompiler:
    """Reason why generated code cannot be built on this machine."""

    reason: str


def find() -> Compiler | NoCompiler:
    """The compiler that kernels are built with ($CXX, then g++, then clang++)."""
    if lacking := processor.lacking(config.instruction_set):
        return NoCompiler(
            f"the setting instruction_set is {config.instruction_set!r}, and this processor has no {lacking}"
        )
    return _find(os.environ.get("CXX", ""), os.environ.get("PATH", ""))


def for_kernels(compiler: Compiler, instruction_set: str | None = None) -> Compiler:
    """The compiler with the flags of an instruction set, by default that of the settings."""
    chosen = processor.flags(config.instruction_set if instruction_set is None else instruction_set)
    if chosen is None:
        return compiler
    kept = tuple(flag for flag in compiler.flags if flag not in TUNING_FLAGS)
    return replace(compiler, flags=(*kept, *chosen))


@functools.lru_cache(maxsize=8)
def _find(chosen: str, search_path: str) -> Compiler | NoCompiler:
    problems = []
    for candidate in ([chosen] if chosen else []) + ["g++", "clang++"]:
        command = tuple(shlex.split(candidate))
        program = shutil.which(command[0], path=search_path) if command else None
        if program is None:
            problems.append(f"{candidate}: not found")
            continue
        found = _examine((program, *command[1:]))
        if isinstance(found, Compiler):
            return found
        problems.append(f"{candidate}: {found.reason}")
    return NoCompiler("no C++ compiler: " + "; ".join(problems))


def _examine(command: tuple[str, ...]) -> Compiler | NoCompiler:
    """Test a compiler with sets of flags, best first; the result is cached in the store."""
    try:
        binary = Path(command[0]).stat()
    except OSError as error:
        return NoCompiler(str(error))
    # An upgraded compiler is another file, and another processor supports other flags: both are tested anew.
    # Trying the flags takes a second; the answer is the same until the compiler or the machine is another one.
    key = store.key_of("compiler", *command, str((binary.st_size, binary.st_mtime_ns)), processor_model())
    known = store.fetch(key, ".json")
    cached = None if known is None else _read(known)
    if cached is not None:
        return Compiler(command, cached[0], tuple(cached[1:]), processor_model())
    found = _tried(command)
    if isinstance(found, Compiler):
        with contextlib.suppress(OSError):
            store.add(key, ".json", lambda draft: _write(draft, [found.version, *found.flags]))
    return found


def _read(path: Path) -> list[str] | None:
    """A version and flags of ours; None where something else was written there."""
    try:
        cached = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return None
    # A file in the store may be damaged: flags that we would never write could make a compiler do anything.
    ours = (*BASE_FLAGS, *TUNING_FLAGS, "-fopenmp")
    is_valid = isinstance(cached, list) and cached and all(isinstance(each, str) for each in cached)
    return cached if is_valid and all(flag in ours for flag in cached[1:]) else None


def _write(path: Path, cached: list[str]) -> None:
    path.write_text(json.dumps(cached))


def _tried(command: tuple[str, ...]) -> Compiler | NoCompiler:
    try:
        version = subprocess.run(
            (*command, "--version"), capture_output=True, encoding="utf-8", errors="replace", timeout=20, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        return NoCompiler(str(error))
    first_line = version.partition("\n")[0].strip()
    processor = processor_model()
    trouble = ""
    for tuning in TUNING_FLAGS:
        # Without OpenMP a kernel has one thread: the compiler is used all the same.
        for parallel in ("-fopenmp", ""):
            flags = tuple(flag for flag in (*BASE_FLAGS, tuning, parallel) if flag)
            compiler = Compiler(command, first_line, flags, processor)
            trouble = proved(compiler)
            if not trouble:
                return compiler
    return NoCompiler(trouble.strip().partition("\n")[0])


# What kernels need, in one program: GCC's vectors, OpenMP where its flag is given, a function that is exported.
PROOF = """
typedef float lanes __attribute__((vector_size(16)));
extern "C" __attribute__((visibility("default"))) int answer(int n) {
  lanes v = {}; int total = 0;
#pragma omp parallel for reduction(+ : total)
  for (int i = 0; i < n; i++) total += i;
  return total + (int)v[0];
}
"""


def proved(compiler: Compiler) -> str:
    """Build and load a small program; "" if that works, else what went wrong."""
    key = store.key_of("proof", compiler.identity, PROOF)
    try:
        path = store.obtain(key, ".so", lambda target: build(compiler, PROOF, target))
        answer = ctypes.CDLL(str(path)).answer(10)
    except (BuildError, OSError) as error:
        return str(error) or type(error).__name__
    return "" if answer == 45 else f"a sum came out as {answer}, not 45"


def build(compiler: Compiler, source: str, target: Path, *extra: str) -> None:
    """Compile source text into a shared object at ``target``.

    Raises:
        BuildError: with the compiler's output.
    """
    command = (*compiler.command, *compiler.flags, "-pipe", "-x", "c++", "-", "-o", str(target), *extra)
    _expect_success(command, *run(command, source))
    _expect_complete(command, target)


def build_together(compiler: Compiler, sources: Sequence[str], target: Path) -> None:
    """Compile several source texts at once, one process each, and link them into one shared object.

    Raises:
        BuildError: with the compiler's output.
    """
    with tempfile.TemporaryDirectory(prefix="nbcompile-") as folder:
        objects = []
        commands = []
        for number, source in enumerate(sources):
            text, built = Path(folder, f"{number}.cpp"), Path(folder, f"{number}.o")
            text.write_text(source)
            objects.append(str(built))
            commands.append((*compiler.command, *compiler.flags, "-pipe", "-c", str(text), "-o", str(built)))
        for command, result in zip(commands, run_together(commands), strict=True):
            _expect_success(command, *result)
        link = (*compiler.command, *compiler.flags, *objects, "-o", str(target))
        _expect_success(link, *run(link, ""))
        _expect_complete(link, target)


def _expect_success(command: Sequence[str], status: int, output: str) -> None:
    if status:
        raise BuildError(f"{shlex.join(command)}\n{output}")


def _expect_complete(command: Sequence[str], target: Path) -> None:
    missing = shared_object.defect(target)
    if missing:
        raise BuildError(f"{shlex.join(command)}\nreported success, but what it built cannot be loaded: {missing}")


@functools.lru_cache(maxsize=1)
def processor_model() -> str:
    """The CPU's model and features, as one line."""
    features = model = ""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            match name.strip():
                case "flags" | "Features" if not features:
                    features = hashlib.sha256(value.encode()).hexdigest()[:16]
                case "model name" | "CPU part" if not model:
                    model = value.strip()
    except OSError:
        pass
    return " ".join((platform.machine(), model or platform.processor(), features))
