"""What each figure of the page means: shown on hover and focus."""

from __future__ import annotations

import re

# By the label that stands beside the figure, where that does not say it itself. Columns of tables bring their own meaning.
MEANINGS = {
    # the verdict and the launch
    "supply": "samples per second that the input workers of the judged launch deliver together, predicted from what was measured",
    "demand": "samples per second that the accelerator takes when it never waits for input",
    "predicted": "samples per second that the launch will deliver, with its 90 % interval",
    "memory": "private: held by a worker alone; PSS: shared pages divided among their holders; peak RSS: the most it ever held",
    "extrapolation": "how far the plan lies outside of what was measured; 1 is inside, and the interval grows with it",
    "nodes": "machines of the launch, those that run a single task included",
    "tasks_per_node": "processes that each node starts; each is one input worker",
    "cpus_per_task": "CPUs that each of them gets",
    # findings
    "gain": "rate with the fix over rate without, measured side by side; 1 is no change",
    # measured
    "batch gaps": "time between two batches: half, 95 % and 99 % of them stay under p50, p95 and p99",
    "page cache": "share of the files that this host held in memory: those need no storage",
    "readers alone": "the pipeline cut after its readers: what nothing behind them can exceed",
    "node's CPU": "speed of one CPU of a node beside one of the host that measured",
    # how it was measured
    "steady state": "the window that was used, after the start was cut off by the MSER-5 rule",
    "noise": "how quiet the host was: what others took away, and how far fresh processes differ",
}


def slug(text: str) -> str:
    """Letters, digits, `_` and `-` of a text, for an anchor."""
    return re.sub(r"[^A-Za-z0-9_]+", "-", text).strip("-")[:60] or "x"
