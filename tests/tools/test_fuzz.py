"""The fuzzer: what it makes, what it notices, how small it makes it, and what its command says."""

from __future__ import annotations

import itertools
import json
import os
import signal
import types
from pathlib import Path

import pytest
import torch

import nbcompile
from nbcompile.tools.fuzz import (
    __main__ as command,
    batches,
    campaign,
    guards,
    networks,
    oracle,
    program,
    python,
    reduction,
    tensors,
    units,
)
from nbcompile.tools.fuzz.excluded import TABLE, excluded

CORPUS = sorted((Path(__file__).parents[1] / "fuzz_corpus").glob("*.py"))

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


@pytest.mark.parametrize("generate", [python.generate, guards.generate, networks.generate])
def test_a_seed_is_a_program(generate):
    """The same seed gives the same text, another seed another, and Python can read it."""
    assert generate("1") == generate("1")
    assert generate("1").source != generate("2").source
    compile(generate("1").source, "<test>", "exec")


def test_a_batch_and_its_programs(monkeypatch):
    """A batch of tensor programs is one function; halves of it can be played, down to single programs."""
    monkeypatch.setattr(tensors, "BATCH", 3)
    batch = tensors.generate("7")
    halves = list(batches.halves(batch))
    assert [half.size for half in halves] == [1, 2]
    assert not list(batches.halves(halves[0]))
    for played in [batch, *halves]:
        assert oracle.play(played, lambda function: function).error is None


def test_programs_that_differ_are_taken_out_of_a_batch(monkeypatch):
    """Of a batch all programs that differ are found, each by itself; what takes several is found whole."""
    functions = [(f"def p(a):\n    return a + {number}\n", "(1,)") for number in range(5)]
    batch = program.Program("tensor", "test", batches.module(functions, tensors.PRELUDE), size=5)
    wrong = oracle.Difference("bits", "", "", "")

    def differs_with(*needed):
        return lambda played: oracle.Verdict(difference=wrong if any(map(played.source.count, needed)) else None)

    def sizes(outcome):
        return [found.size for found, _ in units.apart(batch, outcome)]

    unknown, known = oracle.Verdict(difference=wrong), oracle.Verdict(difference=wrong, members=(1, 2, 4))
    monkeypatch.setattr(oracle, "examine", differs_with("a + 1", "a + 4"))
    assert sizes(unknown) == sizes(known) == [1, 1]
    monkeypatch.setattr(oracle, "examine", differs_with("nothing"))
    assert sizes(unknown) == sizes(known) == [5]
    rounded = oracle.Verdict(difference=oracle.Difference("value", "", "", ""), members=(3,))
    assert sizes(rounded) == []


def test_which_programs_of_a_batch_differ():
    """Results say which; what a program does to its inputs counts as its result."""
    functions = [(f"def p(a):\n    return a + {number}\n", "(torch.ones(2),)") for number in range(4)]
    batch = program.Program("tensor", "test", batches.module(functions, tensors.PRELUDE), size=4)

    def compiler(function):
        def compiled(inputs):
            results = function(inputs)
            inputs[3][0].zero_()
            return [*results[:1], results[1] * 2, *results[2:]]

        return compiled

    assert oracle.examine(batch, compiler).members == (1, 3)


def test_a_distance_hides_nothing():
    """What may be rounding is told only where nothing else differs."""
    source = (
        "import torch\ndef f(x): return x, x.exp()\ndef play(compiled): yield compiled(f)(torch.arange(9.0))[::-1]\n"
    )
    approximate = program.Program("tensor", "test", source, approximate=True)

    def compiler(function):
        return lambda x: (function(x)[0].double(), function(x)[1] * 1.001)

    assert oracle.examine(approximate, compiler).difference.aspect == "metadata"


@pytest.mark.parametrize(
    ("lines", "alone"),
    [
        (["a.t_()"], True),
        (["v0 = a.t()"], False),
        (["a.add_(1)"], False),
        (["v0 = a.expand(2, 3, 2)"], False),
        (["v0 = a.expand(2, 3, 2)", "v0[0].copy_(v0[-1])"], True),
        (["v0 = a.expand(2, 3, 2)", "v1 = v0 + 1", "v1.add_(1)"], False),
        (["v0 = a.view(torch.int32)"], True),
        (["v0 = a.double()", "v1 = v0.view(torch.uint8)"], True),
        (["v0 = a.t()", "v0.fill_diagonal_(1)"], True),
    ],
)
def test_one_program_does_not_take_the_batch_from_the_code_generator(lines, alone):
    """Programs that make a graph run operator by operator are told, so that they have batches of their own."""
    returned = ["a"] + [line.partition(" = ")[0] for line in lines if " = " in line]
    scope = {"torch": torch}
    assert tensors.runs_by_operator(lines, {"a": torch.ones(3, 2)}, scope, returned) == alone


