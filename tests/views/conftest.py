"""One headless Chromium for each test file; pages fetch nothing."""

from __future__ import annotations

import shutil

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

# The strictest content policy of a host: a fetch, or evaluated text, is a violation.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


@pytest.fixture(scope="module")
def chromium():
    """The browser, or a skip without one. Playwright keeps an event loop running, so it is closed after each file."""
    if CHROMIUM is None:
        pytest.skip("no Chromium on the PATH: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api").sync_playwright().start()
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
    yield browser
    browser.close()
    playwright.stop()


@pytest.fixture
def browser_page(chromium):
    """A function that opens HTML as a page; the test fails if the page fetched something or a script failed."""
    opened, complaints = [], []

    def open_page(body, width=1280, theme="light", policy=POLICY, **options):
        context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=theme, **options)
        context.route("**/*", lambda route: (complaints.append(f"fetched {route.request.url}"), route.abort()))
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(f"error {error}"))
        page.on("console", lambda message: complaints.append(f"console {message.text}"))
        # A violation of the policy is on the console, so it is a complaint.
        head = f'<meta http-equiv="Content-Security-Policy" content="{policy}"><meta charset=utf-8><meta name=color-scheme content="light dark"><title>A page</title>'
        page.set_content(f"<!doctype html><html lang=en>{head}<main>{body}</main>")
        opened.append(context)
        return page

    open_page.complaints = complaints
    yield open_page
    for context in opened:
        context.close()
    assert not complaints
