"""Lowering, from ATen to buffers: ``lower(graph_module) -> ir.Program``.

In torch: torch/_inductor/graph.py and lowering.py. Read next: nbcompile/lowering/graph.py
"""

from nbcompile.lowering.graph import lower
from nbcompile.lowering.registry import NoLowering, UnsupportedGraph

__all__ = ["NoLowering", "UnsupportedGraph", "lower"]