def test_what_is_known_is_not_generated():
    """A statement is left out for the values for which its difference is known, and only for these."""
    known = {"a": torch.ones(3, 2).t(), "b": torch.ones(2, 3), "c": torch.tensor([1.0, -0.0])}
    assert "fake tensors promise" in excluded("v0 = a.roll(1)", known)
    assert not excluded("v0 = b.roll(1)", known)
    assert "zeros" in excluded("v0 = torch.maximum(c, b)", known)
    assert not excluded("v0 = c.clamp(-1, 1)", known)
    grids = {"d": torch.tensor([0.5, torch.nan]), "e": torch.tensor([0.5, -7.0])}
    assert "grid" in TABLE[-2].pattern and excluded("v0 = F.grid_sample(b, d)", known | grids) == TABLE[-2].reason
    assert not excluded("v0 = F.grid_sample(b, e)", known | grids)
    assert all(row.reason for row in TABLE)


def test_only_objects_that_are_used_are_made():
    """An object that no statement names is neither made nor returned; one that a statement names is both."""
    text = python.source(["    i = meta.count"], [])
    assert "meta = Meta()" in text
    assert "return (x, y, z, n, i, j, items, table, thing, out, s, meta)" in text
    assert "slotted = " not in text


def test_equal_programs_are_equal():
    """A program that is compiled rightly shows nothing."""
    outcome = oracle.examine(made(SMALL))
    assert (outcome.refused, outcome.difference, outcome.observations) == ("", None, 2)


WRONG = {
    "bits": lambda f: lambda x, items: f(x, items) * -0.0,
    "metadata": lambda f: lambda x, items: f(x, items).double(),
    "type": lambda f: lambda x, items: f(x, list(items)),
    "internal": lambda f: lambda x, items: 1 / 0,
}


@pytest.mark.parametrize("aspect", WRONG)
def test_what_is_noticed(aspect):
    """A wrong bit, dtype, side effect or an exception is a difference of its kind."""
    outcome = oracle.examine(made(SMALL), WRONG[aspect])
    assert outcome.difference is not None
    assert outcome.difference.aspect == aspect


def test_the_sign_of_a_zero_and_memory():
    """Zeros of unlike signs differ, NaNs do not, and a copy is not a view."""
    source = "import torch\ndef f(x): return x[:1]\ndef play(compiled): x = torch.tensor([0.0, float('nan')]); yield [x, compiled(f)(x)]\n"
    assert oracle.examine(made(source), lambda f: f).difference is None
    assert oracle.examine(made(source), lambda f: lambda x: -f(x)).difference.aspect == "metadata"  # another memory
    assert oracle.examine(made(source), lambda f: lambda x: f(x.neg_())).difference.aspect == "bits"
    assert oracle.examine(made(source), lambda f: lambda x: f(x).clone()).difference.aspect == "metadata"


def test_a_compiled_function_is_seen_as_the_one_that_it_compiles():
    """That a program yields the compiled function itself is no difference."""
    source = "def f(x, k=2): return x\ndef play(compiled): yield compiled(f)\n"
    assert oracle.examine(made(source)) == oracle.Verdict(observations=2)


def test_rounding_is_no_mistake():
    """A distance within what rounding makes of the program is none; a larger one is, and so is a NaN elsewhere."""
    source = "import torch\ndef f(x): return x.exp().sum()\ndef play(compiled): yield compiled(f)(torch.arange(9.0))\n"
    approximate = program.Program("tensor", "test", source, approximate=True)
    assert oracle.examine(approximate, lambda f: lambda x: f(x) * (1 + 2**-22)).difference is None
    assert oracle.examine(approximate, lambda f: lambda x: f(x) * 1.001).difference.aspect == "value"
    assert oracle.examine(approximate, lambda f: lambda x: f(x) * torch.nan).difference.aspect == "value"


