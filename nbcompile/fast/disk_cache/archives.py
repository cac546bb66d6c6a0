"""Archive of compiled code: one machine compiles, others of its kind only load.

    content = nbcompile.save_cache_artifacts()      what this process has compiled or loaded, as bytes
    nbcompile.load_cache_artifacts(content)         in a new process, before the first call
    python -m nbcompile cache save model.zip        everything in the two stores; ``cache load model.zip``

An archive is a zip file with the files of the two stores, functions and kernels (C++ libraries and cubins), under the
names that they have there. An entry is used where nbcompile, torch, Python, the compiler, the processor and the
settings are those of its key, as between two processes of one machine; elsewhere the function is compiled.

Nothing is written before every member has a name of ours, a size within the limits and its checksum (zip's own, for a
kernel). A checksum shows damage, not the author: kernels are machine code that this process will run.

In torch: torch/compiler/__init__.py (save_cache_artifacts), torch/compiler/_cache.py.
Read next: nbcompile/fast/disk_cache/storage.py
"""

from __future__ import annotations

import functools
import io
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nbcompile import config, errors
from nbcompile.fast.disk_cache import storage, writer
from nbcompile.runtime import least_used, store

FUNCTION = re.compile(r"functions/([0-9a-f]{8,64})/([0-9a-f]{8,64}\.(?:json|page))")
KERNEL = re.compile(r"kernels/([0-9a-f]{40})(\.[\w.]{1,32})")
CHECKSUM = ".sha256"
"""The end of the name of a kernel's checksum, which is computed again when a kernel is installed."""


@dataclass(frozen=True, slots=True)
class CacheArtifacts:
    """Number of files of each store in an archive, and the bytes of all."""

    functions: int
    kernels: int
    size: int


def save_cache_artifacts() -> bytes | None:
    """Pack the functions and kernels that this process has compiled or loaded; None if there are none.

    Returns:
        The archive, a zip file, for :func:`load_cache_artifacts` in another process or on another machine.
    """
    # Entries are written in the background: what this process has begun belongs to the archive.
    writer.flush(timeout=writer.TIMEOUT)
    content, packed = pack(storage.used(), store.used())
    return content if packed.functions + packed.kernels else None


def load_cache_artifacts(content: bytes) -> CacheArtifacts:
    """Install the functions and kernels of an archive in the stores of this machine.

    Args:
        content: what :func:`save_cache_artifacts` returned. Kernels are machine code: load only what you trust.

    Returns:
        How much was installed.

    Raises:
        errors.InvalidArchive: it is no archive of ours, damaged or too large; nothing is installed then.
        OSError: the file cannot be written.
    """
    members = _checked(content)
    functions = {path: whole for path, whole in members.items() if isinstance(path, Path)}
    kernels = {name: whole for name, whole in members.items() if isinstance(name, tuple)}
    # Kernels first: an entry that is found has all that it needs.
    for (key, suffix), whole in kernels.items():
        store.add(key, suffix, functools.partial(_write, whole))
    for entry in sorted({path.with_suffix(".json") for path in functions}):
        storage.install(entry, functions.get(entry), functions.get(entry.with_suffix(".page")))
    return CacheArtifacts(len(functions), len(kernels), sum(map(len, members.values())))


def _write(whole: bytes, draft: Path) -> None:
    draft.write_bytes(whole)


def pack(functions: Iterable[Path], kernels: Iterable[Path]) -> tuple[bytes, CacheArtifacts]:
    """Pack files of the two stores; those that are damaged, or that another process has removed, are left out."""
    buffer, counts, size = io.BytesIO(), [0, 0], 0
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for kind, members in enumerate((_functions(functions), _kernels(kernels))):
            for name, whole in members:
                # One date for all: equal stores make equal archives.
                archive.writestr(zipfile.ZipInfo(name), whole, zipfile.ZIP_DEFLATED)
                counts[kind] += 1
                size += len(whole)
    return buffer.getvalue(), CacheArtifacts(counts[0], counts[1], size)


def _functions(paths: Iterable[Path]) -> Iterator[tuple[str, bytes]]:
    for path in paths:
        whole = storage.contents(path)
        if whole is not None:
            yield f"functions/{path.parent.name}/{path.name}", whole


def _kernels(paths: Iterable[Path]) -> Iterator[tuple[str, bytes]]:
    for path in paths:
        key, suffix = path.name[:40], path.name[40:]
        found = None if suffix.endswith(CHECKSUM) else store.fetch(key, suffix)
        if found is not None:
            yield f"kernels/{path.name}", found.read_bytes()


# -- reading files of other processes ----------------------------------------------------------------------------------


def _checked(content: bytes) -> dict[Path | tuple[str, str], bytes]:
    """The members of an archive, by the path of a function's file or the key and suffix of a kernel's."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise errors.InvalidArchive(f"{error}") from None
    with archive:
        members = archive.infolist()
        _check_size(members)
        found: dict[Path | tuple[str, str], bytes] = {}
        for member in members:
            destination = _destination(member.filename)
            whole = _content(archive, member)
            if isinstance(destination, Path) and not storage.is_complete(destination, whole):
                raise errors.InvalidArchive(f"{member.filename!r} does not have its checksum")
            if destination in found:
                raise errors.InvalidArchive(f"{member.filename!r} is there twice")
            found[destination] = whole
    return found


def _content(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise errors.InvalidArchive(f"{member.filename!r} is compressed in another way than ours")
    try:
        with archive.open(member) as file:
            # As many bytes as were promised, whatever the data would unpack to; zipfile compares the CRC at the end.
            whole = file.read(member.file_size)
    except (zipfile.BadZipFile, zlib.error, ValueError, NotImplementedError, RuntimeError, EOFError, OSError) as error:
        raise errors.InvalidArchive(f"{member.filename!r}: {error}") from None
    if len(whole) != member.file_size:
        raise errors.InvalidArchive(f"{member.filename!r}: expected {member.file_size} bytes, got {len(whole)}")
    return whole


def _check_size(members: list[zipfile.ZipInfo]) -> None:
    # More than the stores may hold would only push out what is there; and a zip bomb promises petabytes.
    limit = (config.warm_start_megabytes + config.kernel_store_megabytes) * least_used.MEGABYTE
    size = sum(member.file_size for member in members)
    if size > limit or any(member.file_size > store.LARGEST for member in members):
        raise errors.InvalidArchive(f"expected at most {limit} bytes of files, got {size}")


def _destination(name: str) -> Path | tuple[str, str]:
    """The destination of a member in the stores: names of ours only, so that none leads out of them."""
    function, kernel = FUNCTION.fullmatch(name), KERNEL.fullmatch(name)
    if function:
        return storage.folder(function[1]) / function[2]
    if kernel and not kernel[2].endswith(CHECKSUM) and ".." not in kernel[2]:
        return kernel[1], kernel[2]
    raise errors.InvalidArchive(f"{name!r} is no name of a file of the stores")
