"""The texts in a trace as parts of a record: graphs, guards, breaks, kernels, bytecode.

    graph("0/0", "captured", code)      Graph of nodes, from the Python that torch prints of an FX graph
    guards("0/0", text)                 Guards, from the printed guard tree
    graph_break("0/0.b0", text)         Break, from the message

The code in a trace is parsed and never run. Parts without the expected form are left out.

In torch: torch/fx/graph.py prints graphs, torch/_dynamo/guards.py prints guards. Read next:
nbcompile/observe/trace_reader.py
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from nbcompile.record.model import Break, FailedGuard, Graph, Guard, Instruction, Kernel, Node, StackLine

MOST_CODE = 4 << 20
"""Characters of a graph that is parsed; a longer one has its code and no nodes."""
DTYPES = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i64": "int64", "i32": "int32",
    "i16": "int16", "i8": "int8", "u8": "uint8", "b8": "bool", "c64": "complex64", "c128": "complex128",
}  # fmt: skip
#     "f32[64, s0][s0, 1]cuda:0"                      dtype, sizes, strides and device of a value
#     # File: a.py:3 in f, code: y = x + 1            above the nodes of this line of the program
ANNOTATION = re.compile(r"^(?P<dtype>[a-z]\w*)\[(?P<shape>[^\]]*)\](?:\[(?P<stride>[^\]]*)\])?(?P<device>\S*)$")
FILE_COMMENT = re.compile(r"#\s*File: (?P<file>.+?):(?P<line>\d+) in (?P<function>\S+?), code: (?P<code>.*)$")
OPERATORS = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.MatMult: "matmul", ast.Pow: "pow",
    ast.FloorDiv: "floordiv", ast.Mod: "mod", ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor",
    ast.USub: "neg", ast.Invert: "invert", ast.Not: "not_", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge",
    ast.Eq: "eq", ast.NotEq: "ne", ast.LShift: "lshift", ast.RShift: "rshift",
}  # fmt: skip


LONGEST_LINE = 4_000
"""Characters of a line that is searched: a longer one is cut, so that no search takes long."""


def _lines(text: str) -> list[str]:
    return [line[:LONGEST_LINE] for line in text.splitlines()]


# --- graphs ----------------------------------------------------------------------------------------------------------


UNNAMED = re.compile(r"^class <lambda>", re.MULTILINE)
"""The name that torch prints for a graph without one, which is no Python."""


def graph(frame: str, stage: str, code: str) -> Graph:
    """A graph from its printed form; without nodes if that cannot be parsed."""
    prefix = f"{frame}." if stage == "captured" else f"{frame}.{stage}."
    try:
        function = _forward(ast.parse(UNNAMED.sub("class GraphModule", code))) if len(code) <= MOST_CODE else None
        nodes = tuple(_GraphReader(prefix, code).read(function)) if function is not None else ()
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        nodes = ()
    return Graph(f"{frame}.{stage}", stage, nodes, code)


def _forward(tree: ast.Module) -> ast.FunctionDef | None:
    bodies = [tree.body, *(part.body for part in tree.body if isinstance(part, ast.ClassDef))]
    functions = [part for body in bodies for part in body if isinstance(part, ast.FunctionDef)]
    return next((function for function in functions if function.name == "forward"), None)


class _GraphReader:
    """Statements of a printed ``forward`` as nodes."""

    def __init__(self, prefix: str, code: str) -> None:
        self.prefix = prefix
        self.locations = _locations(code)
        self.ids: dict[str, str] = {}
        self.count = 0

    def read(self, function: ast.FunctionDef) -> Iterator[Node]:
        """The nodes, in order."""
        for argument in function.args.args[1:]:
            if argument.arg not in ("primals", "tangents"):
                yield self._node(argument.arg, "placeholder", argument.arg, "()", argument.annotation, None)
        for statement in function.body:
            yield from self._statement(statement)

    def _statement(self, statement: ast.stmt) -> Iterator[Node]:
        match statement:
            # A joint graph takes two lists, and declares the inputs in them only by annotations.
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=None):
                yield self._node(name, "placeholder", name, "()", annotation, None)
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=value):
                yield self._computed(name, annotation, value)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name(id=other)) if other in self.ids:
                self.ids[name] = self.ids[other]
            case ast.Assign(value=ast.Constant(value=None)):
                pass  # frees a value
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield self._computed(name, None, value)
            case ast.Return(value=value) if value is not None:
                yield self._node("output", "output", "output", f"({ast.unparse(value)},)", None, value)

    def _computed(self, name: str, annotation: ast.expr | None, value: ast.expr | None) -> Node:
        op, target, arguments = "call_function", "", "()"
        match value:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=base), attr=method)) if base in self.ids:
                op, target, arguments = "call_method", method, _arguments(value, ast.Name(base))
            case ast.Call(func=function):
                target, arguments = ast.unparse(function), _arguments(value)
                target = re.sub(r"^torch\.ops\.", "", target)
            case ast.BinOp(left=left, op=operation, right=right):
                target, arguments = _operator(operation), f"({ast.unparse(left)}, {ast.unparse(right)})"
            case ast.UnaryOp(op=operation, operand=operand):
                target, arguments = _operator(operation), f"({ast.unparse(operand)},)"
            case ast.Compare(left=left, ops=[operation], comparators=[right]):
                target, arguments = _operator(operation), f"({ast.unparse(left)}, {ast.unparse(right)})"
            case ast.Subscript(value=base, slice=index):
                target, arguments = "operator.getitem", f"({ast.unparse(base)}, {ast.unparse(index)})"
            case ast.Attribute(value=ast.Name(id=base), attr=attribute) if base in self.ids:
                target, arguments = "getattr", f"({base}, {attribute!r})"
            case ast.expr():
                op, target = "get_attr", ast.unparse(value).removeprefix("self.")
        return self._node(name, op, target, arguments, annotation, value)

    def _node(
        self, name: str, op: str, target: str, arguments: str, annotation: ast.expr | None, value: ast.expr | None
    ) -> Node:
        used = [part.id for part in ast.walk(value) if isinstance(part, ast.Name)] if value is not None else []
        # A name that is reused means the last node with it: the ids are those at this line.
        inputs = tuple(dict.fromkeys(self.ids[each] for each in used if each in self.ids))
        identity = f"{self.prefix}n{self.count}"
        self.count += 1
        self.ids[name] = identity
        text = annotation.value if isinstance(annotation, ast.Constant) else ""
        tensor = ANNOTATION.match(text) if isinstance(text, str) else None
        line = value.lineno if value is not None else 0
        return Node(
            identity, name, op, target, arguments, inputs,
            shape=_sizes(tensor["shape"]) if tensor else None,
            stride=_sizes(tensor["stride"]) if tensor and tensor["stride"] is not None else None,
            dtype=DTYPES.get(tensor["dtype"], tensor["dtype"]) if tensor else "",
            device=tensor["device"] if tensor else "",
            stack=self.locations.get(line, ()) if op != "output" else (),
        )  # fmt: skip


def _arguments(call: ast.Call, *first: ast.expr) -> str:
    parts = [*map(ast.unparse, (*first, *call.args)), *(f"{k.arg}={ast.unparse(k.value)}" for k in call.keywords)]
    return f"({', '.join(parts)})"


def _operator(operation: ast.operator | ast.unaryop | ast.cmpop) -> str:
    return f"operator.{OPERATORS.get(type(operation), type(operation).__name__.lower())}"


def _sizes(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip()) if text else ()


def _locations(code: str) -> dict[int, tuple[StackLine, ...]]:
    """The user's line of each line of a printed graph: the comment above it."""
    found: dict[int, tuple[StackLine, ...]] = {}
    current: tuple[StackLine, ...] = ()
    for number, line in enumerate(_lines(code), 1):
        if match := FILE_COMMENT.search(line):
            # Nine digits at most: a damaged trace may have thousands, and int() rejects so many.
            current = (StackLine(match["file"], int(match["line"][:9]), match["function"], match["code"].strip()),)
        elif line.strip().startswith("# No stacktrace"):
            current = ()
        found[number] = current
    return found


