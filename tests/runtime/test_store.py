"""An entry of the kernel store is complete or absent."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from nbcompile.runtime import store


@pytest.fixture(autouse=True)
def own_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("NBCOMPILE_CACHE_DIR", str(tmp_path))


def test_what_was_added_is_found_again(tmp_path):
    """A built entry is fetched by its key, from $NBCOMPILE_CACHE_DIR."""
    key = store.key_of("source", "flags")
    assert store.fetch(key, ".so") is None
    path = store.add(key, ".so", lambda draft: draft.write_bytes(b"code"))
    assert store.fetch(key, ".so") == path
    assert path.is_relative_to(tmp_path)


def test_a_damaged_entry_is_not_used():
    """A truncated file counts as absent, and can be built again."""
    key = store.key_of("x")
    store.add(key, ".so", lambda draft: draft.write_bytes(b"complete")).write_bytes(b"compl")
    assert store.fetch(key, ".so") is None
    store.add(key, ".so", lambda draft: draft.write_bytes(b"complete"))
    assert store.fetch(key, ".so") is not None


def test_an_interrupted_build_leaves_nothing(tmp_path):
    """Ctrl-C during a build leaves no file behind."""

    def build(draft):
        draft.write_bytes(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.add(store.key_of("y"), ".so", build)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    "owner, name, first", [(Path, "mkdir", True), (Path, "touch", True), (shutil, "rmtree", False)]
)
def test_an_interrupt_around_a_build_leaves_nothing(monkeypatch, owner, name, first):
    """Ctrl-C right after the draft (or its folder) was created, or right before it is removed, leaves no file."""
    plain, interrupts = getattr(owner, name), [KeyboardInterrupt()]
    key = store.key_of("interrupted", name)

    def interrupted(path, *arguments, **keywords):
        is_met = interrupts and key[:8] + "-" in str(path)
        if first or not is_met:
            plain(path, *arguments, **keywords)
        if is_met:
            raise interrupts.pop()

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(owner, name, interrupted)
        store.add(key, ".so", lambda draft: draft.write_text("text"))
    assert not interrupts
    assert not list(store.directory().rglob(f"{key[:8]}-*"))


def test_a_disk_that_is_full_at_the_checksum_leaves_nothing(monkeypatch):
    """The kernel was built, but its checksum could not be written: no kernel is left that nothing can load."""
    key, opened = store.key_of("full"), os.fdopen

    def full(descriptor, *how):
        opened(descriptor, *how).close()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
        patch.setattr(os, "fdopen", full)
        store.add(key, ".so", lambda draft: draft.write_bytes(b"kernel"))
    assert [path for path in store.directory().rglob("*") if path.is_file()] == []
    store.add(key, ".so", lambda draft: draft.write_bytes(b"kernel"))
    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
        patch.setattr(os, "fdopen", full)
        store.add(key, ".so", lambda draft: draft.write_bytes(b"kernel"))
    assert store.fetch(key, ".so") is not None  # an entry that was there already stays


def test_what_a_killed_compiler_writes_late_is_not_created():
    """A killed process may write for a moment longer: the folder no longer exists, so nothing is created."""
    drafts = []

    def build(draft):
        drafts.append(draft)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.add(store.key_of("late"), ".so", build)
    with pytest.raises(FileNotFoundError):
        drafts[0].write_bytes(b"late")


def test_every_part_of_a_key_counts():
    """Other flags give another key, and adjacent parts are separated."""
    assert len({store.key_of("a", "b"), store.key_of("a", "c"), store.key_of("ab", ""), store.key_of("ab")}) == 4


def test_files_that_another_process_removes(tmp_path):
    """A folder that is removed during the listing is skipped; pathlib's glob would raise."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "kept.json").touch()
    (tmp_path / "first.json").touch()
    found = store.files(tmp_path)
    assert next(found) == tmp_path / "first.json"
    shutil.rmtree(tmp_path / "one")
    assert list(found) == [tmp_path / "two" / "kept.json"]
    assert list(store.files(tmp_path / "never")) == []
