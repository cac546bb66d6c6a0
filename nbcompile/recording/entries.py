"""Compiler values as record entries: fx graphs to ``Graph`` and ``Node``, this machine to ``Environment``.

    linear = torch._C._nn.linear(l_x_, l_w_)       an fx node
    Node("0/0.n2", "linear", "call_function", "torch.nn.functional.linear", "(l_x_, l_w_)", ...)

What a reader sees is spelled as a person would write it, and is the same for
two compiles of one program: no addresses, no counters of the process.

In torch: torch/fx/graph_module.py (print_readable), torch/_logging/. Read
next: nbcompile/record/model.py
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import inspect
import itertools
import linecache
import os
import platform
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from nbcompile.bytecode.disassemble import disassemble
from nbcompile.bytecode.instruction import Instruction, argument_text
from nbcompile.capture.node_meta import ORIGIN, STACK
from nbcompile.ir.buffer import Extern, ExternOutput, GraphInput, Pointwise, Program, Reduction, Scan, Scatter, Tensor
from nbcompile.ir.emitted import EmittedProgram
from nbcompile.ir.kernel import Allocate, Free, Reuse, Schedule
from nbcompile.ir.printer import print_body, print_index
from nbcompile.record import model

if TYPE_CHECKING:
    from nbcompile.tracing.graph.output_graph import FailedNode
    from nbcompile.tracing.tracer import FailedAttempt

# Where people find a function, in the order in which they would look.
HOMES: tuple[tuple[str, ModuleType], ...] = (
    ("torch", torch),
    ("torch.nn.functional", torch.nn.functional),
    ("torch.linalg", torch.linalg),
    ("torch.fft", torch.fft),
    ("torch.special", torch.special),
)


def graph(
    module: torch.fx.GraphModule,
    compile_id: str,
    stage: str = "captured",
    sources: Mapping[str, str] | None = None,
    captured: torch.fx.Graph | None = None,
    part: str = "",
) -> model.Graph:
    """Record entry of one fx graph.

    Args:
        module: the graph; its nodes carry what tracing knew (``val`` or ``example_value``, stacks).
        compile_id: ``"0/0"``.
        stage: ``captured``, ``inference``, ``joint``, ``forward`` or ``backward``.
        sources: for placeholders of the captured graph, by name: the expression that each is read from.
        captured: the graph that this one was made from.
        part: of the captured graph, where it is split.
    """
    # Ids by position: names of nodes repeat in the graphs of later stages, positions with the stage do not.
    ids = node_ids(module.graph, compile_id, f"{part}.{stage}" if part else stage)
    origins = node_ids(captured, compile_id) if captured is not None else {}
    nodes = tuple(_node(each, ids, origins, sources or {}) for each in module.graph.nodes)
    name = f"{compile_id}.{part}.{stage}" if part else f"{compile_id}.{stage}"
    return model.Graph(name, stage, nodes, code(module), part)


def node_ids(fx_graph: torch.fx.Graph, compile_id: str, stage: str = "captured") -> dict[str, str]:
    """The id of every node, by name: ``0/0.n3`` in the captured graph, ``0/0.forward.n3`` in later ones."""
    prefix = f"{compile_id}.n" if stage in ("captured", "unfinished") else f"{compile_id}.{stage}.n"
    return {node.name: f"{prefix}{position}" for position, node in enumerate(fx_graph.nodes)}


def code(module: torch.fx.GraphModule) -> str:
    """The graph as Python, with shapes and the user's lines between."""
    # torch names the class after the module; a record of the same program should be the same text each time.
    text: str = module.print_readable(print_output=False)
    return re.sub(r"^class \S+\(torch\.nn\.Module\):", "class GraphModule(torch.nn.Module):", text.strip()) + "\n"