# --- guards ----------------------------------------------------------------------------------------------------------

#     +- GuardManager: source=L['x'], accessed_by=...             the source of the guards below it
#     | +- TENSOR_MATCH: check_tensor(L['x'], ...)  # y = x + 1  # a.py:3 in f
GUARD = re.compile(r"^[| ]*\+- (?P<kind>[A-Z_0-9]+): (?P<rest>.*)$")
MANAGER = re.compile(r"^[| ]*\+- \w*Manager: source=(?P<source>.*?)(?:, (?:accessed_by|type|tag_safe)=.*)?$")
LOCATION = re.compile(r"^(?P<file>.+):(?P<line>\d+) in (?P<function>.+)$")


def guards(frame: str, text: str) -> tuple[Guard, ...]:
    """The guards of a printed guard tree."""
    found: list[Guard] = []
    source = ""
    for line in _lines(text):
        if manager := MANAGER.match(line):
            source = manager["source"]
        elif guard := GUARD.match(line):
            condition, *comments = map(str.strip, guard["rest"].split(" # "))
            location = LOCATION.match(comments[-1].strip()) if comments else None
            code = comments[0].strip() if len(comments) > 1 else ""
            stack = (
                (StackLine(location["file"], int(location["line"][:9]), location["function"], code),)
                if location and code
                else ()
            )
            named = re.search(r"[LG]\['[^']*'\]", condition)
            own = source if named and source else (named[0] if named else "")
            found.append(Guard(f"{frame}.g{len(found)}", guard["kind"], own, condition, stack=stack))
    return tuple(found)


