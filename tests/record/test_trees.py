"""Tests of nbcompile/record/trees.py and views/static/trees.js: both evaluators agree."""

import json
import math
import random
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

import nbcompile
from nbcompile import views
from nbcompile.record import trees
from nbcompile.views import what_if

SCRIPT = Path(views.__file__).with_name("static") / "trees.js"
INTS = (0, 1, -1, 2, 3, -7, 10, 2**31, 2**63, -(2**70), 10**30)
FLOATS = (0.0, -0.0, 0.5, -2.5, 1.0, 3.0, 1e300, -1e-300, math.inf, -math.inf, math.nan, 0.1)
OTHERS = (True, False, None, "", "a", "b", "é", "\U0001f600")
NAMES = ("L['x'].size()[0]", "L['x'].size()[1]", "L['k']", "G['s']")


def test_texts_as_trees():
    """A condition on values becomes a tree with the same meaning; another guard has no tree."""
    assert trees.parse("2 <= L['x'].size()[0]") == {"op": "<=", "of": [{"int": "2"}, {"read": "L['x'].size()[0]"}]}
    tree = trees.parse("2 <= L['x'].size()[0] <= 9 and L['k'] % 2 == 1")
    assert trees.evaluate(tree, {"L['x'].size()[0]": 5, "L['k']": 3}) is True
    assert trees.evaluate(tree, {"L['x'].size()[0]": 10, "L['k']": 3}) is False
    assert trees.parse("check_tensor(L['x'], Tensor)") is None
    assert trees.parse("L[k]") is None
    assert trees.parse("f(") is None


def test_guards_of_a_function_as_trees():
    """The trees for the guards of a compiled function hold for its own call."""
    nbcompile.reset()

    def f(x, k):
        return x + k if x.shape[0] > 4 else x

    record = nbcompile.explain(nbcompile.compile(f, backend="eager", dynamic=True))(torch.ones(6, 5), 3).record
    told = [tree for each in record.frames[0].guards if (tree := trees.parse(each.condition)) is not None]
    values = {"L['x'].size()[0]": 6, "L['x'].size()[1]": 5, "L['x'].stride()[0]": 5, "L['k']": 3}
    assert told and all(trees.evaluate(each, values) for each in told)


def leaf(dice):
    if dice.random() < 0.4:
        return {"read": dice.choice(NAMES)}
    return constant(dice.choice(dice.choice((INTS, FLOATS, OTHERS))))


def constant(value):
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return {"value": value}
    return {"int": str(value)} if isinstance(value, int) else {"float": repr(value)}


def tree(dice, depth):
    if depth == 0 or dice.random() < 0.15:
        return leaf(dice)
    op = dice.choice([*trees.OPERATORS, "and", "or"])
    count = 1 if op in ("neg", "not", "abs", "isnan") else 2
    if op == "**":  # small exponents: a power of powers may be huge
        return {"op": op, "of": [leaf(dice), constant(dice.choice((0, 1, 2, 3, -1, 0.5)))]}
    return {"op": op, "of": [tree(dice, depth - 1) for _ in range(count)]}


def python_says(one, environment):
    try:
        value = trees.evaluate(one, environment)
    except Exception:
        return "error"
    if isinstance(value, complex):
        return "error"
    return constant(value)


def agree(python, page):
    """True if the values are equal; floats by value, and powers up to their last digits."""
    if python == "error" or page == "error" or "float" not in python or "float" not in page:
        return python == page
    first, second = float(python["float"]), float(page["float"])
    if math.isnan(first) or math.isnan(second):
        return math.isnan(first) and math.isnan(second)
    return math.isclose(first, second, rel_tol=1e-14) and math.copysign(1, first) == math.copysign(1, second)


DEEP = '{"op":"not","of":[' * 3000 + '{"read":"a"}' + "]}" * 3000


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[1]", "null", "1", DEEP, "[" * 100_000, '{"op":"+"}', '{"op":"+","of":[]}', '{"op":"+","of":[1]}',
        '{"op":"eval","of":[{"read":"a"}]}', '{"op":["+"],"of":[{"read":"a"}]}', '{"read":1}', '{"int":3}',
        '{"int":"three"}', '{"int":"%s"}' % ("9" * 10_000), '{"float":"x"}', '{"value":[]}', '{"value":1}', "{}",
        '{"read":"a","op":"+"}',
    ],
)  # fmt: skip
def test_what_is_no_tree_is_not_loaded(text):
    """A damaged or hostile tree in a record's file is rejected."""
    assert trees.load(text) is None


def test_trees_are_loaded_as_they_were_written():
    """A tree with each kind of constant reads back as an equal tree."""
    written = [
        trees.parse(text) for text in ("L['n'] + 1 == 3.5 or not L['n'] is None", "max(L['a'], 10 ** 30) == 'x'")
    ]
    written += map(constant, [True, None, "text", -(10**40), float("nan"), -0.0])
    assert [trees.load(json.dumps(one)) for one in written] == written


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not here")
def test_both_evaluators_say_the_same(tmp_path):
    """For 5,000 random trees and environments, values and types are equal, or both raise."""
    dice = random.Random(5)
    cases, number = [], {name: index for index, name in enumerate(NAMES)}
    for _ in range(5000):
        environment = {name: dice.choice(dice.choice((INTS, FLOATS, OTHERS))) for name in NAMES}
        one = tree(dice, dice.randrange(1, 4))
        given = {number[name]: constant(each) for name, each in environment.items()}
        cases.append((what_if.packed(one, number), given, python_says(one, environment)))
    (tmp_path / "cases.json").write_text(json.dumps([case[:2] for case in cases]))
    program = """
      const say = (v) => typeof v === "bigint" ? {int: v.toString()} : typeof v === "number"
        ? {float: Number.isNaN(v) ? "nan" : Object.is(v, -0) ? "-0.0" : v === Infinity ? "inf" : v === -Infinity ? "-inf" : v.toString()}
        : {value: v};
      const cases = JSON.parse(require("fs").readFileSync(process.argv[2]));
      console.log(JSON.stringify(cases.map(([tree, given]) => {
        const environment = Object.fromEntries(Object.entries(given).map(([k, v]) => [k, constant(v)]));
        try { return say(evaluate(tree, environment)); } catch (error) { return "error"; }
      })));
    """
    (tmp_path / "run.js").write_text(SCRIPT.read_text() + program)
    done = subprocess.run(
        ["node", tmp_path / "run.js", tmp_path / "cases.json"], capture_output=True, text=True, check=True
    )
    different = [
        (one, environment, python, page)
        for (one, environment, python), page in zip(cases, json.loads(done.stdout), strict=True)
        if not agree(python, page)
    ]
    assert not different, "\n".join(map(str, [len(different), *different[:8]]))
