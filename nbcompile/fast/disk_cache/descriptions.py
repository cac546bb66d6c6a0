"""Structural fingerprints of a program's objects, equal in every process that has an equal object.

    torch.nn.functional        ["module", "torch.nn.functional"]
    a function                 ["function", "mine", "helper", digest of its code, defaults and closure]
    a class                    ["class", "mine", "Model", digest of its members and bases]
    print                      ["builtin", "builtins", "print"]
    torch.ops.aten.add.Tensor  ["operator", "aten.add.Tensor"]
    a Triton kernel            ["kernel", "mine", "scale", digest of its text and of all that it is compiled with]
    a process group            ["processes", "group", "0", rank 1, ranks 0 and 1]; a mesh of devices likewise

An entry of the store contains descriptions, never objects. A look-up describes the objects at the addresses of the
entry's guards *now*, and compares the descriptions: an edited function, or a class with another method, has another
description.

A name does not identify an object, not even in torch or Python's library: a factory creates many functions with one
name, ``functools.wraps`` copies names, and a class may be patched. So the content is part of their descriptions, too.

In torch: nothing; torch/_dynamo/package.py pickles. Read next: object_lookup.py
"""

from __future__ import annotations

import enum
import hashlib
import re
import sys
import types
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch

from nbcompile import torch_internals
from nbcompile.capture import triton_kernels
from nbcompile.capture.literals import NotStorable, encode
from nbcompile.fast.disk_cache.named_objects import NAMESPACES, walk
from nbcompile.support.class_flags import HEAP_TYPE
from nbcompile.support.context_variables import bound

Description = list[Any]
DEPTH = 4
"""Depth to which nested functions (defaults, members of members) are described."""
_MEMBERS_OF_PYTHON = frozenset(
    {"__dict__", "__weakref__", "__doc__", "__annotations__", "__firstlineno__", "__slotnames__", "_abc_impl"}
    | {"___needs_generation_tag_patch"}
)
"""Members that do not affect a program, some of which Python creates on demand."""
_MATCHED_BY_PATTERNS = 1 << 5 | 1 << 6
"""Py_TPFLAGS_SEQUENCE and Py_TPFLAGS_MAPPING, which ``ABC.register`` sets and ``case [a, b]`` reads."""
_COMPARED = (bool, int, float, complex, str, bytes)
"""Types whose values ``repr`` describes completely."""
OF_PYTHON = {each.__name__: each for each in vars(types).values() if getattr(each, "__module__", "") == "builtins"}
"""Classes whose ``__module__`` is ``builtins``, although they are not in it: function, method, cell."""
_C_CALLABLES = types.BuiltinFunctionType | types.MethodDescriptorType | types.WrapperDescriptorType
_OPERATORS = (torch._ops.OpOverload, torch._ops.OpOverloadPacket, torch._ops.HigherOrderOperator)


def is_trusted(module: object) -> bool:
    """True if a module's name is one of torch, nbcompile or Python's library."""
    top = str(module).partition(".")[0]
    return top in ("torch", "nbcompile", "builtins") or (top in sys.stdlib_module_names and top != "__main__")


def alike(one: Any, other: Any) -> bool:
    """True if two descriptions are equal with equal types: 1, 1.0 and True are equal, but differ for a program."""
    return one == other and repr(one) == repr(other)


def digest_of(parts: Iterable[object]) -> str:
    """A digest of a sequence of texts and numbers."""
    return hashlib.sha256(repr(list(parts)).encode()).hexdigest()[:24]


def code_digest(code: types.CodeType) -> str:
    """A digest of a function's bytecode and its relative line numbers, without its file and its position there.

    Raises:
        NotStorable: it contains an object that is not a literal.
    """
    # A notebook cell has another file name in another process, so the file and the position are left out.
    return digest_of(
        (
            code.co_name, code.co_qualname, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount,
            code.co_flags, code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars,
            code.co_exceptiontable, code.co_linetable, [_constant(each) for each in code.co_consts],
        )
    )  # fmt: skip


def _constant(value: object) -> object:
    if isinstance(value, types.CodeType):
        return code_digest(value)
    if isinstance(value, tuple):
        return [_constant(each) for each in value]
    return encode(value)


