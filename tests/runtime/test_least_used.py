"""The size limit of a store: the least recently used entries are removed first, with all their files."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from nbcompile import config
from nbcompile.runtime import least_used, store
from tests.support.processes import python


def written(folder, name, size, used):
    path = folder / name
    path.write_bytes(b"x" * size)
    os.utime(path, (used, used))
    return path


def test_the_oldest_go_first(tmp_path):
    """Only as many entries as necessary are removed; an entry's last use is that of any of its files."""
    files = [written(tmp_path, f"{used}", 100, used) for used in (3, 1, 2)]
    beside = written(tmp_path, "1.beside", 50, 10)
    entries = [least_used.entry((files[0],)), least_used.entry((files[1], beside)), least_used.entry((files[2],))]
    assert [one.size for one in entries] == [100, 150, 100]
    assert least_used.shrink(entries, 350) == []
    assert [one.files for one in least_used.shrink(entries, 250)] == [(files[2],)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "1.beside", "3"]
    assert len(least_used.shrink(entries, 0)) == 3


def test_files_that_another_process_has_removed(tmp_path):
    """A file that another process removed has no size, and its removal is no error."""
    gone = least_used.entry((tmp_path / "gone",))
    assert (gone.files, gone.size) == ((), 0)
    path = written(tmp_path, "here", 10, 1)
    entry = least_used.entry((path,))
    path.unlink()
    assert least_used.shrink([entry], 0) == [entry]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("NBCOMPILE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(store, "_used", set())
    monkeypatch.setattr(store, "_added", [0])
    return tmp_path


def added(name, size, age):
    """An entry of another process, of this age in seconds."""
    key = store.key_of(name)
    path = store.add(key, ".so", lambda draft: draft.write_bytes(b"x" * size))
    store.add(key, ".cpp", lambda draft: draft.write_bytes(b"text"))
    store._used.discard(key)
    for file in path.parent.glob(f"{key}*"):
        os.utime(file, (time.time() - age,) * 2)
    return key


def test_a_store_that_is_too_large(folder):
    """The least recently used kernels are removed, with their texts and checksums; a fetch counts as use."""
    keys = [added(f"kernel {age}", 1 << 20, age) for age in (4000, 3000, 2000)]
    assert store.fetch(keys[0], ".so") is not None  # used at this time
    store.shrink(folder, (5 << 20) // 2)
    assert [store.fetch(key, ".so") is not None for key in keys] == [True, False, True]
    assert not list(folder.rglob(f"{keys[1]}*"))
    assert len(list(folder.rglob(f"{keys[2]}*"))) == 4


def test_what_this_process_uses_stays(folder):
    """An entry that this process loaded is not removed, even if it is larger than the limit, or old."""
    key = store.key_of("mine")
    path = store.add(key, ".so", lambda draft: draft.write_bytes(b"x" * 1000))
    for file in path.parent.iterdir():
        os.utime(file, (1, 1))
    other, recent = added("other", 1000, 3000), added("recent", 1000, 5)
    store.shrink(folder, 0)
    assert [store.fetch(each, ".so") is not None for each in (key, other, recent)] == [True, False, True]


def test_a_store_with_many_entries_that_stay(tmp_path, monkeypatch):
    """No entry is compared with the others: each is read once."""
    files = [written(tmp_path, f"{number:040x}.so", 1, time.time()) for number in range(300)]
    found, compared = [least_used.entry((file,)) for file in files], []
    monkeypatch.setattr(store, "entries", lambda folder: iter(found))
    monkeypatch.setattr(least_used.StoredEntry, "__eq__", lambda *both: compared.append(both) or both[0] is both[1])
    store.shrink(tmp_path, 0)
    assert not compared
    assert all(file.exists() for file in files)


def test_the_size_is_looked_at_when_entries_are_added(folder, monkeypatch):
    """The first entry of a process, and each 32nd one, triggers a check of the size; foreign files are not removed."""
    old = added("old", 1 << 20, 3000)
    note = folder / "note.txt"
    note.write_text("mine")
    with config.patch(kernel_store_megabytes=0):
        store._added[0] = 1
        store.add(store.key_of("a"), ".so", lambda draft: draft.write_bytes(b"code"))
        assert store.fetch(old, ".so") is not None
        store._used.discard(old)
        for file in folder.rglob(f"{old}*"):
            os.utime(file, (1, 1))
        store._added[0] = least_used.EVERY
        store.add(store.key_of("b"), ".so", lambda draft: draft.write_bytes(b"code"))
    assert store.fetch(old, ".so") is None
    assert note.read_text() == "mine"


PROGRAM = """
import torch, nbcompile
print(nbcompile.compile(lambda x: {})(torch.ones(3)).tolist())
"""


def run(text, folder, **variables):
    return python(text, **{"NBCOMPILE_CACHE_DIR": folder, "NBCOMPILE_WARM_START": "0", **variables}).strip()


def kernels(folder):
    return {
        path for path in Path(folder).rglob("*.cpp") if "return" in path.read_text() and "kernel0" in path.read_text()
    }


def test_a_second_process_with_a_lower_limit(tmp_path):
    """Another process with a lower limit removes the first one's entries, and both compute correct results."""
    assert run(PROGRAM.format("x * 2 + 1"), tmp_path) == "[3.0, 3.0, 3.0]"
    first = kernels(tmp_path)
    for file in tmp_path.rglob("*"):
        os.utime(file, (1, 1))
    assert run(PROGRAM.format("x * 3"), tmp_path, NBCOMPILE_KERNEL_STORE_MEGABYTES="0") == "[3.0, 3.0, 3.0]"
    second = kernels(tmp_path)
    assert first
    assert second
    assert not first & second
    assert run(PROGRAM.format("x * 2 + 1"), tmp_path) == "[3.0, 3.0, 3.0]"
    assert kernels(tmp_path) == first | second
