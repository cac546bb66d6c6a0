"""Programs that differ in something that no argument shows: neither uses the other's entry."""

import gc
import sys

import pytest
import torch

CLASSES = """
import abc, collections.abc, numbers, typing, torch
K = {variant!r}
class Base(abc.ABC): pass
class Hooked(abc.ABC):
    @classmethod
    def __subclasshook__(cls, other): return K == "one"
@typing.runtime_checkable
class HasSize(typing.Protocol):
    size: int
class C:
    def __len__(self): return 2
    def __getitem__(self, index): return (3, 4)[index]
c = C()
if K == "one":
    Base.register(C)
    numbers.Number.register(C)
    collections.abc.Sequence.register(C)
    c.size = 1
"""
ASKED = {
    "an abstract class about a new object": "isinstance(C(), Base)",
    "an abstract class about a global": "isinstance(c, (int, Base))",
    "an abstract class about a class": "issubclass(C, Base)",
    "an abstract class of the library": "isinstance(c, numbers.Number)",
    "a hook that reads a global": "isinstance(c, Hooked)",
    "a protocol about attributes": "isinstance(c, HasSize)",
    "a pattern of a sequence": "is_pair(c)",
    "a pattern of a class": "is_base(C())",
}
PATTERNS = """
def is_pair(value):
    match value:
        case [a, b]: return True
    return False
def is_base(value):
    match value:
        case Base(): return True
    return False
"""


@pytest.mark.parametrize("asked", ASKED.values(), ids=list(ASKED))
def test_what_classes_answer_is_asked_again(process, asked):
    """Registries, hooks and patterns with another answer need another entry; an equal answer is loaded."""
    text = f"{CLASSES}{PATTERNS}def f(x): return x + 1 if {asked} else x + 2\n"
    _agree(process, {variant: text.replace("{variant!r}", repr(variant)) for variant in ("one", "other")})


SAID = {
    "the text of a class": ("class C:\n    {variant!r}", "len(C.__doc__)"),
    "annotations of a class": ("class C:\n    a: {variant!r}", "len(C.__annotations__['a'])"),
    "the order of members": ("class C: pass\nfor name in {variant!r}: setattr(C, name, 1)", "list(vars(C)).index('o')"),
    "the text of a function": ("def g(): pass\ng.__doc__ = {variant!r}", "len(g.__doc__)"),
    "annotations of a function": ("def g(a: {variant!r}): pass", "len(g.__annotations__['a'])"),
    "the name of a function": ("def g(): pass\ng.__name__ = {variant!r}", "len(g.__name__)"),
}


@pytest.mark.parametrize(("given", "asked"), SAID.values(), ids=list(SAID))
def test_what_is_said_of_functions_and_classes_counts(process, given, asked):
    """Docstrings, annotations, names and the order of members are values for a program that reads them."""
    text = f"import torch\n{given}\ndef f(x): return x + ({asked})\n"
    _agree(process, {variant: text.replace("{variant!r}", repr(variant)) for variant in ("one", "another")})


STATES = {
    "sys.getrecursionlimit()": (sys.getrecursionlimit, sys.setrecursionlimit, 5000, 6000),
    "sys.getswitchinterval()": (sys.getswitchinterval, sys.setswitchinterval, 0.25, 0.5),
    "gc.get_threshold()[0]": (lambda: gc.get_threshold()[0], gc.set_threshold, 701, 702),
    "torch.get_float32_matmul_precision() == 'high'": (
        torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "high", "medium"
    ),
    "torch.is_anomaly_check_nan_enabled()": (
        torch.is_anomaly_check_nan_enabled, lambda on: torch.autograd.set_detect_anomaly(False, on), True, False
    ),
    "torch.is_warn_always_enabled()": (torch.is_warn_always_enabled, torch.set_warn_always, False, True),
}  # fmt: skip


@pytest.mark.parametrize("asked", STATES)
def test_results_of_library_functions_about_the_process_are_checked_again(process, asked):
    """Values that are constant while a process runs may differ in the next one."""
    get, put, one, other = STATES[asked]
    before = get()
    try:
        _agree(process, {one: text_of(asked), other: text_of(asked)}, put)
    finally:
        put(before)


def text_of(asked):
    return f"import gc, sys, torch\ndef f(x): return x + ({asked})\n"


def test_the_line_of_a_function_is_not_kept(process):
    """The key does not contain the first line of a function, so a program that reads it is always compiled."""
    x, text = torch.arange(4.0), "import torch\ndef f(x): return x * f.__code__.co_firstlineno\n"
    for source in (text, f"\n{text}"):
        run = process(source)
        assert torch.equal(run.call("f", x), run.module.f(x))
        assert run.loaded == [False]


@pytest.fixture
def method_of_tensors(monkeypatch):
    """A function that adds a method to torch.Tensor, whose code differs only in a constant."""
    made = {"one": lambda tensor: 1, "other": lambda tensor: 2}
    return lambda variant: monkeypatch.setattr(torch.Tensor, "method_of_a_test", made[variant], raising=False)


def test_a_method_added_to_torchs_classes_is_identified_by_its_constants(process, method_of_tensors):
    """The short descriptions of torch's classes include constants of a patched method."""
    text = "import torch\ndef f(x): return x + x.method_of_a_test()\n"
    _agree(process, {"one": text, "other": text}, method_of_tensors)


def _agree(process, texts, prepare=lambda variant: None):
    """Assert eager mode's results with a store of another and of the same program, and a load at the end."""
    x = torch.arange(4.0)
    for variant in (*texts, *texts):
        prepare(variant)
        run = process(texts[variant])
        wanted = run.module.f(x)
        assert torch.equal(run.call("f", x), wanted), variant
    assert any(run.loaded)
