"""Dialects: the differences between the bytecodes of CPython 3.11, 3.12 and 3.13, as tables.

The bytecode changes with every minor version; nearly all changes are names of opcodes. Code that works on instructions
uses these tables and is the same for all versions:

    3.11  POP_JUMP_FORWARD_IF_FALSE          jump_condition(...) == "false"
    3.13  POP_JUMP_IF_FALSE                  jump_condition(...) == "false"
    3.12  PUSH_NULL, LOAD_FAST f, CALL       HERE.null_below_callable is True
    3.13  LOAD_FAST f, PUSH_NULL, CALL       HERE.null_below_callable is False

In torch: torch/_dynamo/bytecode_transformation.py (its version checks). Read
next: nbcompile/bytecode/flow.py
"""

from __future__ import annotations

import dis
import sys
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Dialect:
    """The bytecode conventions of one version of CPython."""

    version: tuple[int, int]
    inline_caches: dict[str, int]
    """Empty code units that follow an instruction and belong to it."""
    null_below_callable: bool
    """True if the stack before CALL is ``NULL f`` (or ``method self``) rather than ``f NULL`` (``f self``)."""
    loop_exit_skips: int
    """Instructions (END_FOR, POP_TOP) at FOR_ITER's target that an exhausted loop jumps over."""
    send_pops_iterator: bool
    """True if SEND drops an exhausted iterator itself, as opposed to END_SEND at its target."""
    compare_shift: int
    """COMPARE_OP's operator is ``dis.cmp_op[arg >> compare_shift]``."""
    compare_to_bool: int
    """The bit of COMPARE_OP's argument that is set if the result is converted to bool."""
    flag_bits: dict[str, int]
    """Low bits of an argument that are flags, below an index into co_names."""
    pseudo: dict[str, str] = field(default_factory=dict)
    """Names of our own for operations that the interpreter folds into another opcode."""


_DIALECTS = (
    Dialect(
        version=(3, 11),
        inline_caches={
            "BINARY_SUBSCR": 4,
            "STORE_SUBSCR": 1,
            "UNPACK_SEQUENCE": 1,
            "STORE_ATTR": 4,
            "LOAD_ATTR": 4,
            "COMPARE_OP": 2,
            "LOAD_GLOBAL": 5,
            "BINARY_OP": 1,
            "LOAD_METHOD": 10,
            "PRECALL": 1,
            "CALL": 4,
        },
        null_below_callable=True,
        loop_exit_skips=0,
        send_pops_iterator=True,
        compare_shift=0,
        compare_to_bool=0,
        flag_bits={"LOAD_GLOBAL": 1},
    ),
    Dialect(
        version=(3, 12),
        inline_caches={
            "BINARY_SUBSCR": 1,
            "STORE_SUBSCR": 1,
            "UNPACK_SEQUENCE": 1,
            "FOR_ITER": 1,
            "STORE_ATTR": 4,
            "LOAD_ATTR": 9,
            "COMPARE_OP": 1,
            "LOAD_GLOBAL": 4,
            "BINARY_OP": 1,
            "SEND": 1,
            "LOAD_SUPER_ATTR": 1,
            "CALL": 3,
        },
        null_below_callable=True,
        loop_exit_skips=1,  # 3.12: an exhausted FOR_ITER jumps past END_FOR
        send_pops_iterator=False,
        compare_shift=4,  # below the operator: a mask for the specialising interpreter
        compare_to_bool=0,
        flag_bits={"LOAD_GLOBAL": 1, "LOAD_ATTR": 1, "LOAD_SUPER_ATTR": 2},
    ),
    Dialect(
        version=(3, 13),
        inline_caches={
            "BINARY_SUBSCR": 1,
            "STORE_SUBSCR": 1,
            "UNPACK_SEQUENCE": 1,
            "FOR_ITER": 1,
            "STORE_ATTR": 4,
            "LOAD_ATTR": 9,
            "COMPARE_OP": 1,
            "LOAD_GLOBAL": 4,
            "BINARY_OP": 1,
            "SEND": 1,
            "LOAD_SUPER_ATTR": 1,
            "CALL": 3,
            "CONTAINS_OP": 1,
            "JUMP_BACKWARD": 1,
            "TO_BOOL": 3,
            "POP_JUMP_IF_TRUE": 1,
            "POP_JUMP_IF_FALSE": 1,
            "POP_JUMP_IF_NONE": 1,
            "POP_JUMP_IF_NOT_NONE": 1,
        },
        null_below_callable=False,
        loop_exit_skips=2,  # past END_FOR and POP_TOP
        send_pops_iterator=False,
        compare_shift=5,  # below the operator: the mask, and the bit of compare_to_bool
        compare_to_bool=16,
        flag_bits={"LOAD_GLOBAL": 1, "LOAD_ATTR": 1, "LOAD_SUPER_ATTR": 2},
        # 3.13 writes LOAD_FAST for the cell itself too; reading it back as LOAD_CLOSURE keeps the two apart.
        pseudo={"LOAD_CLOSURE": "LOAD_FAST"},
    ),
)
DIALECTS = {each.version: each for each in _DIALECTS}
HERE = DIALECTS[sys.version_info[:2]]
"""The dialect of the interpreter that runs this."""

