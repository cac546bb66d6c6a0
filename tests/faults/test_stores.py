"""One store and many processes, clocks that jump, folders that vanish: no entry is torn, no process waits for ever."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

import pytest
import torch

import nbcompile
from nbcompile import errors
from nbcompile.fast.disk_cache import storage
from nbcompile.runtime import cpp, store

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
X = torch.linspace(-1, 1, 7)
LONG_AGO, FAR_AHEAD = 0.0, 4e9


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cold store."""
    monkeypatch.setenv(store.VARIABLE, str(tmp_path / "store"))
    monkeypatch.delenv(storage.VARIABLE, raising=False)
    monkeypatch.setattr(storage, "_warned", set())
    cpp._load.cache_clear()
    yield tmp_path / "store"
    cpp._load.cache_clear()


def in_children(number, work) -> list[int]:
    """Run ``work(n)`` in forked processes, all at once; their statuses."""
    children = []
    for n in range(number):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                work(n)
                status = 0
            except BaseException:  # noqa: BLE001 - the parent sees the status
                traceback.print_exc()
            finally:
                os._exit(status)
        children.append(child)
    return [os.waitpid(child, 0)[1] for child in children]


@forks
def test_processes_that_fill_one_cold_store(folder):
    """Each finds whole entries or none, while others write them; nothing unfinished is left."""
    keys = [store.key_of(str(number)) for number in range(12)]

    def content(key):
        return (key * 2000).encode()

    def work(n):
        for turn in range(36):
            key = keys[(turn * (n + 1)) % len(keys)]
            path = store.obtain(key, ".so", lambda draft, key=key: draft.write_bytes(content(key)))
            assert path.read_bytes() == content(key)
            assert storage.add("frame", {"key": key}, {"page": turn})
            for _, entry in storage.entries("frame"):
                assert entry["key"] in keys

    assert in_children(6, work) == [0] * 6
    assert all(store.fetch(key, ".so") for key in keys)
    assert not storage._warned
    assert not [path for path in folder.rglob("*") if path.suffix == ".draft" or "-" in path.name]


@forks
def test_a_process_that_is_killed_while_it_builds(folder):
    """There is no lock that it leaves behind: others build the entry."""
    key = store.key_of("killed")

    def work(n):
        store.obtain(key, ".so", lambda draft: os.kill(os.getpid(), signal.SIGKILL))

    assert in_children(1, work) == [signal.SIGKILL]
    assert store.fetch(key, ".so") is None
    assert store.obtain(key, ".so", lambda draft: draft.write_bytes(b"built")).read_bytes() == b"built"


def test_what_killed_processes_left_is_thrown_away_first(folder):
    """FailedAttempt files count for the limit of the store: they go before any entry; a new one may be under way."""
    assert storage.add("frame", {"kept": True}, None)
    old, new = storage.folder("frame") / "old.draft", storage.folder("frame") / "new.draft"
    for draft in (old, new):
        draft.write_bytes(b"x" * 10_000)
    os.utime(old, (LONG_AGO, LONG_AGO))
    storage.shrink(10_000)
    assert not old.exists()
    storage.shrink(1000)
    assert new.exists()
    assert [entry for _, entry in storage.entries("frame")] == [{"kept": True}]


def age(*paths):
    """As if nobody had written there for a long time."""
    for path in paths:
        for each in (path, *path.rglob("*")):
            os.utime(each, (LONG_AGO, LONG_AGO))


def killed_before(action, monkeypatch, work):
    """Run ``work`` in a process that is killed right before ``Path.<action>`` of a path with this end."""
    name, end = action

    def strike(n):
        plain = getattr(Path, name)

        def struck(path, *arguments, **keywords):
            if str(arguments[0] if name == "replace" else path).endswith(end):
                os.kill(os.getpid(), signal.SIGKILL)
            return plain(path, *arguments, **keywords)

        monkeypatch.setattr(Path, name, struck)
        work()

    assert in_children(1, strike) == [signal.SIGKILL]


@forks
@pytest.mark.parametrize("action", [("touch", ".so"), ("replace", ".so"), ("replace", ".sha256")])
def test_what_killed_builders_left_is_removed_by_a_later_process(folder, monkeypatch, action):
    """At its first build; what may still be written stays, and so does what somebody else put there."""
    killed, key = store.key_of("killed"), store.key_of("later")

    def build():
        store.add(killed, ".so", lambda draft: draft.write_bytes(b"x" * 1000))

    killed_before(action, monkeypatch, build)
    old = set((folder / killed[:2]).glob("*-*"))
    killed_before(action, monkeypatch, build)
    new = set((folder / killed[:2]).glob("*-*")) - old
    assert old and new
    foreign = folder / killed[:2] / "my-notes"
    foreign.mkdir()
    age(*old, foreign)
    assert in_children(1, lambda n: store.add(key, ".so", lambda draft: draft.write_bytes(b"y"))) == [0]
    assert set((folder / killed[:2]).glob("*-*")) == new | {foreign}
    assert store.fetch(key, ".so")