def test_what_eager_refuses():
    """What eager cannot play is counted as that."""
    assert oracle.examine(made("def play(compiled): yield nothing_of_this_name\n")).refused.startswith("NameError")


def test_reduction(monkeypatch):
    """What does not matter for a difference goes."""
    monkeypatch.setattr(nbcompile, "compile", lambda f, **_: lambda x, items: -f(x, items))
    found = oracle.examine(made(SMALL)).difference
    small, difference = reduction.reduced(made(SMALL), found, seconds=10)
    assert difference.aspect == found.aspect
    assert "if " not in small.source
    assert len(small.source) < len(SMALL) - 60
    assert reduction.cause(small, difference).startswith("python bits:")


def test_a_file_that_runs_alone(tmp_path):
    """A program's file holds all that it is."""
    path = tmp_path / "found.py"
    for each in [made(SMALL), networks.generate("1"), guards.generate("2")]:
        path.write_text(each.text())
        read = program.Program.read(str(path))
        assert (read.kind, read.backend, read.approximate) == (each.kind, each.backend, each.approximate)
        assert read.source.strip() == each.source.strip()


def test_a_campaign_goes_on(tmp_path):
    """Counts and causes are kept; a cause is new once."""

    plan = campaign.Plan(1000.0, 1, ("python",), 1, tmp_path, ask_peer=False)
    run = campaign.Campaign(plan, campaign.State())
    (tmp_path / "causes").mkdir()
    run.count("python", {"programs": 3, "refused": 1, "seconds": 1.0, "found": [{"cause": "c", "text": "x"}] * 2})
    kept = json.loads((tmp_path / "state-1.json").read_text())
    assert kept["programs"] == {"python": 3}
    assert kept["causes"]["c"]["count"] == 2
    assert run.new == 1
    assert len(list((tmp_path / "causes").iterdir())) == 1


def test_a_unit_that_ends_its_process(tmp_path, monkeypatch, capsys):
    """A process that crashes is a finding, its unit is not played again, and the campaign goes on."""
    played = {"programs": 2, "refused": 0, "seconds": 1.0, "found": []}
    monkeypatch.setattr(campaign.units, "warm_up", lambda kinds: None)
    monkeypatch.setattr(
        campaign.units,
        "play_unit",
        lambda kind, seed, unit, *_: os.kill(os.getpid(), signal.SIGKILL) if unit == 1 else played,
    )
    looks = itertools.count()  # a clock that counts: the machine's speed does not matter
    monkeypatch.setattr(campaign, "time", types.SimpleNamespace(monotonic=lambda: float(next(looks))))
    plan = campaign.Plan(60.0, 1, ("python", "nn"), 2, tmp_path, ask_peer=False)
    assert campaign.run(plan) == 2  # one of each kind
    kept = campaign.State.read(tmp_path / "state-1.json")
    assert min(kept.programs["python"], kept.programs["nn"]) >= 2
    assert "python ends the process (SIGKILL): unit 1" in capsys.readouterr().out


def test_counts_as_json(tmp_path, monkeypatch, capsys):
    """--json prints the counts alone; what is found goes to standard error."""

    def run(plan):
        campaign.State().write(plan.folder / f"state-{plan.seed}.json")
        print("new: something")
        return 3

    monkeypatch.setattr(campaign, "run", run)
    assert command.main(["--json", "--out", str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out)["new_causes"] == 3
    assert "new: something" in printed.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--kind", "nothing"], "no kind of program is called 'nothing'"),
        (["--seconds", "0"], "more than 0"),
        (["--replay", "/nowhere.py"], "No such file"),
        (["--unit", "python"], "KIND/NUMBER"),
    ],
)
def test_wrong_options(capsys, arguments, words):
    """One line says what is wrong; the status is 2."""
    with pytest.raises(SystemExit) as ended:
        command.main(arguments)
    assert ended.value.code == 2
    assert words in capsys.readouterr().err.splitlines()[-1]


def test_one_unit_in_this_process(capsys):
    """Some programs of a kind, and what they counted."""
    assert command.main(["--unit", "python/0", "--seed", "9"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["programs"] > 10


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_the_corpus(path):
    """What was found once, and mended, is as in eager."""
    outcome = oracle.examine(program.Program.read(str(path)))
    assert (outcome.refused, outcome.difference) == ("", None)
