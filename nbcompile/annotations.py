"""Annotations that user code may carry; they mean something only while it is traced.

    nbcompile.graph_break()        the graph ends here

torch's own annotations (``torch._dynamo.graph_break`` and so on) are honoured
as well (tracing/functions/torch_functions.py).

In torch: torch/_dynamo/decorators.py. Read next: nbcompile/tracing/breaks.py
"""


def graph_break(msg: str = "") -> None:
    """End the graph here; does nothing in eager mode."""


def skip_frame(msg: str = "") -> None:
    """Run the function that calls this uncompiled; does nothing in eager mode."""
