"""The data are on this machine's own disk, and the plan has several nodes.

Every node that streams opens the same paths. A local file system, `/tmp` and `/dev/shm` above all, is another one on each node:
there the list of files is empty and the job fails at start, or it finds a stale copy.

Fix: put the dataset on the file system that all nodes mount and give that path; or copy it to the same local path on every node
before the job, which is faster where it fits.

A warning where Slurm named the nodes, so that this machine is one of them or stands beside them. For your information where they
were described by flags, a file or a preset: the data over there may be at another place.

Silent for a single node, on shared file systems, where the file system is of a type that may be either, and without files.
"""

from __future__ import annotations

from collections.abc import Iterator

from cs_input_analyzer.records import Case, Finding

# By the Filesystem Hierarchy Standard 3.0 and systemd's `file-hierarchy(7)`: each host's own, whatever lies below them elsewhere.
NODE_LOCAL = ("/tmp", "/var/tmp", "/dev/shm", "/run", "/proc")


def find(case: Case) -> Iterator[Finding]:
    nodes = case.plan.nodes if case.plan is not None else case.cluster.nodes
    files, storage = case.pipeline.files, case.storage
    directory = files.directory if files is not None else None
    if nodes < 2 or files is None or directory is None:
        return
    is_shared = storage.is_shared if storage is not None else None
    by_name = next((folder for folder in NODE_LOCAL if f"{directory}/".startswith(f"{folder}/")), None)
    if is_shared or (is_shared is None and by_name is None):
        return
    file_system = storage.file_system if storage is not None else None
    why = f"{by_name} is each node's own" if by_name else f"{file_system or 'it'} is a local file system"
    yield Finding(
        severity="warning" if "slurm" in case.cluster.source.lower() else "info",
        message=f"the plan has {nodes} nodes, but the data in {directory} are on this one only ({why})",
        evidence={"directory": directory, "file_system": file_system, "is_shared": is_shared, "nodes": nodes},
        fix="move the data to a file system that all nodes mount, or copy them to this path on every node",
    )
