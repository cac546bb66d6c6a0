"""Sections 21 and 22: backed and unbacked symbols (BU), sizes 0 and 1 (ZO)."""

import torch

import nbcompile
from tests.support.counts import counted, counts, ones, reasons
from tests.support.watched import same, watch


def test_BU_1_backed_and_unbacked():
    """A backed symbol can be guarded; one from .item() or nonzero() cannot, so a branch on it breaks the graph."""

    def f(x):
        n = x.sum().to(torch.int64).item()
        return x + 1 if n > 3 else x - 1

    with nbcompile.config.patch(capture_scalar_outputs=True):
        compiled = watch(f)
        same(compiled(torch.ones(5)), f(torch.ones(5)))
    assert compiled.titles == ["Data-dependent branching"]


def test_BU_2_size_oblivious_reasoning():
    """An unbacked size is assumed to be neither 0 nor 1."""

    def f(x):
        return x[x > 0].sum() + 1

    compiled = watch(f, fullgraph=True)
    for tensor in (torch.ones(5), torch.zeros(5), torch.tensor([1.0, 0, 0, 0, 0])):
        same(compiled(tensor), f(tensor))
    assert len(compiled.backend) == 1


def test_BU_4_unbacked_sources():
    """unbacked_sources contains the unbacked sources: 5, 1, 0 share one graph."""
    with nbcompile.config.patch(unbacked_sources="L['x']"):
        assert counts(lambda x: x + 1, ones(5, 1, 0)) == [1, 1, 1]


def test_ZO_1_zero_and_one_are_special():
    """Sizes 0 and 1 are always constants; the reason explains this and names mark_unbacked."""
    assert counts(lambda x: x + 1, ones(1, 2, 3, 0, 1)) == [1, 2, 2, 3, 3]
    compiled = watch(lambda x: x + 1)
    assert counted(compiled, ones(4, 5, 1, 0, 6)) == [1, 2, 3, 4, 4]
    assert reasons(compiled)[1][0] == "2 <= x.size()[0]"
    note = [each for each in compiled.record.frames if each.failed_guards][1].failed_guards[0].note
    assert "0/1" in note and "mark_unbacked" in note


def test_ZO_3_soundness():
    """A graph for sizes of 2 and more is not used for 1, for which broadcasting differs."""
    f = lambda x, y: x + y
    compiled = watch(f, dynamic=True)
    for a, b in ((4, 4), (1, 4), (4, 1), (1, 1)):
        same(compiled(torch.ones(a), torch.ones(b)), f(torch.ones(a), torch.ones(b)))
