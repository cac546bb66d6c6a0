"""Exercises that check themselves, for a notebook, a classroom and a command line.

    from nbcompile.teach import check, exercise, hint

    exercise("one-graph-1")        shows the task
    check(f)                       accepted, or the reason: "it is right, but it breaks at line 3, because ..."
    hint()                         the next hint

In torch: nothing. Read next: nbcompile/teach/session.py
"""

from nbcompile.teach.exercise_table import exercises
from nbcompile.teach.progress_file import progress
from nbcompile.teach.session import check, exercise, hint

__all__ = ["check", "exercise", "exercises", "hint", "progress"]
