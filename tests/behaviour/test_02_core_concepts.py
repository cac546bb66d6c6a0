"""Section 2: core concepts (CC)."""

import os
import tempfile

import pytest
import torch

import nbcompile
from tests.support.counts import counts, guards, kinds, ones, reasons
from tests.support.watched import same, watch

x = torch.ones(3)
G = torch.full((3,), 2.0)
grown = []
total = 0


def test_CC_1_one_graph():
    """A function with only tensor operators gives one graph, a residual program and a set of guards."""

    def f(x):
        return torch.sin(x) + x

    compiled = watch(f)
    same(compiled(x), f(x))
    assert compiled.graphs == ["sin add"]
    assert compiled.frames[0].residual and compiled.frames[0].guards


def test_CC_2_calls_are_inlined():
    """Nested calls are inlined; each node has the user's line in the inner function."""

    def h(x):
        return x * 2

    def f(x):
        return h(x) + 1

    compiled = watch(f)
    same(compiled(x), f(x))
    assert compiled.graphs == ["mul add"]
    mul = next(each for each in compiled.frames[0].graph.nodes if each.target.endswith("mul"))
    assert [line.code for line in mul.stack] == ["return h(x) + 1", "return x * 2"]


def test_CC_3_global_tensor_is_an_input():
    """A global tensor is an input of the graph, named from its source."""
    compiled = watch(lambda x: x + G)
    same(compiled(x), x + G)
    assert [each.target for each in compiled.frames[0].graph.nodes if each.op == "placeholder"] == ["L_x_", "G_G_"]


def test_CC_4_parameter_is_an_input():
    """A parameter is an input, before the user's arguments that come later in the source."""
    m = torch.nn.Linear(3, 3)

    def f(m, x):
        return torch.nn.functional.linear(x, m.weight) if m.weight.shape[0] else x

    def g(m, x):
        return m.weight + x

    compiled = watch(g)
    same(compiled(m, x), g(m, x))
    inputs = [each.target for each in compiled.frames[0].graph.nodes if each.op == "placeholder"]
    assert inputs == ["L_m_parameters_weight_", "L_x_"]


def test_CC_5_side_effects_are_replayed():
    """A side effect on an outer object is not in the graph; it is replayed in every call."""
    grown.clear()

    def f(x):
        grown.append(x.shape[0])
        return x + 1

    compiled = watch(f)
    compiled(x)
    compiled(x)
    assert grown == [3, 3]
    assert set(compiled.graphs) == {"add"}


def test_CC_6_a_growing_list_recompiles():
    """The length of a list that is appended to is guarded: each call recompiles, until the limit."""
    grown.clear()

    def f(x):
        grown.append(x.shape[0])
        return x + 1

    compiled = watch(f)
    found = []
    with pytest.warns(nbcompile.exc.RecompileLimitWarning, match=r"len\(G\['grown'\]\) == 7|len\(grown\) == 7"):
        for _ in range(12):
            compiled(x)
            found.append(len(compiled.backend))
    assert found == [1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 8, 8]
    assert len(grown) == 12
    assert reasons(compiled)[0] == ["not G['grown']"]


def test_CC_7_kinds_of_replayed_effects():
    """Cells, globals, attributes, dict items and in-place operators are each one graph under fullgraph."""

    class Holder:
        pass

    holder, table, n = Holder(), {}, 0

    def cell(x):
        nonlocal n
        n = n + 1
        return x + 1

    def global_(x):
        global total
        total = 7
        return x + 1

    def attribute(x):
        holder.y = x + 1
        return x + 1

    def item(x):
        table["k"] = x + 1
        return x + 1

    def in_place(x):
        return x.add_(1)

    for function in (cell, global_, attribute, item, in_place):
        compiled = watch(function, fullgraph=True)
        same(compiled(x.clone()), x + 1)
        assert len(compiled.backend) == 1
    assert (n, total) == (1, 7)
    same((holder.y, table["k"]), (x + 1, x + 1))
    assert compiled.graphs == ["add_"]


def test_CC_8_side_effects_are_told():
    """The record of a replayed mutation has its target and the user's stack."""

    def f(x, xs):
        xs.append(1)
        return x + 1

    compiled = watch(f)
    compiled(x, [])
    (mutation,) = compiled.frames[0].mutations
    assert "L['xs']" in mutation.target or mutation.target == "xs"
    assert mutation.stack[-1].code == "xs.append(1)"


def test_CC_8_policy():
    """side_effect_replay_policy "warn" gives a UserWarning that names the sources, and "error" an exception."""

    def f(x, xs):
        xs.append(1)
        return x + 1

    for policy, outcome in (("warn", pytest.warns(UserWarning, match="xs")), ("error", pytest.raises(RuntimeError))):
        with nbcompile.config.patch(side_effect_replay_policy=policy), outcome:
            watch(f)(x, [])
        nbcompile.reset()


