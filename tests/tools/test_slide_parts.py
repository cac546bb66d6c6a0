"""Outputs and texts of a notebook, split into slides."""

from __future__ import annotations

import re

from nbformat.v4 import new_output

from nbcompile.tools import slide_parts
from nbcompile.views import html, sections
from tests.views import sample_records as sample


def picture(record, *shown):
    page = html.render(record, shown or sections.USUAL)
    return new_output("display_data", data={"text/html": page, "text/plain": "picture"})


def test_every_section_of_every_picture_has_a_slide():
    """A deck has all that a notebook shows, unfolded."""
    for record in (sample.simple(), sample.recompiled(), sample.nested()):
        page = html.render(record, sections.USUAL, assets=False)  # whose rules name sections, too
        made = list(slide_parts.split_output(picture(record)))
        shown = re.findall(r'data-s="?(\w+)"?', " ".join(str(slide.content) for slide in made))
        assert set(shown) == set(re.findall(r'data-s="?(\w+)"?', page))
        assert not any(re.search(r'<details data-s="?\w+"?>', slide.content) for slide in made)


def test_a_long_text_goes_on_on_the_next_slide():
    """Blocks are not split; code that is longer than a slide has two columns."""
    code = "```python\n" + "\n".join(f"line{number} = 0" for number in range(30)) + "\n```"
    made = list(slide_parts.split_text("\n\n".join([*("word " * 60 for _ in range(6)), code])))
    assert len(made) > 2 and all(slide.lines <= slide_parts.MAX_LINES for slide in made[:-1])
    assert 'pre class="two-columns"' in made[-1].content and "line0" in made[-1].content
