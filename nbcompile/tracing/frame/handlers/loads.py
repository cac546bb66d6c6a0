"""Instructions that move values: locals, cells, globals, constants, attributes, items, the stack itself.

In torch: torch/_dynamo/symbolic_convert.py (LOAD_FAST, STORE_ATTR...). Read
next: nbcompile/tracing/frame/handlers/operators.py
"""

from __future__ import annotations

import builtins
import types
from collections.abc import Callable
from typing import Any

from nbcompile.bytecode.dialects import HERE
from nbcompile.bytecode.instruction import Instruction
from nbcompile.bytecode.opcode_families import is_two_argument_super, loads_method, pushes_null
from nbcompile.tracing import breaks
from nbcompile.tracing.calls import deferred
from nbcompile.tracing.calls.attributes import module_source
from nbcompile.tracing.frame.instruction_table import handles
from nbcompile.tracing.frame.translator import Translator
from nbcompile.tracing.variables.base import (
    LazyVariable,
    NullVariable,
    VariableTracker,
    is_deferred,
    realise,
    realise_unless_deferred,
)
from nbcompile.tracing.variables.cells import CellVariable
from nbcompile.tracing.variables.classes import ModuleVariable
from nbcompile.tracing.variables.containers import ContainerVariable
from nbcompile.tracing.variables.exceptions import look_up
from nbcompile.tracing.variables.known_callables import SkippedVariable
from nbcompile.tracing.variables.objects import ObjectVariable
from nbcompile.tracing.variables.observed import ObservedException


@handles("NOP", "RESUME", "PRECALL", "COPY_FREE_VARS")
def _nothing(frame: Translator, instruction: Instruction) -> None:
    return


@handles("LOAD_CONST")
def _load_const(frame: Translator, instruction: Instruction) -> None:
    frame.push(frame.interpreter.constant_or_wrap(instruction.argval))


@handles("LOAD_FAST", "LOAD_FAST_CHECK")
def _load_fast(frame: Translator, instruction: Instruction) -> None:
    frame.push(frame.load_local(str(instruction.argval)))


@handles("LOAD_FAST_AND_CLEAR")
def _load_and_clear(frame: Translator, instruction: Instruction) -> None:
    save_and_clear(frame, str(instruction.argval))


def save_and_clear(frame: Translator, name: str) -> None:
    """An inlined comprehension is about to use a slot: push its content: a local, a cell or nothing."""
    saved = frame.cells.pop(name, None) if name in frame.code.co_cellvars else None
    # The trackers are moved, not copied: the comprehension's own variable of this name begins unbound.
    frame.push(saved or frame.locals.pop(name, None) or NullVariable())


@handles("STORE_FAST")
def _store_fast(frame: Translator, instruction: Instruction) -> None:
    """Store a value in a slot, which after an inlined comprehension may get a cell back, or become unbound again."""
    name, value = str(instruction.argval), frame.pop_raw()
    if isinstance(value, NullVariable):
        frame.locals.pop(name, None)
    elif isinstance(value, CellVariable) and name in frame.code.co_cellvars:
        frame.locals.pop(name, None)
        frame.cells[name] = value
    else:
        frame.locals[name] = value


@handles("DELETE_FAST")
def _delete_fast(frame: Translator, instruction: Instruction) -> None:
    frame.load_local(str(instruction.argval))
    del frame.locals[str(instruction.argval)]


# -- cells -----------------------------------------------------------------------------------


@handles("MAKE_CELL")
def _make_cell(frame: Translator, instruction: Instruction) -> None:
    name = str(instruction.argval)
    if name in frame.code.co_freevars:
        # 3.12 and 3.13 forget the outer function's cell where a comprehension has one of the same name.
        raise breaks.unsupported(breaks.UNSUPPORTED_INSTRUCTION, f"MAKE_CELL {name}", name="MAKE_CELL (of a free name)")
    frame.cells[name] = CellVariable(frame.locals.pop(name, None), name)


@handles("LOAD_CLOSURE")
def _load_closure(frame: Translator, instruction: Instruction) -> None:
    frame.push(frame.cells[str(instruction.argval)])


@handles("LOAD_DEREF", "LOAD_CLASSDEREF")
def _load_deref(frame: Translator, instruction: Instruction) -> None:
    frame.push(_content(frame, str(instruction.argval)))


def _content(frame: Translator, name: str) -> VariableTracker:
    """The content of a cell. An empty one raises, in the traced program, what depends on whose variable it is."""
    content = frame.cells[name].content
    if content is not None:
        return content
    if name in frame.code.co_cellvars:
        frame.raise_unbound(name)
    text = f"cannot access free variable '{name}' where it is not associated with a value in enclosing scope"
    frame.raise_unknown_name(name, text)


