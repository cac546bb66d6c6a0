"""Mistakes that beginners make, one cell each, and the texts that the first screen must have.

``python -m tests.jupyter.mistakes`` runs all of them in a kernel and prints a table; with ``--pictures FOLDER`` it has a
browser draw eight of them: light, dark and narrow.
"""

from __future__ import annotations

import importlib
import itertools
import re
import shutil
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import nbformat

from nbcompile.tools import tour


@dataclass(frozen=True)
class Mistake:
    """A cell that ends with an exception."""

    name: str
    cell: str
    error: str
    """The exception's class; several where builds of torch differ."""
    line: str
    """A piece of the line that is marked."""
    mark: str
    """What stands above the carets; "" where the whole line does."""
    operator: str = ""
    """What is named as the operator; "" where no operator of torch is at fault."""
    arguments: tuple[str, ...] = ()
    """Types of arguments that are told."""
    advice: str = ""
    """A piece of the sentence that says what to change."""


SETUP = "%load_ext nbcompile\nimport torch\nfrom torch import nn\nimport torch.nn.functional as F\n"


def cell(text: str) -> str:
    return textwrap.dedent(text).strip("\n")


MISTAKES = (
    Mistake(
        "wrong size of a Linear",
        cell("""
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.first = nn.Linear(8, 16)
                    self.last = nn.Linear(8, 4)
                def forward(self, x):
                    h = torch.relu(self.first(x))
                    return self.last(h)
            Net()(torch.randn(2, 8))
        """),
        "RuntimeError", "return self.last(h)", "self.last(h)", "linear", ("f32[2, 16]", "f32[4, 8]"), "in_features",
    ),
    Mistake(
        "dtypes that do not fit",
        cell("""
            def f(x, i):
                return x @ i
            f(torch.ones(3, 3), torch.ones(3, 3, dtype=torch.int64))
        """),
        "RuntimeError", "return x @ i", "x @ i", "matmul", ("f32[3, 3]", "i64[3, 3]"), ".to(",
    ),
    Mistake(
        "index out of range",
        cell("""
            def f(x):
                y = x * 2
                return y[5]
            f(torch.ones(3))
        """),
        "IndexError", "return y[5]", "y[5]", "getitem", ("f32[3]",), "count from 0",
    ),
    Mistake(
        "index out of range in an embedding",
        cell("""
            table = nn.Embedding(10, 4)
            def f(i):
                return table(i).sum()
            f(torch.tensor([3, 10]))
        """),
        "IndexError", "return table(i).sum()", "table(i)", "embedding", ("i64[2]", "f32[10, 4]"), "num_embeddings",
    ),
    Mistake(
        "undefined name",
        cell("""
            def f(x):
                y = x + 1
                return y * sclae
            f(torch.ones(3))
        """),
        "NameError", "return y * sclae", "sclae", advice="defined",
    ),
    Mistake(
        "two devices",
        cell("""
            def f(x, y):
                return torch.add(x, y)
            f(torch.ones(3), torch.ones(3, device="meta"))
        """),
        "RuntimeError", "return torch.add(x, y)", "torch.add(x, y)", "add", ("f32[3] on meta",), ".to(",
    ),
    Mistake(
        "wrong keyword",
        cell("""
            def f(x):
                return torch.softmax(x, axs=1)
            f(torch.ones(3, 3))
        """),
        "TypeError", "torch.softmax(x, axs=1)", "torch.softmax(x, axs=1)", "softmax", ("f32[3, 3]",), "keyword",
    ),
    Mistake(
        "None where a tensor was meant",
        cell("""
            def layer(x):
                x.relu()
            def f(x):
                return layer(x) + 1
            f(torch.ones(3))
        """),
        "TypeError", "return layer(x) + 1", "layer(x) + 1", advice="return",
    ),
    Mistake(
        "shapes that do not broadcast",
        cell("""
            def f(x, y):
                return x + y
            f(torch.ones(3, 4), torch.ones(3))
        """),
        "RuntimeError", "return x + y", "x + y", "add", ("f32[3, 4]", "f32[3]"), "broadcast",
    ),
    Mistake(
        "too many arguments",
        cell("""
            def scale(x, k):
                return x * k
            def f(x):
                return scale(x, 2, 3)
            f(torch.ones(3))
        """),
        "TypeError", "return scale(x, 2, 3)", "scale(x, 2, 3)", advice="arguments",
    ),
    Mistake(
        "in-place change of a leaf",
        cell("""
            w = torch.ones(3, requires_grad=True)
            def f(x):
                w.add_(x)
                return w
            f(torch.ones(3))
        """),
        "RuntimeError", "w.add_(x)", "w.add_(x)", "add_", ("f32[3]",), "torch.no_grad()",
    ),
    Mistake(
        "no forward",
        cell("""
            class Net(nn.Module):
                def fowrard(self, x):
                    return x
            net = Net()
            def f(x):
                return net(x) + 1
            f(torch.ones(3))
        """),
        "NotImplementedError", "return net(x) + 1", "net(x)", advice="forward",
    ),
    Mistake(
        "shapes in cat",
        cell("""
            def f(x, y):
                return torch.cat([x, y])
            f(torch.ones(2, 3), torch.ones(2, 4))
        """),
        "RuntimeError", "torch.cat([x, y])", "torch.cat([x, y])", "cat", ("f32[2, 3]", "f32[2, 4]"), "dim",
    ),
    Mistake(
        "shapes in stack",
        cell("""
            def f(x, y):
                return torch.stack((x, y))
            f(torch.ones(2), torch.ones(3))
        """),
        "RuntimeError", "torch.stack((x, y))", "torch.stack((x, y))", "stack", ("f32[2]", "f32[3]"), "same shape",
    ),
    Mistake(
        "shapes in matmul",
        cell("""
            def f(x, w):
                h = x.relu()
                return h @ w
            f(torch.ones(2, 3), torch.ones(2, 3))
        """),
        "RuntimeError", "return h @ w", "h @ w", "matmul", ("f32[2, 3]", "f32[2, 3]"), "last dimension",
    ),
    Mistake(
        "mean of integers",
        cell("""
            def f(x):
                return x.mean()
            f(torch.arange(4))
        """),
        "RuntimeError NotImplementedError", "return x.mean()", "x.mean()", "mean", ("i64[4]",), ".float()",
    ),
    Mistake(
        "a float as a size",
        cell("""
            def f(x):
                n = x.shape[0] / 2
                return torch.zeros(n) + x.sum()
            f(torch.ones(4))
        """),
        "TypeError", "torch.zeros(n)", "torch.zeros(n)", "zeros", (), "//",
    ),
    Mistake(
        "dtype of a loss target",
        cell("""
            def f(logits, target):
                return F.cross_entropy(logits, target)
            f(torch.randn(4, 3), torch.tensor([0, 1, 2, 0], dtype=torch.int32))
        """),
        "RuntimeError", "F.cross_entropy(logits, target)", "F.cross_entropy(logits, target)",
        "cross_entropy", ("f32[4, 3]", "i32[4]"), ".to(",
    ),
    Mistake(
        "numpy() with a gradient",
        cell("""
            def f(x):
                return (x * 2).numpy()
            f(torch.ones(3, requires_grad=True))
        """),
        "RuntimeError", "(x * 2).numpy()", "(x * 2).numpy()", advice=".detach()",
    ),
    Mistake(
        "misspelled attribute",
        cell("""
            def f(x):
                y = x.cos()
                return y.sigmoid_of()
            f(torch.ones(3))
        """),
        "AttributeError", "return y.sigmoid_of()", "y.sigmoid_of", advice="attribute",
    ),
    Mistake(
        "no super().__init__()",
        cell("""
            class Net(nn.Module):
                def __init__(self):
                    self.layer = nn.Linear(2, 2)
                def forward(self, x):
                    return self.layer(x)
            Net()(torch.ones(2, 2))
        """),
        "AttributeError", "self.layer = nn.Linear(2, 2)", "self.layer", advice="super().__init__()",
    ),
    Mistake(
        "a shape with another number of elements",
        cell("""
            def f(x):
                return x.reshape(4, 4)
            f(torch.ones(3, 4))
        """),
        "RuntimeError", "x.reshape(4, 4)", "x.reshape(4, 4)", "reshape", ("f32[3, 4]",), "elements",
    ),
    Mistake(
        "a view of what is not contiguous",
        cell("""
            def f(x):
                return x.t().view(12)
            f(torch.ones(3, 4))
        """),
        "RuntimeError", "x.t().view(12)", "x.t().view(12)", "view", ("f32[4, 3]",), "reshape",
    ),
    Mistake(
        "channels of a convolution",
        cell("""
            conv = nn.Conv2d(3, 8, 3)
            def f(x):
                return conv(x)
            f(torch.ones(1, 1, 8, 8))
        """),
        "RuntimeError", "return conv(x)", "conv(x)", "conv2d", ("f32[1, 1, 8, 8]", "f32[8, 3, 3, 3]"), "channels",
    ),
    Mistake(
        "truth of many elements",
        cell("""
            def f(x):
                if x > 0:
                    return x
                return -x
            f(torch.ones(3))
        """),
        "RuntimeError", "if x > 0:", "", advice=".all()",
    ),
    Mistake(
        "backward of no scalar",
        cell("""
            def f(x):
                y = x * 2
                y.backward()
                return x.grad
            f(torch.ones(3, requires_grad=True))
        """),
        "RuntimeError", "y.backward()", "y.backward()", advice=".sum()",
    ),
    Mistake(
        "key that is not there",
        cell("""
            def f(x, options):
                return x * options["scal"]
            f(torch.ones(3), {"scale": 2.0})
        """),
        "KeyError", 'return x * options["scal"]', 'options["scal"]', advice="key",
    ),
    Mistake(
        "wrong dimension",
        cell("""
            def f(x):
                return x.sum(dim=2)
            f(torch.ones(3, 4))
        """),
        "IndexError", "return x.sum(dim=2)", "x.sum(dim=2)", "sum", ("f32[3, 4]",), "dim",
    ),
    Mistake(
        "dimensions in cat",
        cell("""
            def f(x, y):
                return torch.cat([x, y], dim=1)
            f(torch.ones(2, 3), torch.ones(2))
        """),
        "RuntimeError", "torch.cat([x, y], dim=1)", "torch.cat([x, y], dim=1)", "cat", ("f32[2, 3]", "f32[2]"),
        "unsqueeze",
    ),
    Mistake(
        "sizes in einsum",
        cell("""
            def f(x, y):
                return torch.einsum("ij,jk->ik", x, y)
            f(torch.ones(2, 3), torch.ones(4, 5))
        """),
        "RuntimeError", "torch.einsum(", 'torch.einsum("ij,jk->ik", x, y)', "einsum", ("f32[2, 3]", "f32[4, 5]"),
        "letter stands for one size",
    ),
    Mistake(
        "no self",
        cell("""
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layer = nn.Linear(3, 3)
                def forward(x):
                    return self.layer(x)
            Net()(torch.ones(2, 3))
        """),
        "TypeError", "Net()(torch.ones(2, 3))", "Net()(torch.ones(2, 3))", advice="first parameter is self",
    ),
    Mistake(
        "text and a tensor",
        cell("""
            def f(x):
                return "loss: " + x.sum()
            f(torch.ones(3))
        """),
        "TypeError", 'return "loss: " + x.sum()', '"loss: " + x.sum()', advice="f-string",
    ),
    Mistake(
        "a call instead of an index",
        cell("""
            def f(x):
                return x * x.shape(0)
            f(torch.ones(3))
        """),
        "TypeError", "return x * x.shape(0)", "x.shape(0)", advice="brackets",
    ),
    Mistake(
        "a device that is not there",
        cell("""
            def f(x):
                return x + torch.zeros(3, device="xpu")
            f(torch.ones(3))
        """),
        "AssertionError RuntimeError", 'torch.zeros(3, device="xpu")', 'torch.zeros(3, device="xpu")',
    ),
    Mistake(
        "floats as indices",
        cell("""
            table = nn.Embedding(10, 4)
            def f(i):
                return table(i)
            f(torch.ones(3))
        """),
        "RuntimeError", "return table(i)", "table(i)", "embedding", ("f32[3]", "f32[10, 4]"), ".long()",
    ),
    Mistake(
        "a class that is not there",
        cell("""
            def f(logits, target):
                return F.cross_entropy(logits, target)
            f(torch.randn(4, 3), torch.tensor([0, 1, 2, 3]))
        """),
        "IndexError", "F.cross_entropy(logits, target)", "F.cross_entropy(logits, target)",
        "cross_entropy", ("f32[4, 3]", "i64[4]"), "number of classes",
    ),
    Mistake(
        "a column of targets",
        cell("""
            def f(logits, target):
                return F.cross_entropy(logits, target)
            f(torch.randn(4, 3), torch.zeros(4, 1))
        """),
        "RuntimeError", "F.cross_entropy(logits, target)", "F.cross_entropy(logits, target)",
        "cross_entropy", ("f32[4, 3]", "f32[4, 1]"), ".squeeze(1)",
    ),
    Mistake(
        "a variable of one branch",
        cell("""
            def f(x):
                if x.shape[0] > 5:
                    y = x * 2
                return y
            f(torch.ones(3))
        """),
        "UnboundLocalError", "return y", "y", advice="every path",
    ),
    Mistake(
        "a gradient that is not there yet",
        cell("""
            net = nn.Linear(2, 2)
            def f(x):
                return net(x).sum() + net.weight.grad.norm()
            f(torch.ones(1, 2))
        """),
        "AttributeError", "net.weight.grad.norm()", "net.weight.grad.norm", advice="before backward()",
    ),
    Mistake(
        "one number of many",
        cell("""
            def f(x):
                return float(x) * 2
            f(torch.ones(3))
        """),
        "ValueError RuntimeError", "return float(x) * 2", "float(x)", advice="one element",
    ),
    Mistake(
        "a list of modules is called",
        cell("""
            layers = nn.ModuleList([nn.Linear(3, 3)])
            def f(x):
                return layers(x)
            f(torch.ones(2, 3))
        """),
        "NotImplementedError", "return layers(x)", "layers(x)", advice="nn.Sequential",
    ),
    Mistake(
        "a module that is not called",
        cell("""
            layer = nn.Linear(3, 3)
            def f(x):
                return layer + x
            f(torch.ones(2, 3))
        """),
        "TypeError", "return layer + x", "layer + x", advice="parentheses",
    ),
    Mistake(
        "a type as text",
        cell("""
            def f(x):
                return x.log_softmax(-1, dtype="float32")
            f(torch.ones(2, 3))
        """),
        "TypeError", "x.log_softmax(", 'x.log_softmax(-1, dtype="float32")', "log_softmax", ("f32[2, 3]",),
        "of type torch.dtype",
    ),
    Mistake(
        "an array of NumPy in a layer",
        cell("""
            import numpy
            net = nn.Linear(3, 3)
            def f(x):
                return net(x)
            f(numpy.ones((2, 3)))
        """),
        "TypeError", "return net(x)", "net(x)", "linear", ("f64[2, 3]", "f32[3, 3]"), "torch.from_numpy",
    ),
    Mistake(
        "a mask of another size",
        cell("""
            def f(x, mask):
                return x[mask]
            f(torch.ones(3), torch.tensor([True, False]))
        """),
        "IndexError", "return x[mask]", "x[mask]", "getitem", ("f32[3]", "b8[2]"), "mask",
    ),
    Mistake(
        "a wrong size in a module that is called outside of functions",
        cell("""
            net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(4, 2))
            net(torch.ones(2, 4))
        """),
        "RuntimeError", "net(torch.ones(2, 4))", "net(torch.ones(2, 4))", "linear",
        ("f32[2, 8]", "net[2].weight f32[2, 4]"), "in_features",
    ),
    Mistake(
        "a wrong keyword in a list of layers",
        cell("""
            net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(probability=0.1))
            net(torch.ones(2, 4))
        """),
        "TypeError", "nn.Dropout(probability=0.1)", "nn.Dropout(probability=0.1)", advice="no such keyword",
    ),
    Mistake(
        "a variable that was deleted",
        cell("""
            def f(x):
                y = x + 1
                del x
                return x * y
            f(torch.ones(3))
        """),
        "UnboundLocalError", "return x * y", "x", advice="`del` took it away".replace("`", ""),
    ),
    Mistake(
        "a float as an index",
        cell("""
            def f(x, i):
                return x[i]
            f(torch.ones(3), 1.0)
        """),
        "IndexError", "return x[i]", "x[i]", "getitem", ("f32[3]",), "int(...)",
    ),
    Mistake(
        "an array of NumPy and a tensor of another size",
        cell("""
            import numpy as np
            def f(x):
                return np.concatenate([x.numpy(), np.ones(2)]) + torch.ones(3)
            f(torch.ones(3))
        """),
        "TypeError", "+ torch.ones(3)", "np.concatenate([x.numpy(), np.ones(2)]) + torch.ones(3)", "add",
        ("f64[5]", "f32[3]"), "do not broadcast",
    ),
    Mistake(
        "wrong shapes without gradients",
        cell("""
            def f(x, w):
                with torch.no_grad():
                    h = x @ w
                return h
            f(torch.ones(2, 3), torch.ones(4, 5))
        """),
        "RuntimeError", "h = x @ w", "x @ w", "matmul", ("f32[2, 3]", "f32[4, 5]"), "last dimension",
    ),
    Mistake(
        "a list of tensors of several dtypes",
        cell("""
            def f(ts):
                out = ts[0]
                for t in ts[1:]:
                    out = out @ t
                return out
            f([torch.ones(2, 2), torch.ones(2, 2, dtype=torch.float64)])
        """),
        "RuntimeError", "out = out @ t", "out @ t", "matmul", ("f32[2, 2]", "f64[2, 2]"), ".to(",
    ),
    Mistake(
        "too few values for the names",
        cell("""
            def f(x):
                a, b, c = x.chunk(2)
                return a + b
            f(torch.ones(4))
        """),
        "ValueError", "a, b, c = x.chunk(2)", "a, b, c", advice="as many names",
    ),
    Mistake(
        "a list that was changed before the error",
        cell("""
            log = []
            def f(x):
                log.append(x.shape[0])
                return x @ torch.ones(5, 5)
            f(torch.ones(3, 3))
        """),
        "RuntimeError", "return x @ torch.ones(5, 5)", "x @ torch.ones(5, 5)", "matmul",
        ("f32[3, 3]", "f32[5, 5]"), "last dimension",
    ),
    Mistake(
        "an error in an inner function",
        cell("""
            def f(x):
                def inner(y):
                    return y.view(7)
                return inner(x + 1)
            f(torch.ones(3))
        """),
        "RuntimeError", "return y.view(7)", "y.view(7)", "view", ("f32[3]",), "elements",
    ),
    Mistake(
        "a method that is not called",
        cell("""
            def f(x):
                return x.sum + 1
            f(torch.ones(3))
        """),
        "TypeError", "return x.sum + 1", "x.sum + 1", advice="parentheses",
    ),
    Mistake(
        "a text times a tensor",
        cell("""
            def f(w, g):
                return w - "0.1" * g
            f(torch.ones(3), torch.ones(3))
        """),
        "TypeError", 'return w - "0.1" * g', '"0.1" * g', "mul", ("f32[3]",), "convert the other value",
    ),
    Mistake(
        "scores and target are swapped",
        cell("""
            def f(scores, target):
                return F.cross_entropy(target, scores)
            f(torch.randn(4, 3), torch.tensor([0, 1, 2, 1]))
        """),
        "NotImplementedError", "F.cross_entropy(target, scores)", "F.cross_entropy(target, scores)", "cross_entropy",
        ("i64[4]", "f32[4, 3]"), "perhaps the two are swapped",
    ),
    Mistake(
        "a module that is not installed",
        cell("""
            def f(x):
                import a_module_that_is_nowhere
                return x
            f(torch.ones(3))
        """),
        "ModuleNotFoundError", "import a_module_that_is_nowhere", "import a_module_that_is_nowhere",
        advice="is not installed here",
    ),
    Mistake(
        "a file that is not there",
        cell("""
            def f(x):
                with open("no/such/file") as opened:
                    return x * len(opened.read())
            f(torch.ones(3))
        """),
        "FileNotFoundError", 'with open("no/such/file") as opened:', 'open("no/such/file")', advice="os.getcwd()",
    ),
)  # fmt: skip

