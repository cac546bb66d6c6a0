"""The cache of executed pages."""

from __future__ import annotations

from nbcompile.sphinx_ext import page_cache


def test_outputs_of_pages_are_kept_for_one_state_of_the_compiler(tmp_path, monkeypatch):
    """The same sources have one folder, a change gives another one, and three folders are kept."""
    package = tmp_path / "package"
    package.mkdir()
    monkeypatch.setattr(page_cache, "ROOT", tmp_path)
    monkeypatch.setattr(page_cache, "FOLDERS", ("package",))
    made = []
    for text in ("1", "1", "2", "3", "4"):
        (package / "a.py").write_text(text)
        (package / "notes.txt").write_text(f"{len(made)}")  # no page shows it
        made.append(page_cache.cache_folder(tmp_path / "pages"))
    assert made[0] == made[1] and len(set(made)) == 4
    assert [each.exists() for each in made[1:]] == [False, True, True, True]


def test_a_file_that_is_renamed_is_another_state(tmp_path):
    """The digest covers the names and the contents of files, except bytecode."""
    folder = tmp_path / "package"
    (folder / "__pycache__").mkdir(parents=True)
    (folder / "a.py").write_text("1")
    first = page_cache.digest([folder])
    (folder / "__pycache__" / "a.py").write_text("2")
    assert page_cache.digest([folder]) == first
    (folder / "a.py").rename(folder / "b.py")
    assert page_cache.digest([folder]) != first