REASON = re.compile(r"^(?P<entry>!?\d+(?:/\d+)+): (?P<reason>.*)$")
VALUES = re.compile(r"expected (?P<expected>.+?), (?:but got|actual) (?P<actual>.+?)\.?$")


OLDER_TENSOR = re.compile(r"tensor 'L\['(\w+)'\]([^' ]*)'")
"""The name of a tensor in reasons before 2.7: the whole source in quotes."""


def failed_guards(text: str) -> tuple[FailedGuard, ...]:
    """The reasons of earlier entries: lines such as ``0/0: tensor 'x' size mismatch ...``, or a JSON list."""
    found = filter(None, (REASON.match(line.strip(' "[],-')) for line in _lines(text)))
    return tuple(_failed_guard(match["entry"], match["reason"]) for match in found)


def _failed_guard(entry: str, reason: str) -> FailedGuard:
    text = OLDER_TENSOR.sub(r"tensor '\1\2'", reason.partition("  # ")[0].strip())
    values = VALUES.search(text)
    source = re.search(r"[LG]\['[^']*'\](?:\.\w+|\[[^\]]*\])*", text)
    name = re.search(r"tensor '(\w+)'", text)
    return FailedGuard(
        entry, text,
        expected=values["expected"] if values else "", actual=values["actual"] if values else "",
        source=source[0] if source else (f"L['{name[1]}']" if name else ""),
    )  # fmt: skip


# --- breaks ----------------------------------------------------------------------------------------------------------

FRAME_LINE = re.compile(r'^\s*File "(?P<file>.*)", line (?P<line>\d+), in (?P<function>.*)$')


def stack(text: str) -> tuple[StackLine, ...]:
    """The lines of a traceback."""
    lines, found = _lines(text), []
    for number, line in enumerate(lines):
        if match := FRAME_LINE.match(line):
            following = lines[number + 1].strip() if number + 1 < len(lines) else ""
            code = "" if FRAME_LINE.match(following) else following
            found.append(StackLine(match["file"], int(match["line"][:9]), match["function"].strip(), code))
    return tuple(found)


OLDER_REASON = re.compile(r"^Reason: (?:Unsupported: )?(.*)$", re.MULTILINE)
"""The one line that torch printed before 2.7: no explanation, hints or context."""


