"""What every program needs from the C++ compiler is built while the first one is traced.

In torch: tests of the compile workers, test/inductor/test_async_compile.py.
"""

import threading

import pytest

from nbcompile.runtime import ahead, extension, launcher, store, toolchain


@pytest.fixture(autouse=True)
def own_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("NBCOMPILE_CACHE_DIR", str(tmp_path))
    ahead.start.cache_clear()
    yield
    ahead.start.cache_clear()


def test_the_launcher_is_built_once_though_two_threads_ask(monkeypatch):
    """Who needs the launcher while it is built waits for that build, and starts none."""
    compiler = toolchain.find()
    if not isinstance(compiler, toolchain.Compiler):
        pytest.skip(compiler.reason)
    begun, go_on, commands = threading.Event(), threading.Event(), []
    real = toolchain.run

    def run(command, source, timeout=None):
        commands.append(command)
        begun.set()
        go_on.wait(60)
        return real(command, source, timeout)

    monkeypatch.setattr(extension.toolchain, "run", run)
    thread = ahead.start()
    assert begun.wait(60)
    asked = []
    second = threading.Thread(target=lambda: asked.append(extension.file(launcher.SOURCE, compiler)))
    second.start()
    go_on.set()
    thread.join(60)
    second.join(60)
    assert asked[0].exists()
    assert len(commands) == len(ahead.SOURCES)
    assert ahead.start() is thread


def test_a_compiler_that_refuses_is_no_failure_of_the_thread(monkeypatch):
    """The build that fails ahead is asked for again by whoever needs it, and only then told."""
    if not isinstance(toolchain.find(), toolchain.Compiler):
        pytest.skip("no compiler")
    monkeypatch.setattr(extension.toolchain, "run", lambda *_: (1, "refused"))
    raised = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    ahead.start().join(60)
    assert not raised
    with pytest.raises(toolchain.BuildError, match="refused"):
        extension.file(launcher.SOURCE, toolchain.find())


def test_waiting_threads_share_what_a_build_raised():
    """A thread that waits for another's build gets its exception; the key can be built again afterwards."""
    key, inside, go_on = store.key_of("shared"), threading.Event(), threading.Event()
    told = []

    def build(draft):
        inside.set()
        go_on.wait(60)
        raise OSError("the disk is full")

    def ask():
        try:
            store.obtain(key, ".so", build)
        except OSError as error:
            told.append(str(error))

    first = threading.Thread(target=ask)
    first.start()
    assert inside.wait(60)
    second = threading.Thread(target=ask)
    second.start()
    go_on.set()
    first.join(60)
    second.join(60)
    assert told == ["the disk is full"] * 2
    assert store.obtain(key, ".so", lambda draft: draft.write_bytes(b"code")).read_bytes() == b"code"


def test_ctrl_c_in_one_thread_does_not_reach_the_others():
    """KeyboardInterrupt belongs to the thread that got it: who waited for its build is told that nothing was built."""
    key = store.key_of("interrupted")
    told = []

    def build(draft):
        waiting = threading.Thread(target=ask)
        waiting.start()
        threads.append(waiting)
        raise KeyboardInterrupt

    def ask():
        try:
            store.obtain(key, ".so", lambda draft: draft.write_bytes(b"code"))
            told.append("built")
        except OSError as error:
            told.append(str(error))

    threads = []
    with pytest.raises(KeyboardInterrupt):
        store.obtain(key, ".so", build)
    threads[0].join(60)
    assert told in (["the build was interrupted"], ["built"])
