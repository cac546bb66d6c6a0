"""A function that an earlier process compiled is loaded; one with any relevant difference is compiled."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import nbcompile
from nbcompile import config, errors
from nbcompile.fast.disk_cache import entry, keys, storage

FUNCTION = """
import torch
SCALE = 2.0
LIMITS = {"low": 0.5}
def helper(y, by=1.0):
    return torch.relu(y) * by
def f(x, flag=True):
    y = helper(x, by=SCALE)
    if flag:
        y = y - LIMITS["low"]
    return torch.softmax(y, -1)
"""


def test_the_second_process_loads(process):
    """The same function with the same inputs gives the same result, without a trace."""
    x = torch.randn(4, 8)
    first, second = process(FUNCTION), None
    one = first.call("f", x)
    second = process(FUNCTION)
    two = second.call("f", x)
    assert (first.loaded, second.loaded) == ([False], [True])
    assert torch.equal(one, two)
    torch.testing.assert_close(two, second.module.f(x))


@pytest.mark.parametrize("learns", [False, True])
def test_what_was_loaded_serves_later_calls(process, learns):
    """An entry is loaded once, because its guards check the process state at the calls, not during the load."""
    x = torch.randn(4, 8, requires_grad=learns)
    process(FUNCTION).call("f", x)
    second = process(FUNCTION)
    for _ in range(3):
        second.call("f", x)
    assert second.loaded == [True]


NUMBERS = """
import torch
NAN = float("nan")
N = complex(-0.0, 0.0)
T = (1, -0.0, -float("inf"), complex(NAN, 1), frozenset({complex(0, -0.0)}), slice(NAN, -0.0))
def f(x, a=complex(-0.0, -0.0)):
    return x + 1, NAN, N, T, -0.0, [NAN, {a: complex(-0.0, 1)}]
def g(x, a=complex(-0.0, -0.0)):
    torch._dynamo.graph_break()
    return x * 2, a, -a, N, complex(2.0, -0.0)
"""


@pytest.mark.parametrize("function", ["f", "g"])
def test_numbers_whose_text_is_another_number(process, function):
    """The text of a stored program is parsed again, with the signs of zeros of complex numbers."""
    x = torch.ones(2)
    process(NUMBERS).call(function, x)
    second = process(NUMBERS)
    found, expected = second.call(function, x), getattr(second.module, function)(x)
    assert second.loaded
    assert all(second.loaded)
    assert repr(found) == repr(expected)


CHANGES = {
    "its own body": ('y - LIMITS["low"]', 'y + LIMITS["low"]'),
    "a default": ("flag=True", "flag=False"),
    "a global": ("SCALE = 2.0", "SCALE = 3.0"),
    "the sign of a zero": ("SCALE = 2.0", "SCALE = -0.0"),
    "a called function": ("torch.relu(y) * by", "torch.relu(y) + by"),
    "a called function's default": ("by=1.0", "by=7.0"),
    "an item": ('"low": 0.5', '"low": 0.25'),
    "the type of a global": ("SCALE = 2.0", "SCALE = 2"),
    "a function of torch": ("def f(", "torch_relu = torch.relu\ntorch.relu = lambda x: torch_relu(x) + 1\ndef f("),
}


@pytest.mark.parametrize("changed", CHANGES)
def test_a_program_that_differs_is_compiled(process, changed, monkeypatch):
    """A program with any difference is compiled again."""
    monkeypatch.setattr(torch, "relu", torch.relu)
    x = torch.randn(4, 8)
    process(FUNCTION).call("f", x)
    before, after = CHANGES[changed]
    assert before in FUNCTION
    other = process(FUNCTION.replace(before, after, 1))
    result = other.call("f", x)
    assert other.loaded == [False]
    torch.testing.assert_close(result, other.module.f(x))


CALLS = {
    "another size": lambda: torch.randn(5, 8),
    "another dtype": lambda: torch.randn(4, 8, dtype=torch.float64),
    "other strides": lambda: torch.randn(8, 4).t(),
    "a gradient": lambda: torch.randn(4, 8, requires_grad=True),
    "a parameter": lambda: torch.nn.Parameter(torch.randn(4, 8), requires_grad=False),
}


@pytest.mark.parametrize("given", CALLS)
def test_a_call_that_differs_is_compiled(process, given):
    """The guards are checked before an entry is used."""
    process(FUNCTION).call("f", torch.randn(4, 8))
    later = process(FUNCTION)
    x = CALLS[given]()
    result = later.call("f", x)
    assert later.loaded == [False]
    torch.testing.assert_close(result, later.module.f(x))


def test_the_state_of_the_process_is_checked(process):
    """Grad mode must be as it was at the compilation."""
    x = torch.randn(4, 8)
    process(FUNCTION).call("f", x)
    with torch.no_grad():
        later = process(FUNCTION)
        later.call("f", x)
    assert later.loaded == [False]
    again = process(FUNCTION)
    again.call("f", x)
    assert again.loaded == [True]


def test_each_way_to_compile_has_entries_of_its_own(process):
    """Options are part of the key."""
    x = torch.randn(4, 8)
    process(FUNCTION).call("f", x)
    later = process(FUNCTION)
    later.call("f", x, dynamic=True)
    assert later.loaded == [False]


MODULE = """
import torch
class Block(torch.nn.Module):
    scale = 2
    def __init__(self):
        super().__init__()
        self.line = torch.nn.Linear(4, 4)
        self.rate = 0.5
    def forward(self, x):
        return self.shift(torch.nn.functional.gelu(self.line(x)) * self.rate)
    def shift(self, y):
        return y + self.scale