def _node(
    node: torch.fx.Node, ids: Mapping[str, str], origins: Mapping[str, str], sources: Mapping[str, str]
) -> model.Node:
    tensor = tensor_of(node)
    return model.Node(
        id=ids[node.name],
        name=node.name,
        op=node.op,
        target=target_name(node.target),
        arguments=arguments(node),
        inputs=tuple(ids[each.name] for each in node.all_input_nodes),
        shape=None if tensor is None else tuple(str(size) for size in tensor.shape),
        stride=None if tensor is None or tensor.layout != torch.strided else tuple(str(s) for s in tensor.stride()),
        dtype="" if tensor is None else dtype_name(tensor.dtype),
        device="" if tensor is None else str(tensor.device),
        source=sources.get(node.name, ""),
        stack=stack(node),
        from_nodes=tuple(origins[name] for name in node.meta.get(ORIGIN, ()) if name in origins),
        modules=tuple(path for path, _ in node.meta.get("nn_module_stack", {}).values()),
    )


# --- what went wrong -------------------------------------------------------------------------------------------------


def unfinished(left: FailedAttempt, compile_id: str) -> tuple[model.Graph, str]:
    """Partial graph of a frame that failed, and the id of the operator that fails (its last node), or ""."""
    assert left.graph is not None
    drawn = torch.fx.Graph()
    known: dict[torch.fx.Node, torch.fx.Node] = {}
    drawn.graph_copy(left.graph, known)
    # The operator that fails never became a node. It is added, so that the picture of the graph ends with it.
    failed, node = left.failed, None
    if failed is not None and all(each in known for each in _nodes_in((failed.arguments, failed.keywords))):
        given = torch.fx.map_arg((failed.arguments, failed.keywords), known.__getitem__)
        node = drawn.create_node(failed.op, failed.target, *given)
        node.meta[STACK] = failed.stack
    # Inputs that nothing uses: for a finished graph tracing removes them, here it never came so far.
    for placeholder in drawn.find_nodes(op="placeholder"):
        if not placeholder.users:
            drawn.erase_node(placeholder)
    module = torch.fx.GraphModule(left.modules, drawn)
    entry = graph(module, compile_id, "unfinished", left.sources)
    return entry, "" if node is None else node_ids(drawn, compile_id)[node.name]


def failed(left: FailedNode, sources: Mapping[str, str]) -> model.FailedCall:
    """Record entry of an operator that fails on its inputs."""
    positional = [_argument("", each, left.names, sources) for each in _flat(left.arguments)]
    keywords = [
        _argument(name, leaf, left.names, sources) for name, value in left.keywords.items() for leaf in _flat(value)
    ]
    message = str(left.error) if not isinstance(left.error, KeyError) else repr(left.error.args[0])
    return model.FailedCall(
        target_name(left.target), (*positional, *keywords), type(left.error).__name__, message, left.stack
    )


def _flat(value: Any) -> list[Any]:
    return [one for each in value for one in _flat(each)] if isinstance(value, (tuple, list)) else [value]


def _nodes_in(value: Any) -> list[torch.fx.Node]:
    found: list[torch.fx.Node] = []
    torch.fx.map_arg(value, found.append)
    return found


def _argument(name: str, value: Any, names: Mapping[torch.fx.Node, str], sources: Mapping[str, str]) -> model.Argument:
    if not isinstance(value, torch.fx.Node):
        return model.Argument(name, value=_spell(value))
    name = names.get(value) or sources.get(value.name) or value.name
    tensor = tensor_of(value)
    if tensor is None:
        return model.Argument(name, value=str(value.meta.get("example_value", value.name)))
    sizes = tuple(str(_known(size)) for size in tensor.shape)
    return model.Argument(name, sizes, dtype_name(tensor.dtype), str(tensor.device))


def _known(size: Any) -> object:
    """A symbolic size as the number that it is in this call."""
    node = getattr(size, "node", None)
    return size if node is None or not node.has_hint() else node.hint


