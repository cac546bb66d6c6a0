"""One call of one code object."""

import builtins

import pytest

from nbcompile.capture.frame import Frame
from nbcompile.capture.resolution import resolve
from nbcompile.capture.source import BuiltinSource, GlobalSource, LocalSource


def called(x):
    return len(x)


def test_the_scope_of_a_frame_resolves_its_names():
    """Locals, globals and builtins are those of the call."""
    frame = Frame(called.__code__, {"x": [1]}, {"x": "global"}, vars(builtins))
    scope = frame.scope()
    assert resolve(LocalSource("x"), scope) == [1]
    assert resolve(GlobalSource("x"), scope) == "global"
    assert resolve(BuiltinSource("len"), scope) is len


def test_a_frame_is_frozen():
    """A frame cannot change while it is compiled."""
    with pytest.raises(AttributeError):
        Frame(called.__code__, {}, {}, {}).locals = {}