torch.manual_seed(0)
net = Block()
"""


def test_a_module_is_loaded_with_its_parameters_as_inputs(process):
    """Another process has other parameters, at other addresses."""
    x = torch.randn(3, 4)
    with torch.no_grad():
        process(MODULE).call("net", x)
        later = process(MODULE)
        later.module.net.line.weight.mul_(2.0)
        result = later.call("net", x)
    assert later.loaded == [True]
    torch.testing.assert_close(result, later.module.net(x))


@pytest.mark.parametrize(
    ("before", "after"),
    [("y + self.scale", "y - self.scale"), ("scale = 2", "scale = 3"), ("rate = 0.5", "rate = 1.5")],
)
def test_a_module_of_another_class_is_compiled(process, before, after):
    """A difference in a method, in the class or in the instance causes a compilation."""
    x = torch.randn(3, 4)
    with torch.no_grad():
        process(MODULE).call("net", x)
        later = process(MODULE.replace(before, after))
        result = later.call("net", x)
    assert later.loaded == [False]
    torch.testing.assert_close(result, later.module.net(x))


BREAK = """
import torch
seen = []
def note(text):
    seen.append(text)
def f(x, k):
    y = x * k
    print("here", end="")
    z = y + 1
    note("after")
    return torch.relu(z), k
"""


def test_breaks_and_side_effects_are_the_same(process, capsys):
    """Resume functions are created again from the user's code, and are loaded, too."""
    x = torch.randn(5)
    first = process(BREAK)
    first.call("f", x, 3)
    later = process(BREAK)
    result, k = later.call("f", x, 3)
    assert first.loaded == [False, False]
    assert later.loaded == [True, True]
    assert (first.module.seen, later.module.seen) == (["after"], ["after"])
    assert capsys.readouterr().out == "herehere"
    torch.testing.assert_close(result, torch.relu(x * 3 + 1))
    assert later.frames[1].resumes == later.frames[0].id


CACHES = """
import functools, torch
def inside(x):
    g = functools.cache(lambda n: x + n)
    return g(1) + g(1), g.cache_info()
def outliving(x):
    g = functools.lru_cache(maxsize=4)(lambda n, *, k=1: x + n * k)
    first = g(1), g(2, k=3), g(1)
    torch._dynamo.graph_break()
    return x * 2, g, first[0] is g(1), g(2, k=3)
"""


