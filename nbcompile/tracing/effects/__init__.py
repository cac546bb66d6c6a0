"""Effects of the traced code outside of the graph: mutations of objects, state of the process, recipes of results.

In torch: torch/_dynamo/side_effects.py and torch/_dynamo/codegen.py.
Read first: side_effects.py, then reconstruction.py.
"""
