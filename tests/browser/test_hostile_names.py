"""Names that would break a careless page, in every place where a user's text can be: in a browser, which obeys what it reads."""

from __future__ import annotations

from typing import Any

import pytest
from page_runs import usual_run

pytestmark = [pytest.mark.long, pytest.mark.browser]


def names() -> dict[str, str]:
    from hostile import HOSTILE

    return HOSTILE


# "markup" and "formula" are about terminals and spreadsheets.
TRIED = ("script", "quotes", "newlines", "emoji", "long", "terminal", "direction", "braces", "not utf-8", "entity")
COUNTED = ("[data-plot][data-drawn=yes]", "script", "main section", "table", "a")


def test_the_page_stays_what_it_is(opened: Any) -> None:
    from hostile import hostile

    harmless = opened(hostile(usual_run(), "harmless"), width=800).page
    expected = {what: harmless.locator(what).count() for what in COUNTED}
    assert expected["[data-plot][data-drawn=yes]"] > 5
    for name in TRIED:
        found = opened(hostile(usual_run(), names()[name]), width=800)
        assert found.complaints == [], name
        assert [url for url in found.requests if not url.startswith(("file:", "data:"))] == [], name
        assert {what: found.page.locator(what).count() for what in COUNTED} == expected, name
        assert found.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
        found.page.close()


def test_every_name_is_tried() -> None:
    assert set(names()) - {"markup", "formula"} == set(TRIED)