def test_caches_have_the_same_entries(process):
    """A cache that is used only in the graph is loaded; library code creates one that is used after it.

    Frames with such code are compiled by each process, and those that resume after them are loaded.
    """
    for loaded in (False, True):
        run = process(CACHES)
        total, info = run.call("inside", torch.ones(2))
        assert (total.tolist(), tuple(info)) == ([4, 4], (1, 1, None, 1))
        assert run.loaded == [loaded]
        doubled, cache, is_first, other = run.call("outliving", torch.ones(2))
        assert run.loaded[1:3] == [False, loaded]
        assert (doubled.tolist(), is_first, other.tolist()) == ([2, 2], True, [7, 7])
        assert cache.cache_info() == (3, 2, 4, 2)


def test_symbolic_sizes_are_guarded_by_data(process):
    """An entry with symbolic sizes is used for a new size."""
    first = process(FUNCTION)
    for rows in (4, 5):
        first.call("f", torch.randn(rows, 8))
    later = process(FUNCTION)
    x = torch.randn(9, 8)
    result = later.call("f", x)
    assert later.loaded == [True]
    torch.testing.assert_close(result, later.module.f(x))
    one = torch.randn(1, 8)
    torch.testing.assert_close(later.call("f", one), later.module.f(one))
    assert later.loaded == [True, False]


WRITES = """
import torch
def f(x):
    x.add_(1)
    return (x * 2).sum()
"""


def test_inputs_that_the_graph_changes_are_changed(process):
    """The version of a mutated input increases, so autograd detects the mutation."""
    told = []
    for _ in range(2):
        x = torch.ones(3)
        run = process(WRITES)
        total = run.call("f", x)
        told.append((run.loaded, x.tolist(), x._version, total.item()))
    assert [each[0] for each in told] == [[False], [True]]
    assert told[0][1:] == told[1][1:] == ([2.0] * 3, 1, 12.0)


def trained(run, rows=(3,)):
    """The outputs and gradients of a net's calls."""
    told = []
    for count in rows:
        x = torch.linspace(-1, 1, count * 4).view(1, count, 4).requires_grad_()
        run.module.net.zero_grad()
        y = run.call("net", x)
        y.square().sum().backward()
        told += [y.detach(), x.grad, *(each.grad.clone() for each in run.module.net.parameters())]
    return told


@pytest.mark.parametrize("rows", [(3,), (3, 4, 7)], ids=["static", "symbolic"])
def test_training_needs_no_autograd_of_the_compiler(process, rows):
    """Forward and backward are loaded from the store; gradients are eager mode's."""
    first = process(MODULE)
    trained(first, rows)
    later = process(MODULE)
    if len(rows) > 1:
        rows = rows[2:]
    found = trained(later, rows)
    assert later.loaded == [True]
    later.call = lambda name, x: later.module.net(x)
    torch.testing.assert_close(found, trained(later, rows))


SAVED = """
import torch
def f(x):
    return x.sin(), x.detach().cos(), 3
"""


def test_what_training_rejects_is_rejected(process):
    """Second derivatives and mutated saved tensors are errors; outputs without a gradient have none."""
    process(SAVED).call("f", torch.ones(3, requires_grad=True))
    later = process(SAVED)
    x = torch.ones(3, requires_grad=True)
    sine, cosine, three = later.call("f", x)
    assert (later.loaded, sine.requires_grad, cosine.requires_grad, three) == ([True], True, False, 3)
    (first,) = torch.autograd.grad(sine.sum(), x, create_graph=True)
    torch.testing.assert_close(first.detach(), x.detach().cos())
    with pytest.raises(RuntimeError, match="double backward"):
        first.sum().backward()
    sine, _, _ = later.call("f", x)
    with torch.no_grad():
        x.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        sine.sum().backward()


def test_the_page_is_told_again(process):
    """The loaded record has the same graph, guards and kernels; its cause says that nothing was compiled."""
    x = torch.randn(4, 8)
    first, later = process(FUNCTION), None
    first.call("f", x)
    later = process(FUNCTION)
    later.call("f", x)
    was, now = first.frames[0], later.frames[0]
    assert (was.graph, was.guards, was.compiled_graph, was.residual) == (
        now.graph,
        now.guards,
        now.compiled_graph,
        now.residual,
    )
    assert was.store == entry.STORED


