"""The processes that compile Triton kernels: Triton is imported once, and each is a fork of that one process.

    python cubin_worker.py        run as a file: it imports Triton, and neither torch nor nbcompile

Its standard input is a socket. Each message on it carries another socket, for which a process is forked: one JSON
request a line in, one JSON answer a line out, until the other end is closed.

In torch: torch/_inductor/compile_worker/__main__.py. Read next: nbcompile/gpu/cubins.py
"""

from __future__ import annotations

import base64
import contextlib
import functools
import gc
import hashlib
import json
import linecache
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import triton
from triton._C import libtriton
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia import compiler as nvidia
from triton.compiler import ASTSource, code_generator, compiler as triton_compiler
from triton.runtime import cache

NOT_READ = (".source", ".ttir", ".ttgir", ".llir")
"""Texts that Triton prints between its passes and that are not read here: printing one takes as long as a pass."""

SHORT_MATHEMATICS = (
    "atan", "atan2", "ceil", "copysign", "cos", "erf", "exp", "exp2", "fabs", "floor", "log", "log2", "rsqrt", "sin",
    "sqrt", "tanh", "trunc",
)  # fmt: skip
"""Functions of libdevice that are common in generated kernels, where numbers are float32."""
PASSES_OF_PRODUCTS = {
    "ttgpuir": (
        "add_f32_dot_tc", "add_accelerate_matmul", "add_optimize_dot_operands", "add_reduce_data_duplication",
    ),
    "ttnvgpuir": (
        "add_assign_cga_layouts", "add_optimize_cta_locality", "add_check_matmul_two_cta",
        "add_optimize_descriptor_encoding", "add_optimize_tmem_layouts",
        "add_tmem_load_reduce", "add_tma_lowering", "add_interleave_tmem", "add_fence_insertion", "add_lower_mma",
        "add_hoist_mbarrier_lifecycle", "add_allocate_tensor_memory", "add_proxy_fence_insertion",
        "add_tmem_barrier_insertion", "add_tmem_wait_insertion", "add_cluster_barrier_mbar_allocator",
        "add_initialize_ws_cluster_barriers",
    ),
}  # fmt: skip
"""Passes of Triton for products, descriptors of tensors, the memory of matrix units and clusters, by their module."""
PASSES_OF_LOOPS = {
    "ttir": ("add_triton_licm",),
    "ttgpuir": (
        "add_fuse_nested_loops", "add_combine_tensor_select_and_if", "add_assign_latencies", "add_schedule_loops",
        "add_warp_specialize", "add_pipeline", "add_coalesce_async_copy",
    ),
    "hopper": ("add_hopper_warpspec",),
}  # fmt: skip
"""Passes of Triton that change loops, branches, and the copies that they make ahead of a loop's steps."""
COMPARED = "3.9."
"""Versions of Triton whose machine code was compared with and without the passes; others keep all passes."""
BETWEEN_COLLECTIONS = 32
"""Number of kernels that a process compiles before it collects garbage: each leaves 1.2 MB in reference cycles."""


class OwnFiles(cache.FileCacheManager):
    """Files of one compilation. nbcompile's store has the results, so that no file is looked up or locked here."""

    def __init__(self, key: str, override: bool = False, dump: bool = False) -> None:
        self.is_plain = not (override or dump)
        if not self.is_plain:
            super().__init__(key, override, dump)
            return
        self.key = key
        self.cache_dir = self.lock_path = tempfile.gettempdir()

    def get_group(self, filename: str) -> dict[str, str] | None:
        """None: nothing is there before it is compiled."""
        return None if self.is_plain else super().get_group(filename)

    def put(self, data: Any, filename: str, binary: bool = True) -> str:
        """Write a file."""
        if not self.is_plain:
            return str(super().put(data, filename, binary))
        path = Path(self.cache_dir, filename)
        if filename.endswith(NOT_READ):
            data = ""
        path.write_bytes(data if isinstance(data, bytes) else str(data).encode())
        return str(path)


# Triton's own cache keeps every stage of every kernel on disk.
triton.knobs.cache.manager_class = OwnFiles
# The key of that cache has the digest of all of Triton, whose library has hundreds of megabytes, and of each
# function that a kernel calls. Neither is computed, as no file is looked up by this key.
cache.triton_key = lambda: triton.__version__
triton_compiler.get_cache_key = lambda *_, **__: ""
# Triton imports this at the first compilation, which would be once in each fork.
assert code_generator


def file_in_memory(content: bytes) -> str:
    """A path that this process and its forks can read: the file ends with the last of them."""
    number = os.memfd_create("nbcompile", 0)
    os.write(number, content)
    return f"/proc/self/fd/{number}"