def graph_break(identity: str, text: str) -> Break:
    """A break from torch's message."""
    # The rest is torch's own stack, in which lines of other messages may be quoted.
    own = text.partition("\nTraceback (most recent call last)")[0]
    lines = _lines(own)
    own = "\n".join(lines)
    explained = next((number for number, line in enumerate(lines) if line.startswith("  Explanation:")), None)
    reason = re.search(r"^Graph Break Reason: (?:Encountered graph break )?(.*)$", own, re.MULTILINE)
    older = OLDER_REASON.search(own)
    title = lines[explained - 1].strip() if explained else (older or reason or (lines or [""]) * 2)[1].strip("'")
    location = re.search(r"in user code at (.+):(\d+)", own)
    users = stack(own.partition("User code traceback:")[2])
    if not users and location:
        users = (StackLine(location[1], int(location[2][:9]), ""),)
    return Break(
        identity, "", title.removeprefix("Graph Break Reason: "),
        explanation=_paragraph(own, "Explanation"), hints=tuple(re.findall(r"^  Hint: (.*)$", own, re.MULTILINE)),
        context=_paragraph(own, "Developer debug context"), stack=users, reason=reason[1].rstrip(":") if reason else "",
        gb_id=next(iter(re.findall(r"gb(\d{4})\.html", own)), "") and f"GB{re.findall(r'gb(.{4}).html', own)[0]}",
    )  # fmt: skip


def _paragraph(text: str, name: str) -> str:
    found = re.search(rf"^  {name}: (.*(?:\n    .*)*)", text, re.MULTILINE)
    return re.sub(r"\n\s+", " ", found[1]).strip() if found else ""


# --- code ------------------------------------------------------------------------------------------------------------

KERNEL = re.compile(r"^(?P<name>\w{1,500}) = async_compile\.(?P<engine>\w{1,50})\(", re.MULTILINE)
QUOTES = "'''"
LONGEST_HEAD = 4_000
"""Characters between the name of a kernel and its text."""
LANGUAGES = {"triton": "triton", "cpp_pybinding": "cpp", "cpp": "cpp"}


OPERATOR_CALL = re.compile(
    r"^ {1,50}(?:\w{1,100} = )?(?P<name>(?:extern_kernels|torch\.ops|aten)\.[\w.]{1,200})\(", re.MULTILINE
)
"""A line of the wrapper that calls an operator, instead of a generated kernel."""


def kernels(prefix: str, code: str) -> tuple[Kernel, ...]:
    """The kernels in Inductor's output code, and the operators that its wrapper calls."""
    generated = [
        Kernel(prefix + name, name, LANGUAGES.get(engine, engine), code[begin:end].strip("\n"))
        for name, engine, begin, end in _kernel_texts(code)
    ]
    called = [match["name"] for match in OPERATOR_CALL.finditer(wrapper(code))]
    return (*generated, *(Kernel(f"{prefix}call{at}", name, "aten", "") for at, name in enumerate(called)))


def wrapper(code: str) -> str:
    """The same code without the texts of the kernels."""
    parts, at = [], 0
    for name, _, begin, end in _kernel_texts(code):
        parts.append(f"{code[at:begin]} see the kernel {name} ")
        at = end
    return "".join([*parts, code[at:]])


def _kernel_texts(code: str) -> Iterator[tuple[str, str, int, int]]:
    """Name, engine, begin and end of the text of each kernel."""
    at = 0
    while match := KERNEL.search(code, at):
        at = match.end()
        begin = code.find(QUOTES, at, at + LONGEST_HEAD) + len(QUOTES)
        end = code.find(QUOTES, begin) if begin >= len(QUOTES) else -1
        if end >= 0:
            yield match["name"], match["engine"], begin, end
            at = end + len(QUOTES)


INSTRUCTION = re.compile(r"^\s*(?:(?P<line>\d+)\s+)?(?:>>\s*)?(?P<offset>\d+) (?P<opcode>[A-Z_]+)\s*(?P<rest>.*)$")


def instructions(text: str) -> tuple[Instruction, ...]:
    """Bytecode from the form of the module ``dis``."""
    found, line = [], 0
    for match in filter(None, map(INSTRUCTION.match, _lines(text))):
        line = int(match["line"][:9]) if match["line"] else line
        inner = re.search(r"\((.*)\)\s*$", match["rest"])
        argument = inner[1] if inner else match["rest"].strip()
        found.append(Instruction(int(match["offset"][:9]), match["opcode"], argument, line))
    return tuple(found)
