"""Section 20: dynamic shapes, reducing recompilations (DR); section 24 repeats it (AC)."""

import pytest
import torch
from torch._dynamo.decorators import mark_unbacked
from torch.fx.experimental.symbolic_shapes import ConstraintViolationError

import nbcompile
from tests.support.counts import counted, counts, guards, ones, reasons
from tests.support.watched import same, watch

x = torch.ones(5)


def marked(mark, *size, dim=0, **bounds):
    tensor = torch.ones(*size)
    mark(tensor, dim, **bounds)
    return tensor


def dynamic(*size, **more):
    return marked(torch._dynamo.mark_dynamic, *size, **more)


def unbacked(*size, **more):
    return marked(mark_unbacked, *size, **more)


def times_size(x):
    return x * x.size()[0]


def specialises(x):
    return x + 1 if x.shape[0] == 5 else x - 1


def test_DR_1_three_policies():
    """x * x.size()[0] with 10, 20, 30, 40 gives 4 graphs for False, 1 for True, 2 for None."""
    calls = ones(10, 20, 30, 40)
    assert [counts(times_size, calls, dynamic=each)[-1] for each in (False, True, None)] == [4, 1, 2]


def test_DR_1_symbol_is_an_input():
    """The symbol is a placeholder before the tensor."""
    compiled = watch(times_size, dynamic=True)
    compiled(torch.ones(10))
    inputs = [each for each in compiled.frames[0].graph.nodes if each.op == "placeholder"]
    assert [each.target for each in inputs] == [compiled.frames[0].symbols[0].name, "L_x_"]


def test_DR_2_rank_is_never_dynamic():
    """Another rank causes a recompile."""
    assert counts(lambda x: x + 1, ones((3,), (3, 3), (3, 3, 3)), dynamic=True) == [1, 2, 3]


def branches(x):
    if x.shape[0] == 10:
        return x * 10
    if x.shape[0] <= 30:
        return x * 200
    return x * 300


def test_DR_3_specialisation_demo():
    """10, 20, 30, 40, 50 give 1, 2, 2, 3, 3 graphs, and the reason is the range."""
    compiled = watch(branches, dynamic=True)
    assert counted(compiled, ones(10, 20, 30, 40, 50)) == [1, 2, 2, 3, 3]
    assert reasons(compiled)[-1][0] == "2 <= x.size()[0] <= 30"


def test_DR_4_settings():
    """Three sizes give 3 graphs without automatic_dynamic_shapes, and 1 without assume_static_by_default."""
    with nbcompile.config.patch(automatic_dynamic_shapes=False):
        assert counts(lambda x: x + 1, ones(3, 4, 5))[-1] == 3
    with nbcompile.config.patch(assume_static_by_default=False):
        assert counts(lambda x: x + 1, ones(3, 4, 5))[-1] == 1


def grown(x):
    return x + 1


def test_DR_6_profile_guided_across_processes(tmp_path, monkeypatch):
    """With a job id the next process uses the recorded dynamic sizes: 2 graphs, then 1; without it: 2.

    The values that this process recorded are removed in between, because a new process has none.
    """
    monkeypatch.setenv("NBCOMPILE_CACHE_DIR", str(tmp_path))
    for job, local, expected in (("a", True, 2), ("a", True, 1), ("", True, 2), ("a", False, 2), ("b", True, 2)):
        monkeypatch.setenv("TORCH_COMPILE_JOB_ID", job)
        with nbcompile.config.patch(automatic_dynamic_local_pgo=local):
            assert counts(grown, ones(3, 4, 5))[-1] == expected


def test_DR_9_constraint_violation():
    """A marked dimension that the code specializes is an error with dimension, constant, advice and the user's line."""
    with pytest.raises(ConstraintViolationError) as caught:
        nbcompile.compile(specialises, backend="eager")(dynamic(5))
    text = str(caught.value)
    assert "You marked L['x'].size()[0] as dynamic but your code specialized it to be a constant (5)" in text
    assert "maybe_mark_dynamic" in text
    assert "return x + 1 if x.shape[0] == 5 else x - 1" in text


def test_DR_9_bad_marks():
    """A mark on a value that is not a tensor is an error; a mark on a missing dimension has no effect."""
    with pytest.raises(AttributeError):
        torch._dynamo.mark_dynamic(3, 0)
    tensor = torch.ones(3)
    torch._dynamo.mark_dynamic(tensor, 2)
    same(nbcompile.compile(lambda x: x + 1, backend="eager")(tensor), tensor + 1)


