"""The keys that nbcompile writes to ``node.meta``."""

import torch

import nbcompile
from nbcompile.capture import node_meta


def test_captured_nodes_have_the_users_line():
    """An operator of the captured graph has the line of the program that called it."""
    graphs = {}

    def backend(module, inputs):
        graphs["captured"] = module.graph
        return module.forward

    def f(x):
        return torch.relu(x)

    nbcompile.compile(f, backend=backend)(torch.ones(2))
    (node,) = [each for each in graphs["captured"].nodes if each.op == "call_function"]
    stack = node.meta[node_meta.STACK]
    assert (stack[-1].line, stack[-1].code) == (f.__code__.co_firstlineno + 1, "return torch.relu(x)")


def test_the_keys_are_our_own():
    """No key is one of torch's, which torch may copy or delete."""
    keys = {node_meta.STACK, node_meta.ORIGIN, node_meta.CHANNELS_LAST}
    assert len(keys) == 3
    assert keys.isdisjoint({"val", "stack_trace", "from_node", "nn_module_stack", "tensor_meta", "original_aten"})
