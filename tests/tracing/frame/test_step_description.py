"""Text about the steps of the interpreter."""

from __future__ import annotations

import linecache

from nbcompile.tracing.frame.step_description import first_line


def test_the_first_line_of_a_function():
    """The stack line of a function is that of its definition."""

    def found():
        return 1

    line = first_line(found.__code__)
    assert line.line == found.__code__.co_firstlineno
    assert linecache.getline(__file__, line.line).strip() == "def found():"
