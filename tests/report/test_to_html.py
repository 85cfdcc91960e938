"""The page: one file, no request, no way out of a string, and the run inside."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from builders import make_analysis, make_bare_analysis, make_finding, make_measurement, make_plan, make_worker
from hostile import HOSTILE, hostile
from page_runs import run_of_a_long_pipeline, usual_run
from pages import Page, without_library
from rendered import to_console, to_html

from cs_input_analyzer.errors import AnalyzerError
from cs_input_analyzer.records import Analysis
from cs_input_analyzer.report import to_html as module
from cs_input_analyzer.report.to_html import MEANINGS, templates_dir


@pytest.mark.parametrize(
    ("run", "scripts"), [(make_analysis(), ["run", "charts", "library", None]), (make_bare_analysis(), ["run", None])]
)
def test_nothing_is_fetched_and_the_library_is_there_only_where_it_has_something_to_draw(run: Analysis, scripts: list[str]) -> None:
    text = without_library(to_html(run))
    page = Page(text)
    assert page.kinds == scripts
    assert page.attribute("src") == []
    assert all(link is not None and link.startswith(("#", "data:")) for link in page.attribute("href"))
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|https?://", text)
    (policy,) = [attributes["content"] for _, attributes in page.tags if attributes.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")


VALID = {
    "usual": usual_run,
    "bare": make_bare_analysis,
    "long": run_of_a_long_pipeline,
    **{name: lambda name=name: hostile(usual_run(), HOSTILE[name]) for name in ("script", "quotes", "entity", "newlines")},
}


@pytest.mark.parametrize("name", VALID)
def test_the_page_is_valid_ids_are_unique_and_links_inside_it_lead_somewhere(name: str) -> None:
    """Read as strictly as the standard of HTML is: every error of a lenient browser is an error here."""
    html5lib = pytest.importorskip("html5lib", reason="html5lib is not installed (it is in the extra `test`)")
    text, found = without_library(to_html(VALID[name]())), []
    for page in (text, text.replace("</section>", "", 1)):
        parser = html5lib.HTMLParser()
        parser.parse(page)
        found.append([f"{place}: {code}" for place, code, _ in parser.errors])
    assert found[0] == []
    assert found[1] != []
    page = Page(text)
    ids = page.attribute("id")
    assert len(ids) == len(set(ids))
    assert {str(link)[1:] for link in page.attribute("href") if str(link).startswith("#")} <= set(ids)


def test_the_library_cannot_end_its_element(root: Path) -> None:
    for path in (root / "reports/templates/vendor").glob("*.js"):
        text = path.read_text(encoding="utf-8").lower()
        assert "</script" not in text
        assert "<!--" not in text
        assert "sourcemappingurl" not in text


def test_who_made_the_library_and_under_which_licence_is_beside_it(root: Path) -> None:
    vendor = root / "reports/templates/vendor"
    licences = (vendor / "LICENSES.txt").read_text(encoding="utf-8")
    readme = (vendor / "README.md").read_text(encoding="utf-8")
    for path in vendor.glob("*.js"):
        name = path.name.removesuffix(".min.js")
        (version,) = re.findall(rf"`{name}` (\d+\.\d+\.\d+)", readme)
        assert f"{name} {version} (BSD-3-Clause)" in licences
        assert f'"{version}"' in path.read_text(encoding="utf-8")


def test_a_usual_page_is_small_and_our_own_part_of_it_is_smaller() -> None:
    text = to_html(usual_run())
    assert len(text.encode()) < 2_000_000
    own = sum(path.stat().st_size for path in templates_dir().iterdir() if path.is_file())
    assert own < 80_000


def test_the_launch_values_and_lines_are_there_without_javascript() -> None:
    run = make_analysis(recommendation=make_plan("3x5x7"))
    page, plan = Page(to_html(run)), run.recommendation
    assert plan is not None
    for text in (plan.launch.defaults, plan.launch.csrun_wse, plan.launch.srun, plan.launch.sbatch):
        assert text in page.text
    for value, name in (("3", "nodes"), ("5", "tasks_per_node"), ("7", "cpus_per_task")):
        assert f"{value}{name}" in re.sub(r"\s", "", page.text)
    assert "DEF_NODES=3\nDEF_TASKS=5\nDEF_CPUS=7" in page.text
    assert len(page.attribute("data-copy")) == 7
    assert "button" not in [tag for tag, _ in page.tags]


def test_without_a_plan_there_is_nothing_to_launch() -> None:
    page = Page(to_html(make_bare_analysis()))
    assert "launch" not in page.attribute("id")
    assert len(page.attribute("data-copy")) == 1
    assert "--demand SAMPLES_PER_S" in page.text


def test_missing_is_never_none() -> None:
    lost = make_measurement("1x1x1", (None,), workers=(make_worker(None, message="killed by signal 9"),))
    sparse = make_analysis(
        measurements=(lost,),
        recommendation=make_plan(memory_bytes_per_node=None, expected_accelerator_utilization=None, launch=None, alternatives=()),
        findings=(make_finding(op=None, source=None, fix=None, evidence={}),),
    )
    text = Page(to_html(sparse)).text
    assert "None" not in text.replace("None.", "") + to_console(sparse)
    assert "worker 0 on probe-01: lost: killed by signal 9" in text


def test_figures_are_explained() -> None:
    assert f'<span class="term" tabindex="0" data-tip="{MEANINGS["extrapolation"]}">extrapolation</span>' in to_html(usual_run())
    assert all(meaning and not meaning.endswith(".") for meaning in MEANINGS.values())


def test_a_path_breaks_between_its_names_and_a_unit_nowhere() -> None:
    assert module._breakable("12 samples/s of /data/<run>/f.py:3") == ("12 samples/s of /<wbr>data/<wbr>&lt;run&gt;/<wbr>f.py:3")


def test_templates_are_found_in_a_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = tmp_path / "site-packages/cs_input_analyzer/report"
    (inside / "templates").mkdir(parents=True)
    (inside / "templates/report.html.j2").write_text("")
    # What another package may have put beside ours is not ours.
    (tmp_path / "site-packages/reports/templates").mkdir(parents=True)
    (tmp_path / "site-packages/reports/templates/report.html.j2").write_text("")
    monkeypatch.setattr(module, "__file__", str(inside / "to_html.py"))
    assert templates_dir() == inside / "templates"
    monkeypatch.setattr(module, "__file__", str(tmp_path / "a/b/c/to_html.py"))
    with pytest.raises(AnalyzerError, match="installation is incomplete"):
        templates_dir()
