"""The first screen of a run: how far off, why, which line, what then. Every format shows it in this order."""

from __future__ import annotations

import contextlib
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from cs_input_analyzer.masking import MASK
from cs_input_analyzer.records import BUSY_RATIO, Analysis, Estimate, Finding, LaunchPlan, Layout, Station, feeding
from cs_input_analyzer.report import costs, findings, planned
from cs_input_analyzer.report.document import Bar, Bars, Card, Chart, Copyable, Facts, Part, Section, Text, present, section
from cs_input_analyzer.report.strip import strip_line
from cs_input_analyzer.report.wording import (
    GIVE_A_DEMAND,
    VERDICTS,
    Pairs,
    factor_sentence,
    no_verdict_because,
    one_line,
    pairs,
    short_source,
    tasks_sentence,
)
from cs_input_analyzer.units import counted, format_bytes_per_s, format_count, format_rate, format_ratio

# Findings about a launch that runs, and trains wrongly: too few files, data that end, the same files for all workers, lost files,
# data on the disk of one node, a cache that workers share, files that TensorFlow deals out.
WRONG_TRAINING = ("CSI301", "CSI302", "CSI303", "CSI304", "CSI310", "CSI311", "CSI312")
# Findings about the form of the elements. They change no rate.
OF_FORM = ("CSI307", "CSI308")
# The rule about CPUs that others need, too. As a warning it is about a launch that does not fit its nodes.
OVERSUBSCRIBED = "CSI506"
# Stands for the file of a run that was not saved.
UNSAVED = "RUN.json"
# Commands that are given no file take the newest run that was kept.
NEWEST = ""
# Options of `analyze` that name a file to write, or that `tune` has not, and whether a value follows.
NOT_TUNED = {
    **dict.fromkeys(("--json", "--html", "--csv", "--fail-on"), True),
    **dict.fromkeys(("--train-command", "--srun-args", "--container", "--mount-dirs"), True),
    **dict.fromkeys(("--full", "--no-measure-fixes"), False),
}
PATCH = "--write-patch faster.patch"
# Columns of the strip of ops in a console of 80.
STRIP_COLUMNS = 70
# Findings with a fix, reasons to measure again, and findings of wrong training that fit on the screen.
FIXES_SHOWN, UNKNOWNS_SHOWN, WRONG_SHOWN = 2, 3, 3
# The limit that the costs of the ops explain, and one that is shown with its number.
WORKER_CPU, SHARED_STORAGE = "worker CPU", "shared storage"
# A launch that supplies this many times the demand is shown without digits behind the point.
WHOLE_TIMES = 10


