"""What every engine offers: start workers (they import TensorFlow), then run them over one layout together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from cs_input_analyzer.records import Estimate, Layout, Measurement, PipelineGraph, Profile
from cs_input_analyzer.trial.fixes import Outcomes
from cs_input_analyzer.worker.journal import WorkPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFailure:
    """Why no worker of a launch gave a rate. `stage`: `load`, `import`, `build`, `first_batch`, `hang`, `exit`,
    `sampling`, `fault` (a mistake of ours), `version` (this TensorFlow lacks what we need),
    `journal` (what it measured could not be written down), `worker`, `engine` (what started it ended it).
    """

    stage: str
    kind: str
    message: str
    details: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchResult:
    """One launch, over: its numbers, what the first worker saw of the pipeline, and the failure where nothing came out.

    Attributes:
        files: paths and sizes of the files that the first worker's pipeline names, in order of their paths.
        starting_s: from the call of `run` until the workers had imported TensorFlow and built their pipelines.
        is_interrupted: Ctrl-C ended it; what the workers had measured by then is here.
        outcomes: of the plan's candidates, in their order; None where an engine does not try them.
    """

    measurement: Measurement
    pipeline: PipelineGraph | None
    files: tuple[tuple[str, int], ...]
    profile: Profile | None
    failure: WorkerFailure | None
    starting_s: float
    transient_s: float
    source_samples_per_s: Estimate | None = None
    is_interrupted: bool = False
    outcomes: Outcomes | None = None


class LaunchHandle(Protocol):
    """Workers that were started and are importing TensorFlow, or wait for their order."""

    @property
    def layout(self) -> Layout: ...


class Launcher(Protocol):
    """An engine. `close` ends everything it ever started; nothing is left behind."""

    @property
    def nodes(self) -> int:
        """How many nodes a layout may have."""

    def now_s(self) -> float:
        """The launcher's clock, seconds."""

    def free_bytes(self) -> int:
        """Return the memory that workers on one node can use now."""

    def starting_s(self, workers: int) -> float:
        """Seconds that so many workers, started side by side, are expected to take until they have imported TensorFlow."""

    def start(self, layout: Layout) -> LaunchHandle:
        """Starts the workers of one layout; returns at once."""

    def run(self, handle: LaunchHandle, plan: WorkPlan) -> LaunchResult:
        """Gives the order, waits for all workers, collects. Raises LaunchError when the engine itself fails."""

    def close(self) -> None:
        """Ends all workers, removes all files."""
