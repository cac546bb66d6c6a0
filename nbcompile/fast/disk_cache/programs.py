"""A residual program as data: its text, and what the names in it mean.

    graph_out = __compiled_fn_1(x)                          __compiled_fn_1        ["graph"]
    return __torch_dynamo_resume_in_f_at_3(graph_out[0])    __torch_dynamo_...     ["resume", {...}]

The text is parsed and compiled again, so what is kept is what a person is shown. A resume function is rebuilt
from the user's own code object (rewriting/resume.py), which the entry's key says is the same; nothing is unmarshalled.

In torch: nothing; torch/_dynamo/package.py pickles code objects. Read next: nbcompile/fast/disk_cache/graphs.py
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from nbcompile.capture.frame import Frame
from nbcompile.capture.literals import NotStorable, Unreadable, decode, encode
from nbcompile.fast.disk_cache.descriptions import code_digest
from nbcompile.fast.disk_cache.object_lookup import find, findable
from nbcompile.rewriting import resume
from nbcompile.rewriting.code_object import compile_function
from nbcompile.rewriting.residual import Residual
from nbcompile.rewriting.resume_layout import ResumeTarget, Slot
from nbcompile.rewriting.syntax import set_line


def write(residual: Residual, frame: Frame, graph: object) -> dict[str, Any]:
    """A residual program as JSON.

    Raises:
        NotStorable: it keeps an object that only this process has.
    """
    first = frame.code.co_firstlineno
    return {
        "source": residual.source,
        "lines": [0 if line is None else line - first for line in residual.lines],
        "kept": {name: _kept(value, frame, graph, residual.code_as_written) for name, value in residual.kept.items()},
        "resume": [_resume(code, frame) for code in residual.resume_codes],
        "python": [_resume(code, frame) for code in residual.python_codes],
        "effects": residual.effects,
        "carried": residual.carried,
    }


def _kept(value: Any, frame: Frame, graph: object, as_written: CodeType | None) -> list[Any]:
    # Constants of the program: the graph, code, globals and functions have forms of their own; others are literals or
    # objects that are found by name.
    if value is graph:
        return ["graph"]
    if as_written is not None and value is as_written:
        return ["code as written"]
    if as_written is not None and getattr(value, "__code__", None) is as_written:
        return ["as written"]
    if value is frame.globals:
        return ["globals"]
    if isinstance(value, CodeType):
        return _code(value, frame)
    if isinstance(value, FunctionType) and resume.resume_info(value.__code__) is not None:
        if value.__globals__ is not frame.globals:
            raise NotStorable(f"{value.__name__} continues in a function of another module")
        return ["resume", _resume(value.__code__, frame)]
    try:
        return ["literal", encode(value)]
    except NotStorable:
        return ["object", findable(value)]


def _code(code: CodeType, frame: Frame) -> list[Any]:
    if resume.resume_info(code) is not None:
        return ["resume code", _resume(code, frame)]
    # Code of an inner function is found in the constants of the frame's code.
    path = _path_to(code, frame.code)
    if path is None:
        raise NotStorable(f"the code of {code.co_qualname} is defined outside of the function")
    return ["code", path]


def _path_to(code: CodeType, inside: CodeType) -> list[int] | None:
    for index, constant in enumerate(inside.co_consts):
        if constant is code:
            return [index]
        below = _path_to(code, constant) if isinstance(constant, CodeType) else None
        if below is not None:
            return [index, *below]
    return None


def _users(frame: Frame) -> CodeType:
    """The code that the user wrote, of which the frame may run the rest."""
    info = resume.resume_info(frame.code)
    original = frame.code if info is None else info.original()
    if original is None:
        raise NotStorable("the user's function was deleted")
    return original


def _resume(code: CodeType, frame: Frame) -> dict[str, Any]:
    info, original = resume.resume_info(code), _users(frame)
    if info is None or info.original() is not original or not code.co_name.startswith("torch_dynamo_resume"):
        raise NotStorable(f"{code.co_name} is the rest of another function")
    return {
        "offset": info.offset,
        "stack": [slot.name for slot in info.stack],
        "live": info.live,
        "cells": info.cells,
        "line": info.line - original.co_firstlineno,
        "digest": code_digest(code),
    }


def read(data: dict[str, Any], frame: Frame, graph: Callable[..., object] | None) -> Residual:
    """The program again, for the frame that is about to run.

    Raises:
        Unreadable: something that it keeps is not there.
    """
    (function,) = ast.parse(data["source"]).body
    assert isinstance(function, ast.FunctionDef)
    # ``compile_function`` adds the ``nonlocal`` statement itself.
    statements = [each for each in function.body if not isinstance(each, ast.Nonlocal)]
    for statement, line in zip(statements, data["lines"], strict=True):
        set_line([statement], frame.code.co_firstlineno + line)
    # A copy, as when the program was built: another code object, which the hook leaves to Python.
    as_written = frame.code.replace()
    kept = {name: _object(encoded, frame, graph, as_written) for name, encoded in data["kept"].items()}
    code, shown = compile_function(frame.code, statements, kept)
    return Residual(
        code,
        shown,
        tuple(_resume_code(each, frame) for each in data["resume"]),
        tuple(_resume_code(each, frame) for each in data["python"]),
        tuple((target, text) for target, text in data["effects"]),
        tuple(tuple((name, text, kind) for name, text, kind in each) for each in data["carried"]),
        as_written if any("as written" in encoded[0] for encoded in data["kept"].values()) else None,
        kept,
        tuple(frame.code.co_firstlineno + line for line in data["lines"]),
    )


def _object(encoded: list[Any], frame: Frame, graph: object, as_written: CodeType) -> Any:
    match encoded:
        case ["graph"]:
            return graph
        case ["globals"]:
            return frame.globals
        case ["code as written"]:
            return as_written
        case ["as written"]:
            return FunctionType(as_written, frame.globals, as_written.co_name)
        case ["literal", value]:
            return decode(value)
        case ["object", list(description)]:
            return find(description)
        case ["resume code", dict(position)]:
            return _resume_code(position, frame)
        case ["resume", dict(position)]:
            code = _resume_code(position, frame)
            return FunctionType(code, frame.globals, code.co_name)
        case ["code", list(path)]:
            # A path of indices: a function inside of an inner function takes two.
            code = frame.code
            for index in path:
                code = code.co_consts[index]
            return code
    raise Unreadable(f"nothing is kept so: {str(encoded)[:80]}")


def _resume_code(point: dict[str, Any], frame: Frame) -> CodeType:
    original = _users(frame)
    stack = tuple(Slot[name] for name in point["stack"])
    line = original.co_firstlineno + point["line"]
    target = ResumeTarget(original, point["offset"], stack, tuple(point["live"]), tuple(point["cells"]), line)
    code = resume.resume_function_code(target)
    # The bytecode depends on the interpreter; the digest notices a resume function that comes out in another way.
    if code_digest(code) != point["digest"]:
        raise Unreadable(f"{code.co_name} comes out differently")
    return code
