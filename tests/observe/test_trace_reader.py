"""Traces of the real torch.compile, and of nbcompile, as records; truncated, compressed, multi-rank, hostile."""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import random
import time
import tracemalloc
from pathlib import Path

import pytest

from nbcompile.observe import trace_file, trace_reader, trace_text
from nbcompile.tools.commands import records
from nbcompile.tools.commands.command_line import main
from nbcompile.views import report, text
from tests.observe import programs
from tests.views import sample_records

STORED = Path(__file__).parent / "traces" / "torch_2_13_inductor.log.gz"
"""Of torch.compile 2.13 with Inductor: the program of programs.py, with caches off and the settings left out."""


@pytest.fixture(scope="module")
def opened():
    return trace_reader.read(STORED)


def test_a_trace_of_torch_compile(opened):
    """Frames, functions, causes and torch's version are those of the program."""
    (record,) = opened.records.values()
    assert record.environment.torch == "2.13.0+cpu"
    assert [(frame.id, frame.function, frame.status, frame.cause) for frame in record.frames] == [
        ("0/0", "f", "compiled", "first call"),
        ("0/1", "f", "compiled", "recompiled"),
        ("1/0", "torch_dynamo_resume_in_f_at_6", "compiled", "resumed"),
        ("1/1", "torch_dynamo_resume_in_f_at_6", "compiled", "recompiled"),
    ]


def test_its_graphs_have_nodes_types_and_lines(opened):
    """Each operator has its shape, its user line, and its inputs."""
    frame = opened.records[0].frames[0]
    nodes = {node.name: node for node in frame.graph.nodes}
    assert list(nodes) == ["L_x_", "L_w_", "matmul", "y", "output"]
    assert nodes["matmul"].target == "operator.matmul"
    assert nodes["matmul"].inputs == (nodes["L_x_"].id, nodes["L_w_"].id)
    assert (nodes["y"].target, nodes["y"].shape, nodes["y"].dtype) == ("torch.relu", ("4", "4"), "float32")
    assert (nodes["y"].stack[0].line, nodes["y"].stack[0].code) == (5, "y=torch.relu(x@w)")
    assert nodes["L_x_"].source == "L['x']"
    assert [graph.stage for graph in frame.compiled_graph.graphs] == ["joint", "forward", "backward"]
    assert all(len(graph.nodes) >= 4 for graph in frame.compiled_graph.graphs)


def test_its_break_is_where_the_user_sees_it(opened):
    """The break has title, reason, hints and user line; the second attempt adds none."""
    (met,) = opened.records[0].frames[0].breaks
    assert met.title == "Failed to trace builtin operator"
    assert met.reason == "when attempting to trace CALL: a function call, e.g. f(x, y)"
    assert len(met.hints) == 3
    assert [(line.function, line.line) for line in met.stack] == [("f", 6)]
    assert met.gb_id == "GB0059"


def test_its_recompilation_has_both_values(opened):
    """A recompile has the entry that rejected, the expected value, and the actual one."""
    (failed,) = opened.records[0].frames[1].failed_guards
    assert (failed.compile_id, failed.expected, failed.actual, failed.source) == ("0/0", "4", "5", "L['x']")


def test_its_guards_kernels_symbols_and_times(opened):
    """There are as many guards, kernels, symbols and times as torch printed; kernels have their C++."""
    first, again = opened.records[0].frames[:2]
    assert {"TENSOR_MATCH", "GLOBAL_STATE"} <= {guard.kind for guard in first.guards}
    assert any(guard.source == "L['w']" and guard.kind == "TENSOR_MATCH" for guard in first.guards)
    assert [kernel.language for kernel in first.compiled_graph.kernels if kernel.source] == ["cpp", "cpp"]
    assert 'extern "C"' in first.compiled_graph.kernels[0].source
    assert 'extern "C"' not in first.compiled_graph.wrapper
    assert [symbol.name for symbol in again.symbols] == ["s77"]
    outer = [each for each in opened.records[0].timings if each.frame == "0/0" and not each.inside]
    assert sum(each.seconds for each in outer) > 1