def test_DR_10_marking_inside():
    """mark_dynamic inside the compiled function is an error."""

    def f(x):
        torch._dynamo.mark_dynamic(x, 0)
        return x + 1

    with pytest.raises(AssertionError, match="Attempt to trace forbidden callable"):
        nbcompile.compile(f, backend="eager")(x)


def test_DR_11_bounds():
    """The guard has min and max of the mark; a size outside causes a recompile."""
    compiled = watch(lambda x: x + 1)
    for size in (4, 8, 9):
        compiled(dynamic(size, min=2, max=8) if size < 9 else torch.ones(size))
    assert "2 <= L['x'].size()[0] <= 8" in guards(compiled, 0)
    assert len(compiled.backend) == 2


def test_DR_12_marking_size_1():
    """A marked dimension of size 1 is specialized without an error; later sizes recompile."""
    assert counts(lambda x: x + 1, [dynamic(1), dynamic(4), dynamic(7), dynamic(0)]) == [1, 2, 2, 3]


def test_DR_13_maybe_mark_dynamic():
    """maybe_mark_dynamic has the effect of mark_dynamic without the error."""
    maybe = torch._dynamo.maybe_mark_dynamic
    calls = [marked(maybe, 5), marked(maybe, 6), marked(maybe, 7)]
    assert counts(specialises, calls) == [1, 2, 2]
    assert counts(lambda x: x + 1, calls) == [1, 1, 1]


def test_DR_14_mark_unbacked():
    """Sizes 5, 1, 0, 9 share one graph; a branch on the size breaks the graph."""
    compiled = watch(lambda x: x + 1)
    assert counted(compiled, [unbacked(size) for size in (5, 1, 0, 9)]) == [1, 1, 1, 1]
    compiled = watch(specialises)
    same(compiled(unbacked(5)), x + 1)
    assert compiled.titles == ["Data-dependent branching"]


def test_DR_15_strict_unbacked():
    """strict=True with a specialization is a constraint violation."""

    def f(x):
        torch._check(x.shape[0] == 5)
        return x + 1

    with pytest.raises(ConstraintViolationError):
        nbcompile.compile(f, backend="eager")(unbacked(5, strict=True))


def test_DR_16_mark_static():
    """Under dynamic=True a static dimension recompiles for each size; mark_dynamic takes precedence."""
    calls = [marked(torch._dynamo.mark_static, size) for size in (3, 4, 5)]
    assert counts(lambda x: x + 1, calls, dynamic=True) == [1, 2, 3]
    both = [torch.ones(size) for size in (3, 4, 5)]
    for tensor in both:
        torch._dynamo.mark_static(tensor, 0)
        torch._dynamo.mark_dynamic(tensor, 0)
    assert counts(lambda x: x + 1, both) == [1, 1, 1]


def test_DR_16_mark_static_inside():
    """mark_static is allowed inside the compiled function."""

    def f(x):
        torch._dynamo.mark_static(x, 0)
        return x + 1

    assert counts(f, ones(3, 4, 5), dynamic=True) == [1, 2, 3]


def test_DR_17_marking_after_a_compilation():
    """A new mark causes a recompile."""
    compiled = watch(lambda x: x + 1)
    compiled(torch.ones(5))
    compiled(dynamic(5))
    assert len(compiled.backend) == 2


def test_DR_18_backed_size_oblivious():
    """With backed_size_oblivious, sizes 5, 1, 0 share one graph."""
    with torch.fx.experimental._config.patch(backed_size_oblivious=True):
        assert counts(lambda x: x + 1, ones(5, 1, 0), dynamic=True) == [1, 1, 1]


def test_DR_20_detecting():
    """A dynamic size is None in the tensor's guard and a symbol in the graph."""
    compiled = watch(lambda x: x + 1, dynamic=True)
    compiled(torch.ones(4, 5))
    assert any("size=[None, None]" in each for each in guards(compiled))
    (add,) = [each for each in compiled.frames[0].graph.nodes if each.op == "call_function"]
    assert [each.name for each in compiled.frames[0].symbols] == list(add.shape)


def test_DR_21_parameters_stay_static():
    """Parameters are static under dynamic=True."""
    compiled = watch(torch.nn.Linear(3, 4), dynamic=True)
    compiled(torch.ones(2, 3))
    assert any("'weight'" in each and "size=[4, 3]" in each for each in guards(compiled))
    assert nbcompile.config.force_parameter_static_shapes
    assert nbcompile.config.force_nn_module_property_static_shapes
    assert not nbcompile.config.allow_unspec_int_on_nn_module


