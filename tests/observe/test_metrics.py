"""Counters of compilation in a process."""

from __future__ import annotations

import sys
import time

import pytest
import torch

import nbcompile
from nbcompile.observe import metrics
from nbcompile.observe.metrics import COUNTS
from tests.support.processes import python


@pytest.fixture(autouse=True)
def counting():
    """Counters are enabled, from zero."""
    COUNTS.reset()
    COUNTS.counting = True
    yield
    COUNTS.counting = False
    COUNTS.reset()


def f(x):
    y = x.sin() + 1
    print(end="")
    return y * 2


@pytest.mark.compiles
def test_what_is_compiled_is_counted():
    """Frames, graphs, operators, breaks, kernels, recompiles and stages are counted."""
    compiled = nbcompile.compile(f, isolate_recompiles=True)
    compiled(torch.ones(3))
    counts = nbcompile.metrics()
    assert counts["frames"] == {"compiled": 2}
    assert (counts["graphs"], counts["operators"]) == (2, 3)
    assert list(counts["graph_breaks"].values()) == [1]
    assert counts["kernels"]["cpp"] == 2
    assert counts["recompilations"] == {}
    assert counts["guards"] > 10
    assert counts["compile_seconds"]["tracing"] > 0
    assert counts["store_hit_rate"] == 0.0
    compiled(torch.ones(4))
    assert sum(nbcompile.metrics()["recompilations"].values()) == 2


@pytest.mark.compiles
def test_calls_of_compiled_code_are_not_counted():
    """Cache hits change no counter."""
    compiled = nbcompile.compile(f, isolate_recompiles=True)
    compiled(torch.ones(3))
    before = nbcompile.metrics()
    for _ in range(5):
        compiled(torch.ones(3))
    assert nbcompile.metrics() == before


@pytest.mark.compiles
def test_nothing_is_recorded_before_it_is_asked_for():
    """While counters are disabled, frames are neither recorded nor counted."""
    COUNTS.counting = False
    assert not COUNTS.wants_frames()
    began = time.time()
    nbcompile.compile(f, isolate_recompiles=True)(torch.ones(3))
    counts = nbcompile.metrics()
    assert counts["frames"] == {}
    assert counts["since"] >= began, "from the time on at which counting began"
    assert COUNTS.wants_frames()


@pytest.mark.compiles
def test_the_text_for_prometheus_can_be_read():
    """Prometheus's own parser reads each sample; labels are escaped."""
    from prometheus_client.parser import text_string_to_metric_families

    COUNTS._breaks['a "title"\n'] += 2
    nbcompile.compile(f, isolate_recompiles=True)(torch.ones(3))
    text = nbcompile.prometheus()
    samples = {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples["nbcompile_frames_total", ("compiled",)] == 2
    assert samples["nbcompile_graph_breaks_total", ('a "title"\n',)] == 2
    assert samples["nbcompile_operators_total", ()] == 3


def test_without_prometheus_client(monkeypatch):
    """The error names the missing package; the counters do not need it."""
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(ImportError, match=r"nbcompile\[metrics\]"):
        nbcompile.prometheus()
    assert nbcompile.metrics()["graphs"] == 0


@pytest.mark.parametrize(("value", "counting"), [("1", True), ("0", False), ("", False)])
def test_the_variable(monkeypatch, value, counting):
    """NBCOMPILE_METRICS=1 enables the counters at import."""
    monkeypatch.setenv(metrics.VARIABLE, value)
    assert metrics.Metrics().wants_frames() == counting


def test_importing_loads_no_client():
    """`import nbcompile` does not import prometheus_client."""
    code = "import sys, nbcompile; sys.exit('prometheus_client' in sys.modules)"
    python(code)