def raised(error: BaseException) -> model.Raised:
    """An exception that reached the user: its own lines of the traceback, with the columns that CPython knows."""
    lines = [line for each in _walk(error.__traceback__) if (line := _line_of(each)) is not None]
    message = repr(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return model.Raised(type(error).__name__, message, tuple(lines), getattr(error, "_nbcompile_kernel", ""))


def _walk(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


_NOT_THE_USERS = tuple(str(folder) + os.sep for folder in (Path(torch.__file__).parent, Path(__file__).parents[1]))


def _line_of(trace: TracebackType) -> model.StackLine | None:
    code, line = trace.tb_frame.f_code, trace.tb_lineno
    if code.co_filename.startswith(_NOT_THE_USERS) or code.co_filename.startswith("<frozen"):
        return None
    # ``tb_lasti`` is an offset in bytes; ``co_positions`` has an item for each code unit of two bytes.
    positions = next(itertools.islice(code.co_positions(), trace.tb_lasti // 2, None), (None, None, None, None))
    text = linecache.getline(code.co_filename, line).rstrip()
    indent = len(text) - len(text.lstrip())
    first, last, column, end = positions
    # An expression over several lines has no columns in one line.
    if first != line or last != line or column is None or end is None or not column < end:
        return model.StackLine(code.co_filename, line, code.co_name, text.strip())
    # CPython counts columns in bytes of UTF-8.
    raw = text.encode()
    begin, stop = (len(raw[:each].decode(errors="replace")) - indent for each in (column, end))
    return model.StackLine(code.co_filename, line, code.co_name, text.strip(), max(begin, 0), max(stop, 0))


# --- bytecode --------------------------------------------------------------------------------------------------------


def instructions(bytecode: CodeType, kept: Mapping[str, object] | None = None) -> tuple[model.Instruction, ...]:
    """Record entries of bytecode; objects that a residual program has as constants are shown by name."""
    names = {id(value): name for name, value in (kept or {}).items()}

    def argument(instruction: Instruction) -> str:
        if "CONST" not in instruction.opcode:
            return argument_text(instruction)
        return names.get(id(instruction.argval)) or _constant(instruction.argval)

    return tuple(
        model.Instruction(instruction.offset, instruction.opcode, argument(instruction), instruction.line or 0)
        for instruction in disassemble(bytecode)
    )


def kept(objects: Mapping[str, object]) -> tuple[model.Kept, ...]:
    """Objects that a residual program refers to by name, other than graphs and resume functions."""
    ours = ("__compiled_fn_", "__torch_dynamo_resume_")
    return tuple(model.Kept(name, *_import_of(value)) for name, value in objects.items() if not name.startswith(ours))


def _import_of(value: object) -> tuple[str, str]:
    """The module and the name in it that give an object; ("", "") if none does. Nothing of the object is run."""
    if isinstance(value, ModuleType):
        return (value.__name__, "") if sys.modules.get(value.__name__) is value else ("", "")
    if not isinstance(value, (FunctionType, BuiltinFunctionType, type)):
        return "", ""
    # `getattr_static`: a module or a class of the user's may answer attribute accesses with code of its own.
    found: object = sys.modules.get(value.__module__ or "")
    for part in value.__qualname__.split("."):
        found = inspect.getattr_static(found, part, None)
    return (value.__module__, value.__qualname__) if found is value else ("", "")


def _constant(value: object) -> str:
    """A constant of bytecode; of any other object only the type, as a ``repr`` may be anything."""
    match value:
        case CodeType():
            return f"<code {value.co_name}>"
        case tuple():
            return f"({', '.join(map(_constant, value))}{',' if len(value) == 1 else ''})"
        case frozenset():
            return f"frozenset({{{', '.join(sorted(map(_constant, value)))}}})"
        # The type itself: the ``repr`` of a subclass may be the user's code.
        case _ if type(value) in _LITERALS:
            return repr(value)
        case _:
            return f"<{type(value).__name__}>"


_LITERALS = (int, float, complex, str, bytes, bool, type(None), type(...))


# --- generated code --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Labels:
    """Prefixes of ids and names of one ATen graph within the record of its frame."""

    prefix: str
    """Prefix of ids: ``0/0.forward.``"""
    group: str
    """Prefix of names: ``forward.`` or ``backward.`` if a frame has both, else empty."""
    nodes: Mapping[str, str]
    """Ids of the graph's nodes, by name."""

    def of_nodes(self, names: Iterable[str]) -> tuple[str, ...]:
        """Ids for names of nodes."""
        return tuple(self.nodes[name] for name in names if name in self.nodes)


def labels(fx_graph: torch.fx.Graph, compile_id: str, stage: str) -> Labels:
    """The labels for one ATen graph."""
    group = "" if stage == "inference" else f"{stage}."
    return Labels(f"{compile_id}.{stage}.", group, node_ids(fx_graph, compile_id, stage))


def buffers(program: Program, names: Labels) -> tuple[model.Buffer, ...]:
    """Record entries of a program's buffers, without its inputs."""
    externs = {each.name: each for each in program.buffers if isinstance(each, Extern)}
    shown = [each for each in program.buffers if isinstance(each, (Pointwise, Reduction, Scan, Scatter, ExternOutput))]
    return tuple(_buffer(each, externs, names) for each in shown)


def _buffer(
    buffer: Pointwise | Reduction | Scan | Scatter | ExternOutput, externs: Mapping[str, Extern], names: Labels
) -> model.Buffer:
    body = print_body(buffer)
    if isinstance(buffer, ExternOutput):
        body = body.replace(buffer.extern, print_body(externs[buffer.extern]), 1)
    return model.Buffer(
        id=names.prefix + buffer.name,
        name=names.group + buffer.name,
        kind="extern" if isinstance(buffer, ExternOutput) else type(buffer).__name__.lower(),
        shape=tuple(print_index(each) for each in buffer.layout.size),
        dtype=dtype_name(buffer.dtype),
        body=body,
        from_nodes=names.of_nodes(buffer.from_nodes),
    )


def fusions(decisions: Iterable[model.FusionDecision], names: Labels) -> tuple[model.FusionDecision, ...]:
    """Record entries of the fusion log."""
    group = names.group
    return tuple(dataclasses.replace(each, first=group + each.first, second=group + each.second) for each in decisions)


def kernels(emitted: EmittedProgram, names: Labels) -> tuple[model.Kernel, ...]:
    """Record entries of the generated kernels and of the extern calls, with ids that are unique in the frame."""
    generated = [
        model.Kernel(
            names.prefix + kernel.name,
            # One that was written for a node is known by its function, as in a profiler of a GPU.
            names.group + (kernel.function if kernel.parameters else kernel.name),
            kernel.language,
            kernel.source,
            tuple(names.prefix + buffer for buffer in kernel.buffers),
            names.of_nodes(kernel.from_nodes),
            tuple(dataclasses.replace(line, nodes=names.of_nodes(line.nodes)) for line in kernel.lines),
        )
        for kernel in emitted.kernels
    ]
    # An extern call has no text of its own: it is known by its operator, and by the reason why ATen runs it.
    called = [
        model.Kernel(
            names.prefix + extern.name,
            str(extern.target),
            "aten",
            "",
            (names.prefix + extern.name,),
            names.of_nodes(extern.from_nodes),
            (),
            extern.reason,
        )
        for extern in emitted.externs
    ]
    return (*generated, *called)


def lifetimes(planned: Schedule, names: Labels) -> tuple[model.Lifetime, ...]:
    """Record entries of the memory plan: each buffer that is freed, is allocated or reuses memory, in order."""
    tensors, launch = planned.program.tensors(), 0
    last: dict[str, int] = {}
    saved = [name for name, tensor in tensors.items() if isinstance(tensor, GraphInput) and tensor.donated]
    begun: list[tuple[str, int, str]] = [(name, 1, "") for name in saved]
    for step in planned.steps:
        match step:
            case Allocate(name):
                begun.append((name, launch + 1, ""))
            # The memory of the other buffer is used on: its life ends at the last launch before, and
            # not before it began.
            case Reuse(name, given):
                begun.append((name, launch + 1, given))
                last[given] = max(launch, next((at for each, at, _ in begun if each == given), 0))
            case Free(name):
                last[name] = launch
            case _:
                launch += 1
    return tuple(
        model.Lifetime(
            names.group + name,
            _bytes(tensors[name]),
            first,
            last.get(name, 0),
            given and names.group + given,
            name in saved,
        )
        for name, first, given in begun
    )


def _bytes(tensor: Tensor) -> str:
    return print_index(tensor.layout.span * tensor.dtype.itemsize)


def wrapper(text: str, names: Labels) -> str:
    """The program that allocates and launches; a frame with two graphs has two, one below the other."""
    return f"# {names.group.rstrip('.')}\n{text}\n" if names.group else text


# --- spelling --------------------------------------------------------------------------------------------------------


def tensor_of(node: torch.fx.Node) -> torch.Tensor | None:
    """The (fake) tensor that a node computes; None for numbers and tuples."""
    for key in ("val", "example_value"):
        value = node.meta.get(key)
        if isinstance(value, torch.Tensor):
            return value
    return None


def dtype_name(dtype: torch.dtype) -> str:
    """``float32``."""
    return str(dtype).removeprefix("torch.")


def target_name(target: object) -> str:
    """Target of a node, as in source code: ``torch.sin``, ``aten.add.Tensor``, ``operator.add``."""
    if isinstance(target, str):
        return target
    if isinstance(target, torch._ops.OperatorBase):
        return str(target)  # ``aten.add.Tensor``
    known = _public_names().get(id(target))
    if known is not None:
        return known
    name = getattr(target, "__name__", "")
    owner = getattr(target, "__module__", None) or ""
    if owner in {"_operator", "math", "builtins"}:
        return f"{owner.lstrip('_')}.{name}".removeprefix("builtins.")
    qualified = getattr(target, "__qualname__", "") or name or type(target).__name__
    return f"{owner}.{qualified}" if owner else str(qualified)


@functools.cache
def _public_names() -> dict[int, str]:
    """Functions of torch by their id (they live as long as torch does), under the name that people use."""
    names: dict[int, str] = {}
    for home, module in HOMES:
        for name, value in vars(module).items():
            if callable(value) and not name.startswith("_") and not isinstance(value, type):
                names.setdefault(id(value), f"{home}.{name}")  # the first home wins
    return names


def arguments(node: torch.fx.Node) -> str:
    """Positional and keyword arguments: ``(l_x_, 2, dim=1)``."""
    positional = [_spell(each) for each in node.args]
    keywords = [f"{name}={_spell(each)}" for name, each in node.kwargs.items()]
    return f"({', '.join(positional + keywords)})"


def _spell(value: Any) -> str:
    match value:
        case torch.fx.Node():
            return value.name
        case list():
            return f"[{_spell_all(value)}]"
        case tuple():
            return f"({_spell_all(value)}{',' if len(value) == 1 else ''})"
        case dict():
            return "{" + ", ".join(f"{_spell(key)}: {_spell(each)}" for key, each in value.items()) + "}"
        case slice():
            return f"slice({_spell(value.start)}, {_spell(value.stop)}, {_spell(value.step)})"
        case torch.nn.Parameter() | torch.Tensor():
            return f"<tensor {tuple(value.shape)}>"
        case type() | torch._ops.OperatorBase():
            return target_name(value)
        case _ if callable(value):
            return target_name(value)
        case _:
            # No addresses: a record of the same program must be the same text.
            return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def _spell_all(values: Iterable[Any]) -> str:
    return ", ".join(_spell(each) for each in values)


def stack(node: torch.fx.Node) -> tuple[model.StackLine, ...]:
    """The user's lines that led to a node, outermost first."""
    lines: tuple[model.StackLine, ...] | None = node.meta.get(STACK)
    return lines if lines is not None else parse_stack(node.meta.get("stack_trace") or "")


_STACK_LINE = re.compile(r'^\s*File "(?P<file>.*)", line (?P<line>\d+), in (?P<function>.*)$')


def parse_stack(text: str) -> tuple[model.StackLine, ...]:
    """A traceback's text as data (what torch keeps in ``node.meta["stack_trace"]``)."""
    lines = text.splitlines()
    found = []
    for position, line in enumerate(lines):
        match = _STACK_LINE.match(line)
        if match is None:
            continue
        following = lines[position + 1].strip() if position + 1 < len(lines) else ""
        # A file without source has no line below the ``File`` line.
        source = "" if _STACK_LINE.match(following) else following
        found.append(model.StackLine(match["file"], int(match["line"]), match["function"].strip(), source))
    return tuple(found)


@functools.cache
def environment(compiler: str = "", device: str = "cpu") -> model.Environment:
    """This process: versions, and the C++ compiler's name where one is known."""
    return model.Environment(
        python=platform.python_version(),
        torch=str(torch.__version__),
        nbcompile=_version(),
        device=device,
        compiler=compiler,
    )


def _version() -> str:
    try:
        return importlib.metadata.version("nbcompile")
    except importlib.metadata.PackageNotFoundError:  # run from a source tree that was never installed
        return ""
