"""What each figure of the page means: shown on hover and focus."""

from __future__ import annotations

import re

# By the label that stands beside the figure, where that does not say it itself. Columns of tables bring their own meaning.
MEANINGS = {
    # the verdict and the launch
    "supply": "samples per second that the input workers of the judged launch deliver together, predicted from what was measured",
    "demand": "samples per second that the accelerator takes when it never waits for input",
    "predicted": "samples per second that the launch will deliver, with its 90 % interval",
    "limited by": "the resource that runs out first: add to it for more",
    "input workers": "tasks that read and send samples; the chief and the single-task nodes do not",
    "memory": "private: held by a worker alone; PSS: shared pages divided among their holders; peak RSS: the most it ever held",
    "storage": "whether the ceiling of the shared file system is known, and how",
    "extrapolation": "how far the plan lies outside of what was measured; 1 is inside, and the interval grows with it",
    "accelerator": "share of the time in which the accelerator will work rather than wait, by replaying the measured batches",
    "nodes": "machines of the launch, those that run a single task included",
    "tasks_per_node": "processes that each node starts; each is one input worker",
    "cpus_per_task": "CPUs that each of them gets",
    # findings
    "evidence": "the numbers that the finding rests on",
    "gain": "rate with the fix over rate without, measured side by side; 1 is no change",
    "standing": "whether the fix was tried, and what came of it",
    "all fixes": "every fix that gains more than noise, applied together",
    "then": "the launch that would feed the accelerator with those fixes",
    # measured
    "sample time": "what the time of a sample is made of, told apart by runs that differ in one thing",
    "batch gaps": "time between two batches: half, 95 % and 99 % of them stay under p50, p95 and p99",
    "contention": "how much of its own rate a worker keeps when others run beside it",
    "stragglers": "workers that stayed clearly behind the middle one",
    "page cache": "share of the files that this host held in memory: those need no storage",
    "readers alone": "the pipeline cut after its readers: what nothing behind them can exceed",
    "redirected": "caches and snapshots that were kept out of your folders while measuring",
    "stood in for": "modules that are not installed; your code did without them",
    "consumes": "samples per second that the accelerator takes, with its 90 % interval",
    "node's CPU": "speed of one CPU of a node beside one of the host that measured",
    "SMT": "whether two CPUs share one core",
    # how it was measured
    "steady state": "the window that was used, after the start was cut off by the MSER-5 rule",
    "AUTOTUNE": "whether TensorFlow was still changing buffers and parallelism inside the window",
    "outliers": "gaps between batches beyond three interquartile ranges (Tukey's far fence)",
    "epoch gap": "time lost where a pass over the data ends and the next begins",
    "noise": "how quiet the host was: what others took away, and how far fresh processes differ",
    "launches": "how far one launch may lie from the next: the state of a host, which all its workers share",
    "not measured": "what did not fit into the time; never guessed",
    "left out": "what this page holds less of than the run it shows",
}


def slug(text: str) -> str:
    """Letters, digits, `_` and `-` of a text, for an anchor."""
    return re.sub(r"[^A-Za-z0-9_]+", "-", text).strip("-")[:60] or "x"
