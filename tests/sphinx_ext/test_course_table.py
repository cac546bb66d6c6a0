"""Counts of a page of the book or the course."""

from __future__ import annotations

from nbcompile.sphinx_ext import course_table
from nbcompile.sphinx_ext.course_table import CourseTable, count
from tests.sphinx_ext import pages

PAGE = """# A page

`%%compile` and `claim(` in prose are none.

```{code-cell}
:tags: [hide-input]
%%compile --predict
claim = 3
```

```{code-cell} ipython3
seen.show("graph")
claim("one", 1 == 1)
if True:
    claim("two", 2 == 2)
```

```python
%%compile --predict
claim("not run", True)
```
"""


def test_only_cells_that_are_executed_count(tmp_path, monkeypatch):
    """Only executed cells count, not prose or shown code; a cell has one picture, and a claim is a call."""
    monkeypatch.setattr(course_table, "ROOT", tmp_path)
    page = tmp_path / "docs" / "a.md"
    page.parent.mkdir()
    page.write_text(PAGE)
    row = count("A subject", page)
    assert (row.page, row.cells, row.pictures, row.claims, row.predictions) == ("docs/a.md", 2, 2, 2, 1)


def test_the_table_has_a_row_for_each_page(tmp_path):
    """The table has the columns' names, and a row with the counts of each page."""
    document, depends = pages.read(tmp_path, ".. course-table::", **{"course-table": CourseTable})
    head, *rows = pages.cells(document)
    assert tuple(head) == course_table.HEAD
    assert [row[1] for row in rows] == [row.page for row in course_table.rows()]
    assert {path.rpartition("/")[2] for _, path, *_ in rows} <= depends
