"""Trace a graph without gradients and aliasing into ATen operators, in one pass.

    captured   torch.softmax(x @ w, -1)
    traced     aten.mm, aten.amax, aten.sub, aten.exp, aten.sum, aten.div

    captured   p.mul_(0.9)                  a step of an optimizer, say
    traced     aten.mul(p, 0.9), then aten.copy_(p, mul) at the end

AOTAutograd supports every graph, so it runs a graph twice: once to collect mutations
and aliases, once to trace. One pass is enough for a graph that needs no gradient and
that writes at most to whole inputs. Its sizes may be symbols, whose nodes sizes.py
creates. For any other graph this tracer returns None, and AOTAutograd traces it.

In torch: torch/fx/experimental/proxy_tensor.py (make_fx). Read next:
nbcompile/aot/sizes.py
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import torch
import torch.fx
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from nbcompile import torch_internals
from nbcompile.aot.decompositions import Table
from nbcompile.aot.sizes import SizeNodes, UnknownSize
from nbcompile.aot.traced_graphs import InferenceGraph, requires_grad
from nbcompile.capture.node_meta import ORIGIN, STACK
from nbcompile.fast.inference_eligibility import SYMBOLIC, fake_mode_of, is_eligible
from nbcompile.ir.index import index, indices

# Operators that are not functional, although their schemas say so: the first two alias a constant of the graph, the
# others update running statistics or noise in place.
NOT_FUNCTIONAL = frozenset(
    {
        torch.ops.aten.lift,
        torch.ops.aten.lift_fresh,
        torch.ops.aten.native_batch_norm,
        torch.ops.aten._batch_norm_impl_index,
        torch.ops.aten.cudnn_batch_norm,
        torch.ops.aten.miopen_batch_norm,
        torch.ops.aten.rrelu_with_noise,
    }
)


def trace(
    module: torch.fx.GraphModule, example_inputs: Sequence[Any], table: Table, *, allow_mutation: bool = False
) -> InferenceGraph | None:
    """The graph in ATen operators; None if it needs AOTAutograd.

    Args:
        module: the captured graph.
        example_inputs: one for each placeholder.
        table: the decomposition of operators.
        allow_mutation: the graph may write to whole inputs.
    """
    # With a gradient to compute, the joint tracer or AOTAutograd traces the graph.
    if torch._C.is_grad_enabled() and any(requires_grad(each) for each in example_inputs):
        return None
    if not is_eligible(module, example_inputs, allow_mutation):
        return None
    fake_mode = fake_mode_of(example_inputs)
    fakes = [fake(each, fake_mode) if isinstance(each, torch.Tensor) else each for each in example_inputs]
    transforms, grad_mode = torch_internals.transform_state(), torch._C.is_grad_enabled()
    try:
        tracer = AtenTracer(table, fakes, "arg{}_1", first=0, allow_mutation=allow_mutation)
        # The dispatch mode sees each ATen operator that the captured graph runs, below autograd and below composite
        # operators.
        rules = torch_internals.rules_in_python(any(isinstance(value, SYMBOLIC) for value in fakes))
        with torch_internals.kept_dispatch_keys(), fake_mode, tracer, rules:
            outputs = Replay(module, tracer).run(*fakes)
        returned = tracer.returned(outputs)
        written = tracer.write_back()
        return InferenceGraph(tracer.module(returned), written)
    # Restore the state at the beginning of the graph, whose nodes enter and leave transforms and modes, for
    # AOTAutograd.
    except (NeedsAotAutograd, RuntimeError):  # AOTAutograd raises a RuntimeError again, with its own text
        torch_internals.restore_transforms(transforms)
        torch._C._set_grad_enabled(grad_mode)
        torch_internals.drop_new_symbols(fake_mode.shape_env)
        return None


class NeedsAotAutograd(BaseException):
    """Signal that the graph needs AOTAutograd; no Exception, which a function that the graph calls may catch."""


class AtenTracer(TorchDispatchMode):
    """Dispatch mode that adds a node for every ATen operator that runs on fake tensors."""

    def __init__(
        self,
        table: Table,
        inputs: Sequence[torch.Tensor | torch.SymInt],
        names: str,
        first: int = 1,
        allow_mutation: bool = False,
    ) -> None:
        super().__init__()
        self.table = table
        self.inputs = inputs
        self.allow_mutation = allow_mutation
        self.graph = torch.fx.Graph()
        self.sizes = SizeNodes(self.graph)
        self.captured_node: torch.fx.Node | None = None
        """The current node of the captured graph."""
        self.nodes: dict[int, torch.fx.Node] = {}
        """The node of each tensor, by the tensor's id."""
        # An id identifies an object only while the object is alive.
        self.alive: list[torch.Tensor] = []
        """Every tensor in ``nodes``, so that no id is used twice."""
        self.holders: dict[int, list[torch.Tensor]] = {}
        """The tensors of each storage."""
        self.owned: set[int] = set()
        """Storages that belong to an input or to an earlier output."""
        for number, value in enumerate(inputs, start=first):
            if isinstance(value, torch.SymInt):
                self.sizes.define(value, self.graph.placeholder(names.format(number)))
            else:
                self.define(value, names.format(number))

    def define(self, value: torch.Tensor, name: str) -> None:
        """Define a tensor from outside as a placeholder."""
        # Two placeholders for one tensor: only AOTAutograd can distinguish them.
        if id(value) in self.nodes:
            raise NeedsAotAutograd
        self._remember(value, self.graph.placeholder(name))
        self.owned.add(_storage(value))

    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Decompose an operator by the table, or run it and add a node for it."""
        keywords = kwargs or {}
        if func.namespace == "prim":
            return func(*args, **keywords)  # for example ``prim.device``; such operators compute nothing
        # Decompose first, by the table or by the operator's own decomposition, so that few kinds of operators remain.
        simpler = self._decomposed(func, args, keywords)
        if simpler is not NotImplemented:
            return simpler
        if func is torch.ops.aten._assert_async.msg:
            self._write(func, args, keywords)
            return None
        if func.overloadpacket in NOT_FUNCTIONAL or torch_internals.has_effect(func) or not func._schema.returns:
            raise NeedsAotAutograd  # an operator without results is called for its effect
        if func._schema.is_mutable:
            return self._in_place(func, args, keywords)
        result = func(*args, **keywords)
        if isinstance(result, SYMBOLIC):
            raise NeedsAotAutograd  # known only at run time
        if isinstance(result, torch.Tensor):
            self._remember(result, self._write(func, args, keywords))
        # Several results: one node for the call, and one ``getitem`` for each.
        elif isinstance(result, (tuple, list)):
            whole = self._write(func, args, keywords)
            whole.meta["val"] = result
            for position, part in enumerate(result):
                if isinstance(part, torch.Tensor):
                    self._remember(part, self._write(operator.getitem, (whole, position), {}))
        return result  # neither: a property of a tensor, which is a constant

    def _in_place(self, func: torch._ops.OpOverload, args: tuple[Any, ...], keywords: dict[str, Any]) -> torch.Tensor:
        """Trace ``y.add_(1)``, if the graph has no view of y, as a new value of y."""
        functional = functional_variant(func)
        changed = args[0] if args else None
        if functional is None or not isinstance(changed, torch.Tensor) or not self._may_change(changed):
            raise NeedsAotAutograd
        holders = self.holders[_storage(changed)]
        # The functional form: views of y, if any, would have to be computed again from the new value.
        if any(_view_metadata(each) != _view_metadata(changed) for each in holders):
            raise NeedsAotAutograd  # a view would have to be computed again
        args = (*args, *_defaults(func, functional, len(args)))
        result = functional(*args, **keywords)
        # The in-place operator keeps y's dtype and layout; if the functional one returns others, they are not
        # equivalent.
        if _metadata(result) != _metadata(changed):
            raise NeedsAotAutograd  # the operator in place rounds, or keeps a layout
        # The functional graph has the value of before, too, and no longer in y's memory.
        for before in {self.nodes[id(holder)] for holder in holders}:
            if before.op != "placeholder":
                before.meta["val"] = result
        node = self._write(functional, args, keywords)
        # All tensors with y's data (``y``, ``y.detach()``) have the new value.
        for holder in holders:
            self._remember(holder, node)
        return changed

    def _may_change(self, tensor: torch.Tensor) -> bool:
        """True for a tensor with its own memory, or an input of which the graph has no view."""
        if _storage(tensor) not in self.owned:
            return True
        # The first tensor that uses an input's storage is the input.
        (first, *others) = self.holders[_storage(tensor)]
        return self.allow_mutation and tensor is first and not others

    def write_back(self) -> list[int]:
        """Write back the inputs that were mutated; return their positions."""
        placeholders = self.graph.find_nodes(op="placeholder")
        written = []
        for at, (given, placeholder) in enumerate(zip(self.inputs, placeholders, strict=True)):
            # An input whose node is not its placeholder was written to.
            if isinstance(given, torch.Tensor) and (value := self.node_of(given)) is not placeholder:
                copy = self.graph.call_function(torch.ops.aten.copy_.default, (placeholder, value))
                copy.meta.update(value.meta)
                written.append(at)
        return written

    def returned(self, outputs: Sequence[Any]) -> list[torch.fx.Node]:
        """The nodes of the outputs, if each has its own memory or is a number."""
        return [self._returned(each) for each in outputs]

    def _returned(self, output: Any) -> torch.fx.Node:
        if isinstance(output, torch.SymInt):
            node = self.node_of_size(output)
            if isinstance(node, int):
                raise NeedsAotAutograd  # its value is known
            return node
        # An output in the storage of an input or an earlier output is an alias, which needs a runtime wrapper.
        if not isinstance(output, torch.Tensor) or _storage(output) in self.owned:
            raise NeedsAotAutograd
        self.owned.add(_storage(output))
        return self.node_of(output)

    def module(self, outputs: Sequence[torch.fx.Node | None]) -> torch.fx.GraphModule:
        """The traced graph without dead nodes; called once it is certain that AOTAutograd need not trace it."""
        # AOTAutograd reads the memory format of each tensor, which adds guards on sizes. The same is done here, so that
        # both traces are valid for the same sizes.
        for tensor in self.alive:
            torch_internals.guard_on_memory_format(tensor)
        self.graph.output(tuple(outputs))
        self.graph.eliminate_dead_code()
        return torch_internals.as_module(self.graph)

    def _decomposed(self, func: torch._ops.OpOverload, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        rule = self.table.get(func)
        # Under the mode again, so that the simpler operators are traced.
        with self:
            if rule is not None:
                result = rule(*args, **keywords)
                if result is not NotImplemented:
                    return result
            return func.decompose(*args, **keywords)

    def _write(self, target: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> torch.fx.Node:
        # AOTAutograd's names: ``add`` for aten.add.Tensor.
        name = target.overloadpacket.__name__ if isinstance(target, torch._ops.OpOverload) else target.__name__
        node = self.graph.create_node(
            "call_function", target, self._as_nodes(args), self._as_nodes(keywords), name=name
        )
        self._set_origin(node)
        return node

    def _set_origin(self, node: torch.fx.Node) -> None:
        if self.captured_node is not None:
            node.meta[ORIGIN] = (self.captured_node.name,)
            for key in (STACK, "stack_trace", "nn_module_stack"):
                if key in self.captured_node.meta:
                    node.meta[key] = self.captured_node.meta[key]

    def node_of_size(self, value: torch.SymInt) -> torch.fx.Node | int:
        """The node that computes a symbolic size."""
        try:
            return self.sizes.node_of(value, self._set_origin)
        except UnknownSize as unknown:
            raise NeedsAotAutograd from unknown

    def _as_nodes(self, arguments: Any) -> Any:
        return pytree.tree_map_only((torch.Tensor, *SYMBOLIC), self._as_node, arguments)

    def _as_node(self, value: Any) -> torch.fx.Node | int:
        if isinstance(value, torch.Tensor):
            return self.node_of(value)
        if isinstance(value, torch.SymInt):
            return self.node_of_size(value)
        raise NeedsAotAutograd  # only a trace with proxies has the node of a float or a bool

    def node_of(self, tensor: torch.Tensor) -> torch.fx.Node:
        """The node that computes a tensor."""
        if id(tensor) not in self.nodes:
            raise NeedsAotAutograd  # a constant of the graph
        return self.nodes[id(tensor)]

    def _remember(self, tensor: torch.Tensor, node: torch.fx.Node) -> None:
        node.meta["val"] = tensor
        if id(tensor) not in self.nodes:
            self.alive.append(tensor)
            self.holders.setdefault(_storage(tensor), []).append(tensor)
        self.nodes[id(tensor)] = node


@functools.cache
def functional_variant(operator: torch._ops.OpOverload) -> torch._ops.OpOverload | None:
    """``aten.add.Tensor`` for ``aten.add_.Tensor``: the overload with the same arguments that does not write."""
    schema = operator._schema
    if torch.Tag.inplace_view in operator.tags:
        return None  # it changes metadata of the tensor, not its data
    # Only the first argument is written: then ``add_`` and ``add`` do not differ in anything else.
    writes = [each.alias_info is not None and each.alias_info.is_write for each in schema.arguments]
    name = schema.name.partition("::")[2]
    packet = getattr(getattr(torch.ops, operator.namespace), name.removesuffix("_"), None)
    if not name.endswith("_") or writes != [True, *[False] * (len(writes) - 1)] or packet is None:
        return None
    overloads = (getattr(packet, each) for each in packet.overloads())
    return next(
        (each for each in overloads if _arguments(each) == _arguments(operator) and _returns_new_memory(each)),
        None,
    )


def _arguments(operator: torch._ops.OpOverload) -> list[tuple[str, str, bool]]:
    return [(each.name, str(each.type), each.kwarg_only) for each in operator._schema.arguments]


def _defaults(operator: torch._ops.OpOverload, variant: torch._ops.OpOverload, given: int) -> tuple[Any, ...]:
    """Arguments that only the variant requires (``bernoulli_()`` is ``bernoulli(0.5)``)."""
    pairs = zip(operator._schema.arguments[given:], variant._schema.arguments[given:], strict=True)
    return tuple(ours.default_value for ours, its in pairs if ours.has_default_value() and not its.has_default_value())


def _returns_new_memory(operator: torch._ops.OpOverload) -> bool:
    schema = operator._schema
    return len(schema.returns) == 1 and all(each.alias_info is None for each in (*schema.arguments, *schema.returns))


def _metadata(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.dtype, tensor.device, indices(tensor.shape), indices(tensor.stride())


def _view_metadata(tensor: torch.Tensor) -> tuple[Any, ...]:
    """The metadata of a tensor as a view of its storage."""
    return *_metadata(tensor), index(tensor.storage_offset())


class Replay(torch.fx.Interpreter):
    """Interpreter of the captured graph that sets the tracer's current node."""

    def __init__(self, module: torch.fx.GraphModule, tracer: AtenTracer) -> None:
        super().__init__(module)
        self.tracer = tracer

    def run_node(self, n: torch.fx.Node) -> Any:
        self.tracer.captured_node = n
        result = super().run_node(n)
        if isinstance(result, torch.SymInt) and n.op != "placeholder":
            self.tracer.node_of_size(result)  # now, so that its nodes belong to the current node
        return result


# --- eligibility -----------------------------------------------------------------------------------------------------


def fake(value: torch.Tensor, fake_mode: Any) -> Any:
    """A fake tensor for a real one; a fake tensor itself."""
    if isinstance(value, torch_internals.fake_tensor().FakeTensor):
        return value
    return torch_internals.static_fake(fake_mode, value)


def _storage(value: torch.Tensor) -> int:
    return int(value.untyped_storage()._cdata)
