"""Several workers of one run -> who they are, who lags; and whether a log is of one run at all. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from cs_input_analyzer.records import Estimate, StepWorker
from cs_input_analyzer.run_logs.gather import Gathered
from cs_input_analyzer.run_logs.pace import pace_of
from cs_input_analyzer.run_logs.step_journal import Journal

# Below this part of the middle worker's rate. Under round-robin a group is as fast as its slowest, so a tenth matters.
STRAGGLER_RATIO = 0.9
# Writers without a label whose rates, or last steps, differ by more are not of one run.
APART_RATIO = 1.5


def workers_of(gathered: Gathered) -> tuple[StepWorker, ...]:
    """The workers, by name; empty where the files are of one alone."""
    if len(gathered.journals) > 1:
        found = [_of_journal(journal) for journal in gathered.journals]
    else:
        rates = gathered.performance.worker_samples_per_s if gathered.performance is not None else ()
        found = [StepWorker(name=f"ordinal {place}", samples_per_s=rate) for place, rate in enumerate(rates)]
    return _with_stragglers(tuple(sorted(found, key=lambda worker: (len(worker.name), worker.name)))) if len(found) > 1 else ()


def _of_journal(journal: Journal) -> StepWorker:
    writer = next(iter(journal.best.newest_writers()), None)
    pace = pace_of(writer, None, batch_size=journal.batch_size) if writer is not None else None
    steady = pace.steady_steps_per_s.estimate if pace is not None and pace.steady_steps_per_s is not None else None
    rate = writer.last("rate") if writer is not None else None
    return StepWorker(
        name=journal.worker or journal.path.parent.name,
        samples_per_s=steady * journal.batch_size if steady and journal.batch_size else rate,
        steps_per_s=steady,
        last_step=writer.last_step if writer is not None else None,
        wait_ratio=journal.wait_ratio.estimate if journal.wait_ratio is not None else None,
    )


def _with_stragglers(workers: tuple[StepWorker, ...]) -> tuple[StepWorker, ...]:
    known = [worker.samples_per_s for worker in workers if worker.samples_per_s is not None]
    if len(known) < 2:
        return workers
    limit = STRAGGLER_RATIO * (max(known) if len(known) == 2 else median(known))
    return tuple(
        replace(worker, is_straggler=worker.samples_per_s is not None and worker.samples_per_s < limit) for worker in workers
    )


def middle_wait(gathered: Gathered) -> Estimate | None:
    """The wait share that decides: of the worker in the middle; all of them wait for the slowest input in synchronous training."""
    shares = sorted((journal.wait_ratio for journal in gathered.journals if journal.wait_ratio), key=lambda one: one.estimate)
    return shares[len(shares) // 2] if shares else None


def missing_journals(gathered: Gathered) -> int:
    """Workers that the launch announced and that left no journal, but for one: the chief need not take input."""
    announced = max((journal.workers or 0 for journal in gathered.journals), default=0)
    return max(0, announced - 1 - len(gathered.journals))


def is_mixed(gathered: Gathered) -> bool:
    """Whether unlabelled writers of the log go at different paces, or by different rates: two runs in one file."""
    if gathered.log is None:
        return False
    writers = [writer for writer in gathered.log.newest_writers() if writer.rank is None]
    rates = [writer.last("global_rate") or writer.last("steps_per_s") for writer in writers]
    return _apart([rate for rate in rates if rate]) or _apart([writer.last_step for writer in writers if writer.last_step])


def _apart(values: Sequence[float]) -> bool:
    return len(values) > 1 and max(values) > APART_RATIO * min(values)
