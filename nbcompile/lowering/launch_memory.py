"""Memory of the tensors that a launch of the user's Triton kernel writes: that of their base, seen through views.

    y = x * 2;  kernel(y[:10])      memory for y; the launch gets a view of it; y afterwards is that memory
    kernel(x), x an input           the launch writes x itself, where nothing reads its old content any more; so
                                    do all launches of a chain of which the last one's result is put into x

So a parameter sees what is written by way of another one, of another type, too; and what a kernel writes outside a view
is in the base. The traced graph puts what was written back into the base (``slice_scatter``): those nodes have nothing
to do here.

In torch: torch/_inductor/fx_passes/reinplace.py. Read next: nbcompile/lowering/user_kernels.py
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from nbcompile import torch_internals
from nbcompile.ir.index import indices
from nbcompile.ir.layout import of_tensor
from nbcompile.lowering.builder import Builder
from nbcompile.lowering.registry import NoLowering
from nbcompile.lowering.value import Value, single_load

aten = torch.ops.aten
_MAKES_MEMORY = frozenset(
    {
        aten.empty.memory_format, aten.empty_strided.default, aten.empty_like.default, aten.new_empty.default,
        aten.empty_permuted.default, aten.new_empty_strided.default,
    }
)  # fmt: skip
"""Operators whose result has not been written to."""
_SCATTERS: dict[Any, Any] = {
    aten.slice.Tensor: aten.slice_scatter.default, aten.select.int: aten.select_scatter.default,
    aten.diagonal.default: aten.diagonal_scatter.default, aten.as_strided.default: aten.as_strided_scatter.default,
}  # fmt: skip
"""Operators that put a part back into its base, by the view that was the part."""
_LISTS = (aten.unbind.int, aten.split.Tensor, aten.split_with_sizes.default)
"""Operators that divide a tensor into views: each is an item of their result."""
VIEW_REASON = "a view of another type, for a Triton kernel of the program's own"


@dataclass(slots=True)
class Group:
    """Arguments that are views of one tensor, the base, of which one at least is written."""

    base: fx.Node
    views: list[fx.Node]
    written: list[tuple[fx.Node, fx.Node | None]] = field(default_factory=list)
    """Views that are written, each with its result in the graph."""
    whole: set[fx.Node] = field(default_factory=set)
    """Results that are the base after the launch."""
    rebuilt: dict[fx.Node, fx.Node] = field(default_factory=dict)
    """Nodes that put results back, each with the view, or the base, whose memory it is."""
    buffers: set[str] = field(default_factory=set)
    """Buffers over the memory."""


def groups(launch: fx.Node, given: Mapping[str, Any], names: Sequence[str]) -> list[Group]:
    """The groups of a launch."""
    views: dict[fx.Node, dict[fx.Node, None]] = {}
    for value in given.values():
        if isinstance(value, fx.Node) and isinstance(value.meta["val"], torch.Tensor):
            views.setdefault(base_of(value), {})[value] = None
    results = {user.args[1]: user for user in launch.users}
    found = [Group(base, list(nodes)) for base, nodes in views.items()]
    for group in found:
        group.written = [(given[name], results.get(name)) for name in names if given[name] in group.views]
        _find_rebuilt(group)
    return [group for group in found if group.written]


def base_of(node: fx.Node) -> fx.Node:
    """The tensor that a node is a view of, itself if it is none."""
    while _is_view(node):
        node = _above(node)
    return node


def _is_view(node: fx.Node) -> bool:
    """Return whether a node is a tensor that is a view of another node's."""
    if not isinstance(node.meta.get("val"), torch.Tensor):
        return False
    if _is_item(node):
        return True
    return isinstance(node.target, torch._ops.OpOverload) and node.target.is_view and len(node.all_input_nodes) == 1


def _is_item(node: fx.Node) -> bool:
    return node.target is operator.getitem and isinstance(node.args[0], fx.Node) and node.args[0].target in _LISTS


def _above(view: fx.Node) -> fx.Node:
    """The base tensor of a view."""
    above = view.all_input_nodes[0]
    return above.all_input_nodes[0] if _is_item(view) else above


def _users(node: fx.Node) -> list[fx.Node]:
    """The users of a tensor, items instead of the lists that they are in."""
    return [found for user in node.users for found in (user.users if user.target in _LISTS else (user,))]


def _find_rebuilt(group: Group) -> None:
    for level, result in group.written:
        if result is not None:
            _follow(group, level, result)