def test_operators_that_its_code_calls_are_counted(opened):
    """Matrix products are library calls in the forward and the backward graph, and no kernels."""
    (record,) = opened.records.values()
    called = [kernel for kernel in record.frames[0].compiled_graph.kernels if kernel.language == "aten"]
    assert [kernel.name for kernel in called] == ["extern_kernels.mm", "extern_kernels.mm"]
    assert len({kernel.id for kernel in record.frames[0].compiled_graph.kernels}) == 4


def test_it_is_named_after_its_compiler(opened):
    """The title has the compiler, and no rank if there is none."""
    assert opened.records[0].function == "f in a trace of torch.compile"


def test_it_is_drawn(opened, tmp_path):
    """The record is drawn as text and as a page; missing parts are named."""
    (record,) = opened.records.values()
    told = text.render(record)
    assert "y=torch.relu(x@w)" in told
    assert "this line is not in the trace" in told
    assert "no fusion decisions" in " ".join(opened.notes)
    assert main(["open", str(STORED), "-o", str(tmp_path / "it.html")]) == 0
    page = (tmp_path / "it.html").read_text()
    assert "no fusion decisions" in page
    assert "<svg" in page


@pytest.mark.peer
def test_a_trace_that_is_made_now(tmp_path):
    """The installed torch's trace has four frames, a break, and the recompiles."""
    (record,) = trace_reader.read(programs.traced(tmp_path, programs.TORCHS)).records.values()
    assert [frame.id for frame in record.frames] == ["0/0", "0/1", "1/0", "1/1"]
    assert all(frame.status == "compiled" and frame.graph.nodes for frame in record.frames)
    assert [len(frame.breaks) for frame in record.frames] == [1, 1, 0, 0]
    assert [bool(frame.failed_guards) for frame in record.frames] == [False, True, False, True]


def test_a_trace_of_ours_is_whole(tmp_path):
    """Kernels, fusion decisions and residual programs are read back, without a note."""
    trace = trace_reader.read(programs.traced(tmp_path, programs.OURS).parent)
    assert trace.notes == ()
    frames = trace.records[0].frames
    assert [frame.id for frame in frames] == ["0/0", "0/1", "1/0", "1/1"]
    assert all(frame.residual and frame.compiled_graph.kernels for frame in frames)


def whole() -> list[str]:
    return gzip.decompress(STORED.read_bytes()).decode().splitlines(keepends=True)


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(lines))
    return path


def test_a_trace_of_ours_that_is_cut_off(tmp_path):
    """A truncated trace of ours is recognised as ours, and the note lists what is missing."""
    lines = programs.traced(tmp_path, programs.OURS).read_text().splitlines(keepends=True)
    first = next(at for at, line in enumerate(lines) if '"nbcompile_record"' in line)
    (tmp_path / "cut.log").write_text("".join(lines[:first]))
    opened = trace_reader.read(tmp_path / "cut.log")
    assert opened.records[0].function == "f in a trace of nbcompile"
    assert trace_reader.ENDS_BEFORE in opened.notes
    assert not any("torch.compile" in note for note in opened.notes)


@pytest.mark.parametrize("share", [0.02, 0.3, 0.7, 0.99])
def test_a_trace_that_is_cut_off(tmp_path, share):
    """A trace that ends in the middle of a line is read so far, plain or compressed."""
    content = "".join(whole())
    content = content[: int(len(content) * share)]
    (tmp_path / "cut.log").write_text(content)
    compressed = gzip.compress("".join(whole()).encode())
    (tmp_path / "cut.log.gz").write_bytes(compressed[: int(len(compressed) * share)])
    for name in ("cut.log", "cut.log.gz"):
        trace = trace_reader.read(tmp_path / name)
        report.of_record(trace.records[0])
        assert text.render(trace.records[0])
        assert any(f"{name} ends early" in note for note in trace.notes)


