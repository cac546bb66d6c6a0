"""Calls and operators of known functions: tables from callable to handler.

In torch: torch/_dynamo/variables/builtin.py and torch.py.
Read first: registry.py, then construction.py and operations.py.
"""
