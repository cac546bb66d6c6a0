"""The graph of a DistributedDataParallel module, cut where the gradients of a bucket are complete.

    parameters   w0 1 MB    w1 1 MB    w2 1 MB      bucket_cap_mb=1
    graph        mm ─ relu ─ mm ─ relu ─ mm         one node of the autograd graph, all gradients at its end
    parts        mm ─ relu │ mm ─ relu │ mm         three: w2's gradient is sent while the others are computed

DDP sends the gradients of a bucket as soon as all of them are there. The graph is walked from its end, as backward
goes through it, and a part begins where the parameters visited so far fill a bucket. The backend compiles each part.

In torch: torch/_dynamo/backends/distributed.py (DDPOptimizer). Read next: nbcompile/backends/captured_graph.py
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch.fx

from nbcompile import torch_internals
from nbcompile.backends.run_aten import attribute_of
from nbcompile.capture.node_meta import EXAMPLE
from nbcompile.ir import compiled_artifact
from nbcompile.ir.compiled_artifact import CompiledPart
from nbcompile.record import model
from nbcompile.recording import graph_record

Compile = Callable[[torch.fx.GraphModule, Sequence[Any]], Callable[..., Any]]


@dataclass(slots=True)
class Bucket:
    """The operators of one part, last first, and the parameters whose gradients they give."""

    nodes: list[torch.fx.Node] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)
    """Placeholders of the parameters; one that two operators read is there twice, and counts twice, as in torch."""
    size: int = 0
    """Size in bytes."""
    late: int = 0
    """Operators that it has though it is full: what would have been the border cannot be one."""


def split_at_buckets(compile_part: Compile, cap: int, sizes: Sequence[int]) -> Compile:
    """A backend that cuts graphs at buckets of ``cap`` bytes, and gives each part to ``compile_part``.

    Args:
        compile_part: a backend.
        cap: of the module's buckets; the first one that is complete is smaller (1 MiB).
        sizes: for each input of the graph, the bytes of its gradient that DDP sends, or 0.
    """

    def compile_split(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        placeholders = module.graph.find_nodes(op="placeholder")
        known = {node: size for node, size in zip(placeholders, sizes, strict=True) if size}
        buckets = buckets_of(module.graph, known, cap)
        graph_record.record_buckets(module, list(_entries(buckets, cap)))
        if len(buckets) < 2:
            return compile_part(module, inputs)
        return _compile_parts(_split(module, buckets), module, inputs, compile_part)

    return compile_split


def buckets_of(graph: torch.fx.Graph, sizes: Mapping[torch.fx.Node, int], cap: int) -> list[Bucket]:
    """The parts of a graph, in order."""
    buckets = [Bucket()]
    caps = itertools.chain([min(cap, torch_internals.first_bucket_bytes())], itertools.repeat(cap))
    limit = next(caps)
    needed: set[torch.fx.Node] = set()  # by what follows
    transforms = 0  # those of torch.func that end in what follows, and have not begun there
    for node in reversed(graph.nodes):
        if node.op == "placeholder":
            continue
        if node.op == "output":
            needed.update(node.all_input_nodes)
            continue
        current = buckets[0]
        if current.size >= limit:
            if not transforms and _can_begin(current, needed):
                current = Bucket()
                buckets.insert(0, current)
                limit = next(caps)
            else:
                current.late += 1
        read = [parameter for parameter in _read_directly(node) if parameter in sizes]
        current.parameters[:0] = (parameter.name for parameter in read)
        current.size += sum(sizes[parameter] for parameter in read)
        current.nodes.append(node)
        # Backwards the end of a transform comes before its beginning: in between the number is larger than 0.
        transforms += _ends_transform(node) - _begins_transform(node)
        needed.discard(node)
        # Every part may have the graph's inputs and attributes; computed values have to be passed.
        needed.update(each for each in node.all_input_nodes if each.op not in ("placeholder", "get_attr"))
    if len(buckets) > 1 and not buckets[0].size:
        # Operators before the first parameter are worth no part of their own.
        buckets[1].nodes += buckets.pop(0).nodes
    return buckets


def _can_begin(bucket: Bucket, needed: set[torch.fx.Node]) -> bool:
    """True if a part can begin with this bucket: it has results, and takes only inputs that can be passed."""
    inside = set(bucket.nodes)
    gives = any(user not in inside for node in bucket.nodes for user in node.users)
    # A pair of nodes that enter and leave a state must be in one part; those of _STATES are written into each.
    return gives and all(node.target in _STATES or _is_handed_over(node.meta.get(EXAMPLE)) for node in needed)


_STATES = (torch.amp.autocast_mode._enter_autocast,)


def _begins_transform(node: torch.fx.Node) -> bool:
    """True of an operator after which tensors are those of a transform, which no other part may be given."""
    return getattr(node.target, "__name__", "").endswith(("_increment_nesting", "_saved_tensors_hooks_disable"))


def _ends_transform(node: torch.fx.Node) -> bool:
    return getattr(node.target, "__name__", "").endswith(("_decrement_nesting", "_saved_tensors_hooks_enable"))


def _is_handed_over(value: object) -> bool:
    """True if a value can be a result of one part and an input of another."""
    return isinstance(value, (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool, int, float))


def _read_directly(node: torch.fx.Node) -> Iterator[torch.fx.Node]:
    """Inputs of the graph whose gradients an operator gives, by torch's rule: no keywords, nothing inside of lists.

    Of a method's arguments they count where the object itself is an input, or the result of a method.
    """
    if node.op == "call_method":
        target = node.args[0].target if isinstance(node.args[0], torch.fx.Node) else None
        if not isinstance(target, str):
            return
    elif node.op != "call_function":
        return
    for argument in node.args:
        if isinstance(argument, torch.fx.Node) and argument.op == "placeholder":
            yield argument


def _split(module: torch.fx.GraphModule, buckets: Sequence[Bucket]) -> torch.fx.GraphModule:
    """A graph of calls of its parts, in the order of the operators: what writes to memory must not move."""
    number_of = {node: number for number, bucket in enumerate(buckets) for node in bucket.nodes}
    split = torch_internals.split_module(module, number_of.__getitem__)
    for call, part in torch_internals.parts_of(split):
        output = part.graph.output_node()
        # A captured graph returns a tuple, whatever its length.
        if not isinstance(output.args[0], (tuple, list)):
            output.args = ((output.args[0],),)
            with split.graph.inserting_after(call):
                only = split.graph.call_function(operator.getitem, (call, 0))
            for user in [each for each in call.users if each is not only]:
                user.replace_input_with(call, only)
            part.recompile()
    return split


def _compile_parts(
    split: torch.fx.GraphModule, whole: torch.fx.GraphModule, inputs: Sequence[Any], compile_part: Compile
) -> Callable[..., Any]:
    """Compile part after part, each for what the fakes of the parts before give it, and call them in a row."""
    mode, fakes = torch_internals.fakes_of(inputs)
    waiting = iter(fakes)
    values: dict[torch.fx.Node, Any] = {}
    parts = dict(torch_internals.parts_of(split))
    compiled_parts: list[CompiledPart] = []
    with torch_internals.running_fake(mode):
        for node in list(split.graph.nodes):
            if node.op == "placeholder":
                values[node] = next(waiting)
            elif node.op == "get_attr":
                values[node] = attribute_of(split, str(node.target))
            elif node.op == "call_function":
                values[node] = operator.getitem(*torch.fx.map_arg(node.args, values.__getitem__))
            elif node.op == "call_module":
                part = parts[node]
                given = list(torch.fx.map_arg(node.args, values.__getitem__))
                for placeholder, example in zip(part.graph.find_nodes(op="placeholder"), given, strict=True):
                    placeholder.meta[EXAMPLE] = example
                with (
                    torch_internals.not_running_fake(),
                    graph_record.part(str(node.target), whole),
                    compiled_artifact.collecting() as artifact,
                ):
                    compiled = compile_part(part, given)
                # The captured part gives the next one its examples: fakes
                # have no memory that compiled kernels could read.
                values[node] = part(*given)
                node.op, node.target = "call_function", _named(compiled, f"compiled_{node.target}")
                compiled_parts.append(CompiledPart(node.target, artifact))
    split.delete_all_unused_submodules()
    split.recompile()
    compiled_artifact.set_parts(split, compiled_parts)
    return torch_internals.forward_of(split)


def _named(compiled: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A function that the text of a graph can name."""

    def call(*arguments: Any) -> Any:
        return compiled(*arguments)

    call.__name__ = call.__qualname__ = name
    torch_internals.hide_from_hook(call.__code__)
    return call


def _entries(buckets: Sequence[Bucket], cap: int) -> Iterator[tuple[model.Part, list[torch.fx.Node], list[str]]]:
    """The parts for the record, each with its operators and parameters in order."""
    for number, bucket in enumerate(buckets):
        limit = cap if number < len(buckets) - 1 else min(cap, torch_internals.first_bucket_bytes())
        entry = model.Part(f"submod_{number}", (), (), bucket.size, limit, bucket.late)
        yield entry, bucket.nodes[::-1], list(dict.fromkeys(bucket.parameters))