def test_several_ranks(tmp_path, capsys):
    """Each rank has a record, by file name or by line prefix; their differences come first."""
    lines = whole()
    write(tmp_path / "dedicated_log_torch_trace_rank_0_a.log", lines)
    short = [line.replace('{"', '{"rank": 1, "', 1) if line[0] == "V" else line for line in lines]
    cut = next(at for at, line in enumerate(short) if '"frame_id": 1,' in line)
    write(tmp_path / "dedicated_log_torch_trace_rank_1_b.log", short[:cut])
    trace = trace_reader.read(tmp_path)
    assert list(trace.records) == [0, 1]
    assert [len(record.frames) for record in trace.records.values()][0] == 4
    differences = records.compare_ranks(trace.records)
    assert differences[0] == "2 ranks: 0, 1"
    assert any("not compiled on rank 1" in line for line in differences)
    assert main(["open", str(tmp_path), "--show", "guards"]) == 0
    assert "not compiled on rank 1" in capsys.readouterr().out
    assert "rank 1" in records.page("trace", trace)


def test_runs_of_one_folder_are_not_mixed(tmp_path):
    """Compile ids restart in each process: a rank's newest file is shown, and the others are named."""
    lines = whole()
    for name, age in (("new", 1), ("a_old", 2), ("z_old", 3)):
        kept = (
            lines
            if name == "new"
            else [line.replace("0/0", "9/9").replace("programs.py", "other.py") for line in lines]
        )
        file = write(tmp_path / f"dedicated_log_torch_trace_{name}.log", kept)
        os.utime(file, (1_700_000_000 - age, 1_700_000_000 - age))
    trace = trace_reader.read(tmp_path)
    alone = trace_reader.read(tmp_path / "dedicated_log_torch_trace_new.log")
    assert trace.records == alone.records
    (note,) = (note for note in trace.notes if "3 files" in note)
    assert "newest, dedicated_log_torch_trace_new.log" in note
    assert "a_old.log, dedicated_log_torch_trace_z_old.log" in note


def test_the_main_process_of_one_run(tmp_path):
    """A child process writes a later file; for one run, the first file is read."""
    lines = whole()
    write(tmp_path / "dedicated_log_torch_trace_z_parent.log", lines)
    child = [line.replace("0/0", "9/9") for line in lines]
    at = next(at for at, line in enumerate(child) if line.startswith("V"))
    child[at] = child[at].replace(child[at].split()[1], "23:59:59.999999", 1)
    write(tmp_path / "dedicated_log_torch_trace_a_child.log", child)
    trace = trace_reader.read(tmp_path, first=True)
    assert trace.records == trace_reader.read(tmp_path / "dedicated_log_torch_trace_z_parent.log").records
    assert any("the first, dedicated_log_torch_trace_z_parent.log, is shown" in note for note in trace.notes)


def test_a_folder_above_the_trace(tmp_path, capsys):
    """The error names the folders that contain traces."""
    (tmp_path / "trace").mkdir()
    write(tmp_path / "trace" / "it.log", whole())
    assert main(["open", str(tmp_path)]) == 2
    assert "its folders trace do" in capsys.readouterr().err


@pytest.mark.timeout(60)
def test_files_that_are_no_records(tmp_path, capsys, monkeypatch):
    """Pipes, devices, binary files, and oversized records are one line each, with exit code 2."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "random.bin").write_bytes(b"\x83\xff" * 100)
    (tmp_path / "damaged.json").write_bytes(b'{"version": "\xff"}')
    (tmp_path / "large.json").write_text("{" + " " * 2000)
    monkeypatch.setattr(records, "MOST_OF_RECORD", 1000)
    for path, says in (
        (tmp_path / "pipe", "neither a file nor a folder"),
        (Path("/dev/zero"), "neither a file nor a folder"),
        (tmp_path / "random.bin", "neither a record (JSON) nor a structured trace"),
        (tmp_path / "damaged.json", "is no record"),
        (tmp_path / "large.json", "the most for a record"),
    ):
        assert main(["open", str(path)]) == 2
        assert says in capsys.readouterr().err


def test_lines_that_are_no_records(tmp_path):
    """Invalid lines are counted in one sentence, and the others are read."""
    lines = whole()
    lines[3:3] = ["Traceback (most recent call last):\n", "V1123 22:45:21.189000 19943 x.py:1] {broken\n"]
    trace = trace_reader.read(write(tmp_path / "it.log", lines))
    assert len(trace.records[0].frames) == 4
    assert any("2 lines are no records" in note for note in trace.notes)


def test_what_is_no_trace(tmp_path, capsys):
    """An empty folder, another text file, and a missing file are one line each, with exit code 2."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "other.log").write_text("hello\n")
    for name, says in (("empty", "holds no file"), ("other.log", "holds no compiles"), ("none", "No such file")):
        assert main(["open", str(tmp_path / name)]) == 2
        assert says in capsys.readouterr().err


