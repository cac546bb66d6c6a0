"""A damaged store never gives a wrong result: a call loads or compiles, with at most a warning."""

from __future__ import annotations

import json
import os
import random
import shutil
import warnings

import pytest
import torch

from nbcompile import errors
from nbcompile.fast.disk_cache import storage
from nbcompile.runtime import cpp, toolchain

PROGRAM = """
import torch
def f(x):
    return torch.softmax(x, -1) * 2
def g(x):
    return torch.softmax(x, -1) * 3
"""


def rewrite(path, content):
    """Write another file of the same name."""
    # The old one stays as it is for this process, which may have loaded it: a library that is truncated in place ends
    # the process (SIGBUS).
    path.unlink()
    path.write_bytes(content)


def flipped(at):
    """Damage that flips one bit in a part of the file."""

    def damage(path):
        content = bytearray(path.read_bytes())
        content[int(at * (len(content) - 1))] ^= random.Random(at).choice((1, 0x80))
        rewrite(path, content)

    return damage


def truncated(at):
    """Damage that truncates the file."""

    def damage(path):
        content = path.read_bytes()
        rewrite(path, content[: int(at * len(content))])

    return damage


def written(content):
    """Damage that replaces the whole content."""
    return lambda path: rewrite(path, content)


def instead(make):
    """Damage that replaces the file by another kind of object."""

    def damage(path):
        path.unlink()
        make(path)

    return damage


def huge(path):
    """A sparse file that is larger than any file that is read."""
    path.unlink()
    with path.open("wb") as file:
        file.truncate(1 << 34)


DAMAGES = {
    **{f"a bit at {at}": flipped(at) for at in (0, 0.01, 0.3, 0.7, 1)},
    **{f"the end at {at}": truncated(at) for at in (0, 0.1, 0.5, 0.99)},
    **{
        f"written {text[:12]!r}": written(text)
        for text in (b"\xff\xfe\x00", b"null", b"[]", b"{}", b"\0" * 64, b"[" * 9999)
    },
    "longer": lambda path: rewrite(path, path.read_bytes() + b" "),
    "huge": huge,
    "a folder": instead(lambda path: path.mkdir()),
    "a full folder": instead(lambda path: (path / "below").mkdir(parents=True)),
    "a link to nowhere": instead(lambda path: path.symlink_to("nowhere")),
    "a link to itself": instead(lambda path: path.symlink_to(path)),
    "a pipe": instead(os.mkfifo),
    "gone": lambda path: path.unlink(),
}


def files(folder):
    """Every file of the store, by kind."""
    found = {}
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        found.setdefault("".join(path.suffixes), []).append(path)
    return found


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """The path of a store that is filled once and then copied."""
    return tmp_path_factory.mktemp("filled") / "store"


@pytest.fixture
def fresh(process, tmp_path, filled, monkeypatch):
    """``fresh()``: the filled store without damage, as in a process that has loaded nothing yet."""
    store, x = tmp_path / "store", torch.linspace(-1, 1, 8).view(2, 4)
    monkeypatch.setattr(storage, "_warned", set())
    if not filled.exists():
        cpp._load.cache_clear()
        process(PROGRAM).call("f", x)
        process(PROGRAM).call("g", x)
        shutil.copytree(store, filled)

    def make():
        shutil.rmtree(store, ignore_errors=True)
        shutil.copytree(filled, store)
        cpp._load.cache_clear()
        storage._warned.clear()

    yield make
    cpp._load.cache_clear()


def right(run, name="f"):
    """Assert that the result is eager mode's, and that only nbcompile's own warnings are shown."""
    x = torch.linspace(-1, 1, 8).view(2, 4)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        torch.testing.assert_close(run.call(name, x), getattr(run.module, name)(x))
    assert {each.category for each in told} <= {errors.StoreWarning}, [str(each.message) for each in told]


IN_THE_GATE = ("a bit at 0", "a bit at 0.7", "the end at 0.5", "written b'[]'", "huge", "a full folder", "a pipe")
SAMPLED = [each if each in IN_THE_GATE else pytest.param(each, marks=pytest.mark.slow) for each in DAMAGES]


