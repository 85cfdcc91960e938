"""The dataset is in a folder for temporary files.

`/tmp`, `/var/tmp` and `/dev/shm` are emptied by reboots, by cleaning jobs, and often at the end of a Slurm job. Where they are
held in memory (`tmpfs`), the dataset takes the memory that shuffle buffers and workers need, and a rate measured there is the
rate of memory, not that of the file system the training will read from.

Fix: measure and train from the path where the data will stay.

Silent elsewhere, where a network file system is mounted at that path, and where the plan has several nodes: then CSI310 reports it.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.records import Case, Finding
from cs_input_analyzer.units import format_bytes

TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm")
IN_MEMORY = ("tmpfs", "ramfs")


def find(case: Case) -> Iterator[Finding]:
    nodes = case.plan.nodes if case.plan is not None else case.cluster.nodes
    files, storage = case.pipeline.files, case.storage
    directory = files.directory if files is not None else None
    if files is None or directory is None or nodes > 1 or (storage is not None and storage.is_shared):
        return
    folder = next((folder for folder in TEMPORARY if f"{directory}/".startswith(f"{folder}/")), None)
    if folder is None:
        return
    file_system = storage.file_system if storage is not None else None
    is_memory = file_system in IN_MEMORY or folder == "/dev/shm"
    effect = f" and takes {format_bytes(files.bytes)} of this host's memory" if is_memory else ""
    yield Finding(
        severity="info",
        message=f"the dataset is in {folder}, a folder for temporary files{effect}; training may read from a slower place",
        evidence={"directory": directory, "file_system": file_system, "bytes": files.bytes},
        fix="measure from the path that training will read",
    )
