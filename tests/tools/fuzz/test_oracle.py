"""The oracle of the fuzzer: what counts as a difference from eager mode."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from nbcompile.tools.fuzz import batches, oracle, program, tensors

CORPUS = sorted((Path(__file__).parents[2] / "fuzz_corpus").glob("*.py"))


SMALL = """
import torch

def f(x, items):
    items.append(1)
    y = x + 0.0
    if x.sum() > 0:
        y = y * 2
    return y

def play(compiled):
    items = []
    yield [compiled(f)(torch.ones(3), items), items]
"""


def made(source: str) -> program.Program:
    return program.Program("python", "test", source)


def test_equal_programs_are_equal():
    """A correctly compiled program has no difference."""
    outcome = oracle.examine(made(SMALL))
    assert (outcome.eager_error, outcome.difference, outcome.observations) == ("", None, 2)


WRONG = {
    "bits": lambda f: lambda x, items: f(x, items) * -0.0,
    "metadata": lambda f: lambda x, items: f(x, items).double(),
    "type": lambda f: lambda x, items: f(x, list(items)),
    "internal": lambda f: lambda x, items: 1 / 0,
}


@pytest.mark.parametrize("aspect", WRONG)
def test_what_is_noticed(aspect):
    """A wrong bit, dtype, type, or an exception is a difference of its kind."""
    outcome = oracle.examine(made(SMALL), WRONG[aspect])
    assert outcome.difference is not None
    assert outcome.difference.aspect == aspect


def test_the_sign_of_a_zero_and_memory():
    """The sign of zero differs, NaN does not, and a copy differs from a view."""
    source = "import torch\ndef f(x): return x[:1]\ndef play(compiled): x = torch.tensor([0.0, float('nan')]); yield [x, compiled(f)(x)]\n"
    assert oracle.examine(made(source), lambda f: f).difference is None
    assert oracle.examine(made(source), lambda f: lambda x: -f(x)).difference.aspect == "metadata"  # another memory
    assert oracle.examine(made(source), lambda f: lambda x: f(x.neg_())).difference.aspect == "bits"
    assert oracle.examine(made(source), lambda f: lambda x: f(x).clone()).difference.aspect == "metadata"


def test_a_compiled_function_is_seen_as_the_one_that_it_compiles():
    """A program that yields a compiled function has no difference."""
    source = "def f(x, k=2): return x\ndef play(compiled): yield compiled(f)\n"
    assert oracle.examine(made(source)) == oracle.Verdict(observations=2)


def test_rounding_is_no_mistake():
    """A distance within the program's rounding is no difference; a larger one, or a new NaN, is."""
    source = "import torch\ndef f(x): return x.exp().sum()\ndef play(compiled): yield compiled(f)(torch.arange(9.0))\n"
    approximate = program.Program("tensor", "test", source, approximate=True)
    assert oracle.examine(approximate, lambda f: lambda x: f(x) * (1 + 2**-22)).difference is None
    assert oracle.examine(approximate, lambda f: lambda x: f(x) * 1.001).difference.aspect == "value"
    assert oracle.examine(approximate, lambda f: lambda x: f(x) * torch.nan).difference.aspect == "value"


def test_a_distance_hides_nothing():
    """A possible rounding difference is reported only if there is no other one."""
    source = (
        "import torch\ndef f(x): return x, x.exp()\ndef play(compiled): yield compiled(f)(torch.arange(9.0))[::-1]\n"
    )
    approximate = program.Program("tensor", "test", source, approximate=True)

    def compiler(function):
        return lambda x: (function(x)[0].double(), function(x)[1] * 1.001)

    assert oracle.examine(approximate, compiler).difference.aspect == "metadata"


def test_which_programs_of_a_batch_differ():
    """The members that differ are known from the results and mutated inputs."""
    functions = [(f"def p(a):\n    return a + {number}\n", "[(torch.ones(2),)]") for number in range(4)]
    batch = program.Program("tensor", "test", batches.module(functions, tensors.PRELUDE), size=4)

    def compiler(function):
        def compiled(inputs):
            results = function(inputs)
            inputs[3][0].zero_()
            return [*results[:1], results[1] * 2, *results[2:]]

        return compiled

    assert oracle.examine(batch, compiler).members == (1, 3)


def test_what_eager_rejects():
    """A program that raises in eager mode counts as rejected."""
    assert oracle.examine(made("def play(compiled): yield nothing_of_this_name\n")).eager_error.startswith("NameError")


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_the_corpus(path):
    """Each fixed bug of the corpus equals eager mode."""
    outcome = oracle.examine(program.Program.read(str(path)))
    assert (outcome.eager_error, outcome.difference) == ("", None)


def test_a_nan_beside_it_excuses_no_distance():
    """Elements that rounding cannot change are compared; those that it can make infinite are not."""
    source = "import torch\ndef f(x): return {}\ndef play(compiled): yield compiled(f)(torch.tensor([{}]))\n"
    steady = source.format("x.exp()", "float('nan'), float('inf'), 1.0")
    steady = program.Program("tensor", "test", steady, approximate=True)
    # The last digit of exp decides whether it divides by 0.
    moving = source.format("1 / (x.exp() - 1)", "1.2e-7, " * 9 + "1.0")
    moving = program.Program("tensor", "test", moving, approximate=True)

    def scaled(*factors):
        return lambda f: lambda x: f(x) * torch.tensor(factors)

    assert oracle.examine(steady, scaled(1.0, 1.0, 1 + 2**-22)).difference is None
    assert oracle.examine(steady, scaled(1.0, 1.0, 1.001)).difference.aspect == "value"
    assert oracle.examine(steady, scaled(1.0, torch.nan, 1.0)).difference.aspect == "value"
    assert oracle.examine(moving, scaled(*[1.5] * 9, 1.0)).difference is None
    assert oracle.examine(moving, scaled(*[1.0] * 9, 1e10)).difference.aspect == "value"
