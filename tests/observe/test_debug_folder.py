"""The folder of TORCH_COMPILE_DEBUG."""

from __future__ import annotations

import pytest

from nbcompile.observe import debug_folder
from tests.views import sample_records as sample


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A temporary folder, and the variable that asks for it."""
    monkeypatch.setenv(debug_folder.FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setenv(debug_folder.VARIABLE, "1")
    debug_folder.run_folder.cache_clear()
    yield tmp_path
    debug_folder.run_folder.cache_clear()


def test_frames_are_wanted_only_where_the_variable_is_set(monkeypatch):
    """The variable must be "1", as in torch."""
    subscriber = debug_folder.DebugFolder()
    for value, wanted in (("1", True), ("0", False), ("", False)):
        monkeypatch.setenv(debug_folder.VARIABLE, value)
        assert subscriber.wants_frames() is wanted


def test_each_frame_has_a_folder_with_its_artifacts(folder):
    """Only artifacts with content are written."""
    frame = sample.simple_frame()
    debug_folder.DebugFolder().receive(frame, ())
    written = {path.name: path for path in folder.rglob("*") if path.is_file()}
    assert "guards.txt" in written and "TREE_GUARD_MANAGER" in written["guards.txt"].read_text()
    assert all(path.read_text().strip() for path in written.values())


def test_a_disk_that_rejects_is_a_warning(folder, monkeypatch, caplog):
    """A write error at the end of a compile is a warning."""
    (folder / "torch_compile_debug").write_text("a file where the folder should be")
    debug_folder.DebugFolder().receive(sample.simple_frame(), ())
    assert not [path for path in folder.rglob("*.txt") if path.is_file()]
