"""The report in a real browser: Debian's Chromium, without a network, from a file as a user opens it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cs_input_analyzer.records import Analysis
from cs_input_analyzer.report import render

# The names that would break a careless report are those of the other reports' tests.
sys.path.append(str(Path(__file__).resolve().parents[1] / "report"))

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
# As root, in a container, without a graphics card; text drawn alike on every machine as far as that can be had.
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--font-render-hinting=none", "--force-color-profile=srgb")


@dataclass
class Opened:
    """A page, and what it did that it must not do."""

    page: Any
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    @property
    def from_network(self) -> list[str]:
        return [url for url in self.requests if not url.startswith(("file:", "data:"))]

    def box(self, selector: str) -> dict[str, float]:
        found = self.page.locator(selector).first.bounding_box()
        assert found is not None, selector
        return dict(found)


@pytest.fixture(autouse=True)
def no_process_left_behind() -> None:
    """Chromium starts and ends processes of its own from one test to the next; `browser` ends them all."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (it is in the extra `test`)")
    program = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if program is None:
        pytest.skip("Chromium is not installed here (Debian: apt-get install chromium)")
    with playwright.sync_playwright() as running:
        started = running.chromium.launch(executable_path=program, args=list(FLAGS))
        yield started
        started.close()


Open = Callable[..., Opened]


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Open]:
    """Open the report of a run.

    Keywords: `width`, `height`, `dark`, `javascript`, `anchor`, and `text` for a page that is written already.
    """
    contexts = []

    def open_page(
        analysis: Analysis | None = None,
        *,
        text: str = "",
        width: int = 1400,
        height: int = 900,
        dark: bool = False,
        javascript: bool = True,
        anchor: str = "",
    ) -> Opened:
        path = tmp_path / f"report-{len(contexts)}.html"
        path.write_text(text or render(analysis, "html"), encoding="utf-8")  # type: ignore[arg-type]
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
            java_script_enabled=javascript,
            offline=True,
        )
        contexts.append(context)
        page = context.new_page()
        found = Opened(page)
        page.on("console", lambda message: found.complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: found.complaints.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (found.complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: found.requests.append(request.url))
        page.goto(f"{path.as_uri()}{anchor}")
        return found

    yield open_page
    for context in contexts:
        context.close()