@pytest.mark.parametrize("damage", SAMPLED)
def test_every_kind_of_file_is_damaged_in_every_way(fresh, process, damage, tmp_path):
    """Entries, pages, shared objects, sources and checksums: all files of one kind are damaged at a time."""
    fresh()
    kinds = files(tmp_path / "store")
    assert {".json", ".page", ".so", ".so.sha256"} <= kinds.keys()
    for kind in kinds:
        fresh()
        for path in files(tmp_path / "store")[kind]:
            DAMAGES[damage](path)
        right(process(PROGRAM))


def test_a_whole_file_in_the_place_of_another_is_damage(fresh, process, tmp_path):
    """The file of another function with a valid checksum is detected."""
    fresh()
    for kind, paths in files(tmp_path / "store").items():
        for turned in (paths, paths[1:] + paths[:1]):
            fresh()
            contents = [path.read_bytes() for path in turned]
            for path, content in zip(paths, contents, strict=True):
                rewrite(path, content)
            for name in "fg":
                right(process(PROGRAM), name)
        pairs = [(path, path.with_suffix(path.suffix + ".sha256")) for path in paths if not kind.endswith("sha256")]
        fresh()
        if pairs := [pair for pair in pairs if pair[1].exists()]:
            contents = [[each.read_bytes() for each in pair] for pair in pairs]
            for pair, both in zip(pairs, contents[1:] + contents[:1], strict=True):
                for path, content in zip(pair, both, strict=True):
                    rewrite(path, content)
            for name in "fg":
                right(process(PROGRAM), name)


def other_shapes(value):
    """Similar JSON values in which one part has another type, one after the other."""
    others = (None, 1, "x", [], {}, [[1]], -1.5)
    if isinstance(value, dict):
        for name, part in value.items():
            yield {key: each for key, each in value.items() if key != name}
            for other in others:
                yield {**value, name: other}
            for changed in other_shapes(part):
                yield {**value, name: changed}
    elif isinstance(value, list):
        for at in range(min(len(value), 3)):
            yield [*value[:at], *value[at + 1 :]]
            for changed in other_shapes(value[at]):
                yield [*value[:at], changed, *value[at + 1 :]]


@pytest.mark.parametrize("suffix", [".json", ".page"])
def test_other_shapes_of_json_are_passed_over(fresh, process, suffix, tmp_path):
    """Guards, addresses and pages of wrong types with a right checksum are ignored. (Kernels are trusted.)"""
    fresh()
    wanted = {"addresses", "guards", "assumed", "inputs"} if suffix == ".json" else None
    for folder in sorted((tmp_path / "store" / "frames").iterdir()):
        (path,) = folder.glob("*" + suffix)
        content = json.loads(path.read_bytes().partition(b"\n")[2])
        shapes = [
            {**content, name: changed}
            for name, part in content.items()
            if wanted is None or name in wanted
            for changed in (None, 1, "x", [], {}, *other_shapes(part))
        ]
        for changed in random.Random(1).sample(shapes, 6):
            fresh()
            storage._write(path, json.dumps(changed).encode())
            right(process(PROGRAM), "f")
            right(process(PROGRAM), "g")


@pytest.mark.parametrize("name", ["x" * 300, "/".join(["x" * 200] * 30), "/dev/null/x", "/proc/nothing", "a\nb", "ü€"])
def test_any_name_of_a_folder(process, name, tmp_path, monkeypatch):
    """A path that is too long, below a file, not writable, or with unusual characters gives right results."""
    monkeypatch.setenv("NBCOMPILE_CACHE_DIR", os.path.join(tmp_path, name))
    monkeypatch.setattr(storage, "_warned", set())
    for _ in range(2):
        cpp._load.cache_clear()
        right(process(PROGRAM))


@pytest.mark.parametrize("text", ["", "null", "[]", "{}", "[1]", '["g++", "-fplugin=evil.so"]', "[" * 9999, "\udcff"])
def test_what_is_written_of_the_compiler_is_no_command(text, tmp_path):
    """Only the compiler's version and known flags are accepted; anything else is determined again."""
    path = tmp_path / "compiler.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    assert toolchain._read(path) is None
