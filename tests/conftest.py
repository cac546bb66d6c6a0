"""Fixtures of all test folders. Append; do not replace."""

from __future__ import annotations

import gc
import itertools
import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import hypothesis
import pytest

pytest_plugins = ["tests.stores", "tests.rotation", "tests.timing"]

# The gate is deterministic, and does not depend on the machine's load; `make sweep` tries new examples.
hypothesis.settings.register_profile("gate", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("gate")

if TYPE_CHECKING:
    from playwright.sync_api import Browser


CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture
def chromium() -> Iterator[Browser]:
    """A headless Chromium, one per test: Playwright's event loop would prevent others from starting one."""
    path = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if path is None:
        pytest.skip("no Chromium here; .ci/run installs it")
    from playwright.sync_api import sync_playwright  # no other test needs it

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def nothing_compiled() -> Iterator[None]:
    """A test begins and ends without compiled code, and without the observed sizes of other tests."""
    import nbcompile  # no test of this folder needs it before

    nbcompile.reset()
    yield
    nbcompile.reset()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Freeze modules and collected tests, so that garbage collections in tests do not visit a million objects."""
    gc.collect()
    gc.freeze()


FILES = itertools.count(1)
THAWED = 20
"""After so many files, what was frozen is looked through, too: it may have become garbage."""


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Freeze the objects that a test file leaves, modules and caches, so that later collections do not visit them."""
    if nextitem is not None and nextitem.path != item.path:
        if next(FILES) % THAWED == 0:
            gc.unfreeze()
        gc.collect()
        gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests of mechanisms that the reference path switches off."""
    if item.get_closest_marker("fast_path") and os.environ.get("NBCOMPILE_REFERENCE", "0") not in ("", "0"):
        pytest.skip("about a mechanism of fast/, which NBCOMPILE_REFERENCE switches off")


def pytest_addoption(parser: pytest.Parser) -> None:
    """``pytest tests/cases --update`` rewrites the golden pages."""
    parser.addoption("--update", action="store_true", help="rewrite tests/cases/*.md as the compiler is now")
