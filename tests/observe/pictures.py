"""A picture for each row of the table in docs/design/observability.md.

    python -m tests.observe.pictures                    run each command, and draw what it prints
    python -m tests.observe.pictures ablate doctor      these rows
    python -m tests.observe.pictures --draw             draw what the last run printed (build/pictures)

A command that writes a page is shown as this page. Pictures have few colours, so that they are small.
"""

from __future__ import annotations

import argparse
import base64
import html
import os
import re
import struct
import subprocess
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from playwright.sync_api import sync_playwright

from tests.observe.page_commands import BEFORE, ROOT, ROWS, write_programs

if TYPE_CHECKING:
    from playwright.sync_api import Page

KEPT = ROOT / "build" / "pictures"
"""What the commands printed and wrote."""
TARGET = ROOT / "docs" / "_static" / "observe" / "rows"
PAGES = {"tlparse": ("pages/index.html", "#-_0_0_0"), "report": ("program.html", "")}
"""The rows that are shown as the page that they write, from an element on."""
THEN = {"debug_folder": "find torch_compile_debug -type f | sort", "report_issue": "head -70 right_issue.md | tail -55"}
"""What is run after a command, as it prints little."""
LINES, COLUMNS, WIDTH, HEIGHT = 36, 120, 900, 640
LOG_PREFIX = re.compile(r"^[VIWE]\d{4} [\d:.]+ \d+ \S+\] ", re.MULTILINE)
"""Level, day, time, process and place of a line of a log: the same for all, and longer than most lines."""
TERMINAL = """<body style="margin:0;background:#fff"><pre style="margin:0;padding:10px 12px;display:inline-block;
font:12px/15px 'DejaVu Sans Mono',monospace;color:#111;width:{width}ch">{text}</pre></body>"""
PIXELS = """async url => {
  const image = new Image(); image.src = url; await image.decode();
  const canvas = new OffscreenCanvas(image.width, image.height), context = canvas.getContext('2d');
  context.drawImage(image, 0, 0);
  const data = context.getImageData(0, 0, image.width, image.height).data;
  let text = '';
  for (let at = 0; at < data.length; at += 32768) text += String.fromCharCode(...data.subarray(at, at + 32768));
  return [image.width, image.height, btoa(text)];
}"""


def run(command: str, name: str) -> None:
    """Run a command in a separate folder, and return its output and its exit code."""
    folder = KEPT / name
    folder.mkdir(parents=True, exist_ok=True)
    write_programs(folder)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    variables = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    steps = [*(text for end, text in BEFORE.items() if command.endswith(end)), command, THEN.get(name, "")]
    text = ""
    for step in filter(None, steps):
        done = subprocess.run(
            step, shell=True, check=False, cwd=folder, env=variables, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        code = f"[exit code {done.returncode}]\n" if done.returncode else ""
        text += f"$ {step}\n{done.stdout.rstrip()}\n{code}"
    (folder / "output.txt").write_text(_without_folders(text, folder), encoding="utf-8")


def _without_folders(text: str, folder: Path) -> str:
    """Local folders identify the machine, and make lines long."""
    for long, short in ((folder, "."), (Path(sys.prefix), "~/.venv"), (ROOT, "~/nbcompile"), (Path.home(), "~")):
        text = text.replace(str(long), short)
    return "".join(f"{line}\n" for line in text.splitlines() if not line.startswith("USDT:"))  # of the profiler


def terminal(text: str) -> str:
    """A page with the first lines of the output, and a last line that counts the others."""
    lines = LOG_PREFIX.sub("", text).splitlines()
    pieces = [(piece, number) for number, line in enumerate(lines, 1) for piece in _wrapped(line)][:LINES]
    more = len(lines) - pieces[-1][1]
    shown = "\n".join([*(piece for piece, _ in pieces), *([f"... {more} more lines"] if more else [])])
    return TERMINAL.format(text=html.escape(shown), width=min(COLUMNS, max(map(len, shown.splitlines()))))


def _wrapped(line: str) -> list[str]:
    """The pieces of a line that fit."""
    return [line[at : at + COLUMNS] for at in range(0, max(len(line), 1), COLUMNS)]


def draw(page: Page, name: str) -> bytes:
    """A picture of a row, as PNG."""
    folder = KEPT / name
    if name in PAGES:
        path, first = PAGES[name]
        page.goto((folder / path).as_uri())
        if first:
            page.locator(f"[id='{first[1:]}'], a[href*='{first[1:]}']").first.evaluate(
                "found => found.scrollIntoView()"
            )
        shot = page.screenshot()
    else:
        page.set_content(terminal((folder / "output.txt").read_text(encoding="utf-8")))
        shot = page.locator("pre").screenshot()
    url = f"data:image/png;base64,{base64.b64encode(shot).decode()}"
    width, height, pixels = page.evaluate(PIXELS, url)
    rows = np.frombuffer(base64.b64decode(pixels), np.uint8).reshape(height, width, 4)[:, :, :3]
    return png(rows, 256 if name in PAGES else 16)


def png(rows: np.ndarray, most: int) -> bytes:
    """An image with at most this many colours: the most frequent ones; others are mapped to the nearest."""
    height, width, _ = rows.shape
    flat = rows.reshape(-1, 3) // 8 * 8 + 4 * (rows.reshape(-1, 3) < 248) + 7 * (rows.reshape(-1, 3) >= 248)
    colours, inverse, counts = np.unique(flat, axis=0, return_inverse=True, return_counts=True)
    palette = colours[np.argsort(-counts)[:most]].astype(np.int64)
    distances = ((colours[:, None].astype(np.int64) - palette[None]) ** 2).sum(-1)
    indices = distances.argmin(1)[inverse.reshape(-1)].astype(np.uint8).reshape(height, width)
    bits = 4 if len(palette) <= 16 else 8
    if bits == 4:
        indices = np.pad(indices, ((0, 0), (0, width % 2)))
        indices = indices[:, ::2] << 4 | indices[:, 1::2]
    lines = np.pad(indices, ((0, 0), (1, 0))).tobytes()  # each line begins with the number of its filter: 0, none
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, bits, 3, 0, 0, 0)),
        (b"PLTE", palette.astype(np.uint8).tobytes()),
        (b"IDAT", zlib.compress(lines, 9)),
        (b"IEND", b""),
    ]
    chunks = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the commands, and draw their output."""
    parser = argparse.ArgumentParser(prog="python -m tests.observe.pictures", description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="some of the rows; without names, all")
    parser.add_argument("--draw", action="store_true", help="run nothing: draw what was printed before")
    options = parser.parse_args(arguments)
    names = {name: command for command, name in ROWS}
    if unknown := set(options.names) - set(names):
        parser.error(f"there is no row {', '.join(sorted(unknown))}: {', '.join(names)}")
    chosen = options.names or list(names)
    for name in [] if options.draw else chosen:
        run(names[name], name)
    TARGET.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        for name in chosen:
            picture = draw(page, name)
            (TARGET / f"{name}.png").write_bytes(picture)
            print(f"{name}.png {len(picture):,} bytes", flush=True)
        browser.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
