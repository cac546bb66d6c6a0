"""A real value of the program as a tracker: one table, and what each of its rows does.

In torch: torch/_dynamo/variables/builder.py (VariableBuilder). Read next:
nbcompile/tracing/wrapping/table.py
"""
