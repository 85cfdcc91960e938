"""The part that all monitors of a training share."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cs_input_analyzer.runs.settings import settings_of
from cs_input_analyzer.runs.verdict import Verdict
from cs_input_analyzer.runs.watch import Watch
from cs_input_analyzer.units import format_rate, in_a_line


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One monitored run so far.

    Attributes:
        samples: handed to the training; None if they cannot be counted.
        rate_per_s, global_per_s: Rate and GlobalRate, samples per second; None until seen.
    """

    steps: int
    samples: float | None
    rate_per_s: float | None
    global_per_s: float | None
    verdict: Verdict

    def __str__(self) -> str:
        return str(self.verdict)


class Monitor:
    """A monitor of one training. Each kind of it calls `_begin` once and then feeds `_watch`.

    A copy, by `copy`, `deepcopy` or `pickle`, watches anew, with the same arguments and a record of its own.
    """

    _watch: Watch

    def _begin(self, source: str, *arguments: Any, options: Mapping[str, Any], **keywords: Any) -> None:
        """Start watching.

        Args:
            arguments, keywords: of this kind of monitor alone, with which a copy is made.
            options: those of `settings.Settings`.
        """
        self._watch = Watch(settings_of(source=source, **options))
        self._again = functools.partial(type(self), *arguments, **keywords, **options)
        # For a training that never says that it is over: at the latest when Python ends.
        self._at_the_end = weakref.finalize(self, self._watch.close)

    def __repr__(self) -> str:
        seen = self._watch.seen
        rate = "no rate yet" if seen is None else format_rate(seen.rate_per_s)
        return in_a_line(f"{type(self).__name__} step {self._watch.steps}: {rate}")

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return self._again, ()

    @contextmanager
    def checkpoint(self) -> Iterator[None]:
        """Surround the saving of a checkpoint: `with monitor.checkpoint(): model.save(…)`.

        That time counts neither as training nor as wait.
        """
        began_s = self._watch.now()
        try:
            yield
        finally:
            self._watch.mark("checkpoint", began_s=began_s)

    @property
    def verdict(self) -> Verdict:
        """Return whether the training waits for its input, as far as known by now."""
        return self.summary().verdict

    def summary(self) -> Summary:
        """Return what was seen so far."""
        watch = self._watch
        watch.bring_up_to_date()
        seen = watch.seen
        return Summary(
            steps=watch.steps,
            samples=watch.samples,
            rate_per_s=seen.rate_per_s if seen else None,
            global_per_s=seen.global_per_s if seen else None,
            verdict=watch.verdict,
        )

    def close(self) -> None:
        """Write what is left and close the files. The training goes on, unwatched."""
        self._at_the_end.detach()
        self._watch.close()
