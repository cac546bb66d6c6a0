"""Guards as fast_call.c evaluates them, compared with torch's tree: they must reject what the tree rejects.

made = written(check, scope)       for a call that the guards accept; None where there are no words for it
hits(made, scope)                  whether another call is accepted
"""

import torch

from nbcompile.fast import fast_call, guard_bytecode


def written(check, scope):
    """The instructions of a check, as an object of C; None if they do not exist."""
    tools = fast_call.tools()
    if tools is None:
        return None
    try:
        with torch._C.DisableTorchFunction():
            return tools.check(*guard_bytecode.instructions(check, scope, tools))
    except guard_bytecode.NotEncodable:
        return None


def hits(made, scope):
    """True if the instructions accept a call; a call that lacks an argument is rejected before."""
    names = guard_bytecode.local_names(scope.code)
    return all(name in scope.locals for name in names) and made.holds(tuple(scope.locals[name] for name in names))


def agrees(check, scope, expected):
    """True if the instructions, created at the first call that the tree accepts, accept that call and
    reject what the tree rejects. They may reject more: such a call takes the slow path."""
    made = vars(check).get("written_for_a_test")
    if made is not None or not expected:
        return made is None or expected or not hits(made, scope)
    made = check.written_for_a_test = written(check, scope)
    return made is None or hits(made, scope)
