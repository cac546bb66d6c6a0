"""Methods and attributes of a tensor that are more than a node of their name.

    x.size(0)             known while tracing
    x.data_ptr()          read after the graph
    x.data = y            set_ in the graph, hidden from autograd
    y.backward()          calls/differentiation.py

In torch: TensorVariable.method_* in torch/_dynamo/variables/tensor.py. Read next:
nbcompile/tracing/calls/tensor_hooks.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from nbcompile import config, torch_internals
from nbcompile.capture.guard import GuardKind
from nbcompile.capture.recipe import Attribute, Call, Recipe
from nbcompile.capture.source import SizeSource
from nbcompile.tracing import breaks
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.slices import index_of
from nbcompile.tracing.variables.symbolic import SymbolicVariable
from nbcompile.tracing.variables.tensor import TENSOR_METHODS, TENSOR_SETTERS, Special, TensorVariable, method
from nbcompile.tracing.variables.tensor_properties import known_property


def _size_of(name: str) -> Special:
    def size(
        tracer: Tracer, tensor: TensorVariable, arguments: Arguments, keywords: Keywords
    ) -> VariableTracker | None:
        sizes = tracer.sizes(tensor, name)
        dim = realise(tracer, arguments[0] if arguments else keywords.get("dim", ConstantVariable(None)))
        if dim.is_constant() and dim.constant() is None:
            return sizes
        dim = ConstantVariable(dim.specialise()) if isinstance(dim, SymbolicVariable) else dim
        if not dim.is_constant() and dim.fits_a_node():
            return None
        index = dim.constant() if dim.is_constant() else index_of(tracer, dim)
        rank = tensor.example.dim()
        if type(index) is not int or not -rank <= index < rank:
            # A tensor of that rank on the meta device raises torch's own error.
            tracer.evaluate(getattr(torch.empty((1,) * rank, device="meta"), name), (index,))
        return sizes.get_item(tracer, ConstantVariable(index))

    return size


def _property(name: str) -> Special:
    def answer(
        tracer: Tracer, tensor: TensorVariable, arguments: Arguments, keywords: Keywords
    ) -> VariableTracker | None:
        if arguments or keywords:  # ``is_pinned(device)`` has an argument
            return None
        return ConstantVariable(known_property(tracer, tensor.example, name))

    return answer


TENSOR_METHODS["size"] = _size_of("size")
TENSOR_METHODS["stride"] = _size_of("stride")
TENSOR_METHODS.update({name: _property(name) for name in ("is_shared", "is_pinned", "_is_view")})


@method("is_set_to")
def _is_set_to(tracer: Tracer, tensor: TensorVariable, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    # It depends on addresses, which fake tensors lack and no guard can check.
    context = f"call_method {tensor.describe()} is_set_to"
    raise breaks.unsupported(breaks.UNSUPPORTED_METHOD, context, name="is_set_to", type="Tensor")


def _check_no_arguments(
    tracer: Tracer, function: Callable[..., object], arguments: Arguments, keywords: Keywords
) -> None:
    """Raise the TypeError of a method without arguments."""
    if arguments or keywords:
        # A plain tensor is called: the method of a fake one has another name in the message.
        tracer.evaluate(function, [torch.empty(0), *[None] * len(arguments)], dict.fromkeys(keywords))


@method("numel", "nelement")
def _numel(tracer: Tracer, tensor: TensorVariable, arguments: Arguments, keywords: Keywords) -> VariableTracker | None:
    _check_no_arguments(tracer, torch.Tensor.numel, arguments, keywords)
    count = tensor.example.numel()
    return ConstantVariable(count) if isinstance(count, int) else tracer.apply_method("numel", (tensor,))


@method("storage_offset")
def _offset(tracer: Tracer, tensor: TensorVariable, arguments: Arguments, keywords: Keywords) -> VariableTracker | None:
    _check_no_arguments(tracer, torch.Tensor.storage_offset, arguments, keywords)
    offset = tensor.example.storage_offset()
    # The storage offset of an input is in no tensor guard.
    if tensor.source is not None and isinstance(offset, int):
        tracer.guard(SizeSource(tensor.source, "storage_offset"), GuardKind.EQUALS_MATCH, offset)
    return ConstantVariable(offset) if isinstance(offset, int) else tracer.apply_method("storage_offset", (tensor,))


SCALED: dict[str, tuple[str, Callable[..., object] | None]] = {
    "add_": ("alpha", None), "addcmul_": ("value", torch.mul), "addcdiv_": ("value", torch.div),
}  # fmt: skip
"""Methods with a scale: its keyword, and the function that combines the operands first."""


def _scaled(keyword: str, combine: Callable[..., object] | None) -> Special:
    def method(
        tracer: Tracer, tensor: TensorVariable, arguments: Arguments, keywords: Keywords
    ) -> VariableTracker | None:
        scale = keywords.get(keyword)
        if scale is None or not isinstance(realise(tracer, scale), TensorVariable):
            return None
        operands = [*arguments, *(each for name, each in keywords.items() if name != keyword)]
        # ``add_(x, alpha=t)`` would read t on the host. As ``add_(x * t)`` it stays in the graph.
        added = operands[0] if combine is None else tracer.apply(combine, operands)
        return tracer.apply_method("add_", (tensor, tracer.apply(torch.mul, (added, scale))))

    return method


for _name, (_keyword, _combine) in SCALED.items():  # a computed step size: its data is not read
    TENSOR_METHODS[_name] = _scaled(_keyword, _combine)


@method("is_inference")
def _is_inference(
    tracer: Tracer, tensor: TensorVariable, arguments: Arguments, keywords: Keywords
) -> VariableTracker | None:
    raise breaks.unsupported(breaks.IS_INFERENCE, "")


@method("tolist")
def _tolist(tracer: Tracer, tensor: TensorVariable, arguments: Arguments, keywords: Keywords) -> VariableTracker | None:
    if tensor.example.dtype not in (torch.int8, torch.int16, torch.int32, torch.int64):
        raise breaks.unsupported(breaks.TOLIST, f"call_method {tensor.describe()} to_list")
    if tensor.example.dim() == 0:
        return tracer.apply_method("item", (tensor,))
    # The list is Python's, so its length must be known: the loop over rows is unrolled.
    positions = map(ConstantVariable, range(int(tensor.example.shape[0])))
    return tracer.list_of([tensor.get_item(tracer, each).call_method(tracer, "tolist", [], {}) for each in positions])


@method("requires_grad_")
def _requires_grad(
    tracer: Tracer, tensor: TensorVariable, arguments: Arguments, keywords: Keywords
) -> VariableTracker | None:
    given = (*arguments, *keywords.values())
    requested = realise(tracer, given[0]).constant() if given else True
    # A change without an effect needs no node.
    if tensor.example.requires_grad == requested:
        return tensor
    # ``requires_grad_`` of an input changes an object from outside; of a result, only ``True`` is traced.
    if tensor.source is not None or not requested:
        raise breaks.unsupported(breaks.REQUIRES_GRAD, f"call_method {tensor.describe()} requires_grad_")
    if "requires_grad_" in tracer.output.must_break:
        raise breaks.unsupported(breaks.LEAF_LEAKS, f"call_method {tensor.describe()} requires_grad_")
    # Functionalization allows requires_grad_ only between these two calls.
    for function, setting in LEAF_STEPS:
        if function is None:
            tracer.output.apply("call_method", "requires_grad_", (tensor.node,), {})
        else:
            tracer.output.state_call(function, (setting,))
    tracer.output.new_leaves.append(tensor.node)
    return tensor


_allow_leaves: Any = torch._C._functorch.set_inplace_requires_grad_allowed
LEAF_STEPS: tuple[tuple[Any, bool], ...] = ((_allow_leaves, True), (None, True), (_allow_leaves, False))
"""Nodes for ``y.requires_grad_()`` of an intermediate result."""


class AddressVariable(VariableTracker):
    """``x.data_ptr()``: read after the graph has run, so that it can be passed on, not used."""

    def __init__(self, tensor: TensorVariable) -> None:
        self.tensor = tensor

    def python_type(self) -> type:
        return int

    def describe(self) -> str:
        return f"DataPtrVariable({self.tensor.describe()})"

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        return Call(Attribute(reconstruction.recipe(self.tensor), "data_ptr"))


@method("__deepcopy__")
def _deepcopy(
    tracer: Tracer, tensor: TensorVariable, arguments: Arguments, keywords: Keywords
) -> VariableTracker | None:
    raise breaks.unsupported(breaks.DEEPCOPY, f"copy.deepcopy({tensor.describe()})")


@method("data_ptr")
def _data_ptr(
    tracer: Tracer, tensor: TensorVariable, arguments: Arguments, keywords: Keywords
) -> VariableTracker | None:
    return AddressVariable(tensor)


@method(
    "retain_grad",
    "untyped_storage",
    "storage",
    "__array__",
    "__reduce__",
    "__reduce_ex__",
    "__getstate__",
    "__setstate__",
    "__sizeof__",
    "__dir__",
    "__new__",
    "__init__",
    "__init_subclass__",
    "__subclasshook__",
    "share_memory_",
    "apply_",
    "map_",
    "pin_memory",
    "__dlpack__",
)
def _untraced(
    tracer: Tracer, tensor: TensorVariable, arguments: Arguments, keywords: Keywords
) -> VariableTracker | None:
    raise breaks.unsupported(
        breaks.UNSUPPORTED_METHOD, f"a method of {tensor.describe()} that leaves the graph", name="this", type="Tensor"
    )


@method("resize_", "resize_as_")
def _resize(tracer: Tracer, tensor: TensorVariable, arguments: Arguments, keywords: Keywords) -> VariableTracker | None:
    raise breaks.unsupported(breaks.RESIZE, f"call_method {tensor.describe()} resize_", name="Tensor.resize_")


@method("new_tensor")
def _new_tensor(
    tracer: Tracer, tensor: TensorVariable, arguments: Arguments, keywords: Keywords
) -> VariableTracker | None:
    like = {"dtype": ConstantVariable(tensor.example.dtype), "device": ConstantVariable(tensor.example.device)}
    return tracer.call(tracer.wrap(torch.tensor, None), arguments, {**like, **keywords})


@method("new")
def _new(tracer: Tracer, tensor: TensorVariable, arguments: Arguments, keywords: Keywords) -> VariableTracker | None:
    given = [realise(tracer, each) for each in arguments]
    is_size = [each.python_type() for each in given] == [torch.Size]  # a torch.Size would be a tuple in a graph
    if is_size or (
        given and not keywords and all(each.is_constant() and type(each.constant()) is int for each in given)
    ):
        return tracer.apply_method("new_empty", (tensor, *given))
    return None


@method("type")
def _type(tracer: Tracer, tensor: TensorVariable, arguments: Arguments, keywords: Keywords) -> VariableTracker | None:
    if not arguments and not keywords:
        return ConstantVariable(tensor.example.type())
    return None


@method("__getitem__")
def _getitem(
    tracer: Tracer, tensor: TensorVariable, arguments: Arguments, keywords: Keywords
) -> VariableTracker | None:
    if len(arguments) != 1 or keywords:
        tracer.evaluate(tensor.example.__getitem__, [0] * len(arguments), dict.fromkeys(keywords))
    return tensor.get_item(tracer, arguments[0])


@method("__setitem__")
def _setitem(
    tracer: Tracer, tensor: TensorVariable, arguments: Arguments, keywords: Keywords
) -> VariableTracker | None:
    if len(arguments) != 2 or keywords:
        tracer.evaluate(tensor.example.__setitem__, [0] * len(arguments), dict.fromkeys(keywords))
    tensor.set_item(tracer, arguments[0], arguments[1])
    return ConstantVariable(None)


@method("__len__")
def _len(tracer: Tracer, tensor: TensorVariable, arguments: Arguments, keywords: Keywords) -> VariableTracker | None:
    return tensor.length(tracer)


def _as_builtin(function: Callable[..., object]) -> Special:
    """A special method of ``object``, as the builtin function that calls it, not as a method of the fake tensor."""

    def call(tracer: Tracer, tensor: TensorVariable, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        return tracer.call(tracer.wrap(function, None), [tensor, *arguments], keywords)

    return call


TENSOR_METHODS |= {
    "__hash__": _as_builtin(hash), "__repr__": _as_builtin(repr), "__str__": _as_builtin(str),
    "__format__": _as_builtin(format), "__setattr__": _as_builtin(setattr), "__delattr__": _as_builtin(delattr),
    "__getattribute__": _as_builtin(getattr),
}  # fmt: skip


def _number(name: str, kind: type | None) -> Special:
    """A tensor of one element as a number, of the type in the method's name."""

    def number(
        tracer: Tracer, tensor: TensorVariable, arguments: Arguments, keywords: Keywords
    ) -> VariableTracker | None:
        if not config.capture_scalar_outputs and not tracer.output.options.fullgraph:
            raise breaks.unsupported(breaks.TENSOR_ITEM, f"call_method {tensor.describe()} {name} () {{}}")
        if kind is None:
            return tracer.apply_method("item", (tensor,))
        example = tensor.example
        count = example.numel()
        rejected = name == "__index__" and (example.is_floating_point() or example.is_complex())
        if rejected or (isinstance(count, int) and count != 1):
            # A tensor of that dtype, with no, one or several elements, raises torch's own error.
            tracer.evaluate(getattr(torch.zeros(count if count in (0, 1) else 2, dtype=example.dtype), name), ())
        owner: VariableTracker = tensor
        if example.dtype is torch.bool and kind is not bool:  # the symbol of a truth value cannot be a number
            owner = tracer.apply_method("to", (tensor, ConstantVariable(torch.int64)))
        return tracer.call(tracer.wrap(kind, None), [tracer.apply_method("item", (owner,))])

    return number


