"""Fuzzer: random programs run eagerly and compiled; programs whose results differ are reduced and stored.

    python -m nbcompile.tools.fuzz --seconds 600 --seed 1

A program is a module of Python text with a function ``play(compiled)``, which compiles something, calls it, changes
its surroundings, and calls it again; each value that it yields is observed. It is played twice: with the identity as
``compiled``, and with ``nbcompile.compile``. All that a caller can observe must be equal.

    generators     tensors.py, python.py, networks.py, guards.py    one for each kind of program
    oracle.py      plays a program both ways and compares
    reduction.py   reduces a program whose results differ
    campaign.py    worker processes, counts, causes found

In torch: torch/_inductor/fuzzer.py draws settings, not programs. Read next: nbcompile/tools/fuzz/program.py
"""
