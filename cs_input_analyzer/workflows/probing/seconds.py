"""The time of one analysis: its parts, the rest, the length of a window, and the measurements that did not fit."""

from __future__ import annotations

from collections.abc import Sequence

from cs_input_analyzer.engines import Launcher
from cs_input_analyzer.errors import UsageError
from cs_input_analyzer.records import Budget, Layout, Options
from cs_input_analyzer.units import format_seconds

# Seconds of a launch that are not its sampling: building, the first batch, tracing the loop, leaving.
LAUNCH_OVERHEAD_S = 1.5
# The first launch also runs the readers alone, and after it the storage is looked at.
FIRST_EXTRA_S = 3.0
MIN_WINDOW_S = 1.0
# A rate of fewer batches may show the content of the buffers. (16 workers of an eighth of a CPU each, two batches a second,
# in a window of one second: 2.5 times their rate.)
LEAST_BATCHES = 8
# The storage by itself gets at most this much, and this share of the time that is left.
STORAGE_S = 3.0
STORAGE_SHARE_RATIO = 0.1
# If snapshots left CPU that belongs to no op, parts of the pipeline run alone: at most this long, and this share of all.
LOOK_S, LOOK_SHARE_RATIO = 6.0, 0.1
# Windows of later rounds are as short as a comparison allows: more processes tell more than longer windows.
ROUND_WINDOW_S = 2.5
# Time of fixes side by side: less shows nothing, more adds little.
LEAST_FIXES_S = 8.0
LONGEST_FIXES_S = 36.0
# The share that is reserved for fixes from the beginning, until no rule proposes any. If it is too little for one fix, it grows
# up to the larger share. `tune` has a share of its own, because fixes are its purpose.
FIXES_SHARE_RATIO = 0.25
MOST_FIXES_SHARE_RATIO = 1 / 3
TUNING_SHARE_RATIO = 0.4
# Launches before the fixes end later than planned by this much.
LATE_S = 3.0
# Sampling before them, only because a worker begins with it.
FIXES_WINDOW_S = 0.5


