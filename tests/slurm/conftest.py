"""One Slurm for all tests of this folder; where there is none they are skipped, with the reason."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm.private_slurm import PrivateSlurm, missing, private_slurm


@pytest.fixture(scope="session")
def cluster() -> Iterator[PrivateSlurm]:
    reason = missing()
    if reason is not None:
        pytest.skip(f"no Slurm here: {reason}")
    folder = Path(tempfile.mkdtemp(prefix="slurm_", dir="/tmp"))  # short: sockets in it have paths of at most 107 bytes
    try:
        with private_slurm(folder) as running:
            yield running
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def slurm(cluster: PrivateSlurm, monkeypatch: pytest.MonkeyPatch) -> Iterator[PrivateSlurm]:
    """The cluster, for a test that leaves no job and no step on it."""
    monkeypatch.setenv("SLURM_CONF", str(cluster.conf))
    cluster.wait_for_idle()
    yield cluster
    left = cluster.jobs()
    if left:
        cluster.ask("scancel", *(line.split()[0] for line in left))
    assert not left, f"jobs left behind: {left}"
