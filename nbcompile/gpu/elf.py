"""The parameters of a kernel, out of its machine code.

    parameters(cubin, "kernel0")      4: two pointers, and two that Triton added

A cubin is an ELF file. Its section ``.nv.info.kernel0`` is a list of attributes; one kind of them describes a
parameter: its ordinal, its offset, its size. Triton adds hidden parameters at the end, as many as its version has; so
the number is read.

In torch: torch/csrc/inductor/static_launcher/cuda.cpp, where the number is known. Read next: nbcompile/gpu/cubins.py
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

PARAMETER = (0x17, 0x45)
"""Attributes that describe a parameter (KPARAM_INFO, and its second version)."""
SIZED = 4
"""Format of attributes whose length follows; others hold two bytes."""


def sections(image: bytes) -> Iterator[tuple[str, bytes]]:
    """Iterate over the sections of an ELF file of 64 bits: name and content."""
    if image[:5] != b"\x7fELF\x02":
        raise ValueError("not an ELF file of 64 bits")
    (start,) = struct.unpack_from("<Q", image, 0x28)
    size, count, names = struct.unpack_from("<HHH", image, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", image, start + at * size) for at in range(count)]
    offset_of_names = headers[names][4]
    for name_at, kind, _, _, offset, length in headers:
        begin = offset_of_names + name_at
        name = image[begin : image.index(b"\0", begin)].decode()
        yield name, b"" if kind == 8 else image[offset : offset + length]  # 8: takes no room in the file


def length(image: bytes) -> int:
    """Bytes of an ELF file, of which ``image`` is the beginning at least."""
    segments, sections = struct.unpack_from("<QQ", image, 0x20)
    segment_size, segment_count, section_size, section_count = struct.unpack_from("<HHHH", image, 0x36)
    return int(max(segments + segment_size * segment_count, sections + section_size * section_count))


def parameters(image: bytes, entry: str) -> int:
    """Number of parameters of a kernel, hidden ones included.

    Raises:
        ValueError: the file does not say, or one of them is not of 8 bytes.
    """
    for name, content in sections(image):
        if name == f".nv.info.{entry}":
            return _count(content)
    raise ValueError(f"the machine code says nothing of {entry}")


def _count(content: bytes) -> int:
    found: set[int] = set()
    at = 0
    while at + 4 <= len(content):
        kind, attribute, value = struct.unpack_from("<BBH", content, at)
        if attribute in PARAMETER and kind == SIZED:
            ordinal = struct.unpack_from("<H", content, at + 8)[0]
            found.add(ordinal)
        at += 4 + (value if kind == SIZED else 0)
    if found != set(range(len(found))):
        raise ValueError("the machine code describes some parameters only")
    return len(found)
