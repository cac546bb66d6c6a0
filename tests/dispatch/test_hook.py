"""The frame hook: code that runs instead of a frame, state that is restored, and other users of the hook."""

from __future__ import annotations

import _thread
import asyncio
import functools
import gc
import signal
import sys
import threading
import weakref
from types import CodeType, FunctionType

import numpy.linalg
import pytest
import torch

import nbcompile
from nbcompile import config
from nbcompile.capture.compiled import CompiledFrame
from nbcompile.capture.frame import Frame
from nbcompile.capture.guard import Guard, GuardKind
from nbcompile.capture.resolution import resolve
from nbcompile.capture.source import LocalSource
from nbcompile.dispatch import cache, hook, skipping
from nbcompile.guarding.check import build_check
from nbcompile.torch_internals import eval_frame
from tests.support.graphs import Graphs
from tests.support.processes import python
from tests.support.threads import in_threads


@pytest.fixture(autouse=True)
def clean():
    """A fixture without entries and without a hook before and after each test."""
    hook.reset()
    yield
    assert eval_frame.get_eval_frame_callback() is None
    hook.reset()
    torch._dynamo.reset()


def tenfold(code: CodeType) -> CodeType:
    """Code that differs from the original: the constant 1 became 10."""
    return code.replace(co_consts=tuple(10 if const == 1 and type(const) is int else const for const in code.co_consts))


class Compiler:
    """A driver that compiles every frame with guards on its ints, and records the calls."""

    def __init__(self, *skipped: str, code_wide: bool = False) -> None:
        self.met: list[str] = []
        self.frames: list[Frame] = []
        self.skipped, self.code_wide = skipped, code_wide
        self.key: object = None

    def __call__(self, frame: Frame) -> hook.Outcome:
        assert eval_frame.get_eval_frame_callback() is None, "the hook is off while a frame is compiled"
        self.met.append(frame.code.co_name)
        self.frames.append(frame)
        if frame.code.co_name in self.skipped:
            return hook.SkipFrame("told to", self.code_wide)
        guards = tuple(
            Guard(LocalSource(name), GuardKind.EQUALS_MATCH, value)
            for name, value in frame.locals.items()
            if type(value) in (int, str)
        )
        compile_id = cache.next_compile_id(frame.code)
        return CompiledFrame(compile_id, tenfold(frame.code), build_check(guards, frame), "test")


def plus_one(x, k=5):
    return x + 1 if k else torch.zeros(1)


def outer(x):
    return plus_one(x) + 0


def test_a_miss_compiles_and_a_hit_does_not():
    """The compiled program runs instead of the frame; the driver is not called while its guards hold."""
    compiler = Compiler()
    callback = hook.FrameCallback(compiler, "test")
    x = torch.ones(1)
    assert callback.call(plus_one, (x,), {}).item() == 11
    assert callback.call(plus_one, (x,), {}).item() == 11
    assert callback.call(plus_one, (x,), {"k": 6}).item() == 11
    assert callback.call(plus_one, (x,), {"k": 6}).item() == 11
    assert compiler.met == ["plus_one", "plus_one"]
    assert [entry.compile_id for entry in cache.entries(plus_one.__code__)] == ["0/1", "0/0"]
    assert plus_one(x).item() == 2, "without the hook the function is what it was"


def test_entries_are_listed_last_used_first():
    """A hit moves its entry to the front."""
    callback = hook.FrameCallback(Compiler(), "test")
    for k in (5, 6, 5):
        callback.call(plus_one, (torch.ones(1),), {"k": k})
    assert [entry.compile_id for entry in cache.entries(plus_one.__code__)] == ["0/0", "0/1"]


def test_callees_of_a_skipped_frame_are_compiled():
    """A skipped frame runs in eager mode, its callees are compiled; a code-wide skip is permanent."""
    for code_wide, times in ((False, 2), (True, 1)):
        hook.reset()
        compiler = Compiler("outer", code_wide=code_wide)
        callback = hook.FrameCallback(compiler, "test")
        for _ in range(2):
            assert callback.call(outer, (torch.ones(1),), {}).item() == 11
        assert compiler.met.count("outer") == times
        assert compiler.met.count("plus_one") == 1
        assert cache.state(outer.__code__).skip_reason == "told to"