ODD_CELLS = {
    "torch.compile inside": "%%compile\n@torch.compile(backend='eager')\ndef f(x): return x + 1\nf(torch.ones(3))",
    "a name alone": "def later(x): return x + 1\n%compile later",
    "a generator": "%%compile\ndef g(x):\n    yield x + 1\nlist(g(torch.ones(3)))",
    "not called": "%%compile\ndef n(x): return x + 1",
    "print under fullgraph": "%%compile --fullgraph\ndef f(x):\n    print('hello')\n    return x + 1\nf(torch.ones(3))",
    "print in a loop": (
        "%%compile\ndef f(x):\n    y = x.sin()\n    for i in range(2):\n        y = y * 2\n        print(y.shape, y)\n"
        "    return y\nf(torch.ones(3))"
    ),
    "backward": "%%compile\ndef f(w, x):\n    loss = (w * x).sum()\n    loss.backward()\n    return w.grad\n"
    "f(torch.ones(3, requires_grad=True), torch.ones(3))",
    "step of an optimizer": (
        "%%compile\nnet = nn.Linear(4, 2)\nopt = torch.optim.Adam(net.parameters())\ndef step(x):\n"
        "    opt.zero_grad()\n    loss = net(x).sum()\n    loss.backward()\n    opt.step()\n    return loss\n"
        "step(torch.ones(3, 4))"
    ),
    "first time": "%%compile\ndef f(x):\n    return x.sin() * 3.25\nf(torch.ones(7))",
    "same cell again": "%%compile\ndef f(x):\n    return x.sin() * 3.25\nf(torch.ones(7))",
    "storm": "%%compile\ndef f(x, tag):\n    return x + len(tag)\nfor i in range(10): f(torch.ones(3), f'tag {i}')",
    "exception of one's own": "%%compile\ndef f(x):\n    y = x.sin()\n    raise ValueError('no')\nf(torch.ones(3))",
    "a generator, not called": "%%compile\ndef g(x):\n    yield x + 1",
    "a class, not called": "%%compile\nclass Net(nn.Module):\n    def forward(self, x):\n        return x",
    "an async function": "%%compile\nasync def f(x):\n    return x + 1\nf(torch.ones(3)).close()",
    "a recursion": ("%%compile\ndef f(x, n):\n    return x if n == 0 else f(x * 2, n - 1)\nf(torch.ones(3), 5)"),
    "an error between two calls": (
        "%%compile\ndef f(x):\n    return x.sin()\nf(torch.ones(2))\n1 / 0\nf(torch.ones(2))"
    ),
    "two functions, one skipped": (
        "%%compile\ndef good(x):\n    return x.cos() * 2\ndef bad(x):\n    for i in range(2):\n        print(i)\n"
        "    return x.sin()\ngood(torch.ones(2)), bad(torch.ones(2))"
    ),
    "a lambda": "%%compile\nh = lambda x: x.sin() + 1\nh(torch.ones(3))",
    "an error that is caught": (
        "%%compile\ndef f(x):\n    try:\n        return x @ torch.ones(7)\n    except RuntimeError:\n"
        "        return x\nf(torch.ones(3))"
    ),
    "a loop on data": (
        "%%compile\ndef f(x):\n    while x.sum() < 10:\n        x = x * 2\n    return x\nf(torch.ones(3))"
    ),
    "no inputs": "%%compile\ndef f():\n    return torch.ones(3).sin()\nf()",
    "numbers alone": "%%compile\ndef f(a, b):\n    return a + b\nf(1, 2)",
    "numpy and dict": (
        "%%compile\nimport numpy as np\ndef f(d):\n    return {'a': np.mean(d['x'].numpy())}\nf({'x': torch.ones(3)})"
    ),
}
"""Cells in which people look at what happens where it is not the usual."""


