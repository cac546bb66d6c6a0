"""Each figure on a page has a reference into the record; the tests compute each figure again from the JSON."""

from __future__ import annotations

import functools
import json
import re
from html.parser import HTMLParser

import pytest
import torch

import nbcompile
from nbcompile import api
from nbcompile.record import codec
from nbcompile.views import costs, html, sections
from tests.views import sample_records as sample

# --- following a reference, without the views or the links that they use -------------------------


def follow(record, frame, reference):
    """The figure of a reference."""
    path, *pipes = reference.split("|")
    if path.startswith("="):
        return int(path[1:])
    begin = record if path.startswith(("frames", "calls")) or frame is None else frame
    found = walk(begin, path)
    if pipes:
        return DERIVED[pipes[0].partition(".")[0]](record, found, *pipes)
    return found[0] if len(found) == 1 and isinstance(found[0], int) else len(found)


def walk(value, path):
    """The objects at the end of a path, through all lists."""
    found = [value]
    for name, index, field, sign, wanted in STEP.findall(path):
        if index:
            found = [found[int(index)]]
        elif name:
            inner = [each.get(name) for each in found]
            found = [one for each in inner if each is not None for one in (each if isinstance(each, list) else [each])]
        else:
            found = [each for each in found if KEEPS[sign](str(each.get(field, DEFAULTS.get(field, ""))), wanted)]
    return found


STEP = re.compile(r"(?:^|\.)(?:([a-z_]+)|(\d+))|\[(\w+)(\^=|!=|=|)([^\]]*)\]")
KEEPS = {
    "=": lambda has, wanted: has == wanted,
    "!=": lambda has, wanted: has != wanted,
    "^=": lambda has, wanted: has.startswith(wanted),
    "": lambda has, wanted: bool(has),
}
DEFAULTS = {"fused": False}


def own_line(frame, stack):
    last = frame["first_line"] + frame.get("source", "").rstrip("\n").count("\n")
    for line in stack:
        if line["file"] == frame["file"] and frame["first_line"] <= line["line"] <= last:
            return line["line"]
    return None


def causes(record):
    """Breaks by cause, each with the frames that it ended, in order."""
    groups, of_id = [], {}
    for frame in record.get("frames", []):
        for each in frame.get("breaks", []):
            at = each["stack"][-1] if each.get("stack") else {"file": each["context"], "line": 0}
            key = (each["kind"], each["title"], at["file"], at["line"])
            group = of_id.get(each.get("first_seen")) or next((one for one in groups if one["key"] == key), None)
            if group is None:
                group = {"key": key, "frames": []}
                groups.append(group)
            of_id[each["id"]] = group
            if frame["id"] not in group["frames"]:
                group["frames"].append(frame["id"])
    return groups


def ended(record, found, pipe):
    _, _, index = pipe.partition(".")
    counts = [len(each["frames"]) for each in causes(record)]
    return counts[int(index)] if index else sum(counts)


def of_line(record, found, pipe, beyond=None):
    frame = next(f for f in record["frames"] if found and found[0] in (*walk(f, "guards"), *walk(f, "graph.nodes")))
    line = int(pipe.partition(".")[2])
    nodes = [each for each in found if not each.get("op", "call_").startswith(("placeholder", "output", "get_attr"))]
    there = [each for each in nodes if own_line(frame, each.get("stack", [])) == line]
    return len(there) - int(beyond.partition(".")[2]) if beyond else len(there)


def begins(record, frame):
    """The first line of a frame: a resume function begins inside of the user's function."""
    parent = next((each for each in record["frames"] if each["id"] == frame.get("resumes")), {"resume_functions": []})
    lines = [each["line"] for each in parent.get("resume_functions", []) if each["name"] == frame["function"]]
    return lines[0] if lines else frame["first_line"]


def lines(record, found, pipe):
    (frame,) = found
    first, last = begins(record, frame), frame["first_line"] + frame["source"].rstrip("\n").count("\n")
    stop = own_line(frame, frame["breaks"][0].get("stack", [])) if frame.get("breaks") else None
    end = stop if stop is not None and stop >= first else last
    return f"{first} {end}" if end > first else first


def origins(record, found, pipe, beyond):
    """The captured nodes of a kernel, through its buffers and the ATen graphs."""
    (kernel,) = found
    frame = next(each for each in record["frames"] if kernel in walk(each, "compiled_graph.kernels"))
    buffers = {each["id"]: each.get("from_nodes", []) for each in walk(frame, "compiled_graph.buffers")}
    made_from = {each["id"]: each.get("from_nodes", []) for each in walk(frame, "compiled_graph.graphs.nodes")}
    aten = [
        *kernel.get("from_nodes", []),
        *(node for each in kernel.get("buffers", []) for node in buffers.get(each, [])),
    ]
    return len({captured for node in aten for captured in made_from[node]}) - int(beyond.partition(".")[2])


