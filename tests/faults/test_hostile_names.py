"""Names and texts of the user reach C++, HTML, JSON and paths as text only."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import re
import tokenize
import warnings

import pytest
import torch

import nbcompile
from nbcompile.codegen.writer import SourceWriter
from nbcompile.record import codec
from nbcompile.views import html, text
from tests.views import sample_records as sample
from tests.views.test_html import Page

MARK = "INJECTED"
HOSTILE = [
    f"\"'`{MARK}",
    f"*/ int {MARK} = 1; /*",
    f"a\n#error {MARK}\n",
    f"a\r#error {MARK}\r",
    f"</script><script>{MARK}</script>",
    f"</style><img src=x onerror={MARK}>",
    f"<!--{MARK}",
    f"{{{{{MARK}}}}} {{{MARK}}} {{0.__class__}}",
    f"\\{MARK}\\",
    f"\\\n{MARK}",
    f"??/\n#error {MARK}",
    f"a\0{MARK}",
    "long" * 5000 + MARK,
    f"\N{RIGHT-TO-LEFT OVERRIDE}{MARK}\N{PARTY POPPER}",
    f"../../../../tmp/{MARK}",
    f"%s%n%d{MARK}",
    f"\ud800{MARK}",
    f"$({MARK}) `{MARK}` ; {MARK}",
]
each_hostile = pytest.mark.parametrize("word", HOSTILE, ids=range(len(HOSTILE)))
"""Their numbers are their names: pytest hands the name of a test to the environment."""


class Thing:
    """Attributes are set on it."""


def elements(page: str) -> dict[str, int]:
    """The elements whose number no text may change."""
    parsed = Page(page)
    assert not [key for key, _ in parsed.attributes if key.startswith("on") or key == "href"]
    assert set(parsed.tags) <= ORDINARY, set(parsed.tags) - ORDINARY
    return {tag: parsed.tags[tag] for tag in ("script", "style", "img", "svg", "iframe")}


ORDINARY = set()


def shown(function, *arguments):
    """The result of a compiled call; its record is drawn both ways, written and read."""
    nbcompile.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        explained = nbcompile.explain(function)(*arguments)
    record = explained.record
    written = codec.to_json(record)
    assert codec.to_json(codec.from_json(written)) == written
    page = html.render(record, limit=None)
    page.encode()
    text.render(record).encode()
    for show in ("code", "guards"):
        with contextlib.suppress(KeyError, ValueError):
            text.render(record, show).encode()
    return explained.result, page, record


def plain(x, thing, table, key):
    """What the hostile names are given to."""
    y = x * thing.scale
    return (y + table[key]).relu().sum()


@pytest.fixture(scope="module", autouse=True)
def ordinary():
    """The elements of pages of programs with ordinary names."""
    for make in sample.ALL.values():
        ORDINARY.update(Page(html.render(make(), limit=None)).tags)
    for function, arguments in (named("k"), broken("k")):
        ORDINARY.update(Page(shown(function, *arguments)[1]).tags)


def named(word):
    """A function whose name, file, variables and keys are the word, and its arguments."""
    thing, table = Thing(), {word: 2.0}
    thing.scale = 3.0
    setattr(thing, word, 4.0)

    def f(x, thing, table, key):
        y = x * thing.scale + getattr(thing, word)
        return (y + table[word]).relu().sum()

    code = f.__code__
    names = {"co_name": word, "co_qualname": word, "co_filename": word}
    names["co_varnames"] = tuple(each + word for each in code.co_varnames)
    f.__code__ = code.replace(**names)
    f.__name__ = f.__qualname__ = word
    return f, (torch.arange(-2.0, 3.0), thing, table, word)


def broken(word):
    """A graph break and an exception whose text is the word."""

    def f(x):
        y = x + 1
        try:
            print(end=word[:0])
            raise ValueError(word)
        except ValueError as error:
            y = y * len(str(error))
        return y.cos()

    f.__code__ = f.__code__.replace(co_name=word, co_filename=word)
    return f, (torch.arange(3.0),)


def reaches_no_code(record, word):
    """Generated code has the word in no line, but for strings and comments of one line."""
    for frame in record.frames:
        graph = frame.compiled_graph
        for kernel in graph.kernels if graph else ():
            for line in kernel.source.splitlines():
                code = re.sub(r'"(\\.|[^"\\])*"', '""', line).partition("//")[0]
                assert MARK not in code, line[:300]


@each_hostile
@pytest.mark.parametrize("make", [named, broken])
def test_names_of_a_program(word, make, tmp_path, monkeypatch):
    """Names, files, variables, attributes, keys and exception texts: the result is right and nothing is injected."""
    monkeypatch.chdir(tmp_path)
    function, arguments = make(word)
    result, page, record = shown(function, *arguments)
    torch.testing.assert_close(result, function(*arguments))
    assert elements(page).keys() and Page(page).tags["script"] <= 1
    reaches_no_code(record, word)
    assert not list(tmp_path.rglob(f"*{MARK}*"))


@each_hostile
def test_a_comment_of_generated_code_is_one_line(word):
    """Nothing in a text ends the comment: for Python, for C++, and for whoever counts lines."""
    writer = SourceWriter()
    for mark in ("#", "//"):
        writer.comment(mark, f"buf0: {word}")
        writer.line("x = 1")
    written = writer.text()
    assert [line[:2] for line in written.splitlines()] == ["# ", "x ", "//", "x "]
    assert not re.search(r"\\\s*$", written, re.MULTILINE)
    found = tokenize.generate_tokens(io.StringIO(written.partition("//")[0]).readline)
    assert [each.string for each in found if each.type in (tokenize.NAME, tokenize.NUMBER)] == ["x", "1"]
    written.encode()
    compile(written.partition("//")[0], "wrapper", "exec")


@each_hostile
def test_names_in_modules_and_state(word):
    """Parameters, buffers and submodules."""
    name = word.replace(".", "") or "k"
    module = torch.nn.Module()
    module.register_buffer(name, torch.ones(3))
    module.register_parameter(name + "p", torch.nn.Parameter(torch.ones(3)))
    module.add_module(name + "m", torch.nn.Linear(3, 3))

    def forward(x):
        return getattr(module, name + "m")(x) * getattr(module, name) + getattr(module, name + "p")

    result, page, record = shown(forward, torch.ones(2, 3))
    torch.testing.assert_close(result, forward(torch.ones(2, 3)))
    elements(page)
    reaches_no_code(record, word)


def wrong_values(value):
    """Values of types that the field has not, or that no drawing expects."""
    yield from (None, [], {}, 3, -1, 1.5, True, "x", [[]], [None], {"a": 1}, 10**30, float("nan"), "</script><b>")
    deep: object = value
    for _ in range(900):
        deep = [deep]
    yield deep


def paths(plain, prefix=()):
    """Where something stands in JSON."""
    yield prefix
    inside = plain.items() if isinstance(plain, dict) else enumerate(plain[:1]) if isinstance(plain, list) else ()
    for key, value in inside:
        yield from paths(value, (*prefix, key))


def replaced(plain, path, value):
    """The same JSON with another value in one place."""
    if not path:
        return value
    copy = dict(plain) if isinstance(plain, dict) else list(plain)
    copy[path[0]] = replaced(plain[path[0]], path[1:], value)
    return copy


def rejected_or_drawn(written: str) -> str:
    """A record from elsewhere: one clear error when it is read, or a picture."""
    try:
        record = codec.from_json(written)
    except codec.RecordFormatError as error:
        assert len(str(error)) < 2000 and "\n" not in str(error).strip(), str(error)[:200]
        return "rejected"
    page = html.render(record)
    Page(page)
    text.render(record)
    return "drawn"


def test_records_with_wrong_values():
    """Fields of a record, given wrong values (every fifth pair), are rejected by name or drawn."""
    bad = {}
    tried = {"rejected": 0, "drawn": 0}
    plain = json.loads(codec.to_json(sample.simple()))
    for number, path in enumerate(paths(plain)):
        for turn, value in enumerate(wrong_values(0)):
            if (number + turn) % 5:
                continue
            try:
                tried[rejected_or_drawn(json.dumps(replaced(plain, path, value)))] += 1
            except Exception as error:  # noqa: BLE001 - all of them are listed
                bad[path, str(value)[:20]] = repr(error)[:200]
    assert not bad, f"{len(bad)} of {tried}: {list(bad.items())[:12]}"
    assert all(tried.values())


def test_records_that_are_too_long(monkeypatch):
    """One error that says how long a record may be, before anything is read."""
    written = codec.to_json(sample.simple())
    monkeypatch.setattr(codec, "LARGEST", len(written))
    assert rejected_or_drawn(written) == "drawn"
    with pytest.raises(codec.RecordFormatError, match="characters, and a record at most"):
        codec.from_json(written + " ")


@pytest.mark.parametrize("depth", [1000, 100_000])
def test_records_of_huge_depth(depth):
    """Deep JSON is one error, not the end of the recursion."""
    assert rejected_or_drawn("[" * depth + "]" * depth) == "rejected"
    plain = json.loads(codec.to_json(sample.simple()))
    deep = json.dumps({**plain, "function": "DEEP"}).replace('"DEEP"', "[" * depth + "]" * depth)
    assert rejected_or_drawn(deep) == "rejected"


@each_hostile
def test_hostile_texts_in_every_field(word):
    """A record whose every text is hostile, read from JSON: the same scripts and styles, and no handler."""
    record = sample.simple()
    clean = elements(html.render(record))
    plain = json.loads(codec.to_json(record))

    def poisoned(value, key=""):
        if isinstance(value, str):
            return value if key in {"status", "op", "language", "kind"} else value + word[-3000:]
        if isinstance(value, list):
            return [poisoned(each, key) for each in value]
        if isinstance(value, dict):
            return {name: poisoned(each, name) for name, each in value.items()}
        return value

    try:
        dirty = codec.from_json(json.dumps(poisoned(plain)))
    except codec.RecordFormatError:
        return
    page = html.render(dirty)
    page.encode()
    assert {**elements(page), "svg": 0} == {**clean, "svg": 0}
    assert dataclasses.is_dataclass(dirty)