def run(cells: dict[str, str]) -> dict[str, dict[str, str]]:
    """Run cells in one new kernel, and return streams, first screen, and traceback of each."""
    book = nbformat.v4.new_notebook()
    book.cells = [nbformat.v4.new_code_cell(text) for text in (SETUP, *cells.values())]
    tour.run_cells(book, timeout=300, allow_errors=True)
    return {name: _outputs(ran.outputs) for name, ran in zip(cells, book.cells[1:], strict=True)}


def _outputs(outputs: list) -> dict[str, str]:
    found = {"stdout": "", "stderr": "", "plain": "", "html": "", "error": "", "traceback": ""}
    for each in outputs:
        if each.output_type == "stream":
            found[each.name] += each.text
        elif each.output_type == "error":
            found["error"] = f"{each.ename}: {each.evalue}"
            found["traceback"] = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(each.traceback))
        elif "text/html" in each.get("data", {}):
            found["plain"], found["html"] = each.data.get("text/plain", ""), each.data["text/html"]
    return found


def first_screen(found: dict[str, str]) -> str:
    """The first screen: the picture's summary, without the environment."""
    lines = found["plain"].split("\n\n")[0].split("\n")[2:-1] or found["stdout"].strip().split("\n")
    return re.sub(r"\s+", " ", " ".join(lines))


