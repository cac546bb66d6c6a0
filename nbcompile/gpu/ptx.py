"""PTX text as data: the instructions of one kernel, each with the line of generated Triton that it comes from.

    @%p1 ld.global.v2.b32 {%r1, %r2}, [%rd4+16];
    ->  Instruction("ld", ("global", "v2", "b32"), ("{%r1, %r2}", "[%rd4+16]"), predicate="%p1", line=229)

PTX is NVIDIA's assembly language for a machine with any number of registers; ``ptxas`` makes the machine code of one
chip of it. A ``.loc`` directive names file, line and column; where a helper function was inlined, its last line is
that of the call.

In torch: nothing. Read next: nbcompile/gpu/simulator.py
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from nbcompile.gpu.ptx_calls import without_calls


class UnsupportedInstruction(NotImplementedError):
    """An instruction that the simulator lacks; the message names it."""


@dataclass(frozen=True)
class Instruction:
    """One instruction."""

    opcode: str
    modifiers: tuple[str, ...]
    """Modifiers of the opcode, without the dots: ``("rn", "ftz", "f32")``."""
    operands: tuple[str, ...]
    predicate: str = ""
    """The register that decides in which threads it runs; empty if in all."""
    negated: bool = False
    line: int = 0
    """Line of the generated Triton module, counted from 1; 0 if unknown."""

    @property
    def type(self) -> str:
        """Type of the operands, and of the result unless the opcode implies another: ``f32``."""
        return self.modifiers[-1] if self.modifiers else ""

    @cached_property
    def reads(self) -> frozenset[str]:
        """The registers that it uses: all of its operands but the first, which a store uses too; and its predicate."""
        writes_none = self.opcode in ("st", "red", "bra", "bar", "stmatrix", "cp", "wgmma", "tensormap")
        # Numbers and labels are found as well: they are compared with names of registers only.
        used = self.operands if writes_none else self.operands[1:]
        return frozenset(re.findall(r"%?[\w$]+", " ".join((*used, self.predicate))))

    @cached_property
    def name(self) -> str:
        """Opcode with modifiers, as in the text: ``fma.rn.ftz.f32``."""
        return ".".join((self.opcode, *self.modifiers))


@dataclass(frozen=True, slots=True)
class Function:
    """One kernel."""

    name: str
    parameters: tuple[str, ...]
    threads: int
    """Threads of one block (Triton: one program)."""
    instructions: tuple[Instruction, ...]
    labels: Mapping[str, int]
    """Positions in ``instructions``."""
    registers: Mapping[str, int]
    """Bits by the letters of the name: ``{"%r": 32, "%p": 1, "tmp": 32}``."""
    shared: Mapping[str, int]
    """Byte offsets of variables in shared memory."""
    local: Mapping[str, int]
    """Byte offsets of variables in each thread's own memory."""
    local_bytes: int
    constants: Mapping[str, bytes]
    """Initialised variables in global or constant memory."""


def register_names(operand: str) -> list[str]:
    """``{%r1, %r2}`` as names."""
    return [name.strip() for name in operand.strip("{} ").split(",")]


def parse(text: str) -> Function:
    """The first kernel of a PTX module."""
    start = text.index(".entry")
    head, body = text[start : text.index("{", start)], text[text.index("{", start) + 1 :]
    # Braces do not mark the end: inline assembly and operands have some.
    body = without_calls(body.partition("// -- End function")[0], text)
    name, parameters = re.match(r"\.entry\s+([\w$]+)\((.*?)\)", head, re.DOTALL).groups()  # type: ignore[union-attr]
    threads = re.search(r"\.(?:reqntid|maxntid)\s+(\d+)", head)
    shared, _ = _variables(text, "shared")
    local, local_bytes = _variables(body, "local")
    labels: dict[str, int] = {}
    return Function(
        name,
        tuple(re.findall(r"[\w$]+_param_\d+", parameters)),
        int(threads.group(1)) if threads else 128,
        tuple(_instructions(body, labels)),
        labels,
        dict(_registers(body)),
        shared,
        local,
        local_bytes,
        dict(_constants(text)),
    )


def _registers(body: str) -> Iterator[tuple[str, int]]:
    """``.reg .b32 %r<23>`` declares 23 of them, ``.reg .b32 tmp`` one."""
    for kind, stem in re.findall(r"\.reg\s+\.(\w+)\s+([%\w]+?)(?:<\d+>)?\s*;", body):
        yield stem, 1 if kind == "pred" else int(re.sub(r"\D", "", kind))


_VARIABLE = r"\.{space}\s+(?:\.align\s+(\d+)\s+)?\.b(\d+)\s+([\w$]+)\[(\d*)\]"


