"""What all monitors of a training offer their users."""

from __future__ import annotations

import weakref
from contextlib import AbstractContextManager
from types import TracebackType

from cs_input_analyzer.monitoring.settings import Settings
from cs_input_analyzer.monitoring.summary import Summary
from cs_input_analyzer.monitoring.verdict import Verdict
from cs_input_analyzer.monitoring.watch import Watch


class Monitor:
    """A monitor of one training. Each kind of it calls `_begin` once and then feeds `_watch`."""

    _watch: Watch

    def _begin(self, settings: Settings) -> None:
        self._watch = Watch(settings)
        # For a training that never says that it is over: at the latest when Python ends.
        self._at_the_end = weakref.finalize(self, self._watch.close)

    def checkpoint(self) -> AbstractContextManager[None]:
        """Around whatever saves a checkpoint: `with monitor.checkpoint(): model.save(…)`. That time counts against nobody."""
        return _Checkpoint(self._watch)

    @property
    def verdict(self) -> Verdict:
        """Whether the training waits for its input, as far as known by now."""
        return self.summary().verdict

    def summary(self) -> Summary:
        """All that was seen so far."""
        return self._watch.summary()

    def close(self) -> None:
        """Writes what is left and closes the files. The training goes on, unwatched."""
        self._at_the_end.detach()
        self._watch.close()


class _Checkpoint(AbstractContextManager[None]):
    """Marks a checkpoint: the moment of the call, and in a `with` statement how long it takes."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._began_s = watch.now()
        watch.checkpoint(self._began_s, self._began_s)

    def __enter__(self) -> None:
        self._began_s = self._watch.now()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._watch.checkpoint(self._began_s, self._watch.now())
