"""The page as users meet it: pictures drawn, nothing asked of the network, every control working, readable by everybody."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from builders import make_alternative, make_bare_analysis, make_consumption, make_measurement, make_plan
from page_runs import CHARTS, busy_worker, comparison, run_of_a_long_pipeline, run_of_many_workers, usual_run
from rendered import to_html

from cs_input_analyzer.records import Surer
from cs_input_analyzer.report import render

pytestmark = pytest.mark.browser

WIDTHS = (1400, 360, 800, 2200)
# The boxes of all texts that are shown in one picture.
LABELS = """plot => [...plot.querySelectorAll("text")].filter((text) => text.getClientRects().length).map((text) => {
    const box = text.getBoundingClientRect();
    return [text.textContent, box.left, box.top, box.right, box.bottom];
})"""


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.long)])
def test_it_opens_quietly_and_draws_everything_at_any_width(opened: Any, scheme: str) -> None:
    found = opened(usual_run(), dark=scheme == "dark")
    page = found.page
    assert {place.get_attribute("data-chart") for place in page.locator("[data-chart]").all()} == set(CHARTS)
    assert page.locator("td.number").first.evaluate("cell => getComputedStyle(cell).textAlign") == "right"
    plots = page.locator("[data-plot]").all()
    assert len(plots) == len(CHARTS)
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        for plot in plots:
            assert plot.locator("svg > *").count() > 3
            drawn, place = plot.locator("svg").first.bounding_box(), plot.bounding_box()
            assert 0.5 * place["width"] < drawn["width"] <= place["width"] + 1
        # Wide tables scroll in their own frame; the page itself does not.
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        # A line to copy breaks between words only.
        assert page.evaluate("[...document.querySelectorAll('#launch .word')].every((word) => word.getClientRects().length <= 1)")
    assert (found.complaints, found.from_network) == ([], [])


@pytest.mark.parametrize(("scheme", "width", "unfolded"), [("light", 1400, True), ("dark", 360, False)])
def test_everybody_can_read_a_run_and_a_comparison(opened: Any, scheme: str, width: int, unfolded: bool) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    for text in (to_html(usual_run()), render(comparison(), "html")):
        found = opened(text=text, width=width, dark=scheme == "dark")
        if unfolded:
            found.page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
        result = axe.run(found.page)
        told = [(item["id"], [node["target"] for node in item["nodes"]][:5]) for item in result.response["violations"]]
        assert told == []
        assert len(result.response["passes"]) > 20


def test_a_comparison_opens_quietly_fits_and_is_understood_without_colours(opened: Any) -> None:
    for width in (360, 1920):
        found = opened(text=render(comparison(), "html"), width=width)
        assert (found.complaints, found.from_network) == ([], [])
        assert found.page.evaluate("document.documentElement.scrollWidth") <= width
    for row in found.page.locator("#rates tbody tr").all():
        mark, text = row.get_attribute("class"), row.inner_text()
        assert {"mark-worse": "slower", "mark-better": "faster", "mark-same": "no difference seen"}[mark] in text


@pytest.mark.long
def test_a_page_obeys_no_name(opened: Any) -> None:
    """In every place where a user's text can be, in a browser, which obeys what it reads."""
    from hostile import HOSTILE, hostile

    counted = ("[data-plot] > svg", "script", "main section", "table", "a")
    seen = []
    for text in ("harmless", *HOSTILE.values()):
        found = opened(hostile(usual_run(), text), width=800)
        assert (found.complaints, found.from_network) == ([], []), text[:40]
        assert found.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), text[:40]
        seen.append([found.page.locator(what).count() for what in counted])
        found.page.close()
    assert seen[0][0] == 4
    assert all(each == seen[0] for each in seen)


def test_axe_sees_what_is_wrong(opened: Any) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    faint = to_html(make_bare_analysis()).replace("</style>", ".note, dd { color: #ccc !important; }</style>")
    result = axe.run(opened(text=faint).page)
    assert "color-contrast" in [item["id"] for item in result.response["violations"]]


@pytest.mark.parametrize("width", [1200, 360])
def test_a_long_way_to_a_surer_answer_leaves_room_for_what_it_gives(opened: Any, width: int) -> None:
    plan = make_plan(surer=(Surer(how="node", half_width_ratio=0.1),))
    page = opened(usual_run(recommendation=plan), width=width).page
    gives = page.locator("#unknown dd").first
    assert gives.bounding_box()["width"] > 100
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_launch_lines_are_copied(opened: Any) -> None:
    run = usual_run()
    page = opened(run).page
    button = page.get_by_role("button", name="Copy: On any Slurm cluster")
    button.click()
    page.wait_for_selector(".copy.done")
    page.evaluate("document.body.append(Object.assign(document.createElement('textarea'), {id: 'pasted'}))")
    page.locator("#pasted").focus()
    page.keyboard.press("Control+V")
    assert page.locator("#pasted").input_value() == run.recommendation.launch.srun


def test_figures_are_explained_on_hover_and_on_focus(opened: Any) -> None:
    page = opened(usual_run()).page
    term = page.locator("#plan .term", has_text="extrapolation")
    shown = "term => getComputedStyle(term, '::after').content"
    assert term.evaluate(shown) == "none"
    for point in (term.hover, term.focus):
        point()
        assert "outside of what was measured" in term.evaluate(shown)
        page.mouse.move(0, 0)
        page.locator("body > a.skip").focus()
        assert term.evaluate(shown) == "none"


