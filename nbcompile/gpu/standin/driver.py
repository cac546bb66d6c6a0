"""The stand-in driver in Python: recorded launches, and injected faults.

    driver = StandInDriver.build(compiler)
    driver.fail("cuLaunchKernel", 700)           the next launch returns an illegal access
    driver.log()                                 ("load module 1 device 0", "launch kernel0 module 1 device 0 ...")

In torch: nothing. Read next: nbcompile/gpu/standin/driver.c, nbcompile/gpu/standin/execution.py
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from nbcompile import torch_internals
from nbcompile.runtime import compiler_processes, store
from nbcompile.runtime.compiler_processes import BuildError
from nbcompile.runtime.toolchain import Compiler

SOURCE = Path(__file__).with_name("driver.c")
FUNCTIONS = (
    "cuInit", "cuDriverGetVersion", "cuDeviceGetCount", "cuDeviceGetAttribute", "cuCtxGetCurrent", "cuModuleLoadData",
    "cuModuleGetFunction", "cuFuncSetAttribute", "cuLaunchKernel", "cuStreamSynchronize", "cuMemAlloc",
    "cuStreamBeginCapture", "cuStreamEndCapture", "cuStreamIsCapturing", "cuGraphInstantiate", "cuGraphLaunch",
    "cuGraphDestroy", "cuGraphExecDestroy", "cuMemcpyDtoDAsync", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent",
    "cuModuleUnload", "cuEventCreate", "cuEventRecord", "cuStreamWaitEvent", "cuEventQuery", "cuEventSynchronize",
    "cuEventDestroy", "cuStreamQuery",
)  # fmt: skip
"""Functions that tests can cause to fail."""
MOST_BLOCKS = 1 << 20


class LaunchConfiguration(ctypes.Structure):
    """Launch configuration of a kernel."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p), ("attributes", ctypes.c_void_p), ("attribute_count", ctypes.c_uint),
    )  # fmt: skip


class Block(ctypes.Structure):
    """An allocation."""

    _fields_ = (("start", ctypes.c_uint64), ("bytes", ctypes.c_uint64), ("device", ctypes.c_int))


ON_LOAD = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p)
ON_LAUNCH = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(LaunchConfiguration), ctypes.POINTER(ctypes.c_uint64)
)
COUNT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_char_p)


ON_HOST = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)
ON_REPLAY = ctypes.CFUNCTYPE(None, ctypes.c_int)


