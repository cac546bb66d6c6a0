"""Families of opcodes: those that one handler of the translator traces, under their names in each version of Python.

    FAMILIES["LOAD_FAST"]       LOAD_FAST, LOAD_FAST_BORROW, LOAD_FAST_CHECK ...
    converts_to_bool(COMPARE_OP, 3.13)    True where its argument has the bit for it

In torch: torch/_dynamo/symbolic_convert.py (one method for each opcode). Read next:
nbcompile/tracing/frame/instruction_table.py
"""

from __future__ import annotations

from nbcompile.bytecode.dialects import CELL_ACCESS, CONDITIONAL_JUMPS, HERE, LOCAL_ACCESS, UNCONDITIONAL_JUMPS
from nbcompile.bytecode.instruction import Instruction

FAMILIES: dict[str, frozenset[str]] = {
    "locals": frozenset(LOCAL_ACCESS),
    "cells": CELL_ACCESS | {"COPY_FREE_VARS"},
    "names": frozenset(
        {
            "LOAD_GLOBAL",
            "STORE_GLOBAL",
            "DELETE_GLOBAL",
            "LOAD_NAME",
            "STORE_NAME",
            "DELETE_NAME",
            "LOAD_LOCALS",
            "LOAD_FROM_DICT_OR_GLOBALS",
            "SETUP_ANNOTATIONS",
            "LOAD_BUILD_CLASS",
        }
    ),
    "constants": frozenset({"LOAD_CONST", "LOAD_ASSERTION_ERROR"}),
    "attributes": frozenset({"LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "STORE_ATTR", "DELETE_ATTR"}),
    "items": frozenset(
        {
            "BINARY_SUBSCR",
            "STORE_SUBSCR",
            "DELETE_SUBSCR",
            "BINARY_SLICE",
            "STORE_SLICE",
            "BUILD_SLICE",
        }
    ),
    "operators": frozenset(
        {
            "UNARY_POSITIVE",
            "UNARY_NEGATIVE",
            "UNARY_NOT",
            "UNARY_INVERT",
            "BINARY_OP",
            "COMPARE_OP",
            "IS_OP",
            "CONTAINS_OP",
            "TO_BOOL",
        }
    ),
    "stack": frozenset({"POP_TOP", "PUSH_NULL", "NOP", "COPY", "SWAP", "CACHE", "EXTENDED_ARG", "RESUME", "RESERVED"}),
    "calls": frozenset(
        {
            "PRECALL",
            "KW_NAMES",
            "CALL",
            "CALL_KW",
            "CALL_FUNCTION_EX",
            "CALL_INTRINSIC_1",
            "CALL_INTRINSIC_2",
            "MAKE_FUNCTION",
            "SET_FUNCTION_ATTRIBUTE",
            "EXIT_INIT_CHECK",
        }
    ),
    "jumps": frozenset(CONDITIONAL_JUMPS) | UNCONDITIONAL_JUMPS | {"ENTER_EXECUTOR"},
    "iteration": frozenset({"GET_ITER", "FOR_ITER", "END_FOR", "GET_LEN", "UNPACK_SEQUENCE", "UNPACK_EX"}),
    "containers": frozenset(
        {
            "BUILD_TUPLE",
            "BUILD_LIST",
            "BUILD_SET",
            "BUILD_MAP",
            "BUILD_CONST_KEY_MAP",
            "LIST_APPEND",
            "SET_ADD",
            "MAP_ADD",
            "LIST_EXTEND",
            "SET_UPDATE",
            "DICT_UPDATE",
            "DICT_MERGE",
            "LIST_TO_TUPLE",
        }
    ),
    "strings": frozenset({"BUILD_STRING", "FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "CONVERT_VALUE"}),
    "matching": frozenset({"MATCH_MAPPING", "MATCH_SEQUENCE", "MATCH_KEYS", "MATCH_CLASS"}),
    "exceptions": frozenset(
        {
            "RAISE_VARARGS",
            "RERAISE",
            "PUSH_EXC_INFO",
            "POP_EXCEPT",
            "CHECK_EXC_MATCH",
            "CHECK_EG_MATCH",
            "PREP_RERAISE_STAR",
            "CLEANUP_THROW",
        }
    ),
    "contexts": frozenset({"BEFORE_WITH", "WITH_EXCEPT_START"}),
    "imports": frozenset({"IMPORT_NAME", "IMPORT_FROM", "IMPORT_STAR"}),
    "returns": frozenset({"RETURN_VALUE", "RETURN_CONST", "INTERPRETER_EXIT"}),
    "generators": frozenset(
        {
            "RETURN_GENERATOR",
            "YIELD_VALUE",
            "SEND",
            "END_SEND",
            "GET_YIELD_FROM_ITER",
            "GET_AWAITABLE",
            "GET_AITER",
            "GET_ANEXT",
            "END_ASYNC_FOR",
            "BEFORE_ASYNC_WITH",
            "ASYNC_GEN_WRAP",
        }
    ),
    "interactive": frozenset({"PRINT_EXPR"}),
}
"""Every opcode of the three versions by family, one handler table each (tracing/frame/handlers/)."""


def pushes_null(instruction: Instruction) -> bool:
    """Return whether a LOAD_GLOBAL also pushes NULL, for a call."""
    return instruction.opcode == "LOAD_GLOBAL" and bool((instruction.arg or 0) & 1)


def loads_method(instruction: Instruction) -> bool:
    """Return whether it pushes two values: a function and its self, or NULL and an attribute (in HERE's order)."""
    if instruction.opcode == "LOAD_METHOD":
        return True
    return instruction.opcode in ("LOAD_ATTR", "LOAD_SUPER_ATTR") and bool(flags(instruction) & 1)


def is_two_argument_super(instruction: Instruction) -> bool:
    """Return whether LOAD_SUPER_ATTR is ``super(cls, self).name`` as opposed to ``super().name``."""
    return instruction.opcode == "LOAD_SUPER_ATTR" and bool(flags(instruction) & 2)


def converts_to_bool(instruction: Instruction) -> bool:
    """Return whether COMPARE_OP converts the result to a bool (3.13)."""
    return instruction.opcode == "COMPARE_OP" and bool((instruction.arg or 0) & HERE.compare_to_bool)


def flags(instruction: Instruction) -> int:
    """The flag bits of an argument that also holds an index."""
    #     LOAD_ATTR 7     co_names[3], as the method of a call: 7 is 3 << 1 | 1
    return (instruction.arg or 0) & ((1 << HERE.flag_bits.get(instruction.opcode, 0)) - 1)
