"""What every test folder shares. Append; do not replace."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

# "" without the store; "fresh": each test has a store of its own; "keep": that of the run before. Processes inherit it.
STORE = os.environ.get("NBCOMPILE_TEST_STORE", "")
KEPT = Path(tempfile.gettempdir()) / "nbcompile-test-store"
os.environ.setdefault("NBCOMPILE_WARM_START", "1" if STORE else "0")

# The gate says the same of the same code, however busy the machine is; new examples are what `make sweep` is for.
hypothesis.settings.register_profile("gate", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("gate")

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(autouse=bool(STORE))
def store_of_this_test(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Entries of compiled functions are this test's own; built kernels are shared by all."""
    name = hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:20]
    folder = KEPT / name if STORE == "keep" else tmp_path_factory.mktemp("frames")
    monkeypatch.setenv("NBCOMPILE_FRAMES_DIR", str(folder))


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


def pytest_addoption(parser: pytest.Parser) -> None:
    """``pytest tests/cases --update`` rewrites the golden pages."""
    parser.addoption("--update", action="store_true", help="rewrite tests/cases/*.md as the compiler is now")
