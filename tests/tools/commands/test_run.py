"""``run``: a program and its record, also if the program raises."""

from __future__ import annotations

import re
import sys

from nbcompile.__main__ import main
from nbcompile.record import codec


def test_a_program_that_raises(tmp_path, capsys):
    """The page and the text begin with the exception and its line; the exit code is that of a failed program."""
    script = tmp_path / "script.py"
    script.write_text(
        "import torch, nbcompile\n@nbcompile.compile(backend='eager')\ndef f(x):\n"
        "    return torch.relu(x) @ torch.ones(3, 3)\nf(torch.ones(2, 5))\n"
    )
    page, data = tmp_path / "out.html", tmp_path / "out.json"
    assert main([str(script), "--html", str(page), "--json", str(data)]) == 1
    assert "TorchRuntimeError" in capsys.readouterr().err
    assert codec.from_json(data.read_text()).raised.stack[-1].line == 5, "the call; f did not run"
    said = re.sub(r"<[^>]*>", "", page.read_text())
    assert "f raises RuntimeError at line 4: a and b must have same reduction dim" in said
    assert main([str(script)]) == 1
    assert "f raises RuntimeError at line 4" in " ".join(capsys.readouterr().out.split())


def test_a_program_that_raises_has_one_traceback(tmp_path, capsys):
    """The traceback ends in the user's line: torch's 50 frames below it are one line of the message."""
    script = tmp_path / "script.py"
    script.write_text(
        "import torch, nbcompile\nnet = nbcompile.compile(torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(8, 4)))\n"
        "def predict(x):\n    return net(x)\npredict(torch.ones(2, 8))\n"
    )
    assert main([str(script)]) == 1
    shown = capsys.readouterr().err
    assert shown.count("Traceback (most recent call last)") == 1
    assert "nbcompile/eval_frame" not in shown
    assert "fake_tensor.py" not in shown
    assert "linear: RuntimeError: a and b must have same reduction dim" in shown


def test_a_data_dependent_branch_is_said_once(tmp_path, capsys):
    """Both sides of the branch get `z`, and the text has it once."""
    script = tmp_path / "script.py"
    script.write_text(
        "import torch, nbcompile\n@nbcompile.compile(backend='eager')\ndef f(x):\n    z = x.sin()\n"
        "    if z.sum() > 0:\n        return z * 2\n    return z - 1\nf(torch.ones(2))\n"
    )
    assert main([str(script)]) == 0
    assert capsys.readouterr().out.count("carries z = ") == 1


def test_threads_of_a_program_are_recorded(tmp_path, capsys):
    """What a thread compiles is in the record, though a new thread has an empty context."""
    script = tmp_path / "script.py"
    script.write_text(
        "import threading, torch, nbcompile\n@nbcompile.compile(backend='eager')\ndef f(x):\n    return x + 1\n"
        "t = threading.Thread(target=f, args=(torch.ones(3),))\nt.start()\nt.join()\n"
    )
    assert main([str(script)]) == 0
    assert "1 graph, 1 operator" in capsys.readouterr().out


def test_a_program_may_leave_its_folder(tmp_path, monkeypatch, capsys):
    """The folder of a program is absolute in sys.path and __file__, as `python script.py` has it."""
    (tmp_path / "beside.py").write_text("def add(x):\n    return x + 1\n")
    (tmp_path / "script.py").write_text(
        "import os\nos.chdir('/')\nimport beside\nprint(os.path.isabs(__file__), beside.add(2))\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert main(["script.py"]) == 0
    assert capsys.readouterr().out.startswith("True 3")
