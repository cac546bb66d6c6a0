"""Python values and FX graphs as text that can be compared line by line.

    describe(result=(x, [x]))    {"result": "tuple of 2",
                                  "result[0]": "Tensor float32 (3,) strides (1,) [1.0, 1.0, 1.0]",
                                  "result[1]": "list of 1",
                                  "result[1][0]": "is result[0]"}

Identity is part of the description: the second occurrence of a value has the
path of the first one, and a tensor has the path of the tensor with its memory.

In torch: nothing. Read next: tests/peer/harness.py
"""

from __future__ import annotations

import enum
import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.fx.node import map_arg

from nbcompile.peer.observe import target_name

_SCALARS = (
    bool, int, float, complex, str, bytes, range, slice, types.NoneType, types.EllipsisType,
    torch.dtype, torch.device, torch.Size, torch.layout, torch.memory_format,
)  # fmt: skip
_ATOMS = (
    types.ModuleType, types.BuiltinFunctionType, types.CodeType, torch.Generator,
    torch._ops.OperatorBase,  # its parts are caches of dispatch: what ran before in the process
)  # fmt: skip


def describe(module: types.ModuleType | None = None, **values: object) -> dict[str, str]:
    """The text of each value, and of each value that it contains, by path. ``module`` has the user's own functions."""
    description = _Description(module)
    for name, value in values.items():
        description.add(name, value)
    return description.lines


@dataclass(slots=True)
class _Description:
    module: types.ModuleType | None
    lines: dict[str, str] = field(default_factory=dict)
    seen: dict[int, str] = field(default_factory=dict)
    storages: dict[int, str] = field(default_factory=dict)
    alive: list[object] = field(default_factory=list)

    def add(self, path: str, value: object) -> None:
        if type(value) in _SCALARS:
            self.lines[path] = repr(value) if not isinstance(value, str) else f"str {value!r}"
            return
        if isinstance(value, enum.Enum):
            self.lines[path] = str(value)
            return
        if id(value) in self.seen:
            self.lines[path] = f"is {self.seen[id(value)]}"
            return
        self.seen[id(value)] = path
        self.alive.append(value)
        if isinstance(value, torch.Tensor):
            self.lines[path] = self.tensor(path, value)
            if _is_wrapper(value):
                for step, part in vars(value).items():
                    if not step.startswith("_dynamo"):  # attributes that torch.compile sets on the module
                        self.add(f"{path}.{step}", part)
            if value.is_leaf and value.grad is not None:
                self.add(f"{path}.grad", value.grad)
            return
        self.lines[path] = self.headline(value)
        for step, part in self.parts(value):
            self.add(path + step, part)

    def tensor(self, path: str, value: torch.Tensor) -> str:
        if value.layout != torch.strided:
            return f"{value.layout} {self.tensor(path, value.to_dense())}"
        if value.is_quantized:
            return f"{value.dtype} {value.qscheme()} {self.tensor(path, value.dequantize())}"
        facts = [
            type(value).__name__, str(value.dtype).removeprefix("torch."), str(tuple(value.shape)),
            f"strides {value.stride()}", f"offset {value.storage_offset()}" if value.storage_offset() else "",
            "requires_grad" if value.requires_grad else "", "" if value.is_leaf else "has grad_fn",
            "inference" if value.is_inference() else "", "" if _is_wrapper(value) else str(value.detach().tolist()),
        ]  # fmt: skip
        if _is_wrapper(value):
            return " ".join(filter(None, facts))
        owner = self.storages.setdefault(value.untyped_storage().data_ptr(), path) if value.numel() else path
        return " ".join(filter(None, facts)) + (f" in the memory of {owner}" if owner != path else "")

    def headline(self, value: object) -> str:
        name = type(value).__qualname__
        if isinstance(value, (types.FunctionType, type)):
            return f"{name} {value.__qualname__}"
        if isinstance(value, _ATOMS):
            return f"{name} {getattr(value, '__name__', '')}"
        if isinstance(value, (set, frozenset)):
            return f"{name} {sorted(map(repr, value))}"
        if isinstance(value, (list, tuple, dict)):
            return f"{name} of {len(value)}"
        if isinstance(value, (np.ndarray, np.generic)):
            return f"{name} {value.dtype} {value.shape} {_shortened(value).tolist()}"
        return name

    def parts(self, value: object) -> list[tuple[str, object]]:
        """The path step and the value of each part of a value."""
        if isinstance(value, type) or isinstance(value, _ATOMS):
            return []
        if isinstance(value, types.FunctionType):
            return _closure(value) if self.is_users(value) else []
        if isinstance(value, types.MethodType):
            return [(".__self__", value.__self__)]
        if isinstance(value, torch.nn.Module):
            return _module_state(value)
        if isinstance(value, dict):
            return [(f"[{key!r}]", item) for key, item in value.items()] + _attributes(value)
        if isinstance(value, (list, tuple)):
            return [(f"[{index}]", item) for index, item in enumerate(value)] + _attributes(value)
        return _attributes(value)

    def is_users(self, function: types.FunctionType) -> bool:
        return self.module is not None and function.__globals__ is vars(self.module)


