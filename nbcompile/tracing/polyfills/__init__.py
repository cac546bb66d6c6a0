"""Polyfills: functions that are written in C, written again in Python, which the tracer can inline.

A polyfill takes effect by a row of the tables at the end of nbcompile/tracing/calls/library.py: the second is for
functions that are computed while tracing where their arguments are known. What the standard library says in Python
itself (heapq.merge) needs none: it is traced like the user's code.

In torch: torch/_dynamo/polyfills. Read next: nbcompile/tracing/calls/library.py
"""