def advice_of(found: dict[str, str]) -> str:
    """The first screen's text beside the exception: the operator's call, and the advice."""
    lines = found["plain"].split("\n\n")[0].split("\n")
    carets = max(index for index, line in enumerate(lines) if line.strip() and set(line.strip()) == {"^"})
    after = itertools.takewhile(lambda line: not AFTER_ADVICE.match(line), lines[carets + 1 :])
    return " ".join(" ".join(after).split())


AFTER_ADVICE = re.compile(r"No frame|The whole function|Nothing |\w+ ran eagerly|\d+ frames? compiled|Python \d")
"""The sentences that come after the advice."""


def table() -> str:
    """A table with a row for each mistake: first screen, lines on stderr, and our frames in the traceback."""
    cells = {each.name: f"%%compile\n{each.cell}" for each in MISTAKES} | ODD_CELLS
    rows = []
    for name, found in run(cells).items():
        ours = len(re.findall(r"nbcompile/\w+[/\w]*\.py", found["traceback"]))
        rows.append(
            f"## {name}\n{first_screen(found)}\n\n- raises: {found['error'].splitlines()[:1]}\n"
            f"- lines on stderr: {len(found['stderr'].splitlines())}; lines of traceback: "
            f"{len(found['traceback'].splitlines())}, frames of nbcompile in it: {ours}\n"
        )
    return "\n".join(rows)


