"""Concrete value of a tensor of the graph in the traced call: the graph so far runs on copies of the inputs.

    @torch.compiler.assume_constant_result
    def largest(x): ...

    largest(x + 1)      called while tracing, with the value of x + 1 in this call

A result that the program declares constant may depend on tensors. The run does not
change the program's own tensors, nor the state of random number generators.

In torch: torch/_dynamo/utils.py (get_real_value). Read next:
nbcompile/tracing/calls/annotations.py
"""

from __future__ import annotations

import copy

import torch

from nbcompile.tracing.protocol import Tracer


def real_value(tracer: Tracer, node: object) -> object:
    """The value of a node, after all nodes of the graph so far."""
    assert isinstance(node, torch.fx.Node)
    inputs = tracer.output.inputs.placeholders
    values = [tracer.real_value(source) for _, source in inputs]
    copies = copy.deepcopy([each.detach() if isinstance(each, torch.Tensor) else each for each in values])
    run = torch.fx.Interpreter(torch.nn.Module(), garbage_collect_values=False, graph=tracer.output.graph)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        run.run(*copies, enable_io_processing=False)
    return run.env[node]
