"""What several files of this folder need: a folder on a disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from cs_input_analyzer.host.mounts import file_system_of

# File systems on Linux whose pages `posix_fadvise` drops; on others these tests could only fail for the wrong reason.
EVICTABLE = ("btrfs", "ext3", "ext4", "f2fs", "xfs")


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A folder on a disk. Skips where the tests' folder is in memory, in layers, or on a network."""
    kind, _ = file_system_of(str(tmp_path))
    if kind not in EVICTABLE:
        pytest.skip(f"{tmp_path} is on {kind}; set --basetemp to a folder on a disk")
    return tmp_path
