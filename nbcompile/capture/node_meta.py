"""Names of the entries that nbcompile adds to ``fx.Node.meta``, in addition to torch's own.

    node.meta[STACK]    the user's code that calls the operator, as tuple[StackLine, ...]
    node.meta[ORIGIN]   ("linear",): the captured nodes that an ATen node was derived from

In torch: ``stack_trace``, ``from_node`` (torch/fx/traceback.py). Read next:
nbcompile/aot/provenance.py
"""

from nbcompile import torch_internals

EXAMPLE = torch_internals.EXAMPLE
"""torch's name for the fake value of a captured node."""
STACK = "nbc_stack"
"""Set by the tracer on captured nodes, copied to the nodes derived from them."""
ORIGIN = "nbc_from"
"""Names of nodes of the captured graph, as a tuple."""
CALLED = "nbc_called"
"""The name of the function or method that the captured node calls."""
CHANNELS_LAST = "channels_last"
"""A convolution whose input and result are in channels-last format (nbcompile/aot/channels_last.py)."""
DONATED = "donated"
"""An input of a backward graph that has no other user (nbcompile/aot/donated_buffers.py)."""
SAVED_IN_EAGER = "nbc_saved_in_eager"
"""A value of a joint graph whose memory eager mode saves for its backward pass (nbcompile/aot/exposed_memory.py)."""
ATTRIBUTE = "nbc_attribute"
"""The source of ``x.T`` of an input, and whether it required grad (nbcompile/tracing/variables/tensor.py)."""