def test_skip_nested_leaves_callees_alone():
    """A skip with ``nested=True`` also applies to all callees."""
    callback = hook.FrameCallback(lambda frame: hook.SkipFrame("all", nested=True), "test")
    assert callback.call(outer, (torch.ones(1),), {}).item() == 2
    assert cache.state(plus_one.__code__).skip_reason == ""


def test_what_runs_while_a_module_is_imported_is_left_alone(tmp_path, monkeypatch):
    """Functions that run during the import of a library in a skipped frame are not compiled."""
    (tmp_path / "library_of_tensors.py").write_text(
        "import torch\ndef made(x):\n    return x + 1\nTABLE = [made(torch.ones(size)) for size in range(20)]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    met = []

    def looked_at(frame: Frame) -> hook.SkipFrame:
        met.append(frame.code.co_name)
        return hook.SkipFrame("told to")

    def imports(x):
        import library_of_tensors  # noqa: PLC0415

        return plus_one(x) + library_of_tensors.made(x)

    hook.FrameCallback(looked_at, "test").call(imports, (torch.ones(1),), {})
    assert met == ["imports", "plus_one", "made"]
    assert len(sys.modules.pop("library_of_tensors").TABLE) == 20


FIRST_USE = """
import warnings, torch, nbcompile
warnings.simplefilter("error", nbcompile.exc.InternalErrorWarning)
def f(x):
    for i in range(3):
        x = x + i
        torch._dynamo.graph_break()
    return x * 2
explained = nbcompile.explain(f)(torch.ones(3))
print([frame.function for frame in explained.record.frames])
"""


def test_the_first_use_of_torch_dynamo_in_a_skipped_frame():
    """The import of ``torch._dynamo`` by a program compiles none of its frames."""
    assert python(FIRST_USE).splitlines()[-1] == "['f']"


def test_run_only_uses_entries_and_compiles_nothing():
    """After RunOnly, cached entries are used, and other calls run in eager mode, including nested calls."""
    compiler = Compiler("outer")
    limited = [False]

    def compile_frame(frame: Frame) -> hook.Outcome:
        return hook.RunOnly("limit") if limited[0] else compiler(frame)

    callback = hook.FrameCallback(compile_frame, "test")
    callback.call(plus_one, (torch.ones(1),), {"k": 1})
    limited[0] = True
    assert callback.call(plus_one, (torch.ones(1),), {"k": 2}).item() == 2
    limited[0] = False
    assert callback.call(plus_one, (torch.ones(1),), {"k": 3}).item() == 2, "RunOnly stays"
    assert callback.call(plus_one, (torch.ones(1),), {"k": 1}).item() == 11, "the entry is still used"
    assert compiler.met == ["plus_one"]

    def run_only(frame: Frame) -> hook.Outcome:
        return hook.RunOnly("limit") if frame.code.co_name == "outer" else compiler(frame)

    assert hook.FrameCallback(run_only, "other").call(outer, (torch.ones(1),), {}).item() == 2
    assert compiler.met == ["plus_one"], "nested calls of a limited frame are not compiled either"


def test_backends_do_not_share_entries_but_equal_ones_do():
    """Wrappers with different backends compile separately; those with equal backends share entries."""
    compilers = [Compiler(), Compiler(), Compiler()]
    for compiler, backend in zip(compilers, ("a", "b", "a"), strict=True):
        hook.FrameCallback(compiler, backend).call(plus_one, (torch.ones(1),), {})
    assert [len(compiler.met) for compiler in compilers] == [1, 1, 0]
    scope = compilers[0].frames[0].scope()
    reasons = cache.failures(plus_one.__code__, scope, hook.backend_key("c"))
    assert [reason.reason.split(":")[0] for reason in reasons] == ["BACKEND_MATCH failure"] * 2
    unhashable: list[object] = []
    other = Compiler()
    for _ in range(2):
        hook.FrameCallback(other, unhashable).call(plus_one, (torch.ones(1),), {})
    assert len(other.met) == 1


def test_a_frame_has_locals_cells_and_scopes():
    """Free variables have a content and a cell; an unassigned one has only a cell."""
    scale, later = 3, None

    def function(x, *args, y=2, **kw):
        return (lambda: x * scale + y, args, kw, later)  # noqa: F821 - deleted below, on purpose

    del later
    compiler = Compiler("function")
    callback = hook.FrameCallback(compiler, "test")
    x = torch.ones(1)
    with pytest.raises(NameError):
        callback.call(function, (x, 7), {"z": 8})
    (frame,) = compiler.frames
    assert frame.locals == {"x": x, "args": (7,), "y": 2, "kw": {"z": 8}, "scale": 3}
    assert set(frame.cells) == {"scale", "later"} and frame.closure == function.__closure__
    assert frame.cells["scale"].cell_contents == 3
    assert frame.globals is globals() and frame.builtins["len"] is len
    assert resolve(LocalSource("scale"), frame.scope()) == 3


def test_generators_and_coroutines_are_skipped_with_a_reason():
    """Generator and coroutine frames are not compiled; plain functions that they call are."""

    def generate(x):
        yield plus_one(x)
        yield plus_one(x)

    async def wait(x):
        return plus_one(x)

    async def agenerate(x):
        yield plus_one(x)

    async def last(x):
        return [value async for value in agenerate(x)]

    compiler = Compiler("consume")

    def consume(x):
        return list(generate(x))

    callback = hook.FrameCallback(compiler, "test")
    x = torch.ones(1)
    assert [value.item() for value in callback.call(consume, (x,), {})] == [11, 11]
    assert callback.call(lambda: asyncio.run(wait(x)), (), {}).item() == 11
    assert callback.call(lambda: asyncio.run(last(x)), (), {})[0].item() == 11
    assert "generate" not in compiler.met and "wait" not in compiler.met and "agenerate" not in compiler.met
    assert "generators" in cache.state(generate.__code__).skip_reason
    assert "coroutines" in cache.state(wait.__code__).skip_reason


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_the_hook_is_restored_after_any_exception(error):
    """An exception of the user's code or of the compiler is raised, and no hook remains."""

    def fails(x):
        raise error("user")

    def compile_fails(frame: Frame) -> hook.Outcome:
        raise error("compiler")

    with pytest.raises(error, match="user"):
        hook.FrameCallback(Compiler("fails"), "test").call(fails, (torch.ones(1),), {})
    assert eval_frame.get_eval_frame_callback() is None
    with pytest.raises(error, match="compiler"):
        hook.FrameCallback(compile_fails, "other").call(fails, (torch.ones(1),), {})
    assert eval_frame.get_eval_frame_callback() is None


@pytest.fixture
def ctrl_c():
    """A fixture in which Ctrl-C raises an error, also in a background job of a shell, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_an_interrupt_at_any_moment_leaves_no_hook():
    """Ctrl-C at random moments of a call leaves no hook behind."""
    callback = hook.FrameCallback(Compiler(), "test")
    x = torch.ones(1)
    callback.call(plus_one, (x,), {})
    interrupted = 0
    for _ in range(60):
        timer = threading.Thread(target=_thread.interrupt_main)
        try:
            timer.start()
            while timer.is_alive():  # on a busy machine the other thread may be delayed
                callback.call(plus_one, (x,), {})
            for _ in range(100):
                callback.call(plus_one, (x,), {})
        except KeyboardInterrupt:
            interrupted += 1
        try:
            timer.join()
        except KeyboardInterrupt:
            timer.join()
        assert eval_frame.get_eval_frame_callback() is None
    assert interrupted > 0


def test_the_hook_belongs_to_its_thread():
    """Another thread has no hook; two threads can compile at the same time."""
    compiler = Compiler()
    callback = hook.FrameCallback(compiler, "test")
    seen: list[object] = []

    def look(x):
        thread = threading.Thread(target=lambda: seen.append(eval_frame.get_eval_frame_callback()))
        thread.start()
        thread.join()
        return x

    callback = hook.FrameCallback(Compiler("look"), "test")
    callback.call(look, (torch.ones(1),), {})
    assert seen == [None]
    calls = in_threads(lambda number: [callback.call(plus_one, (torch.ones(1),), {"k": k}).item() for k in range(1, 6)])
    results = [result for found in calls for result in found]
    # A thread that waited while another compiled the same frame runs it eagerly once: 2; compiled code gives 11.
    assert len(results) == 20 and set(results) <= {11, 2}
    assert callback.call(plus_one, (torch.ones(1),), {"k": 1}).item() == 11


def test_it_nests_inside_and_around_the_real_compiler():
    """torch.compile works inside and around nbcompile, and neither uses entries of the other."""
    compiler = Compiler("around", "both")
    callback = hook.FrameCallback(compiler, "eager")
    graphs = Graphs()

    def inner(x, k=5):
        return x * 3 + k

    real = torch.compile(inner, backend=graphs)

    def around(x):
        return plus_one(x) + real(x)

    x = torch.ones(1)
    assert callback.call(around, (x,), {}).item() == 19
    assert callback.call(around, (x,), {}).item() == 19
    assert len(graphs) == 1 and compiler.met.count("plus_one") == 1 and "inner" not in compiler.met
    assert real(x).item() == 8

    ours = torch._dynamo.disable(lambda x: callback.call(plus_one, (x,), {}))

    @torch.compile(backend=graphs)
    def above(x):
        return ours(x) * 2

    assert above(x).item() == 22
    assert compiler.met.count("plus_one") == 1


@pytest.mark.skipif(torch.__version__ < "2.13", reason="before torch 2.13 it reads our entries as if they were its own")
def test_the_real_compiler_recompiles_beside_our_entries():
    """torch.compile compiles and recompiles a function independently of nbcompile's entries."""
    callback = hook.FrameCallback(Compiler(), "eager")
    x = torch.ones(3)
    for k in (1, 2):
        callback.call(plus_one, (x,), {"k": k})
    graphs: list[object] = []
    real = torch.compile(plus_one, backend=lambda module, inputs: graphs.append(module) or module.forward)
    for size in (3, 4, 5, 3):
        assert real(torch.ones(size))[0].item() == 2
    assert len(graphs) == 2
    assert callback.call(plus_one, (x,), {"k": 1})[0].item() == 11
    torch._dynamo.reset()


def test_disabled_functions_are_left_alone():
    """``torch._dynamo.disable``, recursive and not, and ``torch.compiler.disable`` have an effect."""
    recursive = torch._dynamo.disable(outer)
    compiler = Compiler("call_it")
    callback = hook.FrameCallback(compiler, "test")

    def call_it(x):
        return recursive(x)

    assert callback.call(call_it, (torch.ones(1),), {}).item() == 2
    assert compiler.met == ["call_it"]

    @torch.compiler.disable(recursive=False)
    def only_this(x):
        return plus_one(x)

    def call_that(x):
        return only_this(x)

    compiler = Compiler("call_that")
    assert hook.FrameCallback(compiler, "test").call(call_that, (torch.ones(1),), {}).item() == 11
    assert "only_this" not in compiler.met and "plus_one" in compiler.met


def test_strategies_set_by_others_are_honoured():
    """Code that was marked to be skipped is not compiled."""
    copy = FunctionType(plus_one.__code__.replace(), globals(), "copy", (5,))
    hook.skip_code(copy.__code__)
    compiler = Compiler()
    assert hook.FrameCallback(compiler, "test").call(copy, (torch.ones(1),), {}).item() == 2
    assert compiler.met == []


def test_reset_code_forgets():
    """The function is compiled again after ``reset_code``, and everything after ``reset``."""
    compiler = Compiler()
    callback = hook.FrameCallback(compiler, "test")
    x = torch.ones(1)
    callback.call(plus_one, (x,), {})
    hook.reset_code(plus_one.__code__)
    callback.call(plus_one, (x,), {})
    assert len(compiler.met) == 2
    assert [entry.compile_id for entry in cache.entries(plus_one.__code__)] == ["0/1"]
    hook.reset()
    callback.call(plus_one, (x,), {})
    assert [entry.compile_id for entry in cache.entries(plus_one.__code__)] == ["0/0"]


def test_paused_runs_without_a_hook():
    """``paused`` removes the hook inside a compiled call."""

    def pauses(x):
        with hook.paused():
            return plus_one(x)

    callback = hook.FrameCallback(Compiler("pauses"), "test")
    assert callback.call(pauses, (torch.ones(1),), {}).item() == 2


def test_frames_without_tensors_and_with_modes_are_skipped():
    """Frames without tensors and frames below a dispatch mode run in eager mode."""
    area = eval("lambda a, b: a * b", {})
    compiler = Compiler()
    callback = hook.FrameCallback(compiler, "test")
    assert callback.call(area, (2, 3), {}) == 6
    assert compiler.met == []
    assert area(torch.ones(1), 2).item() == 2
    callback.call(area, (torch.ones(1), 2), {})
    assert compiler.met == ["<lambda>"], "the skip was about values, not about the code"
    with config.patch(disable=True):
        assert callback.call(plus_one, (torch.ones(1),), {}).item() == 2


def test_code_without_tensors_is_skipped(monkeypatch):
    """Code without tensors is checked a few times and then skipped until a reset; compiled code is always checked."""
    area = eval("lambda a, b: a * b", {})
    compiler, asked, looked = Compiler(), [], skipping.frame_skip_reason
    monkeypatch.setattr(skipping, "frame_skip_reason", lambda *frame: asked.append(None) or looked(*frame))
    callback = hook.FrameCallback(compiler, "test")

    def questions(calls=20):
        asked.clear()
        for _ in range(calls):
            assert callback.call(area, (2, 3), {}) == 6
        return len(asked)

    assert questions() == 8
    callback.call(area, (torch.ones(1), 2), {})
    assert compiler.met == []
    hook.reset_code(area.__code__)
    assert questions(7) == 7
    callback.call(area, (torch.ones(1), 2), {})
    assert compiler.met == ["<lambda>"]
    assert questions() == 20


def test_files_of_torch_and_of_ours_are_skipped():
    """Code of torch, NumPy and nbcompile is skipped; torch.optim and a user's code are not."""
    assert skipping.code_skip_reason(torch.nn.Linear.forward.__code__) == "the file belongs to torch"
    assert skipping.code_skip_reason(torch.optim.SGD.step.__wrapped__.__code__) is None
    assert skipping.code_skip_reason(hook.reset.__code__) == "the file belongs to nbcompile"
    assert skipping.code_skip_reason(plus_one.__code__) is None
    assert skipping.file_skip_reason(__file__) is None
    assert skipping.code_skip_reason(numpy.linalg.norm.__wrapped__.__code__) == "the file belongs to numpy"


def test_a_superseded_function_does_not_leak():
    """The code and the entries of a function are freed with it, for example in notebook cells."""

    def make():
        namespace: dict[str, object] = {"torch": torch}
        exec("def f(x, k=5): return torch.add(x, 1)", namespace)
        return namespace["f"]

    function = make()
    callback = hook.FrameCallback(Compiler(), "test")
    assert callback.call(function, (torch.ones(1),), {}).item() == 11
    code = weakref.ref(function.__code__)
    callback.compile_frame.frames.clear()
    del function
    gc.collect()
    assert code() is None
    assert len(cache.known_codes()) == 0


def _class_reading_cells(x):
    factor, seen = 3, [1]

    class Local:
        y = torch.add(x, other=factor)
        seen.append(torch.sin(y).sum() > 0)

    return Local.y * 2, len(seen)


@pytest.mark.filterwarnings("error::nbcompile.errors.InternalErrorWarning")
def test_the_body_of_a_class_that_reads_variables_of_a_function():
    """The body of a class is left to Python, because guards cannot read its variables."""
    x = torch.ones(2)
    assert str(nbcompile.compile(_class_reading_cells, backend="eager")(x)) == str(_class_reading_cells(x))


@pytest.mark.filterwarnings("error::nbcompile.errors.InternalErrorWarning")
def test_the_body_of_a_class_runs_as_plain_python():
    """A class with a decorator that breaks the graph causes no internal error."""

    def f(x):
        y = x + 1

        class Doubled(torch.autograd.Function):
            @staticmethod
            def forward(ctx, a):
                return a * 2

            @staticmethod
            @torch.autograd.function.once_differentiable
            def backward(ctx, g):
                return g * 2

        return Doubled.apply(y)

    x = torch.ones(3, requires_grad=True)
    result = nbcompile.compile(f, backend="eager")(x)
    result.sum().backward()
    assert torch.equal(result, f(x))
    assert torch.equal(x.grad, torch.full((3,), 2.0))


def test_a_frame_that_creates_a_cache_is_noted():
    """A compiled function leaves the calls of the cache to Python, however often a cache is created."""
    calls = []

    def called(g, x):
        return g(1), x + 1

    def create(number):
        calls.append(number)
        return functools.lru_cache(lambda n: [n, number])

    def program(x):
        for number in range(12):  # the loop breaks, and runs uncompiled
            print(end="")
            g = create(number)
            first, _ = called(g, x)
            assert called(g, x)[0] is first
            assert g.cache_info() == (1, 1, 128, 1)
        return x

    nbcompile.compile(program, backend="eager")(torch.ones(2))
    assert calls == list(range(12))
