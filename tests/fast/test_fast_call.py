"""Fast calls in C: they bind arguments as Python does, and reject unclear cases.

In torch: tests of guards, test/dynamo/test_guard_manager.py.
"""

import contextlib
import functools
import gc
import inspect
import sys
import weakref

import pytest
import torch

from nbcompile.fast import fast_call
from nbcompile.torch_internals import guards

tools = fast_call.tools()
pytestmark = pytest.mark.skipif(tools is None, reason="no compiler")


def plain(a, b=2):
    return a, b


def keyword_only(a, /, b, *rest, c=3, d):
    return a, b, rest, c, d


def everything(*args, **kwargs):
    return args, kwargs


def closing_over(value):
    def inner(a):
        return a, value

    return inner


def names_of(function):
    code = function.__code__
    rest = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return (*code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + rest], *code.co_freevars)


def made(function, bound=None, slow=lambda arguments, keywords: "slow"):
    return tools.fast_call(function, bound, names_of(function), slow)


CALLS = [
    ((), {}), ((1,), {}), ((1, 2), {}), ((1, 2, 3), {}), ((1, 2, 3, 4), {"d": 5}), ((1,), {"b": 2}), ((1,), {"a": 2}),
    ((), {"a": 1}), ((1, 2), {"d": 4}), ((1, 2), {"c": 3, "d": 4}), ((1,), {"b": 2, "d": 4}), ((1,), {"nothing": 2}),
]  # fmt: skip


@pytest.mark.parametrize("function", [plain, keyword_only, everything, closing_over("free")])
@pytest.mark.parametrize("arguments, keywords", CALLS)
def test_arguments_are_bound_as_python_binds_them(function, arguments, keywords):
    """Positions, names, defaults and the remaining arguments are bound; a wrong call is not."""
    got = made(function).bind(arguments, keywords)
    try:
        bound = inspect.signature(function).bind(*arguments, **keywords)
    except TypeError:
        assert got is None
        return
    bound.apply_defaults()
    expected = {**bound.arguments, **{name: "free" for name in function.__code__.co_freevars}}
    assert got == tuple(expected[name] for name in names_of(function))


def test_the_first_argument_of_a_method_is_its_object():
    """The object of a method is the first argument."""
    assert made(plain, "self").bind((3,), {}) == ("self", 3)
    assert made(plain, "self").bind((3, 4), {}) is None


def test_a_call_that_no_check_accepts_goes_the_long_way():
    """The slow path is used without an entry, for a rejected check, and after entries were removed."""
    way = made(plain)
    assert way((1,), {}) == "slow"
    check = tools.check(("a", "b"), [("EQUALS", 0, 0, 0, 1)])
    way.add(check, lambda *arguments, **keywords: ("fast", arguments, keywords))
    assert way((1,), {}) == ("fast", (1,), {})
    assert way((1,), {"b": 3}) == ("fast", (1,), {"b": 3})
    assert way((5,), {}) == "slow"
    assert way((True,), {}) == "slow"
    way.forget()
    assert way((1,), {}) == "slow"


def test_other_code_or_defaults_are_another_function():
    """A function with other code or defaults uses the slow path."""

    def own(a, b=2):
        return a, b

    def other(a, b=2):
        return b, a

    way = made(own)
    way.add(tools.check(("a", "b"), []), lambda *arguments: "fast")
    assert way((1,), {}) == "fast"
    own.__defaults__ = (3,)
    assert way((1,), {}) == "slow"
    way = made(own)
    way.add(tools.check(("a", "b"), []), lambda *arguments: "fast")
    own.__code__ = other.__code__
    assert way((1,), {}) == "slow"


def test_entries_may_be_forgotten_while_one_is_asked():
    """A guard that runs Python may remove the entry that it belongs to."""
    way = made(plain)

    def forgets(value):
        way.forget()
        return True

    for _ in range(3):
        way.add(tools.check(("a", "b"), [("PREDICATE", 0, 0, 0, forgets)]), lambda *arguments: "fast")
    assert way((1,), {}) == "fast"
    assert way((1,), {}) == "slow"


