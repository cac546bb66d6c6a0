"""Tests of nbcompile/gpu/graph_options.py: the options of one graph, and their defaults."""

from __future__ import annotations

from nbcompile.gpu.graph_options import GraphOptions, LaunchOptions


def test_the_defaults_add_nothing_to_a_graph():
    """By default products and random numbers are ATen's, collectives stay apart, and launches are not captured."""
    options = GraphOptions(lambda name: name, keep_sharing=True)
    assert (options.backends, options.generate_random, options.buckets) == (("ATEN",), False, False)
    assert options.launch == LaunchOptions(debug=False, cuda_graphs=False)
