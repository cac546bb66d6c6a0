"""The what-if form: the page's answers are those of the guards and of the compiler."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import random
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

import nbcompile
from nbcompile import api
from nbcompile.capture.resolution import Scope
from nbcompile.dispatch import cache
from nbcompile.recording import guard_explorer as told
from nbcompile.views import html, what_if
from tests.views import sample_records as sample

STATIC = Path(what_if.__file__).parent / "static"


class Thing:
    def __init__(self, size):
        self.size = size


SCALE = 2


def helper(x):
    return x + 1


def other_helper(x):
    return x + 2


def sizes(x, k):
    return x * k + x.shape[0]


def many_kinds(x, mode, flag, limit):
    if flag and mode == "up" and limit is not None:
        return x + limit
    return x - 1


def containers(xs, settings, thing):
    total = xs[0] + thing.size
    for each in xs[1:]:
        total = total + each
    return total * settings["scale"] if "scale" in settings else total


def two_tensors(x, y):
    return x.add(y) if x.shape[0] > 4 else x.mul(y)


def outside(x):
    return HELPER(x) * SCALE


def constants(x, shape, dtype):
    return x.reshape(shape).to(dtype)


HELPER = helper


def a_tensor(dice):
    made = torch.ones(
        [dice.choice((1, 2, 3, 4, 6)) for _ in range(dice.choice((1, 2, 2, 2, 3)))],
        dtype=dice.choice((torch.float32, torch.float32, torch.float64)), requires_grad=dice.random() < 0.2,
    )  # fmt: skip
    if dice.random() < 0.2:
        made = made.transpose(0, -1)
    if dice.random() < 0.05:
        torch._dynamo.mark_dynamic(made, 0) if made.is_leaf else None
    return torch.nn.Parameter(made.detach()) if dice.random() < 0.1 else made


def a_number(dice):
    return dice.choice((0, 1, 2, 3, 2**70, 1.0, 2.5, 0.0, -0.0, math.nan, math.inf, True))


def two(dice):
    first = a_tensor(dice)
    return {"x": first, "y": first if dice.random() < 0.2 else torch.ones_like(first) if dice.random() < 0.7 else a_tensor(dice)}  # fmt: skip


def some(dice):
    xs = [torch.ones(3) for _ in range(dice.choice((1, 2, 3)))]
    settings = {"scale": dice.choice((2, 3)), "other": 1} if dice.random() < 0.7 else {}
    return {"xs": xs if dice.random() < 0.9 else tuple(xs), "settings": settings, "thing": Thing(dice.choice((1, 2)))}


PROGRAMS = {
    "sizes": (sizes, {}, lambda dice: {"x": a_tensor(dice), "k": a_number(dice)}),
    "dynamic": (sizes, {"dynamic": True}, lambda dice: {"x": a_tensor(dice), "k": dice.choice((2, 3, 5))}),
    "kinds": (many_kinds, {}, lambda dice: {
        "x": torch.ones(dice.choice((2, 3))), "mode": dice.choice(("up", "down", "<b>")),
        "flag": dice.choice((True, False, 1)), "limit": dice.choice((None, 1, 2.0)),
    }),
    "containers": (containers, {}, some),
    "two": (two_tensors, {"dynamic": True}, two),
    "outside": (outside, {}, lambda dice: {"x": a_tensor(dice)}),
    "constants": (constants, {}, lambda dice: {
        "x": torch.ones(6), "shape": dice.choice(((2, 3), (3, 2), (6,))), "dtype": dice.choice((torch.float32, torch.int64)),
    }),
}  # fmt: skip


@contextlib.contextmanager
def surroundings(dice):
    """A change of the process state, or of a global, in some calls."""
    global HELPER, SCALE
    HELPER, SCALE = dice.choice((helper, helper, other_helper)), dice.choice((2, 2, 3))
    grad = torch.set_grad_enabled(dice.random() > 0.05)
    previous = torch.get_default_dtype()
    if dice.random() < 0.05:
        torch.set_default_dtype(torch.float64)
    try:
        with grad, torch.autocast("cpu", enabled=True) if dice.random() < 0.05 else contextlib.nullcontext():
            yield
    finally:
        torch.set_default_dtype(previous)
        HELPER, SCALE = helper, 2


def recorded(function, options, calls, dice=None):
    """The record of some calls of a new function."""
    nbcompile.reset()
    compiled = nbcompile.compile(function, backend="eager", **options)
    recorder = api.new_recorder(function.__name__)
    with recorder.listening():
        for arguments in calls:
            with surroundings(dice) if dice else contextlib.nullcontext(), contextlib.suppress(Exception):
                compiled(**arguments)
    return recorder.record()


def in_the_page(cases):
    """The answers of the page's script for each (data, calls)."""
    program = """
      const say = cases => cases.map(([data, calls]) => {
        const ready = prepare(data);
        return calls.map(call => {
          const values = Object.fromEntries(Object.entries(call).map(([r, v]) => [r, constant(v)]));
          return [judge(ready, values), predict(ready, values)];
        });
      });
      console.log(JSON.stringify(say(JSON.parse(require("fs").readFileSync(0, "utf8")))));
    """
    return in_node(["view", "trees", "what_if"], program, cases)


