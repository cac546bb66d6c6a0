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
    """x * x.size()[0] with 10, 20, 30, 40: False 4 graphs, True 1, None 2."""
    calls = ones(10, 20, 30, 40)
    assert [counts(times_size, calls, dynamic=each)[-1] for each in (False, True, None)] == [4, 1, 2]


def test_DR_1_symbol_is_an_input():
    """The symbol is a placeholder before the tensor."""
    compiled = watch(times_size, dynamic=True)
    compiled(torch.ones(10))
    inputs = [each for each in compiled.frames[0].graph.nodes if each.op == "placeholder"]
    assert [each.target for each in inputs] == [compiled.frames[0].symbols[0].name, "L_x_"]


def test_DR_2_rank_is_never_dynamic():
    """Another rank recompiles."""
    assert counts(lambda x: x + 1, ones((3,), (3, 3), (3, 3, 3)), dynamic=True) == [1, 2, 3]


def branches(x):
    if x.shape[0] == 10:
        return x * 10
    if x.shape[0] <= 30:
        return x * 200
    return x * 300


def test_DR_3_specialisation_demo():
    """10, 20, 30, 40, 50: 1, 2, 2, 3, 3 graphs, and the reason is the range."""
    compiled = watch(branches, dynamic=True)
    assert counted(compiled, ones(10, 20, 30, 40, 50)) == [1, 2, 2, 3, 3]
    assert reasons(compiled)[-1][0] == "2 <= x.size()[0] <= 30"


def test_DR_4_settings():
    """automatic_dynamic_shapes off: 3 graphs; assume_static_by_default off: 1."""
    with nbcompile.config.patch(automatic_dynamic_shapes=False):
        assert counts(lambda x: x + 1, ones(3, 4, 5))[-1] == 3
    with nbcompile.config.patch(assume_static_by_default=False):
        assert counts(lambda x: x + 1, ones(3, 4, 5))[-1] == 1


def grown(x):
    return x + 1


def test_DR_6_profile_guided_across_processes(tmp_path, monkeypatch):
    """With a job id the next process knows what was dynamic: 2 graphs, then 1; without: 2.

    What this process learnt is forgotten in between, as a new one knows nothing.
    """
    monkeypatch.setenv("NBCOMPILE_CACHE_DIR", str(tmp_path))
    for job, local, expected in (("a", True, 2), ("a", True, 1), ("", True, 2), ("a", False, 2), ("b", True, 2)):
        monkeypatch.setenv("TORCH_COMPILE_JOB_ID", job)
        with nbcompile.config.patch(automatic_dynamic_local_pgo=local):
            assert counts(grown, ones(3, 4, 5))[-1] == expected


def test_DR_9_constraint_violation():
    """A marked dim that the code specialises: an error that names dim, constant, advice and user line."""
    with pytest.raises(ConstraintViolationError) as caught:
        nbcompile.compile(specialises, backend="eager")(dynamic(5))
    text = str(caught.value)
    assert "You marked L['x'].size()[0] as dynamic but your code specialized it to be a constant (5)" in text
    assert "maybe_mark_dynamic" in text
    assert "return x + 1 if x.shape[0] == 5 else x - 1" in text


def test_DR_9_bad_marks():
    """Marking what is no tensor, or a dim that is not there, is an error."""
    with pytest.raises(AttributeError):
        torch._dynamo.mark_dynamic(3, 0)
    tensor = torch.ones(3)
    torch._dynamo.mark_dynamic(tensor, 2)
    same(nbcompile.compile(lambda x: x + 1, backend="eager")(tensor), tensor + 1)


def test_DR_10_marking_inside():
    """mark_dynamic inside of the compiled function is an error."""

    def f(x):
        torch._dynamo.mark_dynamic(x, 0)
        return x + 1

    with pytest.raises(AssertionError, match="Attempt to trace forbidden callable"):
        nbcompile.compile(f, backend="eager")(x)


def test_DR_11_bounds():
    """min and max of a mark are the guard; beyond them it recompiles."""
    compiled = watch(lambda x: x + 1)
    for size in (4, 8, 9):
        compiled(dynamic(size, min=2, max=8) if size < 9 else torch.ones(size))
    assert "2 <= L['x'].size()[0] <= 8" in guards(compiled, 0)
    assert len(compiled.backend) == 2


def test_DR_12_marking_size_1():
    """A marked dim of size 1: no error, specialised; later sizes recompile."""
    assert counts(lambda x: x + 1, [dynamic(1), dynamic(4), dynamic(7), dynamic(0)]) == [1, 2, 2, 3]


def test_DR_13_maybe_mark_dynamic():
    """The same without the error."""
    maybe = torch._dynamo.maybe_mark_dynamic
    calls = [marked(maybe, 5), marked(maybe, 6), marked(maybe, 7)]
    assert counts(specialises, calls) == [1, 2, 2]
    assert counts(lambda x: x + 1, calls) == [1, 1, 1]


def test_DR_14_mark_unbacked():
    """Sizes 5, 1, 0, 9: one graph; a branch on the size breaks."""
    compiled = watch(lambda x: x + 1)
    assert counted(compiled, [unbacked(size) for size in (5, 1, 0, 9)]) == [1, 1, 1, 1]
    compiled = watch(specialises)
    same(compiled(unbacked(5)), x + 1)
    assert compiled.titles == ["Data-dependent branching"]


