"""Fuzzer: random programs are run eagerly and compiled; differences are reduced and stored.

    python -m nbcompile.tools.fuzz --seconds 600 --seed 1

A program is a module of Python text with a function ``play(compiled)``, which compiles something, calls it, changes
its surroundings, and calls it again; whatever it yields is observed. It is played twice: with a ``compiled`` that
changes nothing, and with ``nbcompile.compile``. Whatever a caller could notice must be the same.

    generators     tensors.py, python.py, networks.py, guards.py    one for each kind of program
    oracle.py      plays a program both ways and compares
    reduction.py   makes a program that differs small
    campaign.py    worker processes, counts, the causes that were found

In torch: torch/_inductor/fuzzer.py draws settings, not programs. Read next: nbcompile/tools/fuzz/program.py
"""
