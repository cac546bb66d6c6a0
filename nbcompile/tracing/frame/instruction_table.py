"""The table from opcode to handler, for all versions of CPython at once.

An opcode that means the same in several versions has one handler; what a
version spells differently has an entry of its own (bytecode/dialects.py).

In torch: the method names of InstructionTranslatorBase. Read next: handlers/loads.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Handler = TypeVar("Handler", bound=Callable[..., Any])

HANDLERS: dict[str, Callable[..., Any]] = {}
"""Opcode to handler: a function of the frame and the instruction; it returns ``FrameResult`` where the frame ends."""


UNTRACED: dict[str, str] = {
    **dict.fromkeys(("CACHE", "EXTENDED_ARG", "RESERVED"), "folded into the instruction it belongs to"),
    **dict.fromkeys(
        ("INTERPRETER_EXIT", "EXIT_INIT_CHECK", "ENTER_EXECUTOR"), "the interpreter's own: no code object has it"
    ),
    **dict.fromkeys(
        "ASYNC_GEN_WRAP BEFORE_ASYNC_WITH END_ASYNC_FOR GET_AITER GET_ANEXT GET_AWAITABLE".split(),
        "coroutines belong to an event loop, which is not traced",
    ),
    **dict.fromkeys(("CHECK_EG_MATCH", "PREP_RERAISE_STAR"), "exception groups are not traced"),
    **dict.fromkeys(
        "DELETE_NAME IMPORT_STAR LOAD_FROM_DICT_OR_DEREF LOAD_FROM_DICT_OR_GLOBALS LOAD_LOCALS PRINT_EXPR "
        "SETUP_ANNOTATIONS".split(),
        "in the body of a class or of a module, which is not traced",
    ),
}
"""Opcodes without a handler, of any version: the graph breaks before one."""


def handles(*opcodes: str) -> Callable[[Handler], Handler]:
    """Register the handler of one or several opcodes."""

    def register(function: Handler) -> Handler:
        for opcode in opcodes:
            assert opcode not in HANDLERS, f"{opcode} has two handlers"
            HANDLERS[opcode] = function
        return function

    return register
