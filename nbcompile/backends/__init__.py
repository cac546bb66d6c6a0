"""Backends by name: from a captured graph to a callable.

    lookup("inductor")(graph_module, example_inputs)     a callable over the graph's inputs

    captured_graph.py    the graph of a frame, and the backend that the user chose
    registry.py          backends by name
    builtin.py           eager, aot_eager, aot_eager_decomp_partition, inductor
    through_aot.py       AOTAutograd, or the graph as it was captured
    aten_graph.py        one ATen graph: lower, schedule, emit, load
    gpu.py               the same for a GPU
    run_aten.py          one ATen graph, operator by operator

In torch: torch/_dynamo/backends/. Read next: nbcompile/backends/captured_graph.py
"""

from nbcompile.backends.aten_graph import compile_aten_graph, compiler_name, generate, verified
from nbcompile.backends.builtin import eager, inductor, nbcompile
from nbcompile.backends.captured_graph import CompiledGraph, compile_captured_graph, guards_of_backend
from nbcompile.backends.registry import Backend, backend_name, hidden, lookup, names, register
from nbcompile.backends.run_aten import attribute_of, run_through_aten
from nbcompile.options import BackendOptions, read_settings

__all__ = [
    "Backend", "BackendOptions", "CompiledGraph", "attribute_of", "backend_name", "compile_aten_graph",
    "compile_captured_graph", "compiler_name", "eager", "generate", "guards_of_backend", "hidden", "inductor", "lookup",
    "names", "nbcompile", "read_settings", "register", "run_through_aten", "verified",
]  # fmt: skip