def record_line(name: str, value: object, payload: str = "", **more: object) -> str:
    metadata = {name: value, "frame_id": 0, "frame_compile_id": 0, "attempt": 0, **more}
    lines = "".join(f"\t{line}\n" for line in payload.split("\n")) if payload else ""
    return f"V1123 22:45:21.189000 19943 torch/x.py:1] {json.dumps(metadata)}\n{lines}"


def test_markup_stays_text(tmp_path):
    """HTML in names, code, breaks and files is escaped."""
    harm = "<script>alert(1)</script>"
    lines = [
        record_line("compilation_metrics", {"co_name": harm, "co_filename": f"/{harm}.py", "co_firstlineno": 1}),
        record_line("dynamo_output_graph", {}, f"class G:\n    def forward(self, x: '{harm}'):\n        return (x,)"),
        record_line("artifact", {"name": "dynamo_graph_break_reason"}, f"{harm}\n  Explanation: {harm}"),
        record_line("dynamo_cpp_guards_str", {}, f"+- RootGuardManager\n| +- LAMBDA_GUARD: {harm}"),
    ]
    trace = trace_reader.read(write(tmp_path / "it.log", lines))
    page = records.page(harm, trace)
    assert harm not in page
    assert "&lt;script&gt;alert(1)" in page


def test_no_file_that_a_trace_names_is_opened(tmp_path):
    """The source is the trace's text: the named file is not opened."""
    secret = tmp_path / "secret.py"
    secret.write_text("the secret\n" * 20)
    lines = [
        record_line("compilation_metrics", {"co_name": "f", "co_filename": str(secret), "co_firstlineno": 1}),
        record_line(
            "dynamo_output_graph", {},
            f"def forward(self, x):\n    # File: {secret}:2 in f, code: y = x + 1\n    y: 'f32[3][1]cpu' = x + 1\n",
        ),
    ]  # fmt: skip
    (record,) = trace_reader.read(write(tmp_path / "it.log", lines)).records.values()
    assert "y = x + 1" in record.frames[0].source
    assert "secret" not in text.render(record).replace("secret.py", "")


@pytest.mark.parametrize(
    "payload",
    [
        "(" * 100_000, "[" * 100_000 + "]" * 100_000, "class A:\n" + " " * 50 + "def forward(self):\n", "\0", "x = " * 9_999,
        "# File: " * 50_000, "+- GuardManager: source=" * 20_000, "  Hint: " * 50_000, "k = async_compile.cpp(" * 50_000,
        "k = async_compile.cpp('''\n" * 20_000, "expected " * 50_000, " " * 500_000 + "# ", "9" * 50_000 + " LOAD_FAST",
    ],
    ids=range(13),
)  # fmt: skip
def test_texts_that_take_long_to_search(tmp_path, payload):
    """Deep, long and repetitive texts are parsed within seconds."""
    names = ("dynamo_output_graph", "dynamo_cpp_guards_str", "inductor_output_code", "aot_joint_graph")
    lines = [record_line(name, {}, payload) for name in names]
    for name in ("dynamo_graph_break_reason", "recompile_reasons", "f_ORIGINAL_BYTECODE", "nbcompile_record"):
        lines.append(record_line("artifact", {"name": name}, payload))
    began = time.perf_counter()
    trace_reader.read(write(tmp_path / "it.log", lines))
    assert time.perf_counter() - began < 60


def test_damaged_bytes_never_raise(tmp_path):
    """Each of two hundred damaged traces is read, or rejected."""
    chance, original = random.Random(5), "".join(whole()[:400]).encode()
    for _ in range(200):
        damaged = bytearray(original)
        for _ in range(chance.choice([1, 5, 50])):
            at = chance.randrange(len(damaged))
            damaged[at : at + chance.choice([0, 1, 30])] = chance.randbytes(chance.choice([0, 1, 30]))
        path = tmp_path / "it.log"
        path.write_bytes(bytes(damaged))
        try:
            trace = trace_reader.read(path)
        except trace_reader.TraceFormatError:
            continue
        for record in trace.records.values():
            text.render(record)


