"""The symbolic interpreter of one frame: its stack, its instructions, the calls that it inlines, where it may break.

In torch: torch/_dynamo/symbolic_convert.py. Read first: translator.py, then instruction_table.py and handlers/.
"""