def _follow(group: Group, level: fx.Node, result: fx.Node) -> None:
    """Follow a result from the view that was written to the base."""
    # From the view that was written up to the base, one step a
    # turn; each step needs the node that puts the result back:
    #      base                     slice_scatter(base, up, ...)      is the base after the launch
    #       | slice                  ^
    #      above                    up = slice_scatter(above, r, ...)
    #       | slice                  ^
    #      level (the argument)     r, the launch's result for it
    while level is not group.base:
        above = _above(level)
        if not _is_same(level, above):  # not for a ``detach``, which has nothing to put back
            users = ((user, node) for node in _copies_of(result) for user in node.users)
            up = next((user for user, node in users if _puts_back(group, user, node, level, above)), None)
            if up is None:
                return
            group.rebuilt[up] = above
            result = up
        level = above
    group.whole.update(_copies_of(result))


def _elements(group: Group, node: fx.Node) -> tuple[object, ...] | None:
    """Elements of the base's memory that a node is, before the launch or after it; None if it is none."""
    #     view(above, [10, 10]) is computed again by the traced graph where something is put into it
    root = base_of(node)
    level = group.base if root is group.base or root in group.whole else group.rebuilt.get(root)
    if level is None:
        return None
    start = _start(node) - _start(root) + _start(level) - _start(group.base)
    value = node.meta["val"]
    layout = of_tensor(value)
    return (layout.size, layout.stride, value.dtype, start)


def _start(node: fx.Node) -> Any:
    """Bytes from the beginning of its storage."""
    value = node.meta["val"]
    return indices((value.storage_offset(),))[0] * value.dtype.itemsize


def _copies_of(node: fx.Node) -> list[fx.Node]:
    """A node, and others for the same tensor (``detach``)."""
    found = [node]
    for known in found:  # it grows
        found.extend(user for user in _users(known) if _is_view(user) and _is_same(user, known))
    return found


def _is_same(one: fx.Node, other: fx.Node) -> bool:
    first, second = one.meta["val"], other.meta["val"]
    same_start = _start(one) == _start(other)
    return bool(same_start and first.dtype == second.dtype and of_tensor(first) == of_tensor(second))


def _puts_back(group: Group, user: fx.Node, result: fx.Node, level: fx.Node, above: fx.Node) -> bool:
    """Return whether a node makes, of what a view has become, what the tensor above it has become."""
    #     level = slice(above, 0, 10, 20)     user = slice_scatter(above, result, 0, 10, 20)
    #     level = view(above, int32)          user = view(result, float32)
    scatter, part = _scatter_of(level)
    if user.target is scatter:
        into: Any = user.args[0]
        is_part = user.args[1:] == (result, *part) and not user.kwargs
        return is_part and _elements(group, into) == _elements(group, above)
    if not _is_view(user) or not _is_view(level):
        return False
    below, over, put = (of_tensor(node.meta["val"]) for node in (level, above, user))
    sizes = [node.meta["val"].dtype.itemsize for node in (level, above)]
    starts = _start(level) == _start(above)
    covers = below.elements * sizes[0] == over.elements * sizes[1] == over.span * sizes[1] == below.span * sizes[0]
    type_is_same = user.meta["val"].dtype == above.meta["val"].dtype
    return bool(starts and covers and type_is_same and (put.size, put.stride) == (over.size, over.stride))


def _scatter_of(view: fx.Node) -> tuple[Any, tuple[object, ...]]:
    """The operator that puts a part back into its base, and what says which part it is."""
    #     split(above, 30, 0)[1]     slice_scatter(above, result, 0, 30, 60)
    if not _is_item(view):
        return _SCATTERS.get(view.target), view.args[1:]
    items: Any = view.args[0]
    number: Any = view.args[1]
    above = _above(view).meta["val"]
    is_unbound = items.target is aten.unbind.int
    after_dim = items.args[1 if is_unbound else 2 :]
    dim = items.kwargs.get("dim", after_dim[0] if after_dim else 0) % above.dim()
    if is_unbound:
        return aten.select_scatter.default, (dim, number)
    sizes = [part.shape[dim] for part in items.meta["val"]]
    first = sum(sizes[:number])
    return aten.slice_scatter.default, (dim, first, first + sizes[number])


def memory_of(
    build: Builder, launch: fx.Node, group: Group, values: Mapping[fx.Node, Any]
) -> dict[fx.Node, Value] | None:
    """Views of the memory that the launch writes, by argument; None where one cannot be a view of a buffer."""
    base = group.base
    whole = _whole(build, launch, group, values)
    own = build.as_argument(whole, None, True).buffer
    group.buffers.add(own)
    replayed = {base: whole}
    try:
        views = {node: _replayed(build, node, replayed, group) for node in group.views}
        known = {node: _replayed(build, level, replayed, group) for node, level in group.rebuilt.items()}
    except (NoLowering, KeyError):
        return None
    # What is no view of the memory would be stored in its own memory, where the others do not see what is
    # written to it.
    arguments = (build.as_argument(view, of_tensor(node.meta["val"]), False) for node, view in views.items())
    if any(argument.buffer not in group.buffers for argument in arguments):
        return None
    if _buffer(whole) == _buffer(values[base]):  # the launch writes an input itself: it need not be copied there
        root = build.launch_inputs.get(base, base)
        build.launch_inputs |= dict.fromkeys(group.whole, root)
        known |= {copy: whole for node in group.whole for copy in _copies(root, node)}
    build.known.update(known)
    return views


