"""The data could not be read to the end.

A record in the middle of a file failed its checksum, a file was cut short, or a function of the pipeline raised on one element.
What was measured before it stands, but training would stop here too: `tf.data` gives no element after an error.

Fix: write the named file again from its source, or give the user of the job permission to read it. `dataset.ignore_errors()` hides
the loss, and hides it every epoch.

Silent when every worker read without an error.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.records import Case, Finding


def find(case: Case) -> Iterator[Finding]:
    seen: set[str] = set()
    for measurement in case.measurements:
        for worker in measurement.workers:
            _, _, what = worker.message.partition(": ")  # without the number of batches, which differs from run to run
            if worker.status != "data_error" or what in seen:
                continue
            seen.add(what)
            yield Finding(
                severity="error",
                message=f"worker {worker.index} met an element that cannot be read, {worker.message}",
                evidence={"worker": worker.index, "layout": str(measurement.layout)},
                fix=f"{_fix(worker.message)}; training stops at this element too",
            )


def _fix(message: str) -> str:
    if "Permission denied" in message:
        return "give the user of the job permission to read the named file"
    if "something writes to it" in message:
        return "let whatever writes the named file finish first, and read only files that are complete"
    if "No space left" in message:
        return "free some space, or set TMPDIR to another folder: file caches and snapshots go there while measuring"
    return "write the damaged file again from its source"