REJECTED = {
    "the backend": (FUNCTION, {"backend": "eager"}, "generates no code"),
    "an id": ("def f(x, o=object()): return x + (id(o) > 0)", {}, "the id of an object"),
    "a constant result": (
        "import torch, nbcompile\n@nbcompile.assume_constant_result\ndef three(): return 3\ndef f(x): return x * three()",
        {},
        "three",
    ),
    **{
        f"comptime.{call}": (
            f"from torch._dynamo.comptime import comptime\ndef f(x):\n    comptime.{call}\n    return x * 3",
            {},
            "comptime",
        )
        for call in ("print(x)", "print_graph()", "print_locals()", "print_guards()", "sleep(0)")
    },
    "a function of comptime": (
        "from torch._dynamo.comptime import comptime\ndef f(x):\n    @comptime\n    def _(context): pass\n    return x * 3",
        {},
        "comptime",
    ),
}


@pytest.mark.parametrize("what", REJECTED)
def test_what_means_nothing_elsewhere_is_not_kept(process, what):
    """The record contains the reason."""
    source, options, reason = REJECTED[what]
    first = process(source)
    first.call("f", torch.randn(4, 8), **options)
    assert first.reasons[0].startswith("not stored in the compile cache: ")
    assert reason in first.reasons[0]


def clear(folder):
    """Remove the entries, without their pages, and the list of warnings."""
    storage._warned.clear()
    for each in folder.glob("*.json"):
        each.unlink()


