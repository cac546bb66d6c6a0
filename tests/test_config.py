"""Tests for nbcompile.config: each setting has torch's effect, or warns that it has none."""

from __future__ import annotations

import pytest
import torch
import torch._dynamo

import nbcompile
from nbcompile import config
from tests.support.graphs import Graphs

DIFFERENT = {"skip_nnmodule_hook_guards"}
"""Settings whose default is not torch's, and says why in its docstring."""


def graphs_of(function, *arguments, **options):
    """The number of graphs of one call of a newly compiled function, and the result."""
    nbcompile.reset()
    captured = Graphs()

    result = nbcompile.compile(function, backend=captured, **options)(*arguments)
    return len(captured), result


def test_names_and_defaults_are_torchs():
    """Each setting with a name of torch's has torch's default."""
    theirs = torch._dynamo.config._config
    differing = {
        name
        for name, default in config.DEFAULTS.items()
        if name in theirs and theirs[name].default != default and not isinstance(default, frozenset)
    }
    assert differing == DIFFERENT


def test_names_that_are_no_settings():
    """An unknown name raises an error at once, with a suggestion and all names."""
    for attempt in (
        lambda: setattr(config, "recompile_limt", 3),
        lambda: config.patch(recompile_limt=3).__enter__(),
        lambda: config.recompile_limt,
    ):
        with pytest.raises(AttributeError, match="Did you mean 'recompile_limit'") as error:
            attempt()
        assert "suppress_errors" in str(error.value)


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("recompile_limit", "8", TypeError),
        ("recompile_limit", True, TypeError),
        ("automatic_dynamic_shapes", 1, TypeError),
        ("dynamic_sources", ["L['x']"], TypeError),
        ("automatic_dynamic_shapes_mark_as", "static", ValueError),
        ("side_effect_replay_policy", "loud", ValueError),
    ],
)
def test_values_that_a_setting_cannot_have(name, value, error):
    """An invalid value raises an error with the setting's name; the old value remains."""
    before = getattr(config, name)
    for attempt in (lambda: setattr(config, name, value), lambda: config.patch({name: value}).__enter__()):
        with pytest.raises(error, match=rf"nbcompile\.config\.{name}: expected"):
            attempt()
    assert getattr(config, name) == before


@pytest.mark.parametrize("name", config.NO_EFFECT)
def test_settings_without_effect_say_so(name):
    """A setting without an effect warns when it is changed, with the reason."""
    default = config.DEFAULTS[name]
    other = "dynamo" if default is None else type(default)(not default)
    with pytest.warns(UserWarning, match=f"{name} has no effect"), config.patch({name: other}):
        pass


def test_older_names():
    """torch's older names set the same settings."""
    with config.patch(cache_size_limit=3):
        assert config.recompile_limit == 3


def test_wrap_top_frame():
    """A module's hooks are separate frames, or are traced with the module if the top frame is wrapped."""
    module = torch.nn.Sequential(torch.nn.Linear(2, 2))

    class Whole(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = module

        def forward(self, x):
            return self.layer(x)

    whole = Whole()
    whole.register_forward_hook(lambda module, given, result: result * 2)
    x = torch.ones(1, 2)
    assert graphs_of(whole, x)[0] == 2
    with config.patch(wrap_top_frame=True):
        count, result = graphs_of(whole, x)
    assert count == 1
    torch.testing.assert_close(result, whole(x))
    with torch._dynamo.config.patch(wrap_top_frame=True):
        assert graphs_of(whole, x)[0] == 1


def test_rewrite_assert():
    """An assertion about a tensor is in the graph; without the rewrite it breaks the graph."""

    scope = {}  # pytest rewrites the assertions of a test's own source
    exec("def f(x):\n    assert x.sum() > 0\n    return x + 1", scope)
    f = scope["f"]
    x = torch.ones(2)
    assert graphs_of(f, x)[0] == 1
    with config.patch(rewrite_assert_with_torch_assert=False):
        assert graphs_of(f, x)[0] == 2


def test_replay_side_effects():
    """Without the replay, mutations of an argument are dropped; new objects are complete."""

    def f(x, xs):
        xs.append(1)
        ys = [x]
        ys.append(x + 1)
        return ys

    xs = []
    with config.patch(replay_side_effects=False):
        _, result = graphs_of(f, torch.ones(1), xs)
    assert xs == []
    assert len(result) == 2


def test_allow_empty_graphs():
    """A function without operators is skipped, or compiled if empty graphs are allowed."""

    def f(x):
        return x

    nbcompile.reset()
    assert nbcompile.explain(f, backend="eager")(torch.ones(1)).record.frames[0].status == "skipped"
    with config.patch(allow_empty_graphs=True):
        nbcompile.reset()
        told = nbcompile.explain(f, backend="eager")(torch.ones(1))
    assert told.record.frames[0].status == "compiled"
    assert told.graph_count == 0


def test_dont_skip_tracing():
    """Functions of torch that are usually skipped are traced with this setting."""

    def f(x):
        return torch.nn.init.constant_(x.clone(), 3.0) + torch.overrides.is_tensor_like(x)

    def told():
        nbcompile.reset()
        return [cause.context for cause, _ in nbcompile.explain(f, backend="eager")(torch.ones(2)).breaks]

    usual = told()
    with config.patch(dont_skip_tracing=True):
        assert not any("skip reason" in each for each in told()), usual


def test_trace_numpy():
    """NumPy functions are operators of the graph, or break it without the setting."""

    def f(x):
        return x.numpy() + 1

    assert graphs_of(f, torch.ones(2))[0] == 1
    with config.patch(trace_numpy=False):
        assert graphs_of(f, torch.ones(2))[0] == 0


def test_a_variable_that_is_no_number_is_reported(monkeypatch):
    """An invalid number in a variable warns, and the default is used."""
    monkeypatch.setenv("NBCOMPILE_OUTPUT_POOL_MEGABYTES", "1 GB")
    with pytest.warns(
        UserWarning, match=r"\$NBCOMPILE_OUTPUT_POOL_MEGABYTES: expected an integer, got '1 GB'; using 1024"
    ):
        assert config._number("NBCOMPILE_OUTPUT_POOL_MEGABYTES", 1024) == 1024
    monkeypatch.setenv("NBCOMPILE_OUTPUT_POOL_MEGABYTES", "64")
    assert config._number("NBCOMPILE_OUTPUT_POOL_MEGABYTES", 1024) == 64
