"""Sample a dataset in this process as a worker does, its second look at costs included."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from cs_input_analyzer.records import Layout, PipelineGraph, Profile, SamplesPerElement
from cs_input_analyzer.worker.journal import Journal, JournalWriter, read_journal
from cs_input_analyzer.worker.summary import Ending, profile_from, worker_result


def profile_in(folder: Path, build: Callable[[Any], Any], *, batch: int, seconds: float = 2.0, look_s: float = 6.0) -> Profile:
    """The profile of what `build` makes of `tf.data.Dataset`."""
    import tensorflow as tf

    from cs_input_analyzer.tfdata import graph
    from cs_input_analyzer.worker.parts import look_again
    from cs_input_analyzer.worker.sampler import sample
    from cs_input_analyzer.worker.side_thread import Sampling

    with graph.recorded_sources() as log:
        dataset = build(tf.data.Dataset)
    counted = SamplesPerElement(value=batch, source="made so")
    pipeline = replace(graph.read_graph(dataset, log, target="t"), samples_per_element=counted)
    writer = JournalWriter(folder)
    writer.event("first_batch", first_batch_s=0.0, bytes=1, samples=batch)
    times = {"min_window_s": seconds, "max_window_s": seconds}
    sample(writer, Sampling(dataset=dataset, iterator=iter(dataset), ops=pipeline.ops, samples=counted, **times))
    look_again(writer, dataset, pipeline.ops, _profile(read_journal(folder), pipeline), look_s)
    return _profile(read_journal(folder), pipeline)


def _profile(journal: Journal, pipeline: PipelineGraph) -> Profile:
    worker = worker_result(journal, Ending(returncode=0, killed_for=None, output_tail=""), index=0, node="here")
    layout = Layout(nodes=1, tasks_per_node=1, cpus_per_task=len(os.sched_getaffinity(0)))
    profile = profile_from(journal, layout, pipeline, worker)
    assert profile is not None
    return profile