def in_node(names, program, given):
    """The output of a program after some parts of the shipped script."""
    parts = "".join((STATIC / f"{name}.js").read_text() for name in names)
    done = subprocess.run(
        ["node", "-e", parts + program], input=json.dumps(given), capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def asked(record):
    [group] = what_if.compiled_calls(record)
    return what_if.Query(group)


def as_page_values(names, values):
    return {names.index(name): what_if._value(repr(value)) for name, value in values.items() if name in names}


node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not here")


@node
@pytest.mark.parametrize("count", [400, pytest.param(5000, marks=pytest.mark.slow)])
def test_the_page_says_what_the_guards_say(count):
    """For random calls and each entry, the page's answer and its failed guard are those of the C++ guards."""
    dice, cases, real = random.Random(3), [], []
    for function, options, arguments in PROGRAMS.values():
        record = recorded(function, options, [arguments(dice) for _ in range(5)], dice)
        page, code = asked(record), function.__code__
        entries = {each.compile_id: each for each in cache.entries(code)}
        checks = [entries[frame.id].check for frame in reversed(page.frames)]
        calls = []
        for _ in range(-(-count // len(PROGRAMS))):
            with surroundings(dice):
                scope = Scope(code, arguments(dice), globals(), vars(__builtins__) if not isinstance(__builtins__, dict) else __builtins__)  # fmt: skip
                failing = [next(check.failing(scope), None) for check in checks]
                holds = [check.holds(scope) for check in checks]
                calls.append(as_page_values(page.names, told.readings_of(code).take(scope)))
            real.append(
                (
                    holds,
                    [
                        -1 if each is None else check.prepared.index(each)
                        for check, each in zip(checks, failing, strict=True)
                    ],
                )  # fmt: skip
            )
        cases.append((page.data(page.fields()), calls))
    said = [judged for case in in_the_page(cases) for judged, _ in case]
    assert len(said) == len(real) >= count
    accepted = sum(any(holds) for holds, _ in real)
    assert 0.05 * len(real) < accepted < 0.9 * len(real), "calls of both kinds"
    for (holds, first), judged in zip(real, said, strict=True):
        assert [each < 0 for each in judged] == holds
        assert judged == first


def next_compile(calls, call, dice):
    """A call after some calls of `sizes`: the page's input, and the new entry's symbols, or None."""
    record = recorded(sizes, {}, calls, dice)
    if not what_if.compiled_calls(record):
        return None  # eager mode rejects all of these calls
    page = asked(record)
    call = {**call, "x": call["x"].detach()}
    frame = Scope(sizes.__code__, call, globals(), {})
    if any(each.check.holds(frame) for each in cache.entries(sizes.__code__)):
        return None
    values = as_page_values(page.names, told.readings_of(sizes.__code__).take(frame))
    recorder = api.new_recorder("sizes")
    with recorder.listening(), contextlib.suppress(Exception):
        nbcompile.compile(sizes, backend="eager")(**call)
    frames = recorder.record().frames[-1:]
    if not frames or frames[0].status != "compiled":
        return None  # the limit of entries, or a program that rejects each call in eager mode, too
    return page, values, {source for symbol in frames[0].symbols for source in symbol.sources}


def foretold(cases):
    """The symbols that the page predicts, and the actual ones, for each call."""
    answers = in_the_page([(page.data(page.fields()), [values]) for page, values, _ in cases])
    for (page, _, came), [[_, said]] in zip(cases, answers, strict=True):
        yield {page.names[each] for each in said["symbols"]}, came


@node
@pytest.mark.parametrize("count", [6, pytest.param(60, marks=pytest.mark.slow)])
def test_the_page_foretells_the_symbols_of_the_next_compile(count):
    """After a call that no entry accepts, the new entry has the predicted symbols."""
    dice, cases, arguments = random.Random(7), [], PROGRAMS["sizes"][2]
    while len(cases) < count:
        calls = [arguments(dice) for _ in range(3)]
        if (case := next_compile(calls, arguments(dice), dice)) is not None:
            cases.append(case)
    for said, came in foretold(cases):
        assert said == came


@node
@pytest.mark.parametrize(
    ("before", "now", "is_symbol"),
    [(1.0, 1, False), (-0.0, 0, False), (True, 5, False), (math.nan, 5, False), (2, 5, True), (2, math.nan, False)],
)
def test_what_counts_as_another_number(before, now, is_symbol):
    """1 and 1.0 are the same number, and so are both zeros; bools and nan are no numbers."""
    calls = [{"x": torch.ones(3), "k": before}]
    case = next_compile(calls, {"x": torch.ones(3, 3), "k": now}, random.Random(7))
    [(said, came)] = foretold([case])
    assert said == came
    assert ("L['k']" in came) is is_symbol


def three_entries():
    calls = [
        {"x": torch.ones(3, 4), "k": 2},
        {"x": torch.ones(5, 4), "k": 2},
        {"x": torch.ones(5, 4, dtype=torch.float64), "k": 2},
    ]
    return recorded(sizes, {}, calls)


@pytest.mark.browser
def test_the_form_works_by_keyboard(browser_page):
    """Tab reaches each field; the answer follows the typed text at once, and an invalid value is marked."""
    page = browser_page(html.render(three_entries(), "what_if"))
    verdict = page.locator(".n-what [role=status]")
    assert verdict.inner_text() == "Hit: 0/2 runs. Nothing is compiled."
    page.keyboard.press("Tab")
    reached = []
    for _ in range(14):
        reached.append(
            page.evaluate("document.activeElement.getAttribute('aria-label') || document.activeElement.textContent")
        )
        if reached[-1] == "x: shape, your call":
            break
        page.keyboard.press("Tab")
    assert reached[-1] == "x: shape, your call", reached
    page.keyboard.press("Control+a")
    page.keyboard.type("7, 4")
    assert verdict.inner_text().startswith("Hit: 0/2")
    page.keyboard.press("Control+a")
    page.keyboard.type("5, 6")
    said = verdict.inner_text()
    assert "0/2: x.size()[1] must be 4, is 6; 0/1: x.dtype must be 'torch.float32', is 'torch.float64'" in said
    assert "with symbols for what differed between calls: x.size()[0], x.size()[1]" in said
    page.keyboard.press("Control+a")
    page.keyboard.type("5, six")
    assert verdict.inner_text() == "x: shape: write sizes, as in 3, 4"
    assert page.locator("[aria-invalid=true]").count() == 1
    page.get_by_text("as for 0/0").press("Enter")
    assert verdict.inner_text() == "Hit: 0/1 runs. Nothing is compiled.", (
        "the entry for any size is newer than that for 3"
    )
    assert page.locator(".n-entry output").all_inner_texts() == ["rejects", "accepts", "not checked"]
    page.locator(".n-what details").first.locator("summary").press("Enter")
    page.get_by_label("grad mode, your call").select_option("False")
    assert "grad_mode must be True, is False" in verdict.inner_text()


@pytest.mark.browser
def test_the_limit_and_constants_are_shown(browser_page):
    """At the limit of entries the call would run as Python; a size of 1 is a constant."""
    with nbcompile.config.patch(recompile_limit=3):
        record = three_entries()
    page = browser_page(html.render(record, "what_if"))
    page.get_by_label("x: shape, your call").fill("5, 4, 1")
    assert "The limit of 3 entries is reached: it would run eagerly." in page.locator("[role=status]").last.inner_text()  # fmt: skip


def test_without_scripts_calls_and_guards_stand_as_they_are():
    """Without scripts the page has the table of calls, and each entry's guards in order, newest entry first."""
    record = three_entries()
    text = html.render(record, "what_if", assets=False)
    assert text.index("checked first") < text.index("checked next")
    for frame in record.frames:
        for guard in frame.guards:
            assert str(html.tag("code", guard.condition)) in text
    assert "<td><code>(5, 4)</code></td>" in text


def test_texts_of_the_user_stay_texts_in_the_data():
    """A value of a call cannot end the element with the data."""
    calls = [{"x": torch.ones(2), "mode": "</script><img src=x onerror=alert(1)>", "flag": True, "limit": None}]
    text = html.render(recorded(many_kinds, {}, calls), "what_if", assets=False)
    assert "<img" not in text
    assert text.count("</script>") == 1


def test_unusual_tensors_and_objects_are_no_obstacle():
    """Sparse tensors and objects that raise are compiled, recorded and shown, without fields in the form."""

    class Difficult:
        size = 2

        def __len__(self):
            raise RuntimeError

        def __repr__(self):
            raise RuntimeError

    def f(x, thing):
        return x + x if thing.size == 2 else x

    for x in (torch.eye(3).to_sparse(), torch.eye(3).to_sparse_csr()):
        record = recorded(f, {}, [{"x": x, "thing": Difficult()}])
        assert not any("internal error" in frame.skip_reason for frame in record.frames)
        html.render(record, "what_if")


def test_it_is_shown_by_default_only_after_a_recompilation():
    """A simple output has no form; after a recompilation, and in a report, it has one."""
    assert "What if" not in html.render(sample.simple())
    record = three_entries()
    assert "What if the call were another?" in html.render(record)
    assert len(html.render(record, "what_if").encode()) < 40_000


DAMAGED = [
    ("test", "{"), ("test", "[1]"), ("test", '{"op":"+"}'), ("test", '{"op":"not","of":[' * 3000 + "]}" * 3000),
    ("readings", "("), ("readings", "[]"), ("readings", "{[]: 1}"), ("readings", "(" * 3000 + ")" * 3000),
    ("readings", "-" * 100_000 + "1"), ("readings", "9" * 10_000),
]  # fmt: skip


@pytest.mark.parametrize(("field", "text"), DAMAGED, ids=[text[:9] for _, text in DAMAGED])
def test_a_damaged_record_is_shown_without_the_form(field, text):
    """A record with a damaged guard is shown without the form."""
    (frame,) = sample.simple().frames
    if field == "test":
        frame = dataclasses.replace(frame, guards=(dataclasses.replace(frame.guards[0], test=text), *frame.guards[1:]))
    else:
        readings = tuple(dataclasses.replace(reading, value=text) for reading in frame.readings)
        frame = dataclasses.replace(frame, readings=readings)
    shown = html.render(dataclasses.replace(sample.simple(), frames=(frame,)), ["guards", "what_if"], assets=False)
    assert "TENSOR_MATCH" in shown
    assert ("n-entry" in shown) == (field == "readings")