# -- local variables ---------------------------------------------------------------------------------

LOCAL_ACCESS: dict[str, tuple[str, ...]] = {
    "LOAD_FAST": ("read",),
    "LOAD_FAST_CHECK": ("read",),
    "LOAD_FAST_AND_CLEAR": ("take",),
    "STORE_FAST": ("write",),
    "DELETE_FAST": ("delete",),
    "LOAD_FAST_LOAD_FAST": ("read", "read"),
    "STORE_FAST_LOAD_FAST": ("write", "read"),
    "STORE_FAST_STORE_FAST": ("write", "write"),
}
"""Accesses of an instruction to the locals it names, in order.

``take`` reads a local that may be unbound (then it pushes NULL) and unbinds it:
an inlined comprehension saves the outer variable of the same name with it.
"""

CELL_ACCESS = frozenset(
    {
        "MAKE_CELL",
        "LOAD_CLOSURE",
        "LOAD_DEREF",
        "STORE_DEREF",
        "DELETE_DEREF",
        "LOAD_CLASSDEREF",
        "LOAD_FROM_DICT_OR_DEREF",
    }
)
"""Opcodes that name a variable shared with another function."""

SUPERINSTRUCTIONS: dict[str, tuple[str, str]] = {
    "LOAD_FAST_LOAD_FAST": ("LOAD_FAST", "LOAD_FAST"),
    "STORE_FAST_LOAD_FAST": ("STORE_FAST", "LOAD_FAST"),
    "STORE_FAST_STORE_FAST": ("STORE_FAST", "STORE_FAST"),
}
"""Superinstructions on locals; each of the two indices has four bits (3.13)."""

EXPANSIONS: dict[str, tuple[str, str]] = {
    **SUPERINSTRUCTIONS,
    "RETURN_CONST": ("LOAD_CONST", "RETURN_VALUE"),
    "BINARY_SLICE": ("BUILD_SLICE", "BINARY_SUBSCR"),
    "STORE_SLICE": ("BUILD_SLICE", "STORE_SUBSCR"),
}
"""Superinstructions of 3.12 and 3.13, and the two instructions of each (superinstructions.py)."""

INTRINSICS: dict[str, dict[int, str]] = {
    "CALL_INTRINSIC_1": {
        1: "PRINT_EXPR",
        2: "IMPORT_STAR",
        3: "STOPITERATION_ERROR",
        4: "ASYNC_GEN_WRAP",
        5: "UNARY_POSITIVE",
        6: "LIST_TO_TUPLE",
        7: "TYPEVAR",
        8: "PARAMSPEC",
        9: "TYPEVARTUPLE",
        10: "SUBSCRIPT_GENERIC",
        11: "TYPEALIAS",
    },
    "CALL_INTRINSIC_2": {
        1: "PREP_RERAISE_STAR",
        2: "TYPEVAR_WITH_BOUND",
        3: "TYPEVAR_WITH_CONSTRAINTS",
        4: "SET_FUNCTION_TYPE_PARAMS",
        5: "SET_TYPEPARAM_DEFAULT",
    },
}
"""Operands of these two opcodes: functions for which 3.11 has opcodes of their own, and a few new ones."""

