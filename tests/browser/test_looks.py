"""What the pictures look like, against what they looked like when somebody looked: small, so that fonts do not matter.

After a change that is meant: `CSIA_UPDATE_SNAPSHOTS=1 pytest tests/browser/test_looks.py`, then look at the pictures that changed.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest
from page_runs import usual_run

pytestmark = [pytest.mark.long, pytest.mark.browser]

SNAPSHOTS = Path(__file__).parent / "snapshots"
# The page's own parts, and the drawing of each picture without its text around.
PARTS = {
    "answer": "#answer",
    "supply-demand": "[data-plot='supply-demand']",
    "batch-gaps": "[data-plot='batch-gaps']",
    "rate-over-time": "[data-plot='rate-over-time']",
}
SMALL = (48, 32)
# Of 255, mean over a picture: another font moves an edge by a pixel, a mark that is gone or of another colour moves far more.
TOLERANCE = 9.0


def small_picture(png: bytes) -> Any:
    image = pytest.importorskip("PIL.Image")
    with image.open(io.BytesIO(png)) as picture:
        return picture.convert("RGB").resize(SMALL, image.Resampling.BOX)


def difference(one: Any, other: Any) -> float:
    pairs = zip(one.tobytes(), other.tobytes(), strict=True)
    return sum(abs(first - second) for first, second in pairs) / len(one.tobytes())


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_pictures_look_as_they_did(opened: Any, scheme: str) -> None:
    page = opened(usual_run(), dark=scheme == "dark", width=1280).page
    far = {}
    for name, selector in PARTS.items():
        seen = small_picture(page.locator(selector).first.screenshot())
        path = SNAPSHOTS / f"{name}-{scheme}.png"
        if os.environ.get("CSIA_UPDATE_SNAPSHOTS"):
            SNAPSHOTS.mkdir(exist_ok=True)
            seen.save(path)
        apart = difference(seen, small_picture(path.read_bytes()))
        if apart > TOLERANCE:
            far[name] = round(apart, 1)
    assert far == {}


def test_the_tolerance_tells_pictures_apart() -> None:
    kept = {name: small_picture((SNAPSHOTS / f"{name}-light.png").read_bytes()) for name in PARTS}
    for name in PARTS:
        assert difference(kept[name], small_picture((SNAPSHOTS / f"{name}-dark.png").read_bytes())) > TOLERANCE
    assert difference(kept["rate-over-time"], kept["batch-gaps"]) > TOLERANCE


def test_the_page_is_laid_out_as_it_was(opened: Any) -> None:
    """Boxes, not pixels: what stands beside what."""
    wide, narrow = opened(usual_run(), width=1400), opened(usual_run(), width=360)
    assert wide.box("nav")["x"] + wide.box("nav")["width"] <= wide.box("#answer")["x"]
    assert narrow.box("nav")["y"] + narrow.box("nav")["height"] <= narrow.box("#answer")["y"]
    order = ["#answer", "#findings", "#measured", "#costs", "#storage", "#pipeline", "#feeding", "#memory", "#plan", "#method"]
    for found in (wide, narrow):
        tops = [found.box(selector)["y"] for selector in order]
        assert tops == sorted(tops)
        assert all(found.box(selector)["width"] > 0.6 * found.page.viewport_size["width"] for selector in order)
    # In five seconds: the verdict, the launch and its lines are on the first screen.
    assert wide.box("#answer .values")["y"] + wide.box("#answer .values")["height"] < 900
    assert narrow.box("#answer h1")["y"] < 300
    assert wide.box("#answer h1")["height"] < 40  # one line
