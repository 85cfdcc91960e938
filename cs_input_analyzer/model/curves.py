"""The numbers behind the pictures of a report: points of curves, computed from the records of one run. Pure.

A report formats records and computes nothing, so the extra numbers of a picture are made here: the predicted rates of
launches around the plan, and the spread of batch times. The same run always gives the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from cs_input_analyzer.model import recommend
from cs_input_analyzer.model.recommend.problem import predicted_launch
from cs_input_analyzer.records import Analysis, Layout, Prediction

# How fine the pictures are: enough for the eye, and tenths of a second of predictions at most.
MOST_CURVE_TASKS, MOST_CURVE_NODES = 12, 36


def throughput_curve(analysis: Analysis) -> tuple[Prediction, ...]:
    """Return launches with the CPUs per task of the plan, by rising input workers: from one to all of the cluster.

    First the tasks of one node grow to those of the plan (on a cluster of one node: to all that fit), then the nodes.
    Launches that cannot run are left out. Return nothing without a plan or a capacity model.
    """
    plan, cluster = analysis.recommendation, analysis.cluster
    if plan is None or analysis.capacity is None:
        return ()
    cpus = plan.cpus_per_task
    fitting = max(1, cluster.cpus_per_node // max(cpus, 1))
    tasks = plan.tasks_per_node if cluster.nodes > 1 else max(plan.tasks_per_node, fitting)
    today = analysis.options.current
    shapes = [(1, count) for count in spread(1, tasks, MOST_CURVE_TASKS, (plan.tasks_per_node,))]
    marked = (plan.nodes, today.nodes if today is not None else plan.nodes)
    shapes += [(nodes, tasks) for nodes in spread(2, cluster.nodes, MOST_CURVE_NODES, marked)]
    layouts = [Layout(nodes=nodes, tasks_per_node=count, cpus_per_task=cpus) for nodes, count in shapes]
    of_run = analysis.capacity, analysis.consumption, cluster, analysis.options
    predictions = (predicted_launch(*of_run, layout) for layout in layouts)
    found = {prediction.input_workers: prediction for prediction in predictions if prediction.problem is None}
    return tuple(found[workers] for workers in sorted(found))


def feeds(prediction: Prediction, analysis: Analysis) -> bool | None:
    """Return whether it reaches the demand with headroom, as plans must; None without a demand."""
    return recommend.feeds(prediction.samples_per_s, analysis.consumption, analysis.options.headroom_ratio)


def spread(first: int, last: int, most: int, wanted: Iterable[int] = ()) -> tuple[int, ...]:
    """Return about `most` whole numbers at most, from `first` to `last`, evenly on a log scale, with the `wanted` ones inside."""
    if last < first:
        return ()
    if last - first < most:
        return tuple(range(first, last + 1))
    steps = {round(step) for step in np.geomspace(first, last, most)}
    return tuple(sorted({first, last} | steps | {number for number in wanted if first <= number <= last}))


MOST_BINS = 40
# Clocks give no shorter times; a gap of 0 has no place on a log scale.
SHORTEST_S = 1e-7
# A span below this is one value, as far as the eye is concerned.
LEAST_SPAN_RATIO = 1.02


@dataclass(frozen=True, slots=True, kw_only=True)
class GapBin:
    """Batches whose gap lies in [low_s, high_s). `share_ratio`: of all batches."""

    low_s: float
    high_s: float
    count: int
    share_ratio: float


def gap_bins(gaps_s: Sequence[float]) -> tuple[GapBin, ...]:
    """Bins of equal width on a log scale over all the gaps (seconds, at least 0); empty without any.

    Their number is the square root of that of the gaps, up to 40: enough to see a second mode, too few to see noise as one.
    """
    if not gaps_s:
        return ()
    logs = np.log(np.maximum(gaps_s, SHORTEST_S))
    widened = max(0.0, math.log(LEAST_SPAN_RATIO) - np.ptp(logs)) / 2
    bins = max(1, min(MOST_BINS, round(math.sqrt(len(logs)))))
    counts, edges = np.histogram(logs, bins, (logs.min() - widened, logs.max() + widened))
    ends = [math.exp(edge) for edge in edges]
    return tuple(
        GapBin(low_s=low, high_s=high, count=int(count), share_ratio=int(count) / len(logs))
        for low, high, count in zip(ends[:-1], ends[1:], counts, strict=True)
    )


def wanted_gap_s(analysis: Analysis) -> float | None:
    """Return the gap at which the workers of the plan just feed the accelerator; None without a demand, a plan or a batch size."""
    wanted, batch = wanted_worker_rate(analysis), analysis.pipeline.full_batch
    return batch / wanted if wanted and batch else None


def wanted_worker_rate(analysis: Analysis) -> float | None:
    """Return the samples per second that each worker of the plan must give; None without a demand or a plan."""
    plan, consumption = analysis.recommendation, analysis.consumption
    if plan is None or consumption is None or consumption.samples_per_s.estimate <= 0 or plan.input_workers < 1:
        return None
    return consumption.samples_per_s.estimate / plan.input_workers


# A rate further above the median than this is a burst: it does not set the scale of a picture.
BURST_RATIO = 3.0


def highest_usual(rates: Sequence[float]) -> float:
    """Return the highest rate that is no burst; 0 without any."""
    usual = median(rates) if rates else 0.0
    return max((rate for rate in rates if rate <= BURST_RATIO * usual), default=0.0)
