"""A tensor, as a node of the graph with a fake value.

    x.relu().sum(0)     TensorVariable(x) -> node relu -> node sum

Metadata of a tensor (shape, dtype, device...) is read from the fake value and is a
constant; an operation on it becomes a node.

In torch: torch/_dynamo/variables/tensor.py. Read next:
nbcompile/tracing/graph/output_graph.py
"""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch
import torch.fx

from nbcompile import torch_internals
from nbcompile.capture.guard import GuardKind
from nbcompile.capture.node_meta import ATTRIBUTE, EXAMPLE, STACK
from nbcompile.capture.recipe import FromSource, Recipe
from nbcompile.capture.source import AttrSource, ClassMemberSource, ModuleSource, Source, TypeSource
from nbcompile.tracing import breaks
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.lookup import MISSING, class_lookup
from nbcompile.tracing.variables.symbolic import SymbolicVariable
from nbcompile.tracing.variables.tensor_properties import (
    GUARDED_ATTRIBUTES,
    computed_base,
    guard_no_grad_fn,
    shadowing_attribute,
)


def _known_to_torch(names: str) -> frozenset[str]:
    """Names that tensors of this version of torch have: some versions lack ``names``."""
    return frozenset(name for name in names.split() if hasattr(torch.Tensor, name))


CONSTANT_ATTRIBUTES = _known_to_torch(
    "dtype device layout is_cuda is_sparse is_quantized is_nested requires_grad ndim names is_ort"
)
"""Attributes that the guard on a tensor compares, or that follow from what it compares."""
GRAPH_ATTRIBUTES = _known_to_torch(
    "T mT H mH real imag nbytes itemsize is_cpu is_ipu is_maia is_meta is_mkldnn is_mps is_mtia is_sparse_csr "
    "is_vulkan is_xla is_xpu"
)
"""Attributes whose read is a node of the graph, as in torch's graphs."""
CONSTANT_METHODS = frozenset(
    "dim ndimension is_floating_point is_complex is_signed element_size get_device is_contiguous is_conj is_neg "
    "has_names dense_dim sparse_dim is_pinned is_coalesced is_same_size".split()
)
"""Methods that are evaluated on the fake tensor, if all arguments are constants."""


SIZE_CHANGES = frozenset(
    "unsqueeze_ squeeze_ t_ transpose_ swapaxes_ swapdims_ as_strided_ set_ resize_ resize_as_".split()
)
"""Methods that change the sizes, the strides or the memory of the tensor itself."""
SILENT = frozenset(("as_subclass", "__iter__"))
"""Methods that call no override themselves."""


def _modes_are_unchanged(tracer: Tracer) -> bool:
    """Return whether the modes are those of the call: a view then has the same ``requires_grad`` after the graph."""
    output = tracer.output
    return (
        torch._C.is_grad_enabled() is output.began_with_grad
        and torch.is_inference_mode_enabled() is output.began_in_inference
    )


def _attribute_source(node: torch.fx.Node) -> Source | None:
    """Source of an attribute of an input, such as ``x.T``, which the residual program reads again.

    None if that would be another tensor: the graph changed its sizes, or ``requires_grad``.
    """
    example = node.meta[EXAMPLE]
    # v = x.T; w = v.add_(1); u = w.contiguous()      three nodes, and one tensor
    same = [node]
    while ATTRIBUTE not in node.meta:
        before = [each for each in node.all_input_nodes if each.meta.get(EXAMPLE) is example]
        if not before:
            return None
        node = before[0]
        same.append(node)
    source, requires_grad = node.meta[ATTRIBUTE]
    is_read = example.requires_grad is requires_grad and not _has_new_sizes((*same, *node.all_input_nodes))
    return source if is_read else None


def _has_new_sizes(nodes: Sequence[torch.fx.Node]) -> bool:
    """True if the graph changes the sizes of a tensor: reading it again would return another one."""
    return any(changes_sizes(user) for node in nodes for user in node.users)


def changes_sizes(node: torch.fx.Node) -> bool:
    """True if a call changes sizes, strides or memory of its first argument."""
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    return name.partition(".")[0] in SIZE_CHANGES  # an overload is called ``unsqueeze_.default``