def test_a_check_that_raises_does_not_hold():
    """An exception in a guard does not reach the call."""

    class Touchy:
        def __getattr__(self, name):
            raise RuntimeError("do not look")

    asked = tools.check(("a",), [("ATTRIBUTE", 0, 0, 0, "x"), ("IS", 1, 0, id(None), None)])
    assert asked.holds((Touchy(),)) is False
    assert tools.check(("a",), [("PREDICATE", 0, 0, 0, lambda value: 1 / 0)]).holds((1,)) is False


@pytest.mark.parametrize(
    "instructions",
    [
        [("IS", 1, 0, 0, None)],
        [("SAME", 0, 5, 0, None)],
        [("DISTINCT", -1, 0, 0, (0, 7))],
        [("LOOK_UP", -1, 0, 0, "x")],
        [("KEYS", 0, 0, 0, ["a"])],
        [("EMPTY", -1, 0, 0, ())],
        [("TENSOR", 0, 0, 0, (1, 2, 3, 4, True, (1, 2), (1,)))],
    ],
)
def test_what_is_no_check_is_rejected(instructions):
    """An unknown slot or a wrong operand is an error when the check is created, not a crash when it runs."""
    with pytest.raises((ValueError, TypeError)):
        tools.check(("a",), instructions)


def test_many_values_are_told_apart():
    """Distinct objects pass, and a repeated object is found among many."""
    values = [object() for _ in range(60)]
    names = [f"a{number}" for number in range(60)]
    check = tools.check(names, [("DISTINCT", -1, 0, 0, tuple(range(60)))])
    assert check.holds(tuple(values))
    for number in range(1, 60):
        assert not check.holds((*values[:number], values[0], *values[number + 1 :]))


def test_what_is_looked_at_gets_no_dict_for_it():
    """An unmarked tensor without a ``__dict__`` gets none when it is checked."""
    check = tools.check(("x",), [("UNMARKED", 0, 0, 0, ("mark",))])
    tensors = [torch.ones(1) for _ in range(1000)]
    before = sys.getallocatedblocks()
    assert all(check.holds((each,)) for each in tensors)
    assert sys.getallocatedblocks() - before < 100
    tensors[0].mark = 1
    assert not check.holds((tensors[0],))


def test_nothing_is_kept_alive_and_no_reference_is_lost():
    """Reference counts are equal after many calls; a fast call that refers to itself is collected."""
    value, way = object(), made(plain)
    way.add(tools.check(("a", "b"), [("CLASS", 0, 0, 0, None), ("EQUALS", 1, 0, 0, 2)]), lambda *arguments: None)
    before = sys.getrefcount(value), sys.getrefcount(plain), sys.getrefcount(object)
    for _ in range(100):
        way((value,), {})
        way((value, 3), {})
        way.bind((value,), {"b": value})
    assert (sys.getrefcount(value), sys.getrefcount(plain), sys.getrefcount(object)) == before
    way.add(tools.check(("a", "b"), []), way)
    gone = weakref.ref(way)
    del way
    gc.collect()
    assert gone() is None


def test_tensors_are_recognised_by_all_that_a_graph_relies_on():
    """Another size, stride, dtype, class, gradient, layout or key fails the check; None accepts any size."""
    tensor = torch.ones(2, 3)
    kind, slot, number, address, facts = fast_call.tensor_instruction(tools, 0, tensor)
    check = tools.check(("x",), [(kind, slot, number, address, facts)])
    any_rows = tools.check(("x",), [(kind, slot, number, address, (*facts[:-2], (None, 3), (None, 1)))])
    assert check.holds((torch.zeros(2, 3),)) and any_rows.holds((torch.zeros(7, 3),))
    others = (
        torch.ones(3, 2), torch.ones(2, 3).double(), torch.ones(3, 2).t(), torch.nn.Parameter(tensor), 3, None,
        torch.ones(2, 3, requires_grad=True), torch.ones(2, 3, 1), torch.ones(2, 3).to_sparse(), torch.ones(2, 3).cfloat(),
        torch._neg_view(tensor), torch.empty(2, 3, device="meta"),
    )  # fmt: skip
    assert not any(check.holds((each,)) for each in others)
    with torch.inference_mode():
        assert not check.holds((torch.ones(2, 3),))  # a tensor without autograd's dispatch keys


