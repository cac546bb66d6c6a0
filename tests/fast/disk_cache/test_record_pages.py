"""Records that are stored with entries."""

from __future__ import annotations

import types

from nbcompile.fast.disk_cache import record_pages
from nbcompile.record import model
from tests.views import sample_records


def frame() -> model.CompiledFrame:
    return sample_records.simple().frames[0]


def test_a_page_has_nothing_of_one_call():
    """Fields of a single call are omitted, and the cause says that nothing was compiled; the rest is read again."""
    plain = record_pages.write(frame())
    assert plain["cause"] == model.LOADED
    assert not (set(record_pages.OF_ONE_PROCESS) - {"cause"}) & set(plain)
    again = record_pages.read(plain)
    assert (again.id, again.guards, again.graph) == (frame().id, frame().guards, frame().graph)


def test_ids_are_under_the_compile_id_of_this_process():
    """An id, and each text that begins with it and a dot, is renamed; a longer number is another id."""
    content = {"id": "0/1", "nodes": ["0/1.n3", "0/10.n3", 7], "text": "0/1 of it"}
    assert record_pages._renamed(content, "0/1", "5/0") == {
        "id": "5/0",
        "nodes": ["5/0.n3", "0/10.n3", 7],
        "text": "0/1 of it",
    }


def test_a_load_fills_the_page_of_this_process():
    """Guards and graph are those of the stored record, with the new id; the caller is that of this call."""
    written = {}
    draft = types.SimpleNamespace(compile_id="7/2", write=written.update, write_graph=lambda **fields: None)
    record_pages.rewrite(draft, record_pages.write(frame()), (), "6/0", "")
    assert (written["id"], written["called_from"]) == ("7/2", "6/0")
    assert [guard.condition for guard in written["guards"]] == [guard.condition for guard in frame().guards]
    assert all(node.id.startswith("7/2.") for node in written["graph"].nodes)
