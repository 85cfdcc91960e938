"""What all monitors of a training offer their users."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cs_input_analyzer.monitoring.settings import Settings
from cs_input_analyzer.monitoring.verdict import Verdict
from cs_input_analyzer.monitoring.watch import Watch


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One monitored run so far.

    Attributes:
        samples: handed to the training; None where they cannot be counted.
        rate_per_s, global_per_s: Rate and GlobalRate, samples per second; None until seen.
        advice: which launch would help; empty without a saved analysis, or where nothing is wrong.
        phases_s: seconds by phase.
    """

    steps: int
    samples: float | None
    rate_per_s: float | None
    global_per_s: float | None
    verdict: Verdict
    advice: str
    phases_s: Mapping[str, float]

    def __str__(self) -> str:
        return self.verdict.text(self.advice)


class Monitor:
    """A monitor of one training. Each kind of it calls `_begin` once and then feeds `_watch`.

    A copy, by `copy`, `deepcopy` or `pickle`, watches anew, with the same arguments and a record of its own.
    """

    _watch: Watch

    def _begin(self, settings: Settings, *arguments: Any, **keywords: Any) -> None:
        """`arguments`, `keywords`: what a copy is made with."""
        self._watch = Watch(settings)
        self._again = functools.partial(type(self), *arguments, **keywords)
        # For a training that never says that it is over: at the latest when Python ends.
        self._at_the_end = weakref.finalize(self, self._watch.close)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return self._again, ()

    @contextmanager
    def checkpoint(self) -> Iterator[None]:
        """Around whatever saves a checkpoint: `with monitor.checkpoint(): model.save(…)`. That time counts against nobody."""
        began_s = self._watch.now()
        try:
            yield
        finally:
            self._watch.mark("checkpoint", began_s=began_s)

    @property
    def verdict(self) -> Verdict:
        """Whether the training waits for its input, as far as known by now."""
        return self.summary().verdict

    def summary(self) -> Summary:
        """All that was seen so far."""
        watch = self._watch
        watch.bring_up_to_date()
        seen = watch.seen
        return Summary(
            steps=watch.steps,
            samples=watch.samples,
            rate_per_s=seen.rate_per_s if seen else None,
            global_per_s=seen.global_per_s if seen else None,
            verdict=watch.verdict,
            advice=watch.advice,
            phases_s=dict(watch.accounting.phases_s),
        )

    def close(self) -> None:
        """Writes what is left and closes the files. The training goes on, unwatched."""
        self._at_the_end.detach()
        self._watch.close()
