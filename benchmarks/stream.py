"""The machine's bandwidth: STREAM's triad, ``a = b + 3 * c``, over arrays far larger than the caches.

    call = triad(threads=2);  call()     ->  BYTES were read and written

Built with the compiler and the flags that kernels are built with, and as anyone would build STREAM: no streaming
stores, so each line that is written is read first, and that traffic is not counted (it never is).

Read next: benchmarks/timing.py
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch

from nbcompile.runtime import toolchain

ELEMENTS = 1 << 25
BYTES = 3 * 4 * ELEMENTS
SOURCE = """
extern "C" void triad(float *__restrict a, const float *__restrict b, const float *__restrict c, long n, int threads) {
  #pragma omp parallel for num_threads(threads)
  for (long i = 0; i < n; i++) a[i] = b[i] + 3.0f * c[i];
}
"""


def triad(threads: int) -> Callable[[], object]:
    """A call that runs the triad once; its arrays are touched already."""
    with tempfile.TemporaryDirectory(prefix="nbcompile-stream-") as folder:
        source, library = Path(folder, "triad.cpp"), Path(folder, "triad.so")
        source.write_text(SOURCE)
        compiler = toolchain.find()
        if reason := getattr(compiler, "reason", ""):
            raise RuntimeError(reason)
        command = [*compiler.command, *compiler.flags, "-fvisibility=default", str(source), "-o", str(library)]
        subprocess.run(command, check=True, capture_output=True)
        function = ctypes.CDLL(str(library)).triad
    arrays = [torch.ones(ELEMENTS) for _ in range(3)]
    pointers = [ctypes.c_void_p(array.data_ptr()) for array in arrays]

    def call() -> object:
        return function(*pointers, ctypes.c_long(ELEMENTS), threads), arrays

    return call
