"""Inputs of the graph: which values become placeholders, which sizes are symbolic, which integers fit into 64 bits.

In torch: torch/_dynamo/variables/builder.py (GraphArg), torch/_dynamo/pgo.py. Read first: graph_inputs.py.
"""
