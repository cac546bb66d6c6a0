"""Archives of compiled code: one process saves them, and another one loads them into an empty store."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch

import nbcompile
from nbcompile import config, errors
from nbcompile.fast.disk_cache import archives, storage, writer
from nbcompile.runtime import store
from tests.support import processes
from tests.support.processes import python

PROGRAM = """
import json, sys, pathlib
import torch, nbcompile
from nbcompile.record.recorder import Recorder
if sys.argv[1] == "load":
    loaded = nbcompile.load_cache_artifacts(pathlib.Path(sys.argv[2]).read_bytes())
    assert loaded.functions and loaded.kernels and loaded.size, loaded
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 4))
def f(x):
    y = net(x)
    print("between", file=sys.stderr)
    return torch.softmax(y, -1)
def of_any_size(x):
    return x.sin() * x.shape[0]
recorder = Recorder("f")
with recorder.listening():
    x = torch.ones(2, 4, requires_grad=True)
    nbcompile.compile(f)(x)[0, 0].backward()
    gradient, x.grad = x.grad, None
    f(x)[0, 0].backward()
    assert torch.allclose(x.grad, gradient)
    for size in (3, 5, 7):
        x = torch.ones(size)
        assert torch.allclose(nbcompile.compile(of_any_size)(x), of_any_size(x))
if sys.argv[1] == "save":
    pathlib.Path(sys.argv[2]).write_bytes(nbcompile.save_cache_artifacts())
compiled = [name for name in ("nbcompile.driver.stages", "nbcompile.lowering", "sympy") if name in sys.modules]
print(json.dumps([compiled, [frame.cause.startswith("loaded") for frame in recorder.frames]]))
"""


def run(folder: Path, *arguments: str, program: str = PROGRAM) -> str:
    """The output of a program in another process, with a store in a folder."""
    where = {"NBCOMPILE_CACHE_DIR": folder, "NBCOMPILE_WARM_START": "1", "NBCOMPILE_FRAMES_DIR": None}
    return python(program, *arguments, **where)


@pytest.fixture(scope="module")
def here(tmp_path_factory) -> Path:
    """A folder with the store that one process filled, and the archive that it saved."""
    folder = tmp_path_factory.mktemp("here")
    compiled, loaded = json.loads(run(folder / "store", "save", str(folder / "model.zip")))
    assert compiled
    assert not any(loaded)
    return folder


@pytest.mark.fast_path
def test_an_archive_takes_compiled_code_to_an_empty_store(here, tmp_path):
    """Nothing is compiled after the load; loaded code can be saved into another archive."""
    second = str(tmp_path / "second.zip")
    again = PROGRAM.replace('if sys.argv[1] == "save"', "if True").replace(
        "pathlib.Path(sys.argv[2]).write_bytes", "pathlib.Path(sys.argv[3]).write_bytes"
    )
    runs = [
        run(tmp_path / "two", "load", str(here / "model.zip"), second, program=again),
        run(tmp_path / "three", "load", second),
    ]
    for compiled, loaded in map(json.loads, runs):
        assert compiled == []
        assert all(loaded)


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """``python -m nbcompile cache ...`` with the store in a folder."""
    where = {"NBCOMPILE_CACHE_DIR": folder, "NBCOMPILE_FRAMES_DIR": None}
    return processes.command(sys.executable, "-m", "nbcompile", "cache", *arguments, status=None, **where)


@pytest.mark.fast_path
def test_the_command_moves_whole_stores(here, tmp_path):
    """``cache save`` packs the whole store, ``cache load`` installs it, and the program loads all of it."""
    file = str(tmp_path / "store.zip")
    saved = command(here / "store", "save", file, "--json")
    loaded = command(tmp_path / "there", "load", file, "--json")
    assert (saved.returncode, loaded.returncode) == (0, 0), saved.stderr + loaded.stderr
    assert json.loads(saved.stdout) == json.loads(loaded.stdout)
    compiled, found = json.loads(run(tmp_path / "there", "load", file))
    assert compiled == []
    assert all(found)


@pytest.mark.parametrize(
    ("arguments", "said", "code"),
    [
        (["save"], "expected the name of a file", 2),
        (["list", "x.zip"], "nbcompile cache list: expected no file", 2),
        (["load", "absent.zip"], "No such file", 1),
        (["load", __file__], "Invalid cache artifacts: File is not a zip file. Nothing was installed.", 1),
    ],
    ids=["no file", "a file for list", "absent", "no archive"],
)
def test_wrong_use_of_the_command_is_one_line(tmp_path, arguments, said, code):
    """The line says which arguments are expected, without a traceback."""
    ran = command(tmp_path, *arguments)
    assert ran.returncode == code
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.fixture
def stores(tmp_path, monkeypatch):
    """Empty stores for the test in this process."""
    nbcompile.reset()
    monkeypatch.setenv("NBCOMPILE_CACHE_DIR", str(tmp_path / "store"))
    monkeypatch.delenv("NBCOMPILE_FRAMES_DIR", raising=False)
    monkeypatch.setattr(storage, "_used", set())
    monkeypatch.setattr(store, "_used", set())
    with config.patch(warm_start=True):
        yield tmp_path / "store"


def saved() -> bytes:
    """The archive of one compiled function."""
    nbcompile.compile(lambda x: x.sin() + 1)(torch.ones(3))
    content = nbcompile.save_cache_artifacts()
    assert content is not None
    return content


def files(folder: Path) -> dict[str, bytes]:
    """The contents of all files below a folder, by name."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_process_that_compiled_nothing_saves_nothing(stores):
    """The result is None, as in torch."""
    assert nbcompile.save_cache_artifacts() is None