_NUMBERS = {
    "item": None,
    "__int__": int,
    "__float__": float,
    "__index__": int,
    "__bool__": bool,
    "__complex__": complex,
}
TENSOR_METHODS |= {name: _number(name, kind) for name, kind in _NUMBERS.items()}


@method("__iter__")
def _iter(tracer: Tracer, tensor: TensorVariable, arguments: Arguments, keywords: Keywords) -> VariableTracker | None:
    return tensor.iterate(tracer)


# -- attributes that are set -----------------------------------------------------------------


def _set_data(tracer: Tracer, tensor: TensorVariable, value: VariableTracker) -> None:
    """``x.data = y``: other memory, hidden from autograd."""
    context = f"setattr({tensor.describe()}, data, {value.describe()})"
    if tensor.source is None or not isinstance(value, TensorVariable):
        raise breaks.unsupported(breaks.DATA_OF_RESULT, context)
    if value.example.dtype != tensor.example.dtype:
        raise breaks.unsupported(breaks.DATA_OF_OTHER_DTYPE, context, requested=value.example.dtype)
    # ``set_`` makes the tensor use the other memory. Autograd must see neither the write nor the new version, which
    # ``x.data = y`` hides in eager mode.
    output, enabled = tracer.output, torch._C.is_grad_enabled()
    output.state_call(torch._C._set_grad_enabled, (False,))
    written = output.apply("call_function", torch.Tensor.set_, (tensor.node, value.node), {})
    output.state_call(torch._C._set_grad_enabled, (enabled,))
    output.apply("call_function", torch_internals.undo_last_version_bump, (written,), {})


def _set_requires_grad(tracer: Tracer, tensor: TensorVariable, value: VariableTracker) -> None:
    context = f"setattr({tensor.describe()}, requires_grad, {value.describe()})"
    raise breaks.unsupported(breaks.SET_REQUIRES_GRAD, context)


def _set_grad(tracer: Tracer, tensor: TensorVariable, value: VariableTracker) -> None:
    is_gradient = isinstance(value, TensorVariable) or (value.is_constant() and value.constant() is None)
    if tensor.source is None or not is_gradient:
        raise breaks.unsupported(breaks.TENSOR_ATTRIBUTE, f"setattr({tensor.describe()}, grad)", name="grad")
    tracer.side_effects.store_attribute(tracer, tensor, "grad", value)


TENSOR_SETTERS.update(data=_set_data, requires_grad=_set_requires_grad, grad=_set_grad)