def wrong_training(found: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the findings to settle before a launch."""
    return tuple(one for one in found if one.code in WRONG_TRAINING)


def _tells_busy_host(one: Finding | Card) -> bool:
    """Return whether a finding is about the measurement, not about the pipeline: the host was busy with something else."""
    return one.code == OVERSUBSCRIBED and one.severity == "info"


def mark_of(analysis: Analysis) -> str:
    """Return the colour of the headline: that of the verdict, but never green for a launch that cannot run or trains wrongly."""
    is_unsafe = analysis.cannot_run or (wrong_training(analysis.findings) and analysis.verdict != "input_bound")
    return "unsafe" if is_unsafe else analysis.verdict


def closing(analysis: Analysis, file: str) -> tuple[str, ...]:
    """Return where the run is saved, then the commands to type next."""
    saved = {UNSAVED: f"not saved: --json {UNSAVED} saves it", NEWEST: "kept: report --view opens its page"}
    commands = dict.fromkeys((next_command(analysis, file), command("report", file, "--full")))
    return f"Next (the run is {saved.get(file, f'in {file}')})", *commands


def next_command(analysis: Analysis, file: str) -> str:
    """Return the most helpful command: for a demand, for nodes, for a fix, for a trial of the launch, or for the launch itself."""
    if analysis.consumption is None:
        return command("plan", file, "--demand SAMPLES_PER_S")
    if analysis.cannot_run:
        return command("plan", file, "--current NxTxC")
    if analysis.recommendation is None:
        return command("plan", file, "--nodes N --cpus-per-node N --memory-per-node SIZE")
    if analysis.pipeline.target.startswith("__main__:"):  # of a notebook: no command finds it
        return command("report", file, "--full")
    tune = _tune_as_typed(analysis)
    if tune and any(finding.is_gain for finding in analysis.findings) and analysis.verdict != "accelerator_bound":
        return tune
    if analysis.verdict == "input_bound" and analysis.recommendation.meets_demand is False:
        return command("plan", file, "--nodes N") if not _limit(analysis) else command("report", file, "--full")
    if analysis.validation is None:
        return command("validate", file)
    return command("report", file, "--format sbatch")


def _tune_as_typed(analysis: Analysis) -> str:
    """Return `tune` with the target and those options of `analyze` that made this run which it has, without files to write.

    Return the target alone for a run without params, and nothing for params whose file is not known.
    """
    with contextlib.suppress(ValueError):  # an open quote
        words = shlex.split(analysis.command)
        if words[:2] == ["cs_input_analyzer", "analyze"] and shlex.join(words) == analysis.command and MASK not in analysis.command:
            return command("tune", shlex.join(_tuned(words[2:])), PATCH)
    target = shlex.quote(one_line(analysis.pipeline.target))
    return "" if analysis.options.params_json not in (None, "{}") else command("tune", target, PATCH)


def _tuned(words: Sequence[str]) -> Iterator[str]:
    is_value = False
    for word in words:
        name, equals, _ = word.partition("=")
        if not is_value and name not in NOT_TUNED:
            yield word
        is_value = not is_value and NOT_TUNED.get(name, False) and not equals


def command(*words: str) -> str:
    """Return one of our commands with these words, without the empty ones."""
    return " ".join(["cs_input_analyzer", *filter(None, words)])


def headline(analysis: Analysis) -> str:
    """Return how far off the judged launch is, as a share of the demand; without a demand, its rate."""
    if analysis.cannot_run:
        return f"CANNOT RUN: {one_line(analysis.cannot_run)}"
    wrong = wrong_training(analysis.findings)
    if wrong and analysis.verdict != "input_bound":
        return f"DO NOT LAUNCH YET: the training would go wrong ({', '.join(dict.fromkeys(one.code for one in wrong))})"
    supply, layout = analysis.judged_samples_per_s, analysis.judged_layout
    covered, word = analysis.covered_by(supply), VERDICTS[analysis.verdict][0]
    if analysis.verdict == "input_bound":
        return f"{word}: the accelerator waits{_waiting(covered) or ' for its input'}"
    if analysis.verdict == "accelerator_bound":
        return f"{word}: the input delivers {_times(covered)} the demand"
    if analysis.verdict == "balanced":
        return f"{word}: the input delivers {_times(covered)} the demand, less than the headroom asked for"
    if analysis.consumption is None and supply is not None and layout is not None:
        return f"{format_rate(supply.estimate)} from {layout}; give the demand for a verdict"
    if analysis.recommendation is None and analysis.no_plan is not None and supply is None:
        return f"NO LAUNCH: {one_line(analysis.no_plan)}"
    return f"NO VERDICT: {no_verdict_because(analysis)}"


def _waiting(covered: Estimate | None) -> str:
    """Return ` 63 % (61 to 65 %) of the time`; empty if it is not known."""
    if covered is None:
        return ""
    ends = (1 - covered.estimate, 1 - covered.high, 1 - covered.low)
    waits, low, high = (format_ratio(min(max(end, 0.0), 1.0)) for end in ends)
    between = "" if low == high else f" ({low.removesuffix(' %')} to {high})"
    return f" {waits}{between} of the time"


def _times(covered: Estimate | None) -> str:
    """Return `22 times (20 to 24)`, `1.3 times (1.2 to 1.4)`; `at least` if it is not known."""
    if covered is None or not math.isfinite(covered.high):
        return "at least"
    ends = (covered.estimate, covered.low, covered.high)
    times, low, high = (f"{end:,.0f}" if end >= WHOLE_TIMES else f"{end:.2g}" for end in ends)
    return f"{times} times{'' if low == high else f' ({low} to {high})'}"


def first_screen(analysis: Analysis, cards: tuple[Card, ...], charts: Mapping[str, Chart], file: str) -> tuple[Section, ...]:
    """Return the sections of the first screen.

    Args:
        cards: those of all findings, in the order of the report.
        file: the file of the run, as commands to type next name it.
    """
    return present(
        section("verdict", "Supply and demand", bars(analysis), Facts(pairs=_to_know(analysis)), level="both"),
        section("why", "Why", *why(analysis), charts.get("pipeline"), label="Why", level="both"),
        section("fix", "Fix", *_fixes(analysis, cards), label="Fix", level="both"),
        section("launch", launch_title(analysis), *brief_launch(analysis), label="Launch", level="both"),
        section("before", "Before you launch", *_before(analysis), level="both"),
        section("unknown", "For a surer answer", Facts(pairs=_surer(analysis, file)), level="brief"),
    )


def bars(analysis: Analysis) -> Bars:
    """Return demand, supply of today, of the plan and with the fixes, as bars of one scale."""
    plan, fixes, demand = analysis.recommendation, analysis.fixes, analysis.consumption
    supply, layout = analysis.judged_samples_per_s, analysis.judged_layout
    is_today = layout is not None and layout == analysis.options.current
    rows: list[tuple[str, Estimate, str, str]] = []
    if demand is not None:
        rows.append(("demand", demand.samples_per_s, "demand", _source_of_demand(analysis)))
    if supply is not None and layout is not None and not analysis.cannot_run:
        rows.append(("today" if is_today else "supply", supply, "supply", _told(analysis, layout, supply)))
    if plan is not None and is_today and plan.layout != layout:
        rate = plan.predicted_samples_per_s
        rows.append(("plan", rate, "plan", _told(analysis, plan.layout, rate)))
    then = None if fixes is None or not fixes.codes else fixes.today if is_today else fixes.plan
    if then is not None:
        rate = then.predicted_samples_per_s
        rows.append(("fixed", rate, "plan", _told(analysis, then.layout, rate)))
    most = max((rate.estimate for _, rate, _, _ in rows if math.isfinite(rate.estimate)), default=0.0)
    return Bars(
        rows=tuple(
            Bar(
                label=label,
                ratio=min(max(rate.estimate / most, 0.0), 1.0) if most > 0 else 0.0,
                rate=format_rate(rate.estimate),
                tone=tone,
                text=one_line(said),
            )
            for label, rate, tone, said in rows
        )
    )


def _told(analysis: Analysis, layout: Layout, rate: Estimate) -> str:
    """Return `1x8x2 ±6 %, covers 37 %`: a launch, the half-width of its interval, and its share of the demand below 1."""
    within = "" if rate.low == rate.high else f" ±{format_ratio(rate.relative_half_width_ratio)}"
    covered = analysis.covered_by(rate)
    share = f", covers {format_ratio(covered.estimate)}" if covered is not None and covered.estimate < 1 else ""
    return f"{layout}{within}{share}"


def _source_of_demand(analysis: Analysis) -> str:
    demand = analysis.consumption
    if demand is None:
        return ""
    return f"{demand.system or ''} {demand.source.replace('_', ' ')}".strip()


def _to_know(analysis: Analysis) -> Pairs:
    """Return an early end, the currency of the rates, the fate of a script, and what to give if something lacks for an answer."""
    cut_short = "by Ctrl-C" if analysis.interrupted else one_line(analysis.budget.cut_short)
    facts = [("cut short", cut_short and f"{cut_short}; what was measured by then counts"), ("rates", factor_sentence(analysis))]
    if analysis.capture is not None:
        facts.append(("script", "run up to its input; its training never ran"))
    if analysis.consumption is None:
        facts.append(("to know", GIVE_A_DEMAND))
    if analysis.no_plan is not None and analysis.no_plan not in headline(analysis):
        facts.append(("launch", f"none is recommended: {analysis.no_plan}"))
    return pairs(facts)


def why(analysis: Analysis) -> tuple[Text, ...]:
    """Draw the ops in one line, and say which resource limits the judged launch, and which op at which line holds the worker."""
    limit, busiest = _limit(analysis), _busiest(analysis)
    at = _bottleneck(analysis)
    said = busiest if at is not None and limit == f"limited by {at.kind} {at.op}" else (limit, *busiest)
    strip = Text(text=strip_line(analysis, STRIP_COLUMNS), tone="strip")
    return tuple(part for part in (strip, *(Text(text=text) for text in said)) if part.text)


def _limit(analysis: Analysis) -> str:
    """Say what limits the judged launch; empty if that is the CPU of the workers, which the next line tells better."""
    plan = analysis.recommendation
    if plan is None or analysis.cannot_run:
        return ""
    limits = {row.layout: row.limited_by for row in plan.alternatives} | {plan.layout: plan.limited_by}
    limit = limits.get(analysis.verdict_layout or plan.layout, WORKER_CPU)
    if limit == WORKER_CPU:
        return ""
    storage = analysis.cluster.storage_bytes_per_s
    gives = f", {format_bytes_per_s(storage)} ({plan.storage})" if limit == SHARED_STORAGE and storage is not None else ""
    return f"limited by {planned.limit_text(limit)}{gives}"


def _busiest(analysis: Analysis) -> tuple[str, ...]:
    """Say which station of a worker is at its limit, then where the CPU goes if that names another op."""
    first, profile = _bottleneck(analysis), costs.shown_profile(analysis)
    costliest = None if profile is None else costs.costliest_op(profile)
    said = []
    if first is not None:
        said.append(costs.station_sentence(first))
    if profile is not None and (first is None or costliest is None or costliest.name != first.op):
        said.append(costs.costliest_sentence(profile))
    return tuple(said)


def _bottleneck(analysis: Analysis) -> Station | None:
    """Return the station of a worker that is at its limit; None if none is."""
    first = analysis.stations[0] if analysis.stations else None
    return first if first is not None and first.utilization_ratio >= BUSY_RATIO else None


def _fixes(analysis: Analysis, cards: tuple[Card, ...]) -> tuple[Part, ...]:
    """Return the fixes with the largest gains as changes of the code, and what they do together; else what to look at first.

    Where the accelerator may wait, findings about the form of the elements come last.
    """
    others = tuple(card for card in cards if card.code not in WRONG_TRAINING and not _tells_busy_host(card))
    if analysis.verdict != "accelerator_bound":
        others = tuple(sorted(others, key=lambda card: not card.gain and card.code in OF_FORM))
    shown = (tuple(card for card in others if card.gain or not card.is_folded) or others)[:FIXES_SHOWN]
    more = len(others) - len(shown)
    parts: list[Part] = [replace(card, is_brief=True) for card in shown]
    parts.append(Text(text=findings.together(analysis)))
    parts.append(Text(text=f"{counted(more, 'more finding')} in the full report (report --full)" if more else "", tone="note"))
    if shown or not analysis.measurements:
        return tuple(parts) if shown else ()
    if bool(_limit(analysis)) and analysis.verdict != "accelerator_bound":
        return (Text(text="none: what limits it lies outside of the input function"),)
    return (Text(text="none: no finding that makes it faster"),)


def launch_title(analysis: Analysis) -> str:
    """Return `Launch, recommended` only for a launch that feeds the demand."""
    plan = analysis.recommendation
    if plan is None or plan.meets_demand is None:
        return "Launch"
    if wrong_training(analysis.findings):
        return "Launch, when the points below are settled"
    return "Launch, recommended" if plan.meets_demand else f"Best launch: it {feeding(plan)}"


def brief_launch(analysis: Analysis) -> tuple[Part, ...]:
    """Return the launch in three numbers and one line, with the tasks that would do as well."""
    plan, consumption, options = analysis.recommendation, analysis.consumption, analysis.options
    if plan is None:
        return ()
    names = ("nodes", "tasks_per_node", "cpus_per_task")
    parts: list[Part] = [Facts(pairs=tuple((name, str(getattr(plan, name))) for name in names), is_large=True)]
    parts.append(Text(text="" if plan.meets_demand is not False else f"it {feeding(plan)}: no launch here does better"))
    parts.append(Text(text=tasks_sentence(analysis), tone="note"))
    if plan.kept_from is not None:
        fresh = "the same" if plan.fresh == plan.layout else str(plan.fresh)
        said = f"; a fresh plan would be {fresh} (--fresh)" if plan.fresh is not None else ""
        parts.append(Text(text=one_line(f"kept from the run of {plan.kept_from.created_at[:16]}{said}"), tone="note"))
    if plan.launch is not None:
        named = f"{analysis.cluster.name} {analysis.cluster.source} {options.train_command or ''}".lower()
        line = Copyable(label="On any Slurm cluster", text=plan.launch.srun)
        if (consumption is not None and consumption.system is not None) or "csrun" in named or "cerebras" in named:
            line = Copyable(label="On a Cerebras cluster", text=plan.launch.csrun_wse)
        parts.append(line)
    return (*parts, *line_notes(plan))


def line_notes(plan: LaunchPlan) -> tuple[Text, ...]:
    """Return `launch_notes` as paragraphs."""
    return tuple(Text(text=note, tone="note") for note in launch_notes(plan))


def launch_notes(plan: LaunchPlan) -> tuple[str, ...]:
    """Return what to know before a launch line is pasted: that it is not the file's, or lacks a secret."""
    lacks = f"{MASK} stands for a secret, which is not saved: put it in before you start this"
    is_masked = plan.launch is not None and MASK in plan.launch.csrun_wse + plan.launch.srun
    return (*filter(None, [plan.launch_note]), *((lacks,) if is_masked else ()))


def _before(analysis: Analysis) -> tuple[Text, ...]:
    """Return a line for each finding of wrong training."""
    wrong = wrong_training(analysis.findings)
    said = [
        f"! {one.code} {' '.join(filter(None, (short_source(one.source), one_line(one.message))))}"
        f"{f' → {one_line(one.fix)}' if one.fix else ''}"
        for one in wrong[:WRONG_SHOWN]
    ]
    if len(wrong) > WRONG_SHOWN:
        said.append(f"! {counted(len(wrong) - WRONG_SHOWN, 'more finding')} of this kind below")
    return tuple(Text(text=text, tone="danger") for text in said)


def _surer(analysis: Analysis, file: str) -> Pairs:
    """Return what would make the answer surer: a quieter host first, then options with the interval that they give."""
    busy = next((one for one in analysis.findings if _tells_busy_host(one)), None)
    found = list(planned.unknowns(analysis, file))
    if busy is not None:
        longer = format_count(2 * analysis.options.max_seconds)
        found.insert(0, ("an idle host", f"{one_line(busy.message)}; repeat on an idle node, or with --max-seconds {longer}"))
    return pairs(found)[:UNKNOWNS_SHOWN]
