"""Tracing: from the bytecode of a frame to a graph, guards, and what is left to do after the graph.

``tracer.py`` is the entry. The folders, from the top down, and each uses only those below it:

    frame/       the symbolic interpreter: instructions, inlined calls, points where the graph may break
    wrapping/    from a real value of the program to its variable tracker
    calls/       known functions and operators: from callable to handler
    effects/     mutations and state of the process, and how a value is reconstructed after the graph
    variables/   one class for each kind of Python value
    graph/       the FX graph that is being built; it knows nodes, not values of Python
    inputs/      placeholders of the graph, dynamic sizes

In torch: torch/_dynamo/symbolic_convert.py, variables/, output_graph.py, side_effects.py, codegen.py.
"""
