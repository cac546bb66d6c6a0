"""An entry of the kernel store is complete or absent."""

from pathlib import Path

import pytest

from nbcompile.runtime import store


@pytest.fixture(autouse=True)
def own_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("NBCOMPILE_CACHE_DIR", str(tmp_path))


def test_what_was_added_is_found_again(tmp_path):
    """A built entry is fetched by its key, and lies below $NBCOMPILE_CACHE_DIR."""
    key = store.key_of("source", "flags")
    assert store.fetch(key, ".so") is None
    path = store.add(key, ".so", lambda draft: draft.write_bytes(b"code"))
    assert store.fetch(key, ".so") == path
    assert path.is_relative_to(tmp_path)


def test_a_damaged_entry_is_not_used():
    """A truncated file is as good as none, and can be built again."""
    key = store.key_of("x")
    store.add(key, ".so", lambda draft: draft.write_bytes(b"complete")).write_bytes(b"compl")
    assert store.fetch(key, ".so") is None
    store.add(key, ".so", lambda draft: draft.write_bytes(b"complete"))
    assert store.fetch(key, ".so") is not None


def test_an_interrupted_build_leaves_nothing(tmp_path):
    """Ctrl-C in the middle of a build leaves no file behind."""

    def build(draft):
        draft.write_bytes(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.add(store.key_of("y"), ".so", build)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("method", ["touch", "unlink"])
def test_an_interrupt_around_a_build_leaves_nothing(monkeypatch, method):
    """Ctrl-C may come right after the draft was made, and right before it is removed."""
    plain, interrupts = getattr(Path, method), [KeyboardInterrupt()]

    def interrupted(path, *arguments, **keywords):
        if method == "touch":
            plain(path, *arguments, **keywords)
        if interrupts:
            raise interrupts.pop()
        plain(path, *arguments, **keywords)

    key = store.key_of("interrupted", method)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, method, interrupted)
        store.add(key, ".so", lambda draft: draft.write_text("text"))
    assert not list(store.directory().rglob(f"{key[:8]}-*"))


def test_every_part_of_a_key_counts():
    """Other flags, other key; and parts cannot run into each other."""
    assert len({store.key_of("a", "b"), store.key_of("a", "c"), store.key_of("ab", ""), store.key_of("ab")}) == 4
