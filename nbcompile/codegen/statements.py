"""One statement of a kernel as C++: a named value, a store, an update.

    Store("buf0", 8*i0 + i1, t)     store(out0 + 8*i0 + i1, lanes, t);
    Update("buf1", 64*g0 + i1, v)   if (g0_in_range) store(out0 + 64*g0 + i1, lanes, Sum::join(load<f32, W>(...), v));

In torch: torch/_inductor/codegen/cpp.py (CppVecKernel.store). Read next:
nbcompile/codegen/accumulators.py
"""

from __future__ import annotations

from dataclasses import replace

from nbcompile.codegen.accumulators import REDUCTIONS
from nbcompile.codegen.emitter import KernelEmitter
from nbcompile.codegen.lane_offsets import is_whole_row
from nbcompile.codegen.printers import C_TYPES, c_index
from nbcompile.codegen.vector_expr import emit_offset, emit_value
from nbcompile.codegen.vector_scope import Scope, Value, as_vector, merge_origins
from nbcompile.ir import index as indexing
from nbcompile.ir.expr import Expr
from nbcompile.ir.kernel import Let, Store, Update, access
from nbcompile.ir.traversal import walk


def emit_statement(emitter: KernelEmitter, scope: Scope, statement: Let | Store | Update) -> None:
    """Emit one statement in a scope."""
    scope.origin = emitter.origins.get(statement.name if isinstance(statement, Let) else statement.buffer, ())
    value = emit_value(scope, statement.value)
    if isinstance(statement, Update):
        _update(emitter, scope, statement, value)
        return
    if isinstance(statement, Let):
        name = emitter.label(statement.name)
        emitter.writer.line(
            f"const auto {name} = {value.text};  // {statement.name}", merge_origins(value.origin, scope.origin)
        )
        emitter.locals[statement.name] = replace(value, text=name, origin=())
        # Defined in the vectorised loop, so its users are not hoisted out of the loop.
        scope.inner |= {statement.name} if scope.vector is not None else set()
        return
    scope.origin = merge_origins(value.origin, scope.origin)
    _store(emitter, scope, statement, value)


def _update(emitter: KernelEmitter, scope: Scope, update: Update, value: Value) -> None:
    """Emit ``if (in range) buffer[offset] = buffer[offset] + value``; the lanes are contiguous from one offset."""
    width, lanes, text = "1", "All{}", value.text
    if scope.vector is not None:
        width, lanes, text = "W", "lanes", as_vector(scope, value)
    scope.origin = merge_origins(value.origin, scope.origin)
    offset, conditions = emit_offset(scope, update.offset)
    address = f"{emitter.names.pointers[update.buffer]} + {offset}"
    if update.kind != "store":
        text = f"{REDUCTIONS[update.kind]}::join(load<{C_TYPES[value.dtype]}, {width}>({address}, {lanes}), {text})"
    # An index out of bounds was recorded as an error; nothing is written through it before the error is raised.
    condition = f"if ({' && '.join(conditions)}) " if conditions else ""
    emitter.writer.line(f"{condition}store({address}, {lanes}, {text});", scope.origin)
    # An update may alias any load.
    scope.computed.clear()
    scope.checked_indices.clear()


def _store(emitter: KernelEmitter, scope: Scope, store: Store, value: Value) -> None:
    pointer, offset = emitter.names.pointers[store.buffer], c_index(store.offset)
    # Values that were loaded from this buffer before are stale.
    scope.computed = {key: value for key, value in scope.computed.items() if not _reads(key[0], store.buffer)}
    scope.checked_indices = {
        key: value for key, value in scope.checked_indices.items() if not _reads(key[0].value, store.buffer)
    }
    if scope.vector is None:
        emitter.writer.line(f"store({pointer} + {offset}, All{{}}, {value.text});", scope.origin)
        return
    text = as_vector(scope, value)
    if store.buffer in emitter.transposed_stores:
        emitter.writer.line(f"store({emitter.transposed_stores[store.buffer]}, All{{}}, {text});", scope.origin)
        return
    pattern = access(store.offset, (), scope.vector)
    if pattern == "contiguous":
        # Masked stores defeat store-to-load forwarding, so whole scratch rows are stored.
        lanes = "All{}" if is_whole_row(scope, store.buffer, store.offset) else "lanes"
        arguments = f"{pointer} + {offset}, {lanes}, {text}"
        match emitter.non_temporal.get(store.buffer):
            case None:
                call = f"store({arguments})"
            case store_kind if store_kind.whole_lines:
                # If a vector is half a cache line, the other half is stored later: then a normal store is faster.
                call = f"nt_store_lines_if({store_kind.is_large(pointer)}, {arguments})"
            case store_kind if indexing.constant(store_kind.size) is None:
                call = f"nt_store_if({store_kind.is_large(pointer)}, {arguments})"
            case _:
                call = f"nt_store({arguments})"
        emitter.writer.line(f"{call};", scope.origin)
        return
    lane_offset = c_index(store.offset, {scope.vector: f"({scope.vector.name} + j)"})
    emitter.writer.line(f"scatter({pointer}, lanes, {text}, [&](i64 j) {{ return {lane_offset}; }});", scope.origin)


def _reads(body: Expr, buffer: str) -> bool:
    return any(getattr(node, "buffer", None) == buffer for node in walk(body))