def test_values_of_any_type(tmp_path):
    """Metadata with fields of other types are skipped."""
    values = [None, 3, "x", [], {}, [1, 2], {"stack": 3}, {"co_firstlineno": "x"}, {"symbol": []}, True, 1e400]
    names = ("dynamo_start", "compilation_metrics", "create_symbol", "str", "artifact", "chromium_event", "rank")
    lines = [record_line(name, value, "{\n}") for name in names for value in values]
    lines += [record_line("dynamo_output_graph", {}, "x", frame_id=value) for value in values]
    trace = trace_reader.read(write(tmp_path / "it.log", lines))
    for record in trace.records.values():
        text.render(record)


def test_limits(tmp_path, monkeypatch):
    """Payloads, files and compiles are read up to the limits, with a note."""
    monkeypatch.setattr(trace_file, "MOST_PAYLOAD", 1_000)
    monkeypatch.setattr(trace_reader, "MOST_FRAMES", 3)
    lines = [record_line("dynamo_output_graph", {}, "x\n" * 5_000)]
    lines += [record_line("dynamo_start", {}, frame_id=number) for number in range(1, 9)]
    trace = trace_reader.read(write(tmp_path / "it.log", lines))
    assert len(trace.records[0].frames) == 3
    assert len(trace.records[0].frames[0].graph.code if trace.records[0].frames[0].graph else "") <= 1_000
    assert any("1 payloads are longer" in note for note in trace.notes)
    assert any("only the first 3 compiles" in note for note in trace.notes)
    monkeypatch.setattr(trace_file, "MOST_BYTES", 2_000)
    trace = trace_reader.read(tmp_path / "it.log")
    assert any("is read up to" in note for note in trace.notes)


def test_payloads_that_are_many(tmp_path, monkeypatch):
    """Payloads beyond the total limit are dropped with one note; the compiles are read."""
    monkeypatch.setattr(trace_file, "MOST_KEPT", 10_000)
    lines = [record_line("dynamo_output_graph", {}, "x" * 4_000, frame_id=number) for number in range(5)]
    trace = trace_reader.read(write(tmp_path / "it.log", lines))
    assert len(trace.records[0].frames) == 5
    assert any("3 payloads are left out" in note for note in trace.notes)


def test_a_file_that_unpacks_to_a_hundred_times_its_size(tmp_path, monkeypatch):
    """A file that unpacks to a hundred times its size is read up to the limit, in bounded memory."""
    monkeypatch.setattr(trace_file, "MOST_BYTES", 64 << 20)
    monkeypatch.setattr(trace_file, "MOST_PAYLOAD", 1 << 20)
    bomb = tmp_path / "bomb.log.gz"
    with gzip.open(bomb, "wb", compresslevel=1) as file:
        file.write(record_line("dynamo_output_graph", {}).encode())
        for _ in range(24):
            file.write(b"\t" + b"a" * (4 << 20))
    assert bomb.stat().st_size < 1 << 20
    tracemalloc.start()
    trace = trace_reader.read(bomb)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert any("is read up to" in note for note in trace.notes)
    assert peak < 32 << 20


def test_reasons_of_older_versions():
    """A JSON list of reasons (2.6) reads as lines."""
    old = "[\n\"0/1: tensor 'x' size mismatch at index 0. expected 4, actual 5\",\n\"0/0: L['n'] == 3\"\n]"
    found = trace_text.failed_guards(old)
    assert [(each.compile_id, each.expected, each.actual) for each in found] == [("0/1", "4", "5"), ("0/0", "", "")]
    assert found[1].source == "L['n']"


