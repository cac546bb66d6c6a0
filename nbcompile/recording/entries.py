"""Compiler values as record entries: fx graphs to ``Graph`` and ``Node``, this machine to ``Environment``.

    linear = torch._C._nn.linear(l_x_, l_w_)       an fx node
    Node("0/0.n2", "linear", "call_function", "torch.nn.functional.linear", "(l_x_, l_w_)", ...)

Texts are written as a person would write them, and are the same for two compiles of one program: no addresses, no
counters of the process.

In torch: torch/fx/graph_module.py (print_readable), torch/_logging/. Read
next: nbcompile/record/model.py
"""

from __future__ import annotations

import functools
import importlib.metadata
import inspect
import itertools
import linecache
import os
import platform
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from nbcompile.bytecode.disassemble import disassemble
from nbcompile.bytecode.instruction import Instruction, argument_text
from nbcompile.capture.node_meta import ORIGIN, STACK
from nbcompile.record import model
from nbcompile.recording.spelling import arguments, dtype_name, spelled, target_name, tensor_of

if TYPE_CHECKING:
    from nbcompile.tracing.graph.output_graph import FailedNode
    from nbcompile.tracing.tracer import FailedAttempt


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
        module: the graph; its nodes have the metadata of tracing (``val`` or ``example_value``, stacks).
        compile_id: ``"0/0"``.
        stage: ``captured``, ``inference``, ``joint``, ``forward`` or ``backward``.
        sources: for placeholders of the captured graph, by name: the expression that each is read from.
        captured: the graph that this one was derived from.
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


# --- failures ------------------------------------------------------------------------------------------------------


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
    # Remove unused inputs: for a finished graph tracing has done so, here it ended before that.
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
        return model.Argument(name, value=spelled(value))
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
    """An exception that reached the user: the user's lines of the traceback, with their columns if CPython has them."""
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
    """Record entries of bytecode; objects that are constants of a residual program are shown by name."""
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
    """The module and the name in it that give an object; ("", "") if none does. None of the object's code runs."""
    if isinstance(value, ModuleType):
        return (value.__name__, "") if sys.modules.get(value.__name__) is value else ("", "")
    if not isinstance(value, (FunctionType, BuiltinFunctionType, type)):
        return "", ""
    # `getattr_static`: a module or a class of the user may run its own code at an attribute access.
    found: object = sys.modules.get(value.__module__ or "")
    for part in value.__qualname__.split("."):
        found = inspect.getattr_static(found, part, None)
    return (value.__module__, value.__qualname__) if found is value else ("", "")


def _constant(value: object) -> str:
    """A constant of bytecode; of any other object only the type, as its ``repr`` is arbitrary code."""
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


def stack(node: torch.fx.Node) -> tuple[model.StackLine, ...]:
    """The user's lines that led to a node, outermost first."""
    lines: tuple[model.StackLine, ...] | None = node.meta.get(STACK)
    return lines if lines is not None else parse_stack(node.meta.get("stack_trace") or "")


_STACK_LINE = re.compile(r'^\s*File "(?P<file>.*)", line (?P<line>\d+), in (?P<function>.*)$')


def parse_stack(text: str) -> tuple[model.StackLine, ...]:
    """A traceback's text as data (the format of torch's ``node.meta["stack_trace"]``)."""
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
    """Environment of this process: versions, and the C++ compiler's name where one is known."""
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
