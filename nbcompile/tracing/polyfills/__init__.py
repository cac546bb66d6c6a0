"""Polyfills: functions that are written in C, said again in Python, which the tracer can inline.

In torch: torch/_dynamo/polyfills
"""
