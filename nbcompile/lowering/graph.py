"""Lowering: from a functional ATen graph to a program of buffers.

    def forward(x, w):                       buf0 = extern aten.mm(x, w)
        mm = aten.mm(x, w)             ->    buf1[i0, i1] = max(buf0[i0, i1] + 1.0, 0.0)
        add = aten.add(mm, 1)                return buf1
        return aten.relu(add)

Nodes are lowered in order to lazy values; a value is realized (stored in a
buffer) only where :func:`should_realize` says so.

In torch: torch/_inductor/graph.py (GraphLowering.run_node). Read next:
nbcompile/lowering/elementwise.py
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import sympy
import torch
from torch import fx

from nbcompile import torch_internals
from nbcompile.capture.node_meta import DONATED
from nbcompile.ir import buffer as ir
from nbcompile.ir.expr import UnsupportedDtype
from nbcompile.ir.index import Symbol, index
from nbcompile.ir.layout import of_tensor
from nbcompile.ir.traversal import loads, with_origin
from nbcompile.lowering import (
    activations,
    addmm_epilogue,
    constant_values,
    convolution,
    creation,
    division,
    dtype_cast,
    foreach,
    grouped_products,
    indexing,
    kernel_launches,
    kernel_templates,
    linear_cross_entropy,
    mutation,
    normalisation,
    pointwise,
    pooling,
    randomness,
    reductions,
    resizing,
    scans,
    scatter,
    slice_scatter,
    user_kernels,
    views,
)
from nbcompile.lowering.builder import Builder, PhiloxState
from nbcompile.lowering.dtype_cast import is_computable
from nbcompile.lowering.extern import can_fall_back, fallback_reason
from nbcompile.lowering.number_ranges import require_numbers_in_range
from nbcompile.lowering.output_storages import (
    as_distinct_tensors,
    has_other_strides,
    needs_own_memory,
    storage_of,
    storages_shared_by_outputs,
)
from nbcompile.lowering.realization import is_extern_operand_or_output, should_realize
from nbcompile.lowering.registry import LOWERINGS, ON_SEVERAL_DEVICES, NoLowering, UnsupportedGraph
from nbcompile.lowering.requirements import require_known_sizes, require_plain_dtype, require_strided
from nbcompile.lowering.value import Value
from nbcompile.support import fuel

aten = torch.ops.aten
_TABLES = (
    activations,
    division,
    dtype_cast,
    convolution,
    creation,
    foreach,
    grouped_products,
    indexing,
    kernel_launches,
    linear_cross_entropy,
    normalisation,
    pointwise,
    pooling,
    randomness,
    reductions,
    slice_scatter,
    resizing,
    scans,
    scatter,
    views,
)
"""Modules whose import fills LOWERINGS."""


# Operators that check what FakeTensor has checked already, or that only the tracer needs.
_NO_OPS = {aten._assert_tensor_metadata.default, aten.sym_constrain_range.default}
_COPIES = {aten.clone.default, aten._to_copy.default, aten.contiguous.default, aten.lift_fresh_copy.default,
           aten.copy.default, torch.ops.prims.convert_element_type.default}  # fmt: skip
"""Operators whose lowering may return its argument, where eager mode returns new memory: an output is copied."""
_RANDOM = torch.Tag.nondeterministic_seeded


def lower(
    graph_module: fx.GraphModule,
    keep_sharing: bool = True,
    generate_random: bool = False,
    device: torch.device | None = None,
    fallbacks: Mapping[str, str] | None = None,
    templates: Mapping[str, int] | None = None,
) -> ir.Program:
    """Lower a functional ATen graph whose nodes have fake tensors as ``meta["val"]``.

    Args:
        graph_module: the graph.
        keep_sharing: outputs that share a storage according to FakeTensor share it. (Values that a forward graph
        saves for the backward need not.)
        generate_random: kernels generate random numbers (randomness.py), which differ from eager's.
        device: generate code for this device instead of the CPU.
        fallbacks: nodes that fall back to ATen although they have a lowering, each with the reason.
        templates: matrix products that become kernels on a GPU (products.py); by node, the splits of the reduction.

    Raises:
        UnsupportedGraph: a tensor is not strided or has the negative bit, or a size depends on data.
    """
    kernel_templates.mark(graph_module.graph, device, fallbacks or {}, templates)
    return _Lowering(graph_module, keep_sharing, generate_random, device, fallbacks or {}).run()


class _Lowering:
    def __init__(
        self, graph_module: fx.GraphModule, keep_sharing: bool, generate_random: bool, device: torch.device | None,
        fallbacks: Mapping[str, str],
    ) -> None:  # fmt: skip
        self.module, self.fallbacks = graph_module, fallbacks
        self.build = Builder(PhiloxState() if generate_random else None, device)
        self.values: dict[fx.Node, Any] = {}
        self.symbols: dict[Symbol, ir.SymbolSource] = {}
        self.arguments = 0
        self.single_output = False
        self.shared = storages_shared_by_outputs(graph_module.graph) if keep_sharing else frozenset()

    def run(self) -> ir.Program:
        outputs: list[Any] = []
        for node in self.module.graph.nodes:
            self.build.node = node
            match node.op:
                case "placeholder":
                    self.values[node] = self._placeholder(node)
                case "get_attr":
                    self.values[node] = self._attribute(node)
                case "output":
                    outputs = self._outputs(node)
                case _:
                    self.values[node] = self._call(node)
        return ir.Program(
            tuple(self.build.buffers), tuple(outputs), self.arguments, tuple(self.symbols.values()), self.single_output,
            checks_divisors=self.build.device is not None,
        )  # fmt: skip

    # -- inputs -----------------------------------------------------------------------------------

    def _placeholder(self, node: fx.Node) -> Any:
        position, self.arguments = self.arguments, self.arguments + 1
        value = node.meta.get("val")
        self._find_shape_env(value)
        if isinstance(value, torch.Tensor):
            require_strided(node, value)
            layout = of_tensor(value)
            device = self.build.target_device(value.device)
            self.build.add(
                ir.GraphInput(
                    node.name, value.dtype, device, layout, position, (node.name,), node.meta.get(DONATED, False)
                )
            )
            for kind, entries in (("size", layout.size), ("stride", layout.stride)):
                for dim, entry in enumerate(entries):
                    if isinstance(entry, sympy.Symbol):
                        #     x: float32[s0, 8]   strides (8, 1)       s0 is x.size(0) in each call
                        #     y: float32[4, 8]    strides (s1, 1)      s1 is y.stride(0)
                        # The first tensor that has a symbol is its source.
                        self.symbols.setdefault(entry, ir.SymbolSource(entry, position, dim, kind))
            return self.build.whole(node.name)
        if isinstance(value, torch.SymInt):
            symbol = index(value)
            if isinstance(symbol, sympy.Symbol):
                # The argument is the best source: it needs no access to a tensor's sizes.
                self.symbols[symbol] = ir.SymbolSource(symbol, position)
            return symbol
        return value

    def _find_shape_env(self, value: Any) -> None:
        numbers = [*value.shape, *value.stride()] if isinstance(value, torch.Tensor) else [value]
        for number in numbers:
            if isinstance(number, torch.SymInt):
                # The ShapeEnv has the bounds from guards, e.g. s0 >= 2.
                self.build.shape_env = number.node.shape_env

    def _attribute(self, node: fx.Node) -> Any:
        value = operator.attrgetter(str(node.target))(self.module)
        # The branches of a control flow operator are modules, which the operator calls.
        if isinstance(value, torch.nn.Module):
            return ir.ModuleReference(str(node.target))
        if not isinstance(value, torch.Tensor):
            return value
        require_strided(node, value)
        layout = of_tensor(value)
        device = self.build.target_device(value.device)
        self.build.own_tensors[node] = value
        self.build.add(ir.GraphAttribute(node.name, value.dtype, device, layout, str(node.target), (node.name,)))
        return self.build.whole(node.name)

    # -- operators --------------------------------------------------------------------------------

    def _call(self, node: fx.Node) -> Any:
        predicted = node.meta.get("val")
        # Arithmetic on sizes generates no code: the result is an expression over the symbols of the inputs.
        if isinstance(predicted, (torch.SymInt, int, float, bool, torch.SymFloat, torch.SymBool)):
            return self._symbolic_value(node, predicted)
        if node.target is operator.getitem and isinstance(node.args[0], fx.Node):
            return self.values[node.args[0]][node.args[1]]  # an item of a list of unknown length
        if kernel_launches.INSIDE in node.meta:
            return None  # no node uses it
        if node in self.build.known:
            return self.build.known[node]
        args, kwargs = fx.map_arg((node.args, node.kwargs), self.values.__getitem__)
        args, kwargs = _to_builtin_containers(args), _to_builtin_containers(kwargs)
        if torch_internals.is_kernel_launch(node.target):
            written = user_kernels.lower_launch(self.build, node, kwargs, self.values)
            mutation.realize_before_mutation(self.build, self.values)
            return written
        if predicted is None and isinstance(node.target, torch._ops.HigherOrderOperator):
            raise UnsupportedGraph(f"the results of {node.target} are only known when it runs")
        if node.target in _NO_OPS:
            return None
        if node.target is aten.copy_.default:
            return mutation.lower_copy(self.build, node, args[0], args[1], self.fallbacks.get(node.name, ""))
        return self._call_operator(node, args, kwargs, predicted)

    def _call_operator(self, node: fx.Node, args: Any, kwargs: Any, predicted: Any) -> Any:
        """The results of an operator, from its lowering or else from ATen."""
        reason = self.fallbacks.get(node.name, "")
        if not reason and addmm_epilogue.can_unfuse_bias(self.build, node) and not is_extern_operand_or_output(node):
            return self._realize_results(node, addmm_epilogue.unfuse_bias(self.build, args, predicted), predicted)
        if kernel_templates.is_marked(node):
            try:
                return self._realize_results(
                    node, kernel_templates.lower_marked(self.build, node, args, kwargs, self.values), predicted
                )
            except NoLowering as error:
                reason = str(error)
        # Bisection counts only decisions that it can change: some operators have no fallback.
        may_be_fallback = node.target in LOWERINGS and not reason and can_fall_back(node)
        if may_be_fallback and not fuel.allows("lowering", f"{node.name} ({node.target})"):
            reason = "bisection: it runs through ATen"
        if node.target in LOWERINGS and not reason:
            try:
                require_numbers_in_range(node.target, args, kwargs, predicted)
                return self._realize_results(node, LOWERINGS[node.target](self.build, *args, **kwargs), predicted)
            except (NoLowering, UnsupportedDtype) as error:
                # A lowering may have appended buffers before it raised: nothing reads them, and dead code elimination
                # removes them.
                reason = str(error)
        # The layout of ATen's results is known before it runs.
        require_known_sizes(node, predicted)
        require_plain_dtype(node)
        result = self.build.extern(node.target, args, kwargs, predicted, reason or fallback_reason(node.target))
        mutation.realize_before_mutation(self.build, self.values)
        return result

    def _symbolic_value(self, node: fx.Node, predicted: Any) -> Any:
        if isinstance(predicted, (torch.SymFloat, torch.SymBool)):
            expression: Any = predicted.node.expr
        else:
            expression = index(predicted) if isinstance(predicted, torch.SymInt) else predicted
        unknown: set[Any] = getattr(expression, "free_symbols", set()) - self.symbols.keys()
        if unknown:
            raise UnsupportedGraph(f"{node.name}: the value of {unknown.pop()} is only known when the graph runs")
        return expression

    def _realize_results(self, node: fx.Node, result: Any, predicted: Any) -> Any:
        """Check the results of a lowering against FakeTensor, and realize those that need a buffer."""
        if not isinstance(result, tuple):
            return self._realize_if_needed(node, result, predicted, node)
        # One of several results is used through getitem, so the users of that node count.
        getitems = {user.args[1]: user for user in node.users if user.target is operator.getitem}
        return tuple(
            self._realize_if_needed(node, *pair, getitems.get(at, node))
            for at, pair in enumerate(zip(result, predicted, strict=True))
        )

    def _realize_if_needed(self, node: fx.Node, result: Any, predicted: Any, representative: fx.Node) -> Any:
        """Check one result of ``node``, and realize it if necessary; ``representative`` is the result's own node."""
        if not isinstance(result, Value):
            return result
        result = constant_values.folded(replace(result, body=with_origin(result.body, (node.name,))))
        size = of_tensor(predicted).size
        # FakeTensor uses ATen's own rules: a difference is an error of the lowering.
        if result.dtype != predicted.dtype or len(size) != result.ndim:
            raise NoLowering(
                f"lowering gives {result.dtype}{result.size} where FakeTensor says {predicted.dtype}{size}"
            )
        self._require_device(result, self.build.target_device(predicted.device))
        if result.size != size:
            # Equal in another form, or not provably equal: FakeTensor's form is used.
            result = replace(result, size=size)
        # In eager mode y = x.clone() has its own memory. That is not visible while y is inside of the graph, but an
        # output must not be x itself, since the user may write to one of them.
        same = node.target in _COPIES or self._returns_argument(node, result)
        view = self.build.view_of(result)
        is_view = view is not None
        shared = storage_of(representative) in self.shared and not is_view
        needs_buffer = shared or should_realize(result, representative) or (same and needs_own_memory(representative))
        # Kernels do not compute with some types (complex ones), but a view needs no kernel.
        stays_view = view is not None and not needs_buffer and not has_other_strides(view, predicted)
        if not (stays_view or is_computable(result)):
            raise NoLowering(f"{result.dtype} is not computed with")
        if needs_buffer:
            return self.build.realize(result, copy=same)
        return result

    def _require_device(self, result: Value, device: torch.device) -> None:
        """Check that a kernel for the result reads only memory of its device."""
        tensors = self.build.tensors
        # In almost every program all buffers are on one device, and bodies need not be searched.
        if result.device != device or (
            len(self.build.devices) > 1 and any(tensors[load.buffer].device != device for load in loads(result.body))
        ):
            raise NoLowering(ON_SEVERAL_DEVICES)

    def _returns_argument(self, node: fx.Node, result: Value) -> bool:
        """Return whether a result that has new memory in eager mode is, after simplification, a view of older memory.

        Examples are ``x * 1``, ``x.flip(0).flip(0)`` (each flip copies) and ``x.roll(1, 0)[1:]`` (a view of a copy).
        """
        schema = getattr(node.target, "_schema", None)
        view = self.build.view_of(result)
        if view is None or schema is None:
            return False
        # The base of an _unsafe_view has no other user, so shared memory is not visible.
        is_alias = node.target is aten._unsafe_view.default or any(each.alias_info for each in schema.returns)
        arguments = [value for each in node.all_input_nodes if isinstance(value := self.values.get(each), Value)]
        sources = [each for each in arguments if any(read.buffer == view.buffer for read in loads(each.body))]
        return any(not is_alias or self.build.view_of(each) is None for each in sources)

    # -- outputs ----------------------------------------------------------------------------------

    def _outputs(self, node: fx.Node) -> list[Any]:
        returned = node.args[0]
        if not isinstance(returned, (tuple, list)):
            self.single_output = True
            returned = (returned,)
        outputs = [self._output(each) for each in returned]
        memory: dict[int, str] = {}
        for value, output in zip(returned, outputs, strict=True):
            storage = storage_of(value) if isinstance(value, fx.Node) else None
            if storage in self.shared and memory.setdefault(storage, output.buffer) != output.buffer:
                raise UnsupportedGraph("two results that share memory are no views of one buffer")
        return as_distinct_tensors(returned, outputs)

    def _output(self, node: Any) -> Any:
        if not isinstance(node, fx.Node):
            return node if not isinstance(node, int) or isinstance(node, bool) else index(node)
        value = self.values[node]
        if not isinstance(value, Value):
            return index(value) if isinstance(value, int) and not isinstance(value, bool) else value
        self.build.node = node
        expected = of_tensor(node.meta["val"])
        view = self.build.as_argument(value, expected, any_stride=False)
        whole = self.build.whole(view.buffer)
        if view.layout.offset == 0 and whole.size == value.size:
            # Later outputs that are views of this output share its memory.
            self.values[node] = value if self.build.view_of(value) else whole
        return view


def _to_builtin_containers(value: Any) -> Any:
    """Convert fx's immutable containers to tuples, lists and dicts."""
    if isinstance(value, dict):
        return {key: _to_builtin_containers(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_to_builtin_containers(each) for each in value]
    if isinstance(value, tuple) and not isinstance(value, torch.Size):
        return tuple(_to_builtin_containers(each) for each in value)
    return value
