"""How long reports take: to render, to write from a saved run by the command, to be planned again, to be painted; and their size.

The runs are those of the tests of the page: a usual one, one of 10,000 workers, one of 500 ops. Rendering is timed in a fresh
process each time, imports of the renderer included. What the browser says (first contentful paint, and when the last picture is
there) needs Chromium and playwright; without them those columns stay empty.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.paired import arguments, middle, save, show

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests"))

import page_runs  # noqa: E402

from cs_input_analyzer.records import Analysis  # noqa: E402
from cs_input_analyzer.report.to_json import to_json  # noqa: E402

RUNS = {
    "usual": page_runs.usual_run,
    "10,000 workers": page_runs.run_of_many_workers,
    "500 ops": page_runs.run_of_a_long_pipeline,
}
# What it may take. Seconds, and bytes of the file; the command's is for a usual run.
RENDER_S = {"usual": 0.5, "10,000 workers": 5.0, "500 ops": 5.0}
BYTES = {"usual": 2e6, "10,000 workers": 5e6, "500 ops": 5e6}
COMMAND_S, PLAN_S, PAINT_S, OPEN_S = 1.2, 1.0, 1.0, 2.0

RENDER = """
import sys, time
sys.path.append({tests!r})
import page_runs
run = page_runs.{maker}()
began_s = time.perf_counter()
from cs_input_analyzer.report import render
text = render(run, "html")
print(time.perf_counter() - began_s)
began_s = time.perf_counter()
render(run, "html")
print(time.perf_counter() - began_s)
open(sys.argv[1], "w", encoding="utf-8").write(text)
"""
WATCH = """() => new Promise((found) => {
  const done = () => document.documentElement.dataset.charts === "drawn"
    ? found([performance.getEntriesByName("first-contentful-paint")[0]?.startTime, performance.now(),
             performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd])
    : setTimeout(done, 5);
  done();
})"""


def rendered(maker: str, path: Path, runs: int) -> tuple[float, float]:
    """Median seconds of the first rendering in a process, and of the second one."""
    code = RENDER.format(tests=str(ROOT / "tests"), maker=maker)
    outputs = [
        subprocess.run([sys.executable, "-c", code, str(path)], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
        for _ in range(runs)
    ]
    return middle([float(first) for first, _ in outputs]), middle([float(second) for _, second in outputs])


def commanded(run: Analysis, folder: Path, runs: int, name: str, *options: str) -> float:
    """Median seconds of a command on the saved run, interpreter and all."""
    saved = folder / "run.json"
    saved.write_text(to_json(run), encoding="utf-8")
    seconds = []
    for _ in range(runs):
        began_s = time.perf_counter()
        command = [sys.executable, "-m", "cs_input_analyzer", name, str(saved), *options]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        seconds.append(time.perf_counter() - began_s)
    return middle(seconds)


def painted(path: Path, runs: int) -> tuple[float, float, float] | None:
    """Median seconds to the first paint, to the last picture, and until the page was read; None without a browser."""
    program = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    if program is None:
        return None
    seen = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        for _ in range(runs):
            page = browser.new_page()
            page.goto(path.as_uri(), wait_until="commit")
            seen.append([value / 1000 for value in page.evaluate(WATCH)])
            page.close()
        browser.close()
    paint, drawn, read = (middle(list(values)) for values in zip(*seen, strict=True))
    return paint, drawn, read


def main() -> None:
    options = arguments(__doc__, runs=(int, 5, "runs of each; the middle one is shown"))
    rows, result = [], {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for run, make in RUNS.items():
            path = folder / "report.html"
            first, second = rendered(make.__name__, path, options.runs)
            size = path.stat().st_size
            command = plan = None
            if run == "usual":
                command = commanded(make(), folder, options.runs, "report", "-o", str(folder / "again.html"))
                plan = commanded(make(), folder, options.runs, "plan", "--demand", "7k", "--nodes", "16")
            browser = painted(path, options.runs)
            found = {"render_s": first, "render_again_s": second, "bytes": size, "command_s": command, "plan_s": plan}
            if browser is not None:
                found |= dict(zip(("first_paint_s", "drawn_s", "read_s"), browser, strict=True))
            good = [first <= RENDER_S[run], size <= BYTES[run], command is None or command <= COMMAND_S]
            good += [plan is None or plan <= PLAN_S]
            good += [browser is None or (browser[0] <= PAINT_S and browser[2] <= OPEN_S)]
            result[run] = found | {"in_time": all(good)}
            figures = [first, second, command, plan, *(browser or (None, None, None))]
            shown = [f"{value:.2f}" if value is not None else "-" for value in figures]
            rows.append((run, *shown, f"{size / 1e6:.2f} MB", "yes" if all(good) else "NO"))
    targets = {
        "render_s": RENDER_S,
        "bytes": BYTES,
        "command_s": COMMAND_S,
        "plan_s": PLAN_S,
        "first_paint_s": PAINT_S,
        "open_s": OPEN_S,
    }
    show(
        f"The HTML report, seconds (targets: {json.dumps(targets)})",
        ("run", "render", "again", "report RUN.json", "plan RUN.json", "first paint", "all drawn", "read", "size", "all in"),
        rows,
    )
    save(options.json, {"targets": targets, "runs": result})


if __name__ == "__main__":
    main()
