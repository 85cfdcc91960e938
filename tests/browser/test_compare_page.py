"""Two runs compared, in a real browser: quiet, whole at any width, readable by everybody, and without JavaScript."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import make_analysis, make_estimate, make_finding, make_measurement
from page_runs import usual_run

from cs_input_analyzer.records import Comparison, Tool
from cs_input_analyzer.report import render
from cs_input_analyzer.studies.compare import compare

pytestmark = pytest.mark.browser


def changed() -> Comparison:
    new = make_analysis(
        measurements=(
            make_measurement("1x1x1", (200.0,), samples_per_s=make_estimate(200.0)),
            make_measurement("1x1x2", (3000.0,), samples_per_s=make_estimate(3000.0)),
        ),
        findings=(make_finding("CSI104", op="map_7"),),
        verdict="input_bound",
    )
    return compare(usual_run(), new, tool=Tool(name="cs_input_analyzer", version="0.1.0"))


@pytest.fixture
def page_of(browser: Any, tmp_path: Path) -> Iterator[Any]:
    contexts = []
    path = tmp_path / "compare.html"
    path.write_text(render(changed(), "html"), encoding="utf-8")

    def open_page(width: int, scheme: str, javascript: bool = True) -> tuple[Any, list[str]]:
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=javascript, offline=True
        )
        contexts.append(context)
        page = context.new_page()
        told: list[str] = []
        page.on("console", lambda message: told.append(message.text))
        page.on("pageerror", lambda error: told.append(str(error)))
        page.on("request", lambda request: told.append(request.url))
        page.goto(path.as_uri())
        return page, [text for text in told if text != path.as_uri()]

    yield open_page
    for context in contexts:
        context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_opens_quietly_and_fits_at_any_width(page_of: Any, scheme: str) -> None:
    for width in (360, 768, 1920):
        page, told = page_of(width, scheme)
        assert told == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator("[data-chart='rate-changes'] svg").count() == 2
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
    for selector in ("h1", "section", "tbody tr", "[data-chart='rate-changes'] svg", ".finding"):
        assert plain.locator(selector).count() == scripted.locator(selector).count() > 0
    assert plain.locator("h1").inner_text() == scripted.locator("h1").inner_text()


def test_a_gray_page_is_still_understood(page_of: Any) -> None:
    """Colour is never the only mark of a change."""
    page, _ = page_of(1200, "light")
    for row in page.locator("#rates tbody tr").all():
        mark, text = row.get_attribute("class"), row.inner_text()
        assert {"mark-worse": "slower", "mark-better": "faster", "mark-same": "no difference seen"}[mark] in text
