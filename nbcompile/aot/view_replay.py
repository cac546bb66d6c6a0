"""View replay: the operators that recreate the views of inputs which a graph returns, from the user's own tensors.

    def f(x):                   InputViews(calls=[aten.t(slot 0) -> slot 1,
        return x.t()[0]                           aten.select(slot 1, 0, 0) -> slot 2], outputs=[slot 2])

A program returns a tensor over the same memory, which autograd does not track: a result needs the input as its base, a
history, and a version counter that both share. Calls of the view operators themselves provide these, outside of the
program (and of its autograd.Function), in the mode of the caller, as in eager mode.

In torch: torch/_functorch/_aot_autograd/functional_utils.py (gen_alias_from_base). Read next:
nbcompile/backends/input_views.py
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.fx
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from nbcompile import torch_internals
from nbcompile.aot.graph_calls import name_of_target
from nbcompile.aot.input_metadata import changes_metadata
from nbcompile.aot.runtime_metadata import AliasedOutput
from nbcompile.ir.emitted import AtSlot

MODES = ("grad", "inference_mode", "autocast")
"""Parts of the names of functions that change what a view is for autograd."""
SET_GRAD_MODE = torch._C._set_grad_enabled
"""The one of them that is recorded."""
GET_DATA = torch._C._autograd._get_data_attr  # type: ignore[attr-defined]
"""Function of ``x.data``: a detached tensor with its own version counter, which no ATen operator makes."""


@dataclass(frozen=True, slots=True)
class ViewCall:
    """A view operator, and the slots of those of its results that are used, with their positions among its results."""

    target: Any
    """An ATen operator, or GET_DATA."""
    arguments: tuple[Any, ...]
    """Tensors are :class:`AtSlot`, sizes may be ``torch.SymInt``."""
    keywords: dict[str, Any]
    results: tuple[tuple[tuple[int, ...], int], ...]
    grad_enabled: bool
    """The grad mode in which the graph creates the views."""


@dataclass(frozen=True, slots=True)
class InputViews:
    """The views that a graph returns; the first slots are its inputs."""

    inputs: Sequence[Any]
    """Examples (fake tensors, numbers)."""
    calls: Sequence[ViewCall]
    outputs: Sequence[int]
    """The slot of each output that aliases an input, in their order."""
    grad_enabled: bool
    """The grad mode in which the graph is called."""


def only_makes_views(module: torch.fx.GraphModule) -> bool:
    """Return whether each result of a captured graph is in the memory of an input, and each node is used by a result.

    A node that no result uses may be a write, an assertion, or another effect: such a graph has to run.
    """
    results: Any = module.graph.output_node().args[0]
    inputs = {_memory(node) for node in module.graph.find_nodes(op="placeholder")} - {None}
    needed = _needed(module, results)
    return all(isinstance(node, torch.fx.Node) and _memory(node) in inputs for node in results) and all(
        node in needed or node.op in ("placeholder", "output", "get_attr") for node in module.graph.nodes
    )


def _memory(node: torch.fx.Node) -> int | None:
    value = node.meta.get("example_value")
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return None
    return value.untyped_storage()._cdata


def input_views(
    module: torch.fx.GraphModule, example_inputs: Sequence[Any], aliases: Sequence[AliasedOutput]
) -> InputViews | None:
    """The view operators of the outputs that alias an input; None where one is computed in another way."""
    results: Any = module.graph.output_node().args[0]
    requested = [results[alias.output] for alias in aliases]
    needed = _needed(module, requested)
    calls = [node for node in module.graph.nodes if node.op in ("call_function", "call_method")]
    if any(map(_changes_modes, calls)) or any(map(changes_metadata, calls)) or not all(map(_is_ordinary, needed)):
        return None
    was_enabled = torch._C.is_grad_enabled()
    mode = torch_internals.guards_context().detect_fake_mode(example_inputs)
    mode = mode if mode is not None else torch_internals.fake_tensor().FakeTensorMode()
    inputs = [_example(each, mode) for each in example_inputs]
    try:
        with mode:
            return _recorded(_Part(module, needed, requested), inputs, aliases)
    except RuntimeError:  # AOTAutograd's wrapper needs no replay: it raises where eager mode would
        return None
    finally:
        SET_GRAD_MODE(was_enabled)
        torch_internals.drop_new_symbols(mode.shape_env)


def _recorded(part: _Part, inputs: Sequence[Any], aliases: Sequence[AliasedOutput]) -> InputViews | None:
    recorder, was_enabled = _Recorder(inputs), torch._C.is_grad_enabled()
    with recorder:
        values = part.run_for(inputs, recorder)
    slots = [alias.input if alias.is_input else recorder.slots.get(id(values[at])) for at, alias in enumerate(aliases)]
    known = [slot for slot in slots if slot is not None]
    if len(known) != len(slots):
        return None
    views = InputViews(inputs, recorder.used(known), known, was_enabled)
    replayed = _replayed(views)
    agree = all(alias.is_input or _is_alike(values[at], replayed[at]) for at, alias in enumerate(aliases))
    return views if agree else None


def _needed(module: torch.fx.GraphModule, nodes: Sequence[Any]) -> set[torch.fx.Node]:
    """Nodes on which some results depend."""
    # A grad mode that the graph sets changes the results of the operators after it.
    found = {node for node in module.graph.nodes if node.target is SET_GRAD_MODE}
    waiting = [node for node in nodes if isinstance(node, torch.fx.Node)]
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += node.all_input_nodes
    return found


def _changes_modes(node: torch.fx.Node) -> bool:
    return node.target is not SET_GRAD_MODE and any(part in name_of_target(node) for part in MODES)


def _is_ordinary(node: torch.fx.Node) -> bool:
    return node.op not in ("get_attr", "call_module") and not isinstance(node.target, torch._ops.HigherOrderOperator)


def _example(value: Any, mode: Any) -> Any:
    """A fake tensor that the graph may write to."""
    if not isinstance(value, torch.Tensor):
        return value
    if not isinstance(value, torch_internals.fake_tensor().FakeTensor):
        value = torch_internals.static_fake(mode, value)
    with mode, torch.no_grad():
        return value.detach().requires_grad_(value.requires_grad)


class _Part(torch.fx.Interpreter):
    """Interpreter of the nodes that some results need, and of no others."""

    def __init__(self, module: torch.fx.GraphModule, needed: set[torch.fx.Node], requested: Sequence[Any]) -> None:
        super().__init__(module)
        self.needed, self.requested = needed, requested

    def run_for(self, inputs: Sequence[Any], recorder: _Recorder) -> list[Any]:
        """Values of the results."""
        nodes: Any = self.module.graph
        self.env = dict(zip(nodes.find_nodes(op="placeholder"), inputs, strict=True))
        for node in nodes.nodes:
            if node in self.needed and node.op != "placeholder":
                self.env[node] = self.run_node(node)
                if node.target is GET_DATA:
                    recorder.name_last(self.env[node], GET_DATA)
        return [self.env[node] if isinstance(node, torch.fx.Node) else node for node in self.requested]


class _Recorder(TorchDispatchMode):
    """Dispatch mode that records view operators."""

    def __init__(self, inputs: Sequence[Any]) -> None:
        super().__init__()
        self.slots = {id(value): at for at, value in enumerate(inputs) if isinstance(value, torch.Tensor)}
        """The slot of each tensor that is an input or a view of one, by the tensor's id."""
        self.alive: list[Any] = list(inputs)
        """Tensors of the slots, so that no id is used twice."""
        self.calls: list[ViewCall] = []

    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run an operator, and record it if it returns views of tensors that have a slot."""
        keywords = kwargs or {}
        if func.namespace == "prim":
            return func(*args, **keywords)  # reads the device of a tensor, and may not raise
        result = func(*args, **keywords)
        tensors = [each for each in pytree.tree_leaves((args, keywords)) if isinstance(each, torch.Tensor)]
        if _is_view_operator(func) and all(id(each) in self.slots for each in tensors):
            self._write(func, args, keywords, result)
        return result

    def _write(self, func: torch._ops.OpOverload, args: tuple[Any, ...], keywords: dict[str, Any], result: Any) -> None:
        def slot_of(tensor: torch.Tensor) -> AtSlot:
            return AtSlot(self.slots[id(tensor)])

        arguments, named = pytree.tree_map_only(torch.Tensor, slot_of, (args, keywords))
        parts = (
            [((), result)] if isinstance(result, torch.Tensor) else [((at,), part) for at, part in enumerate(result)]
        )
        results = []
        for path, part in parts:
            # The operator may return its argument.
            if id(part) not in self.slots:
                results.append((path, len(self.alive)))
                self.slots[id(part)] = len(self.alive)
                self.alive.append(part)
        self.calls.append(ViewCall(func, arguments, named, tuple(results), torch._C.is_grad_enabled()))

    def name_last(self, result: torch.Tensor, target: Any) -> None:
        """Replace the last operator by the function whose result it computed, if there is one."""
        last = self.calls[-1] if self.calls else None
        if last is not None and last.results == (((), self.slots.get(id(result))),):
            self.calls[-1] = replace(last, target=target)

    def used(self, outputs: Sequence[int]) -> tuple[ViewCall, ...]:
        """The calls that these slots need."""
        needed, kept = set(outputs), []
        for call in reversed(self.calls):
            results = tuple(result for result in call.results if result[1] in needed)
            if results:
                needed.update(_slots(call))
                kept.append(replace(call, results=results))
        return tuple(reversed(kept))


def _slots(call: ViewCall) -> list[int]:
    return [each.slot for each in pytree.tree_leaves((call.arguments, call.keywords)) if isinstance(each, AtSlot)]


def _is_view_operator(func: torch._ops.OpOverload) -> bool:
    """Return whether an operator writes to nothing, and each of its results may be a view of an argument."""
    returns = func._schema.returns
    return bool(returns) and not func._schema.is_mutable and all(each.alias_info is not None for each in returns)


def _replayed(views: InputViews) -> list[Any]:
    values = dict(enumerate(views.inputs))
    for call in views.calls:
        arguments, keywords = pytree.tree_map_only(
            AtSlot,
            lambda at: values[at.slot],
            (call.arguments, call.keywords),
            is_leaf=lambda at: isinstance(at, AtSlot),
        )
        SET_GRAD_MODE(call.grad_enabled)
        result = call.target(*arguments, **keywords)
        for path, slot in call.results:
            values[slot] = result[path[0]] if path else result
    return [values[slot] for slot in views.outputs]


def _is_alike(view: torch.Tensor, replayed: torch.Tensor) -> bool:
    """Return whether a view that was replayed is what the graph returned: for autograd, too."""
    return (
        view.requires_grad == replayed.requires_grad
        and view.dtype == replayed.dtype
        and view.is_conj() == replayed.is_conj()
        and view.is_neg() == replayed.is_neg()
        and type(view.grad_fn) is type(replayed.grad_fn)
        and view.shape == replayed.shape
        and view.stride() == replayed.stride()
        and view.storage_offset() == replayed.storage_offset()
    )