def test_a_break_of_an_older_version():
    """Before 2.7 a break was one line and a stack: it becomes the title, without empty paragraphs."""
    old = (
        "Graph break in user code at /tmp/simple.py:3\nReason: Unsupported: builtin: print [...] True\n"
        'User code traceback:\n  File "/tmp/simple.py", line 9, in f\n    y = helper(y)\n'
        '  File "/tmp/simple.py", line 3, in helper\n    print("break", end="")\n\n'
        'Traceback (most recent call last):\n  File "symbolic_convert.py", line 659, in wrapper\n    return inner_fn()'
    )
    met = trace_text.graph_break("0/0.b0", old)
    assert met.title == "builtin: print [...] True"
    assert [(line.function, line.line) for line in met.stack] == [("f", 9), ("helper", 3)]
    record = sample_records.simple()
    frame = dataclasses.replace(record.frames[0], breaks=(met,))
    shown = text.render(dataclasses.replace(record, frames=(frame,)), "breaks")
    assert "builtin: print [...] True" in shown
    assert "Explanation" not in shown
    assert "debug context" not in shown
    assert "[]" not in shown


def test_tensors_in_reasons_of_older_versions():
    """Before 2.7 a reason had the whole source of a tensor in quotes; it becomes its name."""
    old = "- 0/0: tensor 'L['x'].weight' size mismatch at index 0. expected 4, actual 5"
    (found,) = trace_text.failed_guards(old[2:])
    assert found.reason == "tensor 'x.weight' size mismatch at index 0. expected 4, actual 5"


def test_a_large_record_is_shortened(tmp_path, capsys, monkeypatch):
    """Terminal text is cut with a hint; a chosen section is printed whole."""
    monkeypatch.setattr(text, "MOST_PRINTED", 5_000)
    assert main(["open", str(STORED)]) == 0
    shown = capsys.readouterr().out
    assert len(shown) <= 5_000
    assert "`--html out.html` writes all of it" in shown
    assert main(["open", str(STORED), "--show", "guards,kernels"]) == 0
    whole_sections = capsys.readouterr().out
    assert len(whole_sections) > 5_000
    assert "Shortened" not in whole_sections


def test_graphs_in_torchs_spellings():
    """Methods, attributes, comparisons, subscripts, and inputs declared in the body are parsed."""
    code = """
class inner_f(torch.nn.Module):
    def forward(self, primals, tangents):
        primals_1: "f32[4, 8][8, 1]cpu"  # PlainAOTInput(idx=0)
        primals_1, = fx_pytree.tree_flatten_spec([primals, tangents], self._in_spec)
        a: "f32[4][1]cpu" = primals_1.sum(-1, keepdim = False)
        b: "b8[4][1]cpu" = a > 0
        c = -a;  a = None
        d = self.weight
        e: "f32[][]cpu" = torch.ops.aten.add.Tensor(c, d);  c = d = None
        f = e[0]
        g: "Sym(s77)" = primals_1.size(0)
        return pytree.tree_unflatten([f, g, b], self._out_spec)
"""
    nodes = trace_text.graph("0/0", "joint", code).nodes
    assert [(node.name, node.op, node.target) for node in nodes] == [
        ("primals_1", "placeholder", "primals_1"),
        ("a", "call_method", "sum"),
        ("b", "call_function", "operator.gt"),
        ("c", "call_function", "operator.neg"),
        ("d", "get_attr", "weight"),
        ("e", "call_function", "aten.add.Tensor"),
        ("f", "call_function", "operator.getitem"),
        ("g", "call_method", "size"),
        ("output", "output", "output"),
    ]
    assert nodes[1].arguments == "(primals_1, -1, keepdim=False)"
    assert nodes[5].shape == ()
    assert nodes[-1].inputs == (nodes[6].id, nodes[7].id, nodes[2].id)


def test_a_graph_without_a_name():
    """A graph of a lambda is printed as `class <lambda>`, which is no Python; its nodes are parsed."""
    code = """
class <lambda>(torch.nn.Module):
    def forward(
        self,
        arg0_1: "f32[3][1]cpu",  # PlainAOTInput(idx=0)
    ):
        sin: "f32[3][1]cpu" = torch.ops.aten.sin.default(arg0_1);  arg0_1 = None
        return (
            sin,  # PlainAOTOutput(idx=0)
        )
"""
    nodes = trace_text.graph("0/0", "inference", code).nodes
    assert [node.target for node in nodes] == ["arg0_1", "aten.sin.default", "output"]