_memo: ContextVar[dict[tuple[int, int], tuple[object, Description]] | None] = ContextVar("memo", default=None)
"""Classes and functions that were described, with their descriptions."""


@contextmanager
def memoized() -> Iterator[None]:
    """Describe each class and function only once inside of the block: a model has many objects of few classes.

    No code of the program may run in the block, since it could change one of them.
    """
    with bound(_memo, {} if (known := _memo.get()) is None else known):
        yield


def describe(value: Any, depth: int = DEPTH) -> Description:
    """Describe an object.

    Raises:
        NotStorable: the object has no description that is valid in another process.
    """
    memo = _memo.get()
    if memo is None or not isinstance(value, type | types.FunctionType):
        return _describe(value, depth)
    found = memo.get((id(value), depth))
    if found is None:
        # No user code runs in the block, so a described object does not change.
        found = memo[id(value), depth] = (value, _describe(value, depth))  # the value stays alive: a unique id
    return found[1]


def _describe(value: Any, depth: int) -> Description:
    # Each kind has its own form; any other object must be a literal, or the entry cannot be stored.
    if isinstance(value, types.ModuleType):
        if isinstance(value, torch._ops._OpNamespace) and walk(sys.modules["torch"], value.__name__[6:]) is value:
            return ["operators", value.__name__]  # torch.ops.aten is not in sys.modules
        if is_trusted(value.__name__) and sys.modules.get(value.__name__) is not value:
            raise NotStorable(f"another module than {value.__name__} has its name")
        return ["module", value.__name__]
    if isinstance(value, type):
        return _class(value, depth)
    if isinstance(value, types.FunctionType):
        return _function(value, depth)
    if isinstance(value, _C_CALLABLES):
        return _of_c(value, depth)
    if isinstance(value, _OPERATORS):
        return _operator(value, depth)
    if isinstance(value, enum.Enum):
        return _of_enum(value, depth)
    if isinstance(value, types.CodeType):
        return ["code", code_digest(value)]
    if triton_kernels.is_triton_kernel(value):
        return _kernel(value, depth)
    if type(value).__name__ == "instancemethod":
        return _getter_of_pybind(value)
    if (of_processes := torch_internals.facts_of_processes(value)) is not None:
        return ["processes", *of_processes]
    return ["value", encode(value)]


def _kernel(value: Any, depth: int) -> Description:
    """A Triton kernel of the user, with the functions that it calls: no guard checks them."""

    def of_others(held: Any) -> object:
        if isinstance(held, types.FunctionType) and not is_trusted(module_of(held)):
            return _with_all_it_calls(held, depth)
        return _describe(held, depth)

    function = triton_kernels.function_of(value)
    return ["kernel", function.__module__, function.__qualname__, digest_of(triton_kernels.contents(value, of_others))]


def _of_enum(value: enum.Enum, depth: int) -> Description:
    """A member by its name; a combination of flags, which has no name, by its number."""
    if type(value)._member_map_.get(str(value.name)) is value:
        return ["member", describe(type(value), depth), value.name]
    if isinstance(value, enum.Flag):
        return ["flags", describe(type(value), depth), value.value]
    raise NotStorable(f"a value of {type(value).__qualname__} that is none of its members")


def _function(value: types.FunctionType, depth: int) -> Description:
    if not depth:
        raise NotStorable(f"functions within functions, down to {value.__qualname__}")
    # The parts of a function: its code, its defaults, the functions and classes in its closure, and attributes that a
    # program may read (name, doc, annotations).
    given = [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).items()]
    held = [_content(cell, depth - 1) for cell in value.__closure__ or ()]
    digest = digest_of(
        (
            module_of(value), code_digest(value.__code__), [_roughly(each, depth - 1) for each in given], held,
            _text(value.__name__), _text(value.__doc__), _annotations(value.__annotations__),
        )
    )  # fmt: skip
    return ["function", value.__module__, value.__qualname__, digest]


def module_of(function: types.FunctionType) -> str:
    """The module whose globals a function reads; ``functools.wraps`` copies ``__module__`` from another one."""
    return str(function.__globals__.get("__name__", ""))


def _content(cell: types.CellType, depth: int) -> object:
    # A trace guards what it read from a closure; functions and classes in the closure are also described.
    try:
        content = cell.cell_contents
    except ValueError:
        return "empty"
    return _roughly(content, depth)


