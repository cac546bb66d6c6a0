"""Extension for notebooks: ``%load_ext nbcompile`` registers ``%%compile``, ``%compile`` and six more magics.

    %load_ext nbcompile          nothing is printed; only magics are registered
    %%compile                    functions and modules of the cell are compiled
    ...                          when they are called; the view follows the output
    %unload_ext nbcompile        as before

In torch: nothing. Read next: nbcompile/jupyter/magics.py
"""

from __future__ import annotations

from IPython.core.interactiveshell import InteractiveShell

from nbcompile.jupyter import magics, session
from nbcompile.jupyter.live import LiveMagics
from nbcompile.jupyter.magics import CompileMagics
from nbcompile.jupyter.session import SessionMagics

COMPLETERS = {**magics.COMPLETERS, **session.COMPLETERS}


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Register the magics: ``%load_ext nbcompile`` calls this."""
    kept = SessionMagics(shell)
    shell.register_magics(kept, CompileMagics(shell, kept.keep), LiveMagics(shell))
    for name, completer in COMPLETERS.items():
        shell.set_hook("complete_command", completer, str_key=name)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Remove the magics: ``%unload_ext nbcompile`` calls this."""
    manager = shell.magics_manager
    live = manager.registry.get("LiveMagics")
    if isinstance(live, LiveMagics):
        live.stop()
    for cls in (CompileMagics, SessionMagics, LiveMagics):
        for kind, names in cls.magics.items():
            for name in names:
                manager.magics[kind].pop(name, None)
        manager.registry.pop(cls.__name__, None)
    for name in COMPLETERS:
        shell.strdispatchers["complete_command"].strs.pop(name, None)
