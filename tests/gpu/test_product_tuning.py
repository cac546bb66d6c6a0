"""Times of candidates: which are measured, on which tensors, and which are stored."""

from __future__ import annotations

import json

import pytest
import torch

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
pytest.importorskip("numpy", reason="the models of the GPU compute with NumPy")

from nbcompile.gpu import product_tuning
from nbcompile.gpu.templates import Candidate
from nbcompile.ir.emitted import EmittedKernel
from nbcompile.ir.kernel import ProductTile
from nbcompile.runtime import store

CPU = torch.device("cpu")
LIBRARY = Candidate(None, 5e-6, rest=1e-6)


def candidate(number, seconds):
    return Candidate(ProductTile(16 * number, 16, 16, 2, 3), seconds)


ONE, OTHER = candidate(1, 1.0).label, candidate(2, 2.0).label


def kernel(number, **other):
    """An emitted kernel whose text contains its name and a comment."""
    given = {"name": f"k_{number}", "function": f"k_{number}", "arguments": ("a", "b"), "language": "triton"}
    text = f"def k_{number}(p0):  # of graph {number}\n    body"
    return EmittedKernel(**{**given, "source": text, "types": ("*fp32",), "grid": "4", **other})


@pytest.fixture
def times(monkeypatch):
    """The store, as a dict."""
    kept: dict[str, dict[str, float | None]] = {}
    monkeypatch.setattr(product_tuning, "_read", lambda key: kept.get(key, {}))
    monkeypatch.setattr(product_tuning, "_keep", kept.__setitem__)
    return kept


def benchmark(monkeypatch, found):
    """A benchmark with a fake measurement, and the list of what it measured."""
    asked = []

    def measured(self, ours, memory, library, call, hints):
        asked.append([*(one.label for one in ours), *(one.label for one in library)])
        if isinstance(found, Exception):
            raise found
        return found.items()

    monkeypatch.setattr(product_tuning.Benchmark, "_measured", measured)
    return product_tuning.Benchmark(None, "sm_90"), asked


def test_the_best_by_the_model_are_measured():
    """The candidates with the best predictions are measured, up to the limit; the library's is not among them."""
    candidates = [candidate(number, 1e-6 * ((number * 7) % 20 + 1)) for number in range(1, 20)]
    found = product_tuning.best([LIBRARY, *candidates])
    assert len(found) == product_tuning.MEASURED
    predicted = [one.seconds for one in found]
    assert predicted == sorted(one.seconds for one in candidates)[: product_tuning.MEASURED]


def test_what_was_measured_is_what_the_candidates_say(monkeypatch, times):
    """Measured times replace predictions; candidates without a measurement are dropped."""
    one, other, third = candidate(1, 1.0), candidate(2, 2.0), candidate(3, 3.0)
    bench, _ = benchmark(monkeypatch, {ONE: 7e-6, OTHER: None, "library": 9e-6})
    found = bench.times([one, other, third, LIBRARY], {one: kernel(1), other: kernel(2)}, dict, dict)
    assert [(each.label, each.seconds, each.is_measured) for each in found] == [
        (ONE, 7e-6, True), ("library", pytest.approx(1e-5), True)
    ]  # fmt: skip


def test_the_next_process_measures_nothing(monkeypatch, times):
    """The next process measures nothing, unless a candidate has no stored time: then all are measured again."""
    one, other = candidate(1, 1.0), candidate(2, 2.0)
    bench, asked = benchmark(monkeypatch, {ONE: 7e-6, "library": 9e-6})
    for _ in range(2):
        bench.times([one, LIBRARY], {one: kernel(1)}, dict, dict)
    assert asked == [[ONE, "library"]] and len(times) == 1
    bench.times([one, other, LIBRARY], {one: kernel(1), other: kernel(2)}, dict, dict)
    assert asked[1:] == [[ONE, OTHER, "library"]]


def test_where_memory_does_not_suffice_predictions_stay(monkeypatch, times):
    """If memory does not suffice, the predictions remain, and nothing is stored."""
    one = candidate(1, 1.0)
    bench, _ = benchmark(monkeypatch, torch.OutOfMemoryError("no memory"))
    assert bench.times([one, LIBRARY], {one: kernel(1)}, dict, dict) == [one, LIBRARY]
    assert times == {}


def test_a_key_has_what_a_time_depends_on():
    """The key ignores names and comments; any other difference gives another key."""
    bench = product_tuning.Benchmark(None, "sm_90")
    key = bench._key([kernel(1)], {"s0": 4})
    assert key == bench._key([kernel(2)], {"s0": 4})
    others = [
        bench._key([kernel(1)], {"s0": 5}),
        bench._key([kernel(1, warps=8)], {"s0": 4}),
        bench._key([kernel(1, grid="5")], {"s0": 4}),
        bench._key([kernel(1, types=("*fp16",))], {"s0": 4}),
        bench._key([kernel(1, source="def k_1(p0):\n    other")], {"s0": 4}),
        product_tuning.Benchmark(None, "sm_80")._key([kernel(1)], {"s0": 4}),
    ]
    assert len({key, *others}) == 7


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int64, torch.bool])
def test_tensors_are_filled_without_the_generator(dtype):
    """The tensors have random values and the given layout, 0 for possible indices, without the user's generator."""
    before = torch.get_rng_state()
    found = product_tuning.filled((3, 4), (1, 5), dtype, CPU)
    assert torch.equal(torch.get_rng_state(), before)
    assert (found.shape, found.stride(), found.dtype) == ((3, 4), (1, 5), dtype)
    if dtype.is_floating_point:
        assert len(found.unique()) > 6 and found.abs().max() <= 1
    else:
        assert not found.any()
    assert product_tuning.filled((0, 4), (4, 1), dtype, CPU).shape == (0, 4)


def test_a_stand_in_runs_a_call_once():
    """On the stand-in device a call is measured once, because its launches are synchronous."""
    calls = []
    assert product_tuning.seconds(lambda: calls.append(None), 1e-6) >= 0
    assert len(calls) == 1


@pytest.mark.parametrize("text", ["{", "[1]", '{"a": "b"}', '{"a": [1]}'])
def test_an_entry_that_holds_something_else_is_none(tmp_path, monkeypatch, text):
    """An invalid stored entry counts as absent, and is measured again."""
    path = tmp_path / "times.json"
    monkeypatch.setattr(store, "fetch", lambda key, suffix: path)
    path.write_text(text)
    assert product_tuning._read("key") == {}
    path.write_text(json.dumps({"a": 1.5, "b": None}))
    assert product_tuning._read("key") == {"a": 1.5, "b": None}
    path.unlink()
    assert product_tuning._read("key") == {}


def test_a_pointer_that_is_no_multiple_of_16_is_rejected():
    """Unaligned pointers are not measured: the tensors of a measurement are aligned, and would use other code."""
    with pytest.raises(RuntimeError, match="tile 3"):
        product_tuning._raise_unaligned("tile 3")
