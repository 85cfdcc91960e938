"""Take the picture of the README: the first screen of a report's page, in Chromium.

After `cs_input_analyzer demo`: python docs/images/page.py demo_report.html docs/images/page.png
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

SIZE = {"width": 1200, "height": 680}
MOST_BYTES = 150_000


def main(page: Path, picture: Path) -> None:
    """Write the picture. Raise SystemExit if Chromium is missing, or if the file is heavy for a README."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        raise SystemExit("Chromium is not installed (Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        tab = browser.new_page(viewport=SIZE, color_scheme="light")
        tab.goto(page.resolve().as_uri())
        tab.wait_for_load_state("networkidle")
        tab.screenshot(path=picture)
        browser.close()
    if picture.stat().st_size > MOST_BYTES:
        raise SystemExit(f"{picture} has {picture.stat().st_size:,} bytes: at most {MOST_BYTES:,} are wanted")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
