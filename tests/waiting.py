"""Waits for what other processes do, with patience that only a hang exhausts."""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil

PATIENCE_S = 120.0


def comes(condition: Callable[[], object]) -> bool:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.02)
    return True


def is_running(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