# -- jumps -------------------------------------------------------------------------------------------

CONDITIONAL_JUMPS: dict[str, str] = {
    **{
        f"POP_JUMP_{way}IF_{what.upper()}": what
        for way in ("", "FORWARD_", "BACKWARD_")
        for what in ("true", "false", "none", "not_none")
    },
    "JUMP_IF_TRUE_OR_POP": "true_or_pop",
    "JUMP_IF_FALSE_OR_POP": "false_or_pop",
}
"""Jumps that test the top of the stack. ``*_or_pop`` keep it when they jump; all others pop it."""

UNCONDITIONAL_JUMPS = frozenset({"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"})
ITERATION_JUMPS = frozenset({"FOR_ITER", "SEND"})
JUMPS = frozenset(CONDITIONAL_JUMPS) | UNCONDITIONAL_JUMPS | ITERATION_JUMPS
LEAVES = frozenset({"RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "INTERPRETER_EXIT"})
"""Instructions after which the next one does not run."""


def jump_condition(opcode: str) -> str | None:
    """Condition of a conditional jump; None for every other opcode."""
    return CONDITIONAL_JUMPS.get(opcode)


def is_backward(opcode: str) -> bool:
    """Return whether the opcode's operand is a distance backwards."""
    return "BACKWARD" in opcode


# -- families ------------------------------------------------------------------------------------------

REAL_OPCODES = getattr(dis, "MIN_INSTRUMENTED_OPCODE", 0) or min(
    (number for name, number in dis.opmap.items() if name.startswith("INSTRUMENTED_")), default=256
)
"""Numbers from here on are pseudo-instructions or the debugger's; they never occur in ``co_code``."""


# -- flags inside arguments ---------------------------------------------------------------------------


# -- what arguments mean ------------------------------------------------------------------------------


def _argument_kinds() -> dict[str, str]:
    """``name``, ``constant``, ``local``, ``locals``, ``cell``, ``jump``, ``compare``, ``operator`` by opcode."""
    kinds: dict[str, str] = {}
    by_number = (("name", dis.hasname), ("constant", dis.hasconst), ("local", dis.haslocal), ("cell", dis.hasfree))
    for kind, numbers in by_number:
        # Numbers from 256 on are pseudo-instructions: the compiler's own, which no bytecode has.
        kinds.update({dis.opname[number]: kind for number in numbers if number < 256})
    kinds.update(dict.fromkeys(JUMPS, "jump"))
    kinds.update(dict.fromkeys(SUPERINSTRUCTIONS, "locals"))
    kinds.update({"COMPARE_OP": "compare", "BINARY_OP": "operator", "LOAD_CLOSURE": "cell"})
    return kinds


ARGUMENT_KINDS = _argument_kinds()

BINARY_OPERATORS = (
    "+",
    "&",
    "//",
    "<<",
    "@",
    "*",
    "%",
    "|",
    "**",
    ">>",
    "-",
    "/",
    "^",
    "+=",
    "&=",
    "//=",
    "<<=",
    "@=",
    "*=",
    "%=",
    "|=",
    "**=",
    ">>=",
    "-=",
    "/=",
    "^=",
)
"""BINARY_OP's operators by argument, the same in all three versions."""


def has_argument(opcode: str) -> bool:
    """Return whether the opcode uses its argument (else it is not shown)."""
    return opcode in _HAVE_ARGUMENT


# ``dis.hasarg`` is new in 3.12; before, the opcodes with an argument are those from HAVE_ARGUMENT on.
_HAVE_ARGUMENT = frozenset(
    name for name, number in dis.opmap.items() if number in getattr(dis, "hasarg", range(dis.HAVE_ARGUMENT, 256))
)


def local_slots(varnames: tuple[str, ...], cellvars: tuple[str, ...], freevars: tuple[str, ...]) -> tuple[str, ...]:
    """The names of a frame's slots in order; a cell variable that is also a local has that local's slot."""
    # ``def f(x): return lambda: x``: x is a parameter and a cell variable, in one slot.
    return varnames + tuple(name for name in cellvars if name not in varnames) + freevars