DRAWN = (
    "wrong size of a Linear", "a wrong size in a module that is called outside of functions", "a variable that was deleted",
    "index out of range in an embedding", "print under fullgraph", "step of an optimizer", "storm", "an error that is caught",
)  # fmt: skip
PAGE = '<!doctype html><meta charset=utf-8><meta name=color-scheme content="light dark"><body>'
LOOKS = {"light": ("light", 1280), "dark": ("dark", 1280), "narrow": ("light", 400)}


def draw(folder: Path) -> None:
    """Screenshots of the outputs of :data:`DRAWN`, each in each of :data:`LOOKS`."""
    cells = {each.name: f"%%compile\n{each.cell}" for each in MISTAKES} | ODD_CELLS
    found = run({name: cells[name] for name in DRAWN})
    folder.mkdir(parents=True, exist_ok=True)
    with importlib.import_module("playwright.sync_api").sync_playwright() as play:  # the tests do without it
        browser = play.chromium.launch(executable_path=shutil.which("chromium"))
        for look, (scheme, width) in LOOKS.items():
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            for name in DRAWN:
                page.set_content(f"{PAGE}{found[name]['html']}")
                page.screenshot(path=folder / f"{name.replace(' ', '_')}.{look}.png")
        browser.close()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--pictures"]:
        draw(Path(sys.argv[2]))
    else:
        print(table())  # noqa: T201
