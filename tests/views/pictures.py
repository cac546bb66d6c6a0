"""Screenshots of views in light and dark, wide and narrow.

    python -m tests.views.pictures build/pictures/gpu              a program for sm_90: seven layers, roofline, tiles
    python -m tests.views.pictures build/pictures/gpu roofline     one of them

The program is compiled for a GPU and simulated when the command runs; everything that it computes can be seen in each
layer, and one operator is selected.
"""

from __future__ import annotations

import argparse
import importlib
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch

import nbcompile
from nbcompile.views import html

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

    from nbcompile.record.model import Record


class Look(NamedTuple):
    """The reader's settings, and the width of the window."""

    scheme: str
    width: int
    host: str = '<meta name=color-scheme content="light dark">'
    """What the page around an output says of its theme."""


LOOKS = {f"{scheme}.{width}": Look(scheme, width) for scheme in ("light", "dark") for width in (1200, 700, 400)}
"""By the part of a file's name."""
HOSTS = {
    # Most pages are light, whatever the reader's setting is.
    "no_theme": Look("dark", 700, ""),
    # The switch of a site overrides the reader's system.
    "light_switch": Look("dark", 700, "<script>document.documentElement.dataset.theme = 'light'</script>"),
    "dark_switch": Look(
        "light", 700,
        "<style>body { background: #15181e }</style><script>document.documentElement.dataset.theme = 'dark'</script>",
    ),
}  # fmt: skip
"""Where reader and page disagree."""
PAGE = (
    '<!doctype html><html lang=en><meta charset=utf-8>{host}<title>An output</title><body style="margin:8px">{output}'
)
SELECTED = "relu"
"""The operator that is selected in the graph."""
SHOWN = ("source", "graph", "kernels")
"""The sections."""
PARTS = {
    "page": ".nbc",
    "source": "[data-s=source]",
    "fx": "[data-s=graph]",
    "roofline": "[data-s=kernels] img[alt^=Roofline]",
    "figures": "[data-s=kernels] .n-tiles",
    "ptx_sass": "[data-s=kernels] .n-scroll:has(> table > caption:text('Lines of the kernel'))",
    "tiles": "[data-s=kernels] details:has(> summary:text('Tiles'))",
    "triton": "[data-s=kernels] .n-code:has-text('@triton.jit')",
    "schedule": "[data-s=kernels] details:has(> summary:text('Fusion log'))",
    "loop_ir": "[data-s=kernels] details:has(> summary:text('Loop-level IR'))",
}
"""What is drawn, and where it is on the page: the first element that is found."""


def block(x, w, scale):
    """A matrix product, a softmax over rows, a transpose, and a sum over columns."""
    hidden = torch.relu(x @ w) * scale
    weights = torch.softmax(hidden, -1)
    turned = hidden.t() + 1
    return weights, turned, hidden.sum(0)


def for_a_gpu() -> Record:
    """The record of :func:`block`, compiled for sm_90."""
    nbcompile.reset()
    torch.manual_seed(0)
    inputs = torch.randn(256, 128), torch.randn(128, 192), torch.randn(192)
    return nbcompile.explain(block, options={"target": "sm_90"})(*inputs).record


def opened(looks: Iterable[Look]) -> Iterator[Page]:
    """A browser page for each look."""
    with importlib.import_module("playwright.sync_api").sync_playwright() as play:  # the tests do without it
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"])
        for look in looks:
            yield browser.new_page(viewport={"width": look.width, "height": 900}, color_scheme=look.scheme)
        browser.close()


def unfold(page: Page) -> None:
    """Unfold everything."""
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")


def select(page: Page) -> None:
    """Select an operator in the graph."""
    page.locator("svg [data-n]", has_text=SELECTED).first.click()
    page.mouse.move(0, 0)  # an element below the mouse would be marked, too


def part(page: Page, name: str) -> Locator:
    """The element of a part."""
    return page.locator(PARTS[name]).first


def main(arguments: Sequence[str] | None = None) -> int:
    """Compile the program, and draw the pictures."""
    parser = argparse.ArgumentParser(prog="python -m tests.views.pictures", description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", choices=[*PARTS, []], metavar="NAME", help=f"some of {', '.join(PARTS)}")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    output, looks = html.render(for_a_gpu(), SHOWN), LOOKS | HOSTS
    for (look, (_, _, host)), page in zip(looks.items(), opened(looks.values()), strict=True):
        page.set_content(PAGE.format(host=host, output=output))
        unfold(page)
        select(page)
        for name in options.names or PARTS:
            path = options.folder / f"{name}.{look}.png"
            part(page, name).screenshot(path=path)
            print(path, flush=True)  # noqa: T201
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
