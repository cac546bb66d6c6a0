"""``python -m nbcompile``: the command line.

    python -m nbcompile run script.py --html out.html     run a program and write what was compiled (`run` is optional)
    python -m nbcompile doctor --json                     check this machine
    python -m nbcompile --help                            all commands, with examples

In torch: tlparse, a program of its own, draws logs. Read next: nbcompile/tools/commands/command_line.py
"""

from __future__ import annotations

import sys

from nbcompile.tools.commands.command_line import main

if __name__ == "__main__":
    sys.exit(main())
