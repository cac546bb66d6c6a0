"""C files of nbcompile are built early, while other work is done.

In torch: tests of the compile workers, test/inductor/test_async_compile.py.
"""

import sys
import threading

import pytest
import torch

import nbcompile
from nbcompile.fast import guard_cache, prebuild
from nbcompile.runtime import compiler_processes, extension, launcher, store, toolchain
from tests.support.processes import python


@pytest.fixture(autouse=True)
def own_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("NBCOMPILE_CACHE_DIR", str(tmp_path))
    prebuild.start.cache_clear()
    yield
    prebuild.start.cache_clear()


def test_the_launcher_is_built_once_though_two_threads_ask(monkeypatch):
    """A thread that needs the launcher while it is built waits for that build."""
    compiler = toolchain.find()
    if not isinstance(compiler, toolchain.Compiler):
        pytest.skip(compiler.reason)
    begun, go_on, commands = threading.Event(), threading.Event(), []
    real = compiler_processes.run

    def run(command, source, timeout=None):
        commands.append(command)
        begun.set()
        go_on.wait(60)
        return real(command, source, timeout)

    monkeypatch.setattr(compiler_processes, "run", run)
    thread = prebuild.start()
    assert begun.wait(60)
    asked = []
    second = threading.Thread(target=lambda: asked.append(extension.file(launcher.SOURCE, compiler)))
    second.start()
    go_on.set()
    thread.join(60)
    second.join(60)
    assert asked[0].exists()
    assert len(commands) == len(prebuild.SOURCES)
    assert prebuild.start() is thread


def test_what_evaluates_guards_on_sizes_is_under_way_when_the_backend_is_asked():
    """The build starts only for a graph with symbols, and the backend does not wait for it."""
    if not isinstance(toolchain.find(), toolchain.Compiler):
        pytest.skip("no compiler")
    prebuild.start.cache_clear()  # an earlier test of this process may have started it
    seen = []

    def backend(graph, _inputs):
        names = [each.target for each in graph.graph.nodes if each.op == "placeholder"]
        seen.append((len(names), prebuild.start.cache_info().currsize))
        return graph.forward

    compiled = nbcompile.compile(lambda x: x * x.size(0), backend=backend)
    for size in (3, 4, 5):
        assert torch.equal(compiled(torch.ones(size)), torch.ones(size) * size)
    (static, before), (symbolic, after) = seen
    assert symbolic > static and after == before + 1


def test_what_remembers_guards_is_under_way_when_the_backend_is_asked():
    """The build starts only for a graph with many guards, such as that of a module with parameters."""
    if not isinstance(toolchain.find(), toolchain.Compiler):
        pytest.skip("no compiler")
    prebuild.start.cache_clear()  # an earlier test of this process may have started it
    seen = []

    def backend(graph, _inputs):
        seen.append(prebuild.start.cache_info().currsize)
        return graph.forward

    x = torch.ones(2, 3)
    net = torch.nn.Sequential(*(torch.nn.Linear(3, 3) for _ in range(4)))
    for function in (torch.sin, net):
        torch.testing.assert_close(nbcompile.compile(function, backend=backend)(x), function(x))
    few, many = seen
    assert many == few + 1
    prebuild.start(
        prebuild.WITH_MANY_GUARDS
    ).join()  # a test that already has a guard cache, from another store, did not wait for it
    assert extension.is_built(guard_cache.SOURCE, toolchain.find())


def test_a_compiler_that_rejects_is_no_failure_of_the_thread(monkeypatch):
    """A build that fails early is repeated when it is needed, and only then reported."""
    if not isinstance(toolchain.find(), toolchain.Compiler):
        pytest.skip("no compiler")
    monkeypatch.setattr(compiler_processes, "run", lambda *_: (1, "rejected"))
    raised = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    prebuild.start().join(60)
    assert not raised
    with pytest.raises(compiler_processes.BuildError, match="rejected"):
        extension.file(launcher.SOURCE, toolchain.find())


def test_waiting_threads_share_what_a_build_raised():
    """A thread that waits for another thread's build gets its exception; the key can be built again."""
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
    """KeyboardInterrupt is raised only in its own thread; a waiting thread gets an error or the build."""
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


def imported_beside(program: str) -> list[str]:
    """The modules of MODULES that a new process has after a program."""
    whole = f"""
import sys, torch, nbcompile
from nbcompile.fast import prebuild
{program}
print(*(name for name in prebuild.MODULES if name in sys.modules))
"""
    return python(whole).split()


@pytest.mark.compiles
def test_modules_are_imported_beside_a_compiler_only():
    """The modules are imported during the first build of kernels, and not without a build."""
    if not isinstance(toolchain.find(), toolchain.Compiler):
        pytest.skip("no compiler")
    captured, built = (
        f"nbcompile.compile(lambda x: x.sin() + 1, backend={backend!r})(torch.ones(3))"
        for backend in ("eager", "inductor")
    )
    assert imported_beside(captured) == []
    assert imported_beside(built) == list(prebuild.MODULES)
    assert imported_beside(built) == []


def test_a_module_that_cannot_be_imported_stops_nothing(monkeypatch):
    """A torch without DTensor compiles as any other."""
    monkeypatch.setattr(prebuild, "MODULES", ("nbcompile.no_such_module",))
    monkeypatch.setattr(compiler_processes.builds, "concurrent_task", prebuild._import)
    compiled = nbcompile.compile(lambda x: x.cos() + 2)
    assert torch.equal(compiled(torch.ones(3)), torch.ones(3).cos() + 2)


def test_an_interrupt_beside_a_compiler_leaves_none_behind(monkeypatch):
    """Ctrl-C during the import is raised, and the compiler process is stopped."""
    compiler = toolchain.find()
    if not isinstance(compiler, toolchain.Compiler):
        pytest.skip(compiler.reason)

    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(compiler_processes.builds, "concurrent_task", interrupted)
    with pytest.raises(KeyboardInterrupt):
        compiler_processes.run((sys.executable, "-c", "import time; time.sleep(60)"), "")
    assert not [each for each in compiler_processes._running if each.args[0] == sys.executable]
    assert compiler_processes.builds.concurrent_task is None
