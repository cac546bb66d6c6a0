"""What every test folder shares. Append; do not replace."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import hypothesis
import pytest
from playwright.sync_api import Browser, sync_playwright

# Tests of compiling want nothing that an earlier test left; tests/warm switches the store on. Processes inherit it.
os.environ.setdefault("NBCOMPILE_WARM_START", "0")

# The gate says the same of the same code, however busy the machine is; new examples are what `make sweep` is for.
hypothesis.settings.register_profile("gate", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("gate")

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture
def chromium() -> Iterator[Browser]:
    """A headless Chromium. One a test: Playwright keeps an event loop running, which others could not start then."""
    path = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if path is None:
        pytest.skip("no Chromium here; .ci/run installs it")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


def pytest_addoption(parser: pytest.Parser) -> None:
    """``pytest tests/cases --update`` rewrites the golden pages."""
    parser.addoption("--update", action="store_true", help="rewrite tests/cases/*.md as the compiler is now")