@handles("STORE_DEREF")
def _store_deref(frame: Translator, instruction: Instruction) -> None:
    cell = frame.cells[str(instruction.argval)]
    # The change of a cell from outside is recorded before the content is replaced, and is replayed after the graph.
    frame.interpreter.side_effects.mark_mutated(frame.interpreter, cell)
    cell.content = frame.pop_raw()


@handles("DELETE_DEREF")
def _delete_deref(frame: Translator, instruction: Instruction) -> None:
    cell = frame.cells[str(instruction.argval)]
    _content(frame, str(instruction.argval))
    frame.interpreter.side_effects.mark_mutated(frame.interpreter, cell)
    cell.content = None


# -- globals ---------------------------------------------------------------------------------


@handles("LOAD_GLOBAL")
def _load_global(frame: Translator, instruction: Instruction) -> None:
    value = frame.load_global(str(instruction.argval))
    _push_callable(frame, value, null=pushes_null(instruction))


def _push_callable(frame: Translator, value: VariableTracker, *, null: bool) -> None:
    # Where CPython keeps the slot for ``self`` of a call:
    #     up to 3.12   NULL f args...        from 3.13   f NULL args...
    if null and HERE.null_below_callable:
        frame.push(NullVariable())
    frame.push(value)
    if null and not HERE.null_below_callable:
        frame.push(NullVariable())


@handles("LOAD_NAME")
def _load_name(frame: Translator, instruction: Instruction) -> None:
    name = str(instruction.argval)
    frame.push(frame.locals[name] if name in frame.locals else frame.load_global(name))


@handles("STORE_NAME")
def _store_name(frame: Translator, instruction: Instruction) -> None:
    frame.locals[str(instruction.argval)] = frame.pop_raw()


@handles("STORE_GLOBAL")
def _store_global(frame: Translator, instruction: Instruction) -> None:
    frame.interpreter.side_effects.store_global(
        frame.interpreter, frame.scope, str(instruction.argval), frame.pop_keeping_deferred()
    )


@handles("DELETE_GLOBAL")
def _delete_global(frame: Translator, instruction: Instruction) -> None:
    realise(frame.interpreter, frame.load_global(str(instruction.argval)))
    frame.interpreter.side_effects.store_global(frame.interpreter, frame.scope, str(instruction.argval), None)


@handles("LOAD_BUILD_CLASS")
def _build_class(frame: Translator, instruction: Instruction) -> None:
    reason = breaks.unsupported(breaks.BUILD_CLASS, f"__build_class__ in {frame.code.co_name}")
    _push_callable(frame, SkippedVariable(builtins.__build_class__, reason), null=False)


@handles("IMPORT_NAME")
def _import(frame: Translator, instruction: Instruction) -> None:
    names = realise(frame.interpreter, frame.pop())
    level = frame.pop().constant()
    # ``__import__`` resolves a relative import against the package of the traced module, whose globals it reads.
    package = {
        name: frame.scope[name] for name in ("__name__", "__package__", "__spec__", "__path__") if name in frame.scope
    }
    fromlist = names.constant()
    try:
        # An import really runs while tracing. It runs once in eager mode too: ``sys.modules``
        # has the module afterwards.
        module = _importer(frame)(str(instruction.argval), package, None, fromlist or (), level)
    except ImportError as error:
        name = instruction.argval
        raise breaks.unsupported(breaks.IMPORT, f"import {name}", name=name, error=error) from error
    assert isinstance(module, types.ModuleType)
    # A module that is not in ``sys.modules`` has no address: the object itself is stored, so that what is read of it is
    # guarded.
    source = module_source(module) or frame.interpreter.keep(module, module.__name__)
    frame.push(frame.interpreter.wrap(module, source))


def _importer(frame: Translator) -> Callable[..., Any]:
    """The ``__import__`` of the frame's own builtins: modules that torch.package has loaded have one of theirs."""
    own: Any = frame.scope.get("__builtins__", builtins)
    names = own if isinstance(own, dict) else vars(own)
    importer: Callable[..., Any] = names.get("__import__", __import__)
    return importer


@handles("IMPORT_FROM")
def _import_from(frame: Translator, instruction: Instruction) -> None:
    module = realise(frame.interpreter, frame.stack[-1])
    try:
        frame.push(module.get_attribute(frame.interpreter, str(instruction.argval)))
    # ``from package import module`` finds a submodule even if it is no attribute of the package: CPython
    # then looks up ``sys.modules["package.module"]``.
    except ObservedException:
        assert isinstance(module, ModuleVariable)
        found = frame.interpreter.evaluate(_import_name_from, (module.value, str(instruction.argval)))
        frame.push(frame.interpreter.wrap(found, module_source(found)))  # type: ignore[arg-type]