def _whole(build: Builder, launch: fx.Node, group: Group, values: Mapping[fx.Node, Any]) -> Value:
    base = group.base
    value: Value = values[base]
    # The launch may write the memory that is there, if nothing needs its old content: memory that only launches
    # have written is this graph's own, and an input gets the result in the end (copy_), whichever way it takes.
    is_mine = _buffer(value) in build.written_by_launches
    ends = _ends(build.launch_inputs.get(base, base), group)
    if (is_mine or ends) and _is_last_reader(launch, group, values, ends):
        return value
    if base.target in _MAKES_MEMORY and _is_unread(base, {launch, *group.rebuilt}):
        whole = memory_for(build, base.meta["val"])
    else:
        # What is computed is stored only for this launch: other readers compute it themselves. A buffer that is
        # there already may have other readers.
        whole = build.realize(value, of_tensor(base.meta["val"]), copy=build.view_of(value) is not None)
    build.written_by_launches.add(_buffer(whole))
    return whole


def _is_unread(node: fx.Node, allowed: set[fx.Node], lowered: Mapping[fx.Node, Any] | None = None) -> bool:
    """Return whether a tensor is used by nothing else, but for views of which the same holds; lowered users aside."""
    return all(
        user in allowed or (_is_view(user) and _is_unread(user, allowed))
        for user in _users(node)
        if user not in (lowered or ())
    )


def _ends(base: fx.Node, group: Group) -> list[fx.Node]:
    """The nodes that put into an input what this launch writes, or what others that follow make of it."""
    #     r1 = launch(x);  r2 = launch(r1[5:]);  r3 = slice_scatter(r1, r2, ...);  copy_(x, r3)
    if base.op != "placeholder":
        return []
    found = [copy for node in group.whole for copy in _copies(base, node)]
    waiting = list(group.whole)
    for node in waiting:  # it grows
        for user in _users(node):
            if torch_internals.is_kernel_launch(user.target):
                found.extend(end for later in _later(user, group.whole) for end in _ends(base, later))
            elif _is_view(user) and user not in group.whole:
                waiting.append(user)
    return list(dict.fromkeys(found))


def _later(launch: fx.Node, whole: set[fx.Node]) -> list[Group]:
    """The groups of another launch that writes what one before it has written."""
    given: Any = launch.kwargs["kwargs"]
    names: Any = launch.kwargs.get("tensors_to_clone", ())
    return [group for group in groups(launch, given, names) if group.base in whole]


def _copies(base: fx.Node, result: fx.Node) -> list[fx.Node]:
    """The nodes that copy a result into an input."""
    return [user for user in result.users if user.target is aten.copy_.default and user.args[:2] == (base, result)]


def _is_last_reader(launch: fx.Node, group: Group, values: Mapping[fx.Node, Any], ends: Sequence[fx.Node]) -> bool:
    """Return whether nothing that is not lowered yet reads what is in the base's memory before the launch."""
    allowed = {launch, *group.rebuilt, *ends}
    own = _buffer(values[group.base])
    for node, value in values.items():
        # What is computed of it is stored before the launch; what is a part of it is not.
        parts = value if isinstance(value, tuple) else (value,)
        is_part = any(isinstance(part, Value) and _buffer(part) == own for part in parts)
        if is_part and not _is_unread(node, allowed, values):
            return False
    return True


def _buffer(value: Value) -> str:
    load = single_load(value)
    return "" if load is None else load.buffer


def _replayed(build: Builder, node: fx.Node, replayed: dict[fx.Node, Value], group: Group) -> Value:
    """The view of its base's memory that a node is."""
    if node not in replayed:
        viewed = _replayed(build, _above(node), replayed, group)
        if node.target is aten.view.dtype:
            replayed[node] = build.extern(node.target, (viewed, *node.args[1:]), {}, node.meta["val"], VIEW_REASON)
            group.buffers.add(build.as_argument(replayed[node], None, True).buffer)
        elif _is_item(node):
            items: Any = node.args[0]
            replayed[node] = build.call(items.target, viewed, *items.args[1:], **items.kwargs)[node.args[1]]
        else:
            replayed[node] = build.call(node.target, viewed, *node.args[1:], **node.kwargs)
    return replayed[node]


def memory_for(build: Builder, value: torch.Tensor) -> Value:
    """Memory that is not filled."""
    layout = of_tensor(value)
    how = {"dtype": value.dtype, "device": value.device}
    arguments = ([*layout.size], [*layout.stride])
    result: Value = build.extern_call(aten.empty_strided.default, arguments, how, value, "memory for a Triton kernel")
    return result