def test_DR_22_slices_and_scalars():
    """The bound of a slice becomes dynamic; dynamic scalars are not specialized for 0 and 1."""
    assert counts(lambda x, n: x[:n], [(x, n) for n in (3, 4, 5)]) == [1, 2, 2]
    assert counts(lambda x, k: x * k, [(x, k) for k in (3, 5, 1, 0)], dynamic=True) == [1, 1, 1, 1]


def test_DR_23_automatic_dynamic_as_unbacked():
    """automatic_dynamic_shapes_mark_as="unbacked" gives 2 graphs for 4, 5, 1, 0, 6, instead of 4."""
    calls = ones(4, 5, 1, 0, 6)
    assert counts(lambda x: x + 1, calls)[-1] == 4
    nbcompile.reset()
    with nbcompile.config.patch(automatic_dynamic_shapes_mark_as="unbacked"):
        assert counts(lambda x: x + 1, calls)[-1] == 2


def test_AC_1_profile_guided(tmp_path, monkeypatch):
    """The profile is a text file that another machine may use; a damaged file causes no error."""
    monkeypatch.setenv("NBCOMPILE_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TORCH_COMPILE_JOB_ID", "1")
    counts(grown, ones(3, 4))
    (kept,) = tmp_path.rglob("code_state_1*")
    text = kept.read_text()
    assert __file__ in text and "L['x']" in text and "?" in text
    kept.write_text("{")
    assert counts(grown, ones(3, 4, 5))[-1] == 2


@pytest.mark.parametrize("mark", [torch._dynamo.mark_dynamic, torch._dynamo.maybe_mark_dynamic, mark_unbacked])
def test_marks_on_what_is_no_tensor(mark):
    """A mark on a number is an error, because it has no dimensions; a number that differs becomes a symbol anyway."""
    with pytest.raises(AttributeError, match="'int' object"):
        mark(3, 0)


@pytest.mark.parametrize("dim", [2, -1])
def test_marks_on_dims_that_are_not_there(dim):
    """Torch accepts any dimension; nbcompile warns about a mark without effect, and the result is right."""
    tensor = torch.ones(3, 4)
    torch._dynamo.mark_dynamic(tensor, dim)
    with pytest.warns(UserWarning, match=rf"a mark on dim {dim} of L\['x'\] has no effect: its dims are 0 to 1"):
        same(nbcompile.compile(lambda x: x + 1, backend="eager")(tensor), tensor + 1)


def test_a_marked_dim_that_the_program_fixes():
    """The documented error has the user's line that made the size a constant, also in an inlined function."""

    def fixes(x):
        return x + torch.ones(3, 4)

    def f(x):
        return fixes(x + 1)

    for mark in (torch._dynamo.mark_dynamic, lambda tensor, dim: mark_unbacked(tensor, dim, strict=True)):
        tensor = torch.ones(3, 4)
        mark(tensor, 0)
        with pytest.raises(ConstraintViolationError, match=r"(?s)L\['x'\]\.size\(\)\[0\].*in f\n.*in fixes\n"):
            nbcompile.compile(f, backend="eager")(tensor)


def test_a_size_outside_of_the_declared_bounds():
    """mark_dynamic(x, 0, min=5) with size three is an error with the range and the line."""
    tensor = torch.ones(3)
    torch._dynamo.mark_dynamic(tensor, 0, min=5, max=9)
    with pytest.raises(ConstraintViolationError, match=r"(?s)3 not in range \[5, 9\].*x \+ 1"):
        nbcompile.compile(lambda x: x + 1, backend="eager")(tensor)


@pytest.mark.parametrize("wrong", [{"dynamic": "yes"}, {"recompile_limit": 0}, {"recompile_limit": "8"}])
def test_arguments_that_compile_cannot_have(wrong):
    """compile raises an error that names the argument."""
    with pytest.raises(ValueError, match=next(iter(wrong))):
        nbcompile.compile(lambda x: x, **wrong)


def test_the_card_of_an_unbacked_size():
    """The symbol of a dimension that is marked unbacked has its source, and the line that bounded it."""

    def f(x):
        torch._check(x.shape[0] < 10)
        return x + 1

    compiled = watch(f)
    compiled(unbacked(5))
    (card,) = compiled.record.frames[-1].symbols
    assert (card.sources, card.origin, card.hint) == (("L['x'].size()[0]",), "mark_unbacked", "")
    assert any("torch._check" in each.stack[-1].code for each in card.refinements)