@pytest.mark.fast_path
def test_an_archive_holds_the_stores_files(stores, monkeypatch, tmp_path):
    """The archive has all files that a process used, byte for byte; checksums are created again."""
    content = saved()
    writer.flush()
    before = files(stores)
    monkeypatch.setenv("NBCOMPILE_CACHE_DIR", str(tmp_path / "other"))
    artifacts = nbcompile.load_cache_artifacts(content)
    after = files(tmp_path / "other")
    assert {name: before[name] for name in after} == after
    assert [name for name in before.keys() - after.keys() if name.startswith("frames")] == []
    assert artifacts.functions == sum(name.startswith("frames") for name in after)
    assert artifacts.kernels > 0


@pytest.mark.fast_path
def test_an_archive_replaces_what_is_damaged(stores):
    """An archive that is loaded into a damaged store replaces the damaged files."""
    content = saved()
    writer.flush()
    whole = files(stores)
    damaged = [path for path in stores.rglob("*") if path.suffix in (".json", ".so")]
    for path in damaged:
        path.unlink()  # this process has loaded the libraries: truncated in place, they would end it (SIGBUS)
        path.write_bytes(b"damaged")
    nbcompile.load_cache_artifacts(content)
    assert {name: text for name, text in files(stores).items() if name.endswith(".so")} == {
        name: text for name, text in whole.items() if name.endswith(".so")
    }
    assert all(storage.contents(path) for path in storage.directory().rglob("*.json"))


def archive_of(*members: tuple[str, bytes]) -> bytes:
    """A zip file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, whole in members:
            archive.writestr(zipfile.ZipInfo(name), whole)
    return buffer.getvalue()


KEY = "0" * 40


@pytest.mark.parametrize(
    "name",
    [
        f"kernels/../{KEY}.so",
        f"/kernels/{KEY}.so",
        f"kernels/{KEY}.so/x",
        f"kernels/{KEY}...so",
        f"kernels/{KEY}.so.sha256",
        f"kernels/{KEY}",
        f"kernels/{KEY.replace('0', 'G')}.so",
        f"functions/{KEY}/../../{KEY}.json",
        f"functions/../{KEY}.json",
        f"functions/{KEY}/{KEY}.py",
        "",
        "x",
        f"kernels/{KEY}.so\n",
    ],
)
def test_names_that_are_not_of_the_stores_are_rejected(stores, name):
    """An archive with one invalid name writes nothing."""
    content = archive_of((f"kernels/{KEY}.cpp", b"int x;"), (name, b"x"))
    with pytest.raises(errors.InvalidArchive, match="Nothing was installed"):
        nbcompile.load_cache_artifacts(content)
    assert not stores.exists()


@pytest.mark.fast_path
def test_damage_anywhere_is_rejected_or_harmless(stores, monkeypatch, tmp_path):
    """An archive with one changed byte installs nothing or the original files; a truncated one installs nothing."""
    content = saved()
    monkeypatch.setenv("NBCOMPILE_CACHE_DIR", str(tmp_path / "whole"))
    nbcompile.load_cache_artifacts(content)
    whole = files(tmp_path / "whole")
    rejected = 0
    for step in range(24):
        folder = tmp_path / f"damaged{step}"
        monkeypatch.setenv("NBCOMPILE_CACHE_DIR", str(folder))
        position = step * (len(content) - 1) // 23
        damaged = content[:position] + bytes([content[position] ^ 0x55]) + content[position + 1 :]
        try:
            nbcompile.load_cache_artifacts(damaged)
        except errors.InvalidArchive:
            rejected += 1
            assert not folder.exists()
        else:
            assert set(files(folder).items()) <= set(whole.items())
        with pytest.raises(errors.InvalidArchive):
            nbcompile.load_cache_artifacts(content[:position])
    assert rejected > 12


def test_an_entry_with_another_entrys_file_is_rejected(stores, monkeypatch, tmp_path):
    """The checksum of a function's file includes its name, so the file of another function is rejected."""
    text = b'{"a": 1}'
    own = store.checksum(f"{KEY}/{KEY[:20]}.json", text).encode() + b"\n" + text
    artifacts = nbcompile.load_cache_artifacts(archive_of((f"functions/{KEY}/{KEY[:20]}.json", own)))
    assert (artifacts.functions, artifacts.kernels) == (1, 0)
    with pytest.raises(errors.InvalidArchive, match="does not have its checksum"):
        nbcompile.load_cache_artifacts(archive_of((f"functions/{KEY}/{'1' * 20}.json", own)))


