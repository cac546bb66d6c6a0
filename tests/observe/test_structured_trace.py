"""TORCH_TRACE: the real tlparse reads our trace."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

from nbcompile.observe import structured_trace
from nbcompile.record.model import LOADED
from tests.observe import programs
from tests.support.processes import command
from tests.views import sample_records

TLPARSE = Path(sys.executable).parent / "tlparse"


@pytest.fixture(scope="module")
def parsed(tmp_path_factory):
    """tlparse's output, and its folder for a trace of ours."""
    folder = tmp_path_factory.mktemp("trace")
    log = programs.traced(folder, programs.OURS)
    words = [TLPARSE, log, "-o", folder / "pages", "--no-browser", "--strict-compile-id", "--verbose"]
    return command(*words), folder / "pages"


def test_tlparse_understands_every_record_of_ours(parsed):
    """tlparse knows each record, except ShapeEnv's create_symbol."""
    done, _ = parsed
    said = done.stdout + done.stderr
    assert "Failed to parse" not in said
    assert set(re.findall(r"Unknown fields: \{(.*?)\}", said)) <= {'"create_symbol"', '"guard_added", "create_symbol"'}


def test_each_compile_has_its_pages(parsed):
    """Each compile id has its graph, ATen graphs, guards, code, metrics, breaks and reasons."""
    _, pages = parsed
    folders = {path.name for path in pages.iterdir() if path.is_dir()}
    assert {"-_0_0_0", "-_1_0_0", "-_0_1_0", "-_1_1_0"} <= folders
    first = {re.sub(r"_\d+\.\w+$", "", path.name) for path in (pages / "-_0_0_0").iterdir()}
    assert {
        "dynamo_output_graph", "aot_joint_graph", "aot_forward_graph", "aot_backward_graph", "dynamo_cpp_guards_str",
        "compilation_metrics", "dynamo_graph_break_reason", "f_ORIGINAL_BYTECODE", "f_MODIFIED_BYTECODE",
        "before_pre_grad_graph", "inductor_post_grad_graph", "fx_graph_runnable", "residual_program",
    } <= first  # fmt: skip
    assert any(name.startswith("inductor_output_code") for name in first)
    again = "".join(path.name for path in (pages / "-_0_1_0").iterdir())
    assert "recompile_reasons" in again


def test_every_record_with_a_text_is_one_page(parsed):
    """tlparse writes one page for each record with a text, and links it; events share a file."""
    _, pages = parsed
    (log,) = (pages.parent / "trace").glob("*.log")
    records = [json.loads(line) for line in re.findall(r"^V\d{4} \S+ \d+ \S+\] (\{.*)$", log.read_text(), re.MULTILINE)]
    expected: Counter[str] = Counter()
    for record in records:
        has_page = record.get("has_payload") and "chromium_event" not in record
        if "frame_id" in record and (has_page or "compilation_metrics" in record):
            expected[f"-_{record['frame_id']}_{record['frame_compile_id']}_0"] += 1
    found = {folder.name: len(list(folder.iterdir())) for folder in pages.glob("-_[0-9]*")}
    assert found == expected
    assert min(found.values()) >= 14
    index = (pages / "index.html").read_text()
    assert all(f"{path.parent.name}/{path.name}" in index for path in pages.glob("-_[0-9]*/*"))


def test_the_pages_say_what_happened(parsed):
    """The index has the function and its line; the metrics count; events are in begin and end pairs."""
    _, pages = parsed
    index = (pages / "index.html").read_text()
    assert "program.py" in index
    assert "[0/0]" in index
    (metrics,) = (pages / "-_0_0_0").glob("compilation_metrics*")
    assert "failed to parse" not in metrics.read_text().lower()
    assert "program.py:" in metrics.read_text()
    events = json.loads((pages / "chromium_events.json").read_text())
    assert [each["ph"] for each in events].count("B") == [each["ph"] for each in events].count("E") > 0
    (graph,) = (pages / "-_0_0_0").glob("dynamo_output_graph*")
    assert "torch.relu" in graph.read_text()


def test_the_program_on_a_page_runs(parsed, tmp_path):
    """fx_graph_runnable compiles the graph again, and compares it with eager mode."""
    _, pages = parsed
    (page,) = (pages / "-_0_0_0").glob("fx_graph_runnable*")
    assert "0/0: compiled equals eager" in programs.run(tmp_path, page.read_text()).stdout


def test_a_frame_from_the_store_is_a_hit():
    """A loaded frame is a hit and a compiled one a miss, by the names that tlparse knows."""
    frame = next(frame for frame in sample_records.simple().frames if frame.compiled_graph)
    for cause, name in ((LOADED, "fx_graph_cache_hit"), ("first call", "fx_graph_cache_miss")):
        changed = dataclasses.replace(frame, cause=cause, store="stored in the compile cache")
        named = [metadata.get("name") for _, metadata, _ in structured_trace.entries(changed, [])]
        assert [known for known in named if known and known.startswith("fx_graph_cache")] == [name]


def test_a_folder_that_cannot_be_written(tmp_path):
    """A folder that cannot be written is reported in one line, and the program continues."""
    (tmp_path / "taken").write_text("")
    done = programs.run(tmp_path, programs.OURS, TORCH_TRACE=str(tmp_path / "taken" / "x"))
    assert done.stdout == "half\nhalf\n"
    assert done.stderr.count("TORCH_TRACE: nothing is written") == 1
    assert "Error" not in done.stderr.replace("NotADirectoryError", "")


def test_every_entry_is_json():
    """For each sample record, the metadata are JSON, and the events are sorted."""
    for build in sample_records.ALL.values():
        record = build()
        for frame in record.frames:
            own = [timing for timing in record.timings if timing.frame == frame.id]
            for name, metadata, payload in structured_trace.entries(frame, own):
                json.dumps({name: metadata})
                assert payload is None or isinstance(payload, str)
            stamps = [json.loads(event)["ts"] for event in structured_trace.events(own)]
            assert stamps == sorted(stamps)