def _closure(function: types.FunctionType) -> list[tuple[str, object]]:
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return [(f".{name}", _content(cell)) for name, cell in cells]


def _content(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        return "(empty cell)"


def _attributes(value: object) -> list[tuple[str, object]]:
    names = dict.fromkeys(getattr(value, "__dict__", ()))
    for base in type(value).__mro__:
        slots = base.__dict__.get("__slots__", ())
        names.update(dict.fromkeys([slots] if isinstance(slots, str) else slots))
    return [(f".{name}", getattr(value, name)) for name in names if isinstance(name, str) and hasattr(value, name)]


def _module_state(module: torch.nn.Module) -> list[tuple[str, object]]:
    state = vars(module)
    held: dict[str, Any] = {**state["_parameters"], **state["_buffers"], **state["_modules"]}
    own = {name: value for name, value in state.items() if not name.startswith("_")}
    return [(f".{name}", value) for name, value in {**held, **own}.items()]


def operators(graph: torch.fx.Graph) -> tuple[str, ...]:
    """The operators of a graph, in order, without inputs and output."""
    left_out = ("placeholder", "output")
    return tuple(_operator(node) for node in graph.nodes if node.op not in left_out and not _reads_a_draw(node))


def _reads_a_draw(node: torch.fx.Node) -> bool:
    """True if the node reads the number in an input of a random draw: torch computes with the tensor itself."""
    return node.target == "item" and str(getattr(node.args[0], "target", "")).startswith("random_value")


def _operator(node: torch.fx.Node) -> str:
    name = getattr(node.target, "__name__", "")
    if name.startswith(("wrapped_", "numpy_attr_wrapper")):  # a function of NumPy: each compiler has its own wrapper
        return f"numpy.{name}"
    if name == "_lower_version_count_by_1":  # a helper for version counters: each compiler has another one
        return name
    return "get_attr" if node.op == "get_attr" else target_name(node)


def wiring(graph: torch.fx.Graph) -> tuple[str, ...]:
    """Each node with its arguments; nodes are numbered, so that names do not matter."""
    numbers = {node: f"%{index}" for index, node in enumerate(graph.nodes)}

    def text(argument: object) -> str:
        # Nodes are replaced by their numbers, printed without quotes.
        return repr(map_arg(argument, lambda node: _Reference(numbers[node])))

    lines = []
    for node in graph.nodes:
        if node.op == "placeholder":
            continue
        keywords = f", **{text(node.kwargs)}" if node.kwargs else ""
        lines.append(
            f"{numbers[node]} = {node.op if node.op == 'output' else _operator(node)}{text(node.args)}{keywords}"
        )
    return tuple(lines)


class _Reference(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _is_wrapper(value: torch.Tensor) -> bool:
    """True if a tensor has no data, but contains other tensors that its class dispatches to."""
    return type(value).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__


def inputs(module: torch.fx.GraphModule, examples: list[object]) -> tuple[str, ...]:
    """Each placeholder with its type; symbols are numbered in order of appearance."""
    symbols: dict[str, str] = {}

    def size(value: object) -> str:
        if isinstance(value, int):
            return str(value)
        return symbols.setdefault(str(value), f"size{len(symbols)}")

    lines = []
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    for node, given in zip(placeholders, examples, strict=True):
        example = node.meta.get("example_value", given)  # torch gives the backend real tensors, without symbols
        if isinstance(example, torch.Tensor):
            sizes = ", ".join(size(each) for each in example.shape)
            lines.append(f"{node.target}: {str(example.dtype).removeprefix('torch.')}[{sizes}]")
        else:
            lines.append(f"{node.target}: {type(example).__name__} {size(example)}")
    return tuple(lines)


def _shortened(value: Any) -> Any:
    """Floats with thirteen digits, because the last bits of NumPy and of torch can differ."""
    array = np.asarray(value)
    if array.dtype != np.float64 or not array.size:
        return value
    return np.vectorize(lambda number: float(f"{number:.13g}"), otypes=[float])(array)


def same(left: Mapping[str, str], right: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """The differences of two descriptions: path, left, right; "(nothing)" if one description has no such path."""
    paths = dict.fromkeys([*left, *right])
    pairs = [(path, left.get(path, "(nothing)"), right.get(path, "(nothing)")) for path in paths]
    return [(path, one, other) for path, one, other in pairs if one != other]
