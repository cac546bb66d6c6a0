"""What every test folder shares. Append; do not replace."""

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

# The gate says the same of the same code, however busy the machine is; new examples are what `make sweep` is for.
hypothesis.settings.register_profile("gate", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("gate")

if TYPE_CHECKING:
    from playwright.sync_api import Browser


CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture
def chromium() -> Iterator[Browser]:
    """A headless Chromium. One a test: Playwright keeps an event loop running, which others could not start then."""
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
    """A test begins without compiled code, and no size that another test called with is symbolic; it leaves none."""
    import nbcompile  # no test of this folder needs it before

    nbcompile.reset()
    yield
    nbcompile.reset()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Tests that collect garbage look at what they made, not at a million objects of modules and of tests to come."""
    gc.collect()
    gc.freeze()


FILES = itertools.count(1)
THAWED = 20
"""After so many files, what was frozen is looked through, too: it may have become garbage."""


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """After a file, freeze what it leaves: modules of torch, caches. Each collection of the next ones would visit it."""
    if nextitem is not None and nextitem.path != item.path:
        if next(FILES) % THAWED == 0:
            gc.unfreeze()
        gc.collect()
        gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """On the reference path there is nothing to find out about the mechanisms that it switches off."""
    if item.get_closest_marker("fast_path") and os.environ.get("NBCOMPILE_REFERENCE", "0") not in ("", "0"):
        pytest.skip("about a mechanism of fast/, which NBCOMPILE_REFERENCE switches off")


def pytest_addoption(parser: pytest.Parser) -> None:
    """``pytest tests/cases --update`` rewrites the golden pages."""
    parser.addoption("--update", action="store_true", help="rewrite tests/cases/*.md as the compiler is now")
