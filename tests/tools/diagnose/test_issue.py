"""Anonymisation of an issue: it contains nothing that identifies the user or the machine."""

from __future__ import annotations

import getpass
import json
import socket
from pathlib import Path

import pytest
import torch

from nbcompile.tools.diagnose import issue
from nbcompile.tools.diagnose.script import Run, Script


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('File "/data/team/alice/lib/model.py", line 3', 'File ".../model.py", line 3'),
        ("/tmp/torchinductor_alice/ab/cab.py", ".../cab.py"),
        ("kernels in /var/cache/nbcompile (3 built)", "kernels in .../nbcompile (3 built)"),
        ('{"file": "/srv/x/y.py", "line": 1}', '{"file": ".../y.py", "line": 1}'),
        ("a / b", "a / b"),
        ("1/2 and 0/0 of s0//2", "1/2 and 0/0 of s0//2"),
        ("see https://github.com/pytorch/pytorch/issues", "see https://github.com/pytorch/pytorch/issues"),
        ("g++ -O3 -I/usr/include/python3.11 -o out", "g++ -O3 -I/usr/include/python3.11 -o out"),
        ("./program.py and site-packages/torch/nn/x.py", "./program.py and site-packages/torch/nn/x.py"),
    ],
)
def test_paths(text, shown, monkeypatch):
    """An absolute path becomes its last part; operators, addresses and relative paths are unchanged."""
    monkeypatch.setattr(getpass, "getuser", lambda: "root")
    assert issue.without_names(text) == shown


def test_names_and_secrets(monkeypatch):
    """The user, the host, and values of secret variables are removed."""
    monkeypatch.setattr(getpass, "getuser", lambda: "alice_q")
    monkeypatch.setattr(socket, "gethostname", lambda: "gpu-box-7")
    monkeypatch.setenv("MY_TOKEN", "s3cr3tvalue")
    monkeypatch.setenv("SOME_KEY", "1")  # as short as a number: it would be found everywhere
    monkeypatch.setenv("CUSTOMER", "Dvořák & Sons")
    record = issue.without_names(json.dumps({"condition": "x == 'Dvořák & Sons'", "value": '{"v": "Dvořák & Sons"}'}))
    assert json.loads(record) == {"condition": "x == '...'", "value": '{"v": "..."}'}
    text = issue.without_names("alice_q@gpu-box-7: torchinductor_alice_q, x == 's3cr3tvalue', malice_qx, 11")
    assert text == "...@...: torchinductor_..., x == '...', malice_qx, 11"


def test_a_name_that_is_a_word_stays(monkeypatch):
    """``root``, the user of many containers, is a common word and is not removed."""
    monkeypatch.setattr(getpass, "getuser", lambda: "root")
    assert issue.without_names("root.left") == "root.left"


def test_a_user_without_a_name_is_none(monkeypatch):
    """An issue can be written for a user without a name, as in a container."""

    def no_name():
        raise KeyError("getpwuid(): uid not found: 12345")

    monkeypatch.setattr(getpass, "getuser", no_name)
    assert issue.without_names("a b") == "a b"


PROGRAM = """
import os, torch, nbcompile
LIBRARY = "/opt/hidden/place/lib.so"
@nbcompile.compile(backend="eager")
def f(x):
    return x + 1 if os.environ["MY_TOKEN"] and os.environ["CUSTOMER"] == name else x
name = os.environ["CUSTOMER"]
@nbcompile.compile(backend="eager")
def g(x):
    return x + constant
constant = torch.arange(3).exp() * 31415.9265
print(f(torch.ones(2)), g(torch.ones(3)))
"""


def test_an_issue_does_not_identify_the_machine(tmp_path, monkeypatch):
    """The issue of a real run contains no folder, tensor value or variable."""
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    monkeypatch.setenv("MY_TOKEN", "s3cr3tvalue")
    monkeypatch.setenv("CUSTOMER", "Dvorak & Sons")
    monkeypatch.setenv("HOME", str(tmp_path / "home" / "alice"))
    monkeypatch.setattr(getpass, "getuser", lambda: "alice_q")
    text = issue.text(issue.write(Script(path), Run(0, "", 0.1), Run(0, "", 0.1), {}))
    record = text.partition("## Record")[2]
    assert "torch" in text.partition("## Environment")[2]
    assert '"function": "f"' in record.replace('":"', '": "')
    values = [f"{value:.2f}" for value in (torch.arange(3).exp() * 31415.9265).tolist()]
    for private in (str(tmp_path), str(Path.cwd()), "s3cr3tvalue", "Dvorak", "alice", socket.gethostname(), *values):
        assert private not in text, private
    assert "/opt/hidden/place" in text  # the program's own text is as it is
    assert text.count("/opt/hidden/place") == 1
