"""Doors for notebooks: ``%load_ext nbcompile`` brings ``%%compile`` and ``%compile``.

    %load_ext nbcompile          nothing is printed, nothing changes but two magics
    %%compile                    functions and modules of the cell are compiled
    ...                          when they are called; the picture follows the output
    %unload_ext nbcompile        as before

In torch: nothing. Read next: nbcompile/jupyter/magics.py
"""

from __future__ import annotations

from IPython.core.interactiveshell import InteractiveShell

from nbcompile.jupyter.magics import CompileMagics


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Called by ``%load_ext nbcompile``."""
    shell.register_magics(CompileMagics)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Called by ``%unload_ext nbcompile``."""
    for kind in ("cell", "line"):
        shell.magics_manager.magics[kind].pop("compile", None)
    shell.magics_manager.registry.pop(CompileMagics.__name__, None)
