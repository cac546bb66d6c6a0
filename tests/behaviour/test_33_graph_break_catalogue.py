"""Section 33: the catalogue of graph breaks."""

import array
import copy
import io
import logging
import os
import sys
import threading
import time
import warnings

import pytest
import torch

import nbcompile
from nbcompile.tracing import breaks
from tests.support.watched import same, watch

x = torch.ones(3)
outside = torch.ones(3)
buffer, lock, logger = io.BytesIO(), threading.Lock(), logging.getLogger("nbcompile.catalogue")
lstm = torch.nn.LSTM(3, 3)


class Iterated:
    def __iter__(self):
        return iter([1, 2])


def gen(x):
    yield x
    yield x * 2


def doubled_in(d, x):
    d["y"] = x * 2
    return x + 1


def raising(x):
    try:
        raise ValueError
    except ValueError:
        return x + 1


BROKEN = {
    "graph_break": (lambda x: torch._dynamo.graph_break(), "GB0025"),
    "save": (lambda x: torch.save(x, buffer), "GB0007"),
    "manual_seed": (lambda x: torch.manual_seed(0), "GB0007"),
    "warn": (lambda x: warnings.warn("careful", stacklevel=1), "GB0007"),
    "getpid": (lambda x: os.getpid(), "GB0007"),
    "getframe": (lambda x: sys._getframe(), "GB0007"),
    "time": (lambda x: time.time(), "GB0007"),
    "print": (lambda x: print(end=""), "GB0059"),
    "open": (lambda x: open(os.devnull).close(), "GB0059"),
    "logger": (lambda x: logger.debug("a"), "GB0291"),
    "if": (lambda x: 1 if x.sum() > 0 else 2, "GB0170"),
    "item": (lambda x: x.sum().item(), "GB0124"),
    "tolist": (lambda x: x.long().tolist(), "GB0033"),
    "nonzero": (lambda x: x.nonzero(), "GB0036"),
    "mask": (lambda x: x[x > 0], "GB0036"),
    "array": (lambda x: array.array("i"), "GB0147"),
    "deepcopy": (lambda x: copy.deepcopy(x), "GB4198"),
    "requires_grad": (lambda x: outside.requires_grad_(not outside.requires_grad), "GB0125"),
    "lstm": (lambda x: lstm(x[None]), "GB0014"),
}
TRACED = {
    "user iterator": lambda x: x + sum(Iterated()),
    "generator": lambda x: sum(gen(x)),
    "try": raising,
    "dict": lambda x: doubled_in({}, x),
    "isinstance": lambda x: x + isinstance(x, torch.Tensor),
    "tensor of a list": lambda x: x + torch.tensor([1.0, 2.0, 3.0]),
    "no_grad": lambda x: torch.no_grad()(torch.add)(x, 1),
    "f-string": lambda x: x + len(f"{x.shape}"),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.filterwarnings("ignore")
def test_the_catalogue(name):
    """An unsupported operation breaks the graph with torch's title and number, and the function continues."""
    action, gb_id = BROKEN[name]

    def f(x, given):
        x = x + 1
        action(given)
        return x * 2

    compiled = watch(f)
    same(compiled(x, x.clone()), (x + 1) * 2)
    assert gb_id in compiled.gb_ids
    titles = {each.gb_id: each.title for each in breaks.KINDS.values()}
    assert titles[gb_id] in compiled.titles or gb_id in ("GB0007", "GB0170")


@pytest.mark.parametrize("name", TRACED)
def test_what_is_traced(name):
    """A supported operation is one graph under fullgraph=True."""
    f = watch(TRACED[name], fullgraph=True)
    same(f(x), TRACED[name](x))
    assert len(f.graphs) == 1


def test_the_link_of_a_kind():
    """A report names the command that shows the page of its kind."""
    with pytest.raises(nbcompile.exc.Unsupported, match="run: python -m nbcompile explain NB0004"):
        watch(lambda x: print(x), fullgraph=True)(x)