@functools.cache
def getter(name: str) -> object:
    """Function that an override is called with for an attribute: ``torch.Tensor.T.__get__``; None if there is none."""
    found: Any = getattr(torch.Tensor, name, None)
    has_getter = isinstance(found, types.GetSetDescriptorType) and not name.startswith("__")
    return found.__get__ if has_getter else None


DATA: Any = torch._C._autograd._get_data_attr  # type: ignore[attr-defined]
"""Function that torch's graphs call for ``x.data``."""


class TensorVariable(VariableTracker):
    """A tensor of the traced program: a node of the graph."""

    def __init__(self, node: torch.fx.Node, source: Source | None = None, cls: type = torch.Tensor) -> None:
        self.node = node
        self.source = source
        self.cls = cls

    may_be_missing = False
    """True for a gradient that may be None if nothing depends on its result, which a graph cannot express."""

    def identity(self) -> object:
        """The fake tensor: ``y.add_(1)`` is another node, and the same tensor."""
        return self.example

    def is_created_here(self) -> bool:
        return self.source is None

    @property
    def example(self) -> torch.Tensor:
        """The fake tensor: everything about the value but its data."""
        return self.node.meta["example_value"]

    def python_type(self) -> type:
        return self.cls

    def describe(self) -> str:
        return "TensorVariable()"

    def proxy(self) -> object:
        return self.node

    def hash_key(self, tracer: Tracer) -> Hashable:
        tracer.side_effects.keep_distinct(self.example, self)
        return ("tensor", id(self.example))

    def truth(self, tracer: Tracer) -> bool:
        raise breaks.unsupported(
            breaks.DATA_DEPENDENT_JUMP, f"attempted to jump with {self.describe()}", computed=_computed(self.node)
        )

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        answer = self._call_override(tracer, getter(name))  # an override sees a call of the getter
        if answer is not None:
            return answer
        if name in CONSTANT_ATTRIBUTES:  # each guard on a tensor implies these
            return ConstantVariable(getattr(self.example, name))
        if name == "shape":
            return tracer.sizes(self, "size")
        if name in GUARDED_ATTRIBUTES:
            return self._guarded_attribute(tracer, name)
        if name in GRAPH_ATTRIBUTES:
            return self._attribute_of_input(tracer, tracer.apply(getattr, (self, ConstantVariable(name))), name)
        if name == "data":
            return self._attribute_of_input(tracer, tracer.apply(DATA, (self,)), name)
        if name in ("grad", "_grad"):
            return self._grad(tracer)
        if name in ("grad_fn", "_grad_fn"):
            return self._grad_fn(tracer)
        if name == "__class__":
            return tracer.wrap(self.cls, None)
        shadowing = shadowing_attribute(tracer, self.node, self.source, name)
        if shadowing is not None:
            return shadowing
        return self._attribute_of_class(tracer, name)

    def _attribute_of_class(self, tracer: Tracer, name: str) -> VariableTracker:
        # ``hasattr`` of the class would also find members of the metaclass, and add ``__annotations__`` to the class.
        found = class_lookup(self.cls, name)
        if torch_internals.members.is_new_member(name) and found is not MISSING:
            return bound_member(tracer, self, name, found)
        if found is MISSING:
            return self._custom_attribute(tracer, name)
        if callable(found) or isinstance(found, classmethod):
            return TensorMethodVariable(self, name)
        return super().get_attribute(tracer, name)

    def _guarded_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        if name == "_base" and (base := computed_base(tracer, self.example)) is not None:
            return tracer.result(base)
        known = GUARDED_ATTRIBUTES[name](tracer, self.example, name)
        tracer.apply(getattr, (self, ConstantVariable(name)))  # torch's graphs have this node, too
        return ConstantVariable(known)

    def _call_override(
        self, tracer: Tracer, function: object, arguments: Arguments = (), keywords: Keywords | None = None
    ) -> VariableTracker | None:
        """Result of a method or attribute that a function mode or the tensor's class overrides; None without an
        override.
        """
        return None if function is None else tracer.call_override(function, [self, *arguments], keywords or {})

    def _attribute_of_input(self, tracer: Tracer, result: VariableTracker, name: str) -> VariableTracker:
        if isinstance(result, TensorVariable) and self.source is not None and _modes_are_unchanged(tracer):
            result.node.meta[ATTRIBUTE] = AttrSource(self.source, name), result.example.requires_grad
        return result

    def _grad(self, tracer: Tracer) -> VariableTracker:
        stored = tracer.side_effects.attribute(self, "grad")  # what the traced code stored
        if stored is not None:
            return stored
        real = self.example if self.source is None else tracer.real_value(self.source)
        assert isinstance(real, torch.Tensor)
        # Eager mode warns at each read, under the current filters: it is read between two graphs. If only one graph is
        # possible, as in a body, there is no warning.
        may_break = tracer.output.body is tracer.output.root and not tracer.output.options.fullgraph
        if may_break and real.requires_grad and not real.is_leaf and not real.retains_grad:
            raise breaks.unsupported(breaks.GRAD_FN, "var_getattr grad")
        if self.source is None:
            return ConstantVariable(None)
        return tracer.wrap(real.grad, AttrSource(self.source, "grad"))

    def _grad_fn(self, tracer: Tracer) -> VariableTracker:
        if self.example.grad_fn is None:
            guard_no_grad_fn(tracer, self.example)
            return ConstantVariable(None)
        raise breaks.unsupported(breaks.GRAD_FN, "var_getattr grad_fn")

    def _custom_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        overlay = tracer.side_effects.attribute(self, name)
        if overlay is not None:
            return overlay
        if self.source is not None:
            real = tracer.real_value(self.source)
            has = hasattr(real, name)
            tracer.guard(self.source, GuardKind.HASATTR, (name, has))
            if has:
                return tracer.wrap(getattr(real, name), AttrSource(self.source, name))
        tracer.raise_exception(AttributeError, f"'{self.cls.__name__}' object has no attribute '{name}'")

    def set_attribute(self, tracer: Tracer, name: str, value: VariableTracker) -> None:
        setter = TENSOR_SETTERS.get(name)  # ``x.data = y`` changes the tensor itself
        if setter is not None:
            setter(tracer, self, value)
        elif hasattr(torch.Tensor, name):
            raise breaks.unsupported(breaks.TENSOR_ATTRIBUTE, f"setattr({self.describe()}, {name})", name=name)
        else:
            tracer.side_effects.store_attribute(tracer, self, name, value)

    def call_method(self, tracer: Tracer, name: str, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        shadowing = shadowing_attribute(tracer, self.node, self.source, name)
        if shadowing is not None:
            return tracer.call(shadowing, arguments, keywords)
        method = None if name in SILENT else getattr(torch.Tensor, name, None)
        answer = self._call_override(tracer, method, arguments, keywords)
        if answer is not None:
            return answer
        special = TENSOR_METHODS.get(name)
        if special is not None:
            result = special(tracer, self, arguments, keywords)
            if result is not None:
                return result
        if name in CONSTANT_METHODS and all(each.is_constant() for each in (*arguments, *keywords.values())):
            values = [each.constant() for each in arguments]
            named = {key: each.constant() for key, each in keywords.items()}
            return tracer.constant_or_wrap(tracer.evaluate(getattr(self.example, name), values, named))
        if class_lookup(self.cls, name) is MISSING or self._is_added_to_tensor_class(name):
            return tracer.call(self.get_attribute(tracer, name), arguments, keywords)
        return tracer.apply_method(name, (self, *arguments), keywords)

    def _is_added_to_tensor_class(self, name: str) -> bool:
        """True if a new name was added to torch.Tensor or torch.nn.Parameter; not for names of a subclass."""
        if not torch_internals.members.is_new_member(name):
            return False
        found = class_lookup(self.cls, name)
        return any(found is class_lookup(cls, name) for cls in torch_internals.members.CLASSES)

    def get_item(self, tracer: Tracer, key: VariableTracker) -> VariableTracker:
        # A number of the graph would become a constant if it were used as an index.
        if isinstance(realise(tracer, key), SymbolicVariable):
            return tracer.apply(torch.select, (self, ConstantVariable(0), key))
        return tracer.apply(operator.getitem, (self, key))

    def set_item(self, tracer: Tracer, key: VariableTracker, value: VariableTracker) -> None:
        tracer.apply(operator.setitem, (self, key, value))

    def contains(self, tracer: Tracer, item: VariableTracker) -> bool:
        result = tracer.apply_method("__contains__", (self, item))
        return result.truth(tracer)

    def length(self, tracer: Tracer) -> VariableTracker:
        answer = self._call_override(tracer, torch.Tensor.__len__)
        if answer is not None:
            return answer
        if self.example.dim() == 0:
            tracer.raise_exception(TypeError, "len() of a 0-d tensor")
        return tracer.sizes(self, "size").get_item(tracer, ConstantVariable(0))

    def iterate(self, tracer: Tracer) -> VariableTracker:
        return tracer.iterator(self.unpack(tracer))

    def unpack(self, tracer: Tracer) -> list[VariableTracker]:
        answer = self._call_override(tracer, torch.Tensor.unbind, [ConstantVariable(0)])
        if answer is not None:
            return realise(tracer, answer).unpack(tracer)
        if self.example.dim() == 0:
            tracer.raise_exception(TypeError, "iteration over a 0-d tensor")
        length = int(self.example.shape[0])  # a dynamic size is specialised: the loop is unrolled
        return [self.get_item(tracer, ConstantVariable(index)) for index in range(length)]

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        if (
            self.node.op == "placeholder" and self.source is not None
        ):  # an input is read from its source, and is no output
            return FromSource(self.source)
        owner = reconstruction.tracer.side_effects.changed(self)
        attributes = None if owner is None else lambda: reconstruction.attributes(owner)
        source = _attribute_source(self.node) if _modes_are_unchanged(reconstruction.tracer) else None
        if source is not None:  # each read creates a new tensor: one for all trackers of this tensor
            return reconstruction.shared(owner or reconstruction.first_of(self), lambda: FromSource(source), attributes)
        if owner is None:
            return reconstruction.graph_output(self.node)
        return reconstruction.shared(owner, lambda: reconstruction.graph_output(self.node), attributes)


def bound_member(tracer: Tracer, owner: TensorVariable, name: str, found: object) -> VariableTracker:
    """Attribute of a tensor's class that the program added, not torch."""
    cls = AttrSource(ModuleSource("torch"), "Tensor") if owner.source is None else TypeSource(owner.source)
    source = ClassMemberSource(cls, name)
    match found:
        case types.FunctionType():
            return tracer.bound(tracer.wrap(found, source), owner)
        case property():
            return tracer.call(tracer.wrap(found.fget, AttrSource(source, "fget")), [owner])
        case staticmethod() | classmethod():
            return tracer.wrap(owner.cls, cls).get_attribute(tracer, name)
    if hasattr(type(found), "__get__"):
        raise breaks.unsupported(breaks.TENSOR_ATTRIBUTE, f"{owner.describe()}.{name} by {found!r:.80}", name=name)
    return tracer.wrap(found, source)


def _computed(node: torch.fx.Node) -> str:
    """Description, for error messages, of how and where a value was computed."""
    stack = node.meta.get(STACK)
    where = f" in line {stack[-1].line}, `{stack[-1].code}`," if stack else ""
    target = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", node.target)
    return f"{where} as {node.name} = {target}({', '.join(map(str, node.args))})"


class TensorMethodVariable(VariableTracker):
    """A bound method of a tensor, before it is called."""

    def __init__(self, tensor: TensorVariable, name: str) -> None:
        self.tensor, self.name = tensor, name

    def python_type(self) -> type:
        is_python = hasattr(getattr(torch.Tensor, self.name, None), "__code__")
        return types.MethodType if is_python else types.BuiltinMethodType

    def describe(self) -> str:
        return f"GetAttrVariable({self.tensor.describe()}, {self.name})"

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        return self.tensor.call_method(tracer, self.name, arguments, keywords)

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        return reconstruction.attribute(reconstruction.recipe(self.tensor), self.name)


Special = Callable[[Tracer, TensorVariable, Arguments, Keywords], "VariableTracker | None"]
TENSOR_METHODS: dict[str, Special] = {}
TENSOR_SETTERS: dict[str, Callable[[Tracer, TensorVariable, VariableTracker], None]] = {}
"""Attributes whose assignment does more than store a value."""


def method(*names: str) -> Callable[[Special], Special]:
    """Register a handler of methods of a tensor; if it returns None, the call becomes a node, as of other methods."""

    def register(function: Special) -> Special:
        for name in names:
            assert name not in TENSOR_METHODS, name
            TENSOR_METHODS[name] = function
        return function

    return register