def _import_name_from(module: types.ModuleType, name: str) -> object:
    """The result of ``from module import name``, or the ImportError of this version of Python."""
    # CPython words the error by what the module is (a package, one that is still being imported ...), so its own error
    # is raised.
    scope: dict[str, object] = {"__builtins__": {"__import__": lambda *_: module}}
    exec(f"from module import {name}", scope)
    return scope[name]


# -- attributes and items --------------------------------------------------------------------


@handles("LOAD_ATTR")
def _load_attr(frame: Translator, instruction: Instruction) -> None:
    if (method := deferred.method(frame.stack[-1], str(instruction.argval))) is not None:
        frame.pop_raw()
        _push_callable(frame, method, null=loads_method(instruction))
        return
    owner = frame.pop()
    # For a property: the value that its getter returns is pushed.
    frame.calling = None if loads_method(instruction) else owner
    value = look_up(frame.interpreter, owner, str(instruction.argval))
    _push_callable(frame, value, null=loads_method(instruction))


@handles("LOAD_METHOD")
def _load_method(frame: Translator, instruction: Instruction) -> None:
    name = str(instruction.argval)
    owner = realise_unless_deferred(frame.interpreter, frame.pop_raw())
    # A method that was looked up on a tracker is bound already, so the slot for ``self`` is always NULL.
    if (method := deferred.method(owner, name)) is not None:
        frame.push(NullVariable())
        frame.push(method)
        return
    owner = realise(frame.interpreter, owner)
    frame.push(NullVariable())
    frame.push(look_up(frame.interpreter, owner, str(instruction.argval)))


@handles("LOAD_SUPER_ATTR")
def _load_super_attr(frame: Translator, instruction: Instruction) -> None:
    found, cls, owner = frame.pop_many(3)  # ``super`` may be a global of the user's: it is called as it was written
    instance = frame.interpreter.call(found, [cls, owner] if is_two_argument_super(instruction) else [])
    value = realise(frame.interpreter, instance).get_attribute(frame.interpreter, str(instruction.argval))
    _push_callable(frame, value, null=loads_method(instruction))


@handles("STORE_ATTR")
def _store_attr(frame: Translator, instruction: Instruction) -> None:
    owner = frame.pop()
    value = frame.pop_keeping_deferred() if isinstance(owner, ObjectVariable) else frame.pop()
    owner.set_attribute(frame.interpreter, str(instruction.argval), value)


@handles("DELETE_ATTR")
def _delete_attr(frame: Translator, instruction: Instruction) -> None:
    frame.pop().delete_attribute(frame.interpreter, str(instruction.argval))


@handles("BINARY_SUBSCR")
def _subscript(frame: Translator, instruction: Instruction) -> None:
    owner, key = frame.pop_pair()
    frame.calling = owner
    frame.push(owner.get_item(frame.interpreter, key))


@handles("STORE_SUBSCR")
def _store_subscript(frame: Translator, instruction: Instruction) -> None:
    owner, key = frame.pop_pair()
    value = frame.pop_keeping_deferred() if isinstance(owner, ContainerVariable) else frame.pop()
    owner.set_item(frame.interpreter, key, value)


@handles("DELETE_SUBSCR")
def _delete_subscript(frame: Translator, instruction: Instruction) -> None:
    owner, key = frame.pop_pair()
    owner.delete_item(frame.interpreter, key)


# -- the stack itself ------------------------------------------------------------------------


@handles("POP_TOP", "END_FOR")
def _pop(frame: Translator, instruction: Instruction) -> None:
    frame.pop_raw()


@handles("PUSH_NULL")
def _push_null(frame: Translator, instruction: Instruction) -> None:
    frame.push(NullVariable())


@handles("COPY")
def _copy(frame: Translator, instruction: Instruction) -> None:
    position = -(instruction.arg or 1)
    # Both slots must hold one tracker: two lazy ones of one value would be realised apart, as two objects.
    value = frame.stack[position]
    if isinstance(value, LazyVariable) and not is_deferred(value):
        value = frame.stack[position] = realise(frame.interpreter, value)
    frame.push(value)


@handles("SWAP")
def _swap(frame: Translator, instruction: Instruction) -> None:
    other = -(instruction.arg or 1)
    frame.stack[-1], frame.stack[other] = frame.stack[other], frame.stack[-1]


@handles("END_SEND")
def _end_send(frame: Translator, instruction: Instruction) -> None:
    # ``yield from`` is done: the stack holds the exhausted iterator and its result above it; only the result stays.
    value = frame.pop_raw()
    frame.pop_raw()
    frame.push(value)
