"""A program that is run here finds what ``python`` gives it."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile

import pytest

from nbcompile.tools import main_program

PROGRAM = """
import json, os, pickle, sys

class Thing:
    pass

main = sys.modules["__main__"]
found = dict(
    argv=sys.argv, first=sys.path[0], file=__file__, name=__name__, package=__package__, spec=__spec__, doc=__doc__,
    cached=__cached__, loader=type(__loader__).__name__, builtins=type(__builtins__).__name__, own=vars(main) is globals(),
    names=sorted(name for name in globals() if name.startswith("__")), pickled=type(pickle.loads(pickle.dumps(Thing()))) is Thing,
    source=__loader__.get_source("__main__")[:7],
)
print(json.dumps(found))
"""
RUN = "import sys; from nbcompile.tools import main_program; main_program.run(sys.argv[1], sys.argv[2:])"


def _output(*command, folder):
    return json.loads(subprocess.run([sys.executable, *command], cwd=folder, check=True, capture_output=True).stdout)


@pytest.mark.parametrize("options", [(), ("-P",)])
def test_a_program_finds_what_python_gives_it(tmp_path, options):
    """Arguments, paths, and the names of its module are those of ``python program.py``."""
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "program.py").write_text(PROGRAM)
    arguments = ("inner/program.py", "--epochs", "3")
    plain = _output(*options, *arguments, folder=tmp_path)
    found = _output(*options, "-c", RUN, *arguments, folder=tmp_path)
    if options:  # no folder of the program is on the path, and that of a command (-c) is none either
        plain.pop("first"), found.pop("first")
    assert found == plain
    assert plain["package"] is None


def test_an_archive_is_run(tmp_path):
    """An archive with a ``__main__.py`` is a program, too."""
    with zipfile.ZipFile(tmp_path / "program.pyz", "w") as archive:
        archive.writestr("__main__.py", "import json, sys\nprint(json.dumps([sys.argv, __name__]))")
    assert _output("-c", RUN, "program.pyz", "3", folder=tmp_path)[1] == "__main__"


def test_the_prior_main_module_is_back(tmp_path, monkeypatch):
    """After a program, also one that raises, ``__main__`` is what it was, and the traceback begins in the program."""
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setattr(sys, "path", [*sys.path])
    program, prior = tmp_path / "program.py", sys.modules["__main__"]
    program.write_text("raise SystemExit(3)")
    with pytest.raises(SystemExit) as caught:
        main_program.run(str(program), [])
    assert sys.modules["__main__"] is prior
    own = main_program.without_own_frames(caught.value.__traceback__.tb_next)
    assert own.tb_frame.f_code.co_filename == str(program)


def test_a_coding_of_the_source_is_respected(tmp_path):
    """The first line of a program may name its coding."""
    (tmp_path / "program.py").write_bytes("# coding: latin-1\nprint(ascii('é'))".encode("latin-1"))
    command = [sys.executable, "-c", RUN, "program.py"]
    assert subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout == "'\\xe9'\n"


def test_threads_of_the_program_are_waited_for(tmp_path):
    """A program ends with its last thread that is no daemon, also after ``sys.exit``."""
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, threading, time\n"
        "def late():\n    time.sleep(0.3)\n    threading.Thread(target=lambda: print('last')).start()\n"
        "threading.Thread(target=late).start()\n"
        "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        "sys.exit(3)\n"
    )
    own = "import sys\nfrom nbcompile.tools import main_program\n"
    run = "try:\n    main_program.run(sys.argv[1], [])\nfinally:\n    print('end')"
    command = [sys.executable, "-c", own + run, str(program)]
    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout.split()) == (3, ["last", "end"])


def test_a_record_has_what_a_late_thread_compiles(tmp_path):
    """``run`` records a function that is compiled after the last line of the program."""
    program = tmp_path / "program.py"
    program.write_text(
        "import threading, time, torch, nbcompile\n"
        "f = nbcompile.compile(lambda x: x + 1, backend='eager')\n"
        "def late():\n    threading.Event().wait(0.3)\n    f(torch.ones(2))\n"
        "threading.Thread(target=late).start()\n"
    )
    command = [sys.executable, "-m", "nbcompile", "run", str(program)]
    done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert "1 graph, 1 operator" in done.stdout
