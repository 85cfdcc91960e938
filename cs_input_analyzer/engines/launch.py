"""Define the interface of an engine, and run a launch: its workers build, sample together, and are collected.

Engines differ only in their transport.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from cs_input_analyzer.engines.collecting import Collected, LaunchResult, launch_result
from cs_input_analyzer.model.tf_config import announced_addresses, of_worker
from cs_input_analyzer.records import Layout
from cs_input_analyzer.worker.journal import Order, WorkPlan
from cs_input_analyzer.worker.summary import Killed

SHORTEST_WINDOW_S = 0.3
# Is given what a launch has measured, while its first worker still does what comes after the window.
OnSampled = Callable[[LaunchResult], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchOrder:
    """Hold the order for all workers of a launch. It is sent once.

    Attributes:
        addresses: the chief's, then those of all announced workers.
        workers: the number of workers of the launch.
        left_s: seconds until the workers are ended.
    """

    plan: WorkPlan
    addresses: tuple[str, ...]
    workers: int
    left_s: float

    def of(self, rank: int) -> Order:
        """Return the order of one worker."""
        index = self.plan.worker_indices[rank]
        return Order(
            plan=self.plan,
            worker_index=index,
            tf_config=of_worker(self.addresses, index),
            is_first=rank == 0,
            is_alone=self.workers == 1,
            left_s=self.left_s,
        )


class LaunchHandle(Protocol):
    """Refer to started workers: they are importing TensorFlow, or wait for their order."""

    @property
    def layout(self) -> Layout:
        """Return the launch that was asked for."""


class Launcher(Protocol):
    """Start and run workers. `close` ends everything that the engine ever started."""

    @property
    def nodes(self) -> int:
        """Return the largest number of nodes of a launch."""

    def now_s(self) -> float:
        """Return the time on the launcher's clock, in seconds."""

    def free_bytes(self) -> int:
        """Return the memory that workers on one node can use now."""

    def starting_s(self, workers: int) -> float:
        """Return the expected seconds until this number of workers has imported TensorFlow."""

    def start(self, layout: Layout) -> LaunchHandle:
        """Start the workers of one launch. Return at once."""

    def run(self, handle: LaunchHandle, plan: WorkPlan, on_sampled: OnSampled | None = None) -> LaunchResult:
        """Send the order, wait for all workers, and collect. Raise LaunchError if the engine itself fails.

        Args:
            on_sampled: is called before the end if the first worker has more to do than sampling, and the engine can tell by then.
        """

    def close(self) -> None:
        """End all workers and remove all files."""


class Transport(LaunchHandle, Protocol):
    """Connect to the started workers of one launch."""

    @property
    def leaving_s(self) -> float:
        """Return the seconds between the end of the window and the deadline. In them workers end by themselves."""

    @property
    def hosts(self) -> Sequence[str]:
        """Return the host of each worker by rank. A shorter list is repeated."""

    def wait(self, kinds: tuple[str, ...], deadline_s: float, late: Killed = "deadline", *, is_first_only: bool = False) -> None:
        """Wait until each worker has written one of these events or has ended. Past the deadline, end late workers for `late`."""

    def order(self, order: LaunchOrder) -> None:
        """Send the order to each worker."""

    def go(self, window_s: float) -> None:
        """Start the window of all workers, of this length."""

    def end(self, why: Killed) -> None:
        """End all workers."""

    def collect(self, plan: WorkPlan, *, is_interrupted: bool) -> Collected:
        """Wait for the end of all workers and return their results. Raise LaunchError if the engine lost all of them."""

    def so_far(self, plan: WorkPlan) -> Collected | None:
        """Return what the workers have measured while they run; None if that is not known before they end."""

    def close(self) -> None:
        """End the remaining processes of the launch, and remove its files."""


def run(
    workers: Transport,
    started: Sequence[Transport],
    plan: WorkPlan,
    start_timeout_s: float,
    on_sampled: OnSampled | None = None,
) -> LaunchResult:
    """Take the workers of a launch through all stages. `started`: all launches that the engine has started."""
    is_interrupted, starting_s = False, 0.0
    try:
        starting_s = build(workers, started, plan, start_timeout_s)
        sample(workers, plan, plan.deadline_s + starting_s)
        if plan.has_more:
            seen = None if on_sampled is None else workers.so_far(plan)
            if on_sampled is not None and seen is not None:
                on_sampled(launch_result(workers.layout, plan, seen, starting_s=starting_s, is_interrupted=False))
            workers.wait(("over", "failed"), plan.deadline_s + starting_s, is_first_only=True)
    except KeyboardInterrupt:
        is_interrupted = True
        workers.end("interrupt")
    try:
        collected = workers.collect(plan, is_interrupted=is_interrupted)
    finally:
        workers.close()
    return launch_result(workers.layout, plan, collected, starting_s=starting_s, is_interrupted=is_interrupted)


def build(workers: Transport, started: Sequence[Transport], plan: WorkPlan, start_timeout_s: float) -> float:
    """Order the workers to build their pipelines. Return the seconds until each has built or ended."""
    began_s = time.monotonic()
    latest_s = began_s + start_timeout_s
    for launch in started:  # another launch that still imports would take CPUs from this one
        launch.wait(("imported", "failed"), latest_s, "start")
    order = LaunchOrder(
        plan=plan,
        addresses=tuple(announced_addresses(workers.hosts, plan.num_workers)),
        workers=workers.layout.tasks,
        left_s=plan.deadline_s - began_s - workers.leaving_s,
    )
    workers.order(order)
    workers.wait(("built", "failed"), latest_s, "start")
    return time.monotonic() - began_s


def sample(workers: Transport, plan: WorkPlan, deadline_s: float) -> None:
    """Take workers with a built pipeline through the window. Return when each is done, gone or late."""
    workers.wait(("first_batch", "failed"), deadline_s)
    left_s = deadline_s - time.monotonic() - workers.leaving_s
    workers.go(max(SHORTEST_WINDOW_S, min(plan.max_window_s, left_s)))
    workers.wait(("done", "failed"), deadline_s)
