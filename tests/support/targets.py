"""One schedule on every target: generated C++, Triton in its interpreter, Triton as machine code for a GPU.

Triton reads TRITON_INTERPRET when it is imported, so the interpreter is a process of its own, started once:
schedules and inputs go in, results (or why there are none) come out.
"""

from __future__ import annotations

import atexit
import dataclasses
import functools
import importlib.util
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from nbcompile.backends import attribute_of
from nbcompile.codegen import cpp
from nbcompile.codegen.launch_plan import opaque_values
from nbcompile.ir.buffer import Extern, GraphAttribute
from nbcompile.ir.expr import FLOAT8
from nbcompile.ir.kernel import Schedule
from nbcompile.runtime import program, toolchain

ROOT = Path(__file__).parents[2]
HAS_TRITON = importlib.util.find_spec("triton") is not None


@functools.cache
def compiler() -> toolchain.Compiler:
    """The C++ compiler of this machine."""
    found = toolchain.find()
    assert isinstance(found, toolchain.Compiler), found
    return found


def run_cpp(planned: Schedule, inputs: Any, graph: Any = None) -> tuple[Any, ...]:
    """Emit a schedule, build it, load it, and call it."""
    loaded = program.load(cpp.emit(planned), compiler(), functools.partial(attribute_of, graph), opaque_values(planned))
    return loaded.positional(*inputs)


# --- Triton in its interpreter ---------------------------------------------------------------------------------------


class Rejected(Exception):
    """The reason why the interpreter cannot run a schedule: it has no Triton form, or calls ATen."""


@functools.cache
def interpreter() -> subprocess.Popen[bytes]:
    """The interpreter's process, which lives as long as this one."""
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.targets"], cwd=ROOT, env=environment, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    atexit.register(process.kill)
    return process


@dataclasses.dataclass(frozen=True, slots=True)
class Bits:
    """A tensor whose dtype cannot be pickled, as integers."""

    words: torch.Tensor
    dtype: torch.dtype

    @staticmethod
    def of(value: Any) -> Any:
        """Replace such a tensor."""
        is_float8 = isinstance(value, torch.Tensor) and value.dtype in FLOAT8
        return Bits(value.view(torch.uint8), value.dtype) if is_float8 else value

    @staticmethod
    def value(given: Any) -> Any:
        """The tensor again."""
        return given.words.view(given.dtype) if isinstance(given, Bits) else given


def run_triton(planned: Schedule, inputs: Any) -> tuple[Any, ...]:
    """The results of the schedule's Triton kernels in the interpreter.

    Raises:
        Rejected: they cannot be.
    """
    if any(isinstance(step, Extern) for step in planned.steps):
        raise Rejected("it calls ATen")
    if any(isinstance(each, GraphAttribute) for each in planned.program.buffers):
        raise Rejected("the graph holds a tensor")
    process = interpreter()
    assert process.stdin is not None and process.stdout is not None
    try:
        pickle.dump((planned, [Bits.of(value) for value in inputs]), process.stdin)
        process.stdin.flush()
        answer = pickle.load(process.stdout)
    except BaseException:  # a time limit: a late answer must not be the next test's
        process.kill()
        interpreter.cache_clear()
        raise
    if isinstance(answer, Exception):
        raise answer
    return tuple(map(Bits.value, answer))


def _libdevice() -> None:
    """Replace NVIDIA's mathematical library, which the interpreter lacks, by torch's functions."""
    import numpy as np  # noqa: PLC0415
    import torch  # noqa: PLC0415
    import triton.language as tl  # noqa: PLC0415
    from triton.language.extra import libdevice  # noqa: PLC0415
    from triton.runtime.interpreter import TensorHandle  # noqa: PLC0415

    def with_torch(function: Any) -> Any:
        def call(*args: Any) -> Any:
            found = function(*(torch.from_numpy(np.array(each.handle.data)) for each in args)).numpy()
            scalar = args[0].dtype
            kind = (
                tl.block_type(scalar, list(found.shape)) if args[0].type.is_block() or found.shape != (1,) else scalar
            )
            return tl.tensor(TensorHandle(found, scalar), kind)

        return call

    names = "tan asin acos atan sinh cosh asinh acosh atanh erfc erfinv lgamma atan2 hypot copysign nextafter pow fmod"
    for name in names.split():
        setattr(libdevice, name, with_torch(getattr(torch, name)))


def _comparisons() -> None:
    """The comparison of two scalars remains a bool next to a block.

    The interpreter makes numbers of the operands' type of it there, which ``|`` rejects. (A GPU goes by its own type.)
    """
    import numpy as np  # noqa: PLC0415
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle  # noqa: PLC0415

    def create_splat(self: Any, kind: Any, value: Any) -> Any:
        return TensorHandle(np.full(kind.shape, value.data, value.data.dtype), kind.scalar)

    InterpreterBuilder.create_splat = create_splat


def _products() -> None:
    """Convert bfloat16 factors to numbers: the interpreter multiplies their bits as integers."""
    import numpy as np  # noqa: PLC0415
    import triton.language as tl  # noqa: PLC0415
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle  # noqa: PLC0415

    create_dot = InterpreterBuilder.create_dot

    def widened(handle: Any) -> Any:
        bits = handle.data.astype(np.uint32) << np.uint32(16)
        return TensorHandle(bits.view(np.float32), tl.float32)

    def create_dot_of_numbers(self: Any, a: Any, b: Any, *rest: Any) -> Any:
        if a.dtype.scalar == tl.bfloat16:
            a, b = widened(a), widened(b)
        return create_dot(self, a, b, *rest)

    InterpreterBuilder.create_dot = create_dot_of_numbers


def _serve() -> None:
    from nbcompile.codegen import triton as generator  # noqa: PLC0415  (only here is there an interpreter)
    from nbcompile.runtime import triton as runtime  # noqa: PLC0415

    _libdevice()
    _comparisons()
    _products()
    source, target = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # the interpreter's own output is no answer
    while True:
        try:
            planned, inputs = pickle.load(source)
        except EOFError:
            return
        answer: Any
        try:
            emitted = generator.emit(planned)
            results = runtime.load(emitted).positional(*map(Bits.value, inputs))
            answer = tuple(Bits.of(value) for value in results)
        except generator.NoTriton as reason:
            answer = Rejected(str(reason))
        except Exception as error:  # noqa: BLE001
            answer = (
                error if type(error) in (IndexError, Rejected) else RuntimeError(f"{type(error).__name__}: {error}")
            )
        pickle.dump(answer, target)
        target.flush()


# --- Triton as machine code ------------------------------------------------------------------------------------------


def compile_triton(planned: Schedule) -> int:
    """Compile each kernel to an sm_90 binary, on a machine without a GPU, and return their number."""
    import triton  # noqa: PLC0415  (an extra)
    from triton.backends.compiler import GPUTarget  # noqa: PLC0415
    from triton.compiler import ASTSource  # noqa: PLC0415

    from nbcompile.codegen import triton as generator  # noqa: PLC0415
    from nbcompile.runtime import triton as runtime  # noqa: PLC0415

    emitted = generator.emit(planned)
    module = runtime.load_source(emitted.source)
    for kernel in emitted.kernels:
        source = ASTSource(getattr(module, kernel.name), generator.signature(kernel), {})
        binary = triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["cubin"]
        assert binary[:4] == b"\x7fELF", kernel.name
    return len(emitted.kernels)


if __name__ == "__main__":
    # Pickles refer to this module by the name that tests import.
    from tests.support import targets

    targets._serve()
