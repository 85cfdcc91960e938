"""What sending costs, in a real process over a real socket."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import pytest

from cs_input_analyzer.errors import LaunchError
from cs_input_analyzer.worker import egress


@pytest.mark.tf
@pytest.mark.long
def test_sending_large_elements_costs_less_for_a_byte_and_leaves_nothing() -> None:
    before = threading.active_count()
    small, large = (egress.sending_cpu_s_per_byte(size, seconds=0.3) for size in (1_000, 2**22))
    assert 0 < large < small < 1e-3
    assert large < 1e-7
    assert threading.active_count() == before


@pytest.mark.parametrize(
    "instead",
    [
        "raise SystemExit('no TensorFlow')",
        "print('a line of the library')",
        "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1]))).close(); raise SystemExit(1)",
        "import time; time.sleep(60)",
    ],
)
def test_a_process_that_fails_or_hangs_is_told(instead: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = subprocess.run

    def ran(command: list[str], **options: Any) -> Any:
        return run([sys.executable, "-c", instead, *command[3:]], **(options | {"timeout": 2}))

    monkeypatch.setattr(subprocess, "run", ran)
    with pytest.raises(LaunchError, match="could not be measured"):
        egress.sending_cpu_s_per_byte(1000)
