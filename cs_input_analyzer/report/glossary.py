"""What each figure of the page means: shown on hover and focus, and listed at the end of the page."""

from __future__ import annotations

import re

__all__ = ["MEANINGS", "Glossary", "slug"]

# By the label that stands beside the figure. Columns of tables bring their own meaning.
MEANINGS = {
    # the verdict and the launch
    "supply": "samples per second that the input workers of the judged launch deliver together, predicted from what was measured",
    "demand": "samples per second that the accelerator takes when it never waits for input",
    "to know": "what to give so that the question can be answered",
    "why": "what decided",
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
    "at": "the line of your code, and the op that it makes",
    "evidence": "the numbers that the finding rests on",
    "fix": "what to change",
    "gain": "rate with the fix over rate without, measured side by side; 1 is no change",
    "standing": "whether the fix was tried, and what came of it",
    "all fixes": "every fix that gains more than noise, applied together",
    "then": "the launch that would feed the accelerator with those fixes",
    # measured
    "sample time": "what the time of a sample is made of, told apart by runs that differ in one thing",
    "batch gaps": "time between two batches: half, 95 % and 99 % of them stay under p50, p95 and p99",
    "contention": "how much of its own rate a worker keeps when others run beside it",
    # several nodes
    "stragglers": "workers that stayed clearly behind the middle one",
    "begin": "how far apart the workers began",
    "note": "what the engine that started the workers had to say",
    # storage
    "directory": "where the files lie",
    "file system": "its type, as the kernel names it",
    "dataset": "bytes of all files that the pipeline reads",
    "page cache": "share of the files that this host held in memory: those need no storage",
    "eviction": "whether that cache could be emptied",
    "readers alone": "the pipeline cut after its readers: what nothing behind them can exceed",
    # pipeline
    "target": "the input function, as it was named",
    "element": "what one element of the pipeline holds",
    "batch size": "samples in one element",
    "files": "that an unsharded worker would read",
    "redirected": "caches and snapshots that were kept out of your folders while measuring",
    "stood in for": "modules that are not installed; your code did without them",
    # wafer
    "consumes": "samples per second that the accelerator takes, with its 90 % interval",
    "known from": "where the numbers come from",
    "wafer": "the system, and how the network runs on it",
    # cluster
    "node's CPU": "speed of one CPU of a node beside one of the host that measured",
    "SMT": "whether two CPUs share one core",
    "memory bandwidth": "bytes per second that a node moves to and from memory",
    "network": "what a node can send, and receive, at once",
    # how it was measured
    "host": "the machine that measured",
    "steady state": "the window that was used, after the start was cut off by the MSER-5 rule",
    "AUTOTUNE": "whether TensorFlow was still changing buffers and parallelism inside the window",
    "outliers": "gaps between batches beyond three interquartile ranges (Tukey's far fence)",
    "epoch gap": "time lost where a pass over the data ends and the next begins",
    "noise": "how quiet the host was: what others took away, and how far fresh processes differ",
    "launches": "how far one launch may lie from the next: the mood of a host, which all its workers share",
    "own cost": "what the measuring itself takes for each batch",
    "budget": "where the seconds of this run went",
    "not measured": "what did not fit into them; never guessed",
    "left out": "what this page holds less of than the run it shows",
    "feed": "in turn: the accelerator waits for the slowest worker; first come: it takes whichever batch is ready",
    "buffers": "batches that a worker has ready, or is making, before it must wait",
}


class Glossary:
    """The terms of one page, in the order in which they were met, each with an anchor of its own."""

    def __init__(self) -> None:
        self._anchors: dict[tuple[str, str], str] = {}

    def anchor(self, label: str, meaning: str) -> str:
        """Where the term is explained. The same word with another meaning is another term."""
        key = (" ".join(label.split()), meaning)
        if key not in self._anchors:
            plain = f"term-{slug(key[0])}"
            taken = set(self._anchors.values())
            self._anchors[key] = next(name for name in _numbered(plain, len(taken)) if name not in taken)
        return self._anchors[key]

    @property
    def entries(self) -> list[tuple[str, str, str]]:
        """Label, meaning and anchor, by label."""
        return sorted(
            ((label, meaning, anchor) for (label, meaning), anchor in self._anchors.items()), key=lambda e: (e[0].lower(), e[2])
        )


def _numbered(name: str, count: int) -> list[str]:
    return [name, *(f"{name}-{number}" for number in range(2, count + 3))]


def slug(text: str) -> str:
    """Letters, digits, `_` and `-` of a text, for an anchor."""
    return re.sub(r"[^A-Za-z0-9_]+", "-", text).strip("-")[:60] or "x"