def moved(record, found, pipe):
    """The bytes that the operators of a line read and write, as text of at most four digits."""
    frame = next(f for f in record["frames"] if found[0] in walk(f, "graph.nodes"))
    hints = {each["name"]: int(float(each["hint"])) for each in frame.get("symbols", []) if each.get("hint")}
    by_id = {each["id"]: each for each in found}

    def size(node):
        count = int(re.sub(r"\D", "", node.get("dtype", "").split("_")[0]) or 8) // 8 if "shape" in node else 0
        for each in node.get("shape", []):
            count *= eval(each, {}, hints)
        return count

    total = 0
    for node in found:
        if node["op"].startswith("call_") and own_line(frame, node.get("stack", [])) == int(pipe.partition(".")[2]):
            if node["target"].rpartition(".")[2] not in costs._FREE:
                total += size(node) + sum(size(by_id[each]) for each in node.get("inputs", []))
    while total >= 10_000:
        total = round(total / 1000)
    return total


DERIVED = {
    "bytes": moved,
    "origins": origins,
    "distinct": lambda record, found, pipe: len(causes(record)),
    "ended": ended,
    "codes": lambda record, found, pipe: len({each["id"].split("/")[0] for each in found}),
    "recompiled": lambda record, found, pipe: sum(
        each["status"] == "compiled" and bool(each.get("failed_guards") or each["cause"] == "recompiled")
        for each in found
    ),
    "beyond": lambda record, found, pipe: len(found) - int(pipe.partition(".")[2]),
    "line": of_line,
    "lines": lines,
    "end": lambda record, found, pipe: own_line(found[0], found[0]["breaks"][0]["stack"]),
    "whole": lambda record, found, pipe: None,  # set below: it needs the frame
}

# --- reading a page ------------------------------------------------------------------------------

NUMBER = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?![\w.]*\w)")
"""A number that stands alone, not the 0 of ``kernel0`` or the 3.11 of a file."""
VERBATIM = {"pre", "code", "script", "style", "option", "output"}
"""What these hold is the record's own text, or the form's."""
VOID = {"img", "br", "input", "meta"}


class Page(HTMLParser):
    """The figures of a page: (frame, section, reference, numbers), and texts without a reference."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.figures, self.loose = [], [], []
        self.rows, self.captions = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        if tag not in VOID:
            self.open.append((tag, dict(attributes), []))

    def handle_endtag(self, tag):
        name, attributes, texts = self.open.pop()
        assert name == tag
        if "data-r" in attributes:
            self.figures.append((self.nearest("data-f"), attributes["data-r"], "".join(texts)))

    def nearest(self, key):
        return next((attributes[key] for _, attributes, _ in reversed(self.open) if key in attributes), None)

    def handle_data(self, data):
        names = {name for name, _, _ in self.open}
        holder = next((texts for _, attributes, texts in reversed(self.open) if "data-r" in attributes), None)
        if holder is not None:
            holder.append(data)
        elif not names & VERBATIM:
            self.loose.append((names, data.strip()))


def strings(value):
    if isinstance(value, dict):
        for each in value.values():
            yield from strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from strings(each)
    elif isinstance(value, str):
        yield value


def audit(record):
    """Follow each reference of each section; return the references."""
    plain = json.loads(codec.to_json(record))
    page = Page(html.render(record, [each for each in sections.USUAL], assets=False, limit=None))
    frames = {}
    for frame in plain.get("frames", []):
        frames.setdefault(frame["id"], frame)
    for frame_id, reference, text in page.figures:
        frame = frames.get(frame_id)
        if reference == "timings|whole":
            wanted = sum(
                each["seconds"] for each in plain["timings"] if each["frame"] == frame_id and "inside" not in each
            )
            assert text == f"{wanted * 1e3:,.2f} ms in all"
            continue
        wanted = " ".join(str(follow(plain, frame, each)) for each in reference.split(" "))
        assert " ".join(NUMBER.findall(text)) == wanted, (text, reference)
    known = "\n".join(strings(plain))
    for names, text in page.loose:
        if "table" in names or not NUMBER.search(text):
            continue  # rows begin with the name of their object: the next test
        told = re.sub(r"^(·|Python|torch|nbcompile|why:|advice:)|\(tried: it helps\)", "", text)
        for line in re.findall(r"\(line (\d+) calls$", told):  # of a loop that a break ended
            assert int(line) in {found["line"] for found in walk(plain, "frames.breaks.stack")}
        told = re.sub(r" \(line \d+ calls$", "", told)
        pieces = [each.strip(" .") for each in re.split(r" · |, | and |\n|[;:] ", told)]
        missing = [
            each for each in pieces if NUMBER.search(each) and each.split(" ")[-1] not in known and each not in known
        ]
        assert not missing, f"a figure without a reference: {text!r}"
    return page.figures


def wobbling(x, k):
    y = x * k + 1
    torch._dynamo.graph_break()
    y = (y.sin() + y.cos()).exp() * 2 - y.tan() + y.abs()
    return y.softmax(-1).sum(0), y @ y.T


@functools.cache
def compiled():
    """A record with a break, a recompilation with symbols, generated kernels, and steps."""
    nbcompile.reset()
    function, frame_recorder = nbcompile.compile(wobbling), api.new_recorder("wobbling")
    with frame_recorder.listening(), nbcompile.config.patch(record_steps=True):
        for size in (3, 4, 5):
            function(torch.ones(size, size), 2.0)
    return frame_recorder.record()


@pytest.mark.parametrize("name", sample.ALL)
def test_every_figure_of_a_sample_is_worked_out_again(name):
    """Counts, lines and times of each section equal the record's, and no other number appears."""
    audit(sample.ALL[name]())