def short_library() -> tuple[str, frozenset[str]]:
    """The part of libdevice for float32: its path, and the names of its functions.

    A kernel that calls one function takes 34 ms to parse all of libdevice, and 2 ms to parse this part.
    """
    context, of_llvm = libtriton.ir.context(), libtriton.llvm.context()
    libtriton.ir.load_dialects(context)
    functions = "".join(f"llvm.func @__nv_{name}f()\n" for name in SHORT_MATHEMATICS)
    declared = libtriton.ir.parse_mlir_module(file_in_memory(f"module {{\n{functions}}}\n".encode()), context)
    libtriton.llvm.init_targets()
    module = libtriton.llvm.to_module(declared, of_llvm)
    # The linker takes the functions that are declared from a library, and the functions that these call.
    libtriton.llvm.link_extern_libs(module, [dict(nvidia.CUDAOptions().extern_libs)["libdevice"]])
    names = frozenset(one.name for one in module.get_functions() if not one.is_declaration())
    # Triton makes what it linked invisible outside of the module, where the next linker would not find it.
    text = re.sub(r"^define internal ", "define ", str(module), flags=re.MULTILINE)
    return file_in_memory(text.encode()), names


def link_from_short_library() -> None:
    """Make Triton link libdevice functions from the short part if it has all functions that a kernel calls."""
    path, names = short_library()
    link_all = libtriton.llvm.link_extern_libs

    def link(module: Any, paths: list[str]) -> None:
        called = {one.name for one in module.get_functions() if one.is_declaration() and one.name.startswith("__nv_")}
        link_all(module, [path] if len(paths) == 1 and called <= names else paths)

    libtriton.llvm.link_extern_libs = link


def _nothing(*_: Any) -> None:
    """A pass that does nothing."""


@contextlib.contextmanager
def without(names: dict[str, tuple[str, ...]]) -> Iterator[None]:
    """Replace these passes, by their module, by one that does nothing."""
    of_all, of_nvidia = nvidia.passes, nvidia.nvidia.passes
    modules = {
        "ttir": of_all.ttir, "ttgpuir": of_all.ttgpuir, "ttnvgpuir": of_nvidia.ttnvgpuir, "hopper": of_nvidia.hopper,
    }  # fmt: skip
    changed = [(modules[kind], name, getattr(modules[kind], name)) for kind in names for name in names[kind]]
    for module, name, _ in changed:
        setattr(module, name, _nothing)
    try:
        yield
    finally:
        for module, name, before in changed:
            setattr(module, name, before)


def only_needed_passes(text: str) -> contextlib.AbstractContextManager[None]:
    """Leave out the passes for products while a kernel without any is compiled: they change nothing, and take 15 %."""
    is_known = triton.__version__.startswith(COMPARED)
    return without(PASSES_OF_PRODUCTS if is_known and "dot" not in text and "descriptor" not in text else {})


def skip_loop_passes() -> None:
    """Make Triton skip the passes for loops if a kernel has no loop, no branch and no call."""
    make = nvidia.CUDABackend.make_ttgir

    def make_without(module: Any, metadata: Any, options: Any, capability: int) -> Any:
        # The header has functions with loops, which the kernel need not call. So the compiled module is searched for
        # loops, and not the text.
        regions: list[str] = []
        module.walk(lambda operation: regions.append(operation.get_name()))
        has_some = any(name.startswith(("scf.", "cf.")) or name == "tt.call" for name in regions)
        with without({} if has_some or not triton.__version__.startswith(COMPARED) else PASSES_OF_LOOPS):
            return make(module, metadata, options, capability)

    nvidia.CUDABackend.make_ttgir = staticmethod(make_without)


def module_of(name: str, text: str, known: dict[str, Any]) -> types.ModuleType:
    """A module with this source text: Triton reads the source of a function from ``linecache``."""
    module = types.ModuleType(name)
    path = f"<{name}>"
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    vars(module).update(known, __name__=name, __file__=path)
    sys.modules[name] = module
    exec(compile(text, path, "exec"), vars(module))
    return module


@functools.cache
def header_of(text: str) -> types.ModuleType:
    """Functions that many kernels call. Triton tokenises a function when it is decorated: once in each process."""
    # Its name is in the machine code, which is the same in each process.
    return module_of(f"header_{hashlib.sha256(text.encode()).hexdigest()[:16]}", text, {})


def kernel_of(request: dict[str, Any]) -> Any:
    """The function that is to be compiled; its lines are those of the whole text."""
    header = request["header"]
    known = {name: value for name, value in vars(header_of(header)).items() if not name.startswith("__")}
    # Triton writes line numbers into the machine code: they have to be those of the module that is
    # shown, where the header comes before each kernel.
    blank = "\n" * (header.count("\n") + 2)
    return getattr(module_of(f"kernel_{request['key']}", blank + request["source"], known), request["name"])