def test_CC_9_static_by_default():
    """The graph is specialized for the sizes of the inputs by default."""
    compiled = watch(lambda x: x + 1)
    compiled(x)
    assert "size=[3], stride=[1]" in " ".join(guards(compiled))


def saved(x, path):
    y = x**2 / 2
    torch.save(y, path)
    z = y**3 / 6
    return z


def test_CC_10_graph_break():
    """The traced part is compiled, the unsupported call runs in Python, and tracing resumes in a new graph."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "y")
        compiled = watch(saved)
        for _ in range(2):
            same(compiled(x, path), (x**2 / 2) ** 3 / 6)
            assert os.path.exists(path)
            os.remove(path)
    assert compiled.graphs == ["pow truediv", "pow truediv"]


def test_CC_11_reason_of_the_break():
    """The report of a graph break has a title, an explanation, a context and an id."""
    with tempfile.TemporaryDirectory() as folder:
        compiled = watch(saved)
        compiled(x, os.path.join(folder, "y"))
    (met,) = compiled.breaks
    assert (met.title, met.gb_id) == ("Attempted to call function marked as skipped", "GB0007")
    assert "module: torch.serialization, qualname: save" in met.context
    assert "save" in met.explanation


def test_CC_12_second_call_adds_nothing():
    """The second call compiles nothing and reports nothing."""
    with tempfile.TemporaryDirectory() as folder:
        compiled = watch(saved)
        compiled(x, os.path.join(folder, "y"))
        before = len(compiled.record.frames)
        compiled(x, os.path.join(folder, "y"))
    assert len(compiled.record.frames) == before and len(compiled.backend) == 2


def test_CC_13_sources_of_breaks():
    """Data-dependent branches, builtins and C functions break the graph."""

    def f(x):
        if x.sum() > 0:
            x = x + 1
        os.getpid()
        return x + 2

    compiled = watch(f)
    same(compiled(x), f(x))
    assert compiled.titles == ["Data-dependent branching", "Attempted to call function marked as skipped"]


def test_CC_14_resume_function_gets_what_is_still_needed():
    """The resume function receives only the live values."""
    with tempfile.TemporaryDirectory() as folder:
        compiled = watch(saved)
        compiled(x, os.path.join(folder, "y"))
    (resume,) = compiled.frames[0].resume_functions
    assert [each.name for each in resume.carried] == ["y"]


def test_CC_15_guards_know_their_source_and_line():
    """Each guard has its source and the line of the user that needed it."""

    def f(x, k):
        return x + k

    compiled = watch(f)
    compiled(x, 3)
    about_k = [each for each in compiled.frames[0].guards if each.source == "L['k']"]
    assert [each.condition for each in about_k] == ["L['k'] == 3"]
    assert about_k[0].stack[-1].code == "return x + k"


def test_CC_16_ambient_guards():
    """The state of the process is always guarded."""
    compiled = watch(lambda x: x + 1)
    compiled(x)
    assert {"AUTOGRAD_SAVED_TENSORS_HOOKS", "GLOBAL_STATE", "TORCH_FUNCTION_MODE_STACK", "DEFAULT_DEVICE"} <= set(
        kinds(compiled)
    )


def test_CC_17_text_of_a_tensor_guard():
    """check_tensor has class, dispatch keys, dtype, device, requires_grad, sizes, strides; None is symbolic."""
    compiled = watch(lambda x: x + 1)
    compiled(torch.ones(3, 3))
    compiled(torch.ones(4, 4))
    first, second = (
        next(text for text in guards(compiled, index) if text.startswith("check_tensor")) for index in (0, 1)
    )
    assert first.startswith("check_tensor(L['x'], Tensor, DispatchKeySet(")
    assert "torch.float32, device=None, requires_grad=False, size=[3, 3], stride=[3, 1])" in first
    assert "size=[None, None], stride=[None, 1])" in second


def test_CC_18_marks_are_guarded():
    """A guard checks that a dimension has no new mark, for each of the five marks."""
    compiled = watch(lambda x: x + 1)
    compiled(x)
    text = next(text for text in guards(compiled) if "hasattr" in text)
    for mark in ("dynamic", "weak_dynamic", "unbacked", "strict_unbacked", "static"):
        assert f"'_dynamo_{mark}_indices'" in text


def test_CC_19_two_inputs_are_two_tensors():
    """A guard checks that two tensor inputs are different tensors."""
    compiled = watch(lambda x, y: x + y)
    compiled(x, x + 1)
    assert "check_no_aliasing(L['x'], L['y'])" in guards(compiled)


def test_CC_20_latency_of_the_guards_is_told():
    """The record has the duration of one evaluation of the guards."""
    compiled = watch(lambda x: x + 1)
    compiled(x)
    (latency,) = [each.seconds for each in compiled.record.timings if each.stage == "one evaluation of the guards"]
    assert 0 < latency < 1e-2


def test_CC_21_reason_of_a_recompilation():
    """The reason is the first guard that fails, with the expected and the actual value."""
    compiled = watch(lambda x: x + 1)
    compiled(torch.ones(3, 3))
    compiled(torch.ones(4, 4))
    assert reasons(compiled) == [["tensor 'x' size mismatch at index 0. expected 3, actual 4"]]
    again = compiled.record.frames[1]
    assert (again.failed_guards[0].compile_id, again.cause) == ("0/0", "recompiled")


def test_CC_22_one_reason_for_each_entry():
    """Each existing entry has one reason, its first failing guard; the newest entry comes first."""
    compiled = watch(lambda x: x + 1, dynamic=False)
    for size in (3, 4, 5):
        compiled(torch.ones(size))
    last = compiled.record.frames[-1].failed_guards
    assert [each.compile_id for each in last] == ["0/1", "0/0"]
    assert [each.reason for each in last] == [
        f"tensor 'x' size mismatch at index 0. expected {size}, actual 5" for size in (4, 3)
    ]


def test_CC_23_automatic_dynamic():
    """A recompile makes exactly the changed dimensions dynamic."""
    assert counts(lambda x: x + 1, ones((3, 3), (4, 4), (5, 5), (5, 6))) == [1, 2, 2, 2]
    assert counts(lambda x: x + 1, ones((3, 3), (4, 3), (4, 5))) == [1, 2, 3]


def test_CC_24_dynamic_true_and_duck_shaping():
    """dynamic=True gives one graph; sizes that were equal share a symbol, which the reason mentions."""
    compiled = watch(lambda x: x + 1, dynamic=True)
    for sizes in ((3, 3), (4, 4), (5, 6)):
        compiled(torch.ones(sizes))
    assert len(compiled.backend) == 2
    ((reason,),) = reasons(compiled)
    assert reason == "x.size()[1] == x.size()[0]"
    assert "duck" in compiled.record.frames[-1].failed_guards[0].note
    with torch.fx.experimental._config.patch(use_duck_shape=False):
        assert counts(lambda x: x + 1, ones((3, 3), (4, 4), (5, 6)), dynamic=True) == [1, 1, 1]


def test_CC_25_dynamic_false():
    """dynamic=False gives one graph for each shape."""
    assert counts(lambda x: x + 1, ones(3, 4, 5, 4), dynamic=False) == [1, 2, 3, 3]


def test_CC_26_symbols_are_told():
    """Each symbol has its sources, its value and its range."""
    compiled = watch(lambda x: x + 1, dynamic=True)
    compiled(torch.ones(3, 3))
    (symbol,) = compiled.frames[0].symbols
    assert (symbol.hint, symbol.range) == ("3", "[2, int_oo]")
    assert symbol.sources == ("L['x'].size()[0]", "L['x'].size()[1]")


def test_CC_27_origin_of_dynamism():
    """The record has the reason why a dimension is dynamic: dynamic=True, different calls, or a mark."""
    compiled = watch(lambda x: x + 1, dynamic=True)
    compiled(torch.ones(3))
    automatic = watch(lambda x: x + 1)
    automatic(torch.ones(3))
    automatic(torch.ones(4))
    marked = watch(lambda x: x + 1)
    tensor = torch.ones(3)
    torch._dynamo.mark_dynamic(tensor, 0)
    marked(tensor)
    origins = [each.frames[-1].symbols[0].origin for each in (compiled, automatic, marked)]
    assert origins == ["assume_static_by_default = False", "automatic dynamic", "mark_dynamic"]


def test_CC_28_the_cache_belongs_to_the_code():
    """Two closures with one code object share the cache; another backend does not use its entries, and has a reason."""

    def make():
        return lambda x: x + 1

    first, second = watch(make()), None
    first(x)
    shared = watch(make(), backend=first.backend)
    shared(x)
    assert len(first.backend) == 1
    function = make()
    one, other = watch(function), watch(function)
    one(x)
    other(x)
    assert (len(one.backend), len(other.backend)) == (1, 1)
    ((reason, *_),) = reasons(other)
    assert reason.startswith("BACKEND_MATCH failure: torch.compile detected different backend callables")


def test_CC_28_a_hit_moves_its_entry_to_the_front():
    """The entry that was used last is checked first."""
    from nbcompile.dispatch import cache

    def f(x):
        return x + 1

    compiled = nbcompile.compile(f, backend="eager", dynamic=False)
    for size in (3, 4, 5, 3):
        compiled(torch.ones(size))
    assert [each.compile_id for each in cache.entries(f.__code__)] == ["0/0", "0/2", "0/1"]


def test_CC_29_names_of_the_compiled_code():
    """The residual program calls __compiled_fn_..., and a resume function after a graph break."""
    with tempfile.TemporaryDirectory() as folder:
        compiled = watch(saved)
        compiled(x, os.path.join(folder, "y"))
    assert "__compiled_fn_" in compiled.frames[0].residual
    assert "resume" in compiled.frames[0].residual
