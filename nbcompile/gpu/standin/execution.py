"""Launches on the stand-in driver, run by the simulator on the memory of the device.

    executor = Executor(driver)
    executor.attach()           from now on a launch computes: cubin -> its PTX -> all threads as NumPy arrays

The driver gets machine code, as a real one does; the PTX that it was assembled from is looked up by its bytes
(gpu/cubins.py). Every access is checked against the driver's table of allocations.

In torch: nothing. Read next: nbcompile/gpu/simulator.py
"""

from __future__ import annotations

import ctypes
import functools
import threading
from typing import Any

import numpy as np

from nbcompile import torch_internals
from nbcompile.gpu import cubins, elf, ptx, simulator
from nbcompile.gpu.memory import Bytes, Fault, GlobalMemory
from nbcompile.gpu.ptx import UnsupportedInstruction
from nbcompile.gpu.standin.driver import LaunchConfiguration, StandInDriver

# Numbers of CUDA's errors, which the launcher turns into the exceptions of eager mode.
ILLEGAL_ACCESS, MISALIGNED, ASSERT, NOT_SUPPORTED = 700, 716, 710, 801
HEAD = 64
"""Bytes of the header of an ELF file."""


class Executor:
    """The simulator behind a driver."""

    def __init__(self, driver: StandInDriver) -> None:
        self.driver = driver
        self.modules: dict[int, cubins.Cubin] = {}
        self.reasons: list[str] = []
        """Messages of the simulator about launches that failed."""
        self.check_races = False
        # The work of a stream runs in order, whichever thread submits it. A lock of Python's: a thread that waits for
        # it releases the interpreter's lock.
        self.order = threading.RLock()

    def attach(self) -> None:
        """Run launches from now on."""
        self.driver.set_callbacks(self._load, self._launch_in_order, self._count)
        torch_internals.hide_from_hook(Executor._order_replay.__code__)
        self.driver.set_replay_callback(self._order_replay)

    def _load(self, module: int, address: int) -> None:
        # The driver is given an address without a length, as cuModuleLoadData is.
        size = elf.length(ctypes.string_at(address, HEAD))
        self.modules[module] = cubins.loaded[ctypes.string_at(address, size)]

    def _count(self, module: int, name: bytes) -> int:
        return self.modules[module].image.parameters

    def _order_replay(self, begins: int) -> None:
        if begins:
            self.order.acquire()
        else:
            self.order.release()

    def _launch_in_order(self, module: int, name: bytes, how: LaunchConfiguration, arguments: Any) -> int:
        with self.order:
            return self._launch(module, name, how, arguments)

    def _launch(self, module: int, name: bytes, how: LaunchConfiguration, arguments: Any) -> int:
        cubin = self.modules[module]
        # A launch with other numbers than the image says would be a mistake of the launcher's.
        if (
            how.block[0] != cubin.image.threads
            or how.shared != cubin.image.shared
            or cubin.image.entry != name.decode()
        ):
            self.reasons.append(f"{name.decode()} was launched with {how.block[0]} threads and {how.shared} bytes")
            return 1
        function = parsed(cubin.ptx)
        given = [int(arguments[at]) for at in range(cubin.image.parameters)]
        memory = HostMemory(self.check_races)
        # All allocations, as a kernel may be given any address.
        for start, size in self.driver.blocks():
            memory.add(start, size)
        try:
            width, height, depth = how.grid
            simulator.run(function, width * height * depth, given, memory, how.shared, width, height)
        except Fault as fault:
            self.reasons.append(str(fault))
            # The kinds of errors that a GPU distinguishes, by the text of the fault.
            return MISALIGNED if "multiple" in str(fault) else ASSERT if "check" in str(fault) else ILLEGAL_ACCESS
        except UnsupportedInstruction as reason:
            self.reasons.append(str(reason))
            return NOT_SUPPORTED
        return 0


class HostMemory(GlobalMemory):
    """Memory of the device where it is, not copied."""

    def __init__(self, check_races: bool) -> None:
        super().__init__(check_races)

    def add(self, start: int, size: int) -> None:
        """Add an allocation."""
        content = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(start))
        self.starts.append(start)
        self.ends.append(start + size)
        self.names.append(f"an allocation of {size} bytes")
        self.contents.append(Bytes(content, self.check_races))


@functools.lru_cache(maxsize=4096)
def parsed(text: str) -> ptx.Function:
    """PTX as data."""
    return ptx.parse(text)
