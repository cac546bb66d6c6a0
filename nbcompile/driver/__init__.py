"""The driver: a frame through the stages (stages.py), and calls that are not compiled (fallback.py).

In torch: torch/_dynamo/convert_frame.py. Read next: nbcompile/driver/stages.py
"""
