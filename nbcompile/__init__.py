"""nbcompile: a compiler for PyTorch that shows what it does.

    import nbcompile

    @nbcompile.compile
    def f(x): return (x + 1).relu()

    nbcompile.explain(f)(x)        # the same, with pictures
    %load_ext nbcompile            # in Jupyter: %%compile

The path of the data, folder by folder: dispatch, tracing, guarding, rewriting,
aot, lowering, scheduling, codegen, runtime; docs/map.md walks one function
through all of them.

In torch: torch/compiler/__init__.py. Read next: nbcompile/api.py
"""

from nbcompile import config, errors as exc
from nbcompile.annotations import graph_break
from nbcompile.api import Explanation, compile, disable, explain, reset  # noqa: A004
from nbcompile.jupyter import load_ipython_extension, unload_ipython_extension
from nbcompile.options import Options
from nbcompile.record.model import Record

__all__ = [
    "Explanation",
    "Options",
    "Record",
    "compile",
    "config",
    "disable",
    "exc",
    "explain",
    "graph_break",
    "load_ipython_extension",
    "reset",
    "unload_ipython_extension",
]
__version__ = "0.1.0"
