"""Encodings of guards: for each kind one row of ``table.py``, which names functions of the other modules.

    check           leaves.py, container_leaves.py, tensor_leaves.py, ambient.py    text, predicate, torch's C++ tree
    sentence        in the row; parts of it in sentences.py                         for people
    page_tree       page_trees.py                                                   for a page without a kernel
    instructions    instructions.py                                                 for fast_call.c
    stored          stored_forms.py                                                 for the entry on disk

A row has every encoding, or the reason why there is none: its types require that, and ``tests/guarding`` tests each.
Two writers stay in ``fast/``, which nothing below it imports: ``guard_bytecode.py`` assigns slots, and
``disk_cache/stored_guards.py`` writes JSON. They implement the protocols of the last two modules.

In torch: GuardBuilder in torch/_dynamo/guards.py. Read next: nbcompile/guarding/encodings/table.py
"""