def test_a_build_that_takes_long_keeps_its_folder(folder):
    """A file that was written a moment ago shows that somebody is at work, however old the folder is."""
    drafts = []

    def build(draft):
        draft.write_bytes(b"built")
        os.utime(draft.parent, (LONG_AGO, LONG_AGO))
        drafts.append(draft)
        store.remove_unfinished(folder)

    path = store.add(store.key_of("slow"), ".so", build)
    assert path.read_bytes() == b"built"
    assert not drafts[0].exists()


@forks
def test_a_record_whose_entry_was_never_written(folder, monkeypatch):
    """It is removed, with its folder: no entry leads to it, and its size would push entries out for ever."""
    killed_before(("replace", ".json"), monkeypatch, lambda: storage.add("killed", {"a": 1}, {"page": "x" * 10_000}))
    killed = storage.folder("killed")
    assert {path.suffix for path in killed.iterdir()} == {".page", ".draft"}
    assert storage.add("frame", {"kept": True}, {"page": 1})
    storage.shrink(10_000)
    assert killed.exists()  # its entry may come
    assert storage.add("frame", {"kept": True}, {"page": 1})
    age(killed, storage.folder("frame"))
    storage.shrink(10_000)
    assert not killed.exists()
    [(path, _)] = storage.entries("frame")
    assert storage.record(path) == {"page": 1}


@pytest.mark.parametrize("when", [LONG_AGO, FAR_AHEAD])
def test_clocks_that_jump(folder, monkeypatch, when):
    """Files from the past or from the future are used as others are, and thrown away when the store is full."""
    for number in range(3):
        assert storage.add("frame", {"number": number}, None)
    path = store.add(store.key_of("clock"), ".so", lambda draft: draft.write_bytes(b"built"))
    for each in folder.rglob("*"):
        os.utime(each, (when, when))
    assert store.fetch(store.key_of("clock"), ".so") == path
    assert {entry["number"] for _, entry in storage.entries("frame")} == {0, 1, 2}
    monkeypatch.setattr(time, "time", lambda: when)
    assert storage.add("frame", {"number": 3}, None)
    storage.shrink(0)
    assert list(storage.entries("frame")) == []


def test_a_folder_that_is_removed_while_something_is_built(folder):
    """The call is right, with one warning at most; the next function is built and kept."""
    nbcompile.reset()
    build = cpp._build

    def removed(source, compiler, target):
        build(source, compiler, target)
        shutil.rmtree(folder, ignore_errors=True)

    def call(number):
        f = nbcompile.compile(lambda x: (x * number).cos() + x)
        torch.testing.assert_close(f(X), (X * number).cos() + X)

    with pytest.MonkeyPatch.context() as patched, pytest.warns((errors.GeneratedCodeWarning, errors.StoreWarning)):
        patched.setattr(cpp, "_build", removed)
        call(2.5)
    nbcompile.reset()
    call(3.5)
    assert len(list(folder.rglob("*.cpp"))) == 1


def test_a_folder_that_may_only_be_read(folder, monkeypatch):
    """What is there is used; what is new is built elsewhere, with one warning."""
    key, other = store.key_of("there"), store.key_of("new")
    path = store.add(key, ".so", lambda draft: draft.write_bytes(b"built"))
    monkeypatch.setattr(os, "access", lambda *_: False)  # the superuser may write anywhere
    assert store.obtain(key, ".so", lambda draft: draft.write_bytes(b"other")) == path
    with pytest.warns(errors.StoreWarning, match="cannot be written"):
        assert folder not in store.add(other, ".so", lambda draft: draft.write_bytes(b"built")).parents


PROGRAM = """
import sys, warnings
import torch, nbcompile
warnings.simplefilter("error", nbcompile.errors.StoreWarning)
@nbcompile.compile
def f(x):
    y = torch.softmax(x * 1.5, -1) + x.mean()
    print(end="")
    return y.relu()
x = torch.linspace(-1, 1, 12).view(3, 4)
for size in (3, 2):
    torch.testing.assert_close(f(x[:size]), (torch.softmax(x[:size] * 1.5, -1) + x[:size].mean()).relu())
"""


def together(number, folder):
    """Processes that compile one program at once."""
    environment = {**os.environ, store.VARIABLE: str(folder), "NBCOMPILE_WARM_START": "1"}
    environment.pop(storage.VARIABLE, None)
    return [
        subprocess.Popen([sys.executable, "-c", PROGRAM], env=environment, stderr=subprocess.PIPE, text=True)
        for _ in range(number)
    ]


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("number", [2, 8])
def test_programs_that_start_on_one_cold_store(folder, number):
    """All are right and say nothing; a process that is killed in the midst leaves a store in which others go on."""
    processes = together(number, folder)
    said = [process.communicate(timeout=600)[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * number, said
    for delay in (2.0, 4.0, 6.0):
        shutil.rmtree(folder)
        (killed,) = together(1, folder)
        time.sleep(delay)
        killed.kill()
        killed.communicate()
        (after,) = together(1, folder)
        said = after.communicate(timeout=600)[1]
        assert after.returncode == 0, said
    assert all(json.loads(path.read_bytes().partition(b"\n")[2]) for path in (folder / "frames").rglob("*.json"))
