"""Guards as fast_call.c evaluates them, beside the tree of torch's: what the tree refuses, they must refuse.

made = written(check, scope)       for a call that the guards accept; None where there are no words for it
hits(made, scope)                  whether another call is accepted
"""

import torch

from nbcompile.fast import fast_call, guard_bytecode


def written(check, scope):
    """The instructions of a check, as an object of C; None where they cannot be had."""
    tools = fast_call.tools()
    if tools is None:
        return None
    try:
        with torch._C.DisableTorchFunction():
            return tools.check(*guard_bytecode.instructions(check, scope, tools))
    except guard_bytecode.NotEncodable:
        return None


def hits(made, scope):
    """Whether it accepts a call; one that lacks an argument never comes so far."""
    names = guard_bytecode.local_names(scope.code)
    return all(name in scope.locals for name in names) and made.holds(tuple(scope.locals[name] for name in names))


def agrees(check, scope, expected):
    """Whether the instructions, written at the first call that the tree accepts, accept that call, and no call that it
    refuses. Some they refuse in its stead: those go the long way."""
    made = vars(check).get("written_for_a_test")
    if made is not None or not expected:
        return made is None or expected or not hits(made, scope)
    made = check.written_for_a_test = written(check, scope)
    return made is None or hits(made, scope)
