"""Writers of the record: compiler values become entries of ``record/`` while the stages run.

In torch: nothing; each stage writes its own logs. Read next: nbcompile/recording/observer.py
"""