def test_a_picture_tells_its_numbers(opened: Any) -> None:
    run = usual_run()
    plan = opened(run).page.locator("[data-plot='supply-demand'] .dot.plan title")
    assert f"launch: {run.recommendation.layout}" in plan.text_content()
    assert "14,500 samples/s" in plan.text_content()


def run_with_a_burst() -> Any:
    worker = busy_worker(900.0)
    bursty = replace(worker, block_samples_per_s=(200_000.0, *worker.block_samples_per_s))
    launch = make_measurement("1x1x2", (900.0,), workers=(bursty,))
    return usual_run(measurements=(launch,), recommendation=make_plan(confirmed_by=0))


RUNS: dict[str, Any] = {
    "near": lambda: usual_run(consumption=make_consumption(14_000.0)),
    "far below": lambda: usual_run(consumption=make_consumption(2.0)),
    "far above": lambda: usual_run(consumption=make_consumption(9e6)),
    "two launches": lambda: usual_run(
        recommendation=make_plan(alternatives=(make_alternative("2x15x2", is_current=True),), confirmed_by=2)
    ),
    "burst": run_with_a_burst,
    "long": run_of_a_long_pipeline,
}


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("name", RUNS)
def test_no_two_labels_of_a_picture_overlap(opened: Any, name: str, width: int) -> None:
    page = opened(RUNS[name](), width=width).page
    plots = page.locator("[data-plot]").all()
    assert len(plots) >= 3
    for plot in plots:
        labels = plot.evaluate(LABELS)
        assert all(left >= 0 and right <= width for _, left, _, right, _ in labels), labels
        for place, (text, left, top, right, bottom) in enumerate(labels):
            for other, left2, top2, right2, bottom2 in labels[place + 1 :]:
                is_apart = right <= left2 or right2 <= left or bottom - 2 <= top2 or bottom2 - 2 <= top
                assert is_apart, (text, other)


def test_overlapping_labels_are_seen(opened: Any) -> None:
    plot = opened(usual_run()).page.locator("[data-plot='batch-gaps']")
    before = plot.evaluate(LABELS)
    plot.evaluate(
        "plot => plot.querySelectorAll('text').forEach((text) => { text.setAttribute('x', 50); text.setAttribute('y', 50); })"
    )
    assert len(before) > 5
    assert len({box[2] for box in plot.evaluate(LABELS)}) < len({box[2] for box in before})


def test_a_block_of_the_strip_leads_to_its_costs(opened: Any) -> None:
    page = opened(usual_run()).page
    page.locator("[data-plot=pipeline] a", has_text="map").click()
    assert page.locator("tr:target").inner_text().startswith("map")
    assert page.locator("[data-chart=pipeline] .keys a").all_inner_texts() == ["interleave", "map", "batch", "TensorFlow's runtime"]


def test_all_controls_of_a_bare_run_are_reached_by_keyboard(opened: Any) -> None:
    found = opened(make_bare_analysis())
    page = found.page
    assert (found.complaints, page.locator("[data-plot]").count()) == ([], 0)
    wanted = page.locator("a[href], button, input, summary, [tabindex='0']").filter(visible=True).count()
    reached = set()
    for _ in range(wanted + 5):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.outerHTML"))
    assert page.locator("body > a.skip").evaluate("link => link.outerHTML") in reached
    assert len(reached) >= wanted - 5


def test_a_link_leads_to_its_place(opened: Any) -> None:
    anchor = "#finding-CSI204-prefetch"
    found = opened(usual_run(), anchor=anchor)
    assert found.page.locator(anchor).is_visible()
    assert -1 <= found.page.locator(anchor).evaluate("place => place.getBoundingClientRect().top") < 900


def test_without_javascript_all_text_is_there(opened: Any) -> None:
    run = usual_run()
    page = opened(run, javascript=False).page
    assert page.locator(".plot > svg:visible").count() == len(CHARTS)
    text = page.locator("main").text_content()  # folded sections open without JavaScript, too
    for expected in (
        "ACCELERATOR-BOUND",
        run.recommendation.launch.csrun_wse,
        run.command,
        "82 % of the CPU in map (input_fn.py:23)",
        "num_parallel_calls=8",
    ):
        assert expected in text
    assert page.locator("#pipeline tbody tr").count() == len(run.pipeline.ops)
    page.locator("#rates summary").click()
    assert page.locator("#rates table").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_prints_dark_on_white(opened: Any, scheme: str) -> None:
    page = opened(usual_run(), dark=scheme == "dark").page
    pdf = page.pdf(format="A4", print_background=True)
    assert pdf.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 20
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 720, "height": 1000})  # of A4, within its margins
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert not page.locator("nav").is_visible()
    assert page.locator("[data-plot='supply-demand'] > svg").is_visible()


@pytest.mark.parametrize(
    ("large", "says"),
    [
        (run_of_many_workers, "1,000 workers"),
        pytest.param(run_of_a_long_pipeline, "map_497", marks=pytest.mark.long),
    ],
)
def test_a_large_run_opens_and_says_what_it_leaves_out(opened: Any, large: Any, says: str) -> None:
    text = to_html(large())
    assert len(text.encode()) <= 5_000_000
    found = opened(text=text)
    assert found.complaints == []
    assert says in found.page.locator("main").inner_text()


@pytest.mark.long
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
