"""A launcher without processes: it invents what each layout delivers, and its clock moves only when it runs something."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from cs_input_analyzer.engines import LaunchResult, WorkerFailure, WorkPlan
from cs_input_analyzer.engines.launch import OnSampled
from cs_input_analyzer.records import Candidate, Layout, PipelineGraph
from cs_input_analyzer.trial.fixes import Outcome, Outcomes
from tests.builders import make_graph, make_measurement, make_profile

Rate = Callable[[Layout, int, int], float | None]
"""(layout, num_workers, worker index) -> samples/s of that worker, None where it is lost."""


@dataclass(frozen=True, slots=True)
class FakeLaunchHandle:
    layout: Layout


def _tried(candidates: Sequence[Candidate]) -> Outcomes | None:
    return Outcomes(each=(Outcome(is_proven=True, reason="tried"),) * len(candidates), is_over=True)


@dataclass(slots=True)
class FakeLauncher:
    """`ran` lists what was run, in order; `import_s` and the window pass for each; Ctrl-C meets launch `interrupt_inside`; `tell`
    says what a worker found out of fixes."""

    rate: Rate
    pipeline: PipelineGraph = field(default_factory=make_graph)
    files: tuple[tuple[str, int], ...] = ()
    failure: WorkerFailure | None = None
    import_s: float = 3.0
    clock_s: float = 0.0
    ran: list[tuple[str, WorkPlan]] = field(default_factory=list)
    on_run: Callable[[int], None] = lambda count: None
    interrupt_inside: int | None = None
    tell: Callable[[Sequence[Candidate]], Outcomes | None] = _tried
    nodes: int = 1
    memory_bytes: int = 1 << 40

    def now_s(self) -> float:
        return self.clock_s

    def free_bytes(self) -> int:
        return self.memory_bytes

    def starting_s(self, workers: int) -> float:
        return self.import_s

    def start(self, layout: Layout) -> FakeLaunchHandle:
        return FakeLaunchHandle(layout)

    def run(self, handle: FakeLaunchHandle, plan: WorkPlan, on_sampled: OnSampled | None = None) -> LaunchResult:  # type: ignore[override]
        self.on_run(len(self.ran))
        self.ran.append((str(handle.layout), plan))
        self.clock_s += self.import_s + plan.max_window_s
        rates = [self.rate(handle.layout, plan.num_workers, index) for index in plan.worker_indices]
        measurement = make_measurement(
            handle.layout,
            rates,
            num_workers=plan.num_workers,
            cache_state=plan.cache,
            role=plan.role,
            why=plan.why,
            page_cache_ratio=0.0 if plan.cache == "cold" else 1.0,
        )
        cpus = handle.layout.cpus_per_task
        workers = tuple(
            replace(
                worker,
                # No worker uses more CPUs than it has.
                cpu_s_per_sample=worker.samples_per_s and min(worker.cpu_s_per_sample or 0.0, cpus / worker.samples_per_s.estimate),
            )
            for worker in measurement.workers
        )
        measurement = replace(measurement, workers=workers)
        is_lost = all(rate is None for rate in rates)
        return LaunchResult(
            measurement=measurement,
            pipeline=None if is_lost else self.pipeline,
            files=self.files,
            profile=None if is_lost else make_profile(layout=handle.layout),
            failure=self.failure if is_lost else None,
            starting_s=self.import_s,
            transient_s=0.1,
            is_interrupted=self.interrupt_inside == len(self.ran) - 1,
            outcomes=self.tell(plan.candidates) if plan.candidates else None,
        )

    def close(self) -> None:
        """Nothing is held."""