def test_what_is_looked_up_is_what_the_dict_has_now():
    """A changed value, a removed key and a restored key have an effect at the next call."""
    names = {"k": "one"}
    looks = tools.check((), [("LOOK_UP", -1, 0, 0, (names, "k")), ("IS", 0, 0, id(names["k"]), names["k"])])
    absent = tools.check((), [("ABSENT", -1, 0, 0, (names, "k"))])

    def seen():
        return [(looks.holds(()), absent.holds(())) for _ in range(2)]

    assert seen() == [(True, False)] * 2
    names["k"] = "another"
    assert seen() == [(False, False)] * 2
    names["other"] = names.pop("k")
    assert seen() == [(False, True)] * 2
    names.update(k="one")
    assert seen() == [(True, False)] * 2
    names.clear()
    assert seen() == [(False, True)] * 2


MATMUL = (torch.backends.cuda.matmul, "fp32_precision")
STATES = {
    "grad mode": torch.no_grad,
    "inference mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.float16),
    "autocast's cache": lambda: setting(torch.set_autocast_cache_enabled, torch.is_autocast_cache_enabled()),
    "functions of subclasses": torch._C.DisableTorchFunctionSubclass,
    "all functions": torch._C.DisableTorchFunction,
    "dtype": lambda: setting(torch.set_default_dtype, torch.float32, torch.float64),
    "threads": lambda: setting(torch.set_num_threads, torch.get_num_threads(), torch.get_num_threads() + 1),
    "deterministic": lambda: setting(torch.use_deterministic_algorithms, torch.are_deterministic_algorithms_enabled()),
    "precision": lambda: setting(torch.set_float32_matmul_precision, "highest", "medium"),
    "precision of CUDA alone": lambda: setting(functools.partial(setattr, *MATMUL), getattr(*MATMUL), "tf32"),
    "half": lambda: setting(torch._C._set_cublas_allow_fp16_reduced_precision_reduction, *halves("fp16")),
    "bfloat": lambda: setting(torch._C._set_cublas_allow_bf16_reduced_precision_reduction, *halves("bf16")),
}


@contextlib.contextmanager
def setting(call, before, other=None):
    before = before if isinstance(before, tuple) else (before,)
    call(*(before if other is None else (other if isinstance(other, tuple) else (other,))))
    try:
        if other is None:
            call(not before[0])
        yield
    finally:
        call(*before)


def halves(name):
    before = getattr(torch._C, f"_get_cublas_allow_{name}_reduced_precision_reduction")()
    before = before if isinstance(before, tuple) else (before,)
    return before, (not before[0], *before[1:])


@pytest.mark.parametrize("name", STATES)
def test_the_state_of_the_process_is_seen_as_torchs_object_sees_it(name):
    """The instruction gives the result of torch's own object, before, during and after a change of each field."""
    state = guards.GlobalStateGuard()
    check = tools.check((), [("STATE", -1, 0, 0, state)])
    assert [check.holds(()) for _ in range(3)] == [state.check()] * 3 == [True] * 3
    with STATES[name]():
        assert [check.holds(()) for _ in range(3)] == [state.check()] * 3
        changed = state.check()
    assert [check.holds(()) for _ in range(3)] == [state.check()] * 3 == [True] * 3
    assert not changed