class Seconds:
    """The budget of `--max-seconds`, on the launcher's clock. `transient_s` to `fixes_s` is what was spent; who spends it adds it.

    The budget is for measuring: until the workers of the first launch have built their pipelines its clock stands still. What later
    launches take to start is part of it, as they are more than an answer needs.
    """

    def __init__(self, options: Options, launcher: Launcher, *, is_tuning: bool = False) -> None:
        self.transient_s = self.probes_s = self.storage_s = self.fixes_s = 0.0
        self.cut_short = ""
        self._total_s = options.max_seconds
        self._wants_fixes = options.measure_fixes
        self._share_ratio = TUNING_SHARE_RATIO if is_tuning else FIXES_SHARE_RATIO
        self._most_share_ratio = max(MOST_FIXES_SHARE_RATIO, self._share_ratio)
        self._launcher = launcher
        self._kept_s = 0.0
        self._not_measured: list[str] = []
        self._starting_s = 0.0
        self._began_s = launcher.now_s()

    @property
    def deadline_s(self) -> float:
        """Return the deadline of the whole run, on the launcher's clock."""
        return self._began_s + self._starting_s + self._total_s

    @property
    def probes_deadline_s(self) -> float:
        """Return the deadline of everything except fixes, on the launcher's clock."""
        return self.deadline_s - self._kept_s

    @property
    def left_s(self) -> float:
        """Until everything but fixes must end."""
        return self.probes_deadline_s - self._launcher.now_s()

    @property
    def left_for_fixes_s(self) -> float:
        """For the sampling of fixes in one fresh worker, which begins now; below `LEAST_FIXES_S` it says nothing."""
        return min(LONGEST_FIXES_S, self.left_s + self._kept_s - self._fixes_overhead_s)

    @property
    def look_s(self) -> float:
        """For a second look at the costs of ops, in the worker that was just sampled."""
        return min(LOOK_S, LOOK_SHARE_RATIO * self._total_s)

    @property
    def left_for_storage_s(self) -> float:
        """For looking at the file system without TensorFlow: there is no process to start, so little is enough. 0 is too little."""
        return min(STORAGE_S, self.left_s * STORAGE_SHARE_RATIO) if self.left_s >= STORAGE_S else 0.0

    @property
    def least_s(self) -> float:
        """Return the least time in which something useful can be measured."""
        return LAUNCH_OVERHEAD_S + self._launcher.starting_s(1) + MIN_WINDOW_S

    @property
    def spent_ratio(self) -> float:
        """Return the share of the time that is spent."""
        return min(1.0, (self._launcher.now_s() - self._began_s - self._starting_s) / self._total_s)

    def has_started(self, seconds: float) -> None:
        """So long was spent on starting the first launch."""
        self._starting_s += seconds

    def keep_for_fixes(self) -> None:
        """End everything else early enough from now on for trying fixes, if the whole budget allows that."""
        kept_s = max(self._share_ratio * self._total_s, self._least_fixes_s)
        if self._wants_fixes and kept_s <= self._most_share_ratio * self._total_s:
            self._kept_s = kept_s

    def keep_nothing_for_fixes(self) -> None:
        """Give the time that was kept for fixes to everything else: no rule proposes any."""
        self._kept_s = 0.0

    def window_s(self, launches_left: int, import_s: float, longest_s: float, *, slowest_gap_s: float, is_first: bool) -> float:
        """Return an equal share of the remaining time, with a reserve for one more round.

        Longer budgets give longer windows; slow batches get as long as some of them take.

        Args:
            import_s: start time of the launch.
            slowest_gap_s: batch gap of the slowest worker so far; 0 if there was none.
            is_first: nothing was measured yet.
        """
        some_batches_s = min(LEAST_BATCHES * slowest_gap_s, self._total_s / 6)
        longest_s = max(min(longest_s, max(ROUND_WINDOW_S, self._total_s / 15)), some_batches_s)
        kept_s = import_s + (self._launcher.starting_s(1) if launches_left > 1 else 0.0) + (FIRST_EXTRA_S if is_first else 0.0)
        return min(longest_s, max(MIN_WINDOW_S, (self.left_s - kept_s) / launches_left - LAUNCH_OVERHEAD_S))

    def suffice_for(self, what: str, more_s: float = 0.0) -> bool:
        """Return whether a launch that takes `more_s` longer than the shortest has time; note its purpose if it has not."""
        if self.left_s < self.least_s + more_s:
            self.leave_out(what)
            return False
        return True

    def leave_out(self, what: str) -> None:
        """Note something that could not be measured or planned; once."""
        if what not in self._not_measured:
            self._not_measured.append(what)

    def budget(self) -> Budget:
        """Return the seconds that each part took."""
        return Budget(
            import_s=self._starting_s,
            transient_s=self.transient_s,
            probes_s=max(0.0, self.probes_s - self.transient_s),
            storage_s=self.storage_s,
            fixes_s=self.fixes_s,
            total_s=self._launcher.now_s() - self._began_s,
            not_measured=tuple(self._not_measured),
            cut_short=self.cut_short,
        )

    @property
    def _least_fixes_s(self) -> float:
        """For one worker that tries fixes, however few."""
        return LEAST_FIXES_S + self._fixes_overhead_s + LATE_S

    @property
    def _fixes_overhead_s(self) -> float:
        return self._launcher.starting_s(1) + LAUNCH_OVERHEAD_S + FIXES_WINDOW_S


def shortest_round_s(layouts: Sequence[Layout], launcher: Launcher) -> float:
    """Return the seconds that a round of these layouts takes at least."""
    starting_s = launcher.starting_s(sum(layout.tasks for layout in layouts))
    return starting_s + len(layouts) * (LAUNCH_OVERHEAD_S + MIN_WINDOW_S)


def check_round(layouts: Sequence[Layout], launcher: Launcher, max_seconds: float, sides: int = 1) -> None:
    """Raise UsageError if there is no time for one round of each of the `sides`."""
    workers, needed_s = sum(layout.tasks for layout in layouts), sides * shortest_round_s(layouts, launcher)
    if needed_s > max_seconds:
        of = "both" if sides > 1 else "these layouts"
        raise UsageError(
            f"--max-seconds {max_seconds:g}: one round of {of}, {sides * workers} workers, takes about {format_seconds(needed_s)}; "
            "give more time, or fewer --layouts"
        )
