"""One statement of a kernel as C++: a named value, a store, an update.

    Store("buf0", 8*i0 + i1, t)     store(out0 + 8*i0 + i1, lanes, t);
    Update("buf1", 64*g0 + i1, v)   if (g0_good) store(out0 + 64*g0 + i1, lanes, Sum::join(load<f32, W>(...), v));

In torch: torch/_inductor/codegen/cpp.py (CppVecKernel.store). Read next:
nbcompile/codegen/totals.py
"""

from __future__ import annotations

from dataclasses import replace

from nbcompile.codegen.emitter import KernelEmitter
from nbcompile.codegen.printers import C_TYPES, c_index
from nbcompile.codegen.totals import KINDS
from nbcompile.codegen.values import Scope, Value, as_many, emit_place, emit_value, is_whole_row, joined
from nbcompile.ir import index as indexing
from nbcompile.ir.expr import Expr, walk
from nbcompile.ir.kernel import Let, Store, Update, access


def emit_statement(emitter: KernelEmitter, scope: Scope, statement: Let | Store | Update) -> None:
    """One statement, in a scope."""
    scope.origin = emitter.origins.get(statement.name if isinstance(statement, Let) else statement.buffer, ())
    value = emit_value(scope, statement.value)
    if isinstance(statement, Update):
        _update(emitter, scope, statement, value)
        return
    if isinstance(statement, Let):
        name = emitter.label(statement.name)
        emitter.writer.line(
            f"const auto {name} = {value.text};  // {statement.name}", joined(value.origin, scope.origin)
        )
        emitter.locals[statement.name] = replace(value, text=name, origin=())
        scope.inner |= {statement.name} if scope.vector is not None else set()
        return
    scope.origin = joined(value.origin, scope.origin)
    _store(emitter, scope, statement, value)


def _update(emitter: KernelEmitter, scope: Scope, update: Update, value: Value) -> None:
    """``if (in range) buffer[place] = buffer[place] + value``; all lanes are neighbours of one place."""
    width, lanes, text = "1", "All{}", value.text
    if scope.vector is not None:
        width, lanes, text = "W", "lanes", as_many(scope, value)
    scope.origin = joined(value.origin, scope.origin)
    offset, conditions = emit_place(scope, update.place)
    address = f"{emitter.names.pointers[update.buffer]} + {offset}"
    if update.kind != "store":
        text = f"{KINDS[update.kind]}::join(load<{C_TYPES[value.dtype]}, {width}>({address}, {lanes}), {text})"
    condition = f"if ({' && '.join(conditions)}) " if conditions else ""
    emitter.writer.line(f"{condition}store({address}, {lanes}, {text});", scope.origin)
    scope.done.clear()


def _store(emitter: KernelEmitter, scope: Scope, store: Store, value: Value) -> None:
    pointer, offset = emitter.names.pointers[store.buffer], c_index(store.offset)
    # What was loaded from this buffer before may be old now.
    scope.done = {key: each for key, each in scope.done.items() if not _reads(key[0], store.buffer)}
    if scope.vector is None:
        emitter.writer.line(f"store({pointer} + {offset}, All{{}}, {value.text});", scope.origin)
        return
    text = as_many(scope, value)
    if store.buffer in emitter.turned:
        emitter.writer.line(f"store({emitter.turned[store.buffer]}, All{{}}, {text});", scope.origin)
        return
    way = access(store.offset, (), scope.vector)
    if way == "contiguous":
        # What is stored under a mask cannot be loaded again before it is in the cache.
        lanes = "All{}" if is_whole_row(scope, store.buffer, store.offset) else "lanes"
        arguments = f"{pointer} + {offset}, {lanes}, {text}"
        match emitter.streamed.get(store.buffer):
            case None:
                call = f"store({arguments})"
            case large if large.lines:
                call = f"stream_lines_if({large.is_large(pointer)}, {arguments})"
            case large if indexing.constant(large.size) is None:
                call = f"stream_if({large.is_large(pointer)}, {arguments})"
            case _:
                call = f"stream({arguments})"
        emitter.writer.line(f"{call};", scope.origin)
        return
    place = c_index(store.offset, {scope.vector: f"({scope.vector.name} + j)"})
    emitter.writer.line(f"scatter({pointer}, lanes, {text}, [&](i64 j) {{ return {place}; }});", scope.origin)


def _reads(body: Expr, buffer: str) -> bool:
    return any(getattr(node, "buffer", None) == buffer for node in walk(body))