def _roughly(value: object, depth: int) -> object:
    """The description of an object without its state: a trace guards the state that it read."""
    if not depth:
        return type(value).__qualname__
    try:
        return [_roughly(each, depth) for each in value] if isinstance(value, tuple) else describe(value, depth)
    except NotStorable:
        return type(value).__qualname__


def _class(value: type, depth: int) -> Description:
    name = [value.__module__, value.__qualname__]
    # A class in C cannot be changed, so its name is enough.
    if not value.__flags__ & HEAP_TYPE:
        return ["class", *name]
    # The whole method resolution order, which a look-up searches, and the members of each class in it.
    bases = [[each.__module__, each.__qualname__] for each in value.__mro__]
    members = [_members(each, depth) for each in value.__mro__ if each.__flags__ & HEAP_TYPE]
    return ["class", *name, digest_of((bases, members, value.__flags__ & _MATCHED_BY_PATTERNS))]


def _members(cls: type, depth: int) -> list[object]:
    own = [(key, member) for key, member in vars(cls).items() if key not in _MEMBERS_OF_PYTHON]
    # A class of torch at its usual name is described in outline: it has hundreds of members.
    if is_trusted(cls.__module__) and walk(sys.modules.get(cls.__module__), cls.__qualname__) is cls:
        return [(key, _outline(member, depth)) for key, member in own]  # in the order of the source file
    documented = [_text(vars(cls).get("__doc__")), _annotations(vars(cls).get("__annotations__", {}))]
    # The order of vars(cls) counts, too.
    return [*documented, *((key, _member(member, depth - 1)) for key, member in own)]


def _annotations(annotations: object) -> object:
    """The annotations of a class or a function, which a program may read like any attribute."""
    if not isinstance(annotations, dict):
        return type(annotations).__qualname__
    return [(_text(name), _annotation(value)) for name, value in annotations.items()]


def _annotation(value: object) -> object:
    if isinstance(value, type):
        return [value.__module__, value.__qualname__]
    return repr(value) if type(value).__module__ in ("typing", "types") else _text(value)


def _text(value: object) -> object:
    return value if value is None or type(value) is str else type(value).__qualname__


def _outline(value: Any, depth: int) -> object:
    """Short description of a member of a class of torch: enough to detect that another function replaced it.

    Values that a program reads there are guarded.
    """
    if isinstance(value, types.FunctionType):
        value = without_torchs_compiler(value)
        code, cells = value.__code__, value.__closure__ or ()
        held = [_outline(content_of(each), depth - 1) for each in cells] if depth else len(cells)
        constants = [
            constant
            for below in codes_of(code)
            for constant in below.co_consts
            if type(constant) in _COMPARED and constant is not value.__doc__
        ]
        return [module_of(value), code.co_qualname, code.co_firstlineno, code.co_code, code.co_names, constants, held]
    if isinstance(value, staticmethod | classmethod):
        return _outline(value.__func__, depth)
    if isinstance(value, property):
        return [_outline(each, depth) for each in (value.fget, value.fset, value.fdel)]
    if isinstance(value, _C_CALLABLES | type):
        return getattr(value, "__qualname__", value.__name__)
    return type(value).__qualname__


def without_torchs_compiler(value: types.FunctionType) -> types.FunctionType:
    """The original of a method that a real torch.compile in this process has wrapped."""
    if module_of(value).split(".")[:2] == ["torch", "_dynamo"]:
        held = [content_of(each) for each in value.__closure__ or ()]
        original = getattr(value, "_torchdynamo_orig_callable", None)
        return next((each for each in (original, *held) if isinstance(each, types.FunctionType)), value)
    return value