def test_every_figure_of_a_compiled_function_is_worked_out_again():
    """A compiled record has many references of each kind, and each figure is right."""
    followed = {re.sub(r"\d+", "", reference) for _, reference, _ in audit(compiled())}
    assert len(followed) >= 25, sorted(followed)


def rows(text, caption):
    """The rows of the tables with a caption, cell by cell."""
    for _, frame, body in re.findall(rf"<caption>({caption})</caption>(.*?)</table>()", text, re.DOTALL) or ():
        del body
        for line in re.findall(r"<tr[^>]*>(.*?)</tr>", frame.partition("<tbody>")[2], re.DOTALL):
            yield [re.sub(r"<[^>]+>", "", each) for each in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line, re.DOTALL)]


def test_every_row_says_what_the_record_says_of_its_name():
    """Shapes, lines and sizes of nodes, buffers and the memory plan are found by the name at the row's begin."""
    record = compiled()
    seen = 0
    for frame in json.loads(codec.to_json(record))["frames"]:
        page = html.render(
            type(record)("f", frames=tuple(each for each in record.frames if each.id == frame["id"])),
            ["graph", "kernels"], assets=False, limit=None,
        )  # fmt: skip
        nodes = {each["name"]: each for each in walk(frame, "graph.nodes")}
        for name, _, arguments, kind, line in rows(page, "Nodes of the captured graph"):
            node = nodes[name]
            assert kind == (f"f32[{', '.join(node['shape'])}]" if "shape" in node else "")
            assert arguments == node["arguments"].replace(">", "&gt;").replace("<", "&lt;")
            assert line == str(own_line(frame, node.get("stack", [])) or "")
            seen += 1
        buffers = {each["name"]: each for each in walk(frame, "compiled_graph.buffers")}
        for name, kind, shape, _ in rows(page, "Buffers of the loop-level IR"):
            assert (kind, shape) == (
                buffers[name]["kind"],
                f"{buffers[name]['dtype']}[{', '.join(buffers[name]['shape'])}]",
            )
            seen += 1
        plan = {each["buffer"]: each for each in walk(frame, "compiled_graph.lifetimes")}
        for name, size, lives, whose in rows(page, "Which launches each buffer lives through"):
            assert size.replace(",", "").replace("\N{NO-BREAK SPACE}", " ") == f"{plan[name]['size']} B"
            assert lives.index("■") + 1 == plan[name]["first"]
            assert whose.startswith(f"{plan[name]['memory_of']}'s" if "memory_of" in plan[name] else "allocated")
            seen += 1
    assert seen > 40


def test_a_wrong_figure_is_found():
    """A page with a wrong count fails the audit."""
    record = sample.simple()
    page = html.render(record, assets=False)
    page_of = html.render
    try:
        html.render = lambda *_, **__: page.replace("<b>10</b> guards", "<b>11</b> guards")
        with pytest.raises(AssertionError, match="11 guards"):
            audit(record)
        html.render = lambda *_, **__: page.replace("as captured", "as captured in 1234 steps")
        with pytest.raises(AssertionError):
            audit(record)
        html.render = lambda *_, **__: page.replace("The whole function", "All 1234 of the function")
        with pytest.raises(AssertionError, match="without a reference"):
            audit(record)
    finally:
        html.render = page_of
