"""The tests of Python's own library, each inlined into a compiled frame: see ``runner.py``."""
