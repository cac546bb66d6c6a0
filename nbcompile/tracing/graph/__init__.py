"""The FX graph of a frame while it is being built, the bodies of higher-order operators, the modules of its nodes.

In torch: torch/_dynamo/output_graph.py. Read first: output_graph.py, then body.py.
"""