def content_of(cell: types.CellType) -> object:
    """The content of a cell; None if it is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _member(value: Any, depth: int) -> object:
    if isinstance(value, staticmethod | classmethod):
        return [type(value).__name__, _roughly(value.__func__, depth)]
    if isinstance(value, property):
        return ["property", *(_roughly(each, depth) for each in (value.fget, value.fset, value.fdel))]
    if isinstance(value, enum.Enum):
        return ["member", value.name, repr(value.value)]
    return _roughly(value, depth)


def _of_c(value: Any, depth: int) -> Description:
    owner: Any = getattr(value, "__objclass__", None) or getattr(value, "__self__", None)
    if type(owner).__module__ == "pybind11_builtins":
        owner = None  # pybind binds the function to an object without a name
    if isinstance(owner, type):
        if not is_trusted(owner.__module__) and owner.__module__ not in sys.modules:
            raise NotStorable(f"a method of {owner.__qualname__}")
        more = [_class(owner, depth - 1)] if depth and not is_trusted(owner.__module__) else []
        return ["builtin", f"{owner.__module__}:{owner.__qualname__}", value.__name__, *more]
    named = getattr(value, "__module__", None)  # a slot of a pybind class has none
    module = owner.__name__ if isinstance(owner, types.ModuleType) else named if owner is None else None
    if not isinstance(module, str):
        return _getter_of_pybind(value)
    # The name is valid only if it leads to this object: a monkey-patched function is another object.
    name: str = value.__name__
    if getattr(sys.modules.get(module), name, None) is not value:
        raise NotStorable(f"{module}.{name} is another function")
    return ["builtin", module, name]


def _getter_of_pybind(value: Any) -> Description:
    """The C++ function of a property: it has no name, but its ``repr`` contains the class that has the property."""
    signature = re.search(r"\((?:self|arg0): ([\w.]+)\.(\w+)\)", value.__doc__ or "")
    owner: Any = walk(sys.modules.get(signature[1]), signature[2]) if signature else None
    for name, member in vars(owner).items() if isinstance(owner, type) else ():
        if isinstance(member, property) and member.fget is value:
            return ["getter", owner.__module__, owner.__qualname__, name]
    raise NotStorable(f"the method {value.__name__} of an object")


def _operator(value: Any, depth: int) -> Description:
    if isinstance(value, torch._ops.HigherOrderOperator):
        return ["operator", f"higher_order.{value}"]
    name, of_torch = str(value), str(value).partition(".")[0] in NAMESPACES
    return ["operator", name] if of_torch else ["operator", name, _of_user(value, depth)]


def _of_user(operator: Any, depth: int) -> str:
    """The attributes of an operator that tracing reads: its schema and its registrations."""
    packet = getattr(operator, "overloadpacket", operator)
    defined = torch._library.custom_ops.OPDEFS.get(packet._qualified_op_name)
    if defined is None:
        raise NotStorable(f"the operator {operator} was not created by torch.library.custom_op")
    # Rules for tensor classes and autocast are in tables by class, which no description covers.
    if defined._torch_dispatch_fns or defined._autocast_dtype:
        raise NotStorable(f"the operator {operator} has rules for classes of tensors, or for autocast")
    rules = [
        (name, _with_all_it_calls(value, depth))
        for name, value in vars(defined).items()
        if isinstance(value, types.FunctionType) and name != "_init_fn"
    ]
    return digest_of((defined._schema, rules))


def _with_all_it_calls(function: types.FunctionType, depth: int) -> list[object]:
    """A function and the objects of its global names: torch runs it while tracing, and no guard checks it.

    Raises:
        NotStorable: the function reads an object that cannot be described.
    """
    found: list[types.FunctionType] = [function]
    described: list[object] = []
    # The loop appends to the list that it iterates over: the functions that a described function calls, recursively.
    for callee in found:
        names = {name for code in codes_of(callee.__code__) for name in code.co_names}
        for name in sorted(names & callee.__globals__.keys()):
            value = callee.__globals__[name]
            if isinstance(value, types.ModuleType) and not is_trusted(value.__name__):
                raise NotStorable(f"{callee.__qualname__} reads the attributes of the module {value.__name__}")
            if isinstance(value, types.FunctionType) and not is_trusted(module_of(value)) and value not in found:
                found.append(value)
            described.append([name, describe(value, depth)])
    return [describe(each, depth) for each in found] + described


def codes_of(code: types.CodeType) -> list[types.CodeType]:
    """A code object and all code objects that are nested in it."""
    nested = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return [code, *(below for each in nested for below in codes_of(each))]


def tensor_facts(value: torch.Tensor) -> list[Any]:
    """The properties except sizes that a guard on a tensor checks; reading them runs no code of its class."""
    keys = torch._C._dispatch_keys(value).raw_repr()
    with torch._C.DisableTorchFunction():
        return [describe(type(value)), str(value.dtype), str(value.device), value.requires_grad, keys]
