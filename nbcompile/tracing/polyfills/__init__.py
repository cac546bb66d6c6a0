"""Python twins of functions that are written in C: the tracer goes through these instead.

In torch: torch/_dynamo/polyfills
"""
