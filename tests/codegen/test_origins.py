"""Each line of generated code has the fx nodes that it computes as origins, in C++ and in Triton."""

import functools

import pytest
import torch
from torch.nn.functional import conv2d, cross_entropy, embedding, gelu, layer_norm, max_pool2d, pad, silu

from nbcompile.codegen import cpp, triton
from tests.support.lowered import programs

R = torch.randn

W = torch.ones(16)
PROGRAMS = {
    "chain": (lambda x: torch.sin(x) * 2 + torch.exp(x).relu(), (R(8, 16),)),
    "softmax": (lambda x: torch.softmax(x * 2, -1), (R(8, 16),)),
    "normalised": (lambda x, w: gelu(layer_norm(x, (16,), w, w)), (R(8, 16), W)),
    "columns": (lambda x: (x.sum(0) / 3, x.argmax(0)), (R(64, 16),)),
    "long": (lambda x: (x * 2).sum(), (R(1 << 17),)),
    "taken": (lambda x, i: embedding(i, x) * 2, (R(8, 16), torch.tensor([1, 2, 3]))),
    "scanned": (lambda x: (x + 1).cumsum(-1).exp(), (R(8, 16),)),
    "scattered": (lambda x, i: x.index_add(0, i, x[:3]) + 1, (R(8, 16), torch.tensor([1, 2, 3]))),
    "padded": (lambda x: pad(x, (1, 1)).tanh(), (R(8, 16),)),
    "joined": (lambda x: torch.cat([x.sin(), x.cos()]), (R(8, 16),)),
    "pooled": (lambda x: max_pool2d(x.relu(), 2), (R(1, 2, 8, 8),)),
    "gated": (lambda x, w: silu(x @ w) * (x @ w), (R(8, 16), R(16, 16))),
    "convolved": (lambda x, w: conv2d(x, w).relu(), (R(1, 2, 8, 8), R(3, 2, 3, 3))),
    "loss": (lambda x, i: cross_entropy(x, i), (R(8, 16), torch.arange(8))),
}  # fmt: skip
each_language = pytest.mark.parametrize("language", [cpp, triton], ids=["cpp", "triton"])


@functools.cache
def planned(name):
    function, inputs = PROGRAMS[name]
    return programs(function, *inputs, decomposed=True)[1]


def lines(schedule, language):
    """The text of each line that is not empty, with its role and nodes."""
    for kernel in language.emit(schedule).kernels:
        text = kernel.source.split("\n")
        assert [each.line for each in kernel.lines] == [at for at, line in enumerate(text, 1) if line.strip()]
        for each in kernel.lines:
            yield text[each.line - 1].strip(), each


@each_language
def test_lines_have_origins(language):
    """At least 95 % of the lines have origins, the rest is glue; each load, computation or store has a node."""
    known, total = 0, 0
    for name in PROGRAMS:
        for text, line in lines(planned(name), language):
            total, known = total + 1, known + bool(line.nodes)
            assert bool(line.nodes) == (line.role != "glue"), (name, text)
            if any(word in text for word in ("load<", "store(", "combine<", "tl.load", "tl.store", "tl.reduce")):
                assert line.role == "computes", (name, text)
    assert total > 200
    assert known / total >= 0.95, f"{known} of {total}"


def origins(name, language, *words):
    """The nodes of the lines that compute and contain a word."""
    every = [(text, set(line.nodes)) for text, line in lines(planned(name), language) if line.role == "computes"]
    return [[nodes for text, nodes in every if word in text] for word in words]


def test_origins_are_distinguished_inside_one_kernel():
    """In a fused kernel, each line has only the operators that it computes."""
    gelu, rsqrt = origins("normalised", cpp, "gelu(", "rsqrt(")
    assert gelu == [{"gelu", "native_layer_norm"}]  # the sum that it reads is in the same line
    assert all("gelu" not in nodes for nodes in rsqrt)
    (gathered,) = origins("taken", cpp, "checked")
    assert gathered == [{"embedding"}]
    assert origins("taken", triton, "* (tl.full", "device_assert") == [[{"mul"}], [{"embedding"}]]


def test_work_that_several_nodes_use_is_theirs_together():
    """A load that two operators share has both as origins."""
    plan = programs(lambda x: x.sin() + x.cos(), R(8, 16))[1]
    (load,) = [set(line.nodes) for text, line in lines(plan, cpp) if "load<" in text]
    assert load == {"sin", "cos"}


def test_a_loop_surrounds_what_is_inside_it():
    """A loop has the origins of its body, and so does its closing line."""
    found = [(text, set(line.nodes)) for text, line in lines(planned("normalised"), cpp) if line.role == "surrounds"]
    steps = [nodes for text, nodes in found if text.startswith("const auto step")]
    assert len(steps) == 3
    assert ["gelu" in nodes for nodes in steps] == [False, False, True]
    ends = [nodes for text, nodes in found if text == "};"]
    assert ends == steps
