"""Section 16: recompilation (RC)."""

import enum
import warnings

import pytest
import torch

import nbcompile
from tests.support.counts import counted, counts, guards, ones, reasons
from tests.support.watched import watch

GB = torch._dynamo.graph_break
x = torch.ones(3)
KK = 1


def helper(x):
    return x + 1


def with_default(x, k=1):
    return x * k


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.c = 0

    def forward(self, x):
        self.c += 1
        return x * self.c


class Plain:
    c = 0


def test_RC_1_a_resume_function_has_its_reason():
    """Resume functions have reasons of recompiles, too, under their own name."""

    def f(x, c):
        y = x + 1
        GB()
        return y + c

    compiled = watch(f, dynamic=False)
    for c in (1, 2):
        compiled(x, c)
    again = [each for each in compiled.record.frames if each.failed_guards]
    assert [each.function.rpartition("_")[0] for each in again] == ["torch_dynamo_resume_in_f_at"]


def test_RC_2_automatic_dynamic():
    """(3,), then (4,) is one recompile, and (5,) none; dynamic=True has none, and dynamic=False one for each size."""
    assert counts(lambda x: x + 1, ones(3, 4, 5)) == [1, 2, 2]
    assert counts(lambda x: x + 1, ones(3, 4, 5), dynamic=True) == [1, 1, 1]
    assert counts(lambda x: x + 1, ones(3, 4, 5), dynamic=False) == [1, 2, 3]


def test_RC_3_numbers_become_dynamic():
    """The second distinct value of an int or float argument makes it dynamic (torch 2.13, unlike its docs)."""
    compiled = watch(lambda x, k: x * k)
    assert counted(compiled, [(x, 0.5 + k) for k in range(5)]) == [1, 2, 2, 2, 2]
    assert "L['k'] == 0.5" in guards(compiled, 0)
    assert any("isnan(L['k'])" in each for each in guards(compiled))
    assert counts(lambda x, k: x * k, [(x, k) for k in (3, 4, 5, 6)]) == [1, 2, 2, 2]


def test_RC_4_specialize_float_and_dynamic_false():
    """specialize_float gives a graph for each float, and dynamic=False one for each int."""
    with nbcompile.config.patch(specialize_float=True):
        assert counts(lambda x, k: x * k, [(x, k) for k in (0.5, 1.5, 2.5)]) == [1, 2, 3]
    assert counts(lambda x, k: x * k, [(x, k) for k in (3, 4, 5)], dynamic=False) == [1, 2, 3]


def test_RC_5_a_global_int_stays_static():
    """A global int is never dynamic: each value needs a graph, and the guard has the value."""
    global KK

    def f(x):
        return x * KK

    compiled = watch(f)
    for KK in (1, 2, 3):
        compiled(x)
    assert len(compiled.backend) == 3
    assert reasons(compiled) == [["G['KK'] == 1"], ["G['KK'] == 2", "G['KK'] == 1"]]


def test_RC_5_other_constants_stay_static():
    """bool, str, None, enum and dtype arguments are static, each with its reason."""
    E = enum.Enum("E", "A B")

    def f(x, k):
        return x + 1 if k is None else x + 2

    def reason(first, second):
        nbcompile.reset()
        compiled = watch(lambda x, k: x + 1 if k in (None, True, "a", E.A, torch.float32) else x + 2)
        compiled(x, first)
        compiled(x, second)
        return reasons(compiled)[0][0]

    assert reason(True, False) == "k == True"
    assert reason("a", "b") == "k == 'a'"
    assert reason(torch.float64, torch.float32) == "k == torch.float64"
    assert reason(E.A, E.B).startswith("___check_obj_id(k, ..)")


def test_RC_6_a_scalar_in_a_tensor():
    """A scalar in a tensor has no guard on its value: only the sizes 0, 1 and the dynamic one need graphs."""
    calls = [(torch.ones(i), torch.tensor(float(i))) for i in range(5)]
    assert counts(lambda x, k: x * k, calls)[-1] == 3


