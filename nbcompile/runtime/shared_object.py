"""Check that a shared object is complete before it is loaded.

A compiler can report success and leave half a file: its disk was full, or it was replaced while it ran. The loader
maps such a file, and the first access behind its end kills the process (SIGBUS), so the headers are read first:

    defect(Path("whole.so"))        ""
    defect(Path("half.so"))         "its section headers end at byte 15800 of 700"

In torch: CppCodeCache (torch/_inductor/codecache.py) loads what the compiler left. Read next:
nbcompile/runtime/toolchain.py, which checks after each build
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import BinaryIO

_WORDS = {1: "I", 2: "Q"}
"""Format of an address, by class of the ELF file: 32 or 64 bits."""
_ORDERS = {1: "<", 2: ">"}
"""Byte order, by the data encoding of the ELF file."""
_SEGMENT = {1: "I{0}{0}{0}{0}", 2: "II{0}{0}{0}{0}"}
"""Beginning of a program header, up to ``p_filesz``; its offset in the file is the first address-sized field."""


def defect(path: Path) -> str:
    """Description of what a shared object lacks; "" if it is complete, or of a format that is not known here."""
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            return _defect(file, size) if size else "it is empty"
    except OSError as error:
        return str(error)
    except struct.error:
        return "its headers are cut off"


def _defect(file: BinaryIO, size: int) -> str:
    (ident,) = struct.unpack("16s", file.read(16))
    if ident[:4] != b"\x7fELF":
        return "it is no ELF file" if sys.platform == "linux" else ""
    if ident[4] not in _WORDS or ident[5] not in _ORDERS:
        return "it has an unknown ELF class"
    order, word = _ORDERS[ident[5]], _WORDS[ident[4]]
    #     fields    4, 5: offsets of program and section headers    8 to 11: size and number of each
    header = struct.Struct(f"{order}HHI{word}{word}{word}IHHHHHH")
    fields = header.unpack(file.read(header.size))
    segments_at, sections_at = fields[4:6]
    segment_size, segment_count, section_size, section_count = fields[8:12]
    if sections_at + section_size * section_count > size:
        return f"its section headers end at byte {sections_at + section_size * section_count} of {size}"
    segment = struct.Struct(order + _SEGMENT[ident[4]].format(word))
    for number in range(segment_count):
        file.seek(segments_at + number * segment_size)
        found = segment.unpack(file.read(segment.size))
        offset, length = (found[2], found[5]) if ident[4] == 2 else (found[1], found[4])  # 64 bits
        # The loader maps a segment without reading it: what is missing shows at the first access.
        if offset + length > size:
            return f"segment {number} ends at byte {offset + length} of {size}"
    return ""
