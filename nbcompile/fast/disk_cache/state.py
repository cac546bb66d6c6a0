"""The state of optimisers, which a trace makes before it reads it: a later process makes it before it looks at guards.

    opt = Adam(...); step = compile(opt.step)
    step()            traced: opt.state is filled by Adam._init_group first, so the guards read exp_avg, step, ...
    step()            in a later process: opt.state is empty; after the same call of Adam._init_group the guards hold

In torch: torch/_dynamo/variables/optimizer.py fills it while tracing. Read next:
nbcompile/tracing/calls/optimisers.py
"""

from __future__ import annotations

from collections.abc import Iterable
from types import FunctionType
from typing import Any

import torch

from nbcompile.capture.literals import Unreadable
from nbcompile.capture.source import Source
from nbcompile.fast.disk_cache import named_objects
from nbcompile.fast.disk_cache.addresses import SourceWriter
from nbcompile.fast.disk_cache.descriptions import Description, alike, describe
from nbcompile.guarding.accessors import SourceCache


def write(functions: Iterable[tuple[FunctionType, Source, Source, int]], written: SourceWriter) -> list[Any]:
    """The calls that created optimiser state, as JSON."""
    return [
        [describe(function), written.number_of(owner), written.number_of(group), lists]
        for function, owner, group, lists in functions
    ]


def make(rows: list[Any], sources: list[Source], known: SourceCache) -> None:
    """Call it again, as the trace did.

    Raises:
        Unreadable: it is another function now.
    """
    # All are looked up before the first is called: a state that is half initialised would be worse than a new trace.
    functions = [_found(description) for description, *_ in rows]
    for function, (_, owner, group, lists) in zip(functions, rows, strict=True):
        empty: list[list[object]] = [[] for _ in range(lists)]
        with torch.no_grad():
            function(known.value(sources[owner]), known.value(sources[group]), *empty)


def _found(description: Description) -> Any:
    _, module, path, _ = description
    owner, _, name = path.rpartition(".")
    function = vars(named_objects.named(module, owner)).get(name)
    function = getattr(function, "_torchdynamo_orig_callable", function)  # a real torch.compile wraps it
    if not alike(describe(function), description):
        raise Unreadable(f"{module}.{path} is another one now")
    return function
