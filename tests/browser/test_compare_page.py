"""Two runs compared, in a real browser: quiet, whole at any width, readable by everybody, and without JavaScript."""

from __future__ import annotations

from typing import Any

import pytest

from cs_input_analyzer.report import render

pytestmark = pytest.mark.browser


@pytest.fixture
def page_of(opened: Any) -> Any:
    from test_comparison_report import changed

    def open_page(width: int, scheme: str, javascript: bool = True) -> tuple[Any, list[str]]:
        text = render(changed(), "html")
        found = opened(text=text, width=width, dark=scheme == "dark", javascript=javascript)
        return found.page, [*found.complaints, *(url for url in found.requests if not url.startswith(("file:", "data:")))]

    return open_page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_opens_quietly_and_fits_at_any_width(page_of: Any, scheme: str) -> None:
    for width in (360, 768, 1920):
        page, told = page_of(width, scheme)
        assert told == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator("[data-chart='rate-changes'] tbody tr").count() == 3
        assert page.locator(".chip.worse").count() >= 1


@pytest.mark.parametrize(("scheme", "width"), [("light", 1400), ("dark", 1400), ("dark", 360)])
def test_everybody_can_read_it(page_of: Any, scheme: str, width: int) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page, _ = page_of(width, scheme)
    page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
    result = axe.run(page)
    assert [(item["id"], [node["target"] for node in item["nodes"]][:5]) for item in result.response["violations"]] == []


def test_without_javascript_all_is_there(page_of: Any) -> None:
    plain, _ = page_of(1200, "light", False)
    scripted, _ = page_of(1200, "light")
    for selector in ("h1", "section", "tbody tr", "[data-chart='rate-changes'] tbody tr", ".finding"):
        assert plain.locator(selector).count() == scripted.locator(selector).count() > 0
    assert plain.locator("h1").inner_text() == scripted.locator("h1").inner_text()


def test_a_gray_page_is_still_understood(page_of: Any) -> None:
    """Colour is never the only mark of a change."""
    page, _ = page_of(1200, "light")
    for row in page.locator("#rates tbody tr").all():
        mark, text = row.get_attribute("class"), row.inner_text()
        assert {"mark-worse": "slower", "mark-better": "faster", "mark-same": "no difference seen"}[mark] in text
