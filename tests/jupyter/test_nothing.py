"""Cells that compile nothing: each reason has a sentence that is true of it alone."""

from __future__ import annotations

import pytest
import torch

from nbcompile import api, config
from nbcompile.jupyter import nothing

BEFORE = """
import torch, nbcompile
def f(x):
    return x.sin() + 1
def skipped(x):
    return len([x])
x = torch.ones(3)
"""

SENTENCES = {
    "torch.compile inside": ("%%compile -b eager\n@torch.compile(backend='eager')\ndef t(x): return x + 1\nt(x)", "t is compiled by torch.compile, which nbcompile leaves alone"),
    "torch.compile of a module": ("%%compile -b eager\nnet = torch.compile(torch.nn.ReLU(), backend='eager')", "OptimizedModule is compiled by torch.compile"),
    "a name alone": ("%compile -b eager f", "f is compiled from now on, when it is called."),
    "a generator": ("%%compile -b eager\ndef g(x):\n    yield x + 1\nlist(g(x))", "g is a generator function"),
    "a coroutine": ("%%compile -b eager\nasync def c(x):\n    return x + 1\nc(x).close()", "c is a coroutine function"),
    "not called": ("%%compile -b eager\ndef n(x): return x", "n was not called in this cell: it is compiled when it is."),
    "a class, not called": ("%%compile -b eager\nclass N(torch.nn.Module):\n    def forward(self, x): return x", "N.forward was not called in this cell"),
    "a plain class": ("%%compile -b eager\nclass S:\n    @classmethod\n    def s(cls, x): return x + 1\nS.s(x)", "S is a class, but not an nn.Module"),
    "no forward": ("%%compile -b eager\nclass M(torch.nn.Module): pass", "M has no forward method"),
    "disabled": ("%%compile -b eager\n@torch.compiler.disable\ndef d(x): return x\nd(x)", "d is not compiled: it is marked with torch.compiler.disable."),
    "nothing defined": ("%%compile -b eager\ny = x", "neither defines nor calls"),
    "called before": ("%compile -b eager -q f(x)\n%compile -b eager f(x)", "Nothing new was compiled: f ran code that was compiled before."),
    "skipped before": ("%compile -b eager -q skipped(x)\n%compile -b eager skipped(x)", "skipped ran eagerly: no ops traced."),
    "no function of Python": ("%compile -b eager torch.sin(x)", "sin is not a Python function"),
    "switched off": ("with nbcompile.config.patch(disable=True):\n    get_ipython().run_line_magic('compile', '-b eager f(x)')", "compilation is switched off"),
    "force_eager": ("with torch.compiler.set_stance('force_eager'):\n    get_ipython().run_line_magic('compile', '-b eager f(x)')", "the stance is"),
}  # fmt: skip


@pytest.mark.parametrize("situation", SENTENCES)
def test_each_situation_has_its_own_sentence(run, situation):
    """The sentence of each reason is shown for it, and for no other."""
    api.reset()
    run(BEFORE)
    cell, told = SENTENCES[situation]
    ran = run(cell)
    assert ran.error is None
    said = [line.removeprefix("nbcompile: ") for line in ran.out.splitlines() if line.startswith("nbcompile: ")]
    assert len(said) == 1, ran.out
    assert told in said[0]
    assert not [other for other in {text for _, text in SENTENCES.values()} - {told} if other in said[0]]


def test_a_cell_that_compiles_says_nothing_of_it(run):
    """A cell that compiles has a picture, and no such sentence."""
    assert not config.disable
    ran = run("%%compile -b eager\nimport torch\ndef f(x): return x.sin()\nf(torch.ones(3))")
    assert len(ran.pictures) == 1
    assert "nbcompile: " not in ran.out
    assert torch.equal(ran.value, torch.ones(3).sin())
    assert nothing.NOTHING_DEFINED not in ran.out


@pytest.mark.parametrize("start", [
    "t = threading.Thread(target=f, args=(x,))\nt.start()\nt.join()",
    "with futures.ThreadPoolExecutor(2) as pool: list(pool.map(f, [x, x]))",
])  # fmt: skip
def test_calls_in_threads_of_the_cell_count(run, start):
    """What a thread of the cell compiles and runs is shown in the cell."""
    head = "%%compile -b eager -o seen\nimport threading, torch\nfrom concurrent import futures\nx = torch.ones(2)\n"
    ran = run(head + "def f(x): return x + 1\n" + start)
    assert "not called" not in ran.out and len(ran.pictures) == 1
    ran = run(head + start)
    assert "Nothing new was compiled: f ran code that was compiled before." in ran.out
