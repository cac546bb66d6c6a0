"""Concrete value of a tensor of the graph in this very call: the graph so far is run on copies of the inputs.

    @torch.compiler.assume_constant_result
    def largest(x): ...

    largest(x + 1)      called while tracing, with what x + 1 is now

A result that is said to be constant may depend on tensors. The program's own
tensors, and its stream of random numbers, are as before afterwards.

In torch: torch/_dynamo/utils.py (get_real_value). Read next:
nbcompile/tracing/calls/annotations.py
"""

from __future__ import annotations

import copy

import torch

from nbcompile.tracing.protocol import Tracer


def real_value(tracer: Tracer, node: object) -> object:
    """The value of a node, after all that the graph does until now."""
    assert isinstance(node, torch.fx.Node)
    inputs = tracer.output.inputs.placeholders
    values = [tracer.real_value(source) for _, source in inputs]
    copies = copy.deepcopy([each.detach() if isinstance(each, torch.Tensor) else each for each in values])
    run = torch.fx.Interpreter(torch.nn.Module(), garbage_collect_values=False, graph=tracer.output.graph)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        run.run(*copies, enable_io_processing=False)
    return run.env[node]