def _variables(text: str, space: str) -> tuple[dict[str, int], int]:
    """Offsets of shared variables, one after another; dynamic shared memory begins at 0."""
    offsets, end = {}, 0
    for alignment, bits, name, length in re.findall(_VARIABLE.format(space=space), text):
        # "[]" is the memory whose size the launch gives (Triton's global_smem): it is all there is.
        if not length:
            offsets[name] = 0
            continue
        step = int(alignment or 1)
        offsets[name] = -(-end // step) * step
        end = offsets[name] + int(bits) // 8 * int(length)
    return offsets, end


def _constants(text: str) -> Iterator[tuple[str, bytes]]:
    pattern = r"\.(?:global|const)\s+(?:\.align\s+\d+\s+)?\.[bus](\d+)\s+([\w$]+)\[(\d+)\]\s*=\s*\{([^}]*)\}"
    for bits, name, length, values in re.findall(pattern, text):
        size = int(bits) // 8
        content = b"".join(int(value).to_bytes(size, "little", signed=int(value) < 0) for value in values.split(","))
        yield name, content.ljust(size * int(length), b"\0")


_TOKEN = re.compile(
    r"""\s*(?: \.loc\s(?P<location>[^\n]*) | (?P<label>[\w$]+):(?!:) | [{}] | \.[^;\n]*;?
         | (?P<statement>[@a-z][^;]*); )""",
    re.VERBOSE,
)
_INLINED = re.compile(r"inlined_at\s+(\d+)\s+(\d+)")
_STATEMENT = re.compile(r"(?:@(!?)(%?\w+)\s+)?([a-z][\w.:]*)\s*(.*)", re.DOTALL)
_OPERAND = re.compile(r"\{[^}]*\}|\[[^\]]*\]|\([^)]*\)|[^,\s][^,]*")


def _instructions(body: str, labels: dict[str, int]) -> Iterator[Instruction]:
    """The instructions in order; ``labels`` gets the position of each label."""
    line = count = position = 0
    text = re.sub(r"//[^\n]*", "", _BLOCK.sub(_of_one_line, body))
    while token := _TOKEN.match(text, position):
        position = token.end()
        # A directive is valid until the next one: instructions between share its line.
        if token["location"]:
            line = _line(token["location"], line)
        elif token["label"]:
            labels[token["label"]] = count
        elif token["statement"]:
            yield _instruction(token["statement"].strip(), line)
            count += 1
    # What the pattern leaves over must be nothing: an instruction that was skipped would be a wrong result.
    if text[position:].strip():
        raise UnsupportedInstruction(f"PTX that cannot be read: {text[position:].strip().splitlines()[0]}")


_BLOCK = re.compile(r"// begin inline asm\n(.*?)// end inline asm", re.DOTALL)
_PLACE = re.compile(r"\s*\.loc\s[^\n]*\n")


def _of_one_line(block: re.Match[str]) -> str:
    """Attribute inline PTX of Triton to one line; LLVM increments the line after each of its instructions."""
    first = _PLACE.search(block[1])
    return (first[0] if first else "") + _PLACE.sub("\n", block[1])


def lines(text: str) -> list[int]:
    """Line of the generated module that each line of the text (from 0) comes from; 0 if unknown."""
    found: list[int] = []
    line, in_block = 0, 0
    for row in text.split("\n"):
        if "// begin inline asm" in row:
            in_block = 1
        elif "// end inline asm" in row:
            in_block = 0
        elif directive := re.match(r"\s*\.loc\s([^\n]*)", row):
            #     in_block    0 outside    1 inside, no .loc yet    2 inside, after the first one
            line = line if in_block == 2 else _line(directive.group(1).partition("//")[0], line)
            in_block = 2 if in_block else 0  # as _of_one_line
        found.append(line)
    return found


def _line(location: str, before: int) -> int:
    """The line in the generated module (file 1): of the call, where a function was inlined."""
    # The last "inlined_at" is the outermost call, and that is in the kernel itself.
    file, line = (_INLINED.findall(location) or [location.split()[:2]])[-1]
    return int(line) if file == "1" else before


def _instruction(text: str, line: int) -> Instruction:
    match = _STATEMENT.fullmatch(text)
    if match is None:
        raise UnsupportedInstruction(f"PTX that cannot be read: {text}")
    negated, predicate, name, rest = match.groups()
    opcode, *modifiers = name.split(".")
    operands = tuple(operand.strip() for operand in _OPERAND.findall(rest))
    return Instruction(opcode, tuple(modifiers), operands, predicate or "", bool(negated), line)
