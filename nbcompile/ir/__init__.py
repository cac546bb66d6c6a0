"""Loop IR: what a kernel computes, as data. Modules: index, expr, layout, buffer, kernel, verify, printer, evaluate.

In torch: torch/_inductor/ir.py. Read next: nbcompile/ir/index.py
"""
