"""A cache, snapshot or save of this pipeline writes files, and was measured elsewhere.

Measuring never touches your files: the target was a private folder that is gone now. So the window shows the first pass, which
writes the cache, and not the later passes, which read it.

Fix: none is needed. To measure the passes that read, let a training run finish the cache once: a complete one is read in place.

Silent where nothing is written, or the cache is complete.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.records import Case, Finding


def find(case: Case) -> Iterator[Finding]:
    if not case.pipeline.redirected:
        return
    op = next((op for op in case.pipeline.ops if op.kind in ("Cache", "Snapshot", "Save")), None)
    yield Finding(
        severity="info",
        message=f"writes to {', '.join(case.pipeline.redirected)} went to a private folder; the rate is that of a first pass",
        op=op.name if op else None,
        evidence={"paths": len(case.pipeline.redirected)},
    )