def test_DR_15_strict_unbacked():
    """strict=True and a specialisation: a constraint violation."""

    def f(x):
        torch._check(x.shape[0] == 5)
        return x + 1

    with pytest.raises(ConstraintViolationError):
        nbcompile.compile(f, backend="eager")(unbacked(5, strict=True))


def test_DR_16_mark_static():
    """Under dynamic=True a static dim recompiles with each size; it loses to mark_dynamic."""
    calls = [marked(torch._dynamo.mark_static, size) for size in (3, 4, 5)]
    assert counts(lambda x: x + 1, calls, dynamic=True) == [1, 2, 3]
    both = [torch.ones(size) for size in (3, 4, 5)]
    for tensor in both:
        torch._dynamo.mark_static(tensor, 0)
        torch._dynamo.mark_dynamic(tensor, 0)
    assert counts(lambda x: x + 1, both) == [1, 1, 1]


def test_DR_16_mark_static_inside():
    """mark_static may stand inside of the compiled function."""

    def f(x):
        torch._dynamo.mark_static(x, 0)
        return x + 1

    assert counts(f, ones(3, 4, 5), dynamic=True) == [1, 2, 3]


def test_DR_17_marking_after_a_compilation():
    """A mark that was not there recompiles."""
    compiled = watch(lambda x: x + 1)
    compiled(torch.ones(5))
    compiled(dynamic(5))
    assert len(compiled.backend) == 2


def test_DR_18_backed_size_oblivious():
    """backed_size_oblivious: 5, 1, 0 are one graph."""
    with torch.fx.experimental._config.patch(backed_size_oblivious=True):
        assert counts(lambda x: x + 1, ones(5, 1, 0), dynamic=True) == [1, 1, 1]


def test_DR_20_detecting():
    """A dynamic size reads as None in the tensor's guard and as a symbol in the graph."""
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
    """A slice's bound becomes dynamic; scalars that are dynamic are not special at 0 and 1."""
    assert counts(lambda x, n: x[:n], [(x, n) for n in (3, 4, 5)]) == [1, 2, 2]
    assert counts(lambda x, k: x * k, [(x, k) for k in (3, 5, 1, 0)], dynamic=True) == [1, 1, 1, 1]


def test_DR_23_automatic_dynamic_as_unbacked():
    """automatic_dynamic_shapes_mark_as="unbacked": 4, 5, 1, 0, 6 are 2 graphs (4 by default)."""
    calls = ones(4, 5, 1, 0, 6)
    assert counts(lambda x: x + 1, calls)[-1] == 4
    nbcompile.reset()
    with nbcompile.config.patch(automatic_dynamic_shapes_mark_as="unbacked"):
        assert counts(lambda x: x + 1, calls)[-1] == 2


def test_AC_1_profile_guided(tmp_path, monkeypatch):
    """What was learnt lies in a file of text that another machine may use; a file that is damaged is no error."""
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
    """A number is refused where it is marked: it has no dims (it becomes a symbol by itself when it differs)."""
    with pytest.raises(AttributeError, match="'int' object"):
        mark(3, 0)


@pytest.mark.parametrize("dim", [2, -1])
def test_marks_on_dims_that_are_not_there(dim):
    """Torch takes any number; here a mark that means nothing is told of when it is met, and the call is right."""
    tensor = torch.ones(3, 4)
    torch._dynamo.mark_dynamic(tensor, dim)
    with pytest.warns(UserWarning, match=rf"a mark on dim {dim} of L\['x'\] has no effect: its dims are 0 to 1"):
        same(nbcompile.compile(lambda x: x + 1, backend="eager")(tensor), tensor + 1)


def test_a_marked_dim_that_the_program_fixes():
    """The documented error, with the user's line that made a constant of the size; also below a call."""

    def fixes(x):
        return x + torch.ones(3, 4)

    def f(x):
        return fixes(x + 1)

    for mark in (torch._dynamo.mark_dynamic, lambda tensor, dim: mark_unbacked(tensor, dim, strict=True)):
        tensor = torch.ones(3, 4)
        mark(tensor, 0)
        with pytest.raises(ConstraintViolationError, match=r"(?s)L\['x'\]\.size\(\)\[0\].*in f\n.*in fixes\n"):
            nbcompile.compile(f, backend="eager")(tensor)


def test_a_size_outside_of_the_promised_bounds():
    """mark_dynamic(x, 0, min=5) with three: the error names the range and the line."""
    tensor = torch.ones(3)
    torch._dynamo.mark_dynamic(tensor, 0, min=5, max=9)
    with pytest.raises(ConstraintViolationError, match=r"(?s)3 not in range \[5, 9\].*x \+ 1"):
        nbcompile.compile(lambda x: x + 1, backend="eager")(tensor)


@pytest.mark.parametrize("wrong", [{"dynamic": "yes"}, {"recompile_limit": 0}, {"recompile_limit": "8"}])
def test_arguments_that_compile_cannot_have(wrong):
    """Told at once, by name."""
    with pytest.raises(ValueError, match=next(iter(wrong))):
        nbcompile.compile(lambda x: x, **wrong)


def test_the_card_of_an_unbacked_size():
    """The symbol of a dim that is marked unbacked says where it is read, and which line bounded it."""

    def f(x):
        torch._check(x.shape[0] < 10)
        return x + 1

    compiled = watch(f)
    compiled(unbacked(5))
    (card,) = compiled.record.frames[-1].symbols
    assert (card.sources, card.origin, card.hint) == (("L['x'].size()[0]",), "mark_unbacked", "")
    assert any("torch._check" in each.stack[-1].code for each in card.refinements)