@contextlib.contextmanager
def own_folder(folders: list[str]) -> Iterator[None]:
    """Create a folder for all temporary files of Triton and its tools, and remove it with its contents.

    It is in the list from before it is created until it is removed.
    """
    # Its name is known before it exists, since a signal may come right after it was created.
    folder = os.path.join(tempfile.gettempdir(), f"nbcompile-triton-{secrets.token_hex(8)}")  # noqa: PTH118
    folders.append(folder)
    os.mkdir(folder, 0o700)  # noqa: PTH102  it raises if there is another one's folder, or a link
    before, tempfile.tempdir = tempfile.tempdir, folder
    try:
        yield
    finally:
        tempfile.tempdir = before
        remove_folders(folders)


def remove_folders(folders: list[str]) -> None:
    """Remove the files that a compilation left."""
    while folders:
        shutil.rmtree(folders[-1], ignore_errors=True)
        folders.pop()


def compile_kernel(request: dict[str, Any]) -> dict[str, Any]:
    """Compile one kernel; return PTX, machine code, and the metadata of its launch."""
    pointers = [at for at, kind in enumerate(request["signature"].values()) if kind.startswith("*")]
    aligned = {(at,): [["tt.divisibility", 16]] for at in pointers} if request["aligned"] else {}
    source = ASTSource(kernel_of(request), request["signature"], {}, aligned)
    target = GPUTarget("cuda", request["capability"], 32)
    with only_needed_passes(request["header"] + request["source"]):
        compiled = triton.compile(source, target=target, options=request["options"])
    if getattr(compiled.metadata, "profile_scratch_size", 0):
        raise RuntimeError("it needs memory for Triton's profiler")
    return {
        "ptx": compiled.asm["ptx"],
        "cubin": base64.b64encode(compiled.asm["cubin"]).decode(),
        "entry": compiled.metadata.name,
        "threads": 32 * compiled.metadata.num_warps,
        "shared": compiled.metadata.shared,
        "scratch": getattr(compiled.metadata, "global_scratch_size", 0) or 0,
    }


def error_reply(error: Exception) -> dict[str, str]:
    """The reply where there is no machine code: of this kernel, or of any."""
    first = next(iter(str(error).strip().splitlines()), "")
    # A tool that runs and fails is Triton's error, with the tool's message.
    if isinstance(error, (OSError, subprocess.SubprocessError)):
        return {"missing": f"the tools of CUDA that come with Triton cannot be run: {first}"}
    if first.startswith("Cannot find"):
        return {"missing": f"{first}, which comes with Triton"}
    return {"error": f"{type(error).__name__}: {first}"}


def serve(connection: socket.socket, folders: list[str]) -> None:
    """Reply to requests until the input ends."""
    with connection.makefile("rw", encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                with own_folder(folders):
                    answer = compile_kernel(json.loads(line))
            except Exception as error:  # noqa: BLE001  the requesting process reports it
                answer = error_reply(error)
            lines.write(json.dumps(answer) + "\n")
            lines.flush()
            if not number % BETWEEN_COLLECTIONS:
                gc.collect()  # after the reply, so that no process waits for it


def _end(*_: object) -> None:
    # The folder is being removed, and a second signal must not interrupt that.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit()


def _forked(control: socket.socket, number: int) -> None:
    # Python ends at once at a signal without a handler, and the folder of a compilation would stay.
    signal.signal(signal.SIGTERM, _end)
    folders: list[str] = []
    try:
        control.close()
        serve(socket.socket(fileno=number), folders)
    finally:
        try:
            # The signal may have come where own_folder had begun to make its folder, or to remove it.
            remove_folders(folders)
        finally:
            os._exit(0)  # after any error: the rest of the stack belongs to the process that forks


def main() -> None:
    """Fork a process for each socket that is sent, until the requesting process ends."""
    control = socket.socket(fileno=os.dup(0))
    with contextlib.suppress(Exception):  # another version of Triton: it links all of libdevice
        link_from_short_library()
    skip_loop_passes()
    # Otherwise each kernel causes a garbage collection over all objects of Triton, 5 % of the time.
    gc.freeze()
    gc.disable()
    while True:
        message, numbers, _, _ = socket.recv_fds(control, 1, 1)
        if not message:
            break
        # The child has Triton imported, and its own memory, which is freed when it ends.
        if not os.fork():
            _forked(control, numbers[0])
        # Otherwise the worker's connection would never be closed, since this process would hold the other end.
        os.close(numbers[0])
        with contextlib.suppress(ChildProcessError):
            # One ended worker is reaped for each that is started: their number stays small.
            os.waitpid(-1, os.WNOHANG)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


if __name__ == "__main__":
    main()
