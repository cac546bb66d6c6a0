"""Objects of this process that a description means: found by name, and compared with the description.

    findable(math.sqrt)                           ["builtin", "math", "sqrt"]: what :func:`find` finds again
    find(["builtin", "math", "sqrt"])             math.sqrt
    find(["function", "mine", "helper", "9f2c"])  Unreadable, if mine.helper was edited since

In torch: nothing; torch/_dynamo/package.py pickles. Read next: nbcompile/fast/disk_cache/addresses.py
"""

from __future__ import annotations

import sys
import types
from typing import Any

from nbcompile.capture.literals import NotStorable, Unreadable
from nbcompile.fast.disk_cache.descriptions import OF_PYTHON, Description, alike, code_digest, describe
from nbcompile.fast.disk_cache.named_objects import member_of, operator_named, walk


def find(description: Description) -> Any:
    """The object of this process that is described: by its name, and only if it is that one.

    Raises:
        Unreadable: there is none, or another one.
    """
    match description:
        case ["module", str(name)] if name in sys.modules:
            return sys.modules[name]
        case ["function" | "class", str(module), str(path), *_] if module in sys.modules:
            found = walk(sys.modules[module], path)
            # Classes such as that of functions say that they are in ``builtins``, which has no such name.
            if found is None and module == "builtins":
                found = OF_PYTHON.get(path)
            if found is None:  # functools._CacheInfo says that it is CacheInfo
                found = walk(sys.modules[module], f"_{path}")
        case ["builtin", str(location), str(name), *_]:
            module, _, path = location.partition(":")
            owner = sys.modules.get(module)
            found = member_of(walk(owner, path) if path else owner, name)
        case ["operator", str(name), *_]:
            found = operator_named(name)
        case ["member", list(of), str(name)]:
            found = find(of)[name]
        case ["flags", list(of), int(number)]:
            found = find(of)(number)
        case _:
            raise Unreadable(f"nothing to be found: {description!r:.80}")
    # The name is a hint; the comparison of descriptions decides.
    try:
        same = alike(describe(found), description)
    except NotStorable:
        same = False
    if not same:
        raise Unreadable(f"{'.'.join(map(str, description[1:3]))} is another one now")
    return found


def findable(value: object) -> Description:
    """The description of an object that :func:`find` finds again.

    Raises:
        NotStorable: it has no name of its own.
    """
    description = describe(value)
    # Described and found at once: what cannot be found here will not be found there either.
    try:
        found = find(description)
    except Unreadable as reason:
        raise NotStorable(str(reason)) from None
    if found is not value:
        raise NotStorable(f"{getattr(value, '__qualname__', value)!r} is not what its name means")
    return description


def named_code(code: types.CodeType, module: str) -> Description:
    """Code that was traced through, by the name under which every process finds it.

    Raises:
        NotStorable: there is no such name.
    """
    description = ["code", module, code.co_qualname, code_digest(code)]
    try:
        expect_code(description)
    except Unreadable:
        raise NotStorable(f"{code.co_qualname} was traced through, and has no name of its own") from None
    return description


def expect_code(description: Description) -> None:
    """Look for the code of that name.

    Raises:
        Unreadable: it is another one now.
    """
    _, module, path, digest = description
    found = walk(sys.modules.get(module), path)
    # The name of a property or a class method leads to the object around the function.
    found = getattr(found, "fget", getattr(found, "__func__", found))
    code = getattr(found, "__code__", None)
    if not isinstance(code, types.CodeType) or code_digest(code) != digest:
        raise Unreadable(f"{module}.{path} is another function now")
