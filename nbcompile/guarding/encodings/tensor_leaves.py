"""Guards on a tensor: text, predicate and leaf guard of each.

    TENSOR_MATCH    text  check_tensor(L['x'], Tensor, ..., size=[3], stride=[1])     install  add_tensor_match_guard

In torch: GuardBuilder.TENSOR_MATCH in torch/_dynamo/guards.py. Read next: nbcompile/guarding/encodings/ambient.py
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, cast

import torch

from nbcompile.capture.guard import Guard, TensorFacts, TensorMarks, tensor_property
from nbcompile.guarding.prepared import ExpectedObject, Leaf, TensorTraits
from nbcompile.guarding.values import never_raising, spelled_property


def tensor_match(guard: Guard, name: str, value: object) -> Leaf:
    assert isinstance(guard.expected, TensorFacts) and isinstance(value, torch.Tensor)
    metadata, cls, keys = guard.expected, ExpectedObject(type(value)), torch._C._dispatch_keys(value)
    # A size that is a symbol is None here: conditions on it are in the SHAPE_ENV guard.
    sizes = list(metadata.sizes)
    strides: list[int | None] = [None] * len(sizes) if metadata.strides is None else list(metadata.strides)
    traits = (value.dtype, value.device.type, value.device.index, value.requires_grad, keys.raw_repr())
    text = (
        f"check_tensor({name}, {type(value).__qualname__}, {keys}, {value.dtype}, device={value.device.index}, "
        f"requires_grad={value.requires_grad}, size={sizes}, stride={strides})"
    )

    def holds(value: object) -> bool:
        if id(type(value)) != cls.address:
            return False
        tensor = cast("torch.Tensor", value)
        current = (tensor.dtype, tensor.device.type, tensor.device.index, tensor.requires_grad)
        return (
            (*current, torch._C._dispatch_keys(tensor).raw_repr()) == traits
            and tensor.dim() == len(sizes)
            and all(expected is None or expected == size for expected, size in zip(sizes, tensor.shape, strict=True))
            and (set(strides) <= {None} or _strides_match(strides, tensor.stride()))
        )

    def install(manager: Any) -> None:
        if value.dim() != len(sizes):
            # The value need not be the traced one (it may be loaded), and torch reads no sizes as this value's sizes.
            manager.add_lambda_guard(never_raising(holds), [text], None)
            return
        manager.add_tensor_match_guard(value, sizes, strides, name, [text], None, type(value), keys)

    expected_traits = TensorTraits(cls, value.dtype, value.device, value.requires_grad, keys.raw_repr())
    return Leaf(guard, text, holds, install, expected_traits)


def _strides_match(expected: list[int | None], found: tuple[int, ...]) -> bool:
    return all(stride is None or stride == actual for stride, actual in zip(expected, found, strict=True))


def dimension_marking(guard: Guard, name: str, value: object) -> Leaf:
    assert isinstance(guard.expected, TensorMarks)
    present, absent = dict(guard.expected.present), guard.expected.absent
    parts = [f"hasattr({name}, {mark!r}) == False" for mark in absent] + [
        f"getattr({name}, {mark!r}, set()) <= {set(dims)!r}" for mark, dims in present.items()
    ]

    def holds(value: object) -> bool:
        return not any(hasattr(value, mark) for mark in absent) and all(
            set(getattr(value, mark, ())) <= dims for mark, dims in present.items()
        )

    def install(manager: Any) -> None:
        expected = {mark: set(dims) for mark, dims in present.items()}
        if hasattr(manager, "add_dimension_marking_guard"):
            manager.add_dimension_marking_guard(expected, list(absent), {}, [text], None)
        else:  # before torch 2.13
            manager.add_lambda_guard(holds, [text], None)

    text = " and ".join(parts)
    return Leaf(guard, text, holds, install)


def tensor_property_match(guard: Guard, name: str, value: object) -> Leaf:
    property_name, expected = cast("tuple[str, bool]", guard.expected)
    text = f"{name}.{spelled_property(property_name)} is {expected}"
    holds = never_raising(lambda value: tensor_property(cast("torch.Tensor", value), property_name) is expected)
    return Leaf(guard, text, holds, lambda manager: manager.add_lambda_guard(holds, [text], None))


def metadata_match(guard: Guard, name: str, value: object) -> Leaf:
    expected, text = guard.expected, f"{name}.__tensor_flatten__()[1] == {guard.expected!r}"
    compare: Callable[[object, object], bool] = getattr(type(value), "__metadata_guard__", operator.eq)

    def holds(value: Any) -> bool:
        return bool(compare(expected, value.__tensor_flatten__()[1]))

    return Leaf(guard, text, holds, lambda manager: manager.add_lambda_guard(never_raising(holds), [text], None))
