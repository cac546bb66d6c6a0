"""A file that a process cannot read at the moment is ignored; only a damaged file is removed."""

from __future__ import annotations

import contextlib
import errno
import inspect
import os
import resource
import sys
import warnings

import pytest

from nbcompile import config, errors
from nbcompile.fast.disk_cache import storage
from nbcompile.runtime import store

KEY = "0123456789abcdef01234567"


@pytest.fixture
def entry(tmp_path, monkeypatch):
    """The path of an entry with its record, in a separate store."""
    monkeypatch.setenv(storage.VARIABLE, str(tmp_path / "frames"))
    monkeypatch.setattr(storage, "_warned", set())
    assert storage.add(KEY, {"guards": []}, {"frame": 1})
    [(path, content)] = storage.entries(KEY)
    assert content == {"guards": []}
    return path


def read_with_a_warning(path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        content = storage.read(path)
    return content, [str(each.message) for each in caught if issubclass(each.category, errors.StoreWarning)]


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EACCES, errno.EIO])
def test_an_error_of_the_process_leaves_the_file(entry, number, monkeypatch):
    """The warning has the reason, once; the entry is used after the reason is gone."""

    def reject(path, most):
        raise OSError(number, os.strerror(number), str(path))

    with monkeypatch.context() as patch:
        patch.setattr(store, "read", reject)
        content, said = read_with_a_warning(entry)
        assert content is None
        assert said == [f"{entry} is not used in this process: {os.strerror(number)}"]
        assert read_with_a_warning(entry) == (None, [])
    assert storage.read(entry) == {"guards": []}
    assert storage.record(entry) == {"frame": 1}


def test_no_descriptor_is_left(entry):
    """A program with too many open files does not lose its entries."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        found = storage.read(entry)
    except Warning:
        found = None  # pytest turns warnings into errors
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert found is None
    assert storage.read(entry) == {"guards": []}


@pytest.mark.parametrize(
    ("step", "error", "reason"),
    [
        ("read", MemoryError(), os.strerror(errno.ENOMEM)),
        ("parse", MemoryError(), os.strerror(errno.ENOMEM)),
        ("parse", RecursionError(), "the call is too deep for the recursion limit"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else value,
)
def test_a_complete_file_is_no_damage(entry, step, error, reason, monkeypatch):
    """A file is not removed if the process lacks memory or stack to read it; the warning has the reason."""

    def reject(*arguments):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(*((store, "read", reject) if step == "read" else (storage.json, "loads", reject)))
        assert read_with_a_warning(entry) == (None, [f"{entry} is not used in this process: {reason}"])
        assert entry.exists()
    assert storage.read(entry) == {"guards": []}


@pytest.mark.usefixtures("entry")
def test_a_call_near_the_recursion_limit():
    """A call with little space left on the stack does not remove an entry."""
    nested = {"guards": []}
    for _ in range(90):
        nested = {"below": nested}
    storage.add(KEY, nested, None)
    path = next(path for path, content in storage.entries(KEY) if content == nested)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 60)
    try:
        with contextlib.suppress(Warning):  # pytest turns warnings into errors
            storage.read(path)
    finally:
        sys.setrecursionlimit(limit)
    assert storage.read(path) == nested


@pytest.mark.parametrize("content", [b"", b"no checksum", b"0" * 64 + b"\n{}"])
def test_damage_is_thrown_away(entry, content):
    """A damaged file is removed, because each process would read it again."""
    entry.write_bytes(content)
    found, said = read_with_a_warning(entry)
    assert found is None
    assert said == [f"{entry} is damaged: it is not used, and what it held is compiled again"]
    assert not entry.exists()


def test_a_lower_limit_is_no_damage(entry):
    """An entry larger than the cache limit is read, and removed when entries are added."""
    with config.patch(warm_start_megabytes=0), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert storage.read(entry) == {"guards": []}


@pytest.mark.parametrize("suffix", [".page", ".json"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_leaves_nothing_of_an_entry(tmp_path, monkeypatch, suffix, number):
    """A record whose entry could not be written is removed; one whose entry is there already stays."""
    written = storage._write

    def full(path, text):
        if path.suffix == suffix:
            raise OSError(number, os.strerror(number))
        written(path, text)

    monkeypatch.setattr(storage, "_warned", set())
    where = tmp_path / KEY
    with monkeypatch.context() as patch:
        patch.setattr(storage, "_write", full)
        with pytest.warns(errors.StoreWarning, match=f"nothing is kept.*{os.strerror(number)}"):
            assert not storage.add(KEY, {"guards": []}, {"frame": 1}, where)
        assert not where.exists()
    assert storage.add(KEY, {"guards": []}, {"frame": 1}, where)
    with monkeypatch.context() as patch:
        patch.setattr(storage, "_write", full)
        assert not storage.add(KEY, {"guards": []}, {"frame": 2}, where)
    assert sorted(path.suffix for path in where.iterdir()) == [".json", ".page"]


def test_a_record_stays_with_an_entry_that_another_process_writes_meanwhile(tmp_path, monkeypatch):
    """Two processes write one entry, and one of them fails: the record of the other is not removed, at any moment."""
    monkeypatch.setattr(storage, "_warned", set())
    where, looks_up, written = tmp_path / KEY, os.path.lexists, storage._write

    def other_process():
        with monkeypatch.context() as patch:
            patch.setattr(storage, "_write", written)
            patch.setattr(os.path, "lexists", looks_up)
            assert storage.add(KEY, {"guards": []}, {"frame": 1}, where)

    def full(path, text):
        if path.suffix == ".json":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written(path, text)

    for moment in (1, 2):
        calls = []

        def slow(path, moment=moment, calls=calls):
            found = looks_up(path)
            calls.append(path)
            if len(calls) == moment:
                other_process()
            return found

        with monkeypatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            patch.setattr(storage, "_write", full)
            patch.setattr(os.path, "lexists", slow)
            assert not storage.add(KEY, {"guards": []}, {"frame": 1}, where)
        assert len(calls) >= 2
        assert sorted(path.suffix for path in where.iterdir()) == [".json", ".page"]
        for path in where.iterdir():
            path.unlink()


def test_a_record_that_another_process_removes_is_written_again(tmp_path, monkeypatch):
    """A process that failed removes the record before this one has written the entry."""
    where, written = tmp_path / KEY, storage._write

    def after_the_other(path, text):
        if path.suffix == ".json":
            storage._remove_orphan(path)
            where.mkdir(exist_ok=True)
        written(path, text)

    monkeypatch.setattr(storage, "_write", after_the_other)
    assert storage.add(KEY, {"guards": []}, {"frame": 1}, where)
    assert sorted(path.suffix for path in where.iterdir()) == [".json", ".page"]


def test_an_entry_that_returns_while_it_is_removed_keeps_its_record(entry, monkeypatch):
    """The oldest entry of a key is removed, and another process writes it again before its record is removed."""
    removes = storage._remove_orphan

    def late(path):
        assert storage.add(KEY, {"guards": []}, {"frame": 1})
        removes(path)

    monkeypatch.setattr(storage, "_remove_orphan", late)
    storage._remove(entry)
    assert storage.record(entry) == {"frame": 1}