def test_RC_7_learning_rate():
    """A learning rate that a scheduler changes compiles the step at most twice, or once if it is a tensor."""
    for rate, most in ((0.01, 2), (torch.tensor(0.01), 1)):
        weight = torch.nn.Parameter(torch.ones(2))
        group = {"lr": rate}

        def step():
            with torch.no_grad():
                weight.sub_(weight * group["lr"])

        compiled = watch(step)
        for _ in range(5):
            compiled()
            if isinstance(rate, torch.Tensor):
                rate.mul_(0.5)
            else:
                group["lr"] *= 0.5
        assert len(compiled.backend) == most
        if most == 2:
            assert reasons(compiled)[0][0].endswith("['lr'] == 0.01")


def test_RC_8_int_attribute_of_a_module():
    """An int attribute of a module is static, so each change recompiles; its reason has advice."""
    compiled = watch(Counter())
    assert [(compiled(x), len(compiled.backend))[1] for _ in range(5)] == [1, 2, 3, 4, 5]
    failed = compiled.record.frames[1].failed_guards[0]
    assert failed.reason.startswith("self.c == 0")
    assert "allow_unspec_int_on_nn_module" in failed.advice.text
    assert failed.advice.verified


def test_RC_8_with_the_setting_it_becomes_dynamic():
    """allow_unspec_int_on_nn_module gives two graphs, and so does an attribute of a plain object without it."""
    with nbcompile.config.patch(allow_unspec_int_on_nn_module=True):
        compiled = watch(Counter())
        assert [(compiled(x), len(compiled.backend))[1] for _ in range(5)] == [1, 2, 2, 2, 2]
    held = Plain()
    held.c = 0

    def f(x):
        held.c += 1
        return x * held.c

    compiled = watch(f)
    assert [(compiled(x), len(compiled.backend))[1] for _ in range(5)] == [1, 2, 2, 2, 2]


def test_RC_9_limits():
    """recompile_limit is 8, accumulated_recompile_limit 256; the old names have the same meaning."""
    assert (nbcompile.config.recompile_limit, nbcompile.config.accumulated_recompile_limit) == (8, 256)
    with nbcompile.config.patch(cache_size_limit=2):
        assert nbcompile.config.recompile_limit == 2
        with pytest.warns(nbcompile.exc.RecompileLimitWarning):
            assert counts(lambda x: x + 1, ones(3, 4, 5, 6), dynamic=False) == [1, 2, 2, 2]
    with nbcompile.config.patch(accumulated_cache_size_limit=3):
        assert nbcompile.config.accumulated_recompile_limit == 3


def test_RC_10_the_warning():
    """The 9th size runs in eager mode; the warning has the function, its position and the last reason."""

    def fn(x):
        return x + 1

    with pytest.warns(nbcompile.exc.RecompileLimitWarning) as caught:
        assert counts(fn, ones(*range(1, 10)), dynamic=False)[-2:] == [8, 8]
    lines = str(caught[0].message).split("\n")
    assert lines[0] == "torch._dynamo hit config.recompile_limit (8)"
    assert lines[1] == f"   function: 'fn' ({__file__}:{fn.__code__.co_firstlineno})"
    assert lines[2] == "   last reason: 0/7: tensor 'x' size mismatch at index 0. expected 8, actual 9"


def test_RC_11_after_the_limit():
    """Entries are still used after the limit, and nothing is compiled, not even called functions."""

    def f(x):
        y = x + 1
        GB()
        return y * 2

    compiled = watch(lambda x: x + 1, dynamic=False)
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        counted(compiled, ones(*range(1, 10)))
        before = len(compiled.record.frames)
        counted(compiled, ones(5, 11, 12))
    assert len(compiled.backend) == 8
    assert all(each.status != "compiled" for each in compiled.record.frames[before:])


