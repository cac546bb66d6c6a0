"""Support that knows nothing of compilers: lazy imports, supported versions, a weak dictionary, limits for a bisection.

In torch: torch/_dynamo/utils.py. Read next: nbcompile/support/lazy_import.py
"""
