"""Functions that a graph calls as one node: their containers, modules and parameters.

In torch: torch/_higher_order_ops/flat_apply.py, torch/_dynamo/decorators.py.
Read next: nbcompile/torch_internals/logs.py
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class PytreeNode:
    """The functions that flatten objects of a registered class."""

    flatten: Any
    unflatten: Any
    constant: bool = False
    fields: tuple[str, ...] | None = None
    """The fields of a dataclass."""


def pytree_node(cls: type) -> PytreeNode | None:
    """The registration of a class with ``torch.utils._pytree``; None if there is none."""
    pytree = importlib.import_module("torch.utils._pytree")
    if cls in getattr(pytree, "CONSTANT_NODES", ()):
        return PytreeNode(None, None, constant=True)
    found = pytree.SUPPORTED_NODES.get(cls)
    if found is None:
        return None
    fields = tuple(each.name for each in dataclasses.fields(cls)) if dataclasses.is_dataclass(cls) else None
    return PytreeNode(found.flatten_fn, found.unflatten_fn, fields=fields)


def module_tensors(module: torch.nn.Module) -> list[str]:
    """The names of a module's parameters and buffers, each once."""
    return [name for name, _ in (*module.named_parameters(), *module.named_buffers())]


@contextmanager
def parameters_set(values: Sequence[Any], modules: Sequence[tuple[torch.nn.Module, dict[str, int]]]) -> Iterator[None]:
    """Give each module the tensors of a node for its parameters and buffers in the block."""
    set_tensors = importlib.import_module("torch.nn.utils.stateless")._reparametrize_module
    with ExitStack() as stack:
        for module, names in modules:
            stack.enter_context(set_tensors(module, {name: values[index] for name, index in names.items()}))
        yield


def call_leaf(
    real: Any, fake: Any, hook: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], mutated: frozenset[str]
) -> Any:
    """Call a function through torch's higher-order operator for leaf functions (torch 2.13).

    ``hook``, if any, is called with the gradients of all inputs once they are known.
    """
    leaf = importlib.import_module("torch._higher_order_ops.invoke_leaf_function")
    pytree = importlib.import_module("torch.utils._pytree")
    flat = pytree.tree_flatten((arguments, keywords), is_leaf=lambda value: isinstance(value, torch.nn.Module))[0]
    # Each module once, however often it is passed: its parameters are inputs of the operator once.
    modules = list({id(each): each for each in flat if isinstance(each, torch.nn.Module)}.values())
    indices = leaf.store_makefx_modules(modules)
    # A module is replaced by its parameters and buffers, which become inputs of the operator, so
    # that they get gradients.
    states = leaf.convert_modules_to_states(
        (arguments, keywords), {id(each): index for each, index in zip(modules, indices, strict=True)}
    )
    inputs, structure = pytree.tree_flatten(states)
    returned: list[Any] = [None]
    wrapped = list(map(leaf._LeafCallable, leaf.make_leaf_function_wrappers(real, fake, returned)))
    if hook is not None:
        wrapped[0]._leaf_hook_real_fn, wrapped[0]._leaf_hook_fake_fn = hook, lambda *gradients: None
    mutated_indices = leaf._resolve_mutated_flat_indices(real, mutated, len(inputs), structure) if mutated else ""
    outputs = leaf.invoke_leaf_function(*wrapped, structure, mutated_indices, *inputs)
    return pytree.tree_unflatten(outputs, returned[0])