def test_RC_12_raising_the_limit():
    """With a limit of 16, 12 sizes give 12 graphs; the warning names the accumulated limit if it is reached."""
    with nbcompile.config.patch(recompile_limit=16):
        assert counts(lambda x: x + 1, ones(*range(1, 13)), dynamic=False)[-1] == 12
    with (
        nbcompile.config.patch(accumulated_recompile_limit=3),
        pytest.warns(nbcompile.exc.RecompileLimitWarning, match=r"accumulated_recompile_limit \(3\)"),
    ):
        counts(lambda x: x + 1, ones(*range(1, 6)), dynamic=False)


def test_RC_13_hard_failures():
    """fail_on_recompile_limit_hit and fullgraph raise an error at the limit, error_on_recompile at any recompile."""
    with nbcompile.config.patch(fail_on_recompile_limit_hit=True, recompile_limit=1):
        compiled = nbcompile.compile(lambda x: x + 1, backend="eager", dynamic=False)
        compiled(x)
        with pytest.raises(nbcompile.exc.FailOnRecompileLimitHit):
            compiled(torch.ones(4))
    with nbcompile.config.patch(recompile_limit=1):
        compiled = nbcompile.compile(lambda x: x + 1, backend="eager", dynamic=False, fullgraph=True)
        compiled(x)
        with pytest.raises(nbcompile.exc.FailOnRecompileLimitHit, match="fullgraph=True"):
            compiled(torch.ones(4))
    with nbcompile.config.patch(error_on_recompile=True):
        compiled = nbcompile.compile(lambda x: x + 1, backend="eager")
        compiled(x)
        with pytest.raises(nbcompile.exc.RecompileError, match="size mismatch at index 0. expected 3, actual 4"):
            compiled(torch.ones(4))


def test_RC_14_limits_of_one_compile_call():
    """compile(recompile_limit=n) overrides the setting; with isolate_recompiles each wrapper counts separately."""
    with pytest.warns(nbcompile.exc.RecompileLimitWarning):
        assert counts(lambda x: x + 1, ones(1, 2, 3, 4), dynamic=False, recompile_limit=2)[-1] == 2

    def f(x):
        return x + 1

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            watched = watch(f, dynamic=False, isolate_recompiles=True)
            assert counted(watched, ones(*range(1, 7)))[-1] == 6


def test_RC_15_breaking_to_cut_the_cost():
    """After a graph break, only the resume function recompiles."""

    def big(x):
        return x + 100

    def whole(x, c):
        return big(x) + c

    def broken(x, c):
        y = big(x)
        GB()
        return y + c

    calls = [(x, c) for c in range(4)]
    compiled = watch(whole, dynamic=False)
    counted(compiled, calls)
    assert compiled.graphs == ["add add"] * 4
    compiled = watch(broken, dynamic=False)
    counted(compiled, calls)
    assert compiled.graphs == ["add"] * 5


def rejected(function, first, second, between=None, **options):
    """The reason of the only recompile."""
    nbcompile.reset()
    compiled = watch(function, **options)
    compiled(*first)
    if between is not None:
        between()
    compiled(*second)
    ((reason,),) = reasons(compiled)
    return reason


def test_RC_16_reasons_of_tensors():
    """dtype, rank, requires_grad, stride, duplicates and values that are not tensors have torch's texts."""
    one = lambda x: x + 1
    assert rejected(one, [x], [x.double()]) == "tensor 'x' dtype mismatch. expected Float, actual Double"
    assert rejected(one, [torch.ones(2, 2)], [x]) == "tensor 'x' rank mismatch. expected 2, actual 1"
    assert rejected(one, [x], [torch.ones(3, requires_grad=True)]) == (
        "tensor 'x' requires_grad mismatch. expected requires_grad=0"
    )
    wide = torch.ones(3, 3)
    assert rejected(one, [wide.t().contiguous().t()], [wide]) == (
        "tensor 'x' stride mismatch at index 0. expected 1, actual 3"
    )
    two = lambda x, y: x + y
    reason = rejected(two, [x, x + 1], [x, x])
    assert reason in ('Duplicate tensors found: ["x", "y"]', "Duplicate tensors found: ['x', 'y']")
    expected = ("expected type of 'x' to be a tensor type,", "expected type of 'x' to be <class 'torch.Tensor'>,")
    assert rejected(one, [x], [3.5]).startswith(expected)  # the second text: from torch 2.15 on


