"""What the world around the compiler does wrong: folders of others, compilers that print garbage, forks."""

import os
import stat
import sys
import threading
import warnings
from pathlib import Path

import pytest

from nbcompile import errors
from nbcompile.dispatch import hook
from nbcompile.fast.disk_cache import storage
from nbcompile.runtime import compiler_processes, store

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="owners and modes of files are POSIX")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The store's folder, which does not exist yet."""
    monkeypatch.setenv(store.VARIABLE, str(tmp_path / "store"))
    store._danger.cache_clear()
    yield tmp_path / "store"
    store._danger.cache_clear()


def test_the_folder_is_made_for_the_user_alone(folder):
    """Whatever the umask says."""
    before = os.umask(0)
    try:
        store.add("ab12", ".txt", lambda draft: draft.write_text("kept"))
    finally:
        os.umask(before)
    assert {stat.S_IMODE(each.stat().st_mode) for each in (folder, folder / "ab")} == {0o700}


@pytest.mark.parametrize("through_a_link", [False, True])
def test_a_folder_that_others_may_write_is_not_used(folder, through_a_link):
    """One warning; a private folder instead: nothing is loaded from there, nothing written."""
    real = folder.with_name("real") if through_a_link else folder
    real.mkdir()
    real.chmod(0o777)
    if through_a_link:
        folder.symlink_to(real)
    with pytest.warns(errors.StoreWarning, match="other users may write to it") as told:
        path = store.add("ab12", ".txt", lambda draft: draft.write_text("kept"))
    assert len(told) == 1 and store.fetch("ab12", ".txt") == path
    assert (
        not any(real.iterdir()) and real not in path.parents and stat.S_IMODE(store.directory().stat().st_mode) == 0o700
    )


def test_a_folder_of_another_user_is_not_used(folder, monkeypatch):
    """Also where its mode lets nobody else write."""
    folder.mkdir(mode=0o700)
    os.chown(folder, 12345, -1) if os.geteuid() == 0 else monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.warns(errors.StoreWarning, match="belongs to another user"):
        assert store.directory() != folder


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_chosen_folder_for_frames_is_looked_at_too(tmp_path, monkeypatch, mode):
    """$NBCOMPILE_FRAMES_DIR that others may write: what they put there is not read."""
    chosen = tmp_path / "frames"
    monkeypatch.delenv(storage.VARIABLE, raising=False)
    monkeypatch.setenv(store.VARIABLE, str(tmp_path / "store"))
    monkeypatch.setenv(storage.VARIABLE, str(chosen))
    assert storage.add("frame", {"mine": 1}, None)
    assert list(storage.entries("frame"))
    chosen.chmod(mode)
    store._danger.cache_clear()
    with pytest.warns(errors.StoreWarning, match="other users may write to it"):
        assert list(storage.entries("frame")) == []
    chosen.chmod(0o700)
    store._danger.cache_clear()


def test_a_compiler_that_prints_garbage_is_an_error_that_says_so(tmp_path):
    """Bytes that are no text are shown as such."""
    command = (sys.executable, "-c", "import sys; sys.stdout.buffer.write(b'\\xff\\xfe bad'); sys.exit(3)")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        status, said = compiler_processes.run(command, "int x;")
    assert status == 3 and said.endswith(" bad")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_while_another_thread_compiles_leaves_the_child_free():
    """The child has no such thread: it would wait for ever."""
    held, done = threading.Event(), threading.Event()

    def compiles():
        with hook.compiling():
            held.set()
            done.wait(60)

    thread = threading.Thread(target=compiles)
    thread.start()
    held.wait(60)
    child = os.fork()
    if child == 0:
        os._exit(0 if hook._compiling.acquire(timeout=10) else 1)
    done.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


def test_what_others_wrote_is_never_unpickled_nor_given_to_a_shell():
    """No module unpickles or asks for a shell; `compare` reads what itself and its child wrote in a private folder."""
    root = Path(store.__file__).parents[1]
    texts = {path.relative_to(root): path.read_text() for path in root.rglob("*.py")}
    found = {
        path.as_posix()
        for path, text in texts.items()
        if "pickle.load" in text or "shell=True" in text or "os.system(" in text
    }
    assert found == {"tools/compare/job.py", "tools/compare/processes.py"}
