"""Definitions for the fuzzer's programs."""

from nbcompile.tools.fuzz import preludes


def test_only_definitions_that_are_used_are_made():
    """A program has the imports, the definitions that it uses, directly or not, and their registrations."""
    prelude = (
        "import math\n\n\nclass Base: pass\n\n\n@made\nclass Child(Base): pass\n\n\ndef made(c): return c\n\n\n"
        "def other(): return Base\n\n\n@kinds.register\ndef _(): pass\n\n\ndef kinds(): pass\na, b = 1, 2\n"
    )
    assert preludes.used(prelude, "Child()").count("def ") == 1
    assert "class Base" in preludes.used(prelude, "Child()")
    assert "_(" in preludes.used(prelude, "kinds()")
    assert preludes.used(prelude, "b").split() == "import math a, b = 1, 2".split()