class StandInDriver:
    """The library, loaded into this process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.library = ctypes.CDLL(str(path))
        self.library.standin_log.restype = ctypes.c_char_p
        self.library.standin_allocated.restype = ctypes.c_uint64
        self.library.standin_launches.restype = ctypes.c_long
        self.library.standin_blocks.restype = ctypes.c_size_t
        self._callbacks: tuple[object, ...] = ()
        self._host_function: object = None
        self._replay_callback: object = None

    @classmethod
    def build(cls, compiler: Compiler) -> StandInDriver:
        """Build it, once for a machine.

        Raises:
            BuildError: the C compiler fails.
        """
        source = SOURCE.read_text()
        key = store.key_of("stand-in driver", source, compiler.identity)

        def make(draft: Path) -> None:
            command = (*compiler.command, "-O1", "-fPIC", "-shared", "-w", "-x", "c", "-", "-o", str(draft))
            status, output = compiler_processes.run(command, source)
            if status:
                raise BuildError(output)

        return cls(store.obtain(key, ".so", make))

    def set_callbacks(
        self, load: Callable[[int, int], None], launch: Callable[[int, bytes, LaunchConfiguration, object], int],
        count: Callable[[int, bytes], int],
    ) -> None:  # fmt: skip
        """Set the callbacks for modules and launches.

        Args:
            load: Gets the module's number and the address of the image.
            launch: Gets the module's number, the function's name, grid and stream, the arguments; returns a CUresult.
            count: The number of arguments of a function.
        """

        def launched(module: int, name: bytes, how: ctypes._Pointer[LaunchConfiguration], arguments: object) -> int:
            # A driver runs no Python: the simulation of the launch is not the caller's code.
            with torch_internals.without_frame_hook():
                return launch(module, name, how.contents, arguments)

        torch_internals.hide_from_hook(launched.__code__)

        # Kept alive, as C has only their addresses: ctypes frees a callback without a reference.
        self._callbacks = (ON_LOAD(load), ON_LAUNCH(launched), COUNT(count))
        self.library.standin_set_callbacks(*self._callbacks)

    def set_host_function(self, function: Callable[[int], int]) -> None:
        """Set the function for eager mode's operators in a graph: it gets a call's number, and returns a CUresult."""
        self._host_function = ON_HOST(function)
        self.library.standin_set_host_function(self._host_function)

    def set_replay_callback(self, function: Callable[[int], None]) -> None:
        """Set the function that is called before (1) and after (0) a graph."""
        self._replay_callback = ON_REPLAY(function)
        self.library.standin_set_replay_callback(self._replay_callback)

    def capture_call(self, stream: int, number: int) -> bool:
        """Make a call of eager mode part of the capture of a stream; False: the stream is not capturing."""
        return bool(self.library.standin_capture_host(ctypes.c_void_p(stream), number))

    def run_on(self, stream: int, number: int) -> int:
        """Submit a call of the host function to a stream: it is captured, runs now, or runs later (a held stream)."""
        return int(self.library.standin_run_on(ctypes.c_void_p(stream), number))

    @contextmanager
    def held(self, stream: int) -> Iterator[None]:
        """Let a stream run its work as late as possible: when something waits for it."""
        self.library.standin_hold(ctypes.c_void_p(stream), 1)
        try:
            yield
        finally:
            self.library.standin_hold(ctypes.c_void_p(stream), 0)

    def is_capturing(self, stream: int) -> bool:
        """Return whether work of the stream is recorded, and does not run."""
        return bool(self.library.standin_is_capturing(ctypes.c_void_p(stream)))

    def live_graphs(self) -> int:
        """Number of graphs, executable ones included, that were not destroyed."""
        return int(self.library.standin_live_graphs())

    def clear_callbacks(self) -> None:
        """Count launches, and execute nothing (to measure)."""
        self.library.standin_set_callbacks(None, None, None)
        self.library.standin_set_replay_callback(None)

    def fail(self, function: str, result: int, after: int = 0) -> None:
        """Make one call of a function return a CUresult: the next one, or one later."""
        if function not in FUNCTIONS:
            raise ValueError(f"{function} cannot fail; known are {', '.join(FUNCTIONS)}")
        self.library.standin_fail(function.encode(), result, after)

    def recover(self) -> None:
        """End faults, and their effect on the context."""
        self.library.standin_recover()

    def set_devices(self, count: int = 1, version: int = 13000) -> None:
        """Set the number of GPUs, and the version of the driver API."""
        self.library.standin_set_devices(count, version)

    def set_capacity(self, bytes_: int = 141 << 30) -> None:
        """Memory of the device."""
        self.library.standin_set_capacity(ctypes.c_uint64(bytes_))

    def allocated(self) -> int:
        """Bytes in use."""
        return int(self.library.standin_allocated())

    def launches(self) -> int:
        """Number of kernels that were run so far."""
        return int(self.library.standin_launches())

    def blocks(self) -> list[tuple[int, int]]:
        """Address and bytes of every allocation, in order of the addresses."""
        count, capacity = self.library.standin_blocks(None, 0), 0
        # Another thread may allocate in between.
        while count > capacity:
            capacity = count
            found = (Block * capacity)()
            count = self.library.standin_blocks(found, capacity)
        return sorted((each.start, each.bytes) for each in found[:count]) if capacity else []

    def log(self) -> tuple[str, ...]:
        """Log of the driver, one line a call, since the last :meth:`clear_log`."""
        return tuple(self.library.standin_log().decode().splitlines())

    def clear_log(self) -> None:
        """Clear the records."""
        self.library.standin_clear_log()

    def set_logging(self, on: bool) -> None:
        """Keep a log, or not (to measure)."""
        self.library.standin_set_logging(on)