def test_archives_that_are_too_large_are_rejected_unread(stores):
    """The sizes in the headers of the members are added up first."""
    content = archive_of(*((f"kernels/{digit * 40}.so", bytes(1 << 19)) for digit in "0123456789"))
    with (
        config.patch(warm_start_megabytes=1, kernel_store_megabytes=1),
        pytest.raises(errors.InvalidArchive, match="expected at most 2097152 bytes of files, got 5242880"),
    ):
        nbcompile.load_cache_artifacts(content)
    assert not stores.exists()


def test_a_member_that_declares_too_little_is_rejected(stores):
    """A member that unpacks to more data than its header says, as in a zip bomb, is not read beyond that size."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo(f"kernels/{KEY}.so"), bytes(1 << 22), zipfile.ZIP_DEFLATED)
    content = buffer.getvalue().replace((1 << 22).to_bytes(4, "little"), (16).to_bytes(4, "little"))
    with pytest.raises(errors.InvalidArchive, match="CRC"):
        nbcompile.load_cache_artifacts(content)
    assert not stores.exists()


def test_two_files_of_one_name_are_rejected(stores):
    """An archive with two files of the same name is rejected."""
    with pytest.warns(UserWarning, match="Duplicate name"):
        content = archive_of((f"kernels/{KEY}.so", b"one"), (f"kernels/{KEY}.so", b"two"))
    with pytest.raises(errors.InvalidArchive, match="is there twice"):
        nbcompile.load_cache_artifacts(content)


def test_equal_stores_make_equal_archives(stores):
    """An archive contains neither dates nor the order of files on the disk."""
    nbcompile.load_cache_artifacts(archive_of(*((f"kernels/{digit * 40}.cpp", b"x") for digit in "0123")))
    paths = store.used()
    assert archives.pack([], paths) == archives.pack([], paths)
    assert len(paths) == 4


@pytest.mark.parametrize("suffix", [".page", ".json"])
def test_a_full_disk_leaves_whole_entries_alone(stores, monkeypatch, tmp_path, suffix):
    """Of two functions, the one whose file finds no room leaves nothing; the other one is installed, or not begun."""
    for key in ("01" * 12, "23" * 12):
        assert storage.add(key, {"guards": []}, {"frame": 1})
    content, written, full = nbcompile.save_cache_artifacts(), storage._write, []
    monkeypatch.setenv("NBCOMPILE_CACHE_DIR", str(tmp_path / "other"))

    def second_is_rejected(path, text):
        full.extend([path] * (path.suffix == suffix))
        if len(full) > 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written(path, text)

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
        patch.setattr(storage, "_write", second_is_rejected)
        nbcompile.load_cache_artifacts(content)
    assert len(full) == 2
    left = sorted(storage.directory().rglob("*.*"))
    assert left == [full[0].with_suffix(".json"), full[0].with_suffix(".page")]
