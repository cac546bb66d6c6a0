"""``cache``: shows and clears the stores."""

from __future__ import annotations

import json
import os

from nbcompile import config
from nbcompile.tools.commands.command_line import main


def test_the_cache_is_shown_and_cleared(tmp_path, monkeypatch, capsys):
    """`clear` deletes the entries of both stores, and no foreign file."""
    monkeypatch.setenv("NBCOMPILE_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("NBCOMPILE_FRAMES_DIR", raising=False)
    name = "9f2c" * 10
    entries = [tmp_path / "9f" / f"{name}.so", tmp_path / "frames" / name / f"{name[:20]}.json"]
    other = tmp_path / "9f" / "notes of mine.txt"
    for path in (*entries, other):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1234")
    assert main(["cache", "--json"]) == 0
    assert {each["store"]: each["files"] for each in json.loads(capsys.readouterr().out)} == {
        "functions": 1,
        "kernels": 1,
    }
    with config.patch(kernel_store_megabytes=7):
        assert main(["cache"]) == 0
    assert "0.0 MiB of 7  " in capsys.readouterr().out
    assert main(["cache", "clear"]) == 0
    assert "removed 2 files" in capsys.readouterr().out
    assert [path.exists() for path in (*entries, other)] == [False, False, True]


def test_what_killed_processes_left_is_shown_and_cleared(tmp_path, monkeypatch, capsys):
    """`cache` counts the files of killed processes; `clear` removes those that no process can be writing."""
    monkeypatch.setenv("NBCOMPILE_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("NBCOMPILE_FRAMES_DIR", raising=False)
    key = "9f2c" * 10
    left = (
        tmp_path / "9f" / "9f2c9f2c-0123456789abcdef" / "draft.so",
        tmp_path / "9f" / "9f2c9f2c-ab_d0123.draft",
        tmp_path / "frames" / key / "tmpab_d0123.draft",
        tmp_path / "frames" / key / f"{key[:20]}.page",
    )
    written = tmp_path / "9f" / "9f2c9f2c-fedcba9876543210" / "draft.so"
    for path in (*left, written):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 1000)
    assert main(["cache"]) == 0
    assert "left by" not in capsys.readouterr().out
    for path in (*left, left[0].parent):
        os.utime(path, (0, 0))
    assert main(["cache"]) == 0
    said = capsys.readouterr().out
    assert "left by processes that were killed: 4 of these (0.0 MiB)" in said
    assert "`cache clear` now" in said
    assert main(["cache", "--json"]) == 0
    shown = {each["store"]: each for each in json.loads(capsys.readouterr().out)}
    assert [shown[name]["unfinished"] for name in ("functions", "kernels")] == [2, 2]
    assert [shown[name]["bytes"] for name in ("functions", "kernels")] == [2000, 2000]
    assert main(["cache", "list"]) == 0
    assert str(left[0].parent) in capsys.readouterr().out
    assert main(["cache", "clear"]) == 0
    assert "removed 4 files" in capsys.readouterr().out
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [written]
    assert not (tmp_path / "frames" / key).exists()
