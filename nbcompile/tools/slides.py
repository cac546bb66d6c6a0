"""Slides of a lecture: an executed MyST notebook as a deck of reveal.js, and as a page for print.

    python -m nbcompile.tools.slides notebooks/course/3_breaks.md -o build/slides --reveal build/slides/reveal.js

A heading begins a column of slides. Its text and the code that follows are on the first one; each section of the
picture has a slide below it, readable from the last row. Set-up and claims are left out. A deck is one file: reveal.js,
from a folder that `make slides` fetches, is inlined, and nothing is loaded.

In torch: nothing. Read next: nbcompile/tools/slide_parts.py, nbcompile/tools/tour.py
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

from markupsafe import Markup
from nbformat import NotebookNode

from nbcompile.tools import slide_parts, tour
from nbcompile.tools.page import POLICY, page, rendered_output, rendered_source
from nbcompile.tools.slide_parts import Slide
from nbcompile.views import assets, html

STYLE = Path(__file__).parent / "static" / "slides.css"

_DECK = Markup("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{reveal_style}</style>
<style>{style}</style>
{view_style}
</head>
<body>
<main class="reveal"><div class="slides">
{columns}
</div></main>
{view_script}
<script>{reveal_script}</script>
<script>Reveal.initialize({{ hash: true, slideNumber: "c/t", transition: "none", width: 1280, height: 720, margin: 0,
  center: false, controlsTutorial: false }});</script>
</body>
</html>
""")


@dataclass(slots=True)
class Columns:
    """The slides so far: columns side by side, slides one below another in each."""

    columns: list[list[Slide]] = field(default_factory=list)

    def begin(self, slide: Slide) -> None:
        """Begin a column."""
        self.columns.append([slide])

    def below(self, slide: Slide) -> None:
        """Add a slide below the last one."""
        if not self.columns:
            self.columns.append([])
        self.columns[-1].append(slide)

    def continued(self, slide: Slide) -> None:
        """Add the content to the last slide if both fit on it, else a slide below it."""
        last = self.columns[-1][-1] if self.columns and self.columns[-1] else None
        if last is None or last.lines + slide.lines > slide_parts.MAX_LINES:
            self.below(slide)
        else:
            self.columns[-1][-1] = Slide(last.content + slide.content, last.lines + slide.lines)


def columns(notebook: NotebookNode) -> list[list[Slide]]:
    """The slides of a notebook."""
    found = Columns()
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            for part in re.split(r"^(?=##? )", cell.source, flags=re.MULTILINE):
                if part.strip():
                    first, *rest = slide_parts.split_text(part)
                    (found.begin if part.startswith("#") else found.continued)(first)
                    for slide in rest:
                        found.below(slide)
        elif cell.cell_type == "code":
            _add_code(found, cell)
    return found.columns


def _add_code(found: Columns, cell: NotebookNode) -> None:
    """Code with its outputs, if one of them is a picture, a verdict or an exercise."""
    shown = [output for output in cell.get("outputs", []) if slide_parts.is_picture(output)]
    if not shown:
        return
    code = Slide(rendered_source(cell.source.strip()), cell.source.strip().count("\n") + 2)
    if not cell.source.startswith("exercise(") or "\n" in cell.source.strip():  # else the task says all
        found.continued(code)
    for output in shown:
        for part in slide_parts.split_output(output):
            if part.needs_code:
                found.below(code)
            (found.continued if part.is_short or part.needs_code else found.below)(part)
    for output in cell.get("outputs", []):
        if output.output_type == "error":
            found.continued(Slide(rendered_output(output), 4))


def deck(notebook: NotebookNode, title: str, reveal: Path) -> str:
    """The deck as self-contained HTML.

    Raises:
        FileNotFoundError: ``reveal`` is no copy of reveal.js.
    """
    sections = Markup("\n").join(
        Markup("<section>\n{}\n</section>").format(
            Markup("\n").join(Markup("<section>{}</section>").format(slide.content) for slide in column)
        )
        for column in columns(notebook)
    )
    # ``</script`` in a text of the program would end the element; JavaScript reads ``<\/`` as the same text.
    script = (reveal / "dist" / "reveal.js").read_text(encoding="utf-8")
    return str(
        _DECK.format(
            policy=Markup(POLICY), title=title, columns=sections,
            style=Markup(STYLE.read_text(encoding="utf-8")),
            reveal_style=Markup((reveal / "dist" / "reveal.css").read_text(encoding="utf-8")),
            reveal_script=Markup(script.replace("</script", "<\\/script")),
            view_style=assets.styles(*html.ALL_STYLES), view_script=assets.script(*html.ALL_PROGRAMS),
        )
    )  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return 0 if every lecture ran to its end."""
    parser = argparse.ArgumentParser(description="Execute lectures; write each as slides, and as a page for print.")
    parser.add_argument("lectures", nargs="+", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=Path("build/slides"), help="default: %(default)s")
    parser.add_argument("--reveal", type=Path, default=Path("build/slides/reveal.js"), help="a copy of reveal.js")
    options = parser.parse_args(arguments)
    if not (options.reveal / "dist" / "reveal.js").is_file():
        parser.error(f"{options.reveal} is no copy of reveal.js: `make slides` fetches one")
    options.output.mkdir(parents=True, exist_ok=True)
    failed = False
    for lecture in options.lectures:
        executed = tour.execute(lecture)
        if executed.error:
            print(f"✗ {lecture}: {executed.error}", file=sys.stderr)
            failed = True
            continue
        printed, slides = (options.output / f"{lecture.stem}.{kind}.html" for kind in ("print", "slides"))
        printed.write_text(page(executed.notebook), encoding="utf-8")
        slides.write_text(deck(executed.notebook, lecture.stem, options.reveal), encoding="utf-8")
        print(f"{slides}\n{printed}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