def test_RC_16_reasons_of_the_process():
    """The reason names the state that changed, also several changes at once."""
    one = lambda x: x + 1
    compiled = watch(one)
    compiled(x)
    with torch.no_grad():
        compiled(x)
    with torch.autocast("cpu"):
        compiled(x)
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad():
            compiled(x)
    finally:
        torch.set_default_dtype(torch.float32)
    found = [each[-1] for each in reasons(compiled)]
    assert found[0] == "GLOBAL_STATE changed: grad_mode "
    assert "autocast" in found[1]
    assert "grad_mode" in found[2] and "default_dtype" in found[2]


def test_RC_16_reasons_of_values():
    """Reasons for lengths, types, code of functions, defaults and cells."""
    assert rejected(lambda xs: xs[0] + len(xs), [[x]], [[x, x + 1]]) == "len(xs) == 1"
    assert rejected(lambda xs: xs[0] + 1, [[x]], [(x,)]).startswith("___check_type_id(xs, ..), type=<class 'list'>")

    def redefine():
        globals()["helper"] = lambda x: x - 1

    original = helper
    try:
        reason = rejected(lambda x: helper(x), [x], [x], redefine)
    finally:
        globals()["helper"] = original
    assert reason.startswith("___check_obj_id(G['helper'].__code__, ..)")
    n = 1

    def change():
        nonlocal n
        n = 2

    assert rejected(lambda x: x * n, [x], [x], change) == "n == 1"

    def new_default():
        with_default.__defaults__ = (2,)

    try:
        reason = rejected(lambda x: with_default(x), [x], [x], new_default)
    finally:
        with_default.__defaults__ = (1,)
    assert reason == "G['with_default'].__defaults__[0] == 1"


def test_RC_16_reasons_of_symbols():
    """Reasons for ranges of symbols, with a note about 0 and 1, and for marks."""
    compiled = watch(lambda x: x + 1, dynamic=True)
    counted(compiled, ones(4, 1))
    failed = compiled.record.frames[1].failed_guards[0]
    assert failed.reason == "2 <= x.size()[0]"
    assert "0/1" in failed.note
    marked = torch.ones(3)
    torch._dynamo.mark_dynamic(marked, 0)
    assert "_dynamo" in rejected(lambda x: x + 1, [x], [marked])


def test_RC_17_reason_of_a_value_has_its_line():
    """A reason that does not concern a tensor has the user's line."""
    compiled = watch(lambda x, b: x + 1 if b else x - 1)
    compiled(x, True)
    compiled(x, False)
    assert compiled.record.frames[1].failed_guards[0].stack[-1].line > 0
    assert "x + 1 if b else x - 1" in compiled.record.frames[1].failed_guards[0].stack[-1].code


def test_RC_18_a_dict_is_guarded_on_the_keys_read():
    """Another key causes no recompile."""
    assert counts(lambda d: d["a"] + 1, [{"a": x}, {"a": x, "b": 3}, {"c": 1, "a": x}]) == [1, 1, 1]


def test_RC_19_all_failing_guards():
    """With recompiles_verbose, every failing guard of each entry is in the reason."""
    compiled = watch(lambda x, y, k: x + y if k else x - y, dynamic=False)
    compiled(x, x + 1, True)
    with nbcompile.config.patch(recompiles_verbose=True):
        compiled(torch.ones(4), torch.ones(4), False)
    failed = compiled.record.frames[1].failed_guards[0]
    told = " ".join((failed.reason, *failed.others))
    assert len(failed.others) == 2
    assert all(each in told for each in ("check_tensor(y", "k == True")) and "x" in told


def test_RC_20_reasons_of_every_entry():
    """Entries of another backend have a reason, too."""

    def f(x):
        return x + 1

    one, other = watch(f), watch(f)
    one(x)
    other(x)
    other(torch.ones(4))
    assert [each.startswith("BACKEND_MATCH") for each in reasons(other)[0]] == [True]
    assert len(reasons(other)[1]) == 2
