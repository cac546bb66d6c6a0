"""Calls of functions within a PTX module, replaced by the functions' instructions.

    st.param.b64 [param0], %rd95;                       mov.b64 %call0_rd3, %rd95;
    call.uni (retval0), __internal_lgamma_pos, (...);   ...
    ld.param.b64 %rd8, [retval0];                       mov.b64 %rd8, %call0_result;

The logarithm of the gamma function, and powers, of float64 are such functions of libdevice: LLVM does not inline them,
as they are long. What is not defined in the module (the report of a failed check) stays a call.

In torch: nothing. Read next: nbcompile/gpu/ptx.py
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

_CALL = re.compile(r"\{[ \t]*// callseq (\d+), \d+\n(.*?)\n[ \t]*\}[ \t]*// callseq \1\b[^\n]*", re.DOTALL)
_CALLEE = re.compile(r"call(?:\.uni)?\s+(?:\(([^)]*)\),\s*)?([\w$]+)\s*(?:,\s*\(([^)]*)\))?\s*;")
_STORE = re.compile(r"st\.param\.(\w+)\s+\[([\w$]+)\],\s*([^;]+);")
_LOAD = re.compile(r"ld\.param(\.\w+)\s+([%\w$]+),\s*\[([\w$]+)\];")
_DECLARED = re.compile(r"\.reg\s+\.\w+\s+(%\w+?)(?:<\d+>)?\s*;")


def without_calls(body: str, text: str) -> str:
    """The body of a kernel with the functions that it calls instead of the calls.

    Args:
        body: What is between the braces of the kernel.
        text: The whole module.
    """
    numbers = itertools.count()

    def replaced(match: re.Match[str]) -> str:
        call = match[2]
        callee = _CALLEE.search(call)
        function = _definition(text, callee[2]) if callee is not None else None
        # PTX has no recursion here: libdevice's functions end, so this does, too.
        return match[0] if callee is None or function is None else _inlined(call, callee, function, next(numbers))

    while (changed := _CALL.sub(replaced, body)) != body:
        body = changed
    return body


def _definition(text: str, name: str) -> tuple[list[str], str] | None:
    """The parameters and the body of a function; None where the module has only its declaration."""
    pattern = rf"\.func\s*(?:\([^)]*\))?\s*{re.escape(name)}\s*\(([^)]*)\)[^;{{]*\{{(.*?)// -- End function"
    found = re.search(pattern, text, re.DOTALL)
    if found is None:
        return None
    return re.findall(r"[\w$]+_param_\d+", found[1]), found[2]


def _inlined(call: str, callee: re.Match[str], function: tuple[list[str], str], number: int) -> str:
    """The body of a function with names of its own, its arguments given and its results taken."""
    parameters, body = function
    # Its lines are those of libdevice: all of it belongs to the line of the call.
    body = re.sub(r"[ \t]*\.loc\s[^\n]*\n", "", body)
    for stem in sorted(set(_DECLARED.findall(body)), key=len, reverse=True):
        body = re.sub(rf"{re.escape(stem)}(?=[<\d;])", f"%call{number}_{stem[1:]}", body)
    body = re.sub(r"\$L[\w$]+", rf"\g<0>_call{number}", body)
    end = f"$L__end_call{number}"
    body = re.sub(r"\bret;", f"bra {end};", body)
    given = {slot: value for _, slot, value in _STORE.findall(call)}
    arguments = dict(
        zip(parameters, (given.get(slot.strip(), "") for slot in (callee[3] or "").split(",")), strict=False)
    )
    body = _LOAD.sub(lambda load: f"mov{load[1]} {load[2]}, {arguments.get(load[3]) or load[3]};", body)
    body, results = _results(body, number)
    taken = _LOAD.sub(lambda load: f"mov{load[1]} {load[2]}, {results};", "\n".join(_loads(call)))
    return f"{body}\n{end}:\n{taken}\n"


def _results(body: str, number: int) -> tuple[str, str]:
    """The body with its result in a register, and that register."""
    result = f"%call{number}_result"
    kinds = re.findall(r"st\.param\.(\w+)\s+\[func_retval0\]", body)
    body = re.sub(r"st\.param\.(\w+)\s+\[func_retval0\],", rf"mov.\1 {result},", body)
    declared = f".reg .{kinds[0]} {result};\n" if kinds else ""
    return declared + body, result


def _loads(call: str) -> Iterator[str]:
    """The instructions that take the results of a call."""
    return (load[0] for load in _LOAD.finditer(call))
