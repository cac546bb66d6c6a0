"""The parameters, registers and spills of a kernel, out of its machine code.

    parameters(cubin, "kernel0")      4: two pointers, and two that Triton added
    registers(cubin)                  32
    spilled_bytes(cubin, "kernel0")   0

A cubin is an ELF file. Its section ``.nv.info.kernel0`` is a list of attributes; one kind of them describes a
parameter: its ordinal, its offset, its size. Triton adds hidden parameters at the end, as many as its version has; so
the number is read. ``.nv.info`` has the registers and the stack frame of a thread. A frame is not yet a spill: the call
of a failed assertion has one. Registers are spilled where instructions of the kernel access the frame.

In torch: torch/csrc/inductor/static_launcher/cuda.cpp, which is given the number. Read next: nbcompile/gpu/cubins.py
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from nbcompile.gpu.machine_code import MachineCode

PARAMETER = (0x17, 0x45)
"""Attributes that describe a parameter (KPARAM_INFO, and its second version)."""
SIZED = 4
"""Format of attributes whose length follows; others hold two bytes."""
REGISTERS, FRAME = 0x2F, 0x11
"""Attributes of a kernel: its number in the symbol table, and 32-bit registers of a thread, or bytes of its stack."""
LOCAL_ACCESSES = frozenset({0x387, 0x983})
"""Opcodes of the stores and loads of a thread's stack (STL, LDL): the lowest 12 bits of 128, since sm_70."""


def sections(image: bytes) -> Iterator[tuple[str, bytes]]:
    """Iterate over the sections of an ELF file of 64 bits: name and content."""
    if image[:5] != b"\x7fELF\x02":
        raise ValueError("not an ELF file of 64 bits")
    #     0x28 offset of the headers    0x3a size of one    0x3c how many    0x3e which has names
    (start,) = struct.unpack_from("<Q", image, 0x28)
    size, count, names = struct.unpack_from("<HHH", image, 0x3A)
    #     name, kind, flags, address, offset in the file, length
    headers = [struct.unpack_from("<IIQQQQ", image, start + at * size) for at in range(count)]
    offset_of_names = headers[names][4]
    for name_at, kind, _, _, offset, length in headers:
        begin = offset_of_names + name_at
        name = image[begin : image.index(b"\0", begin)].decode()
        yield name, b"" if kind == 8 else image[offset : offset + length]  # 8 (NOBITS): takes no space in the file


def length(image: bytes) -> int:
    """Number of bytes of an ELF file; ``image`` has at least its beginning."""
    # The tables of headers are taken to come last, so that the later one ends the file.
    segments, sections = struct.unpack_from("<QQ", image, 0x20)
    segment_size, segment_count, section_size, section_count = struct.unpack_from("<HHHH", image, 0x36)
    return int(max(segments + segment_size * segment_count, sections + section_size * section_count))


def parameters(image: bytes, entry: str) -> int:
    """Number of parameters of a kernel, hidden ones included.

    Raises:
        ValueError: the file does not state it, or one of them does not have 8 bytes.
    """
    for name, content in sections(image):
        if name == f".nv.info.{entry}":
            return _count(content)
    raise ValueError(f"the machine code has no attributes of {entry}")


def machine_code(ptx: str, image: bytes, entry: str, threads: int, shared_bytes: int) -> MachineCode:
    """A kernel with its metadata in the file."""
    return MachineCode(ptx, image, threads, shared_bytes, registers(image), spilled_bytes(image, entry))


def registers(image: bytes) -> int:
    """Registers of a thread."""
    return _of_thread(image, REGISTERS)


def spilled_bytes(image: bytes, entry: str) -> int:
    """Bytes of a thread's stack for spilled registers: 0 without loads and stores there."""
    code = dict(sections(image))[f".text.{entry}"]
    # Since sm_70 an instruction has 128 bits; the opcode is in the lower half.
    accessed = any(low & 0xFFF in LOCAL_ACCESSES for low, _ in struct.iter_unpack("<QQ", code))
    return _of_thread(image, FRAME) if accessed else 0


def _of_thread(image: bytes, kind: int) -> int:
    """Attribute of the one kernel in a file."""
    for attribute, value in _attributes(dict(sections(image)).get(".nv.info", b"")):
        if attribute == kind:
            # The first four bytes are the kernel's number in the table of symbols.
            return int(struct.unpack_from("<I", value, 4)[0])
    raise ValueError("the machine code has no attribute with the registers of a thread")


def _attributes(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Iterate over a list of attributes: kind, and value of those that have a length."""
    at = 0
    while at + 4 <= len(content):
        kind, attribute, length = struct.unpack_from("<BBH", content, at)
        at += 4
        if kind == SIZED:
            yield attribute, content[at : at + length]
            at += length


def _count(content: bytes) -> int:
    found = {
        int(struct.unpack_from("<H", value, 4)[0])
        for attribute, value in _attributes(content)
        if attribute in PARAMETER
    }
    # Ordinals with a gap: an attribute of a kind that is not known here.
    if found != set(range(len(found))):
        raise ValueError("the machine code describes some parameters only")
    return len(found)