def test_a_damaged_entry_is_compiled_again(process, tmp_path):
    """There is one warning and the right result, and the entry is replaced."""
    x = torch.randn(4, 8)
    process(FUNCTION).call("f", x)
    (path,) = (tmp_path / "store" / "frames").glob("*/*.json")
    whole = path.read_bytes()
    damages = (whole[: len(whole) // 2], whole[:200] + b"?" + whole[201:], b"", b"0" * 64 + b"\nnull")
    for damaged in damages:
        clear(path.parent)
        path.write_bytes(damaged)
        later = process(FUNCTION)
        with pytest.warns(errors.StoreWarning, match="damaged"):
            result = later.call("f", x)
        assert later.loaded == [False]
        torch.testing.assert_close(result, later.module.f(x))
    assert not path.exists()


def test_an_entry_with_another_meaning_is_passed_over(process, tmp_path):
    """A file with a valid checksum and invalid content is ignored."""
    x = torch.randn(4, 8)
    process(FUNCTION).call("f", x)
    (path,) = (tmp_path / "store" / "frames").glob("*/*.json")
    content = storage.read(path)
    for changed in (
        {},
        {**content, "guards": [["NO_SUCH", 0, 1]]},
        {**content, "addresses": {"table": [[1]], "kinds": []}},
    ):
        clear(path.parent)
        storage._write(path, json.dumps(changed).encode())
        later = process(FUNCTION)
        with pytest.warns(errors.StoreWarning, match="cannot be used"):
            result = later.call("f", x)
        assert later.loaded == [False]
        torch.testing.assert_close(result, later.module.f(x))


def test_a_folder_that_cannot_be_written_costs_one_warning(process, tmp_path, monkeypatch):
    """There is one warning, and the function runs compiled."""
    x = torch.randn(4, 8)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NBCOMPILE_CACHE_DIR", str(tmp_path / "file" / "below"))
    storage._warned.clear()
    first = process(BREAK)
    with pytest.warns(errors.StoreWarning, match="nothing is kept") as told:
        first.call("f", x, 3)
    assert len([each for each in told if "nothing is kept" in str(each.message)]) == 1
    assert set(first.reasons) == {"not stored in the compile cache: the disk cannot be written"}


def test_the_store_is_bounded(process, tmp_path):
    """The least recently used entry is removed first."""
    first = process(FUNCTION)
    for columns in (2, 3, 4):
        first.call("f", torch.randn(4, columns), dynamic=False)
    paths = sorted((tmp_path / "store" / "frames").glob("*/*.json"), key=lambda each: each.stat().st_mtime)
    assert len(paths) == 3
    storage.touch(paths[0])
    storage.shrink(storage.size() - 1)
    assert [each.exists() for each in paths] == [True, False, True]


def test_off_means_off(process, tmp_path):
    """Nothing is read or written without the setting."""
    x = torch.randn(4, 8)
    with config.patch(warm_start=False):
        off = process(FUNCTION)
        off.call("f", x)
    assert not (tmp_path / "store" / "frames").exists()
    assert off.reasons == [""]


ATTENTION = """
import math
import torch
def f(q, k, v, w):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    return (torch.softmax(scores, -1) @ v).relu() @ w
"""


def test_operators_that_a_plan_calls_are_loaded(process):
    """Matrix products and nbcompile's attention operator are found by the later process."""
    given = [torch.randn(2, 3, 40, 8) for _ in range(3)] + [torch.randn(8, 4)]
    told = []
    with torch.no_grad():
        for _ in range(2):
            run = process(ATTENTION)
            ours = run.call("f", *given)
            told.append((run.loaded, ours, run.module.f(*given)))
    assert [each[0] for each in told] == [[False], [True]]
    for _, ours, eager in told:
        torch.testing.assert_close(ours, eager)


COUNTED = """
import torch

class Counted(torch.Tensor):
    calls = 0

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls += 1
        return super().__torch_function__(func, types, args, kwargs or {})

def f(x):
    return (x + 1) * 2

def g(x):
    return x.grad
"""


@pytest.mark.parametrize(("name", "each_time"), [("f", 2), ("g", 1)])
def test_neither_keeping_nor_loading_runs_code_of_a_tensors_class(process, name, each_time):
    """A call of a torch function is one call of __torch_function__, for compiled and for loaded code."""
    for later in (False, True):
        now = process(COUNTED)
        for number in (1, 2, 3):
            x = torch.ones(3).as_subclass(now.module.Counted)
            with torch._C.DisableTorchFunctionSubclass():
                x.grad = torch.ones(3).as_subclass(now.module.Counted)
            now.call(name, x)
            assert now.module.Counted.calls == number * each_time
        assert now.loaded[0] is (later and name == "g"), "graphs on tensors of a user's class are not kept"


def test_what_cannot_be_written_down_runs_all_the_same(process, monkeypatch):
    """An error while an entry is written gives a warning, and the compiled code runs."""
    monkeypatch.setattr(entry, "_entry_content", lambda *words: 1 / 0)
    monkeypatch.setattr(storage, "_warned", set())
    x = torch.randn(4, 8)
    with pytest.warns(errors.StoreWarning, match="f cannot be stored in the compile cache .ZeroDivisionError"):
        first = process(FUNCTION)
        torch.testing.assert_close(first.call("f", x), first.module.f(x))
    assert first.frames[0].status == "compiled"
    assert "ZeroDivisionError" in first.frames[0].store


RANKS = """
import torch
def f(y):
    return y * 2
def g(x, y):
    return x * y.dim() + y.numel()
def h(x):
    return x + 1 if torch.is_inference_mode_enabled() else x - 1
"""


@pytest.mark.parametrize("name", ["f", "g"])
def test_an_entry_for_a_number_is_for_no_other_rank(process, name):
    """torch treats an empty list of sizes as those of the current tensor, so the rank is checked, too."""
    shapes = [(), (3,), (2, 3), (1,), (0,), ()]
    for shape in shapes:
        run = process(RANKS)
        given = (torch.full(shape, 3.0),) if name == "f" else (torch.ones(2), torch.full(shape, 3.0))
        for _ in range(2):
            torch.testing.assert_close(run.call(name, *given), getattr(run.module, name)(*given))
    for first in shapes:
        run = process(RANKS)
        for shape in (first, *shapes):
            given = (torch.full(shape, 3.0),) if name == "f" else (torch.ones(2), torch.full(shape, 3.0))
            torch.testing.assert_close(run.call(name, *given), getattr(run.module, name)(*given))


def test_inference_mode_is_told_from_no_grad(process):
    """Grad mode is off in both, but the dispatch keys of tensors differ."""
    x = torch.ones(2)
    for inside in (torch.inference_mode, torch.no_grad, torch.inference_mode):
        run = process(RANKS)
        with inside():
            torch.testing.assert_close(run.call("h", x), run.module.h(x))


CAPTURED = """
import torch
def of_torch(text):
    names = {"__name__": "torch.testing", "torch": torch}
    exec(text, names)
    return names["made"]
act = of_torch(CHOSEN)
def make(act):
    def f(x):
        return act(x)
    return f
f = make(act)
class Net(torch.nn.Module):
    def forward(self, x):
        return act(x) + 1
def g(x):
    return torch.nn.functional.max_pool1d(x[None], 2) if POOL else x.relu()
"""
CHOICES = [
    "made = lambda x: x.float()",
    "made = lambda x: x.bool()",
    "made = (lambda k: lambda x: x * k)(2)",
    "made = (lambda k: lambda x: x * k)(3)",
    "made = (lambda x, k=2: x * k)",
    "made = (lambda x, k=3: x * k)",
]


@pytest.mark.parametrize("name", ["f", "g"])
def test_functions_of_one_name_in_a_module_of_torch_are_not_confused(process, name):
    """Lambdas, closures of one factory and other defaults each load their own entry."""
    x = torch.arange(4.0)
    for again in (False, True):
        for number, chosen in enumerate(CHOICES):
            pool = number % 2
            run = process(CAPTURED.replace("CHOSEN", repr(chosen)).replace("POOL", str(pool)))
            found, wanted = run.call(name, x), getattr(run.module, name)(x)
            assert found.dtype == wanted.dtype
            torch.testing.assert_close(found, wanted)
            assert not again or run.loaded == [True]


PATCHES = {
    "a method of tensors": (torch.Tensor, "relu", lambda x: x - 1),
    "a method of a module": (torch.nn.Linear, "forward", lambda self, x: x * 3),
    "a function": (torch.nn.functional, "gelu", lambda x, approximate="none": x * 5),
    "a function for another of its factory": (
        torch.nn.functional,
        "max_pool1d",
        torch.nn.functional.adaptive_max_pool1d,
    ),
}
PATCHED = """
import torch
torch.manual_seed(0)
line = torch.nn.Linear(4, 4).requires_grad_(False)
def f(x):
    y = torch.nn.functional.max_pool1d(x.relu()[None], 2)
    return line(x), y, torch.nn.functional.gelu(x)
"""


@pytest.mark.parametrize("patch", PATCHES)
def test_a_patched_torch_is_noticed_by_a_later_process(process, patch, monkeypatch):
    """A patched function is detected, and so is its absence in the process after that."""
    x = torch.linspace(-1, 1, 8).view(2, 4)
    for patched in (False, True, False):
        with monkeypatch.context() as patching:
            run = process(PATCHED)
            if patched:
                patching.setattr(*PATCHES[patch], raising=False)
            torch.testing.assert_close(run.call("f", x), run.module.f(x))


SOURCES = (".c", ".cpp", ".h", ".txt", ".toml")


def test_entries_of_another_compiler_have_another_key(monkeypatch):
    """The key contains every module, source, header and table of the package, so an edit invalidates old entries."""
    home = Path(nbcompile.__file__).parent
    files = list(keys._files(str(home), ""))
    parts = {path for path in home.rglob("*.*") if path.suffix in (".py", *SOURCES)}
    assert parts <= {home / name.removeprefix("/") for name, *_ in files}
    assert {path.suffix for path in parts} == {".py", *SOURCES}
    before = keys.own_source.__wrapped__()
    for at in (1, 2):  # size and time of one file
        edited = [*files[:-1], (*files[-1][:at], files[-1][at] + 1, *files[-1][at + 1 :])]
        with monkeypatch.context() as other:
            other.setattr(keys, "_files", lambda folder, where, edited=edited: edited)
            assert keys.own_source.__wrapped__() != before


def test_files_that_go_away_are_no_part_of_the_key(tmp_path):
    """A broken link, such as an editor's lock, and a missing folder are ignored."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/module.py").write_text("1")
    (tmp_path / ".#module.py").symlink_to("nowhere")
    assert [name for name, *_ in keys._files(str(tmp_path), "")] == ["/folder/module.py"]
    assert list(keys._files(str(tmp_path / "gone"), "")) == []
