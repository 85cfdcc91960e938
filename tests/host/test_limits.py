"""The limits of a shell (ulimit) that are too low for TensorFlow."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = "from cs_input_analyzer.host.limits import low_limits; print(low_limits())"


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ("-n 20", "20 open files (ulimit -n)"),
        ("-n 1024", ""),  # the default of most systems
        ("-v 1000000", "1,024,000,000 bytes of addresses (ulimit -v)"),
        ("-v 4000000000", ""),
        ("-t 60", "60 seconds of CPU time (ulimit -t)"),
        ("-t 36000", ""),
        ("-t 60 -n 20", "20 open files (ulimit -n) and 60 seconds of CPU time (ulimit -t)"),
    ],
)
def test_low_limits_are_named_and_others_are_not(limit: str, words: str) -> None:
    shell = f"ulimit -S {limit}; exec {sys.executable} -c '{CODE}'"
    said = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=True).stdout.strip()
    assert said == (f"this shell grants only {words}: TensorFlow may fail or run slower; raise it" if words else "")


def test_few_threads_count_for_all_but_the_superuser(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    from cs_input_analyzer.host.limits import low_limits

    monkeypatch.setattr(resource, "getrlimit", lambda kind: (30 if kind == resource.RLIMIT_NPROC else resource.RLIM_INFINITY, 0))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert "30 threads (ulimit -u)" in low_limits()
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert low_limits() == ""
